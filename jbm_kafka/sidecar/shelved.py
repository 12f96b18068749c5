"""What a group worker's channels have shelved: puts it into the held store, and brings back what is due or chosen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from jbm_kafka.core.changes import ShelfAsked, Unshelved
from jbm_kafka.core.errors import ChannelLost
from jbm_kafka.core.reference import Reference
from jbm_kafka.core.shelf import NEVER, Place
from jbm_kafka.core.spilling import shelved
from jbm_kafka.core.unit_of_order import Gate
from jbm_kafka.core.unsettled import UnsettledOffsets
from jbm_kafka.ports import HeldStore, KafkaRecord
from jbm_kafka.sidecar.intake import reference_of
from jbm_kafka.sidecar.owned_channel import OwnedChannel
from jbm_kafka.sidecar.selections import Selections

PUT_COUNT = 1_000
"""Messages put at once: single ones are slow to write, and all at once stand in memory twice."""
LOAD_COUNT = 1_000
"""Messages that come back in a turn at most; the group worker has others to serve."""
ASK_COUNT = 1_000
"""Messages that a selector is asked about in a turn: some 10 ms of it."""


class ShelvedMessages:
    """The held store as shelves see it. A row that the store kept though it refused it is told by its offset."""

    def __init__(self, store: HeldStore) -> None:
        self._store = store

    def shelve(self, channel: OwnedChannel, gates: Sequence[Gate]) -> None:
        """Move these out of memory, with their only messages.

        Raises:
            ResourceAllocationError: the store refuses; some of them are still in memory.
        """
        by_key, name = channel.state.gates.by_key, channel.name
        for begin in range(0, len(gates), PUT_COUNT):
            for change in shelved(channel.state, gates[begin : begin + PUT_COUNT]):
                key = _store_key(change.place)
                heads = [by_key[offset].waiting[0] for offset in change.offsets]
                self._store.put(name, [(key, head.offset, cast(KafkaRecord, head.record)) for head in heads])
                channel.state.apply(change)

    def bring_back(self, channel: OwnedChannel, *, room: int, selections: Selections) -> None:
        """What is due, and then what a selector that has come chooses: so many at most.

        Raises:
            ChannelLost: what is in the store cannot be had any more; the channel is to be recovered.
        """
        shelf = channel.state.shelf
        room = min(room, LOAD_COUNT)
        while room > 0 and shelf.to_load:
            references = self._take(channel, next(iter(shelf.to_load)), room, selections)
            room -= len(references)
        if room > 0 and shelf.to_ask:
            self._ask(channel, next(iter(shelf.to_ask)), room, selections)

    def _take(self, channel: OwnedChannel, place: Place, count: int, selections: Selections) -> Sequence[Reference]:
        """Of one place, the first of the log first."""
        standing = channel.state.shelf.places[place]
        records = self._store.take(channel.name, _store_key(place), count)
        if not records:
            raise ChannelLost(f"{channel.name}: shelved messages are not in the held store any more")
        references = _of_place(records, standing)
        selections.look(references)
        if references:
            channel.state.apply(Unshelved(place, references))
        return references

    def _ask(self, channel: OwnedChannel, place: Place, count: int, selections: Selections) -> None:
        """Go on asking in one place; whoever is chosen comes back, `count` of them at most."""
        shelf, key = channel.state.shelf, _store_key(place)
        standing, begin = shelf.places[place], shelf.to_ask[place]
        records = self._store.read(channel.name, key, begin, ASK_COUNT)
        references = _of_place(records, standing)
        below = cast(int, records[-1].offset()) + 1 if len(records) == ASK_COUNT else None
        if len(references) < len(standing.within(begin, NEVER if below is None else below)):
            raise ChannelLost(f"{channel.name}: shelved messages are not in the held store any more")
        selections.look(references)
        chosen = [reference for reference in references if reference.chosen_by & selections.present]
        if len(chosen) > count:
            below, chosen = chosen[count].offset, chosen[:count]
        if chosen:
            self._store.remove(channel.name, key, [reference.offset for reference in chosen])
            channel.state.apply(Unshelved(place, chosen))
        channel.state.apply(ShelfAsked(place, below))


def _of_place(records: Sequence[KafkaRecord], standing: UnsettledOffsets) -> Sequence[Reference]:
    """Without what the store has kept although it refused it."""
    return [reference for reference in map(reference_of, records) if reference.offset in standing]


def _store_key(place: Place) -> bytes:
    """Places have names of their own in the store, beside those of gates."""
    return b"%c%d" % (b"n" if place.is_unchosen else b"t", place.back_at_ms)
