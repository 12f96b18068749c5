"""The contents of a queue or subscription, computed from its topic and its changelog (LOG-3); nothing is joined or
consumed.

What is in hand the owners answer, where they are asked.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from jbm_kafka.browsing.browse_order import RECORDS_MAX, RECORDS_SOUGHT_MAX, Arrival, MergedLog, in_order_of_receiving
from jbm_kafka.browsing.intake import is_its_own, reference_of, what_it_has
from jbm_kafka.browsing.unacknowledged_offsets import NOTHING, UnacknowledgedOffsets
from jbm_kafka.browsing.unacknowledged_query import UnacknowledgedQuery
from jbm_kafka.codec.record_values import record_value
from jbm_kafka.core.channel.channel_state import ChannelState
from jbm_kafka.core.channel.held_in_order import HeldInOrder, HeldKind
from jbm_kafka.core.channel.reference import Reference
from jbm_kafka.core.channel.states import MessageState
from jbm_kafka.core.selectors.selector import Selector
from jbm_kafka.core.subscription import Subscription
from jbm_kafka.ports import Journal, Kafka, KafkaAdmin, KafkaRecord, LogReader
from jbm_kafka.ports.provider import Seen
from jbm_kafka.ports.steps import pause_thread
from jbm_kafka.registry.channel_group import ChannelGroup
from jbm_kafka.store.changelog_reader import ChangelogScope
from jbm_kafka.store.no_journal import NoJournal
from jbm_kafka.store.recovery import RecoveredChannel, recover_channels
from jbm_kafka.store.stored_record import parked_record

READ_TIMEOUT_S = 30.0
TOLD_EACH = 10_000
"""After so many records it is told how far it is."""


@dataclass(frozen=True, slots=True)
class Sought:
    """The few messages of a long log that somebody asks about."""

    is_wanted: Callable[[KafkaRecord], bool]
    passed_over: Counter[int]
    """The number of others that are held, by partition; filled while it is looked."""
    looked_at: Callable[[int, int], object]
    """Called now and then with how many records were looked at, and how many there are at most."""


def browse(
    kafka: Kafka,
    group: ChannelGroup,
    *,
    now_ms: int,
    hands: UnacknowledgedQuery | None,
    include_all: bool,
    selector: Selector | None = None,
    recovered: Callable[[Mapping[int, RecoveredChannel]], object] | None = None,
    timeout_s: float = READ_TIMEOUT_S,
    sought: Sought | None = None,
) -> Iterator[Seen]:
    """The messages of a queue or subscription as of now, in the order of receiving (browse_order).

    What is deliverable does not depend on the selector: one that it leaves out holds its unit all the same (UNIT-6).

    Args:
        hands: finds out what receivers have in hand; None: their messages are shown as waiting.
        recovered: is called with where each partition begins, and why, before the first message.
        timeout_s: how long what is recorded may take to be read.
        sought: which messages are wanted: whole units, or messages without one. None: all.
    """
    admin, reader = kafka.admin(), kafka.log_reader()
    try:
        opened = open_look(group, admin, reader, now_ms=now_ms, hands=hands, recovered=recovered, timeout_s=timeout_s)
        most = RECORDS_MAX if sought is None else RECORDS_SOUGHT_MAX
        records = MergedLog(reader, group.topic, opened.spans, opened.parked, records_max=most)
        total = sum(max(end - begin, 0) for begin, end in opened.spans.values())
        found_records = records if sought is None else _sought(records, opened.looks, sought, total)
        for seen in in_order_of_receiving(_arrivals(found_records, opened.looks)):
            if (include_all or seen.is_deliverable) and _is_selected(seen.record, selector):
                yield seen
    finally:
        reader.close()
        admin.close()


@dataclass(frozen=True, slots=True)
class OpenedLook:
    """A queue or subscription as it is about to be looked through, by partition."""

    looks: Mapping[int, ChannelLook]
    spans: Mapping[int, tuple[int, int]]
    """Where what may be held begins in the log, and the position past its end."""
    parked: Mapping[int, Sequence[KafkaRecord]]
    """Records that the changelog keeps; they come before the log's."""


def open_look(
    group: ChannelGroup,
    admin: KafkaAdmin,
    reader: LogReader,
    *,
    now_ms: int,
    hands: UnacknowledgedQuery | None,
    recovered: Callable[[Mapping[int, RecoveredChannel]], object] | None = None,
    timeout_s: float = READ_TIMEOUT_S,
) -> OpenedLook:
    """Return what is recorded, and what receivers have in hand; nothing of the log is read yet. Arguments as of
    `browse`."""
    topic = group.topic
    description = admin.describe([topic])[topic]
    places = range(description.partitions)
    scope = changelog_scope(group, description.topic_id)
    # Before the changelog is read: what a receiver has and settles meanwhile would be in neither.
    found = {} if hands is None else hands.of(group, _open_partitions(scope, places, admin), admin)
    channels = looked_up(scope, description.partitions, admin, reader, timeout_s)
    parked = {p: [parked_record(topic, p, row) for row in each.parked] for p, each in channels.items()}
    if hands is not None and (unseen := [p for p, rows in parked.items() if rows and p not in found]):
        found = {**found, **hands.of(group, unseen, admin)}
    if recovered is not None:
        recovered(channels)
    states = {partition: state_of(channel) for partition, channel in channels.items()}
    ends = admin.end_positions(topic, list(states), stable=True)
    has = None if group.subscription is None else what_it_has(group.subscription)
    looks = {
        p: ChannelLook(state, found.get(p, NOTHING), group.subscription, has, now_ms) for p, state in states.items()
    }
    spans = {p: (channel.start_position, ends[p]) for p, channel in channels.items()}
    return OpenedLook(looks, spans, parked)


def _is_selected(record: KafkaRecord, selector: Selector | None) -> bool:
    return selector is None or selector.matches(partial(record_value, record))


def _open_partitions(scope: ChangelogScope, places: Collection[int], admin: KafkaAdmin) -> Collection[int]:
    """Where anything may be held."""
    committed = admin.committed(scope.group, scope.topic, list(places))
    ends = admin.end_positions(scope.topic, list(places), stable=True)
    return [p for p in places if ends[p] > (committed[p].position if p in committed else scope.begins.get(p, 0))]


def changelog_scope(group: ChannelGroup, topic_id: str) -> ChangelogScope:
    """Return what a look reads of a group; `topic_id` as Kafka has it now."""
    return ChangelogScope(
        group=group.group_id,
        topic=group.topic,
        topic_id=group.log_id(topic_id),
        changelog_topic=group.changelog_topic,
        begins=group.begins(topic_id),
    )


def looked_up(
    scope: ChangelogScope,
    partitions: int,
    admin: KafkaAdmin,
    reader: LogReader,
    timeout_s: float,
    *,
    journal: Journal | None = None,
    loudest: int = logging.ERROR,
) -> Mapping[int, RecoveredChannel]:
    """Every channel as an owner that takes it over now would find it.

    `journal`: of one who looks again and again, so that each look reads what is new of the changelog; such a one wants
    no line louder than `loudest`.
    """
    return recover_channels(
        scope,
        range(partitions),
        admin=admin,
        reader=reader,
        journal=NoJournal() if journal is None else journal,
        timeout_s=timeout_s,
        pause=pause_thread,
        is_look=True,
        loudest=loudest,
    )


def state_of(channel: RecoveredChannel) -> ChannelState:
    """The channel with what it remembers, before anything is read of its log."""
    state = ChannelState()
    for entry in channel.entries:
        state.apply(entry)
    return state


def _sought(
    records: Iterable[KafkaRecord], looks: Mapping[int, ChannelLook], sought: Sought, total: int
) -> Iterator[KafkaRecord]:
    """Yield those that are wanted; of the others only how many are held."""
    is_wanted, passed_over = sought.is_wanted, sought.passed_over
    for count, record in enumerate(records):
        if count % TOLD_EACH == 0:
            sought.looked_at(count, total)
        if is_wanted(record):
            yield record
        else:
            place = record.partition() or 0
            passed_over[place] += looks[place].holds(record)


def _arrivals(records: Iterable[KafkaRecord], looks: Mapping[int, ChannelLook]) -> Iterator[Arrival]:
    for record in records:
        place = record.partition() or 0
        found = looks[place].at(place, record)
        if found is not None:
            yield found


class ChannelLook:
    """At one partition, in the order of its log."""

    def __init__(
        self,
        state: ChannelState,
        hand: UnacknowledgedOffsets,
        subscription: Subscription | None,
        has: Callable[[Reference], bool] | None,
        now_ms: int,
    ) -> None:
        self._state = state
        self._hand = hand
        self._subscription = subscription
        self._has = has
        self._in_order = HeldInOrder(now_ms)

    def holds(self, record: KafkaRecord) -> bool:
        """Return True if it is a message that is held, of this queue or subscription."""
        offset, state = record.offset() or 0, self._state
        if offset < state.end_position and offset not in state.unsettled:
            return False
        return is_its_own(record, self._subscription, self._has)

    def at(self, partition: int, record: KafkaRecord) -> Arrival | None:
        """Return what is to be seen of the next record; None: it is settled, or not for this subscription."""
        if not self.holds(record):
            return None
        reference, offset = reference_of(record), record.offset() or 0
        redelivery = self._state.redeliveries.get(offset)
        is_delivered, is_leaving = offset in self._hand.delivered, offset in self._hand.leaving
        place = self._in_order.place(reference, redelivery, is_in_hand=is_delivered, is_leaving=is_leaving)
        seen = Seen(
            record=record,
            state=MessageState.DELIVERED if is_delivered else MessageState.NEW,
            attempts=0 if redelivery is None else redelivery.attempts,
            due_at_ms=place.due_at_ms,
            is_deliverable=place.kind is HeldKind.DELIVERABLE,
            last_error=self._state.durable.failures.get(offset),
        )
        return Arrival(partition, reference, seen)
