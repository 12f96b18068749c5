"""Which stored entry goes next, and what becomes of one that cannot: pure (SAF-3, SAF-6).

Entries go in the order of their numbers. One passes another only where that changes no order that was promised: a
destination that takes nothing for now holds its own entries, and an entry that waits holds its lanes elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from jbm_kafka.codec.stored_sends import StoredEntry, StoredSend
from jbm_kafka.core.jms_errors import (
    ConnectionFailedError,
    InvalidDestinationError,
    InvalidSettingError,
    JMSError,
    JMSSecurityError,
    MessageFormatError,
    MessageTooLargeError,
    SendTimeoutError,
)

Lane = tuple[str, bytes | None, int]
"""A line that keeps its order: a unit at a destination, or what one session sends there without a unit."""
FIRST_WAIT_MS = 250
LONGEST_WAIT_MS = 30_000
_HOPELESS = (
    MessageFormatError,
    MessageTooLargeError,
    InvalidDestinationError,
    InvalidSettingError,
    JMSSecurityError,
)
"""Errors that a message meets again, until somebody changes a right, a setting or a limit."""


class Verdict(Enum):
    """The meaning of a failure for what is stored."""

    SET_ASIDE = "set aside"
    """This entry cannot go: it becomes a dead letter in the store, and others go on."""
    DESTINATION_WAITS = "destination waits"
    """Its destination takes nothing for now; others go on."""
    ALL_WAIT = "all wait"
    """Kafka is away."""


def verdict_of(error: JMSError) -> Verdict:
    """Returns what it means that an entry could not be made ready because of this error."""
    if isinstance(error, ConnectionFailedError | SendTimeoutError):
        return Verdict.ALL_WAIT
    if isinstance(error, _HOPELESS):
        return Verdict.SET_ASIDE
    return Verdict.DESTINATION_WAITS


def lane_of(send: StoredSend) -> Lane:
    """Returns the lane that a send keeps its order in."""
    return send.destination, send.key, 0 if send.key is not None else send.route


def next_wait_ms(tries: int) -> int:
    """Returns how long to wait after so many failures in a row; twice as long each time, up to half a minute."""
    return min(LONGEST_WAIT_MS, FIRST_WAIT_MS << min(tries, 10))


@dataclass(slots=True)
class _Wait:
    tries: int
    until_ms: int


@dataclass(slots=True)
class ForwardingOrder:
    """Chooses batches in one pass over the store after the other. Only these methods change it."""

    entries_max: int
    """In a batch."""
    bytes_max: int
    """The bytes of a batch; an entry that is larger goes alone."""
    position: int = 0
    """Entries below it were chosen or passed since the pass began."""
    _waits: dict[str, _Wait] = field(default_factory=dict)
    _held: set[Lane] = field(default_factory=set)
    """Lanes of passed entries, at destinations that do not wait themselves."""

    def choose(self, entries: Iterable[tuple[int, StoredEntry, int]]) -> list[tuple[int, StoredEntry]]:
        """Returns the next batch of entries (number, entry, bytes) that were read from `position` on, in order.

        The caller may pass fewer than there are; `position` says how far they were looked at.
        """
        chosen: list[tuple[int, StoredEntry]] = []
        size_bytes = 0
        for number, entry, entry_bytes in entries:
            assert number >= self.position, (number, self.position)
            if self._must_wait(entry):
                waiting = set(self.waiting_destinations)
                self._held.update(lane_of(send) for send in entry.sends if send.destination not in waiting)
            elif chosen and (len(chosen) == self.entries_max or size_bytes + entry_bytes > self.bytes_max):
                break
            else:
                chosen.append((number, entry))
                size_bytes += entry_bytes
            self.position = number + 1
        return chosen

    def suspend(self, destination: str, now_ms: int) -> bool:
        """Let a destination's entries wait, longer each time, for it takes nothing now.

        Returns True if it took some before.
        """
        before = self._waits.get(destination)
        tries = 0 if before is None else before.tries + 1
        self._waits[destination] = _Wait(tries, now_ms + next_wait_ms(tries))
        self.begin_again()
        return before is None

    def release_due(self, now_ms: int) -> None:
        """Try destinations again whose time has come; what they hold is looked at from the beginning."""
        due = [wait for wait in self._waits.values() if wait.until_ms <= now_ms]
        if due:
            for wait in due:
                wait.until_ms = -1
            self.begin_again()

    def sent(self, destinations: Iterable[str]) -> None:
        """Something went there: they do not wait any more."""
        for destination in destinations:
            self._waits.pop(destination, None)

    def begin_again(self) -> None:
        """Look at all from the beginning, as when a batch was not written."""
        self.position = 0
        self._held.clear()

    def due_at_ms(self) -> int | None:
        """Returns when the next destination is to be tried again; None: none waits."""
        return min((wait.until_ms for wait in self._waits.values() if wait.until_ms >= 0), default=None)

    @property
    def waiting_destinations(self) -> list[str]:
        """Returns those that take nothing for now, by name."""
        return sorted(name for name, wait in self._waits.items() if wait.until_ms >= 0)

    def _must_wait(self, entry: StoredEntry) -> bool:
        return any(
            (wait := self._waits.get(send.destination)) is not None and wait.until_ms >= 0 for send in entry.sends
        ) or any(lane_of(send) in self._held for send in entry.sends)
