"""`jbm-kafka create | list | show`: queues, and what they hold, computed from their topics and changelogs."""

from collections.abc import Sequence
from dataclasses import asdict

import click

from jbm_kafka.admin import PartitionCounts, QueueCounts
from jbm_kafka.cli.cluster_options import cluster_options
from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.cli.connect import admin_of, as_queue
from jbm_kafka.cli.options import Whole, emit, json_option
from jbm_kafka.cli.render import json_line, table, when
from jbm_kafka.core.destination import Queue

UNKNOWN = "?"
"""In hand: only the processes that receive know."""


@click.command()
@click.argument("queue", callback=as_queue, metavar="NAME")
@click.option("--partitions", metavar="N", type=Whole(1, 10_000),
              help="1 to 10000: as many processes can share it; fixed from then on. [16]")  # fmt: skip
@cluster_options
@json_option
def create(queue: Queue, partitions: int | None, cluster: Cluster, as_json: bool) -> None:
    """Create a queue: a Kafka topic, and a changelog beside it. One that is there as asked is left alone."""
    with admin_of(cluster) as admin:
        is_new = admin.create_queue(queue.name, partitions=partitions)
        count = len(admin.counts(queue).partitions)
    word = "created" if is_new else "exists already"
    values: dict[str, object] = {"name": queue.name, "created": is_new, "partitions": count}
    emit(values, f"{queue} {word}, {count} partitions", as_json=as_json)


@click.command(name="admit-partitions")
@click.argument("queue", callback=as_queue, metavar="NAME")
@click.option("--force", is_flag=True, help="Also while messages wait: the order of their units is given up.")
@cluster_options
@json_option
def admit_partitions(queue: Queue, force: bool, cluster: Cluster, as_json: bool) -> None:
    """Route a queue's units by the partitions its topic has now, after Kafka's tools added some; it must be empty."""
    with admin_of(cluster) as admin:
        before, now = admin.admit_partitions(queue, force=force)
    values: dict[str, object] = {"name": queue.name, "before": before, "partitions": now}
    text = f"units are routed by {now} partitions" + ("" if before == now else f", not by {before} any more")
    emit(values, f"{queue}: {text}", as_json=as_json)


@click.command(name="list")
@cluster_options
@json_option
def list_queues(cluster: Cluster, as_json: bool) -> None:
    """List the queues with what they hold. Nothing is received, nothing written."""
    with admin_of(cluster) as admin:
        found = [admin.counts(queue) for queue in admin.destinations()]
    if as_json:
        click.echo(json_line([_summary(counts) for counts in found]))
        return
    if not found:
        click.echo(f"no queues at {cluster.bootstrap}; make one with: jbm-kafka create NAME")
        return
    rows = [(c.name, len(c.partitions), _held(c), c.delayed, c.retried, c.members, when(c.oldest_at_ms)) for c in found]
    table(("queue", "partitions", "held", "delayed", "retried", "receivers", "oldest (UTC)"), rows)


@click.command()
@click.argument("queue", callback=as_queue, metavar="NAME")
@click.option("--all-partitions", is_flag=True, help="Also those that hold nothing.")
@cluster_options
@json_option
def show(queue: Queue, all_partitions: bool, cluster: Cluster, as_json: bool) -> None:
    """Show one queue, and what each of its partitions holds. Nothing is received, nothing written.

    With --json all partitions are there.
    """
    with admin_of(cluster) as admin:
        counts = admin.counts(queue)
    if as_json:
        parts = [{**asdict(part), "held_at_most": part.held_at_most} for part in counts.partitions]
        click.echo(json_line({**_summary(counts), "by_partition": parts}))
        return
    in_hand = "only its receivers know how many are in hand" if counts.in_hand is None else "none in hand"
    delayed = f", {counts.delayed} delayed" if counts.delayed else ""
    retried = f", {counts.retried} tried before" if counts.retried else ""
    click.echo(f"{queue}: {_held(counts)} held{delayed}{retried}; {counts.members} receivers, {in_hand}")
    click.echo(f"consumer group {counts.group}")
    if counts.for_operator:
        click.echo(
            f"{counts.for_operator} are out of attempts and held, each with its unit (on_dead_letter='hold'); "
            f"jbm-kafka browse {queue.name} --all shows them"
        )
    if counts.expired:
        click.echo(f"{counts.expired} have expired, and leave for the expiry address as soon as somebody receives")
    if counts.misplaced:
        click.echo(
            f"{counts.misplaced} are in another partition than their unit's hash says: a client hashes keys otherwise, "
            f"and its units are processed beside ours; set partitioner=murmur2_random there (README)"
        )
    _show_partitions(counts.partitions if all_partitions else [p for p in counts.partitions if p.held_at_most], counts)
    for part in counts.partitions:
        if part.uncommitted:
            click.echo(
                f"partition {part.partition}: {part.uncommitted} records from offset {part.end} on wait for the end of "
                f"a Kafka transaction; if for long: kafka-transactions.sh find-hanging (docs/topics.md)"
            )


def _show_partitions(shown: Sequence[PartitionCounts], counts: QueueCounts) -> None:
    rows = [
        (p.partition, p.held_at_most, p.delayed, p.retried, p.settled_to, p.end, when(p.oldest_at_ms)) for p in shown
    ]
    if rows:
        table(("partition", "held", "delayed", "retried", "settled to", "end", "oldest (UTC)"), rows)
    empty = len(counts.partitions) - len(shown)
    if empty:
        which = (
            "the only partition holds"
            if len(counts.partitions) == 1
            else f"{empty} of {len(counts.partitions)} partitions hold"
        )
        click.echo(f"{which} nothing (--all-partitions shows all)")


def _held(counts: QueueCounts) -> str:
    return str(counts.held) if counts.is_exact else f"up to {counts.held}"


def _summary(counts: QueueCounts) -> dict[str, object]:
    return {
        "name": counts.name,
        "partitions": len(counts.partitions),
        "held": counts.held,
        "held_is_exact": counts.is_exact,
        "delayed": counts.delayed,
        "retried": counts.retried,
        "for_operator": counts.for_operator,
        "expired": counts.expired,
        "misplaced": counts.misplaced,
        "in_hand": counts.in_hand,
        "receivers": counts.members,
        "oldest_at_ms": counts.oldest_at_ms,
        "group": counts.group,
    }
