"""`jbm-kafka create | list | show`: queues, and what they hold, computed from their topics and changelogs."""

from collections.abc import Sequence
from dataclasses import asdict

import click

from jbm_kafka.admin import PartitionCounts, QueueCounts
from jbm_kafka.admin.explain.reasons import NO_CHANGELOG, subscription_words
from jbm_kafka.cli.cluster_options import cluster_options
from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.cli.command_options import Whole, emit, json_list_option, json_option, subscription_options
from jbm_kafka.cli.connect import Named, admin_of, as_named, as_new, looked_into
from jbm_kafka.cli.pause_commands import pause_text, pause_values
from jbm_kafka.cli.render import at_most, json_line, table, when
from jbm_kafka.cli.truncate_command import kept_words, show_keepers
from jbm_kafka.core.destination import Queue, Topic

UNKNOWN = "?"
"""In hand: only the processes that receive know."""


@click.command()
@click.argument("queue", callback=as_new, metavar="NAME")
@click.option("--partitions", metavar="N", type=Whole(1, 10_000),
              help="1 to 10000: as many processes can share it; fixed from then on. [16]")  # fmt: skip
@click.option("--topic", "is_topic", is_flag=True, help="A topic, whose subscriptions get each message.")
@cluster_options
@json_option
def create(queue: Queue | Topic, partitions: int | None, is_topic: bool, cluster: Cluster, as_json: bool) -> None:
    """Create a queue: a Kafka topic, and a changelog beside it. One that is there as asked is left alone.

    `topic:NAME` is as NAME with --topic.
    """
    made = Topic(queue.name) if is_topic else queue
    with admin_of(cluster) as admin:
        make = admin.create_topic if isinstance(made, Topic) else admin.create_queue
        is_new = make(queue.name, partitions=partitions)
        count = admin.partitions(made)
    values: dict[str, object] = {"name": queue.name, "kind": made.kind, "created": is_new, "partitions": count}
    size = "1 partition" if count == 1 else f"{count} partitions"
    emit(values, f"{made} {'created' if is_new else 'exists already'}, {size}", as_json=as_json)


@click.command(name="list")
@cluster_options
@json_list_option
def list_queues(cluster: Cluster, as_json: bool) -> None:
    """List the queues with what they hold, and the topics. Nothing is received, nothing written.

    `jbm-kafka subscriptions list` shows what the subscriptions of topics hold.
    """
    with admin_of(cluster) as admin:
        destinations = admin.destinations()
        found = [admin.counts(queue) for queue in destinations if isinstance(queue, Queue)]
        topics = [(t, admin.partitions(t), admin.paused(t)) for t in destinations if isinstance(t, Topic)]
    if as_json:
        values = [_summary(counts) for counts in found]
        values += [
            {"name": topic.name, "kind": topic.kind, "partitions": count, "paused": pause_values(topic.name, pause)}
            for topic, count, pause in topics
        ]
        click.echo(json_line(values))
        return
    if not destinations:
        within = f" in namespace {cluster.namespace!r}" if cluster.namespace else ""
        click.echo(f"no queues or topics{within} at {cluster.bootstrap}; make one with: jbm-kafka create NAME")
        return
    if not cluster.is_named:  # another broker of this machine may be meant
        click.echo(f"Kafka at {cluster.bootstrap} (no other was named)", err=True)
    rows: list[Sequence[object]] = [
        (c.name, "queue", len(c.partitions), _held(c), c.delayed, c.retried, c.members, when(c.oldest_at_ms))
        for c in found
    ]
    rows += [(topic.name, "topic", count, *[""] * 5) for topic, count, _ in topics]
    table(("name", "kind", "partitions", "held", "delayed", "retried", "receivers", "oldest (UTC)"), rows)
    for counts in found:
        _list_beside(counts)
    for name, pause in [*((c.name, c.pause) for c in found), *((t.name, pause) for t, _, pause in topics)]:
        if pause:
            click.echo(f"{name}: {pause_text(pause)}")
    for counts in found:
        if counts.uncommitted:
            click.echo(f"{counts.name}: {_waiting(counts.uncommitted)}; {_whose(counts)}")


def _list_beside(counts: QueueCounts) -> None:
    """Print what somebody should see to, and no column of the list has."""
    if not counts.has_changelog:
        click.echo(f"{counts.name}: {NO_CHANGELOG}")
    if counts.parked_lost != 0:
        click.echo(f"{counts.name}: {_lost(counts)}")
    if not counts.next_partitions and 0 < counts.unit_partitions < len(counts.partitions):
        click.echo(
            f"{counts.name}: units are routed by {counts.unit_partitions} of its {len(counts.partitions)} partitions: "
            f"what is sent with a unit is refused until: jbm-kafka admit-partitions {counts.name}"
        )
    if counts.for_operator:
        click.echo(f"{counts.name}: {counts.for_operator} on hold; jbm-kafka explain {counts.name} tells why")


@click.command()
@click.argument("destination", callback=as_named, metavar="DEST")
@click.option("--all-partitions", is_flag=True, help="Also those that hold nothing.")
@subscription_options
@cluster_options
@json_option
def show(
    destination: Named,
    all_partitions: bool,
    subscription: str | None,
    client_id: str,
    cluster: Cluster,
    as_json: bool,
) -> None:
    """Show one queue, and what each of its partitions holds. Nothing is received, nothing written.

    With --subscription a topic's subscription.

    With --json all partitions are there.
    """
    with admin_of(cluster) as admin:
        counts = admin.counts(destination, subscription=subscription, client_id=client_id)
        log = admin.truncate(destination, dry_run=True)
    if as_json:
        parts = [{**asdict(part), "held_at_most": part.held_at_most} for part in counts.partitions]
        kind = "queue" if subscription is None else "subscription"
        click.echo(json_line({**_summary(counts), "kind": kind, "by_partition": parts, "log": asdict(log)}))
        return
    in_hand = "only its receivers know how many are in hand" if counts.in_hand is None else "none in hand"
    delayed = f", {counts.delayed} delayed" if counts.delayed else ""
    retried = f", {counts.retried} retried" if counts.retried else ""
    receivers = f"{counts.members} receiver{'' if counts.members == 1 else 's'}"
    click.echo(
        f"{looked_into(destination, subscription)}: {_held(counts)} held{delayed}{retried}; {receivers}, {in_hand}"
    )
    click.echo(f"consumer group {counts.group}")
    click.echo(f"its log: {kept_words(log, is_done=False)}; who needs them: jbm-kafka truncate {counts.name} --dry-run")
    show_keepers(log)
    if counts.pause:
        click.echo(f"{pause_text(counts.pause)}; it goes on with: jbm-kafka resume {counts.name}")
    of = "" if subscription is None else subscription_words(subscription, client_id)
    if counts.parked_lost != 0:
        click.echo(_lost(counts))
    _show_set_aside(counts, of)
    _show_shares(counts, of)
    if counts.misplaced:
        are = "is" if counts.misplaced == 1 else "are"
        click.echo(
            f"{counts.misplaced} {are} in another partition than the unit's hash says: a client hashes keys otherwise, "
            f"and its units are processed beside ours; set partitioner=murmur2_random there (README)"
        )
    _show_admission(counts)
    _show_partitions(counts.partitions if all_partitions else [p for p in counts.partitions if p.held_at_most], counts)
    for part in counts.partitions:
        if part.uncommitted:
            waiting = _waiting(part.uncommitted, f" from offset {part.end} on")
            click.echo(f"partition {part.partition}: {waiting}; {_whose(counts, of)}")
    if counts.held and subscription is None:
        click.echo(f"why they wait: jbm-kafka explain {counts.name}")


def _show_shares(counts: QueueCounts, of: str) -> None:
    """Partitions without a process, and processes without a partition; `of`: the options that name the subscription."""
    going = counts.without_owner
    if going:
        is_one = len(going) == 1
        what = f"partition {going[0]} holds" if is_one else f"partitions {', '.join(map(str, going))} hold"
        it = "it" if is_one else "them"
        click.echo(
            f"{what} messages, and the group is about to give {it} to a process; the one that had "
            f"{it} may still work on some: jbm-kafka explain {counts.name}{of} tells more"
        )
    if counts.idle_members and counts.owners:  # while all partitions are shared anew nobody has one
        have = "has" if counts.idle_members == 1 else "have"
        click.echo(f"{counts.idle_members} of the receivers {have} no partition")


def _show_set_aside(counts: QueueCounts, of: str) -> None:
    """Print what nobody is handed any more; `of`: the options that name the subscription."""
    if counts.for_operator:
        is_one = counts.for_operator == 1
        are = "is on hold" if is_one else "are on hold, each"
        click.echo(
            f"{counts.for_operator} {are} with its unit (on_dead_letter='hold'); "
            f"jbm-kafka release {counts.name} --all{of} lets {'it' if is_one else 'them'} go on"
        )
    if counts.expired:
        have = "has expired, and leaves" if counts.expired == 1 else "have expired, and leave"
        click.echo(f"{counts.expired} {have} for the expiry address as soon as somebody receives")


def _show_admission(counts: QueueCounts) -> None:
    """Partitions that were added, as far as it is not over yet."""
    name, now = counts.name, len(counts.partitions)
    if counts.next_partitions:
        click.echo(
            f"an admission of {counts.next_partitions} partitions has begun and not ended; if nobody runs it now: "
            f"jbm-kafka admit-partitions {name} --partitions {counts.next_partitions} goes on with it"
        )
    elif 0 < counts.unit_partitions < now:
        click.echo(
            f"it has {now} partitions, and its units are routed by {counts.unit_partitions}: what is sent with a unit "
            f"is refused; jbm-kafka admit-partitions {name} routes them anew"
        )
    if counts.kept_units:
        keep = (
            "1 unit keeps its partition"
            if counts.kept_units == 1
            else f"{counts.kept_units} units keep their partition"
        )
        click.echo(f"{keep}, of {now}; when what is held of them was received: jbm-kafka end-paths {name}")


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


def _waiting(uncommitted: int, where: str = "") -> str:
    """So many records are not held yet, for they cannot be read."""
    records, wait = ("1 record", "waits") if uncommitted == 1 else (f"{uncommitted} records", "wait")
    return f"{records}{where} {wait} for the end of a Kafka transaction"


def _whose(counts: QueueCounts, of: str = "") -> str:
    return f"if for long: jbm-kafka explain {counts.name}{of} tells whose it is and what ends it"


def _lost(counts: QueueCounts) -> str:
    """Parked messages that are gone, or may be."""
    number = "an unknown number" if counts.parked_lost is None else counts.parked_lost
    return f"parked messages that its changelog has lost: {number}; jbm-kafka explain {counts.name} tells more"


def _held(counts: QueueCounts) -> str:
    return str(counts.held) if counts.is_exact else at_most(counts.held)


def _summary(counts: QueueCounts) -> dict[str, object]:
    return {
        "name": counts.name,
        "kind": "queue",
        "partitions": len(counts.partitions),
        "held": counts.held,
        "held_is_exact": counts.is_exact,
        "delayed": counts.delayed,
        "retried": counts.retried,
        "for_operator": counts.for_operator,
        "expired": counts.expired,
        "misplaced": counts.misplaced,
        "uncommitted": counts.uncommitted,
        "ready": counts.ready,
        "idle_receivers": counts.idle_members,
        "without_owner": list(counts.without_owner),
        "in_hand": counts.in_hand,
        "next_partitions": counts.next_partitions,
        "unit_partitions": counts.unit_partitions,
        "kept_units": counts.kept_units,
        "has_changelog": counts.has_changelog,
        "parked_lost": counts.parked_lost,
        "receivers": counts.members,
        "paused": pause_values(counts.name, counts.pause),
        "oldest_at_ms": counts.oldest_at_ms,
        "group": counts.group,
    }
