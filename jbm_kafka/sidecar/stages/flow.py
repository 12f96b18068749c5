"""Keeps a group worker within its memory: pauses partitions that are far ahead, moves what waits at gates to disk.

A partition whose messages can be handed over pauses; one whose messages wait behind blocked units goes on, and what
waits there leaves memory, so a blocked unit does not stop others (LOG-9). Where that is not enough, what waits for a
time or a selector leaves with its gate. What cannot leave is small: what is remembered of messages that came back, and
gates of what an operator may let go. Partitions with more of those than the budget allows pause too.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import ceil
from typing import TypeVar, cast

from jbm_kafka.core.channel.spilling import Spillable, shelvable, spillable
from jbm_kafka.core.channel.unit_of_order import Gate
from jbm_kafka.core.jms_errors import ChannelLost, ResourceAllocationError
from jbm_kafka.core.log_rate_limit import LogRateLimit
from jbm_kafka.ports import GroupConsumer, HeldStore, KafkaRecord
from jbm_kafka.sidecar.channel import tuning as numbers
from jbm_kafka.sidecar.channel.group_data import GroupData
from jbm_kafka.sidecar.channel.owned_channel import OwnedChannel
from jbm_kafka.sidecar.stages.spilled import SpilledMessages

log = logging.getLogger(__name__)

T = TypeVar("T")

Channels = Mapping[int, OwnedChannel]

CONSUMER_BYTES_MIN = 1 << 20
"""A client with less fetches a large message alone, and is slow."""
SHELVED_COUNT = 4_000
"""Messages shelved in a turn at most: less than a tenth of a second, for the group worker has others to serve."""
ARRIVALS_WEIGHED_MIN = 64
"""Fewer that may be handed over are not weighed: however large, they are soon gone."""
LINE_MS = 60_000
"""The interval of lines about a disk that stays full, or is broken: each try has an error."""
LOOK_EVERY = 64
"""Turns until gates are looked at again though the last look found too little to spill; looking costs a walk."""


class Flow:
    """The memory of one group worker."""

    def __init__(
        self, held_store: HeldStore, *, share_bytes: Callable[[], int], consumer_bytes: int = CONSUMER_BYTES_MIN
    ) -> None:
        self._spilled = SpilledMessages(held_store)
        self.share_bytes = share_bytes
        """The group worker's share now: less when another group worker joins, more when one ends."""
        self._waiting_bytes_max = 0
        """Its part of that, as of the last look."""
        self.consumer_bytes = max(consumer_bytes, CONSUMER_BYTES_MIN)
        """The amount that the Kafka client may prefetch, besides."""
        self._overfull: set[OwnedChannel] = set()
        """Paused, for what waits there takes too much memory and cannot be spilled."""
        self._refused: set[OwnedChannel] = set()
        """Paused, for the held store did not take what waits there; nothing until it does."""
        self._lines: LogRateLimit[str] = LogRateLimit(interval_ms=LINE_MS, each_max=1)
        self.trouble = ""
        """Why the held store takes nothing; empty: it does. Any thread may look."""
        self._goes_on = False
        """There was more to shelve than a turn has time for."""
        self._turns_to_look = 0
        self._look_beyond = 0
        """Look earlier when so much waits: a fruitless look must not let the group worker grow unseen."""
        self.look_at_share()

    def keep_within_memory(self, data: GroupData, consumer: GroupConsumer) -> Sequence[OwnedChannel]:
        """Once a turn. Returns channels of which the held store lost what it had: they must be opened anew."""
        unreadable: list[OwnedChannel] = []
        channels: Channels = data.channels
        now_ms = data.clock.monotonic_ms()
        waiting_bytes = 0
        for channel in list(channels.values()):
            waiting_bytes += channel.memory.waiting_bytes
            if channel.is_awaiting_store and not self._load(channel, data, room_bytes=self._low - waiting_bytes):
                unreadable.append(channel)
        for channel in unreadable:
            self.forget(channel)
            channels = {partition: other for partition, other in channels.items() if other is not channel}
        self._turns_to_look -= 1
        limit = self._low if self._refused or self._goes_on else self._waiting_bytes_max
        if waiting_bytes > limit and (self._turns_to_look <= 0 or waiting_bytes > self._look_beyond):
            self._spill(channels, waiting_bytes - self._low, now_ms)
            left = sum(channel.memory.waiting_bytes for channel in channels.values())
            self._look_beyond = left + self._waiting_bytes_max // 16
            if not self._refused:
                self._note_overfull(channels)
        elif self._overfull or self._refused:
            self._note_shrunk(channels, waiting_bytes)
        if self.trouble and not self._refused:
            self.trouble = ""
        self._pause_or_resume(channels, consumer, data.wanted())
        return unreadable

    def prepare_taking_out(self, channel: OwnedChannel, units: Iterable[bytes]) -> None:
        """Messages of these units, and some without, may go on from elsewhere than the store, which has them still.

        Those units that are shelved have gates again.

        Raises:
            ChannelLost: what is in the store cannot be had any more; the channel is to be recovered.
        """
        self._spilled.find_units(channel, units)
        self._spilled.doubt(channel)

    def forget(self, channel: OwnedChannel) -> None:
        """The channel is gone; so is what the store held of it."""
        self._overfull.discard(channel)
        self._refused.discard(channel)
        self._spilled.forget(channel)

    @property
    def is_pressed(self) -> bool:
        """More is to be spilled than there was time for, or it is tried again after so many turns."""
        return bool(self._refused or self._goes_on or self._turns_to_look > 0)

    def look_at_share(self) -> None:
        """Take what it may take now as its limit."""
        waiting_bytes_max = self.share_bytes() * 7 // 16  # and as much for arrivals; an eighth is the client's
        if waiting_bytes_max < self._waiting_bytes_max:
            self._turns_to_look = 0
        self._waiting_bytes_max = waiting_bytes_max

    @property
    def _low(self) -> int:
        """Down to where is spilled, and up to where is loaded: apart from the limit, or each message would move."""
        return self._waiting_bytes_max * 3 // 4

    def _pause_or_resume(self, channels: Channels, consumer: GroupConsumer, wanted: int) -> None:
        """Pause partitions that have read far enough ahead or filled their memory, and resume those with room again.

        The two limits are apart, or each message would pause and resume.
        """
        for channel in channels.values():
            ahead = len(channel.state.arrivals) + channel.state.gates.free_for(wanted)
            is_full = channel in self._overfull or channel in self._refused
            if len(channel.state.arrivals) >= ARRIVALS_WEIGHED_MIN:
                is_full = is_full or self._arrivals_too_large(channel, len(channels))
            if not channel.memory.is_paused and (ahead > numbers.ARRIVALS_HIGH or is_full):
                channel.memory.is_paused = True
                consumer.pause([channel.partition])
            elif channel.memory.is_paused and ahead < numbers.ARRIVALS_LOW and not is_full:
                channel.memory.is_paused = False
                consumer.resume([channel.partition])

    def _arrivals_too_large(self, channel: OwnedChannel, channels_count: int) -> bool:
        arrivals = channel.state.arrivals
        value = cast(KafkaRecord, arrivals[-1].record).value()
        size = (0 if value is None else len(value)) + numbers.RECORD_OVERHEAD_BYTES
        return len(arrivals) * size > self._waiting_bytes_max // channels_count

    def _spill(self, channels: Channels, excess_bytes: int, now_ms: int) -> None:
        """Spill until so much is gone: the longest lines first, of equal ones what is due last; and then shelve."""
        found: list[tuple[int, int, OwnedChannel, Spillable]] = []
        for channel in channels.values():
            message_bytes = channel.memory.message_bytes
            found += [(row.count * message_bytes, row.gate.due_at_ms, channel, row) for row in spillable(channel.state)]
        found.sort(key=lambda row: (row[0], row[1]), reverse=True)
        rows: dict[OwnedChannel, list[Spillable]] = {}
        for size, _, channel, row in found:
            if excess_bytes <= 0:
                break
            excess_bytes -= size if row.kept else size + numbers.LINE_BYTES
            rows.setdefault(channel, []).append(row)
        # One after the other: what is spilled here may be shelved at once.
        taking = [channel for channel in channels.values() if self._is_put(channel, self._spilled.spill, rows, now_ms)]
        self._goes_on = False
        if excess_bytes > 0:
            gates, excess_bytes = self._choose_gates(taking, excess_bytes)
            taking = [channel for channel in taking if self._is_put(channel, self._spilled.shelve, gates, now_ms)]
        is_refused = len(taking) < len(channels)
        self._turns_to_look = LOOK_EVERY if is_refused or (excess_bytes > 0 and not self._goes_on) else 0

    def _is_put(
        self,
        channel: OwnedChannel,
        put: Callable[[OwnedChannel, Sequence[T]], None],
        rows: Mapping[OwnedChannel, list[T]],
        now_ms: int,
    ) -> bool:
        """False when the held store refuses what there is of the channel."""
        mine = rows.get(channel)
        if not mine:
            return True
        try:
            put(channel, mine)
        except ResourceAllocationError as error:
            self.trouble = f"{channel.name}: {error}. Until then what is in memory is not followed by more"
            if not self._refused:
                self._warn_once_a_minute("put", self.trouble, now_ms)
            self._refused.add(channel)
            return False
        self._refused.discard(channel)
        return True

    def _choose_gates(
        self, channels: Iterable[OwnedChannel], excess_bytes: int
    ) -> tuple[dict[OwnedChannel, list[Gate]], int]:
        """Return what may leave with its gate, of each channel in proportion; and what excess is left then."""
        found = {channel: shelvable(channel.state) for channel in channels}
        count = sum(len(gates) for gates in found.values())
        if not count:
            return {}, excess_bytes
        freed_bytes = sum(channel.memory.gates_bytes(gates) for channel, gates in found.items())
        part = min(excess_bytes / freed_bytes, SHELVED_COUNT / count, 1.0)
        self._goes_on = part < 1.0 and excess_bytes > freed_bytes * part
        chosen = {channel: gates[: ceil(len(gates) * part)] for channel, gates in found.items()}
        return chosen, excess_bytes - sum(channel.memory.gates_bytes(gates) for channel, gates in chosen.items())

    def _load(self, channel: OwnedChannel, data: GroupData, *, room_bytes: int) -> bool:
        """False when the held store cannot give back what it took."""
        message_bytes, wanted = channel.memory.message_bytes, data.wanted()
        try:
            if channel.state.gates.awaiting_look:
                self._spilled.look_up(channel)
            if channel.state.gates.awaiting_load:
                room = room_bytes // message_bytes
                self._spilled.load(channel, room=room, selections=data.selections, wanted_by=wanted)
            if channel.state.shelf.is_awaited:
                room = room_bytes // channel.memory.alone_bytes
                self._spilled.bring_back(channel, room=room, selections=data.selections, wanted_by=wanted)
        except ChannelLost as error:
            text = f"{channel.name}: {error}; the channel is recovered from its changelog and its topic"
            self._warn_once_a_minute(channel.name, text, data.clock.monotonic_ms())
            return False
        return True

    def _warn_once_a_minute(self, key: str, text: str, now_ms: int) -> None:
        more = self._lines.next_line(key, now_ms)
        if more is not None:
            log.warning("%s%s", text, f" ({more} times since the last line)" if more else "")

    # -- what cannot be spilled ------------------------------------------------------------------------------------

    def _note_overfull(self, channels: Channels) -> None:
        """When too much is left still, those with more than their share of it pause; one of them has."""
        sizes = {channel: channel.memory.waiting_bytes for channel in channels.values()}
        if sum(sizes.values()) <= self._waiting_bytes_max:
            return
        for channel, size in sizes.items():
            if size > self._waiting_bytes_max // len(sizes) and channel not in self._overfull:
                self._overfull.add(channel)
                if not self._goes_on:
                    self._warn(channel)

    def _warn(self, channel: OwnedChannel) -> None:
        gates = channel.state.gates
        if gates.free_for(gates.present) > len(gates.by_key) // 2:
            return  # a backlog like any other: its messages only wait for receivers
        log.warning(
            "%s: %d units and messages that came back wait, more than the memory budget has room for; the partition is "
            "not read further until they are fewer. Set memory_budget_bytes higher if that is too few",
            channel.name,
            len(gates.by_key) + len(channel.state.redeliveries),
        )

    def _note_shrunk(self, channels: Channels, waiting_bytes: int) -> None:
        share = self._low // len(channels)
        for channel in list(self._overfull):
            if waiting_bytes < self._low or channel.memory.waiting_bytes < share:
                self._overfull.discard(channel)
        if waiting_bytes <= self._low:
            self._refused.clear()
