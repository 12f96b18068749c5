"""Keeps a lane within its memory: pauses partitions that are far ahead, moves blocked units' messages to disk.

A partition whose messages can be handed over pauses; one whose messages wait behind blocked units goes on, and what
waits there leaves memory, so a blocked unit never stops others (LOG-9).
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, cast

from jbm_kafka.core.changes import Spilled, Unspilled
from jbm_kafka.core.reference import GateKey
from jbm_kafka.core.unit_of_order import Gate
from jbm_kafka.ports import GroupConsumer, HeldStore, KafkaRecord
from jbm_kafka.sidecar import config as numbers
from jbm_kafka.sidecar.intake import reference_of
from jbm_kafka.sidecar.owned_channel import OwnedChannel

if TYPE_CHECKING:
    from jbm_kafka.sidecar.lane import Lane

KEEP_IN_MEMORY = 32
"""Messages of a blocked unit that stay in memory, so that a released unit goes on at once."""
LOAD_COUNT = 256
LOOK_EVERY = 16
"""Turns between two looks at every gate; looking costs a walk over them."""


class Flow:
    """The memory of one lane."""

    def __init__(self, held_store: HeldStore, *, budget_bytes: int) -> None:
        self._store = held_store
        self._waiting_bytes_max = budget_bytes // 2
        self.consumer_bytes = max(budget_bytes // 8, 1 << 20)
        """What the Kafka client may prefetch."""
        self._spilled: dict[tuple[OwnedChannel, GateKey], None] = {}
        """In the order spilled."""
        self._turn = 0

    def keep_within_memory(self, lane: Lane, consumer: GroupConsumer) -> None:
        """Once a turn."""
        self._pause_or_resume(lane, consumer)
        if self._spilled:
            self._load(lane)
        self._turn += 1
        if self._turn % LOOK_EVERY == 0:
            self._spill(lane)

    def forget(self, channel: OwnedChannel) -> None:
        """The channel is gone; so is what the store held of it."""
        mine = {row for row in self._spilled if row[0] is channel}
        if mine:
            self._spilled = {row: None for row in self._spilled if row not in mine}
            self._store.clear(channel.name)

    def _pause_or_resume(self, lane: Lane, consumer: GroupConsumer) -> None:
        for channel in lane.channels.values():
            ahead = len(channel.state.arrivals) + len(channel.state.gates.free)
            if not channel.is_paused and (ahead > numbers.ARRIVALS_HIGH or self._arrivals_too_large(channel, lane)):
                channel.is_paused = True
                consumer.pause([channel.partition])
            elif channel.is_paused and ahead < numbers.ARRIVALS_LOW and not self._arrivals_too_large(channel, lane):
                channel.is_paused = False
                consumer.resume([channel.partition])

    def _arrivals_too_large(self, channel: OwnedChannel, lane: Lane) -> bool:
        arrivals = channel.state.arrivals
        if len(arrivals) < 64:
            return False
        value = cast(KafkaRecord, arrivals[-1].record).value()
        size = (0 if value is None else len(value)) + numbers.RECORD_OVERHEAD_BYTES
        return len(arrivals) * size > self._waiting_bytes_max // max(len(lane.channels), 1)

    def _spill(self, lane: Lane) -> None:
        waiting_bytes = sum(self._waiting_bytes(channel) for channel in lane.channels.values())
        if waiting_bytes <= self._waiting_bytes_max:
            return
        for channel in lane.channels.values():
            for gate in list(channel.state.gates.by_key.values()):
                if len(gate.waiting) > 2 * KEEP_IN_MEMORY or len(gate.tail) > KEEP_IN_MEMORY:
                    self._spill_gate(channel, gate)

    def _waiting_bytes(self, channel: OwnedChannel) -> int:
        count = channel.state.gates.waiting_count
        if not count:
            return 0
        known = channel.state.fetched - channel.state.watermark
        return count * (numbers.RECORD_OVERHEAD_BYTES + channel.mean_body_bytes) if known else 0

    def _spill_gate(self, channel: OwnedChannel, gate: Gate) -> None:
        kept = len(gate.waiting) if gate.spilled else KEEP_IN_MEMORY
        moved = [*islice(gate.waiting, kept, None), *gate.tail]
        key = _store_key(gate.key)
        self._store.put(channel.name, [(key, r.offset, cast(KafkaRecord, r.record)) for r in moved])
        channel.state.apply(Spilled(key=gate.key, kept=kept))
        self._spilled[channel, gate.key] = None

    def _load(self, lane: Lane) -> None:
        """Fetch back what a gate needs next."""
        for channel, key in list(self._spilled):
            gate = channel.state.gates.by_key.get(key)
            if gate is None or not gate.spilled:
                del self._spilled[channel, key]
                continue
            if gate.waiting:
                continue
            records = self._store.take(channel.name, _store_key(key), min(LOAD_COUNT, gate.spilled))
            channel.state.apply(Unspilled(key=key, references=[reference_of(record) for record in records]))


def _store_key(key: GateKey) -> bytes:
    """Units and single messages have names of their own in the store."""
    return b"m%d" % key if isinstance(key, int) else b"u" + key
