"""The held messages of one partition, kept from look to look: each record is read once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from jbm_kafka.browsing.browse import state_of
from jbm_kafka.browsing.intake import is_its_own, reference_of
from jbm_kafka.core.channel.backlog import HeldReference
from jbm_kafka.core.channel.channel_state import ChannelState
from jbm_kafka.core.channel.reference import Reference
from jbm_kafka.core.subscription import Subscription
from jbm_kafka.ports import KafkaRecord
from jbm_kafka.store.recovery import RecoveredChannel
from jbm_kafka.store.stored_record import parked_record

APART = 1_000
"""Held messages so far apart are read apart: what lies between was settled, and each read has its price."""


class FollowedPartition:
    """The knowledge of the held messages of one partition. One thread.

    Invariant: whatever the changelog calls held, and everything above what it has seen, is known or is `missing`. So an
    operator's reset, or a look after a long time, needs no rule of its own.
    """

    def __init__(
        self,
        topic: str,
        partition: int,
        subscription: Subscription | None,
        has: Callable[[Reference], bool] | None,
    ) -> None:
        """`has` as of `what_it_has`."""
        self._topic = topic
        self._partition = partition
        self._subscription = subscription
        self._has = has
        self._state = ChannelState()
        self._known: dict[int, tuple[Reference, int] | None] = {}
        """The message without its record, and when it was sent, by offset; None: a marker's, or another's."""
        self._topic_id = ""
        self._end = 0
        self.log_begin = 0
        """From here on the log has what is held."""
        self.parked = 0
        """Held messages that the changelog keeps."""

    def take(self, channel: RecoveredChannel, topic_id: str, end: int) -> None:
        """Go by what the changelog says now of the topic with this id, whose stable end is `end`."""
        if topic_id != self._topic_id:
            self._known, self._topic_id = {}, topic_id
        state = self._state = state_of(channel)
        self.log_begin, self.parked = channel.start_position, len(channel.parked)
        fetched, unsettled = state.end_position, state.unsettled
        self._known = {
            offset: message for offset, message in self._known.items() if offset >= fetched or offset in unsettled
        }
        for row in channel.parked:
            if row.offset not in self._known:
                self._note(parked_record(self._topic, self._partition, row))
        self._end = max(end, fetched)

    def held_at_most(self) -> int:
        """How many there may be: some may be another subscription's."""
        fetched = self._state.end_position
        others = sum(message is None for message in self._known.values())
        return len(self._state.unsettled) + max(self._end - fetched, 0) - others

    def missing(self) -> list[tuple[int, int]]:
        """Ranges of offsets that are to be read: their first, and one past their last."""
        known, state = self._known, self._state
        wanted = chain(state.unsettled, range(state.end_position, self._end))
        ranges: list[tuple[int, int]] = []
        for offset in (each for each in wanted if each not in known):
            if ranges and offset - ranges[-1][1] < APART:
                ranges[-1] = ranges[-1][0], offset + 1
            else:
                ranges.append((offset, offset + 1))
        return ranges

    def oldest(self) -> list[tuple[int, int]]:
        """The range of the oldest held offset, where the others are too many; nothing else is kept any more."""
        self._known = {}
        first = self._state.unsettled.first(self._state.end_position)
        return [(first, first + 1)] if first < self._end else []

    def read(self, records: Iterable[KafkaRecord], begin: int, end: int) -> None:
        """Take all that the log has from `begin` to before `end`."""
        found = {record.offset(): record for record in records}
        state, known = self._state, self._known
        for offset in range(begin, end):
            if offset not in known and (offset >= state.end_position or offset in state.unsettled):
                record = found.get(offset)
                if record is None:
                    known[offset] = None
                else:
                    self._note(record)

    def messages(self) -> Iterator[HeldReference]:
        """Yield those that are held, in the order of the log."""
        prepared = {offset for offsets in self._state.durable.prepared.values() for offset in offsets}
        for offset in sorted(self._known):
            message = self._known[offset]
            if message is not None:
                reference, sent_at_ms = message
                yield HeldReference(reference, sent_at_ms, self._state.redeliveries.get(offset), offset in prepared)

    def _note(self, record: KafkaRecord) -> None:
        offset = record.offset() or 0
        if not is_its_own(record, self._subscription, self._has):
            self._known[offset] = None
            return
        reference = reference_of(record)
        reference.record = None  # a body is not needed any more, and 50,000 of them are memory
        self._known[offset] = reference, record.timestamp()[1]
