"""The findings of the dead-letter job, as values and as tables. No Spark needed."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

UNKNOWN = "(not said)"
"""Shown where a record on the dead-letter topic does not say its reason or origin: a foreign producer's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterGroup:
    """The dead letters of one reason and original destination."""

    reason: str | None
    """As in `_JBM_DEAD_LETTER_REASON`; None: not said."""
    destination: str | None
    """As in `_JBM_ORIG_DESTINATION`, with its kind: `queue:orders`."""
    count: int
    attempts_max: int | None
    """Most delivery attempts any of them had."""
    first_at_ms: int
    """Least and greatest record time on the dead-letter topic: when they died, not when they were sent."""
    last_at_ms: int
    example_ids: tuple[str, ...]
    """Original message ids, the first by partition and offset."""
    example_units: tuple[str, ...]
    """Units of the examples, each once; without those that have none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorGroup:
    """The dead letters whose last attempt failed with errors of one class."""

    error: str
    """The class, as in `ValueError`; the beginning of the text, where it names none."""
    destination: str | None
    count: int
    first_at_ms: int
    last_at_ms: int
    example: str
    """The whole text of one of them."""
    example_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueContent:
    """The contents of a queue's topic: settled messages too, as long as they are not deleted."""

    name: str
    count: int
    unit_count: int
    by_body_kind: tuple[tuple[str, int], ...]
    largest_units: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterReport:
    """The whole result of the job."""

    dead_letters: str
    """Name of the dead-letter address."""
    count: int
    """All dead letters."""
    groups: tuple[DeadLetterGroup, ...]
    errors: tuple[ErrorGroup, ...] = ()
    """The groups of those letters that tell an error."""
    ages: tuple[tuple[str, int], ...] = ()
    """How many died how long ago, in words."""
    queue: QueueContent | None = None

    @property
    def has_violations(self) -> bool:
        """No: that messages die is no fault of the product."""
        return False

    def text(self) -> str:
        """The tables a person reads."""
        return _as_text(self)


def _as_text(report: DeadLetterReport) -> str:
    lines = [f"{report.dead_letters}: {counted(report.count, 'dead letter')}"]
    if report.groups:
        header = ("reason", "from", "count", "attempts", "first (UTC)", "last (UTC)", "units", "messages")
        lines += table(header, [_group_row(group) for group in report.groups])
    if report.errors:
        columns = ("error", "from", "count", "first (UTC)", "last (UTC)", "for example", "message")
        lines += ["", *table(columns, [_error_row(group) for group in report.errors])]
    if report.ages:
        lines += ["", *table(("died", "count"), [(age, str(count)) for age, count in report.ages])]
    if report.queue is not None:
        lines += ["", *_queue_lines(report.queue)]
    return "\n".join(lines)


def _group_row(group: DeadLetterGroup) -> tuple[str, ...]:
    attempts = "" if group.attempts_max is None else str(group.attempts_max)
    return (
        printable(group.reason or UNKNOWN),
        printable(group.destination or UNKNOWN),
        str(group.count),
        attempts,
        _utc(group.first_at_ms),
        _utc(group.last_at_ms),
        _examples(group.example_units, is_all=group.count <= len(group.example_ids)),
        _examples(group.example_ids, is_all=group.count <= len(group.example_ids)),
    )


def _error_row(group: ErrorGroup) -> tuple[str, ...]:
    return (
        printable(group.error),
        printable(group.destination or UNKNOWN),
        str(group.count),
        _utc(group.first_at_ms),
        _utc(group.last_at_ms),
        printable(group.example),
        printable(group.example_id),
    )


def _queue_lines(queue: QueueContent) -> list[str]:
    kinds = ", ".join(f"{kind} {count}" for kind, count in queue.by_body_kind)
    lines = [f"{queue.name}: {counted(queue.count, 'message')} in the topic (settled ones too, until deleted), "
             f"{counted(queue.unit_count, 'unit')}" + (f"; by body: {kinds}" if kinds else "")]  # fmt: skip
    if queue.largest_units:
        rows = [(printable(unit), str(count)) for unit, count in queue.largest_units]
        lines += table(("largest units", "count"), rows)
    return lines


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of aligned columns."""
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    is_number = [all(row[column].isdigit() or not row[column] for row in rows) for column in range(len(header))]
    ruler = ["-" * width for width in widths]
    return [
        "  " + "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, is_number, strict=True)
        ).rstrip()
        for row in (header, ruler, *rows)
    ]  # fmt: skip


def _examples(values: Sequence[str], *, is_all: bool) -> str:
    return ", ".join(printable(value) for value in values) + (", ..." if values and not is_all else "")


def printable(text: str) -> str:
    """The text, with a mark in place of what steers a terminal."""
    # Any producer may write to the topics; its text must not steer the reader's terminal.
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


def _utc(at_ms: int) -> str:
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):  # Kafka takes any 64-bit timestamp
        return f"{at_ms} ms"


def counted(count: int, noun: str) -> str:
    """As in `1 message`, `2 messages`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
