"""`jbm-kafka bench`: measures, prints tables, writes JSON."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import click
from rich.console import Console

from jbm_kafka import compiled
from jbm_kafka.bench.bench_report import as_json, print_tables
from jbm_kafka.bench.plan import QUICK, Plan
from jbm_kafka.bench.shapes import SHAPES
from jbm_kafka.cli.cluster_options import ClusterUsageError, check_own_broker, cluster_options
from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.cli.command_options import Seconds, Whole
from jbm_kafka.cli.connect import contact
from jbm_kafka.cli.ending import unwind_when_asked_to_end
from jbm_kafka.core.destination import NAMESPACE_LENGTH_MAX
from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.devbroker import LocalBroker
from jbm_kafka.devbroker.broker_jars import kafka_version

MISSED = 1
OWN_NAMESPACE_LENGTH = 15
"""The length of a name by `new_namespace` and the dot in front."""

RESULTS = Path("bench-results")
"""Where figures are written by default."""


@click.command()
@click.option("--shape", "shapes", type=click.Choice(list(SHAPES)), multiple=True, help="Only this one; repeatable.")
@click.option("--repeats", type=Whole(1), metavar="N", help="How often each is measured. [5, quick: 2]")
@click.option(
    "--rate",
    "rates",
    type=Whole(1),
    metavar="N",
    multiple=True,
    help="Messages a second of the shape latency; repeatable. [1000 and 5000]",
)
@click.option(
    "--patience",
    type=Seconds(0),
    metavar="S",
    help="How many seconds to wait for a machine that does nothing else; less and less where it is always busy. [30]",
)
@click.option("--quick", is_flag=True, help="Smaller sizes, in under a minute; targets are meant for the full ones.")
@click.option(
    "--json",
    "json_path",
    type=click.Path(dir_okay=False, path_type=Path),
    default=RESULTS / "latest.json",
    show_default=True,
    help="Where everything measured is written.",
)
@click.option("--check", is_flag=True, help="Exit with 1 when a target is missed.")
@cluster_options
def bench(
    shapes: tuple[str, ...],
    repeats: int | None,
    rates: tuple[int, ...],
    patience: float | None,
    quick: bool,
    json_path: Path,
    check: bool,
    cluster: Cluster,
) -> int:
    """Throughput, latency and the cost of a held unit, beside Kafka's own clients on the same broker.

    Where no cluster is named, on a fresh local broker, started for the run and removed after it.
    """
    plan = QUICK if quick else Plan()
    plan = replace(
        plan,
        repeats=plan.repeats if repeats is None else repeats,
        latency_rates=rates or plan.latency_rates,
        quiet_patience_s=plan.quiet_patience_s if patience is None else patience,
    )
    console = Console()
    make_folder_of(json_path)
    with broker_to_measure(cluster) as (reached, version):
        console.print(f"[dim]on Kafka at {reached.bootstrap}[/dim]", highlight=False)
        results = [
            measure_shape(reached, plan, lambda text: console.print(f"[dim]{text}[/dim]", highlight=False))
            for name, measure_shape in SHAPES.items()
            if not shapes or name in shapes
        ]
    print_tables(results, console)
    if not compiled.are_used():
        console.print("the hot modules were not compiled for this run: `make setup` does it", highlight=False)
    said = as_json(results, plan, kafka=version, is_own_broker=not cluster.is_named)
    json_path.write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")
    console.print(f"everything measured is in {json_path}", highlight=False)
    missed = [judgement.name for result in results for judgement in result.judgements if not judgement.passed]
    return MISSED if check and missed else 0


def make_folder_of(path: Path) -> None:
    """Check the folder for the figures before anything is measured, for that takes minutes.

    It is made where it stands in the usual place; any other that is not there is misspelt, more likely.

    Raises:
        JMSError: it is not there, or cannot be made.
    """
    is_usual = path.parent == RESULTS
    if not (is_usual or path.parent.is_dir()):
        raise JMSError(f"--json {path}: there is no folder {path.parent}; make it, or name another file")
    try:
        path.parent.mkdir(exist_ok=True)
    except OSError as error:
        raise JMSError(f"--json {path}: its folder cannot be made: {error.strerror}; name another file") from None


@contextmanager
def broker_to_measure(wanted: Cluster) -> Iterator[tuple[Cluster, str]]:
    """The Kafka to measure on, and its version."""
    if len(wanted.namespace) > NAMESPACE_LENGTH_MAX - OWN_NAMESPACE_LENGTH:
        raise ClusterUsageError(
            f"namespace {wanted.namespace!r} is too long here: the benchmark makes others in it; use at most "
            f"{NAMESPACE_LENGTH_MAX - OWN_NAMESPACE_LENGTH} characters, or --namespace ''"
        )
    if not check_own_broker(wanted):
        contact(wanted, remedy="leave --bootstrap out to measure on a broker of its own")
        yield wanted, "?"
        return
    unwind_when_asked_to_end()
    with tempfile.TemporaryDirectory(prefix="jbm-bench-") as folder, LocalBroker(folder) as broker:
        yield replace(wanted, bootstrap=broker.bootstrap), kafka_version()
