"""`jbm-kafka release`: units that wait for an operator go on."""

from collections.abc import Sequence
from dataclasses import asdict

import click

from jbm_kafka.admin import HeldMessage, ReleaseReport
from jbm_kafka.cli.cluster_options import cluster_options
from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.cli.command_options import ID, UNIT, answer_timeout_option, json_option, not_found, subscription_options
from jbm_kafka.cli.connect import Named, admin_of, as_named, dead_letter_address_option
from jbm_kafka.cli.render import json_line, printable, table
from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.core.sentinels import UNSET


@click.command(short_help="Let units go on that are on hold.")
@click.argument("destination", callback=as_named, metavar="DEST")
@click.option("--unit", metavar="U", type=UNIT, help="This unit of order.")
@click.option("--id", "message_id", metavar="ID", type=ID, help="The message of this id, and so its unit.")
@click.option("--all", "all_units", is_flag=True, help="All that are on hold.")
@subscription_options
@click.option("--again", is_flag=True, help="Try the messages anew, with all their attempts; do not give them up.")
@dead_letter_address_option
@answer_timeout_option(least=1, default=60)
@click.option("--dry-run", is_flag=True, help="Show what would be released; release nothing.")  # fmt: skip
@cluster_options
@json_option
def release(
    destination: Named,
    unit: str | None,
    message_id: str | None,
    all_units: bool,
    subscription: str | None,
    client_id: str,
    again: bool,
    dead_letter_address: str | None,
    timeout: float,
    dry_run: bool,
    cluster: Cluster,
    as_json: bool,
) -> None:
    """Let units go on that on_dead_letter="hold" keeps, because a message used up its attempts.

    The messages that hold them leave for the dead-letter address. Processes that receive from the queue do it; without
    receivers this command does.
    """
    is_narrowed = unit is not None or message_id is not None
    if all_units == is_narrowed:
        raise click.UsageError("give one of --unit, --id, --all" if is_narrowed else
                               "say which: --unit U, --id ID, or --all")  # fmt: skip
    with admin_of(cluster) as admin:
        report = admin.release(
            destination,
            unit,
            subscription=subscription,
            client_id=client_id,
            message_id=message_id,
            everything=all_units,
            again=again,
            dead_letter_address=UNSET if dead_letter_address is None else dead_letter_address,
            dry_run=dry_run,
            timeout_s=timeout,
        )
    if as_json:
        click.echo(json_line(_values(report)))
    if is_narrowed and not (report.messages or report.gone):
        raise JMSError(
            f"{report.queue}: {not_found(unit, [] if message_id is None else [message_id], where='on hold')}"
        )
    if as_json:
        return
    if not report.messages:
        click.echo(f"{report.queue}: nothing of that is on hold")
        return
    _show(report.messages)
    count = len(report.messages)
    what = f"{count} message{'s' if count > 1 else ''}"
    fate = "to be tried again" if again else "to leave for the dead-letter address"
    click.echo(f"{report.queue}: {what} {'would be ' if dry_run else ''}released, {fate}")


def _show(messages: Sequence[HeldMessage]) -> None:
    rows = [
        (each.partition, each.offset, each.attempts, printable(each.unit or ""), printable(each.message_id))
        for each in messages
    ]
    table(("partition", "offset", "attempts", "unit", "message"), rows)


def _values(report: ReleaseReport) -> dict[str, object]:
    return {
        "name": report.queue.name,
        "dry_run": report.is_dry_run,
        "again": report.again,
        "messages": [asdict(each) for each in report.messages],
        "gone": [asdict(each) for each in report.gone],
    }
