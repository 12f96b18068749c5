"""Dead letters as operators see them: where each is and was, and why it left; and the report of a retry."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from jbm_kafka.codec.dead_letter import Origin, origin_of
from jbm_kafka.codec.identity import message_id_of, unit_name
from jbm_kafka.codec.record_values import record_value
from jbm_kafka.core.channel.departure import EXPIRED, OPERATOR, OUT_OF_ATTEMPTS, REJECTED, UNDECODABLE
from jbm_kafka.core.destination import Queue, Topic
from jbm_kafka.core.selectors.selector import Selector
from jbm_kafka.core.summary import summary, with_lines
from jbm_kafka.ports import KafkaRecord

REASONS = (OUT_OF_ATTEMPTS, REJECTED, UNDECODABLE, EXPIRED, OPERATOR)
"""Why messages leave. The copy of an expired one tells no reason, but when it expired."""
LetterReason = Literal["max-delivery-attempts", "rejected", "undecodable", "expired", "operator"]
"""One of them, for type checkers. What a letter tells is a str: somebody else may have written it."""


def reason_fault(reason: str) -> str | None:
    """Why no message can have left for this reason, with those that there are; None when one can."""
    if reason in REASONS:
        return None
    return f"messages leave for {' or '.join(map(repr, REASONS))}"


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One message of a dead-letter or expiry queue.

    What somebody else wrote there tells nothing of where it was: then that is None.

    Which it is: message_id, unit. Why it left: reason, attempts, last_error. Where it was: original_place, origin.
    Where it is: partition, offset, or both as its place; died_at_ms.
    """

    partition: int
    """The partition of the dead-letter queue's Kafka topic."""
    offset: int
    """Its place in the partition."""
    message_id: str
    """The original's: a copy keeps it."""
    unit: str | None
    """Its unit of order; None: it has none."""
    origin: Origin
    """The place where it was, as it tells: destination, subscription, subscription_kind, namespace, message_id,
    partition, offset, delivery_count, reason, actual_expiry_ms, last_error. Each is None where that is not told, as by
    a record that somebody else wrote there."""
    died_at_ms: int
    """When the copy was written, ms since 1970."""

    @property
    def place(self) -> tuple[int, int]:
        """(partition, offset) in the dead-letter queue: its identity, for ids may repeat."""
        return self.partition, self.offset

    @property
    def reason(self) -> str | None:
        """Why it left its queue."""
        if self.origin.reason is None and self.origin.actual_expiry_ms is not None:
            return EXPIRED
        return self.origin.reason

    @property
    def attempts(self) -> int | None:
        """How often it was handed over to an application; None where that is not known."""
        return self.origin.delivery_count

    @property
    def last_error(self) -> str | None:
        """Why its last attempt failed, as in `ValueError: no such customer`; None where that is not known."""
        return self.origin.last_error

    @property
    def original_place(self) -> tuple[str, int, int] | None:
        """(destination, partition, offset) of the original; None when it does not tell all of it."""
        destination, partition, offset = self.origin.destination, self.origin.partition, self.origin.offset
        if destination is None or partition is None or offset is None or min(partition, offset) < 0:
            return None
        return destination, partition, offset

    def __repr__(self) -> str:
        return summary(
            self,
            self.message_id,
            unit=self.unit,
            reason=self.reason,
            attempts=self.attempts,
            origin=self.origin.destination,
            partition=self.partition,
            offset=self.offset,
        )


def letter_of(record: KafkaRecord) -> DeadLetter:
    """Return what a record of a dead-letter queue tells."""
    partition, offset = record.partition() or 0, record.offset() or 0
    headers = record.headers()
    return DeadLetter(
        partition=partition,
        offset=offset,
        message_id=message_id_of(headers, record.topic() or "", partition, offset),
        unit=unit_name(record.key()),
        origin=origin_of(headers),
        died_at_ms=record.timestamp()[1],
    )


@dataclass(frozen=True, slots=True)
class LetterFilter:
    """Which dead letters are meant; what is None is not asked for."""

    origin: Queue | Topic | None = None
    """The queue or topic that it left."""
    reason: str | None = None
    """Why it left: one of `REASONS`."""
    unit: str | None = None
    """Its unit of order."""
    message_id: str | None = None
    """Its id, or that of the original."""
    selector: Selector | None = None
    """The condition on its copy's headers and properties."""
    places: frozenset[tuple[int, int]] | None = None
    """Partition and offset in its queue: one of these."""

    def matches(self, letter: DeadLetter, record: KafkaRecord) -> bool:
        """Return True if all that is asked for is so of a letter and its record. An id names every message that has
        it."""
        return (
            (self.places is None or letter.place in self.places)
            and (self.origin is None or letter.origin.destination == str(self.origin))
            and (self.reason is None or letter.reason == self.reason)
            and (self.unit is None or letter.unit == self.unit)
            and (self.message_id is None or self.message_id in (letter.message_id, letter.origin.message_id))
            and (self.selector is None or self.selector.matches(partial(record_value, record)))
        )


@dataclass(frozen=True, slots=True)
class KeptLetter:
    """A dead letter that was asked for and not sent; it is where it was."""

    letter: DeadLetter
    """As it was when it was looked at."""
    why: str
    """In words, with what can be done."""

    def __repr__(self) -> str:
        return summary(self, self.letter.message_id, unit=self.letter.unit, why=self.why)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryReport:
    """The outcome of a retry, or, of a dry run, the outcome that it would have."""

    source: Queue
    """The dead-letter queue."""
    is_dry_run: bool
    """Nothing was sent: `letters` are those that would be."""
    letters: Sequence[DeadLetter]
    """Sent to where they came from, or, in a dry run, those that would be; in that order within a unit."""
    kept: Sequence[KeptLetter]
    """Asked for, and still in the dead-letter queue."""
    taken: Sequence[DeadLetter]
    """Asked for, and gone when it came to them: another consumer or retry was faster."""
    warnings: Sequence[str]
    """Remarks that the caller should read, such as units of which later messages went on."""

    @property
    def sent(self) -> int:
        """How many were sent; 0 of a dry run."""
        return 0 if self.is_dry_run else len(self.letters)

    def __repr__(self) -> str:
        return summary(
            self,
            self.source,
            is_dry_run=self.is_dry_run,
            letters=self.letters,
            kept=self.kept,
            taken=self.taken,
            warnings=self.warnings,
        )

    def __str__(self) -> str:
        return with_lines(repr(self), self.warnings)


def oldest_first(letters: Iterable[DeadLetter]) -> list[DeadLetter]:
    """Return them by when they died; within a partition, and so within a unit, as they stand in the log whatever the
    clocks say."""
    latest: dict[int, int] = {}
    keyed: list[tuple[int, int, int, DeadLetter]] = []
    for letter in letters:
        at_ms = latest[letter.partition] = max(letter.died_at_ms, latest.get(letter.partition, 0))
        keyed.append((at_ms, letter.partition, letter.offset, letter))
    return [letter for *_, letter in sorted(keyed, key=lambda row: row[:3])]
