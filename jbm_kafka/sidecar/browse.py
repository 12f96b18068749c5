"""What a queue holds, computed from its topic and its changelog (LOG-3); nothing is joined, nothing consumed.

Of partitions that this process owns, what sessions have in hand is told as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import cast

from jbm_kafka.codec.record_values import record_value
from jbm_kafka.core.channel_state import ChannelState
from jbm_kafka.core.destination import Queue
from jbm_kafka.core.redelivery import is_expired
from jbm_kafka.core.selectors.selector import Selector
from jbm_kafka.core.states import MessageState
from jbm_kafka.ports import Kafka, KafkaAdmin, KafkaRecord, LogReader
from jbm_kafka.ports.completion import Completion
from jbm_kafka.ports.provider import Seen
from jbm_kafka.sidecar.group_worker import GroupWorker
from jbm_kafka.sidecar.intake import reference_of
from jbm_kafka.store.changelog_reader import ChangelogScope
from jbm_kafka.store.recovery import recover_channels

READ_TIMEOUT_S = 30.0
CHUNK = 10_000
"""Offsets read at a time and partition, so that a browse of a long queue needs little memory."""
HAND_TIMEOUT_S = 2.0


class NoJournal:
    """Looking needs no local state and must leave none."""

    def load(self, channel: str) -> tuple[int, Mapping[bytes, bytes]]:
        return 0, {}

    def write(self, batches: Mapping[str, tuple[int, Mapping[bytes, bytes | None]]]) -> None:
        return None

    def discard(self, channel: str) -> None:
        return None

    def close(self) -> None:
        return None


def browse(
    kafka: Kafka,
    queue: Queue,
    *,
    namespace: str,
    now_ms: int,
    group_worker: GroupWorker | None,
    include_all: bool,
    selector: Selector | None = None,
) -> Iterator[Seen]:
    """The messages of a queue, partition by partition in log order, as of now.

    What is deliverable does not depend on the selector: one that it leaves out holds its unit all the same (UNIT-6).
    """
    admin, reader = kafka.admin(), kafka.log_reader()
    try:
        topic = queue.kafka_topic(namespace)
        description = admin.describe([topic])[topic]
        scope = ChangelogScope(
            group=queue.group_id(namespace),
            topic=topic,
            topic_id=description.topic_id,
            changelog_topic=queue.changelog_topic(namespace),
        )
        states = _states(scope, description.partitions, admin, reader)
        ends = admin.end_positions(topic, list(states), stable=True)
        in_hand = {} if group_worker is None else _in_hand(group_worker)
        for partition, state in states.items():
            held = in_hand.get(partition, frozenset())
            for seen in _partition(reader, topic, partition, state, ends[partition], held, now_ms):
                if (include_all or seen.is_deliverable) and _is_selected(seen.record, selector):
                    yield seen
    finally:
        reader.close()
        admin.close()


def _is_selected(record: KafkaRecord, selector: Selector | None) -> bool:
    return selector is None or selector.matches(partial(record_value, record))


def _states(scope: ChangelogScope, partitions: int, admin: KafkaAdmin, reader: LogReader) -> dict[int, ChannelState]:
    known = admin.describe([scope.changelog_topic]).get(scope.changelog_topic)
    recorded = list(range(0 if known is None else min(known.partitions, partitions)))
    states: dict[int, ChannelState] = {}
    if recorded:
        found = recover_channels(
            scope, recorded, admin=admin, reader=reader, journal=NoJournal(), timeout_s=READ_TIMEOUT_S
        )
        for partition, recovered in found.items():
            state = states[partition] = ChannelState()
            for entry in recovered.entries:
                state.apply(entry)
    for partition in range(len(recorded), partitions):
        states[partition] = ChannelState()
    return states


def _in_hand(group_worker: GroupWorker) -> Mapping[int, frozenset[int]]:
    """What sessions of this process hold, by partition."""
    found: dict[int, frozenset[int]] = {}
    done = Completion()

    def look() -> None:
        for partition, channel in group_worker.data.channels.items():
            found[partition] = frozenset(o for hand in channel.state.in_hand.values() for o in hand)
        done.complete()

    if group_worker.is_alive:
        group_worker.post(look)
        done.wait(HAND_TIMEOUT_S, about=f"browse {group_worker.data.group}")
    return found


def _partition(
    reader: LogReader,
    topic: str,
    partition: int,
    state: ChannelState,
    end: int,
    in_hand: frozenset[int],
    now_ms: int,
) -> Iterator[Seen]:
    units_seen: set[bytes] = set()
    position = state.read_position
    while position < end:
        upto = min(position + CHUNK, end)
        for record in reader.read(topic, {partition: (position, upto)}, timeout_s=READ_TIMEOUT_S):
            offset = cast(int, record.offset())
            if offset < state.end_position and offset not in state.unsettled:
                continue
            yield _seen(record, state, in_hand, units_seen, now_ms)
        position = upto


def _seen(
    record: KafkaRecord, state: ChannelState, in_hand: frozenset[int], units_seen: set[bytes], now_ms: int
) -> Seen:
    reference = reference_of(record)
    past = state.past.get(reference.offset)
    due_at_ms = max(reference.delivery_time_ms, 0 if past is None else past.due_at_ms)
    is_held = reference.offset in in_hand
    is_gone = not is_held and is_expired(reference.expiration_ms, now_ms)
    is_first = reference.unit is None or reference.unit not in units_seen
    # One that is expired leaves as soon as anybody receives, and what follows in its unit does not wait for it.
    if reference.unit is not None and not is_gone:
        units_seen.add(reference.unit)
    may_go = is_first and not is_held and due_at_ms <= now_ms and not is_gone
    return Seen(
        record=record,
        state=MessageState.DELIVERED if is_held else MessageState.NEW,
        attempts=0 if past is None else past.attempts,
        due_at_ms=due_at_ms if due_at_ms > now_ms else 0,
        is_deliverable=may_go,
    )
