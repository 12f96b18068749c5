"""A group worker: one channel group's owner thread. It alone touches the group's Kafka consumer and its channels.

Everybody else enqueues: sessions through their links, the checkpointer through `post`. The thread looks at its queues
every few milliseconds while anybody is active.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from jbm_kafka.codec.command_records import Command
from jbm_kafka.core.channel.counters import SourceCounters
from jbm_kafka.core.jms_errors import IllegalStateError, InvalidDestinationError, InvalidSettingError, JMSError
from jbm_kafka.core.settings.address_settings import ResolvedSettings
from jbm_kafka.ports import (
    GroupConsumer,
    GroupConsumers,
    KafkaClientError,
    Outgoing,
    SettingRefused,
    UnknownTopic,
)
from jbm_kafka.ports.client_errors import as_jms_error
from jbm_kafka.ports.completion import Completion
from jbm_kafka.ports.deliveries import Delivery
from jbm_kafka.ports.installation import SidecarConfig
from jbm_kafka.ports.link import Link
from jbm_kafka.ports.refusals import GONE
from jbm_kafka.ports.steps import Steps, StepWorker, Wait, Workers
from jbm_kafka.ports.unit_of_work import UnitOfWork
from jbm_kafka.registry.channel_group import ChannelGroup
from jbm_kafka.registry.pauses import Pausing
from jbm_kafka.registry.topics import TopicGone, gone_while_received
from jbm_kafka.sidecar.channel.channel_opener import Opener
from jbm_kafka.sidecar.channel.group_data import GroupData
from jbm_kafka.sidecar.channel.membership import Membership
from jbm_kafka.sidecar.channel.owned_channel import owned
from jbm_kafka.sidecar.channel.slewed_clock import SlewedClock
from jbm_kafka.sidecar.checkpoints.checkpoint_parts import Participant, Settling, Transfer
from jbm_kafka.sidecar.lane.assignment import Assignment, WorkerCalls
from jbm_kafka.sidecar.lane.awaited_partitions import AwaitedPartitions
from jbm_kafka.sidecar.lane.poll_loop import Turn
from jbm_kafka.sidecar.lane.slow_consumers import LongWork
from jbm_kafka.sidecar.operators.operator_departures import OperatorDepartures, Reply
from jbm_kafka.sidecar.operators.owner_commands import OwnerCommands
from jbm_kafka.sidecar.operators.owner_questions import OwnerQuestions
from jbm_kafka.sidecar.stages.checkpoint_part import CheckpointPart
from jbm_kafka.sidecar.stages.departures import Departures
from jbm_kafka.sidecar.stages.flow import Flow
from jbm_kafka.sidecar.stages.parked import MembersWithout, Parking
from jbm_kafka.sidecar.stages.prepared import PreparedMessages, StateOf
from jbm_kafka.sidecar.stages.repeated_messages import RepeatedMessages
from jbm_kafka.sidecar.stages.settle import Settle
from jbm_kafka.sidecar.topics.address_topics import TargetTopics

log = logging.getLogger(__name__)

PASSING_ON_MS = 4_000
"""So long after partitions were given up others have them, as a rule: they hear of that with their next heartbeat."""
MISSING_REST_S = 0.5
"""Between two turns in which the client says that there is no such topic."""


@dataclass(frozen=True, slots=True)
class GroupWorkerParts:
    """The parts from which a group worker is made."""

    kafka: GroupConsumers
    clock: SlewedClock
    config: SidecarConfig
    opener: Opener
    workers: Workers
    flow: Callable[[], Flow]
    chance: Callable[[], float]
    note_dirty: Callable[[Participant, bool], None]
    """Tells the checkpointer that there is work, and whether somebody waits for it."""
    submit: Callable[[Transfer], None]
    """Gives the checkpointer a transfer."""
    targets: TargetTopics
    pausing: Pausing
    look_at_topics: Callable[[], None]
    """Asks whether topics are what they were."""
    counters: Callable[[ChannelGroup], SourceCounters]
    """Where a group worker counts."""
    branch_state: StateOf = lambda branch: None
    """Gives what is known of a prepared branch."""
    members_without: MembersWithout = lambda kind, group, topic: ()
    """Which members of a group cannot read a kind of changelog entry."""
    thread: Workers | None = None
    """The thread that it shares with others, if it never waits within a step; None: one of its own."""


class ServedLinks:
    """The links of one group worker."""

    def __init__(self, data: GroupData) -> None:
        self._data = data
        self.being_made: set[str] = set()
        """Links whose consumers wait for their first assignment."""
        self.is_failing = False
        """Its worker leaves as one that stops, and counts as running until its links know why."""
        self.failure: Exception | None = None
        """Why nothing is served any more; any thread may look."""
        self.lacks_topic = False
        """It was found gone, and no partition of it came since; any thread may look."""

    def attach(self, link: Link, *, is_open: bool) -> None:
        """One more; `is_open`: its consumer was made earlier."""
        self._data.links[link.terms.link_id] = link
        self._data.links_changed()
        if not is_open:
            self.being_made.add(link.terms.link_id)
        if self.failure is not None:
            link.notices.fail(self.failure)
        if self._data.unrecorded is not None:
            link.notices.hinder(self._data.unrecorded)

    def detach(self, link_id: str) -> None:
        """One less."""
        del self._data.links[link_id]
        self.being_made.discard(link_id)
        self._data.links_changed()

    def look(self) -> None:
        """Give whoever waits for an assignment what may be had of it."""
        # With partitions: a first assignment without any may be over before the consumer, which waits for it, looks.
        if self.being_made and self._data.channels and self._data.is_settled:
            self.being_made.clear()
        if self.lacks_topic and self._data.channels:
            self.lacks_topic = False

    def topic_gone(self, error: InvalidDestinationError) -> bool:
        """Refuse those that are being made; True when others are here, which wait."""
        self.lacks_topic = True
        links = self._data.links.values()
        waiting = [link for link in links if link.notices.is_open or link.terms.link_id not in self.being_made]
        if waiting:
            for link in links:
                if link not in waiting:
                    link.notices.fail(error)
        return bool(waiting)

    def fail(self, error: Exception) -> None:
        """Nothing will come any more, for anybody."""
        for link in list(self._data.links.values()):
            link.notices.fail(error)


class GroupWorker:
    """The channels of one group that this process owns, and the links that drink from them."""

    def __init__(self, *, group: ChannelGroup, parts: GroupWorkerParts, client_id: str = "") -> None:
        """`client_id`: that of the connection that receives first, shown in lists of the group's members."""
        counters = parts.counters(group)
        data = self.data = GroupData(group, clock=parts.clock, config=parts.config, counters=counters)
        departures = Departures(data, submit=self._submit, targets=parts.targets)
        self.settle = Settle(data, departures, chance=parts.chance)
        self.prepared = PreparedMessages(data, self.settle, parts.branch_state)
        flow = parts.flow()
        repeated = RepeatedMessages(departures.lines, data.clock)
        self.checkpoint_part = CheckpointPart(
            data,
            self.settle,
            is_alive=lambda: self.is_alive,
            give_up=self._give_up,
            topic_gone=self._nothing_recorded,
            look_at_topics=parts.look_at_topics,
        )
        self.membership = Membership(parts.config, lingers=group.subscription is None)
        self.assignment = Assignment(
            data,
            self.settle,
            flow,
            self.membership,
            opener=parts.opener,
            workers=parts.workers,
            calls=WorkerCalls(self._go_on, is_ending=self._is_ending, give_up=self._give_up),
        )
        taking_out = OperatorDepartures(
            data,
            self.settle,
            departures,
            log_reader=parts.kafka.log_reader,
            parked_records=lambda channel: parts.opener.parked_records(group, channel.partition),
            workers=parts.workers,
            submit=self._submit,
            target_of=parts.targets.topic_of,
            repeated=repeated,
            prepare_taking_out=flow.prepare_taking_out,
            reopen=self.assignment.reopen,
        )
        questions = OwnerQuestions(
            data, closed=self.assignment.closed, is_paused=lambda: parts.pausing.is_paused(group.destination.name)
        )
        self.commands = OwnerCommands(data, departures, taking_out, questions)
        self.turn = Turn(
            data,
            settle=self.settle,
            departures=departures,
            flow=flow,
            repeated=repeated,
            assignment=self.assignment,
            commands=self.commands,
            note_dirty=partial(parts.note_dirty, self.checkpoint_part),
            targets=parts.targets,
            pausing=parts.pausing,
            look_at_topics=parts.look_at_topics,
            look_at_branches=self.prepared.look,
            parking=Parking(
                data,
                log_reader=parts.kafka.log_reader,
                workers=parts.workers,
                members_without=parts.members_without,
            ),
        )
        self.served = ServedLinks(data)
        self._parts = parts
        self._client_id = client_id
        self._is_stopping = False
        self._worker: StepWorker | None = None

    # -- any thread ----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Join the group."""
        workers = self._parts.thread or self._parts.workers
        self._worker = workers.start(f"jbm-group-{self.data.group.group_id}", self._run())

    def post(self, command: Callable[[], object]) -> bool:
        """Run a command on the owner thread soon, also while it drains inside a rebalance. False: it has ended."""
        return self.data.mailbox.post(command)

    def wake(self) -> None:
        """A link wants messages."""
        self.data.mailbox.wake()

    def attach(self, link: Link, *, is_open: bool = False) -> None:
        """Serve one more link; `is_open`: its consumer was made earlier, and is served anew."""
        self.post(lambda: self._attach(link, is_open=is_open))

    def detach(self, link_id: str) -> None:
        """Serve it no longer. What its buffer still holds goes back uncounted."""
        self.post(lambda: self._detach(link_id))

    def serve_alone(self, link_id: str, count: int) -> None:
        """Serve a link that has siblings: what they have unread goes back first."""
        self.post(lambda: self._with_link(link_id, lambda link: self.settle.want_alone(link, count)))

    def take_back(self, link_id: str) -> None:
        """Take back what a link has unread, uncounted."""
        self.post(lambda: self._with_link(link_id, self.settle.return_unread))

    def record_attempt(self, delivery: Delivery, done: Completion) -> None:
        """Complete when it is durable that the application gets this message; never when it goes back before."""
        self.post(lambda: self.settle.record_attempt(delivery, done))

    def watch(self, link_id: str, ends: Mapping[int, int], done: Completion) -> None:
        """Complete when every partition was read up to its position and the link has got what it asked for."""
        self.post(lambda: self._with_link(link_id, lambda link: self.turn.watch(link, ends, done)))

    def _with_link(self, link_id: str, act: Callable[[Link], None]) -> None:
        link = self.data.links.get(link_id)
        if link is not None:
            act(link)

    def command(self, command: Command, reply: Reply) -> None:
        """Carry out what an administrator asks, if its partition is ours."""
        self.post(lambda: self.commands.carry_out(command, reply))

    def stop(self) -> None:
        """Leave the group in order; returns at once, `join` waits."""
        self._is_stopping = True
        self.data.mailbox.wake()

    def refuse(self, error: IllegalStateError) -> None:
        """End with this error for everybody who receives here."""
        self.post(lambda: self._give_up(error))

    def abandon(self) -> None:
        """It waits for Kafka no longer while it leaves: what is not recorded never will be."""
        self.data.is_abandoned = True

    def join(self, timeout_s: float) -> bool:
        """True when the owner thread has ended."""
        return self._worker is None or self._worker.wait_end(timeout_s)

    @property
    def is_running(self) -> bool:
        """False after the thread ended, for whatever cause; a new group worker is needed then."""
        return not self._is_stopping and (self._worker is None or self._worker.is_alive)

    @property
    def is_alive(self) -> bool:
        """The thread still carries out what is posted, also while it stops."""
        return self._worker is not None and self._worker.is_alive

    @property
    def failure(self) -> Exception | None:
        """Why it ended, unless it left in order."""
        return self.served.failure

    @property
    def has_joined(self) -> bool:
        """The group has assigned this process its partitions, if any."""
        return self.data.consumer is not None and self.data.consumer.joined()

    @property
    def is_settled(self) -> bool:
        """The first assignment is there and every assigned channel is open."""
        return self.data.is_settled

    @property
    def opened(self) -> int:
        """How many partitions it has opened so far."""
        return self.data.opened

    @property
    def is_passing_on(self) -> bool:
        """It gives partitions up, or did a moment ago."""
        given_up_ms = self.data.given_up_ms
        return given_up_ms is not None and self.data.clock.monotonic_ms() - given_up_ms < PASSING_ON_MS

    # -- the owner thread ----------------------------------------------------------------------------------------

    def _run(self) -> Steps:
        awaited = AwaitedPartitions(self.data, self.membership, self.assignment.client)
        try:
            while not self._is_stopping:
                yield from self._serve(self._new_client(), awaited)
        except SettingRefused as error:
            self._fail(InvalidSettingError(f"{self.data.group}: {error}", setting=error.setting, value=error.value))
        except UnknownTopic as error:
            self._fail(self._gone(error))
        except KafkaClientError as error:
            self._fail(as_jms_error(error, str(self.data.group), destination=str(self.data.group)))
        except Exception as error:  # a bug: nothing here can be trusted; links must not wait for ever
            log.exception(
                "group worker %s stopped; what was not checkpointed is delivered again", self.data.group.group_id
            )
            self._fail(JMSError(f"{self.data.group}: the sidecar failed: {error}", destination=str(self.data.group)))
        self.data.mailbox.end()
        self.assignment.end()
        self.turn.departures.lines.end(self.data.clock.monotonic_ms())
        self.data.counters.has_ended = True

    def _new_client(self) -> GroupConsumer:
        group, config = self.data.group, self.data.config
        self.data.consumer = self._parts.kafka.group_consumer(
            group=group.group_id, topic=group.topic, partitions=group.partitions, listener=self.assignment,
            session_timeout_ms=config.session_timeout_ms, rebalance_timeout_ms=config.rebalance_timeout_ms,
            memory_bytes=self.turn.flow.consumer_bytes, client_id=self._client_id,
        )  # fmt: skip
        self.data.mailbox.also_wake = self.data.consumer.wake
        return self.data.consumer

    def _serve(self, consumer: GroupConsumer, awaited: AwaitedPartitions) -> Steps:
        """With this client, to the worker's end, or until it is outdated."""
        client, work, is_unused = self.assignment.client, LongWork(self.data), False
        try:
            while not (self._is_ending() or client.is_outdated or is_unused):
                yield self._turn(consumer)
                if self.turn.has_looked:
                    is_unused = self._look_around(consumer, awaited, work)
                elif self.turn.has_served:
                    if self.served.being_made:
                        self.served.look()
                    is_unused = not self.data.links and self._is_unused()
            if client.is_outdated and not self._is_stopping:
                self.assignment.end_client()
                return
            if not self._is_stopping:  # unused: nobody would tell a receiver that comes back of a pause meanwhile
                self.turn.dispatch.keep_back()
            self._is_stopping = True
            yield from self.assignment.leave(consumer)
        except Exception:
            self.served.is_failing = True
            raise
        finally:
            with suppress(UnknownTopic):  # nothing is read any more
                consumer.close()
            self.turn.pump()
            self.data.notify_links()

    def _look_around(self, consumer: GroupConsumer, awaited: AwaitedPartitions, work: LongWork) -> bool:
        """Beside what the turn looks at then. True: nobody receives here any more."""
        self.served.look()
        awaited.look(consumer)
        work.look()
        return self._is_unused()

    def _is_ending(self) -> bool:
        return self._is_stopping or self.served.is_failing

    def _turn(self, consumer: GroupConsumer) -> Wait:
        try:
            return self.turn.once(consumer)
        except UnknownTopic:
            if self.data.group.is_temporary or not self._waits_for_topic():
                raise
            return Wait(MISSING_REST_S, self.data.mailbox.signal)

    def refuse_unmade(self) -> None:
        """Two looks found its topic gone; its client may never report it to waiting receivers."""
        error = self._gone_while_received()
        if self.data.links and not self.served.topic_gone(error):
            self._fail(error)

    def _waits_for_topic(self) -> bool:
        """Refuse receivers that are being made, for the topic is gone; True: others here wait until it is made again.

        Asks for a look at the topics, so that this is seen; group_workers.py says when the topic stays away.
        """
        self._parts.look_at_topics()
        return self.served.topic_gone(self._gone_while_received())

    def _nothing_recorded(self) -> None:
        """A checkpoint found the topic gone: what of it was not recorded never will be."""
        if self._waits_for_topic():
            self.assignment.read_anew(GONE)
        else:
            self._fail(self._gone_while_received())

    def _gone(self, error: UnknownTopic) -> JMSError:
        group = self.data.group
        if group.is_temporary:
            return as_jms_error(error, str(group), destination=str(group))
        return self._gone_while_received()

    def _gone_while_received(self) -> InvalidDestinationError:
        group = self.data.group
        return gone_while_received(group.destination, group.topic, about=str(group))

    def _fail(self, error: Exception) -> None:
        self.served.failure = error
        try:
            for channel in list(self.data.channels.values()):
                self.assignment.drop(channel, f"this process serves its queue or subscription no longer: {error}")
            self.turn.pump()
        except Exception:  # a bug, as may be what ends it: its links must not wait for ever
            log.exception("group worker %s: what was asked of it while it ended failed", self.data.group.group_id)
        self.served.fail(error)
        self._is_stopping = True  # last: a receiver that finds it ended, without an error, joins again

    def use_settings(self, settings: ResolvedSettings) -> None:
        """Go by these from now on, whatever was counted under others."""
        self.data.settings = settings
        for channel in self.data.channels.values():
            channel.use(settings)

    def _go_on(self) -> None:
        """Do all that goes on while a rebalance waits: everything but reading, for the partitions that stay."""
        self.data.turned_ms = self.data.clock.monotonic_ms()
        self.turn.pump()
        if self._is_ending() or self.data.consumer is None:
            self.turn.notify_checkpointer()
        else:
            self.turn.serve(self.data.consumer)

    def _submit(self, about: str, copies: Sequence[Outgoing], settling: Settling, done: Completion) -> None:
        self._parts.submit(
            Transfer(about=about, sends=copies, settlings=((self.checkpoint_part, settling),), done=done)
        )

    def _give_up(self, error: Exception) -> None:
        """Something beside the owner thread failed for good, or found the topic gone."""
        if isinstance(error, TopicGone):
            if self._waits_for_topic():
                return
            log.warning("%s; its receivers here get the error", error)
            error = self._gone_while_received()
        elif isinstance(error, KafkaClientError):
            error = as_jms_error(error, str(self.data.group), destination=str(self.data.group))
        elif not isinstance(error, IllegalStateError):
            error = JMSError(f"{self.data.group}: {error}", destination=str(self.data.group))
        self._fail(error)

    def _attach(self, link: Link, *, is_open: bool) -> None:
        self.served.attach(link, is_open=is_open)
        self.assignment.notify_closed(link)

    def _detach(self, link_id: str) -> None:
        link = self.data.links.get(link_id)
        if link is None:
            return
        self.settle.take_all()
        if any(each.settlement.dispositions for each in self.data.links_of(link.terms.session_id)):
            # They wait for the end of a commit, and may give back what came through this link.
            self.post(lambda: self._detach(link_id))
            return
        self.settle.return_unread(link)
        self.settle.revoke_leases(link)
        self.served.detach(link_id)
        if not any(self.data.links_of(link.terms.session_id)):
            # A commit whose outcome its session never learnt may have left messages in its hand.
            self.settle.return_all(link.terms.session_id)

    def _is_unused(self) -> bool:
        """Nobody receives here, and nobody is about to."""
        data = self.data
        now_ms, channels = data.clock.monotonic_ms(), data.channels.values()
        links = [link for link in data.links.values() if not link.terms.is_forwarded]
        if data.mailbox or self.membership.is_used(now_ms, links):
            return False
        return self.membership.is_over(
            now_ms,
            links,
            is_holding=any(not channel.holds_nothing for channel in channels),
            is_owing=any(channel.needs_checkpoint for channel in channels),
            shares=data.is_settled and len(channels) < data.group.partitions,
        )


def transfer_of(work: UnitOfWork) -> Transfer:
    """A session's transaction as the checkpointer takes it."""
    settlings: list[tuple[Participant, Settling]] = []
    branch = "" if work.branch is None else work.branch.branch
    keeps_later = work.branch is not None and bool(work.branch.decider)
    for received in work.received:
        group_worker, lease = received.link.group_worker, received.lease
        assert isinstance(group_worker, GroupWorker), group_worker
        settling = Settling(owned(lease), lease.session_id, received.offsets, branch=branch, keeps_later=keeps_later)
        settlings.append((group_worker.checkpoint_part, settling))
    return Transfer(
        about=work.about, sends=work.sends, settlings=settlings, done=work.done, expires_at_ms=work.expires_at_ms
    )
