"""Puts what a group worker's channels shelve into the held store, and brings back what is due or chosen.

Of a shelved message the store has the record, of a shelved unit a row with its name, which tells nothing else: its
messages are where `spilled.py` has put them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import cast

from jbm_kafka.browsing.intake import reference_of
from jbm_kafka.core.channel.changes import ShelfAsked, Shelved, UnitNotShelved, UnitsShelved, UnitsUnshelved, Unshelved
from jbm_kafka.core.channel.cold_index import NEVER, Place
from jbm_kafka.core.channel.reference import GateKey, Reference
from jbm_kafka.core.channel.shelved_units import UnitHead
from jbm_kafka.core.channel.spilling import shelved
from jbm_kafka.core.channel.unit_of_order import Gate
from jbm_kafka.core.channel.unsettled import UnsettledOffsets
from jbm_kafka.core.jms_errors import ChannelLost
from jbm_kafka.ports import Headers, HeldStore, KafkaRecord
from jbm_kafka.sidecar.channel.owned_channel import OwnedChannel
from jbm_kafka.sidecar.channel.selections import Selections

PUT_COUNT = 1_000
"""Messages put at once: single ones are slow to write, and all at once stand in memory twice."""
LOAD_COUNT = 1_000
"""Messages that come back in a turn at most; the group worker has others to serve."""
ASK_COUNT = 1_000
"""Messages that a selector is asked about in a turn: some 10 ms of it."""
ASK_UNITS_COUNT = 256
"""Units whose first message it is asked about: each is a search in the store."""
LOOK_COUNT = 256
"""Units that are looked up in a turn."""
NAMES_COUNT = 256
"""Rows that are read at once of a unit whose first one does not count."""


class ShelvedMessages:
    """The held store as shelves see it. A row that the store kept though it refused it is known by its offset."""

    def __init__(self, store: HeldStore) -> None:
        self._store = store

    def shelve(self, channel: OwnedChannel, gates: Sequence[Gate]) -> None:
        """Move these out of memory, with what has no unit.

        Raises:
            ResourceAllocationError: the store refuses; some of them are still in memory.
        """
        for begin in range(0, len(gates), PUT_COUNT):
            for change in shelved(channel.state, gates[begin : begin + PUT_COUNT]):
                self._store.put(channel.name, list(_rows(channel, change)))
                channel.state.apply(change)

    def look_up(self, channel: OwnedChannel) -> None:
        """Find out of some units of which messages came whether they are shelved; those that are have a gate again.

        Raises:
            ChannelLost: as of `bring_back`.
        """
        for key in list(islice(channel.state.gates.awaiting_look, LOOK_COUNT)):
            unit = cast(bytes, key)
            if not self.bring_unit_back(channel, unit):
                channel.state.apply(UnitNotShelved(unit))

    def bring_unit_back(self, channel: OwnedChannel, unit: bytes) -> bool:
        """Give this unit its gate again, if it is shelved; its messages stay in the store.

        Raises:
            ChannelLost: as of `bring_back`.
        """
        shelf = channel.state.shelf
        for offset in self._offsets_of(channel, unit):
            place = shelf.place_of(offset)
            if place is not None:
                self._store.remove(channel.name, _store_key(place), [offset])
                channel.state.apply(UnitsUnshelved(place, [UnitHead(offset, unit)]))
                return True
        return False

    def _offsets_of(self, channel: OwnedChannel, unit: bytes) -> Iterator[int]:
        """Yield what the store has of a unit; its first message comes first but for rows that do not count any more."""
        begin, count = 0, 1
        while records := self._store.read(channel.name, store_key_of_gate(unit), begin, count):
            yield from (cast(int, record.offset()) for record in records)
            if len(records) < count:
                return
            begin, count = cast(int, records[-1].offset()) + 1, NAMES_COUNT

    def bring_back(self, channel: OwnedChannel, *, room: int, selections: Selections) -> None:
        """Bring back what is due, what an operator has let go, and then what a selector that has come chooses: so many
        at most.

        Raises:
            ChannelLost: what is in the store cannot be had any more; the channel is to be recovered.
        """
        shelf = channel.state.shelf
        room = min(room, LOAD_COUNT)
        while room > 0 and shelf.to_load:
            place = next(iter(shelf.to_load))
            if place.has_units:
                room -= self._take_units(channel, place, room)
            else:
                room -= len(self._take(channel, place, room, selections))
        while room > 0 and shelf.to_fetch:
            place, offsets = next(iter(shelf.to_fetch.items()))
            room -= self._fetch(channel, place, list(islice(offsets, room)), selections)
        if room > 0 and shelf.to_ask:
            place = next(iter(shelf.to_ask))
            if place.has_units:
                self._ask_units(channel, place, room, selections)
            else:
                self._ask(channel, place, room, selections)

    def _take(self, channel: OwnedChannel, place: Place, count: int, selections: Selections) -> Sequence[Reference]:
        """Take so many of one place, the first of the log first."""
        standing = channel.state.shelf.places[place]
        records = self._take_rows(channel, place, count)
        references = _of_place(records, standing)
        selections.look(references)
        if references:
            channel.state.apply(Unshelved(place, references))
        return references

    def _take_units(self, channel: OwnedChannel, place: Place, count: int) -> int:
        """Give units of one place their gates again; how many."""
        standing = channel.state.shelf.places[place]
        heads = _units_of_place(self._take_rows(channel, place, count), standing)
        if heads:
            channel.state.apply(UnitsUnshelved(place, heads))
        return len(heads)

    def _fetch(self, channel: OwnedChannel, place: Place, offsets: Sequence[int], selections: Selections) -> int:
        """Some of one place come back; how many."""
        key = _store_key(place)
        rows = [row for offset in offsets for row in self._store.read(channel.name, key, offset, 1)]
        if [row.offset() for row in rows] != offsets:
            raise _lost(channel)
        self._store.remove(channel.name, key, offsets)
        if place.has_units:
            heads = [UnitHead(offset, cast(bytes, row.key())) for offset, row in zip(offsets, rows, strict=True)]
            channel.state.apply(UnitsUnshelved(place, heads))
            return len(heads)
        references = [reference_of(row) for row in rows]
        selections.look(references)
        channel.state.apply(Unshelved(place, references))
        return len(references)

    def _take_rows(self, channel: OwnedChannel, place: Place, count: int) -> Sequence[KafkaRecord]:
        records = self._store.take(channel.name, _store_key(place), count)
        if not records:
            raise _lost(channel)
        return records

    def _ask(self, channel: OwnedChannel, place: Place, count: int, selections: Selections) -> None:
        """Go on asking in one place; whoever is chosen comes back, `count` of them at most."""
        shelf, key = channel.state.shelf, _store_key(place)
        standing, begin = shelf.places[place], shelf.to_ask[place]
        records = self._store.read(channel.name, key, begin, ASK_COUNT)
        references = _of_place(records, standing)
        below = cast(int, records[-1].offset()) + 1 if len(records) == ASK_COUNT else None
        if len(references) < len(standing.within(begin, NEVER if below is None else below)):
            raise _lost(channel)
        selections.look(references)
        chosen = [reference for reference in references if reference.chosen_by & selections.present]
        if len(chosen) > count:
            below, chosen = chosen[count].offset, chosen[:count]
        if chosen:
            self._store.remove(channel.name, key, [reference.offset for reference in chosen])
            channel.state.apply(Unshelved(place, chosen))
        channel.state.apply(ShelfAsked(place, below))

    def _ask_units(self, channel: OwnedChannel, place: Place, count: int, selections: Selections) -> None:
        """As `_ask`, of the first messages of units."""
        shelf, key, count = channel.state.shelf, _store_key(place), min(count, ASK_UNITS_COUNT)
        standing, begin = shelf.places[place], shelf.to_ask[place]
        rows = self._store.read(channel.name, key, begin, count)
        heads = _units_of_place(rows, standing)
        below = cast(int, rows[-1].offset()) + 1 if len(rows) == count else None
        if len(heads) < len(standing.within(begin, NEVER if below is None else below)):
            raise _lost(channel)
        firsts = [self._first_of(channel, head) for head in heads]
        selections.look(firsts)
        chosen = [head for head, first in zip(heads, firsts, strict=True) if first.chosen_by & selections.present]
        if chosen:
            self._store.remove(channel.name, key, [head.offset for head in chosen])
            channel.state.apply(UnitsUnshelved(place, chosen))
        channel.state.apply(ShelfAsked(place, below))

    def _first_of(self, channel: OwnedChannel, head: UnitHead) -> Reference:
        records = self._store.read(channel.name, store_key_of_gate(head.unit), head.offset, 1)
        if not records or records[0].offset() != head.offset:
            raise _lost(channel)
        return reference_of(records[0])


class UnitName:
    """A unit's name as a record, for the held store keeps records; its offset is that of the unit's first message."""

    __slots__ = ("_head",)

    def __init__(self, head: UnitHead) -> None:
        self._head = head

    def topic(self) -> str | None:
        return None

    def partition(self) -> int | None:
        return None

    def offset(self) -> int | None:
        return self._head.offset

    def key(self) -> bytes | None:
        return self._head.unit

    def value(self) -> bytes | None:
        return None

    def headers(self) -> Headers | None:
        return None

    def timestamp(self) -> tuple[int, int]:
        return 0, 0


def store_key_of_gate(key: GateKey) -> bytes:
    """Units and single messages have names of their own in the store."""
    return b"m%d" % key if isinstance(key, int) else b"u" + key


def _rows(channel: OwnedChannel, change: Shelved | UnitsShelved) -> Iterator[tuple[bytes, int, KafkaRecord]]:
    """Yield what the store is to keep of what is shelved."""
    key = _store_key(change.place)
    if isinstance(change, UnitsShelved):
        yield from ((key, head.offset, UnitName(head)) for head in change.heads)
        return
    for offset in change.offsets:
        yield key, offset, cast(KafkaRecord, channel.state.gates.by_key[offset].waiting[0].record)


def _lost(channel: OwnedChannel) -> ChannelLost:
    return ChannelLost(f"{channel.name}: what was shelved is not in the held store any more")


def _units_of_place(rows: Sequence[KafkaRecord], standing: UnsettledOffsets) -> Sequence[UnitHead]:
    heads = (UnitHead(cast(int, row.offset()), cast(bytes, row.key())) for row in rows)
    return [head for head in heads if head.offset in standing]


def _of_place(records: Sequence[KafkaRecord], standing: UnsettledOffsets) -> Sequence[Reference]:
    """Without what the store has kept although it refused it."""
    return [reference for reference in map(reference_of, records) if reference.offset in standing]


def _store_key(place: Place) -> bytes:
    """Places have names of their own in the store, beside those of gates."""
    kind = b"nv" if place.is_unchosen else b"tw"
    return b"%c%d" % (kind[place.has_units], place.back_at_ms)
