"""Opens channels: reads their state beside the owner thread, which must keep serving its group meanwhile."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Protocol

from jbm_kafka.codec.changelog import branch_of_key
from jbm_kafka.core.channel.changes import TimePassed
from jbm_kafka.core.channel.channel_state import ChannelState
from jbm_kafka.core.channel.entries import MessageEvent, MessageFate, Parked
from jbm_kafka.core.channel.offered_target import OfferedPace
from jbm_kafka.core.jms_errors import IllegalStateError, InvalidDestinationError
from jbm_kafka.core.settings.address_settings import ResolvedSettings
from jbm_kafka.ports import AccessRefused, Clock, Journal, Kafka, KafkaClientError, KafkaRecord, PartitionUnreadable
from jbm_kafka.ports.installation import SidecarConfig
from jbm_kafka.ports.patience import Patience
from jbm_kafka.ports.steps import Steps, StepWorker, Wait, Workers
from jbm_kafka.registry.channel_group import ChannelGroup
from jbm_kafka.registry.other_namespaces import OtherNamespaces
from jbm_kafka.registry.topics import TopicGone, Topics
from jbm_kafka.sidecar.channel.channel_changelog import ChannelChangelog
from jbm_kafka.sidecar.channel.owned_channel import OwnedChannel
from jbm_kafka.sidecar.channel.parked_records import ParkedRecords
from jbm_kafka.store.changelog_reader import ChangelogScope, read_changelogs
from jbm_kafka.store.no_journal import NoJournal
from jbm_kafka.store.recovered_entries import decode_values
from jbm_kafka.store.recovery import RecoveredChannel, recover_channels
from jbm_kafka.store.stored_record import parked_record

log = logging.getLogger(__name__)

READ_TIMEOUT_S = 60.0
"""A dead owner's open transaction holds a changelog back for its timeout plus the broker's scan: 20 s by default."""
RETRY_S = 0.5


class Opener(Protocol):
    """Opens channels for group workers."""

    def open(
        self,
        group: ChannelGroup,
        partitions: Sequence[int],
        *,
        opened: Callable[[OwnedChannel], object],
        closed: Callable[[int, str], object],
        failed: Callable[[Exception], object],
        is_wanted: Callable[[int], bool],
        delivered_below: int | None = None,
    ) -> None:
        """Recover the partitions' channels and tell each, again and again on trouble; the unwanted are left.

        `delivered_below`: they were open here, and receivers may have had offsets below it, if it turns out that the
        topic was made anew; None: they come from elsewhere.

        `closed` is called, with the cause, for a partition that cannot be opened: its changelog is damaged, or only a
        newer version can read it. `failed` gets a bug, or why nothing of the group may be opened; and once, with
        a TopicGone, that the topic is not there: it is opened when it is made again.
        """

    def parked_records(self, group: ChannelGroup, partition: int) -> Sequence[KafkaRecord]:
        """Return what the changelog keeps of a channel, ascending.

        Raises:
            KafkaClientError: no answer.
        """


class ChannelOpener:
    """Recovers channels on threads of its own, several group workers side by side."""

    def __init__(
        self,
        *,
        kafka: Kafka,
        journal: Journal,
        topics: Topics,
        clock: Clock,
        config: SidecarConfig,
        settings_of: Callable[[str], ResolvedSettings],
        workers: Workers,
        check: Callable[[ChannelGroup], None] = lambda group: None,
        truncates: Callable[[str, str], bool] = lambda name, topic_id: False,
    ) -> None:
        """`check` is asked first, and raises IllegalStateError where this process may not open the group's channels.

        `truncates`: whether what is settled of a destination with that topic is deleted.
        """
        self._kafka = kafka
        self._journal = journal
        self._topics = topics
        self._clock = clock
        self._config = config
        self._settings_of = settings_of
        self._workers = workers
        self._check = check
        self._truncates = truncates
        self._other_namespaces = OtherNamespaces(kafka, config.namespace)
        self._under_way: list[StepWorker] = []
        self._closing = threading.Event()

    def open(
        self,
        group: ChannelGroup,
        partitions: Sequence[int],
        *,
        opened: Callable[[OwnedChannel], object],
        closed: Callable[[int, str], object],
        failed: Callable[[Exception], object],
        is_wanted: Callable[[int], bool],
        delivered_below: int | None = None,
    ) -> None:
        """See Opener."""

        def run() -> Steps:
            damaged: set[int] = set()
            is_gone_told = False
            while not self._closing.is_set():
                wanted = [partition for partition in partitions if partition not in damaged and is_wanted(partition)]
                if not wanted:
                    return
                try:
                    for channel in self._recover(group, wanted, closed, delivered_below):
                        opened(channel)
                except PartitionUnreadable as error:
                    _log_damaged(group, error)
                    damaged.add(error.partition)
                    closed(error.partition, str(error))
                except (IllegalStateError, AccessRefused) as error:
                    failed(error)
                    return
                except KafkaClientError as error:
                    if self._closing.is_set():
                        return
                    place = f"group {group.group_id}: recovery of partitions {wanted}"
                    log.warning("%s: %s; it is tried again", place, error)
                    yield Wait(RETRY_S, self._closing)
                except TopicGone as error:
                    if not is_gone_told:
                        is_gone_told = True
                        failed(error)
                    yield Wait(RETRY_S, self._closing)
                except InvalidDestinationError as error:  # it was made anew as what cannot be one
                    log.warning("%s; its receivers here get the error", error)
                    failed(error)
                    return
                except Exception as error:  # for those that wait for the group worker; a thread pool would swallow it
                    log.exception("group %s: recovery failed", group.group_id)
                    failed(error)
                    return
                else:
                    self._other_namespaces.look(group)  # last: nobody waits for it
                    return

        self._under_way = [worker for worker in self._under_way if worker.is_alive]
        self._under_way.append(self._workers.start(f"jbm-recovery-{group.group_id}", run()))

    def parked_records(self, group: ChannelGroup, partition: int) -> Sequence[KafkaRecord]:
        """See Opener. Local state may lack a checkpoint, so Kafka is asked."""
        info = self._topics.refresh(group.destination)
        scope = ChangelogScope(group.group_id, group.topic, group.log_id(info.topic_id), group.changelog_topic)
        with closing(self._kafka.admin()) as admin, closing(self._kafka.log_reader()) as reader:
            found = read_changelogs(
                scope, [partition], admin=admin, reader=reader, journal=NoJournal(), timeout_s=READ_TIMEOUT_S
            )
        entries = decode_values(found[partition].values).others.values()
        rows = sorted((each for each in entries if isinstance(each, Parked)), key=lambda row: row.offset)
        return [parked_record(group.topic, partition, row) for row in rows]

    def close(self, patience: Patience, timeout_s: float = READ_TIMEOUT_S) -> None:
        """Start nothing more, and let what is under way end."""
        self._closing.set()
        for worker in self._under_way:
            if not patience.wait(worker.wait_end, timeout_s):
                worker.abandon()

    def _recover(
        self,
        group: ChannelGroup,
        partitions: Sequence[int],
        closed: Callable[[int, str], object],
        delivered_below: int | None,
    ) -> list[OwnedChannel]:
        self._check(group)
        info = self._topics.refresh(group.destination)
        scope = ChangelogScope(
            group=group.group_id,
            topic=group.topic,
            topic_id=group.log_id(info.topic_id),
            changelog_topic=group.changelog_topic,
            begins=group.begins(info.topic_id),
            is_truncated=self._truncates(group.destination.name, info.topic_id),
        )
        admin, reader = self._kafka.admin(), self._kafka.log_reader()
        try:
            found = recover_channels(
                scope,
                partitions,
                admin=admin,
                reader=reader,
                journal=self._journal,
                timeout_s=READ_TIMEOUT_S,
                pause=self._workers.pause,
                delivered_below=delivered_below,
            )
        finally:
            reader.close()
            admin.close()
        for partition in partitions:
            if found[partition].closed_because:
                closed(partition, found[partition].closed_because)
        pace = OfferedPace()
        channels = [
            self._opened(group, scope, found[partition], pace)
            for partition in partitions
            if not found[partition].closed_because
        ]
        for channel in channels:
            _note_skipped(channel, found[channel.partition])
            _note_heuristic(channel, found[channel.partition])
        return channels

    def _opened(
        self, group: ChannelGroup, scope: ChangelogScope, found: RecoveredChannel, pace: OfferedPace
    ) -> OwnedChannel:
        return OwnedChannel(
            topic=group.topic,
            partition=found.partition,
            state=self._state(found),
            settings=self._settings_of(group.destination.name),
            changelog=ChannelChangelog(
                group=group.group_id,
                topic=scope.changelog_topic,
                topic_id=scope.topic_id,
                position=found.changelog_position,
                journal_channel=scope.journal_channel(found.partition),
                changelog_id=found.changelog_id,
                obsolete=found.obsolete,
                is_new_start=found.is_decided_here,
            ),
            records_attempts=self._config.persist_delivery_count_before_delivery,
            offered_limits=self._config.offered_limits,
            offered_pace=pace,
            parked=ParkedRecords(found.parked, found.start_position, noted=found.parked_noted, may_note=found.may_note),
        )

    def _state(self, recovered: RecoveredChannel) -> ChannelState:
        state = ChannelState()
        state.apply(TimePassed(self._clock.now_ms()))  # first: due times from a clock that was ahead are cut to ours
        for entry in recovered.entries:
            state.apply(entry)
        return state


def _log_damaged(group: ChannelGroup, error: PartitionUnreadable) -> None:
    """Log that what was settled and held there is not known, so that nothing of it may be handed over."""
    log.error("%s: %s; the partition stays closed, the others go on", group, error)


def _note_skipped(channel: OwnedChannel, recovered: RecoveredChannel) -> None:
    """One event for the whole range: what of it held messages is not known any more."""
    skipped = recovered.skipped
    if skipped is not None:
        reason = f"offsets {skipped.first} to {skipped.last}, as far as they were not settled: {recovered.reason.value}"
        channel.checkpoints.note(MessageEvent(MessageFate.SKIPPED, skipped.first, None, 0, None, reason))


def _note_heuristic(channel: OwnedChannel, recovered: RecoveredChannel) -> None:
    """Note that what prepared branches had of a range that counts no more went another way without a decision."""
    for key in recovered.obsolete:
        branch = branch_of_key(key)
        if branch is not None:
            channel.checkpoints.note_applied(branch, recovered.reason.value)
