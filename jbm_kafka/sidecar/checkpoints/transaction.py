"""Writes one checkpoint as one Kafka transaction, and finds out what became of it when nobody says so."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import NamedTuple

from jbm_kafka.codec.branch_records import NOTHING, applied_key, encode_applied
from jbm_kafka.codec.changelog import encode_entry
from jbm_kafka.codec.events import encode_events, in_portions
from jbm_kafka.core.channel.checkpoint_id import CheckpointId, first_checkpoint_id
from jbm_kafka.core.murmur2 import partition_for
from jbm_kafka.ports import (
    AccessRefused,
    Clock,
    CommittedOffset,
    GroupFenced,
    Journal,
    Kafka,
    KafkaAdmin,
    KafkaClientError,
    OutcomeUnknown,
    Outgoing,
    RecordTooLarge,
    Refusal,
    TransactionAborted,
    TransactionalProducer,
)
from jbm_kafka.ports.steps import GO_ON, Steps, Wait
from jbm_kafka.registry.topic_configs import SYSTEM_PARTITIONS
from jbm_kafka.registry.topics import Topics
from jbm_kafka.sidecar.channel.channel_changelog import ChannelChangelog, LostEntries
from jbm_kafka.sidecar.checkpoints.checkpoint_parts import FrozenChannel, FrozenGroup, Transfer
from jbm_kafka.sidecar.checkpoints.producer_pool import ProducerPool
from jbm_kafka.store.changelog_reader import CHANGELOG_ID_KEY

log = logging.getLogger(__name__)

COMMIT_TIMEOUT_S = 10.0
"""As usual."""
FIND_OUT_PAUSE_S = 0.2
REFUSALS_MAX = 3
HANGS_AFTER = 2
"""So many questions without an answer, of 10 s each on a broker: by then any transaction that is open is overdue."""


class _Said(NamedTuple):
    """A transaction's part in the changelog of one channel."""

    records: Mapping[bytes, bytes | None]
    lost: LostEntries | None
    """The loss after which a changelog is written anew."""
    again: Mapping[bytes, bytes]
    """The entries of it that are written once more."""


class TransactionWriter:
    """Writes checkpoints, and owns the pool of producers. The checkpoint thread only, but for `close`."""

    def __init__(
        self,
        *,
        kafka: Kafka,
        journal: Journal,
        topics: Topics,
        clock: Clock,
        transactional_id: str,
        pool: ProducerPool,
        commit_timeout_s: float = COMMIT_TIMEOUT_S,
    ) -> None:
        self._kafka = kafka
        self._journal = journal
        self._topics = topics
        self._clock = clock
        self._transactional_id = transactional_id
        self._pool = pool
        self._commit_timeout_s = commit_timeout_s
        self._id: CheckpointId | None = None
        self._tokens: frozenset[object] = frozenset()
        self._said: dict[FrozenChannel, _Said] = {}
        self._positions: Mapping[tuple[str, int], int] = {}
        self._refusals: dict[str, int] = {}
        """How often in a row a companion group's offsets were refused, by group."""
        self._has_mark = False
        """The latest transaction carries a mark."""
        self._transfers: Sequence[Transfer] = ()
        """The sends that the latest transaction carries."""

    def next_id(self) -> str:
        """The name of the next checkpoint."""
        if self._id is None:
            self._id = first_checkpoint_id(self._transactional_id, now_ms=self._clock.now_ms())
        else:
            self._id = self._id.following()
        return str(self._id)

    def prepare(self) -> Steps:
        """Make the producers, which ends what an earlier run with their ids left open; or leave it."""
        try:
            yield from self._pool.make_ready()
        except KafkaClientError as error:
            log.info("%s is not ready yet: %s; the first checkpoint tries again", self._transactional_id, error)

    def last_tokens(self) -> frozenset[object]:
        """Whose record was refused on the spot."""
        return self._tokens

    def commit(self, frozen: Sequence[FrozenGroup], transfers: Sequence[Transfer], checkpoint_id: str) -> Steps:
        """Commit it whole.

        Raises:
            GroupFenced, TransactionAborted, RecordTooLarge: it was aborted; the error says what to leave out.
            OutcomeUnknown: nobody knows; `find_out` does.
        """
        self._positions, self._has_mark, self._transfers = {}, False, transfers
        yield from self._pool.take()
        if any(transfer.sends for transfer in transfers):
            self._topics.renew()
            self._topics.place_all([record for transfer in transfers for record in transfer.sends])
        producer = self._pool.producer
        try:
            producer.begin()
        except KafkaClientError:
            self.renew()  # whatever state that one is in, it would be in it for ever
            raise
        try:
            yield from self._produce(producer, frozen, transfers)
            for part in frozen:
                yield GO_ON
                offsets = _offsets(part, checkpoint_id)
                producer.send_offsets(part.group_metadata, part.group.group_id, part.group.topic, offsets)
                self._note_parked(producer, part, checkpoint_id)
            if transfers or any(row.channel.checkpoints.is_waited_for for part in frozen for row in part.channels):
                yield GO_ON
                self._mark(producer, checkpoint_id)
            yield GO_ON
            self._positions = producer.commit(self._commit_timeout_s)
            self._pool.ended()
        except (GroupFenced, TransactionAborted, RecordTooLarge) as error:
            self._abort(producer)
            if isinstance(error, TransactionAborted) and error.failed:
                # What the broker refused leaves a gap in its partition's sequence, over which librdkafka would fail the
                # records of the next that commits there.
                self.renew()
            raise
        except OutcomeUnknown:
            self.renew()
            raise
        except Exception:
            # A value that cannot be written, which is a bug: an open transaction would refuse every later one too.
            self._abort(producer)
            raise

    def _produce(
        self,
        producer: TransactionalProducer,
        frozen: Sequence[FrozenGroup],
        transfers: Sequence[Transfer],
    ) -> Steps:
        self._said = {}
        for transfer in transfers:
            yield GO_ON
            self._tokens = frozenset([transfer])
            for record in transfer.sends:
                producer.produce(record, transfer)
        self._tokens = frozenset()
        for part in frozen:
            self._tokens = frozenset([part])
            for row in part.channels:
                yield GO_ON
                self._produce_channel(producer, part, row)
        self._tokens = frozenset()

    def beside(self, frozen: Sequence[FrozenGroup]) -> Sequence[Outgoing]:
        """A record that says nothing for `jbm.branches`, if the latest transaction wrote there."""
        topic = self._topics.branches_topic
        sends = any(record.topic == topic for transfer in self._transfers for record in transfer.sends)
        if sends or any(row.applied for part in frozen for row in part.channels):
            return [Outgoing(topic, 0, NOTHING, None)]
        return []

    def _mark(self, producer: TransactionalProducer, checkpoint_id: str) -> None:
        """Leave the checkpoint's id where nobody else writes, and where nobody else's open transaction hides it.

        Sends must never go twice, and no waiting caller may get an error for what is settled. A channel group's
        offset does not tell for long whether it was committed: its next owner may have overwritten it.
        """
        self._has_mark = self._pool.current.is_marked = True
        group = self._pool.current.mark_group
        producer.send_offsets(None, group, self._topics.registry_topic, {0: CommittedOffset(0, checkpoint_id)})

    def _note_parked(self, producer: TransactionalProducer, part: FrozenGroup, checkpoint_id: str) -> None:
        """Write beside how many messages are parked, where that changed.

        Raises:
            KafkaClientError: as of the other offsets. Refused a few times in a row, it is written no more: that number
                must not keep a group from recording anything else.
        """
        group = part.group.companion
        numbers = parked_numbers(part, checkpoint_id)
        if not numbers or self._refusals.get(group, 0) >= REFUSALS_MAX:
            return
        try:
            producer.send_offsets(None, group, part.group.topic, numbers)
        except TransactionAborted as error:
            self._refusals[group] = self._refusals.get(group, 0) + 1
            if self._refusals[group] == REFUSALS_MAX:
                log.warning(
                    "%s: how many messages are parked cannot be written beside its changelog, and is not tried any "
                    "more until this process begins anew (%s); allow Read on the group %s",
                    part.group,
                    error,
                    group,
                )
            raise
        self._refusals.pop(group, None)

    def _produce_channel(self, producer: TransactionalProducer, part: FrozenGroup, row: FrozenChannel) -> None:
        changelog = row.channel.changelog
        records = dict(encode_entry(changelog.group, entry) for entry in row.freeze.entries)
        for key in changelog.obsolete:
            records.setdefault(key, None)
        lost = changelog.lost
        again = {} if lost is None else self._lost_entries(changelog, lost, records)
        for key, value in (*again.items(), *records.items()):
            producer.produce(Outgoing(changelog.topic, row.channel.partition, key, value), part)
        self._said[row] = _Said(records, lost, again)
        for branch, heuristic in row.applied:
            applied = applied_key(branch, changelog.group, row.channel.partition)
            value = encode_applied(self._clock.now_ms(), heuristic)
            producer.produce(Outgoing(self._topics.branches_topic, 0, applied, value), part)
        for events in () if row.events is None else in_portions(row.events):
            key, encoded = encode_events(events)
            producer.produce(
                Outgoing(self._topics.events_topic, partition_for(key, SYSTEM_PARTITIONS), key, encoded), part
            )

    def _lost_entries(
        self, changelog: ChannelChangelog, lost: LostEntries, records: Mapping[bytes, bytes | None]
    ) -> Mapping[bytes, bytes]:
        """Return what this checkpoint writes once more, because the changelog was deleted."""
        if lost.must_load:
            entries = self._journal.entries(changelog.journal_channel)
            lost.load({key: value for key, value in entries.items() if key != CHANGELOG_ID_KEY})
            changelog.position = 0  # of the topic that is gone
        return lost.portion(records)

    def write_journal(self, frozen: Sequence[FrozenGroup]) -> None:
        """After the commit: the local cache follows the changelog, never leads (LOG-7)."""
        batches: dict[str, tuple[int, Mapping[bytes, bytes | None]]] = {}
        for part in frozen:
            for row in part.channels:
                changelog = row.channel.changelog
                written = self._positions.get((changelog.topic, row.channel.partition))
                if written is not None:
                    changelog.written(written)
                batches[changelog.journal_channel] = (changelog.position, self._journalled(row))
        if batches:
            self._journal.write(batches)

    def _journalled(self, row: FrozenChannel) -> Mapping[bytes, bytes | None]:
        """Return what a durable checkpoint said of a channel, and of which topic it is when that is another now."""
        records, lost, again = self._said[row]
        if lost is None:
            return records
        lost.written([*again, *records])
        return {**records, CHANGELOG_ID_KEY: lost.changelog_id.encode()}

    def missing_topics(self, frozen: Sequence[FrozenGroup], transfers: Sequence[Transfer]) -> frozenset[str]:
        """Return those of the topics a refused transaction is about that do not exist; none when Kafka does not answer.

        librdkafka names nothing when the coordinator refuses a partition.
        """
        topics = {record.topic for transfer in transfers for record in transfer.sends}
        for part in frozen:
            topics |= {part.group.topic, *(row.channel.changelog.topic for row in part.channels)}
        admin = self._kafka.admin()
        try:
            return frozenset(topics - admin.describe(sorted(topics)).keys())
        except KafkaClientError as error:
            log.info("cannot ask which topics exist: %s", error)
            return frozenset()
        finally:
            admin.close()

    def denied_topics(self, frozen: Sequence[FrozenGroup], transfers: Sequence[Transfer]) -> frozenset[str]:
        """Topics of a refused transaction that may not be written to, as its coordinator tells librdkafka's log only;
        none when Kafka does not answer."""
        topics = {record.topic for transfer in transfers for record in transfer.sends}
        topics = topics.union(*(self.topics_of(part) for part in frozen))
        admin = self._kafka.admin()
        try:
            return admin.unwritable(sorted(topics))
        except KafkaClientError as error:
            log.info("cannot ask for rights: %s", error)
            return frozenset()
        finally:
            admin.close()

    def topics_of(self, part: FrozenGroup) -> frozenset[str]:
        """Where its records go."""
        topics = {row.channel.changelog.topic for row in part.channels}
        if any(row.events is not None for row in part.channels):
            topics.add(self._topics.events_topic)
        if any(row.applied for row in part.channels):
            topics.add(self._topics.branches_topic)
        return frozenset(topics)

    def forget_topics(self, transfer: Transfer) -> None:
        """It was refused: what is known of the topics it is sent to may be wrong."""
        for record in transfer.sends:
            self._topics.forget(record.topic)

    def find_out(
        self,
        frozen: Sequence[FrozenGroup],
        checkpoint_id: str,
        refused: Callable[[Refusal], object] = lambda refusal: None,
    ) -> Generator[Wait, None, bool]:
        """Return True if the checkpoint was committed; asks until there is an answer. `refused` hears that there is
        none yet for want of a right.

        The new producer's start has ended the old transaction, so what is committed now stays as it is.
        """
        unanswered = 0
        while True:
            try:
                yield from self._pool.make_ready()
                if unanswered and unanswered % HANGS_AFTER == 0:  # not each time: its own end is to be seen, too
                    yield from self._end_what_hangs(frozen, checkpoint_id)
                    yield from self._pool.make_ready()  # which ends that, where its abort had no answer
                unanswered += 1
                return self._is_committed(frozen, checkpoint_id)
            except KafkaClientError as error:
                if isinstance(error, AccessRefused):
                    refused(Refusal(error))
                log.info("checkpoint %s: cannot find out whether it was committed: %s", checkpoint_id, error)
                yield Wait(FIND_OUT_PAUSE_S)

    def _end_what_hangs(self, frozen: Sequence[FrozenGroup], checkpoint_id: str) -> Steps:
        """Write the same to the same partitions once more, and abort that.

        A broker that was restarted may take the old transaction for ended before it knows the leaders of its
        partitions, and leave it open there (docs/topics.md, "A transaction that never ends"). What ends a later one of
        the same producer there ends both. If it is another's that is in the way, nobody sees anything of this.
        """
        log.info(
            "checkpoint %s: what may be left of it in its partitions is ended by a transaction more", checkpoint_id
        )
        producer = self._pool.producer
        try:
            producer.begin()
        except KafkaClientError as error:
            log.info("checkpoint %s: %s; a new producer takes over", checkpoint_id, error)
            self.renew()
            return
        try:
            for part in frozen:
                # As nobody's member: the metadata may be of a membership that is over, and it comes to nothing anyway.
                offsets = _offsets(part, checkpoint_id)
                producer.send_offsets(None, part.group.group_id, part.group.topic, offsets)
                self._note_parked(producer, part, checkpoint_id)
            if self._has_mark:
                self._mark(producer, checkpoint_id)
            # Last, for the answer that is waited for is in what is above.
            yield from self._produce(producer, frozen, self._transfers)
        except KafkaClientError as error:  # such as of a topic that is gone: what was written before ends all the same
            log.info("checkpoint %s: not all of it could be written once more: %s", checkpoint_id, error)
        finally:
            self._abort(producer)

    def _is_committed(self, frozen: Sequence[FrozenGroup], checkpoint_id: str) -> bool:
        admin = self._kafka.admin()
        try:
            if self._has_mark:
                found = admin.committed(self._pool.current.mark_group, self._topics.registry_topic, [0])
                return any(offset.metadata == checkpoint_id for offset in found.values())
            return any(self._names(admin, part, checkpoint_id) for part in frozen)
        finally:
            admin.close()

    def _names(self, admin: KafkaAdmin, part: FrozenGroup, checkpoint_id: str) -> bool:
        """Return True if an offset of the group is of this checkpoint. A no is safe: group workers may write twice."""
        partitions = [row.channel.partition for row in part.channels]
        found = admin.committed(part.group.group_id, part.group.topic, partitions)
        return any(offset.metadata == checkpoint_id for offset in found.values())

    def renew(self) -> None:
        """Give the producer up whose turn it is; before the next checkpoint a new one fences it."""
        self._pool.give_up()

    def close(self, *, deletes_marks: bool = True) -> None:
        """Let the producers go."""
        self._pool.close(deletes_marks=deletes_marks)

    def _abort(self, producer: TransactionalProducer) -> None:
        try:
            producer.abort(self._commit_timeout_s)
        except KafkaClientError as error:
            log.warning("an abort failed: %s; a new producer takes over", error)
            self.renew()


def parked_numbers(part: FrozenGroup, checkpoint_id: str) -> Mapping[int, CommittedOffset]:
    """Return what the companion group's offsets are to be, of the partitions of which it does not say so yet."""
    return {
        row.channel.partition: CommittedOffset(row.parked, checkpoint_id)
        for row in part.channels
        if row.parked is not None
    }


def _offsets(part: FrozenGroup, checkpoint_id: str) -> Mapping[int, CommittedOffset]:
    return {row.channel.partition: CommittedOffset(row.freeze.watermark, checkpoint_id) for row in part.channels}
