"""A lane: one channel group's owner thread. It alone touches the group's Kafka consumer and its channels.

Everybody else enqueues: sessions through their links, the checkpointer through `post`. The thread looks at its queues
every few milliseconds while anybody is active; how it waits meanwhile: fetching.py.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from jbm_kafka.core.address_settings import ResolvedSettings
from jbm_kafka.core.departure import Departure
from jbm_kafka.core.destination import Destination
from jbm_kafka.core.entries import MessageEvent
from jbm_kafka.core.errors import JMSError
from jbm_kafka.core.reference import LEAVING
from jbm_kafka.ports import GroupConsumer, Kafka, KafkaTrouble
from jbm_kafka.sidecar.assignment import Assignment
from jbm_kafka.sidecar.catch_up import CatchUp
from jbm_kafka.sidecar.checkpoint_part import CheckpointPart
from jbm_kafka.sidecar.completion import Completion
from jbm_kafka.sidecar.config import SidecarConfig
from jbm_kafka.sidecar.copies import copy_of
from jbm_kafka.sidecar.dispatch import Dispatch
from jbm_kafka.sidecar.fetching import Fetching
from jbm_kafka.sidecar.flow import Flow
from jbm_kafka.sidecar.link import Link
from jbm_kafka.sidecar.membership import Membership
from jbm_kafka.sidecar.owned_channel import OwnedChannel
from jbm_kafka.sidecar.recovery import ChannelOpener
from jbm_kafka.sidecar.settle import Settle
from jbm_kafka.sidecar.steady_clock import SteadyClock
from jbm_kafka.sidecar.steps import GO_ON, Steps, Wait, Worker, Workers
from jbm_kafka.sidecar.topics import TopicInfo
from jbm_kafka.sidecar.transfer import Settling, Transfer

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LaneParts:
    """What a lane is given."""

    kafka: Kafka
    clock: SteadyClock
    config: SidecarConfig
    settings_of: Callable[[str], ResolvedSettings]
    opener: ChannelOpener
    workers: Workers
    flow: Callable[[], Flow]
    chance: Callable[[], float]
    note_dirty: Callable[[Lane, bool], None]
    """Tells the checkpointer that there is work, and whether somebody waits for it."""
    submit: Callable[[Transfer], None]
    """Gives the checkpointer a transfer."""
    target_of: Callable[[str], TopicInfo | None]
    """The topic of a dead-letter or expiry address; None while it is not known."""


class Lane:
    """The channels of one group that this process owns, and the links that drink from them."""

    def __init__(self, *, destination: Destination, group: str, partitions: int, parts: LaneParts) -> None:
        self.destination = destination
        self.group = group
        self.topic = destination.kafka_topic(parts.config.namespace)
        self.partitions = partitions
        self.parts = parts
        self.channels: dict[int, OwnedChannel] = {}
        self.links: dict[str, Link] = {}
        self.membership = Membership(parts.config)
        self.assignment = Assignment(self)
        self.settle = Settle(self)
        self.dispatch = Dispatch(self)
        self.checkpoint_part = CheckpointPart(self)
        self.catch_up = CatchUp(self)
        self.fetching = Fetching(self)
        self.flow = parts.flow()
        self.failure: Exception | None = None
        self.consumer: GroupConsumer | None = None
        self._inbox: deque[Callable[[], None]] = deque()
        self._wake = threading.Event()
        """Set after every change that may be work for a thread that does not wait in the consumer."""
        self._is_stopping = False
        self._worker: Worker | None = None

    # -- any thread ----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Join the group."""
        self._worker = self.parts.workers.start(f"jbm-lane-{self.group}", self._run())

    def post(self, command: Callable[[], None]) -> None:
        """Run a command on the owner thread soon, also while it drains inside a rebalance."""
        self._inbox.append(command)
        self._wake.set()

    def wake(self) -> None:
        """A link wants messages."""
        self._wake.set()

    def attach(self, link: Link) -> None:
        """Serve one more link."""
        self.post(lambda: self._attach(link))

    def detach(self, link: Link) -> None:
        """Serve it no longer. What its buffer still holds goes back uncounted."""
        self.post(lambda: self._detach(link))

    def stop(self) -> None:
        """Leave the group in order; returns at once, `join` waits."""
        self._is_stopping = True
        self._wake.set()

    def join(self, timeout_s: float) -> bool:
        """True when the owner thread has ended."""
        return self._worker is None or self._worker.wait_end(timeout_s)

    @property
    def is_running(self) -> bool:
        """False after the thread ended, for whatever cause; a new lane is needed then."""
        return not self._is_stopping and (self._worker is None or self._worker.is_alive)

    @property
    def is_alive(self) -> bool:
        """The thread still carries out what is posted, also while it stops."""
        return self._worker is not None and self._worker.is_alive

    @property
    def is_settled(self) -> bool:
        """The first assignment is there and every assigned channel is open."""
        return self.consumer is not None and self.consumer.joined() and not self.assignment.opening

    # -- the owner thread ----------------------------------------------------------------------------------------

    def _run(self) -> Steps:
        try:
            self.consumer = self.parts.kafka.group_consumer(
                group=self.group, topic=self.topic, partitions=self.partitions, listener=self.assignment,
                session_timeout_ms=self.parts.config.session_timeout_ms, memory_bytes=self.flow.consumer_bytes,
            )  # fmt: skip
            try:
                while not self._is_stopping and not self._is_unused():
                    yield self._turn(self.consumer)
                self._is_stopping = True
                self.assignment.leave(self.consumer)
            finally:
                self._is_stopping = True
                self.consumer.close()
                self.pump()
                self.links_changed()
        except KafkaTrouble as error:
            self._fail(JMSError(f"{self.destination}: {error}", destination=str(self.destination)))
        except Exception as error:  # a bug: nothing here can be trusted; links must not wait for ever
            log.exception("lane %s stopped; what was not checkpointed is delivered again", self.group)
            self._fail(JMSError(f"{self.destination}: the sidecar failed: {error}", destination=str(self.destination)))
        self.assignment.end()

    def _fail(self, error: Exception) -> None:
        self._is_stopping = True
        self.failure = error
        for channel in list(self.channels.values()):
            self.assignment.drop(channel)
        self.pump()
        for link in list(self.links.values()):
            link.fail(error)

    def _turn(self, consumer: GroupConsumer) -> Wait:
        """Once around: fetch, settle, hand over, keep within memory, ask for a checkpoint. Returns how to go on."""
        self._wake.clear()
        self.pump()  # first, so that what is read takes the memory of what is settled, still in the processor's cache
        ahead = self.fetching.ahead()
        has_fetched = self.fetching.fetch(consumer, ahead=ahead)
        self.pump()
        self.pass_time()
        self.dispatch.grant()
        self.flow.keep_within_memory(self, consumer)
        self.tell_checkpointer()
        self.dispatch.deliver()
        self.catch_up.tell_watchers()
        # Asleep in the consumer it would hear nobody, and a fast receiver asks every few milliseconds.
        is_satisfied = self.dispatch.has_delivered and not self.dispatch.wanted()
        return Wait(self.fetching.rest_s(), self._wake) if is_satisfied or (ahead and not has_fetched) else GO_ON

    def pump(self) -> None:
        """Carry out what others enqueued: commands, acknowledgements, verdicts."""
        inbox = self._inbox
        for _ in range(len(inbox)):
            inbox.popleft()()
        self.settle.take_all()

    def pass_time(self) -> None:
        """Let delays end, and take back what idle receivers leave unread."""
        now_ms, set_back_ms = self.parts.clock.now_ms(), self.parts.clock.set_back_ms
        for channel in self.channels.values():
            channel.pass_time(now_ms, set_back_ms)
        self.settle.retry_copies(now_ms)
        self.dispatch.take_back_unread()

    def tell_checkpointer(self) -> None:
        """Ask for a checkpoint when anything is not in the changelog yet."""
        if any(channel.needs_checkpoint for channel in self.channels.values()):
            awaited = any(channel.is_awaited for channel in self.channels.values())
            self.parts.note_dirty(self, awaited)

    def copy_away(
        self,
        channel: OwnedChannel,
        leaving: Departure,
        event: MessageEvent,
        done: Completion,
        *,
        trusts_compression: bool,
    ) -> None:
        """Send a message's copy to the event's target and settle it, in one transfer."""
        address = event.target
        assert address is not None, event
        target = self.parts.target_of(address)
        if target is None:
            done.complete(JMSError(f"the address {address!r} is no queue that can be written to now"))
            return
        copy, has_body = copy_of(
            leaving,
            source=self.destination,
            target=target,
            now_ms=self.parts.clock.now_ms(),
            trusts_compression=trusts_compression,
        )
        if not has_body:
            log.warning(
                "%s offset %d: too large for %s, its copy goes without the body; the original stays in the log",
                channel.name,
                leaving.reference.offset,
                address,
            )
        settling = Settling(channel=channel, session=LEAVING, offsets=(leaving.reference.offset,), events=(event,))
        self.parts.submit(
            Transfer(
                about=f"{channel.topic}[{channel.partition}] offset {leaving.reference.offset} to {address}",
                sends=(copy,),
                settlings=((self, settling),),
                done=done,
            )
        )

    def watch(self, ends: Mapping[int, int], done: Completion) -> None:
        """Complete when every partition is open, read up to these positions, and what was found is handed over."""
        self.post(lambda: self.catch_up.watch(ends, done))

    def links_changed(self) -> None:
        """Wake receivers that wait for the lane to be ready."""
        for link in self.links.values():
            with link.lock:
                link.filled.notify_all()

    def give_up(self, error: Exception) -> None:
        """Something beside the owner thread failed for good."""
        self._fail(JMSError(f"{self.destination}: {error}", destination=str(self.destination)))

    def _attach(self, link: Link) -> None:
        self.links[link.link_id] = link
        self.assignment.tell_closed(link)
        if self.failure is not None:
            link.fail(self.failure)

    def _detach(self, link: Link) -> None:
        self.settle.take_all()
        if link.verdicts:  # they wait for the end of a commit
            self.post(lambda: self._detach(link))
            return
        self.settle.return_unread(link)
        self.links.pop(link.link_id, None)
        if not any(other.session_id == link.session_id for other in self.links.values()):
            # A commit whose outcome its session never learnt may have left messages in its hand.
            self.settle.return_all(link.session_id)

    def _is_unused(self) -> bool:
        """Nobody receives here, and nobody is about to."""
        now_ms, links, channels = self.parts.clock.monotonic_ms(), self.links.values(), self.channels.values()
        if self._inbox or self.membership.is_used(now_ms, links):
            return False
        return self.membership.is_over(
            now_ms,
            links,
            is_holding=any(not channel.holds_nothing for channel in channels),
            is_owing=any(channel.needs_checkpoint for channel in channels),
            shares=self.is_settled and len(channels) < self.partitions,
        )
