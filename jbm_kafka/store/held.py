"""Records of waiting messages beyond the memory budget, in RocksDB's own column family.

A cache of the log, empty at every open, unlogged and never waited for. A row's key is channel number, gate length,
gate, offset, all of fixed width but the gate: rows of one gate stand together in offset order, whatever bytes the
gate is made of.

What was taken leaves marks that a reader has to step over until RocksDB compacts them. A queue's front is all marks,
so `take` remembers how far it took and starts there.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from contextlib import suppress

from rocksdict import Rdict, ReadOptions, WriteBatch

from jbm_kafka.core.jms_errors import ChannelLost, ResourceAllocationError
from jbm_kafka.ports import KafkaRecord
from jbm_kafka.store.rocks import Rocks
from jbm_kafka.store.stored_record import RecordPacker

BATCH_BYTES_MAX = 4 << 20
"""A batch stands in memory twice while it is written; larger ones are not faster."""
FRONTS_MAX = 1 << 16
"""Gates whose front is remembered, per channel. Past it all are forgotten: that costs time, nothing else."""

_CHANNEL = struct.Struct(">I")
_GATE_LENGTH = struct.Struct(">I")
_OFFSET = struct.Struct(">Q")
_PAST_OFFSETS = b"\xff" * 9


class _Channel:
    """A channel's place in the key space. A cleared channel gets a new one, so numbers are never used twice."""

    __slots__ = ("fronts", "prefix")

    def __init__(self, number: int) -> None:
        self.prefix = _CHANNEL.pack(number)
        self.fronts: dict[bytes, int] = {}
        """Per gate: no row lies below this offset."""

    def gate_prefix(self, gate: bytes) -> bytes:
        return self.prefix + _GATE_LENGTH.pack(len(gate)) + gate


class RocksHeldStore:
    """`ports.HeldStore` over RocksDB. One thread for one channel at a time."""

    def __init__(self, rocks: Rocks) -> None:
        self._rocks = rocks
        self._packer = RecordPacker()
        self._channels: dict[str, _Channel] = {}
        self._number_next = 0

    def _channel(self, name: str) -> _Channel:
        channel = self._channels.get(name)
        if channel is None:
            channel = self._channels[name] = _Channel(self._number_next)
            self._number_next += 1
        return channel

    def put(self, channel: str, rows: Sequence[tuple[bytes, int, KafkaRecord]]) -> None:
        """Keep the rows.

        Raises:
            ResourceAllocationError: the disk refuses. Some rows may be kept; putting them again does no harm.
        """
        place = self._channel(channel)
        fronts, pack, pack_offset = place.fronts, self._packer.pack, _OFFSET.pack
        prefixes: dict[bytes, bytes] = {}
        batch, size = WriteBatch(raw_mode=True), 0
        for gate, offset, record in rows:
            prefix = prefixes.get(gate)
            if prefix is None:
                prefix = prefixes[gate] = place.gate_prefix(gate)
                if offset < fronts.get(gate, 0):
                    fronts[gate] = offset
            data = pack(record)
            batch.put(prefix + pack_offset(offset), data, self._rocks.held_family)
            size += len(data)
            if size >= BATCH_BYTES_MAX:
                self._write(batch)
                batch, size = WriteBatch(raw_mode=True), 0
        self._write(batch)

    def _write(self, batch: WriteBatch) -> None:
        try:
            self._rocks.write_held(batch)
        except Exception as error:  # RocksDB knows no finer class
            raise ResourceAllocationError(
                f"waiting messages cannot be kept in {self._rocks.path}: {error}; make room or choose another state "
                "folder; nothing is lost, they are still in their topic",
                path=str(self._rocks.path),
            ) from error

    def take(self, channel: str, gate: bytes, count_max: int) -> Sequence[KafkaRecord]:
        """Remove and return up to `count_max` records of one gate; fewer only when no more are there.

        Raises:
            ChannelLost: the store cannot be read; the channel is to be recovered, its messages are in the log.
        """
        assert count_max > 0, count_max
        place = self._channel(channel)
        taken = self._rows(channel, gate, place.fronts.get(gate, 0), count_max)
        if taken:
            self._delete(channel, gate, [offset for offset, _ in taken])
            if len(place.fronts) >= FRONTS_MAX:
                place.fronts.clear()
            place.fronts[gate] = taken[-1][0] + 1
        return [record for _, record in taken]

    def read(self, channel: str, gate: bytes, begin: int, count_max: int) -> Sequence[KafkaRecord]:
        """Up to `count_max` records of one gate, from this offset on; they stay. Fewer only when no more are there.

        Raises:
            ChannelLost: as of `take`.
        """
        assert count_max > 0, count_max
        begin = max(begin, self._channel(channel).fronts.get(gate, 0))
        return [record for _, record in self._rows(channel, gate, begin, count_max)]

    def remove(self, channel: str, gate: bytes, offsets: Sequence[int]) -> None:
        """Drop these rows of one gate.

        Raises:
            ChannelLost: the disk refuses; the channel is to be recovered.
        """
        self._delete(channel, gate, offsets)

    def _rows(self, channel: str, gate: bytes, begin: int, count_max: int) -> list[tuple[int, KafkaRecord]]:
        prefix = self._channel(channel).gate_prefix(gate)
        bounds = ReadOptions()
        bounds.set_iterate_upper_bound(prefix + _PAST_OFFSETS)  # never into the marks of the next gate
        start, unpack, read_offset = len(prefix), self._packer.unpack, _OFFSET.unpack_from
        found: list[tuple[int, KafkaRecord]] = []
        held = self._rocks.held
        assert isinstance(held, Rdict), "the held store is closed"
        try:
            for key, value in held.items(from_key=prefix + _OFFSET.pack(begin), read_opt=bounds):
                (offset,) = read_offset(key, start)  # type: ignore[arg-type]
                found.append((offset, unpack(offset, value)))
                if len(found) == count_max:
                    break
        except Exception as error:
            raise ChannelLost(f"held messages of {channel} in {self._rocks.path} cannot be read: {error}") from error
        return found

    def _delete(self, channel: str, gate: bytes, offsets: Sequence[int]) -> None:
        prefix = self._channel(channel).gate_prefix(gate)
        batch = WriteBatch(raw_mode=True)
        for offset in offsets:
            batch.delete(prefix + _OFFSET.pack(offset), self._rocks.held_family)
        try:
            self._rocks.write_held(batch)
        except Exception as error:
            raise ChannelLost(f"held messages of {channel} in {self._rocks.path} cannot be taken: {error}") from error

    def clear(self, channel: str) -> None:
        """Drop all that the channel has here; one mark, however much it is.

        When the disk refuses, its rows stay until the next open; nobody finds them.
        """
        place = self._channels.pop(channel, None)
        if place is None:
            return
        (number,) = _CHANNEL.unpack(place.prefix)
        batch = WriteBatch(raw_mode=True)
        batch.delete_range(place.prefix, _CHANNEL.pack(number + 1), self._rocks.held_family)
        with suppress(Exception):  # RocksDB knows no finer class; the number is never used again
            self._rocks.write_held(batch)

    def close(self) -> None:
        """Forget what is held. The RocksDB stays open: it is the state folder's."""
        self._channels.clear()
