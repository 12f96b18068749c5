"""What the dead-letter job found, as values, as a table and as one line of JSON. No Spark needed."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
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
class QueueContent:
    """What a queue's topic holds: settled messages too, as long as they are not deleted."""

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
    groups: tuple[DeadLetterGroup, ...]
    queue: QueueContent | None

    @property
    def count(self) -> int:
        """All dead letters."""
        return sum(group.count for group in self.groups)


def as_json_line(report: DeadLetterReport) -> str:
    """One line; the field names of the classes above, and the total `count`."""
    return json.dumps({"count": report.count, **asdict(report)}, ensure_ascii=False)


def as_text(report: DeadLetterReport) -> str:
    """The tables a person reads."""
    lines = [f"{report.dead_letters}: {_counted(report.count, 'dead letter')}"]
    if report.groups:
        header = ("reason", "from", "count", "attempts", "first (UTC)", "last (UTC)", "units", "messages")
        lines += _table(header, [_group_row(group) for group in report.groups])
    if report.queue is not None:
        lines += ["", *_queue_lines(report.queue)]
    return "\n".join(lines)


def _group_row(group: DeadLetterGroup) -> tuple[str, ...]:
    attempts = "" if group.attempts_max is None else str(group.attempts_max)
    return (
        _printable(group.reason or UNKNOWN),
        _printable(group.destination or UNKNOWN),
        str(group.count),
        attempts,
        _utc(group.first_at_ms),
        _utc(group.last_at_ms),
        _examples(group.example_units, is_all=group.count <= len(group.example_ids)),
        _examples(group.example_ids, is_all=group.count <= len(group.example_ids)),
    )


def _queue_lines(queue: QueueContent) -> list[str]:
    kinds = ", ".join(f"{kind} {count}" for kind, count in queue.by_body_kind)
    lines = [f"{queue.name}: {_counted(queue.count, 'message')} in the topic (settled ones too, until deleted), "
             f"{_counted(queue.unit_count, 'unit')}" + (f"; by body: {kinds}" if kinds else "")]  # fmt: skip
    if queue.largest_units:
        rows = [(_printable(unit), str(count)) for unit, count in queue.largest_units]
        lines += _table(("largest units", "count"), rows)
    return lines


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
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
    return ", ".join(_printable(value) for value in values) + (", ..." if values and not is_all else "")


def _printable(text: str) -> str:
    # Any producer may write to the topics; its text must not steer the reader's terminal.
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


def _utc(at_ms: int) -> str:
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):  # Kafka takes any 64-bit timestamp
        return f"{at_ms} ms"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
