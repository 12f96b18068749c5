"""`jbm-kafka explain`: why a message, a unit, or what waits longest does not move."""

import time
from dataclasses import asdict
from enum import Enum

import click

from jbm_kafka.admin import ExplainedPartition, ExplainedReceiver, Explanation
from jbm_kafka.admin.explain.receiver_states import does
from jbm_kafka.cli.cluster_options import cluster_options
from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.cli.command_options import ID, UNIT, Seconds, answer_timeout_option, json_option, subscription_options
from jbm_kafka.cli.connect import Named, admin_of, as_named
from jbm_kafka.cli.reason_lines import ReasonLines
from jbm_kafka.cli.render import json_line, printable
from jbm_kafka.core.blocking_rule import Rule
from jbm_kafka.core.jms_errors import JMSError


@click.command(epilog="Example: jbm-kafka explain orders --unit joe")
@click.argument("destination", callback=as_named, metavar="DEST")
@click.option("--unit", metavar="U", type=UNIT, help="This unit of order.")
@click.option("--id", "message_id", metavar="ID", type=ID, help="The message of this id.")
@subscription_options
@click.option("--older-than", type=Seconds(0, 1e9), default=0.0, metavar="S", help="Only what was sent before so long.")
@answer_timeout_option(least=0, default=10)
@cluster_options
@json_option
def explain(
    destination: Named,
    unit: str | None,
    message_id: str | None,
    subscription: str | None,
    client_id: str,
    older_than: float,
    timeout: float,
    cluster: Cluster,
    as_json: bool,
) -> None:
    """Tell why messages of a queue, or of a topic's subscription, do not move. Nothing is received, nothing changed.

    With --unit or --id that unit or message, and exit code 1 where nothing of that is held; else the units that wait
    longest, and what each partition and each receiver does.
    """
    if unit is not None and message_id is not None:
        raise click.UsageError("--unit and --id: give one of them")
    now_ms = time.time_ns() // 1_000_000  # of what came since it is known that it is no older
    with admin_of(cluster) as admin:
        found = admin.explain(
            destination,
            unit=unit,
            message_id=message_id,
            subscription=subscription,
            client_id=client_id,
            older_than_s=older_than,
            timeout_s=timeout,
            tell=lambda text: click.echo(f"{text} (--timeout)", err=True),
        )
    is_all = unit is None and message_id is None
    if as_json:
        values = {**asdict(found), "starving": found.starving, "idle_receivers": found.idle_receivers}
        click.echo(json_line(_plain(values)))
    else:
        _show(found, now_ms, is_all=is_all, older_than_s=older_than)
    if not (found.messages or is_all):
        raise JMSError(f"{found.name}: {_not_held(found)}")


def _not_held(found: Explanation) -> str:
    why = [each.text for each in found.reasons if each.rule is Rule.NOT_HELD]
    return why[0] if why else "whether anything of that is held is not known"


def _show(found: Explanation, now_ms: int, *, is_all: bool, older_than_s: float) -> None:
    receivers = (
        f"{found.members} process{'' if found.members == 1 else 'es'} receive{'s' if found.members == 1 else ''}"
    )
    quiet = len(found.silent_members)
    if quiet:
        receivers += f" ({'it' if found.members == 1 else quiet} did not answer)"
    click.echo(f"{found.name}: {receivers}, consumer group {found.group}")
    for namespace in found.namespaces:
        where = f"in namespace {namespace!r}" if namespace else "without a namespace"
        click.echo(f"also received {where}: every message comes there too; if by mistake, stop who receives there")
    lines = ReasonLines()
    lines.tell(each for each in found.reasons if each.rule is not Rule.NOT_HELD)  # the last line, an error, has it
    is_read = _is_read(found)
    is_shared_anew = len(found.idle_members) == found.members
    for name in () if is_shared_anew else found.idle_members:
        click.echo(f"without a partition: {printable(name)}")
    if is_all:
        lines.of_units(found.messages, now_ms)
    else:
        lines.of_messages(found.messages)
    if is_all and not found.messages and found.is_whole:
        _show_nothing(found, older_than_s)
    for partition in found.partitions:
        _show_partition(partition, lines, is_all=is_all, is_read=is_read)
    if is_all:
        is_empty = found.is_whole and not any(each.held for each in found.partitions)
        for receiver in found.receivers:
            _show_receiver(receiver, is_empty=is_empty)
    if found.misplaced:
        are = "1 message is" if found.misplaced == 1 else f"{found.misplaced} messages are"
        click.echo(f"{are} in another partition than the unit's hash says (jbm-kafka show)")
    if is_read and not found.is_whole:
        click.echo("there is more than was looked at")


def _show_nothing(found: Explanation, older_than_s: float) -> None:
    """Print why no message is shown."""
    if any(each.held for each in found.partitions):
        click.echo(f"nothing that is held was sent more than {older_than_s:g} s ago")
    elif any(reason.rule is Rule.OPEN_TRANSACTION for each in found.partitions for reason in each.reasons):
        click.echo("nothing that waits can be read yet")
    else:
        click.echo("nothing is held")


def _is_read(found: Explanation) -> bool:
    """Whether it could be read what is held; else a 0 would be taken for nothing."""
    return all(each.rule is not Rule.IN_DOUBT for each in found.reasons)


def _show_partition(partition: ExplainedPartition, lines: ReasonLines, *, is_all: bool, is_read: bool) -> None:
    reasons = partition.reasons if is_all else lines.untold(partition.reasons)
    if not (reasons or is_all):
        return
    owner = printable(partition.owner) or "nobody"
    units = ", ".join(f"{count} {rule}" for rule, count in sorted(partition.units.items()))
    told = f"; units: {units}" if units else ""
    held = f"{partition.held} held" if is_read else "not readable now"
    click.echo(f"partition {partition.partition}: {held}, owner {owner}{told}")
    lines.tell(reasons, "  ")


def _show_receiver(each: ExplainedReceiver, *, is_empty: bool) -> None:
    client = f" of client {each.client_id}" if each.client_id else ""
    messages = "1 message" if each.in_hand == 1 else f"{each.in_hand} messages"
    unread = f", {each.unread} of them unread" if each.in_hand or each.unread else ""
    click.echo(
        printable(f"receiver {each.receiver} ({each.mode}){client} in {each.process}: ")
        + f"{messages} in hand{unread}; {does(each, is_empty=is_empty)}"
    )


def _plain(value: object) -> object:
    """As JSON can say it: a rule by its value."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value
