"""How far the log of a destination may be deleted: whoever still needs something of it, and the lowest of that. Pure.

Rule in every doubt: nothing is deleted. Of what one channel says twice, differently, the lower number counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from jbm_kafka.core.channel.entries import Position


class PinKind(Enum):
    """Who needs what is in the log."""

    CHANNEL = "channel"
    """A queue or a subscription: what it has not settled."""
    PRIVATE = "private"
    """The private subscriptions that one process has: what not all of them have settled."""
    READER = "reader"
    """A registered reader: what it has not read."""
    GROUP = "group"
    """Another consumer group: what lies behind its committed offset."""


RECEIVERS = frozenset([PinKind.CHANNEL, PinKind.PRIVATE])
"""They settle what they need no more."""


@dataclass(frozen=True, slots=True)
class Pin:
    """Somebody needs a partition from some offset on."""

    kind: PinKind
    name: str
    """The consumer group; of a reader `<kind>|<name>`, as its key has it."""
    offset: int
    """The lowest that is needed."""
    branch: str = ""
    """The id of the prepared branch that has it; empty: none has."""


@dataclass(frozen=True, slots=True)
class ChannelFacts:
    """The record of one channel, as one sees it from outside."""

    log_id: str
    """The log that its position must be about: a topic's id, for a subscription with its incarnation
    (ChannelGroup.log_id)."""
    position: Position | None
    """The changelog's."""
    committed: int | None
    """The group's committed offset, whoever wrote it."""
    begin: int | None
    """The offset where a subscription begins. None: a queue's, of which nothing is recorded before somebody
    receives."""


def needed_from(facts: ChannelFacts) -> int | None:
    """The lowest offset that the channel may still need; None: it is a queue's that nobody has ever received from.

    An operator's reset counts at once when it goes back, and when it goes forward only once an owner has recorded it.
    """
    position = facts.position
    if position is not None and position.topic_id != facts.log_id:
        return facts.begin or 0  # what is recorded is about another log, or another subscription of the name
    known = [facts.committed] if facts.committed is not None else []
    if position is not None:
        known.append(position.watermark)
    return min(known, default=facts.begin)


@dataclass(frozen=True, slots=True)
class Cut:
    """How far one partition is deleted, and what holds the rest."""

    begin: int
    """Where its log begins now."""
    before: int
    """Records below may go; `begin` when none may."""
    end: int
    """Where its log ends; what is written later is not spoken of."""
    pins: tuple[Pin, ...]
    """The pins that need the offset `before`, and so hold up the rest."""

    @property
    def frees(self) -> int:
        """How many offsets go."""
        return self.before - self.begin


def decide_cut(*, begin: int, end: int, pins: Iterable[Pin]) -> Cut:
    """Return what of a partition may go: what lies below every pin.

    `end` was read before it was looked for pins: whoever came later needs nothing below it (decision 73). Without a
    receiver among the pins nothing may go: nobody has settled anything.
    """
    pins = tuple(pins)
    if not any(pin.kind in RECEIVERS for pin in pins):
        return Cut(begin, begin, end, ())
    lowest = min(pin.offset for pin in pins)
    before = max(begin, min(lowest, end))
    return Cut(begin, before, end, tuple(pin for pin in pins if pin.offset <= before) if before < end else ())


def is_truncated(setting: str | None, *, is_ours: bool) -> bool:
    """Return True if what is settled of a destination is deleted: by its setting `truncate`, and without one where we
    made the topic."""
    return is_ours if setting is None else setting == "settled"


def reader_pin(
    name: str, positions: Mapping[int, int], partition: int, *, reads_all: bool, kind: PinKind = PinKind.READER
) -> Pin | None:
    """Return what a registered reader needs of a partition; `reads_all`: of those it names no position of it needs
    all."""
    offset = positions.get(partition, 0 if reads_all else None)
    return None if offset is None else Pin(kind, name, offset)
