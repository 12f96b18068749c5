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
    _entries_now: int = field(init=False)
    """In the next batch, at most."""
    _waits: dict[str, _Wait] = field(default_factory=dict)
    _held: set[Lane] = field(default_factory=set)
    """Lanes of passed entries, at destinations that do not wait themselves."""
    _before: tuple[frozenset[str], int, frozenset[Lane]] | None = None
    """Who waited when destinations were last tried again, how far the pass had come, and the lanes that it held. None:
    that is of no use any more."""

    def __post_init__(self) -> None:
        self._entries_now = self.entries_max

    def choose(self, entries: Iterable[tuple[int, StoredEntry, int]]) -> list[tuple[int, StoredEntry]]:
        """Returns the next batch of entries (number, entry, bytes) that were read from `position` on, in order.

        The caller may pass fewer than there are; `position` says how far they were looked at.
        """
        chosen: list[tuple[int, StoredEntry]] = []
        size_bytes = 0
        for number, entry, entry_bytes in entries:
            assert number >= self.position, (number, self.position)
            if self._must_wait(entry):
                self._held.update(lane_of(send) for send in entry.sends if not self._is_waiting(send.destination))
            elif chosen and (len(chosen) == self._entries_now or size_bytes + entry_bytes > self.bytes_max):
                break
            else:
                chosen.append((number, entry))
                size_bytes += entry_bytes
            self.position = number + 1
        return chosen

    def shrink(self, entries: int) -> None:
        """So many in a batch were too many: the next one has half of them, and those after it a little more each."""
        self._entries_now = max(1, entries // 2)

    def suspend(self, destination: str, now_ms: int) -> bool:
        """Let a destination's entries wait, longer each time, for it takes nothing now.

        Returns True if it took some before.
        """
        before = self._waits.get(destination)
        tries = 0 if before is None else before.tries + 1
        self._waits[destination] = _Wait(tries, now_ms + next_wait_ms(tries))
        self._look_from(0, ())
        if self._before is not None and self._before[0] <= set(self.waiting_destinations):
            self._look_from(*self._before[1:])  # nothing went, and all that was passed is to be passed again
        return before is None

    def release_due(self, now_ms: int) -> None:
        """Try destinations again whose time has come; what they hold is looked at from the beginning."""
        due = [wait for wait in self._waits.values() if wait.until_ms <= now_ms]
        if due:
            if self._before is None or self.position >= self._before[1]:
                self._before = frozenset(self.waiting_destinations), self.position, frozenset(self._held)
            for wait in due:
                wait.until_ms = -1
            self._look_from(0, ())

    def sent(self, destinations: Iterable[str]) -> None:
        """A batch went there: they do not wait any more, and the next may be larger."""
        self._before = None
        self._entries_now = min(self.entries_max, self._entries_now + 1 + self._entries_now // 8)
        for destination in destinations:
            wait = self._waits.pop(destination, None)
            if wait is not None and wait.until_ms >= 0:  # it took a part of the batch that it began to wait in
                self._look_from(0, ())

    def set_aside(self, entry: StoredEntry) -> None:
        """It will not go: a destination that it was tried at is no longer one that waited for it."""
        self._before = None
        for send in entry.sends:
            if not self._is_waiting(send.destination):
                self._waits.pop(send.destination, None)

    def begin_again(self) -> None:
        """Look at all from the beginning, as when nobody knows what became of a batch."""
        self._before = None
        self._look_from(0, ())

    def due_at_ms(self) -> int | None:
        """Returns when the next destination is to be tried again; None: none waits."""
        return min((wait.until_ms for wait in self._waits.values() if wait.until_ms >= 0), default=None)

    @property
    def waiting_destinations(self) -> list[str]:
        """Returns those that take nothing for now, by name."""
        return sorted(filter(self._is_waiting, self._waits))

    def _look_from(self, position: int, held: Iterable[Lane]) -> None:
        self.position, self._held = position, set(held)

    def _must_wait(self, entry: StoredEntry) -> bool:
        return any(self._is_waiting(send.destination) or lane_of(send) in self._held for send in entry.sends)

    def _is_waiting(self, destination: str) -> bool:
        wait = self._waits.get(destination)
        return wait is not None and wait.until_ms >= 0
