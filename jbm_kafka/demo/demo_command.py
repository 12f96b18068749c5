"""`jbm-kafka demo`: plays the bookstore, then proves from the topics what happened."""

import time
from collections.abc import Sequence

import click
from rich.console import Console
from rich.table import Table

from jbm_kafka.cli.broker_to_try import broker
from jbm_kafka.cli.cluster_options import cluster_options
from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.cli.command_options import Whole
from jbm_kafka.cli.ending import unwind_when_asked_to_end
from jbm_kafka.demo.bookstore import Names, day, is_poison, new_run, refusals
from jbm_kafka.demo.check import Figure, check
from jbm_kafka.demo.demo_error import WrongFiguresError
from jbm_kafka.demo.evidence import gather
from jbm_kafka.demo.run import RunSummary, check_exists, play
from jbm_kafka.demo.spark_report import figures, show, spark_needed, spark_report

POISON_NEEDED = 8
"""With fewer customers there is no order that nobody can fulfil."""

PLAIN_WIDTH = 120
"""Where no terminal says how wide it is."""


@click.command()
@click.option("--customers", metavar="N", type=Whole(POISON_NEEDED, 300), default=300, show_default=True,
              help="8 to 300; fewer make a shorter run.")  # fmt: skip
@click.option("--no-spark", is_flag=True, help="Leave Spark's report out.")
@click.option("--check", "checked_run", metavar="RUN", help="Only check the topics of an earlier run once more.")
@cluster_options
def demo(customers: int, no_spark: bool, checked_run: str | None, cluster: Cluster) -> None:
    """The bookstore, end to end: competing workers, a kill, redelivery, a dead letter; and the proof.

    Where no cluster is named, on the local broker, which is started if need be.
    """
    unwind_when_asked_to_end()
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = PLAIN_WIDTH
    if not no_spark:
        spark_needed()
    lines = day(customers)
    with broker(cluster, console) as reached:
        names = Names(checked_run) if checked_run is not None else new_run()
        if checked_run is not None:
            check_exists(reached, names)
        console.print(f"the bookstore, run {names.run}, on Kafka at {reached.bootstrap}")
        started_s = time.monotonic()
        if checked_run is None:
            _introduce(lines, console)
            _print_summary(play(reached, names, lines, console), console)
        found = check(lines, gather(reached, names))
        if not no_spark:
            console.print("Spark reads the same topics ...")
            report = spark_report(reached, names)
            show(report, names, console)
            poison = sum(1 for line in lines if is_poison(line))
            found += figures(report, names, messages=len(lines), letters=poison)
        _show_figures(found, console)
        wrong = [figure for figure in found if not figure.is_right]
        if wrong:
            raise WrongFiguresError(
                "the figures are wrong: " + "; ".join(f"{f.name}: {f.found}, not {f.wanted}" for f in wrong)
            )
        console.print(f"[green]all figures are right[/], {time.monotonic() - started_s:.0f} s")
        console.print(
            f"its queues stay for a while: jbm-kafka show {names.orders}; jbm-kafka dead-letters list", soft_wrap=True
        )


def _introduce(lines: Sequence[dict[str, object]], console: Console) -> None:
    orders = sum(1 for line in lines if line["kind"] == "order")
    units = len({line["customer"] for line in lines})
    flaky = sum(1 for line in lines if refusals(line))
    console.print(
        f"{orders} orders and {len(lines) - orders} cancellations of {units} customers, each customer a unit of order; "
        f"the bank refuses {flaky} orders twice, and one order can never be fulfilled"
    )


def _print_summary(run: RunSummary, console: Console) -> None:
    taken = "" if run.takeover_ms is None else f"; others went on with its work {run.takeover_ms / 1000:.1f} s later"
    console.print(f"played in {run.seconds:.0f} s; {run.killed} was killed after {run.done_by_killed} orders{taken}")


def _show_figures(found: Sequence[Figure], console: Console) -> None:
    table = Table(title="Computed from the topics", title_justify="left", title_style="bold")
    for column in ("", "found", "must be", ""):
        table.add_column(column, justify="right" if column in ("found", "must be") else "left", overflow="fold")
    for figure in found:
        verdict = "[green]right[/]" if figure.is_right else "[red]WRONG[/] " + ", ".join(figure.examples)
        table.add_row(figure.name, str(figure.found), str(figure.wanted), verdict)
    console.print(table)
