"""Writes messages with what changelogs say of them, a transaction each, as the only member of their groups.

How far it came stands in the changelogs themselves, as the position of a group that has no members: so whoever is
killed and begins again goes on, and a topic that is made anew has nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Self

from jbm_kafka.admin.cluster.admin_core import AdminCore
from jbm_kafka.admin.moving.sole_members import SoleMember, received_from
from jbm_kafka.browsing.browse import READ_TIMEOUT_S, changelog_scope, looked_up
from jbm_kafka.codec.changelog import encode_entry
from jbm_kafka.core.channel.checkpoint_id import first_checkpoint_id
from jbm_kafka.core.channel.entries import Entry, Position
from jbm_kafka.core.channel.restoring import Restoring
from jbm_kafka.core.destination import with_namespace
from jbm_kafka.core.jms_errors import JMSError, TransactionInDoubtError
from jbm_kafka.ports import (
    AccessRefused,
    CommittedOffset,
    GroupFenced,
    LogReader,
    OutcomeUnknown,
    Outgoing,
    TransactionAborted,
)
from jbm_kafka.ports.provider import TopicInfo
from jbm_kafka.registry.channel_group import ChannelGroup
from jbm_kafka.store.changelog_reader import ChangelogContents, ChangelogScope, read_changelogs
from jbm_kafka.store.no_journal import NoJournal
from jbm_kafka.store.recovered_entries import DecodedChangelog, decode_values
from jbm_kafka.store.recovery import RecoveredChannel

TRANSACTION_TIMEOUT_MS = 60_000
STEP_TIMEOUT_S = 30.0

Entries = Callable[[Sequence[int], str], Sequence[Sequence[Entry]]]
"""What each group's changelog is to say, a position among it, once the records are at these offsets; and the id of the
checkpoint that writes it."""


class ChannelWriter:
    """The channels of some groups of one topic. One thread; a block in which it may write."""

    def __init__(
        self,
        core: AdminCore,
        groups: Sequence[ChannelGroup],
        members: Sequence[SoleMember],
        info: TopicInfo,
        name: str,
        reader: LogReader,
    ) -> None:
        """`name`: of what is written, another one for each; it is begun with `jbm.`."""
        self.info = info
        self._core = core
        self._groups = groups
        self._members = members
        self._reader = reader
        self._mark = with_namespace(name, core.namespace)
        self.transactional_id = transactional_id = f"{self._mark}.{info.topic}"
        """Checkpoints that it wrote begin with it, and a colon."""
        self._producer = core.kafka.transactional_producer(
            transactional_id, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS
        )
        self._checkpoint_id = first_checkpoint_id(transactional_id, now_ms=core.cluster.clock.now_ms())
        self._done: dict[int, int] = {}
        self._recovered: list[Mapping[int, RecoveredChannel]] = []
        self._changelogs: list[Mapping[int, ChangelogContents]] = []
        self._channels: dict[tuple[int, int], Restoring] = {}
        self._begun: set[int] = set()
        """Partitions of which something was written."""

    def __enter__(self) -> Self:
        try:
            self._producer.initialise(STEP_TIMEOUT_S)  # ends what one that was killed has left open
            self._read()
        except BaseException:
            self._producer.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._producer.close()

    def done(self, partition: int) -> int | None:
        """Return what the last one that wrote there called `done`; None: nothing was written."""
        return self._done.get(partition)

    def recorded(self, place: int, partition: int) -> DecodedChangelog:
        """Return what the changelog says of the group at this place, of whichever topic."""
        return decode_values(self._changelogs[place][partition].values)

    def channel(self, place: int, partition: int) -> Restoring:
        """Return what the group at this place has of the partition."""
        key = place, partition
        if key not in self._channels:
            self._channels[key] = Restoring(self._recovered[place][partition].entries)
        return self._channels[key]

    def nowhere(self, partition: int) -> int:
        """An offset below the end of the partition's log where no message will ever be."""
        self._producer.begin()
        self._producer.produce(Outgoing(self.info.topic, partition, None, None), 0)
        offset = self._producer.offsets_written(STEP_TIMEOUT_S)[0]
        self._producer.abort(STEP_TIMEOUT_S)
        return offset

    def write(
        self, partition: int, records: Sequence[Outgoing], entries: Entries, *, done: int, is_anew: bool = True
    ) -> None:
        """Write all of it, or nothing. What counted no more for the topic as it is now goes with it, if it `is_anew`.

        Raises:
            IllegalStateError: others receive now.
            TransactionInDoubtError: nobody knows; whoever does it again finds out.
            KafkaClientError: it was not written.
        """
        self._checkpoint_id = self._checkpoint_id.following()
        try:
            metadata = [member.metadata() for member in self._members]
            self._producer.begin()
            for number, record in enumerate(records):
                self._producer.produce(record, number)
            written = self._producer.offsets_written(STEP_TIMEOUT_S)
            if len(written) < len(records):
                raise JMSError(f"{self.info.topic}[{partition}]: Kafka does not tell where records are; do it again")
            offsets = [written[number] for number in range(len(records))]
            found = entries(offsets, str(self._checkpoint_id))
            for row in (*(self._obsolete(partition) if is_anew else ()), *self._rows(found), self._mark_row(done)):
                self._producer.produce(Outgoing(self._groups[0].changelog_topic, partition, *row))
            for group, member, its in zip(self._groups, metadata, found, strict=True):
                watermark = next(each.watermark for each in its if isinstance(each, Position))
                offset = CommittedOffset(watermark, str(self._checkpoint_id))
                self._producer.send_offsets(member, group.group_id, group.topic, {partition: offset})
            self._producer.commit(STEP_TIMEOUT_S)
        except GroupFenced as error:
            raise received_from(next(each for each in self._groups if each.group_id == error.group)) from None
        except TransactionAborted as error:
            if not any(isinstance(each.cause, AccessRefused) for each in error.refusals.values()):
                raise
            # Brokers refuse the transaction and do not say for which of its topics.
            topics = {self._groups[0].changelog_topic, *(record.topic for record in records)}
            denied = sorted(self._core.admin.unwritable(sorted(topics)))
            lacking = f": no access rule of Kafka's allows Write on topic {' and '.join(denied)}" if denied else ""
            raise AccessRefused(f"{error}{lacking}") from None
        except OutcomeUnknown as error:
            raise TransactionInDoubtError(
                f"{self.info.topic}[{partition}]: nobody knows whether the last {len(records)} messages were written: "
                f"{error}; do it again: what was written is not written twice"
            ) from None
        self._done[partition] = done
        self._begun.add(partition)

    def _rows(self, found: Sequence[Sequence[Entry]]) -> list[tuple[bytes, bytes | None]]:
        groups = zip(self._groups, found, strict=True)
        return [encode_entry(group.group_id, each) for group, entries in groups for each in entries]

    def _obsolete(self, partition: int) -> list[tuple[bytes, None]]:
        """Return tombstones of what counts no more; they go with the first that is written."""
        if partition in self._begun:
            return []
        return [(key, None) for of in self._recovered for key in of[partition].obsolete]

    def _mark_row(self, done: int) -> tuple[bytes, bytes | None]:
        position = Position(self.info.topic_id, str(self._checkpoint_id), done, done, done, 0)
        return encode_entry(self._mark, position)

    def _read(self) -> None:
        """Read what is there, now that nobody else writes it."""
        admin, partitions = self._core.admin, self.info.partitions
        for group in self._groups:
            scope = changelog_scope(group, self.info.topic_id)
            found = looked_up(scope, partitions, admin, self._reader, READ_TIMEOUT_S)
            newer = [each.closed_because for each in found.values() if each.closed_because]
            if newer:
                raise JMSError(newer[0])
            self._recovered.append(found)
            self._changelogs.append(self._contents(scope))
        if not self._groups:
            return
        mark = ChangelogScope(self._mark, self.info.topic, self.info.topic_id, self._groups[0].changelog_topic)
        for partition, contents in self._contents(mark).items():
            position = decode_values(contents.values).position
            if position is not None and position.topic_id == self.info.topic_id:
                self._done[partition] = position.watermark

    def _contents(self, scope: ChangelogScope) -> Mapping[int, ChangelogContents]:
        return read_changelogs(
            scope,
            range(self.info.partitions),
            admin=self._core.admin,
            reader=self._reader,
            journal=NoJournal(),
            timeout_s=READ_TIMEOUT_S,
        )
