"""Ends what a restarted broker left open of checkpoints that were committed just before it went: decision 58.

Kafka answers a commit when it is decided, and marks it in its partitions after that. A broker that restarts in between
may take it for ended before it knows the leaders of those partitions, and leaves it open in them: Kafka answers no
question for their offsets, and no channel opens. What ends a later transaction of the same producer there ends both. So
that is the same offsets again, and is committed as the first one was.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from jbm_kafka.codec.changelog import encode_entry
from jbm_kafka.core.channel.entries import Entry
from jbm_kafka.ports import Clock, CommittedOffset, Kafka, KafkaClientError, Outgoing, TransactionalProducer
from jbm_kafka.ports.steps import Steps, Wait
from jbm_kafka.sidecar.checkpoints.checkpoint_parts import FrozenGroup
from jbm_kafka.sidecar.checkpoints.producer_pool import PooledProducer, ProducerPool
from jbm_kafka.sidecar.checkpoints.transaction import parked_numbers

log = logging.getLogger(__name__)

RECENT_MS = 8_000
"""Before Kafka was found to be silent. A later loss of its marks needs a broker that was away; and within this time no
other process can have been given the partitions of a worker that lived."""
QUESTIONS = 2
"""Without an answer, of 10 s each on a broker: by then any transaction that is open is overdue."""
PAUSE_S = 0.2
TRIES = 3
COMMIT_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class CommittedPlace:
    """One channel's position as a checkpoint wrote it."""

    group_id: str
    topic: str
    partition: int
    offset: CommittedOffset
    changelog_topic: str
    changelog_group: str
    position: Entry
    """As it stands in the changelog; it names the checkpoint."""
    companion: str
    parked: CommittedOffset | None
    """The companion group's offset, as it was written last; None: not by this process."""

    @property
    def key(self) -> tuple[str, str, int]:
        """Group, topic and partition."""
        return self.group_id, self.topic, self.partition

    def record(self) -> Outgoing:
        """That of its changelog."""
        return Outgoing(self.changelog_topic, self.partition, *encode_entry(self.changelog_group, self.position))


class HangingTransactions:
    """The hanging transactions of one sidecar. The checkpoint thread only."""

    def __init__(self, *, kafka: Kafka, pool: ProducerPool, clock: Clock) -> None:
        self._kafka = kafka
        self._pool = pool
        self._clock = clock
        self._latest: dict[PooledProducer, tuple[int, Sequence[CommittedPlace]]] = {}
        """Each producer's last commit, and when, monotonic ms."""
        self._parked: dict[tuple[str, str, int], CommittedOffset] = {}
        """The last note of how many messages are parked, by group, topic and partition."""
        self._beside: dict[PooledProducer, tuple[int, Sequence[Outgoing]]] = {}
        """By producer the records that end what it left open elsewhere, and when it wrote there last."""

    def committed(self, frozen: Sequence[FrozenGroup], checkpoint_id: str, beside: Sequence[Outgoing] = ()) -> None:
        """The producer whose turn it is has committed this; `beside`: records that say nothing, for where it wrote
        besides."""
        if beside:
            self._beside[self._pool.current] = (self._clock.monotonic_ms(), beside)
        given_up = _given_up(frozen)
        for part in frozen:
            for partition, number in parked_numbers(part, checkpoint_id).items():
                self._parked[part.group.group_id, part.group.topic, partition] = number
        for key in given_up:
            self._parked.pop(key, None)
        places = [place for part in frozen for place in _places(part, checkpoint_id, self._parked)]
        if given_up:
            for producer, (at_ms, earlier) in self._latest.items():
                self._latest[producer] = (at_ms, [place for place in earlier if place.key not in given_up])
        self._latest[self._pool.current] = (self._clock.monotonic_ms(), places)

    def end(self, silent_since_ms: int) -> Steps:
        """Kafka answers again after it was silent: look for what it left open, and end that."""
        latest = sorted(self._latest.items(), key=lambda item: item[1][0], reverse=True)
        recent = [(producer, places) for producer, (at_ms, places) in latest if at_ms >= silent_since_ms - RECENT_MS]
        newest: dict[tuple[str, str, int], CommittedPlace] = {}
        for _, places in reversed(recent):
            newest.update((place.key, place) for place in places)
        for producer, places in recent:
            # Whichever of them it is that hangs, nothing older than what was committed last is written.
            again = [newest[place.key] for place in places]
            for group in dict.fromkeys(place.group_id for place in again):
                # Each by itself: where the one hangs, the other may be marked, and another process may go on with it.
                yield from self._end_group(producer, [place for place in again if place.group_id == group])
        for producer, (at_ms, beside) in list(self._beside.items()):
            if at_ms >= silent_since_ms - RECENT_MS:
                yield from self._commit(producer, partial(_write_beside, beside=beside))
        self._beside.clear()

    def _end_group(self, producer: PooledProducer, places: Sequence[CommittedPlace]) -> Steps:
        if (yield from self._hangs(places)):
            log.warning(
                "what a broker that restarted left open of checkpoint %s in its partitions is ended by a transaction "
                "more",
                places[0].offset.metadata,
            )
            yield from self._commit(producer, partial(_write, places=places))

    def _hangs(self, places: Sequence[CommittedPlace]) -> Generator[Wait, None, bool]:
        """Return True if offsets of theirs are held back, though the cluster answers."""
        admin = self._kafka.admin()
        try:
            for _ in range(QUESTIONS):
                try:
                    for (group_id, topic), offsets in _by_group(places).items():
                        admin.committed(group_id, topic, sorted(offsets))
                except KafkaClientError as error:
                    log.debug("offsets of a checkpoint cannot be read: %s", error)
                    yield Wait(PAUSE_S)
                else:
                    return False
            admin.check_answered(COMMIT_TIMEOUT_S)
        except KafkaClientError:
            return False  # silent again: there will be another look
        else:
            return True
        finally:
            admin.close()

    def _commit(self, member: PooledProducer, write: Callable[[TransactionalProducer], None]) -> Steps:
        for _ in range(TRIES):
            try:
                yield from self._pool.make_ready()
                if member.producer is not None:
                    write(member.producer)
                return
            except KafkaClientError as error:
                log.info("what was left open could not be ended: %s; a new producer tries it", error)
                self._pool.give_up_of(member)
                yield Wait(PAUSE_S)


def _write(producer: TransactionalProducer, places: Sequence[CommittedPlace]) -> None:
    producer.begin()
    for (group_id, topic), offsets in _by_group(places).items():
        # As nobody's member: that of the checkpoint may be over.
        producer.send_offsets(None, group_id, topic, offsets)
    for place in places:
        producer.produce(place.record(), place)
    producer.commit(COMMIT_TIMEOUT_S)


def _write_beside(producer: TransactionalProducer, beside: Sequence[Outgoing]) -> None:
    producer.begin()
    for record in beside:
        producer.produce(record)
    producer.commit(COMMIT_TIMEOUT_S)


def _by_group(places: Sequence[CommittedPlace]) -> Mapping[tuple[str, str], Mapping[int, CommittedOffset]]:
    found: defaultdict[tuple[str, str], dict[int, CommittedOffset]] = defaultdict(dict)
    for place in places:
        found[place.group_id, place.topic][place.partition] = place.offset
        if place.parked is not None:
            found[place.companion, place.topic][place.partition] = place.parked
    return found


def _given_up(frozen: Sequence[FrozenGroup]) -> frozenset[tuple[str, str, int]]:
    """Keys of what others may have next: nothing that was committed of it before is written again."""
    return frozenset(
        (part.group.group_id, part.group.topic, row.channel.partition)
        for part in frozen
        for row in part.channels
        if row.channel.is_closing
    )


def _places(
    part: FrozenGroup, checkpoint_id: str, parked: Mapping[tuple[str, str, int], CommittedOffset]
) -> Sequence[CommittedPlace]:
    """Not of what is being given up: others may have it before Kafka is silent."""
    group = part.group
    return [
        CommittedPlace(
            group.group_id,
            group.topic,
            row.channel.partition,
            CommittedOffset(row.freeze.watermark, checkpoint_id),
            row.channel.changelog.topic,
            row.channel.changelog.group,
            row.freeze.entries[0],
            group.companion,
            parked.get((group.group_id, group.topic, row.channel.partition)),
        )
        for row in part.channels
        if not row.channel.is_closing
    ]
