"""Reads a group worker's topic into its channels: how much, and how often. Owner thread only.

As much as is asked for, when it is asked for: what is read earlier has left the processor's cache when it is handed
over. More only while nobody asks, so that a slow receiver never waits for it, and gets the highest priority of many.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jbm_kafka.browsing.intake import references_by_partition, without_others
from jbm_kafka.core.changes import Fetched
from jbm_kafka.ports import GroupConsumer, KafkaRecord
from jbm_kafka.sidecar.channel import tuning as numbers
from jbm_kafka.sidecar.channel.group_data import GroupData
from jbm_kafka.sidecar.stages.misrouted_units import UnitRoutes
from jbm_kafka.sidecar.stages.repeated_messages import RepeatedMessages


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
        """Of a temporary destination nothing is committed."""

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
        count = max(numbers.FETCH_COUNT_MIN, min(credit - ahead, numbers.FETCH_COUNT_MAX))
        if self._data.selections.is_selecting and not has_enough:
            count = numbers.FETCH_COUNT_MAX  # few of them may be chosen
        records = consumer.consume(count, 0 if ahead else rest_s)
        breaks = consumer.breaks()
        if breaks != self._breaks:
            self._data.counters.reconnects += 1
            self._breaks = breaks
            self._note_break()
        self._take_in(records)
        self._pass_markers(consumer)
        return bool(records)

    def _take_in(self, records: Sequence[KafkaRecord]) -> None:
        clock = self._data.clock
        now_ms = clock.now_ms() if records else 0
        for partition, intake in references_by_partition(records).items():
            references, mean_body_bytes, identified, addressed = intake
            channel = self._data.channels.get(partition)
            if channel is None or channel.is_lost:
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
            change = Fetched(begin=begin, end=end, references=references)
            channel.state.apply(self._repeated.sift(channel, change, identified, now_ms) if identified else change)
            channel.memory.mean_body_bytes = mean_body_bytes

    def _pass_markers(self, consumer: GroupConsumer) -> None:
        """Go on to where partitions had nothing more: aborted records and transactions' markers never come (LOG-2)."""
        for partition, end in consumer.ends_reached().items():
            channel = self._data.channels.get(partition)
            if self._is_recorded and channel is not None and channel.state.read_position < end:
                channel.state.apply(Fetched(begin=channel.state.read_position, end=end, references=()))
