"""Reads a group worker's topic into its channels: how much, and how often. Owner thread only.

As much as is asked for, when it is asked for: what is read earlier has left the processor's cache when it is handed
over. More only while nobody asks, so that a slow receiver never waits for it, and gets the highest priority of many.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from jbm_kafka.browsing.intake import reference_of, references_by_partition, without_others
from jbm_kafka.core.channel.changes import Fetched
from jbm_kafka.core.channel.reference import Reference
from jbm_kafka.core.log_times import APART_MS
from jbm_kafka.ports import GroupConsumer, KafkaRecord
from jbm_kafka.sidecar.channel import tuning as numbers
from jbm_kafka.sidecar.channel.group_data import GroupData
from jbm_kafka.sidecar.channel.owned_channel import OwnedChannel
from jbm_kafka.sidecar.stages.misrouted_units import UnitRoutes
from jbm_kafka.sidecar.stages.repeated_messages import RepeatedMessages
from jbm_kafka.store.stored_record import parked_record

FED_COUNT = 250
"""Parked messages that a channel reads in a turn: between two, what there is no room for leaves memory."""


class Fetching:
    """The intake of one group worker."""

    def __init__(
        self, data: GroupData, *, note_break: Callable[[], None], routes: UnitRoutes, repeated: RepeatedMessages
    ) -> None:
        """`note_break` is called when a connection was lost."""
        self._data = data
        self._fetched_at_ms = 0
        self._note_break = note_break
        self._routes = routes
        self._repeated = repeated
        self._breaks = 0
        self._is_recorded = not data.group.is_temporary
        """Positions are committed; a temporary destination has none."""

    def ahead(self) -> int:
        """How many messages are read and, as far as is known without looking at their units, may be handed over.

        With selectors: to those who ask for some.
        """
        channels, wanted = self._data.channels.values(), self._data.wanted()
        return sum([len(channel.state.arrivals) + channel.state.gates.free_for(wanted) for channel in channels])

    def fetch(self, consumer: GroupConsumer, *, ahead: int, credit: int, rest_s: float) -> bool:
        """Read on; True when something came. It waits for that only while nothing is `ahead`, and at most `rest_s`.

        `credit`: how many more the receivers want.

        Raises:
            PositionOutOfRange, PartitionGone, PartitionUnreadable, KafkaClientError: as of `GroupConsumer.consume`.
        """
        now_ms = self._data.clock.monotonic_ms()
        has_enough = ahead >= (credit or numbers.ENOUGH_AHEAD)
        if has_enough and now_ms - self._fetched_at_ms < numbers.FETCH_PAUSE_MS:
            return False
        self._fetched_at_ms = now_ms
        has_fed = bool(self._data.feeding) and self._feed(consumer)
        count = max(numbers.FETCH_COUNT_MIN, min(credit - ahead, numbers.FETCH_COUNT_MAX))
        if self._data.selections.is_selecting and not has_enough:
            count = numbers.FETCH_COUNT_MAX  # few of them may be chosen
        records = consumer.consume(count, 0 if ahead or has_fed else rest_s)
        breaks = consumer.breaks()
        if breaks != self._breaks:
            self._data.counters.reconnects += 1
            self._breaks = breaks
            self._note_break()
        self._take_in(records)
        self._pass_markers(consumer)
        return has_fed or bool(records)

    def _feed(self, consumer: GroupConsumer) -> bool:
        """Read the next of what is parked, as if the log had it; where all of it is read, the log follows."""
        clock = self._data.clock
        for channel in list(self._data.feeding):
            if channel.is_lost or channel.is_closing:
                self._data.feeding.remove(channel)
                continue
            unread, partition = channel.parked.unread, channel.partition
            rows, channel.parked.unread = unread[:FED_COUNT], unread[FED_COUNT:]
            references = [reference_of(parked_record(channel.topic, partition, row)) for row in rows]
            if self._data.selections.is_selecting:
                self._data.selections.look(references)
            now_ms = clock.now_ms()
            channel.pass_time(now_ms, clock.set_back_ms)
            end = rows[-1].offset + 1 if channel.parked.unread else channel.parked.log_position
            begin = channel.state.read_position
            channel.state.apply(Fetched(begin=begin, end=end, references=references, at_ms=now_ms))
            for row in rows:
                channel.sent_times.note(row.offset, row.timestamp_ms, held_from=channel.held_from)
            channel.memory.mean_body_bytes = sum(row.size for row in rows) // len(rows)
            if not channel.parked.unread:
                self._data.feeding.remove(channel)
                consumer.seek(partition, channel.state.read_position)
        return True

    def _take_in(self, records: Sequence[KafkaRecord]) -> None:
        clock = self._data.clock
        now_ms = clock.now_ms() if records else 0
        for partition, intake in references_by_partition(records).items():
            references, mean_body_bytes, identified, addressed = intake
            channel = self._data.channels.get(partition)
            if channel is None or channel.is_lost or channel.parked.unread:  # read anew once all that is parked is
                continue
            begin = channel.state.read_position
            if references[0].offset < begin:  # fetched before a seek took effect
                references = [reference for reference in references if reference.offset >= begin]
                if not references:
                    continue
            self._routes.look(partition, references)
            end = references[-1].offset + 1
            if addressed:
                references = without_others(references, addressed, self._data.group.subscription)
            if (has := self._data.has) is not None:
                references = [each for each in references if has(each)]
            if self._data.selections.is_selecting:
                self._data.selections.look(references)
            channel.pass_time(now_ms, clock.set_back_ms)  # a clock set back since may have stamped these
            change = Fetched(begin=begin, end=end, references=references, at_ms=now_ms)
            channel.state.apply(self._repeated.sift(channel, change, identified, now_ms) if identified else change)
            if references:
                _note_times(channel, references)
            channel.memory.mean_body_bytes = mean_body_bytes

    def _pass_markers(self, consumer: GroupConsumer) -> None:
        """Go on to where partitions had nothing more: aborted records and transactions' markers never come (LOG-2)."""
        for partition, end in consumer.ends_reached().items():
            channel = self._data.channels.get(partition)
            if channel is None or channel.parked.unread:
                continue
            if self._is_recorded and channel.state.read_position < end:
                channel.state.apply(Fetched(begin=channel.state.read_position, end=end, references=()))


def _note_times(channel: OwnedChannel, references: Sequence[Reference]) -> None:
    """Remember when these were sent: of what comes as it is sent the first tells it for all."""
    first_ms, last_ms, held_from = _sent_at_ms(references[0]), _sent_at_ms(references[-1]), channel.held_from
    channel.sent_times.note(references[0].offset, first_ms, held_from=held_from)
    if last_ms - first_ms >= APART_MS:
        for reference in references:
            channel.sent_times.note(reference.offset, _sent_at_ms(reference), held_from=held_from)


def _sent_at_ms(reference: Reference) -> int:
    return cast(KafkaRecord, reference.record).timestamp()[1]
