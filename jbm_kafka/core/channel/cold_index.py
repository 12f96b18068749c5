"""The offsets of messages that nobody may have yet and that have left memory wholly, with their gates.

Those that are to be looked at again at about the same time stand in one place, and those that no selector chooses in
places of their own: there are as many places as times tell apart, some hundreds however many messages there are. An
offset costs two bytes at most, and next to nothing where they follow each other.

A message without a unit is its own line, so nothing that comes later must find it; the held store has it by place and
offset. A unit has places of its own kind and stands there as the offset of its first message: the held store has its
name by place and offset, and its messages by its name. What comes later of it must find it: shelved_units.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from jbm_kafka.core.channel.redelivery import FOREVER_MS
from jbm_kafka.core.channel.reference import Reference
from jbm_kafka.core.channel.shelved_units import ShelvedUnits, UnitHead
from jbm_kafka.core.channel.unsettled import UnsettledOffsets

PARTS: Final = 8
"""A message comes back early by up to this part of what it has to wait, and then waits more exactly, if there is room
in memory as the others do; each time the rest is at most that part. More parts are more places."""
NEVER: Final = 1 << 64
"""Beyond every instant."""


class Place(NamedTuple):
    """A class of shelved messages that wait for the same time or for a selector."""

    back_at_ms: int
    """When they are to be looked at: no later than one of them may be handed over or expires. 0: at no time."""
    is_unchosen: bool
    """No receiver present chooses them: they are to be looked at too when a selector comes."""
    has_units: bool = False
    """Units stand there, not messages without one."""


def place_for(due_at_ms: int, *, is_unchosen: bool, time_ms: int, has_units: bool = False) -> Place:
    """The place of a message, or of a unit by its first, that waits until then; 0: for a selector, however long.

    Messages that wait for times of one span share the span's beginning; the further off, the longer is a span.
    """
    assert due_at_ms > time_ms or (is_unchosen and not due_at_ms), (due_at_ms, time_ms)
    if not due_at_ms:
        return Place(0, is_unchosen, has_units)
    span_bits = max(((due_at_ms - time_ms) // PARTS).bit_length() - 1, 0)
    return Place(due_at_ms >> span_bits << span_bits, is_unchosen, has_units)


class ColdIndex:
    """The shelved messages of a channel, by place. Part of ChannelState: only `apply` changes it."""

    __slots__ = ("_places", "next_at_ms", "to_ask", "to_fetch", "to_load", "units")

    def __init__(self) -> None:
        self._places: dict[Place, UnsettledOffsets] = {}
        self.next_at_ms = NEVER
        """At no earlier time a place must be looked at that `to_load` does not name."""
        self.to_load: dict[Place, None] = {}
        """Places whose time has come, the earliest first."""
        self.to_ask: dict[Place, int] = {}
        """Places where a selector that has come was not asked yet, with the offset from which on it was not."""
        self.to_fetch: dict[Place, UnsettledOffsets] = {}
        """The offsets that are to come back alone, however long the others of their place wait; none is empty."""
        self.units = ShelvedUnits()

    @property
    def places(self) -> Mapping[Place, UnsettledOffsets]:
        """The offsets that stand in each place; none is empty."""
        return self._places

    @property
    def is_awaited(self) -> bool:
        """Something is to come back, or to be looked at."""
        return bool(self.to_load or self.to_fetch or self.to_ask)

    def place_of(self, offset: int) -> Place | None:
        """Where this one stands; None: nowhere here."""
        return next((place for place, standing in self._places.items() if offset in standing), None)

    def find(self, references: Sequence[Reference]) -> Sequence[tuple[Place, Sequence[Reference]]]:
        """Return those of these that are shelved without a unit, by place."""
        found = (
            (place, [reference for reference in references if reference.offset in standing])
            for place, standing in self._places.items()
            if not place.has_units
        )
        return [(place, mine) for place, mine in found if mine]

    def put(self, place: Place, offsets: Sequence[int]) -> None:
        """These stand there now; ascending."""
        standing = self._places.get(place)
        if standing is None:
            standing = self._places[place] = UnsettledOffsets()
        standing.add(offsets)
        if place.back_at_ms:
            self.next_at_ms = min(self.next_at_ms, place.back_at_ms)

    def take(self, place: Place, offsets: Sequence[int]) -> None:
        """These do not stand there any more."""
        standing = self._places[place]
        before = len(standing)
        standing.discard(offsets)
        assert len(standing) == before - len(offsets), (place, offsets)
        fetched = self.to_fetch.get(place)
        if fetched is not None:
            fetched.discard(offsets)
            if not fetched:
                del self.to_fetch[place]
        if not standing:
            del self._places[place]
            self.to_load.pop(place, None)
            self.to_ask.pop(place, None)

    def put_units(self, place: Place, heads: Sequence[UnitHead], counts: Sequence[int]) -> None:
        """These units stand there now, each with so many messages; ascending."""
        for head, count in zip(heads, counts, strict=True):
            self.units.add(head, count)
        self.put(place, [head.offset for head in heads])

    def take_units(self, place: Place, heads: Sequence[UnitHead]) -> Sequence[tuple[UnitHead, int]]:
        """These units do not stand there any more; how many messages each has."""
        self.take(place, [head.offset for head in heads])
        return [(head, self.units.take(head)) for head in heads]

    def fetch(self, offsets: Sequence[int], *, back_at_ms: int) -> None:
        """Have those of these that stand where all wait until then come back now; ascending."""
        for place in (Place(back_at_ms, is_unchosen=False), Place(back_at_ms, is_unchosen=False, has_units=True)):
            standing = self._places.get(place, ())
            mine = [offset for offset in offsets if offset in standing]
            if mine:
                self.to_fetch.setdefault(place, UnsettledOffsets()).add(mine)

    def fetch_early(self, offsets: Sequence[int]) -> None:
        """Those of these that wait for a time here, of themselves or as the first of their unit, are to come back now;
        ascending."""
        for place in list(self._places):
            if 0 < place.back_at_ms < FOREVER_MS and not place.is_unchosen:
                standing = self._places[place]
                mine = [offset for offset in offsets if offset in standing]
                if mine:
                    self.to_fetch.setdefault(place, UnsettledOffsets()).add(mine)

    def fetch_timed(self) -> None:
        """Whatever waits for a time here, but for ever, is to come back now: that time may be reckoned wrong."""
        for place, standing in self._places.items():
            if 0 < place.back_at_ms < FOREVER_MS and not place.is_unchosen:
                self.fetch(list(standing), back_at_ms=place.back_at_ms)

    def is_fetched(self, place: Place, offset: int) -> bool:
        """It is to come back alone."""
        return offset in self.to_fetch.get(place, ())

    def pass_time(self, now_ms: int) -> None:
        """The places whose time has come are to be loaded."""
        if self.next_at_ms > now_ms:
            return
        timed = sorted(place for place in self._places if place.back_at_ms)
        self.to_load = {place: None for place in timed if place.back_at_ms <= now_ms}
        self.next_at_ms = next((place.back_at_ms for place in timed if place.back_at_ms > now_ms), NEVER)

    def ask_anew(self) -> None:
        """A selector has come: whatever nobody chose may be chosen."""
        self.to_ask = {place: 0 for place in sorted(self._places) if place.is_unchosen}

    def note_asked(self, place: Place, below: int | None) -> None:
        """Note that what stands there below that offset was asked and is chosen by nobody; None: so is all of it."""
        if below is None:
            self.to_ask.pop(place, None)
        elif place in self._places:
            self.to_ask[place] = below
