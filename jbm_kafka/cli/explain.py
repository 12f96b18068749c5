"""`jbm-kafka explain`: why a message, a unit, or what waits longest does not move."""

from collections.abc import Iterable
from dataclasses import asdict, replace
from enum import Enum

import click

from jbm_kafka.admin import Admin, Explanation, Truncation
from jbm_kafka.admin.explain.receiver_states import does
from jbm_kafka.cli.cluster_options import cluster_options
from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.cli.command_options import ID, UNIT, Seconds, answer_timeout_option, json_option, subscription_options
from jbm_kafka.cli.connect import Named, admin_of, as_named
from jbm_kafka.cli.reason_lines import ReasonLines
from jbm_kafka.cli.render import json_line, printable
from jbm_kafka.cli.truncate_command import kept_words, show_keepers
from jbm_kafka.core.channel.blocking_rule import Rule
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
    """Say why messages of a queue, or of a topic's subscription, do not move. Nothing is received, nothing changed.

    With --unit or --id that unit or message, and exit code 1 where nothing of that is held; else the units that wait
    longest, and what each partition and each receiver does.
    """
    if unit is not None and message_id is not None:
        raise click.UsageError("--unit and --id: give one of them")
    with admin_of(cluster) as admin:
        found = admin.explain(
            destination,
            unit=unit,
            message_id=message_id,
            subscription=subscription,
            client_id=client_id,
            older_than_s=older_than,
            timeout_s=timeout,
            tell=_tell,
        )
        is_all = unit is None and message_id is None
        log = _log_of(admin, destination) if is_all else None
    if as_json:
        values = {**asdict(found, dict_factory=_plain), "log": log and asdict(log)}
        click.echo(json_line({**values, "starving": found.starving, "idle_receivers": found.idle_receivers}))
    else:
        _show(found, is_all=is_all, log=log)
    if not (found.messages or is_all):
        raise JMSError(f"{found.name}: {_not_held(found)}")


def _tell(text: str) -> None:
    is_wait = text.endswith("at most")
    click.echo(f"{text} (--timeout)" if is_wait else text, err=True)


def _log_of(admin: Admin, destination: Named) -> Truncation | None:
    """Return what its log keeps and for whom; None: who asks may not know."""
    try:
        return admin.truncate(destination, dry_run=True)
    except JMSError:
        return None


def _not_held(found: Explanation) -> str:
    why = [each.text for each in found.reasons if each.rule is Rule.NOT_HELD]
    return why[0] if why else "whether anything of that is held is not known"


def _show(found: Explanation, *, is_all: bool, log: Truncation | None) -> None:
    quiet = len(found.silent_members)
    receivers = f"{found.members} process{' receives' if found.members == 1 else 'es receive'}"
    click.echo(
        f"{found.name}: {receivers}{f' ({quiet} did not answer)' if quiet else ''}, consumer group {found.group}"
    )
    for namespace in found.namespaces:
        where = f"in namespace {namespace!r}" if namespace else "without a namespace"
        click.echo(f"also received {where}: every message comes there too; if by mistake, stop the programs there")
    if log is not None and any(each.name != f"group {found.group}" for each in log.keepers):
        click.echo(f"its log: {kept_words(log, is_done=False)}")
        show_keepers(log)
    lines = ReasonLines()
    lines.show(each for each in found.reasons if each.rule is not Rule.NOT_HELD)  # the last line, an error, has it
    if len(found.idle_members) < found.members:  # else the group shares its partitions anew
        for name in found.idle_members:
            click.echo(f"without a partition: {printable(name)}")
    lines.of_messages(found.messages)
    if is_all and found.is_whole and not (found.messages or found.partitions):
        is_lost = any(each.rule is Rule.PARKED_LOST for each in found.reasons)
        click.echo("nothing else is held" if is_lost else "nothing is held")
    for partition in found.partitions:
        reasons = partition.reasons if is_all else lines.new(partition.reasons)
        if reasons or is_all:
            click.echo(printable(str(replace(partition, reasons=()))))
            lines.show(reasons, "  ")
    for receiver in found.receivers if is_all else ():
        click.echo(printable(f"{receiver}; {does(receiver)}"))
    if found.misplaced:
        click.echo(f"in another partition than the unit's hash says: {found.misplaced} (jbm-kafka show)")
    if not found.is_whole and all(each.rule is not Rule.IN_DOUBT for each in found.reasons):
        click.echo("there is more than was looked at")


def _plain(pairs: Iterable[tuple[str, object]]) -> dict[str, object]:
    """As JSON can say it: a rule by its value."""
    return {name: value.value if isinstance(value, Enum) else value for name, value in pairs}
