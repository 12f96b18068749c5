"""`jbm-kafka admit-partitions | end-paths`: more partitions for a queue or topic in use (UNIT-11)."""

from collections.abc import Iterator
from contextlib import contextmanager

import click

from jbm_kafka.cli.cluster_options import cluster_options
from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.cli.command_options import Seconds, Whole, emit, json_option
from jbm_kafka.cli.connect import Named, admin_of, as_named, name_of
from jbm_kafka.cli.ending import Interrupted, unwinding
from jbm_kafka.registry.unit_paths import SETTLED_AFTER_S

wait_option = click.option("--wait", "wait_s", metavar="S", type=Seconds(0), default=SETTLED_AFTER_S,
                           help="Seconds until no sender goes by the old any more. [130]")  # fmt: skip


@contextmanager
def _told_how_to_go_on() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted("the same again goes on; jbm-kafka show tells of it until then") from None


def _tell(text: str) -> None:
    """Print at once what is waited for: two minutes without a word look like a command that hangs."""
    click.echo(f"{text}; Ctrl-C is safe: run it again to go on", err=True)


@click.command(name="admit-partitions")
@click.argument("destination", callback=as_named, metavar="NAME")
@click.option("--partitions", metavar="N", type=Whole(1, 10_000),
              help="So many, which the topic gets. [as many as it has]")  # fmt: skip
@click.option("--force", is_flag=True, help="At once: the order of the units that wait is given up.")
@wait_option
@cluster_options
@json_option
def admit_partitions(
    destination: Named, partitions: int | None, force: bool, wait_s: float, cluster: Cluster, as_json: bool
) -> None:
    """Route the units of a queue or topic by more partitions, while it is in use. A unit that waits stays where it is.

    It takes two minutes, in which nobody is held up. If it was killed or interrupted, again: `jbm-kafka show` tells of
    one that has not ended.
    """
    with admin_of(cluster) as admin:
        name = name_of(destination)
        with _told_how_to_go_on(), unwinding():
            before, now = admin.admit_partitions(
                destination, partitions=partitions, force=force, wait_s=wait_s, tell=_tell
            )
        kept = len(admin.unit_paths(name))
    values: dict[str, object] = {"name": name, "before": before, "partitions": now, "paths": kept}
    text = f"units are routed by {now} partitions" + ("" if before == now else f", not by {before} any more")
    if kept:
        keep = "1 unit keeps its partition" if kept == 1 else f"{kept} units keep their partition"
        text += f"; {keep} until: jbm-kafka end-paths {name}"
    emit(values, f"{name}: {text}", as_json=as_json)


@click.command(name="end-paths")
@click.argument("destination", callback=as_named, metavar="NAME")
@wait_option
@cluster_options
@json_option
def end_paths(destination: Named, wait_s: float, cluster: Cluster, as_json: bool) -> None:
    """Route units by their hash again that kept their partition, as far as nothing of them is left."""
    with admin_of(cluster) as admin:
        done = admin.end_paths(destination, wait_s=wait_s, tell=_tell)
    name = name_of(destination)
    units = "1 unit is where its hash says" if done.ended == 1 else f"{done.ended} units are where their hash says"
    values: dict[str, object] = {"name": name, "ended": done.ended, "left": done.left}
    left = (
        f"; {done.left} still keep{'s its' if done.left == 1 else ' their'} partition, for something of "
        f"{'it' if done.left == 1 else 'them'} is held, or was sent meanwhile: when that was received, again"
        if done.left
        else ""
    )
    emit(values, f"{name}: {units} again{left}", as_json=as_json)
