"""Puts messages of a group worker's channels into the held store, and fetches them back when a gate needs them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import cast

from jbm_kafka.browsing.intake import reference_of
from jbm_kafka.core.channel.changes import Spilled, Unspilled
from jbm_kafka.core.channel.reference import GateKey, Reference
from jbm_kafka.core.channel.spilling import Spillable
from jbm_kafka.core.channel.unit_of_order import Gate
from jbm_kafka.core.jms_errors import ChannelLost, ResourceAllocationError
from jbm_kafka.ports import HeldStore, KafkaRecord
from jbm_kafka.sidecar.channel.owned_channel import OwnedChannel
from jbm_kafka.sidecar.channel.selections import Selections
from jbm_kafka.sidecar.stages.shelved import PUT_COUNT, ShelvedMessages, store_key_of_gate

LOAD_COUNT = 256
"""Messages of a gate that come back at once when there is room."""
LOAD_GATES = 256
"""Gates served in a turn: each is a search in the store, and the group worker has others to serve."""
LOAD_GATES_LEAST = 64


class SpilledMessages:
    """The held store as one group worker sees it."""

    def __init__(self, store: HeldStore) -> None:
        self._store = store
        self._shelved = ShelvedMessages(store)
        self._used_by: set[OwnedChannel] = set()
        self._doubtful: set[OwnedChannel] = set()
        """The store may have rows that are not of messages which wait there: it refused some and kept others, or an
        operator took them out."""

    def spill(self, channel: OwnedChannel, rows: Sequence[Spillable]) -> None:
        """Move these out of memory.

        Raises:
            ResourceAllocationError: the store refuses; some of them are still in memory.
        """
        self._used_by.add(channel)
        batch: list[tuple[bytes, int, KafkaRecord]] = []
        begin = 0
        for end, row in enumerate(rows, 1):
            key = store_key_of_gate(row.gate.key)
            batch += [(key, r.offset, cast(KafkaRecord, r.record)) for r in row.references()]
            if len(batch) >= PUT_COUNT or end == len(rows):
                try:
                    self._store.put(channel.name, batch)
                except ResourceAllocationError:
                    self._doubtful.add(channel)
                    raise
                for put in rows[begin:end]:
                    channel.state.apply(Spilled(key=put.gate.key, kept=put.kept))
                batch, begin = [], end

    def load(self, channel: OwnedChannel, *, room: int, selections: Selections, wanted_by: int) -> None:
        """Fetch back what gates need next, as far as there is room for so many messages, and ask the selectors.

        Without room a few, lest all wait for ever that room gives; not even those while others may be handed over.

        Raises:
            ChannelLost: what is in the store cannot be had any more; the channel is to be recovered.
        """
        gates = channel.state.gates
        gates_max = min(max(room, LOAD_GATES_LEAST - gates.free_for(wanted_by)), LOAD_GATES)
        if gates_max <= 0:
            return
        keys = (key for key in gates.awaiting_load if not (gates.by_key[key].waiting or gates.by_key[key].due_at_ms))
        wanted = list(islice(keys, gates_max))
        for key in wanted:
            count = min(max(room // len(wanted), 1), LOAD_COUNT, gates.by_key[key].spilled)
            references = self._take(channel, key, count)
            selections.look(references)
            channel.state.apply(Unspilled(key=key, references=references))

    def look_up(self, channel: OwnedChannel) -> None:
        """Find out of units of which messages came whether they are shelved.

        Raises:
            ChannelLost: as of `load`.
        """
        self._shelved.look_up(channel)

    def find_units(self, channel: OwnedChannel, units: Iterable[bytes]) -> None:
        """Give gates again to those of these units that are shelved.

        Raises:
            ChannelLost: as of `load`.
        """
        for unit in units:
            if channel.state.shelf.units.may_have(unit):
                self._shelved.bring_unit_back(channel, unit)

    def shelve(self, channel: OwnedChannel, gates: Sequence[Gate]) -> None:
        """Move these out of memory, with what has no unit.

        Raises:
            ResourceAllocationError: as of `spill`.
        """
        self._used_by.add(channel)
        self._shelved.shelve(channel, gates)

    def bring_back(self, channel: OwnedChannel, *, room: int, selections: Selections, wanted_by: int) -> None:
        """Fetch back what stands on the shelf and is due or chosen, as far as there is room; without room as `load`.

        Raises:
            ChannelLost: as of `load`.
        """
        least = LOAD_GATES_LEAST - channel.state.gates.free_for(wanted_by)
        self._shelved.bring_back(channel, room=max(room, least), selections=selections)

    def _take(self, channel: OwnedChannel, key: GateKey, count: int) -> list[Reference]:
        taken: list[Reference] = []
        while len(taken) < count:
            records = self._store.take(channel.name, store_key_of_gate(key), count - len(taken))
            if not records:
                raise ChannelLost(f"{channel.name}: spilled messages are not in the held store any more")
            references = [reference_of(record) for record in records]
            if channel in self._doubtful:
                references = [reference for reference in references if not _was_handed_over(channel, reference.offset)]
            taken += references
        return taken

    def doubt(self, channel: OwnedChannel) -> None:
        """Some of its messages may have gone on while the store has them."""
        if channel in self._used_by:
            self._doubtful.add(channel)

    def forget(self, channel: OwnedChannel) -> None:
        """The channel is gone; so is what the store held of it."""
        self._doubtful.discard(channel)
        if channel in self._used_by:
            self._used_by.discard(channel)
            self._store.clear(channel.name)


def _was_handed_over(channel: OwnedChannel, offset: int) -> bool:
    """It went on from memory: a row of it was left by a `put` that failed."""
    state = channel.state
    return offset not in state.unsettled or any(offset in hand for hand in state.in_hand.values())
