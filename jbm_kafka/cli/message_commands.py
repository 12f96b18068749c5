"""`jbm-kafka move | remove | expire | give-up`: what an operator does to messages that wait."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, TypeVar

import click

from jbm_kafka.admin import Admin, ChosenMessage, MessagesReport
from jbm_kafka.admin.messages.selection import Order
from jbm_kafka.cli.cluster_options import cluster_options
from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.cli.command_options import (
    ID,
    UNIT,
    Whole,
    answer_timeout_option,
    check_can_ask,
    json_option,
    not_found,
    selector_option,
    subscription_options,
)
from jbm_kafka.cli.connect import (
    EXPIRED_SHOWN,
    Named,
    admin_of,
    as_address,
    as_named,
    as_queue,
    dead_letter_address_option,
)
from jbm_kafka.cli.render import json_line, printable, table
from jbm_kafka.core.destination import Queue
from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.core.sentinels import UNSET

Function = TypeVar("Function", bound=Callable[..., Any])
SHOWN = 50
"""Messages that are listed, a line each; of more only how many."""

DID = {"send-now": "let go", "move": "moved", "remove": "removed", "expire": "expired", "dead-letter": "given up"}


def choice_options(function: Function) -> Function:
    """The options that choose messages, and how they are handled; passed as the arguments of `_asked`."""
    for option in reversed(
        [
            click.option("--unit", metavar="U", type=UNIT, help="Those of this unit of order."),
            click.option(
                "--id",
                "ids",
                metavar="ID",
                multiple=True,
                type=ID,
                help="That of this id; several times.",
            ),
            selector_option,
            subscription_options,
            click.option("--all", "everything", is_flag=True, help="All of them."),
            click.option("--count", metavar="N", type=Whole(1), help="So many of them at most, the first ones."),
            answer_timeout_option(least=1, default=60),
            click.option("--dry-run", is_flag=True, help="Show which are meant; do nothing."),
            cluster_options,
            json_option,
        ]
    ):
        function = option(function)
    return function


def _asked(
    unit: str | None,
    ids: Sequence[str],
    selector: str | None,
    everything: bool,
    count: int | None,
    timeout: float,
    subscription: str | None,
    client_id: str,
) -> dict[str, Any]:
    """As `Admin` takes them."""
    is_narrowed = unit is not None or bool(ids) or selector is not None
    if everything and is_narrowed:
        raise click.UsageError(
            "--all means all messages, and --unit, --id or --selector only some: give one or the other"
        )
    if not everything and not is_narrowed:
        raise click.UsageError("say which: --unit U, --id ID or --selector S, or else --all")
    return {
        "unit": unit,
        "message_id": ids or None,
        "selector": selector,
        "everything": everything,
        "count": count,
        "timeout_s": timeout,
        "subscription": subscription,
        "client_id": client_id,
    }


@click.command(
    short_help="Move messages to another queue.",
    epilog="Example: jbm-kafka move orders --to parked --unit joe --dry-run",
)
@click.argument("destination", callback=as_named, metavar="DEST")
@click.option("--to", "target", required=True, callback=as_queue, metavar="NAME", help="The queue they go to.")
@click.option(
    "--order",
    type=click.Choice(["log", "sent", "priority"]),
    default="log",
    show_default=True,
    help="In which they are sent; those of a unit stay in theirs.",
)
@click.option("--split-units", is_flag=True, help="Also when only some messages of a unit are meant.")
@choice_options
def move(
    destination: Named,
    target: Queue,
    order: Order,
    split_units: bool,
    dry_run: bool,
    cluster: Cluster,
    as_json: bool,
    **choice: Any,
) -> None:
    """Move messages to another queue, each in the transaction that writes it there.

    What a worker has in hand stays with it. A unit that is moved whole keeps its order while both queues are paused.
    """
    asked = _asked(**choice)
    with admin_of(cluster) as admin:
        report = admin.move(destination, target, order=order, split_units=split_units, dry_run=dry_run, **asked)
    _print_report(report, asked, as_json=as_json)


@click.command(short_help="Remove messages for good.")
@click.argument("destination", callback=as_named, metavar="DEST")
@click.option("--yes", is_flag=True, help="Do not ask.")
@choice_options
def remove(destination: Named, yes: bool, dry_run: bool, cluster: Cluster, as_json: bool, **choice: Any) -> None:
    """Remove messages for good, after asking. What a worker has in hand stays with it."""
    asked = _asked(**choice)
    if not (yes or dry_run):
        check_can_ask(as_json=as_json)
    with admin_of(cluster) as admin:
        report = admin.remove(destination, dry_run=dry_run or not yes, **asked)
        if report.messages and not (yes or dry_run):
            _show(report.messages)
            if not click.confirm(f"remove {_several(len(report.messages))} of {report.queue} for good?"):
                raise JMSError(f"{report.queue}: nothing was removed")
            report = admin.remove(destination, **asked)
    _print_report(report, asked, as_json=as_json)


@click.command(short_help="Let messages expire now.")
@click.argument("destination", callback=as_named, metavar="DEST")
@click.option(
    "--expiry-address",
    metavar="DEST",
    callback=as_address,
    show_default=EXPIRED_SHOWN,
    help="Where they go when no process receives; else it goes by the settings there.",
)
@choice_options
def expire(
    destination: Named, expiry_address: str | None, dry_run: bool, cluster: Cluster, as_json: bool, **choice: Any
) -> None:
    """Let messages expire now: they go to the expiry address. What a worker has in hand stays with it."""
    _print_after(
        cluster,
        lambda admin: admin.expire(
            destination,
            expiry_address=UNSET if expiry_address is None else expiry_address,
            dry_run=dry_run,
            **_asked(**choice),
        ),
        choice,
        as_json=as_json,
    )


@click.command(name="give-up", short_help="Send messages to the dead-letter address now.")
@click.argument("destination", callback=as_named, metavar="DEST")
@dead_letter_address_option
@choice_options
def give_up(
    destination: Named, dead_letter_address: str | None, dry_run: bool, cluster: Cluster, as_json: bool, **choice: Any
) -> None:
    """Send messages to the dead-letter address now, with the reason "operator", as if their attempts were used up.

    What a worker has in hand stays with it. `jbm-kafka dead-letters retry` sends them back.
    """
    _print_after(
        cluster,
        lambda admin: admin.send_to_dead_letter(
            destination,
            dead_letter_address=UNSET if dead_letter_address is None else dead_letter_address,
            dry_run=dry_run,
            **_asked(**choice),
        ),
        choice,
        as_json=as_json,
    )


@click.command(name="send-now", short_help="Let messages go that wait for a time.")
@click.argument("destination", callback=as_named, metavar="DEST")
@choice_options
def send_now(destination: Named, dry_run: bool, cluster: Cluster, as_json: bool, **choice: Any) -> None:
    """Let messages go now that their sender delayed, or that wait for their next attempt.

    They keep their place and attempts: one that is not the first of its unit goes after that.
    """
    _print_after(
        cluster,
        lambda admin: admin.send_now(destination, dry_run=dry_run, **_asked(**choice)),
        choice,
        as_json=as_json,
    )


def _print_after(
    cluster: Cluster, act: Callable[[Admin], MessagesReport], choice: dict[str, Any], *, as_json: bool
) -> None:
    asked = _asked(**choice)  # wrong usage before anybody is asked
    with admin_of(cluster) as admin:
        report = act(admin)
    _print_report(report, asked, as_json=as_json)


def _print_report(report: MessagesReport, asked: dict[str, Any], *, as_json: bool) -> None:
    """Print the report; a chosen message that stayed is a failure, and so is one that is not there.

    Raises:
        JMSError: something stayed, or a unit or id that was named is not there.
    """
    if as_json:
        click.echo(json_line(_values(report)))
    else:
        _print(report)
    if report.kept:
        whys = sorted({kept.why for kept in report.kept})
        raise JMSError(f"{report.queue}: {_several(len(report.kept))} stayed: {'; '.join(whys)}")
    _check_found(report, asked["unit"], asked["message_id"] or ())


def _check_found(report: MessagesReport, unit: str | None, ids: Sequence[str]) -> None:
    """Raises JMSError where something was named and is not there: a script has no other way to see it."""
    found = [*report.messages, *report.in_hand, *report.gone]
    if not found and (unit is not None or ids):
        raise JMSError(f"{report.queue}: {not_found(unit, ids)}")
    if found and not (report.messages or report.gone) and (unit is not None or ids):
        raise JMSError(
            f"{report.queue}: nothing was {DID[report.verb]}: what was named is in a worker's hand (jbm-kafka explain "
            f"tells whose); again when it is done"
        )
    missing = [] if report.left_out else [each for each in ids if each not in {row.message_id for row in found}]
    if missing:
        raise JMSError(f"{report.queue}: {not_found(None, missing)}; the others were found")


def _print(report: MessagesReport) -> None:
    for warning in report.warnings:
        click.echo(f"warning: {warning}", err=True)
    _show(report.messages)
    to = f" to {report.address}" if report.address else ""
    would = "would be " if report.is_dry_run else ""
    rest = [
        f"{len(report.in_hand)} in a worker's hand, where they stay" if report.in_hand else "",
        f"{len(report.gone)} gone meanwhile" if report.gone else "",
        f"{report.left_out} more left for another time" if report.left_out else "",
    ]
    what = f"{_several(len(report.messages))} {would}{DID[report.verb]}{to if report.messages else ''}"
    click.echo("; ".join([f"{report.queue}: {what}", *filter(None, rest)]))


def _show(messages: Sequence[ChosenMessage]) -> None:
    if messages and len(messages) <= SHOWN:
        rows = [
            (each.partition, each.offset, printable(each.unit or ""), printable(each.message_id)) for each in messages
        ]
        table(("partition", "offset", "unit", "message"), rows)


def _several(count: int) -> str:
    return f"{count} message{'' if count == 1 else 's'}"


def _values(report: MessagesReport) -> dict[str, object]:
    return {
        "name": report.queue.name,
        "verb": report.verb,
        "dry_run": report.is_dry_run,
        "address": report.address,
        "messages": [_message(each) for each in report.messages],
        "in_hand": [_message(each) for each in report.in_hand],
        "kept": [{**_message(each.message), "why": each.why} for each in report.kept],
        "gone": [_message(each) for each in report.gone],
        "left_out": report.left_out,
        "warnings": list(report.warnings),
    }


def _message(message: ChosenMessage) -> dict[str, object]:
    return {name: value for name, value in asdict(message).items() if name != "sort_key"}
