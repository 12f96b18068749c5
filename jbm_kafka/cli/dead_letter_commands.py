"""`jbm-kafka dead-letters list | retry`: what was given up, and another try for it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, TypeVar, cast

import click

from jbm_kafka.admin import DeadLetter, KeptLetter, RetryReport
from jbm_kafka.admin.dead_letters.letters import REASONS, LetterReason, reason_fault
from jbm_kafka.cli.browse_command import COUNTED_MAX, SHOW_MORE, counted, first_rows, print_more
from jbm_kafka.cli.cluster_options import cluster_options
from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.cli.command_options import (
    ID,
    UNIT,
    Seconds,
    Whole,
    can_ask,
    count_option,
    json_lines_option,
    json_option,
    selector_option,
)
from jbm_kafka.cli.connect import LETTERS_SHOWN, admin_of, as_destination, as_letters_queue
from jbm_kafka.cli.lazy import CommandGroup
from jbm_kafka.cli.render import as_values, brief_of, json_line, printable, table, when
from jbm_kafka.core.channel.departure import OPERATOR
from jbm_kafka.core.destination import Queue, Topic
from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.jms.messages.message import Message

Function = TypeVar("Function", bound=Callable[..., Any])
KEPT_NAMED = 5
"""Letters that are named for each reason why letters were not sent."""


def _check_reason(context: click.Context, parameter: click.Parameter, value: str | None) -> LetterReason | None:
    fault = None if value is None else reason_fault(value)
    if fault is not None:
        raise click.BadParameter(f"{value!r}: {fault}", context, parameter)
    return cast(LetterReason | None, value)


def _filters(function: Function) -> Function:
    """`--from`, and which letters are meant; passed as `source`, `origin`, `reason`, `unit`, `message_id`,
    `selector`.
    """
    for option in (
        selector_option,
        click.option("--id", "message_id", metavar="ID", type=ID, help="Only messages of this id."),
        click.option("--unit", metavar="U", type=UNIT, help="Only messages of this unit of order."),
        click.option("--reason", metavar="R", callback=_check_reason,
                     help=f"Only what left for this reason: {' or '.join(REASONS)}."),
        click.option("--origin", metavar="DEST", callback=as_destination,
                     help="Only those from this queue, or topic:NAME."),
        click.option("--from", "source", metavar="DEST", callback=as_letters_queue, show_default=LETTERS_SHOWN,
                     help="The dead-letter or expiry queue to look into."),
    ):  # fmt: skip
        function = option(function)
    return function


@click.group(name="dead-letters", cls=CommandGroup)
def dead_letters() -> None:
    """Messages that were given up: list them, or send them again to where they came from."""


@dead_letters.command(name="list")
@_filters
@count_option
@cluster_options
@json_lines_option
def list_dead_letters(
    source: Queue | None,
    origin: Queue | Topic | None,
    reason: LetterReason | None,
    unit: str | None,
    message_id: str | None,
    selector: str | None,
    count: int | None,
    cluster: Cluster,
    as_json: bool,
) -> None:
    """List dead letters with where they came from and why. They stay where they are.

    Of a queue that holds other messages, too, these are counted and left out.
    """
    others = 0

    def letters(found: Iterable[tuple[DeadLetter, Message]]) -> Iterator[tuple[DeadLetter, Message]]:
        nonlocal others
        for letter, message in found:
            if _is_letter(letter):
                yield letter, message
            else:
                others += 1

    with admin_of(cluster) as admin:
        source = source or admin.dead_letter_queue()
        found = letters(
            admin.dead_letters(
                source, origin=origin, reason=reason, unit=unit, message_id=message_id, selector=selector
            )
        )
        if as_json:
            for letter, message in islice(found, count):
                click.echo(json_line({**as_values(message), "dead_letter": _values(letter)}))
            more = counted(found)
            print_more(more, SHOW_MORE)
        else:
            rows, more = first_rows(found, count)
        if more <= COUNTED_MAX:  # else there are more than were looked at
            _tell_of_others(source, others)
        if not (as_json or rows):
            click.echo(_none_found(source, _asked(origin, reason, unit, message_id, selector)))
        if as_json or not rows:
            return
    cells = [
        (when(letter.died_at_ms), _from(letter), _text(letter.reason), letter.attempts,
         _text(letter.last_error), _text(letter.unit), _text(letter.message_id), brief_of(message))
        for letter, message in rows
    ]  # fmt: skip
    table(("died (UTC)", "from", "reason", "attempts", "last error", "unit", "message", "body"), cells)
    print_more(more, SHOW_MORE)


@dead_letters.command(short_help="Send dead letters again, to where they came from.")
@_filters
@click.option("--count", type=Whole(1), metavar="N", help="Only the N that died first. [all]")
@click.option("--timeout", type=Seconds(0, 1e6), default=10.0, show_default=True, metavar="S",
              help="End when none came for S seconds.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Show what would be sent, and where; send nothing.")
@cluster_options
@json_option
def retry(
    source: Queue | None,
    origin: Queue | Topic | None,
    reason: LetterReason | None,
    unit: str | None,
    message_id: str | None,
    selector: str | None,
    count: int | None,
    timeout: float,
    dry_run: bool,
    cluster: Cluster,
    as_json: bool,
) -> None:
    """Send dead letters to where they came from, with attempts counted from zero.

    Each leaves the dead-letter queue in the transaction that sends it: it is never in both, nor in none. What cannot be
    sent stays, with the reason; then the exit code is 1, as where an origin, unit or id that was named has none.
    """
    with admin_of(cluster) as admin:
        source = source or admin.dead_letter_queue()
        send = partial(
            admin.retry_dead_letters, source, origin=origin, reason=reason, unit=unit, message_id=message_id,
            selector=selector, count=count, timeout_s=timeout,
        )  # fmt: skip
        printed: Sequence[str] = ()
        if can_ask() and not (dry_run or as_json or reason or message_id):
            printed = _ask_whether_given_up_too(send(dry_run=True))
        report = send(dry_run=dry_run)
        report = replace(report, warnings=[each for each in report.warnings if each not in printed])
        if as_json:
            click.echo(json_line(_report_values(report)))
        elif report.letters or report.kept or report.taken:
            _print_report(report)
        if not (report.letters or report.kept or report.taken):
            said = _none_found(source, _asked(origin, reason, unit, message_id, selector))
            if origin is not None or unit is not None or message_id is not None:
                raise JMSError(said)
            if not as_json:
                click.echo(said)
    if report.kept:
        raise click.exceptions.Exit(1)


def _ask_whether_given_up_too(planned: RetryReport) -> Sequence[str]:
    """Ask before messages go back that an operator gave up; the warnings that were printed.

    Raises:
        JMSError: the answer was no.
    """
    if all(letter.reason != OPERATOR for letter in planned.letters):
        return ()
    for warning in planned.warnings:
        click.echo(f"warning: {printable(warning)}", err=True)
    if not click.confirm("send them all?", err=True):
        raise JMSError("nothing was sent")
    return planned.warnings


def _asked(
    origin: Queue | Topic | None, reason: str | None, unit: str | None, message_id: str | None, selector: str | None
) -> str:
    """Which letters were asked for, for people; nothing when all were."""
    filters = {"from": origin, "of reason": reason, "of unit": unit, "with id": message_id}
    words = [f"{word} {printable(str(value))}" for word, value in filters.items() if value is not None]
    return " ".join([*words, "that the selector chooses"] if selector is not None else words)


def _is_letter(letter: DeadLetter) -> bool:
    """It left a queue; what was only sent there tells nothing of that."""
    return letter.reason is not None or letter.origin.destination is not None


def _tell_of_others(source: Queue, count: int) -> None:
    if count:
        are = "message is no dead letter and" if count == 1 else "messages are no dead letters and"
        left_out = "is left out" if count == 1 else "are left out"
        click.echo(f"{source}: {count} {are} {left_out}; jbm-kafka browse {source.name} shows all", err=True)


def _none_found(source: Queue, asked: str) -> str:
    return f"no dead letters in {source} {asked}".rstrip() + "; another dead-letter queue is named with --from"


def _print_report(report: RetryReport) -> None:
    if report.is_dry_run and report.letters:
        rows, more = first_rows(iter(report.letters))
        cells = [
            (_from(letter), _text(letter.unit), _text(letter.message_id), _text(letter.reason),
             letter.attempts, when(letter.died_at_ms))
            for letter in rows
        ]  # fmt: skip
        table(("to", "unit", "message", "reason", "attempts", "died (UTC)"), cells)
        print_more(more, "--json shows all")
    for warning in report.warnings:
        click.echo(f"warning: {printable(warning)}", err=True)
    for why, letters in _by_reason(report.kept).items():
        named = ", ".join(printable(letter.message_id) for letter in letters[:KEPT_NAMED])
        more_of_them = f" and {len(letters) - KEPT_NAMED} more" if len(letters) > KEPT_NAMED else ""
        click.echo(f"kept in {report.source.name}: {named}{more_of_them}: {printable(why)}", err=True)
    if report.taken:
        click.echo(f"{len(report.taken)} were taken by another receiver or retry meanwhile", err=True)
    verb = "would be sent" if report.is_dry_run else "sent"
    kept = f", {len(report.kept)} kept" if report.kept else ""
    click.echo(f"{len(report.letters)} {verb} from {report.source}{kept}")


def _from(letter: DeadLetter) -> str | None:
    """Where it was: `queue:orders`, `topic:prices billing/audit`."""
    return _text(" ".join(filter(None, (letter.origin.destination, letter.origin.subscription)))) or None


def _by_reason(kept: Sequence[KeptLetter]) -> dict[str, list[DeadLetter]]:
    grouped: dict[str, list[DeadLetter]] = {}
    for row in kept:
        grouped.setdefault(row.why, []).append(row.letter)
    return grouped


def _values(letter: DeadLetter) -> dict[str, object]:
    origin = letter.origin
    return {
        "message_id": letter.message_id,
        "unit_of_order": letter.unit,
        "partition": letter.partition,
        "offset": letter.offset,
        "reason": letter.reason,
        "last_error": letter.last_error,
        "attempts": letter.attempts,
        "died_at_ms": letter.died_at_ms,
        "origin": {
            "destination": origin.destination,
            "subscription": origin.subscription,
            "partition": origin.partition,
            "offset": origin.offset,
        },
    }


def _report_values(report: RetryReport) -> dict[str, object]:
    return {
        "from": str(report.source),
        "dry_run": report.is_dry_run,
        "sent": report.sent,
        "letters": [_values(letter) for letter in report.letters],
        "kept": [{**_values(row.letter), "why": row.why} for row in report.kept],
        "taken_by_others": [_values(letter) for letter in report.taken],
        "warnings": list(report.warnings),
    }


def _text(value: object) -> str | None:
    return None if value is None else printable(str(value))
