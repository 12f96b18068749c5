"""The messages that owners who take over now would find, of all holders of a topic at once: each with its past
(LOG-13).

Of every channel the changelog is read as of one checkpoint, and then the log up to where it ended after that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from jbm_kafka.browsing.browse import READ_TIMEOUT_S, changelog_scope, looked_up, state_of
from jbm_kafka.browsing.browse_order import MergedLog
from jbm_kafka.browsing.intake import is_its_own, what_it_has
from jbm_kafka.codec.exported_rows import ExportedState
from jbm_kafka.core.channel.channel_state import ChannelState
from jbm_kafka.core.channel.delivery_count import delivery_count_of
from jbm_kafka.core.channel.entries import SeenId
from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.ports import KafkaAdmin, KafkaRecord, LogReader, TopicDescription
from jbm_kafka.registry.channel_group import ChannelGroup
from jbm_kafka.store.recovery import RecoveredChannel
from jbm_kafka.store.stored_record import parked_record


@dataclass(frozen=True, slots=True)
class _Channel:
    recovered: RecoveredChannel
    state: ChannelState
    parked: Mapping[int, KafkaRecord]
    """Records that the changelog keeps, by offset."""


class Takeover:
    """One look at a topic. One thread."""

    def __init__(
        self, groups: Sequence[ChannelGroup], topic: TopicDescription, admin: KafkaAdmin, reader: LogReader
    ) -> None:
        """
        Raises:
            JMSError: only a newer version can read all of it.
            KafkaClientError: it cannot be read.
        """
        self._groups = groups
        self._topic = topic.name
        self._reader = reader
        self._channels = [self._looked_up(group, topic, admin) for group in groups]
        places = range(topic.partitions)
        self._ends = admin.end_positions(topic.name, places, stable=True)
        ends = admin.end_positions(topic.name, places, stable=False)
        self.uncommitted = sum(ends[p] - self._ends[p] for p in places)
        """Records behind open transactions, which nobody can read yet."""
        self._has = [None if each.subscription is None else what_it_has(each.subscription) for each in groups]

    @property
    def branches(self) -> Collection[str]:
        """Ids of prepared branches that hold messages here."""
        return {b for of in self._channels for each in of.values() for b, o in each.state.durable.prepared.items() if o}

    def remembered(self, partition: int) -> list[tuple[int, tuple[SeenId, ...]]]:
        """Return for each holder how far it has read the partition, and its duplicate ids, the oldest first."""
        states = [of[partition].state for of in self._channels]
        return [(state.end_position, tuple(state.window.oldest_first())) for state in states]

    def held(self, partition: int) -> Iterator[tuple[KafkaRecord, tuple[ExportedState, ...]]]:
        """Each message that any of them holds, in the order of the log, with what each of its holders knows of it."""
        channels = [of[partition] for of in self._channels]
        begin = min((each.recovered.start_position for each in channels), default=self._ends[partition])
        before = {o: row for each in channels for o, row in each.parked.items() if o < begin}
        log = MergedLog(
            self._reader,
            self._topic,
            {partition: (begin, max(self._ends[partition], begin))},
            {partition: [before[offset] for offset in sorted(before)]},
        )
        for record in log:
            found = tuple(past for place, each in enumerate(channels) if (past := self._past(place, each, record)))
            if found:
                yield record, found

    def _looked_up(self, group: ChannelGroup, topic: TopicDescription, admin: KafkaAdmin) -> Mapping[int, _Channel]:
        scope = changelog_scope(group, topic.topic_id)
        found = looked_up(scope, topic.partitions, admin, self._reader, READ_TIMEOUT_S)
        newer = [each.closed_because for each in found.values() if each.closed_because]
        if newer:
            raise JMSError(newer[0])
        return {
            p: _Channel(each, state_of(each), {row.offset: parked_record(topic.name, p, row) for row in each.parked})
            for p, each in found.items()
        }

    def _past(self, place: int, channel: _Channel, record: KafkaRecord) -> ExportedState | None:
        """None: this one does not hold it."""
        state, offset, has = channel.state, cast(int, record.offset()), self._has[place]
        is_read = offset < state.end_position
        if offset not in state.unsettled if is_read else offset < channel.recovered.start_position:
            return None
        if not is_its_own(record, self._groups[place].subscription, has):
            return None
        redelivery = state.redeliveries.get(offset)
        is_seen = delivery_count_of(state, offset).redelivered
        if redelivery is None:
            return ExportedState(place, is_read, is_seen)
        attempts, delay_ms, due_at_ms = redelivery.attempts, redelivery.delay_ms, redelivery.due_at_ms
        return ExportedState(place, is_read, is_seen, attempts, due_at_ms, delay_ms, redelivery.reason)
