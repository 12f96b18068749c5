"""Partitions come and go: what a group worker does when its group says so.

All of it runs on the owner thread, inside `consume` or `close`. Opening a channel reads logs, so that happens beside,
on a thread of the opener; giving one up happens here and takes its time, while writes are still accepted.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from jbm_kafka.core.channel.changes import Selected, TimePassed
from jbm_kafka.core.channel.holders import is_waited_for, returning
from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.ports import GroupConsumer, PartitionGone, PartitionUnreadable, PositionOutOfRange, UnknownTopic
from jbm_kafka.ports.completion import Completion
from jbm_kafka.ports.link import Link
from jbm_kafka.ports.refusals import GONE, LOST, MOVED, READ_ANEW, in_doubt, taken
from jbm_kafka.ports.steps import Steps, Wait, Workers
from jbm_kafka.sidecar.channel.channel_opener import Opener
from jbm_kafka.sidecar.channel.group_data import GroupData
from jbm_kafka.sidecar.channel.membership import Membership
from jbm_kafka.sidecar.channel.owned_channel import OwnedChannel
from jbm_kafka.sidecar.channel.tuning import FETCH_COUNT_MAX
from jbm_kafka.sidecar.log_lines.partition_lines import log_assigned, log_given_up, log_lost, log_open, log_revoked
from jbm_kafka.sidecar.stages.flow import Flow
from jbm_kafka.sidecar.stages.settle import Settle

log = logging.getLogger(__name__)

PUMP_S = 0.002
LAST_CHECKPOINT_MS = 15_000
"""More than a transaction may take; after it the group's fencing protects the successor anyway."""


@dataclass(frozen=True, slots=True)
class WorkerCalls:
    """The calls of the worker that the assignment is part of."""

    go_on: Callable[[], None]
    """The worker's own work, done again and again inside the client's callback."""
    is_ending: Callable[[], bool]
    """The process leaves the group."""
    give_up: Callable[[Exception], None]
    """Told what makes all of the group useless."""


class ClientTopic:
    """The client that a group worker has now. The owner thread's."""

    def __init__(self) -> None:
        self.is_outdated = False
        """Its topic was made anew since it was made, or its group does not answer it."""
        self._topic_id = ""
        """Empty: it is not known yet."""
        self._delivered_below: dict[int, int] = {}
        """The end of what receivers may have had, of partitions that are read anew."""

    def note_topic(self, topic_id: str) -> None:
        """The topic has this id now."""
        self.is_outdated = self.is_outdated or self._topic_id not in ("", topic_id)
        self._topic_id = topic_id

    def note_delivered(self, partition: int, below: int) -> None:
        """Receivers may have had what lies below; for opening the partition with the next client."""
        self._delivered_below[partition] = below

    def replaced(self) -> None:
        """Another client follows."""
        self.is_outdated, self._topic_id = False, ""

    def take_delivered(self, partitions: Sequence[int]) -> dict[int | None, list[int]]:
        """The partitions, by how much receivers may have had of them; None: what their changelogs say."""
        found: defaultdict[int | None, list[int]] = defaultdict(list)
        for partition in partitions:
            found[self._delivered_below.pop(partition, None)].append(partition)
        if found:
            self._delivered_below.clear()  # others have the rest
        return found


class Assignment:
    """`ports.GroupListener` of one channel group."""

    def __init__(
        self,
        data: GroupData,
        settle: Settle,
        flow: Flow,
        membership: Membership,
        *,
        opener: Opener,
        workers: Workers,
        calls: WorkerCalls,
    ) -> None:
        self._data = data
        self._settle = settle
        self._flow = flow
        self._membership = membership
        self._opener = opener
        self._workers = workers
        self._calls = calls
        self.client = ClientTopic()
        self._closed: dict[int, JMSError] = {}
        """Partitions that are ours and stay closed, and why: what they or their changelogs hold cannot be read."""
        self._going: frozenset[int] | None = frozenset()
        """Partitions that a rebalance takes away now; None: all go, for the worker leaves its group."""
        self._undecided: list[OwnedChannel] = []
        """Dropped while a checkpoint of theirs was under way: those that wait for it hear when its end is known."""

    @property
    def closed(self) -> Mapping[int, JMSError]:
        """Partitions that are ours and of which nothing more is read, and why."""
        return self._closed

    # -- coming ----------------------------------------------------------------------------------------------------

    def on_assigned(self, partitions: Sequence[int]) -> Mapping[int, int]:
        """Begin to recover each partition's channel; what is read of it starts only when that is open.

        Returns no start positions, for none is known yet.
        """
        if self._going is None:
            return {}
        if partitions:
            self._data.counters.rebalances += 1
            self._membership.given()
        if partitions and self._data.group.is_recorded:
            log_assigned(self._data.group, partitions)
        now_ms = self._data.clock.monotonic_ms()
        for below, some in self.client.take_delivered(partitions).items():
            self._open(some, assigned_at_ms=now_ms, delivered_below=below)
        return {}

    def _open(
        self, partitions: Sequence[int], *, assigned_at_ms: int | None = None, delivered_below: int | None = None
    ) -> None:
        """Have these partitions opened beside the owner's thread, which hears by its mailbox what became of each.

        `assigned_at_ms` is when the group gave them, monotonic; None: they are opened anew. One that is taken or given
        again meanwhile gets another token, and what the first opening says of it counts no more. `delivered_below`: see
        Opener.
        """
        partitions = [partition for partition in partitions if self._may_open(partition)]
        token = object()
        self._data.opening.update((partition, token) for partition in partitions)
        if partitions:
            post = self._data.mailbox.post
            self._opener.open(
                self._data.group,
                partitions,
                opened=lambda channel: post(lambda: self._opened(channel, token, assigned_at_ms)),
                closed=lambda partition, cause: post(lambda: self._stays_closed(partition, token, cause)),
                failed=lambda error: post(lambda: self._calls.give_up(error)),
                is_wanted=lambda partition: self._data.opening.get(partition) is token,
                delivered_below=delivered_below,
            )

    def _opened(self, channel: OwnedChannel, token: object, assigned_at_ms: int | None) -> None:
        if self._data.opening.get(channel.partition) is not token:
            return
        consumer = self._data.consumer
        assert consumer is not None, self._data.group.group_id
        del self._data.opening[channel.partition]
        self.client.note_topic(channel.changelog.topic_id)
        clock = self._data.clock
        channel.state.apply(TimePassed(clock.now_ms(), clock.set_back_ms))
        if self._data.settings is not None:  # changed while the channel was being recovered, maybe
            channel.use(self._data.settings)
        channel.recovered()
        if self._data.selections.is_selecting:
            channel.state.apply(Selected(self._data.selections.present))
        self._data.channels[channel.partition] = channel
        self._data.opened += 1
        if channel.parked.unread:
            self._data.feeding.append(channel)
        else:
            consumer.seek(channel.partition, channel.state.read_position)
        self._data.notify_links()
        if not self._data.opening and assigned_at_ms is not None and self._data.group.is_recorded:
            log_open(self._data.group, len(self._data.channels), clock.monotonic_ms() - assigned_at_ms)

    def _stays_closed(self, partition: int, token: object, cause: str) -> None:
        """Never started, the partition is read by nobody until another member has it."""
        if self._data.opening.get(partition) is not token:
            return
        del self._data.opening[partition]
        data = self._data
        text = f"{data.group}: partition {partition} is closed: {cause}"
        error = self._closed[partition] = JMSError(text, topic=data.group.topic, partition=partition)
        for link in data.links.values():
            link.notices.note(error)
        self._data.notify_links()

    def notify_closed(self, link: Link) -> None:
        """A link that came later hears which partitions it gets nothing from."""
        for error in self._closed.values():
            link.notices.note(error)

    def notify_unreadable(self, partition: int, cause: str) -> None:
        """Nothing more is read of the partition; what was read before goes on."""
        log.error("%s", cause)
        error = self._closed[partition] = JMSError(cause, topic=self._data.group.topic, partition=partition)
        for link in self._data.links.values():
            link.notices.note(error)

    def partition_gone(self, partition: int, cause: str) -> None:
        """The topic has it no more, and so nothing of it can be delivered again; the group takes it away soon."""
        self._data.opening.pop(partition, None)
        channel = self._data.channels.get(partition)
        if channel is not None:
            log.warning("%s; what of it was not settled is gone with it, other partitions go on", cause)
            self.drop(channel, GONE)

    def reposition(self, partition: int) -> None:
        """The log no longer holds the position: open the channel anew, which begins at the log's start."""
        log.warning(
            "%s[%d]: the log lost what the queue still held (its topic was made anew, retention, or delete_records by "
            "others); going on at its start. Set retention.ms=-1 on the topic to keep messages until they are settled",
            self._data.group.topic,
            partition,
        )
        channel = self._data.channels.get(partition)
        if channel is not None:
            # If the topic was made anew, the new log ends before anything of it could be handed over.
            self.reopen(channel, delivered_below=0)
        elif partition not in self._data.opening:
            self._open([partition])

    def topic_is(self, topic_id: str, partitions: int) -> None:
        """Take what the cluster says of the topic: channels of another id are about a log that is gone.

        They open anew with another client, and their changelog, which names the old id, counts for nothing then:
        neither what the old log had settled nor what was read in the middle of the new one and settled since. That
        comes again, marked.
        """
        data = self._data
        self.client.note_topic(topic_id)
        stale = [channel for channel in data.channels.values() if channel.changelog.topic_id != topic_id]
        if not stale:
            return
        log.warning(
            "%s: its Kafka topic was made anew, and what the old one held is gone; it goes on at the new one's start",
            data.group,
        )
        for channel in stale:
            if channel.is_closing or channel.partition >= partitions:
                self.drop(channel, GONE)
            else:
                self._drop_delivered(channel, GONE)

    def end_client(self) -> None:
        """Another one follows, as a new member of the group: forget what is held of every partition."""
        self._data.opening.clear()
        for channel in list(self._data.channels.values()):
            self._drop_delivered(channel, READ_ANEW)
        self.client.replaced()

    def _drop_delivered(self, channel: OwnedChannel, why: str) -> None:
        self.client.note_delivered(channel.partition, channel.state.delivered_position)
        self.drop(channel, why)

    def read_anew(self, why: str) -> None:
        """Forget what is held of every partition, and open those that stay."""
        for channel in list(self._data.channels.values()):
            if channel.is_closing:
                self.drop(channel, why)
                continue
            if channel.memory.is_paused and self._data.consumer is not None:
                self._data.consumer.resume([channel.partition])  # the channel that opens anew is not paused
            self.reopen(channel, why=why)

    def reopen(self, channel: OwnedChannel, *, delivered_below: int | None = None, why: str = READ_ANEW) -> None:
        """It can no longer be trusted: recover it, the others go on. `why` is for the sessions that hold some of it.

        `delivered_below`: how much its receivers may have had of the log, if that is another by now; None: all that it
        handed over, for its numbers go on in the new one.
        """
        partition = channel.partition
        below = channel.state.delivered_position if delivered_below is None else delivered_below
        self.drop(channel, why)
        if channel.checkpoints.freeze is None or not self._may_open(partition):
            self._open([partition], delivered_below=below)
            return
        # No new generation fences what its checkpoint still writes: that must be there when the changelog is read, or
        # a new topic's messages count as settled by what is known of the old one's.
        token = self._data.opening[partition] = object()
        channel.checkpoints.wait_frozen(Completion(lambda _: self._open_anew(partition, token, below)))

    def _may_open(self, partition: int) -> bool:
        """Not what is being given up: its next owner would have it too, and both would write (LOG-6)."""
        return self._going is not None and partition not in self._going

    def _open_anew(self, partition: int, token: object, delivered_below: int) -> None:
        if self._data.opening.get(partition) is token:
            self._open([partition], delivered_below=delivered_below)

    # -- going -----------------------------------------------------------------------------------------------------

    def on_revoked(self, partitions: Sequence[int]) -> None:
        """Give partitions up in order: stop hand-over, let sessions finish, write the last checkpoint, forget them.

        The worker goes on with those it keeps, all but reading: the client gives nothing before this returns.
        """
        self._forget_opening(partitions)
        self._membership.rebalanced()
        self._data.counters.rebalances += 1
        going = self._going
        if partitions and going is not None:
            log_revoked(
                self._data.group, partitions, self._in_hand(partitions), self._data.config.revoke_drain_ms / 1000
            )
        self._going = None if going is None else frozenset(partitions)
        try:
            for _ in self._release(partitions):
                self._data.given_up_ms = self._data.clock.monotonic_ms()
                self._calls.go_on()
                self._workers.pause(PUMP_S)
        finally:
            self._going = going
            if partitions:
                self._data.given_up_ms = self._data.clock.monotonic_ms()

    def leave(self, consumer: GroupConsumer) -> Steps:
        """Give everything up in order, before the group worker's member closes.

        Not inside `close`: there the client no longer takes part in a rebalance that is under way, so that its
        generation goes out of date and its last checkpoint is refused until the group throws it out.
        """
        self._going = None
        self._data.opening.clear()
        partitions = list(self._data.channels)
        consumer.pause(partitions)
        for _ in self._release(partitions):
            self._calls.go_on()
            if not self._data.group.is_recorded:  # others have the same thread
                yield Wait(PUMP_S)
            else:
                self._workers.pause(PUMP_S)
            _stay_member(consumer)

    def _in_hand(self, partitions: Sequence[int]) -> int:
        """Messages of them that sessions hold."""
        channels = [channel for partition, channel in self._data.channels.items() if partition in partitions]
        return sum(len(hand) for channel in channels for _, hand in returning(channel.state.in_hand))

    def _release(self, partitions: Sequence[int]) -> Iterator[None]:
        """At each step the caller goes on with what cannot wait; in it some of them may be given up or lost."""
        data = self._data
        begun_ms = data.clock.monotonic_ms()
        channels = [data.channels[partition] for partition in partitions if partition in data.channels]
        for channel in channels:
            channel.is_closing = True
            self._take_unread(channel)
        yield from self._drain(channels)
        yield from self._wait_for(channels, _is_frozen)
        for channel in channels:
            if channel.is_lost:
                continue
            if channel.checkpoints.freeze is not None:
                # What its commits hold stays in hand until their end is known, so the mark cannot go back: it is left
                # as after a crash.
                self.drop(channel)
                continue
            self._settle.take_from_sessions(channel)
            channel.begin_release()
        yield from self._wait_for(channels, _is_unrecorded)
        kept = [channel for channel in channels if not channel.is_lost]
        for channel in kept:
            self.drop(channel)
        if kept and data.group.is_recorded and not data.is_abandoned:
            log_given_up(data.group, [channel.partition for channel in kept], data.clock.monotonic_ms() - begun_ms)

    def on_lost(self, partitions: Sequence[int]) -> None:
        """The group has given them away: drop them, write nothing."""
        self._forget_opening(partitions)
        if partitions:
            self._data.counters.rebalances += 1
            self._membership.lost()
            data, consumer = self._data, self._data.consumer
            timed_out = consumer is not None and consumer.timed_out()
            log_lost(data.group, partitions, data.config.session_timeout_ms, timed_out=timed_out)
        for partition in partitions:
            channel = self._data.channels.get(partition)
            if channel is not None:
                self.drop(channel, LOST)

    def drop(self, channel: OwnedChannel, why: str = MOVED) -> None:
        """Forget a channel; what it had not recorded never will be. `why` is for the sessions that hold some of it."""
        data = self._data
        self._settle.notify_taken(channel, why)
        channel.is_lost = channel.is_closing = True
        for link in data.links.values():
            lease = link.settlement.leases.get(channel.partition)
            if lease is not None and lease.channel is channel:
                lease.is_revoked = True
                del link.settlement.leases[channel.partition]
                if lease.acked:
                    self._settle.refuse_late(lease)
            link.remove(channel.partition, None)
        channel.checkpoints.fail_waiters(taken(channel, why))
        self._settle.refuse_unrecorded(channel)
        self._undecided = [other for other in (*self._undecided, channel) if other.checkpoints.freeze is not None]
        if data.channels.get(channel.partition) is channel:
            del data.channels[channel.partition]
        self._flow.forget(channel)

    def end(self) -> None:
        """The owner thread does nothing more: the end of checkpoints under way reaches nobody here."""
        self._data.opening.clear()
        for channel in self._undecided:
            channel.checkpoints.leave_in_doubt(in_doubt(channel))

    def _forget_opening(self, partitions: Sequence[int]) -> None:
        for partition in partitions:
            self._data.opening.pop(partition, None)
            self._closed.pop(partition, None)

    def _take_unread(self, channel: OwnedChannel) -> None:
        for link in self._data.links.values():
            unread = [g.reference.offset for g in link.remove(channel.partition, None) if g.lease.channel is channel]
            if unread:
                self._settle.return_uncounted(channel, link.terms.session_id, unread)

    def _drain(self, channels: Sequence[OwnedChannel]) -> Iterator[None]:
        """Let sessions finish what the application has in hand: a handler's time, or a moment when the worker ends."""
        clock, config = self._data.clock, self._data.config
        begun_ms = clock.monotonic_ms()
        limit_ms = begun_ms + config.revoke_drain_ms
        copies_limit_ms = begun_ms + min(config.revoke_drain_ms, config.leave_drain_ms)
        is_ending = False
        while True:
            if self._data.is_abandoned:
                return
            now_ms = clock.monotonic_ms()
            if not is_ending and self._calls.is_ending():
                is_ending, limit_ms = True, min(limit_ms, now_ms + config.leave_drain_ms)
            waits_for_sessions, waits_for_copies = now_ms < limit_ms, now_ms < copies_limit_ms
            if not any(
                (waits_for_sessions and _has_sessions(channel))
                or (waits_for_copies and is_waited_for(channel.state.in_hand))
                for channel in channels
                if not channel.is_lost
            ):
                return
            yield

    def _wait_for(
        self, channels: Sequence[OwnedChannel], is_waited_for: Callable[[OwnedChannel], bool]
    ) -> Iterator[None]:
        """Wait for the end of a checkpoint under way, since what it settles may be committed, or of the last."""
        clock = self._data.clock
        deadline_ms = clock.monotonic_ms() + LAST_CHECKPOINT_MS
        while any(is_waited_for(channel) for channel in channels):
            if self._data.is_abandoned:
                return
            if clock.monotonic_ms() > deadline_ms:
                group_id = self._data.group.group_id
                log.warning("group %s: the last checkpoint did not finish; the next owner repeats a little", group_id)
                return
            yield


def _stay_member(consumer: GroupConsumer) -> None:
    """Answer the group; what is read is of no use any more."""
    with suppress(PositionOutOfRange, PartitionGone, PartitionUnreadable, UnknownTopic):
        consumer.consume(FETCH_COUNT_MAX, 0)


def _has_sessions(channel: OwnedChannel) -> bool:
    return any(hand for _, hand in returning(channel.state.in_hand))


def _is_frozen(channel: OwnedChannel) -> bool:
    return not channel.is_lost and channel.checkpoints.freeze is not None


def _is_unrecorded(channel: OwnedChannel) -> bool:
    return not channel.is_lost and (channel.needs_checkpoint or channel.checkpoints.freeze is not None)
