"""The temporary destinations of this process, and whether those of others can be sent to (decision 33)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from jbm_kafka.codec.one_header import last_value
from jbm_kafka.core.destination import Destination, TemporaryQueue, TemporaryTopic, with_namespace
from jbm_kafka.core.jms_errors import IllegalStateError, InvalidDestinationError
from jbm_kafka.core.settings.address_settings import ResolvedSettings
from jbm_kafka.core.subscription import Source, Subscription, destination_of
from jbm_kafka.core.temporary_name import TEMPORARY_HEADER, TemporaryName, parse_temporary_name
from jbm_kafka.ports import Clock, Kafka, KafkaAdmin, KafkaClientError
from jbm_kafka.ports.client_errors import raised_as_jms_errors
from jbm_kafka.ports.installation import SidecarConfig
from jbm_kafka.ports.patience import Patience
from jbm_kafka.ports.provider import TopicInfo
from jbm_kafka.ports.steps import Workers
from jbm_kafka.registry.channel_group import ChannelGroup
from jbm_kafka.registry.process_liveness import HOLDER_PREFIX, ProcessLiveness
from jbm_kafka.registry.topics import Topics
from jbm_kafka.sidecar.feeds.catch_up import CatchUp
from jbm_kafka.sidecar.feeds.fed_channels import FedChannels
from jbm_kafka.sidecar.feeds.log_feed import LogFeed
from jbm_kafka.sidecar.feeds.shared_thread import SharedThread
from jbm_kafka.sidecar.lane.group_worker import GroupWorkerParts
from jbm_kafka.sidecar.temporary.temporary_log import TakeRecord, TemporaryLog, Unread

log = logging.getLogger(__name__)

Temporary = TypeVar("Temporary", TemporaryQueue, TemporaryTopic)
FOR_EVER_MS = 2**53
KEPT_BYTES_MAX = 4 * 2**20
LOOK_MS = 2_000
"""How long a process that lives is taken to live on: a server of many requests must not ask for each."""
LOOKED_AT_MAX = 10_000


@dataclass(frozen=True, slots=True)
class TemporariesParts:
    """The parts of the process that temporary destinations use."""

    kafka: Kafka
    admin: KafkaAdmin
    topics: Topics
    holder: ProcessLiveness
    workers: Workers
    clock: Clock
    config: SidecarConfig
    chance: Callable[[], float]
    thread: SharedThread
    catch_up: CatchUp
    settings_of: Callable[[str], ResolvedSettings]


@dataclass(slots=True, eq=False)
class _Subscribed:
    """A subscription of a temporary topic that has receivers."""

    subscription: Subscription
    begun: str
    """Another one for each; what is left of one that ended serves nobody."""
    receivers: int = 0


class Temporaries:
    """The temporary destinations of this process. Any thread may call it."""

    def __init__(self, parts: TemporariesParts) -> None:
        self._parts = parts
        self._lock = threading.Lock()
        self._log: TemporaryLog | None = None
        self._destinations: dict[str, Destination] = {}
        """This process's, by name."""
        self._unread: dict[str, tuple[str, Unread]] = {}
        """Where what nobody took yet begins, by group, with the destination's name."""
        self._channels: dict[str, FedChannels] = {}
        """The channels that are or were received from, by group."""
        self._subscribing = threading.Lock()
        """Not the other lock: a holder of the log's may wait for that, and the log's is needed here."""
        self._subscriptions: dict[str, _Subscribed] = {}
        """The subscriptions that have receivers, by group."""
        self._begun = 0
        """How many subscriptions there were."""
        self._alive_at_ms: dict[str, int] = {}
        """When a process was last seen to live, monotonic."""

    # -- making and ending -----------------------------------------------------------------------------------------

    def create(self, kind: type[Temporary], connection_id: str, number: int) -> Temporary:
        """A new one of this connection. The first of a process joins its holder's group, the others cost nothing.

        Raises:
            JMSError: the cluster does not allow it, or does not answer.
        """
        reader = self._reader()
        process = self._parts.holder.name.rpartition(".")[2]
        made = kind(str(TemporaryName(process, connection_id, number, reader.partition)))
        self._destinations[made.name] = made
        if isinstance(made, TemporaryQueue):
            self._note_unread(reader, made)
        return made

    def delete(self, destination: Destination) -> None:
        """Drop what it holds. Its receivers are gone before."""
        self._destinations.pop(destination.name, None)
        reader = self._log
        if reader is not None:
            reader.call(destination.name, None)
        for group_id, (name, _) in list(self._unread.items()):
            if name == destination.name:
                self._forget(group_id)

    def call(self, destination: Destination, handler: TakeRecord) -> None:
        """Call it with what comes for the destination, on the reader's thread."""
        self._reader().call(destination.name, handler)

    def subscribe(self, subscription: Subscription) -> None:
        """A subscription of a temporary topic begins now, or has one receiver more.

        Now is where the log ends, for the process's reader may be a little behind.

        Raises:
            IllegalStateError: its name is in use, for another topic or with another selector.
        """
        reader = self._reader()
        with raised_as_jms_errors(str(subscription)):
            ends = self._parts.admin.end_positions(reader.topic, [reader.partition], stable=True)
        group_id = subscription.group_id(self._parts.config.namespace)
        with self._subscribing:
            for each in self._subscriptions.values():
                _check_is_no_other(each.subscription, subscription)
            found = self._subscriptions.get(group_id)
            if found is None:
                self._begun += 1
                found = self._subscriptions[group_id] = _Subscribed(subscription, str(self._begun))
            found.receivers += 1
            self._note_unread(reader, subscription, first=ends[reader.partition])

    def end_use(self, subscription: Subscription) -> None:
        """A subscription has one receiver less; the last one ends it."""
        group_id = subscription.group_id(self._parts.config.namespace)
        with self._subscribing:
            found = self._subscriptions[group_id]
            found.receivers -= 1
            if not found.receivers:
                del self._subscriptions[group_id]
                self._forget(group_id)

    def stop(self, patience: Patience) -> None:
        """Read no more."""
        if self._log is not None:
            self._log.stop(patience)

    # -- sending ---------------------------------------------------------------------------------------------------

    def ensure(self, destination: Destination) -> TopicInfo:
        """The Kafka topic to send to, if there is somebody to receive it, as far as that is known.

        Raises:
            InvalidDestinationError: it was deleted, its connection or process is gone, or the name is not ours.
        """
        name = parse_temporary_name(destination.name)
        if name is None:
            raise InvalidDestinationError(
                f"{destination}: nothing of jbm-kafka gave this name to a temporary destination; send to the reply_to "
                f"of a message as it is",
                destination=destination.name,
            )
        if not self._is_there(destination, name):
            raise InvalidDestinationError(
                f"{destination}: it was deleted, or its connection or process has ended (or is in another namespace): "
                f"nobody waits for this message, so it was not sent",
                destination=destination.name,
            )
        info = self._parts.topics.temporary()
        if name.partition >= info.partitions:
            raise InvalidDestinationError(
                f"{destination}: {info.topic} has no partition {name.partition}; it was made with fewer than now, or "
                f"the name is of another cluster",
                destination=destination.name,
            )
        return info

    def _is_there(self, destination: Destination, name: TemporaryName) -> bool:
        holder = with_namespace(HOLDER_PREFIX + name.process, self._parts.config.namespace)
        if holder == self._parts.holder.name:
            return self._destinations.get(destination.name) == destination
        now_ms = self._parts.clock.monotonic_ms()
        seen_ms = self._alive_at_ms.get(holder)
        if seen_ms is not None and now_ms - seen_ms < LOOK_MS:
            return True
        try:
            if not self._parts.admin.group_members(holder):
                self._alive_at_ms.pop(holder, None)
                return False
        except KafkaClientError as error:  # not allowed, or no answer: the send itself tells more
            log.debug("group %s: whether it has a member is not known: %s", holder, error)
        if len(self._alive_at_ms) >= LOOKED_AT_MAX:
            self._alive_at_ms.clear()
        self._alive_at_ms[holder] = now_ms
        return True

    # -- receiving -------------------------------------------------------------------------------------------------

    def group_of(self, source: Source) -> ChannelGroup:
        """The channel group of a queue or subscription of this process.

        Raises:
            InvalidDestinationError: it was deleted.
        """
        destination = destination_of(source)
        if self._destinations.get(destination.name) != destination:
            raise InvalidDestinationError(f"{destination}: it was deleted", destination=destination.name)
        namespace = self._parts.config.namespace
        found = self._subscriptions.get(source.group_id(namespace))
        return ChannelGroup.of_temporary(source, namespace=namespace, begun="" if found is None else found.begun)

    def parts_of(self, group: ChannelGroup, parts: GroupWorkerParts) -> GroupWorkerParts:
        """Return the parts for the group worker of a temporary destination, which keeps its state in memory alone.

        That worker does not go for being idle, for the state would go with it.
        """
        channels = self._channels.get(group.group_id)
        if channels is None:
            settings = self._parts.settings_of(group.destination.name)
            channels = self._channels[group.group_id] = FedChannels(
                self._reader(),
                self._feed(group),
                kafka=self._parts.kafka,
                clock=self._parts.clock,
                config=self._parts.config,
                settings=lambda: settings,
            )
        config = replace(parts.config, membership_idle_ms=FOR_EVER_MS, linger_ms=FOR_EVER_MS)
        return replace(parts, kafka=channels, opener=channels, config=config, thread=self._parts.thread)

    def serve(self, source: Source, wake: Callable[[], None]) -> None:
        """`wake` its group worker when there is something."""
        self._channels[source.group_id(self._parts.config.namespace)].feed.notify = wake

    def _feed(self, group: ChannelGroup) -> LogFeed:
        """It begins where its unread messages do, which from now on are somebody's business."""
        reader, (name, unread) = self._reader(), self._unread[group.group_id]
        encoded = name.encode()
        with reader.lock:
            reader.remove(unread)
            feed = LogFeed(
                reader,
                lambda: KEPT_BYTES_MAX,
                has=lambda record: last_value(record.headers(), TEMPORARY_HEADER) == encoded,
            )
            begin = max(reader.positions[reader.partition], unread.first) if unread.begin is None else unread.begin
            feed.begin({reader.partition: begin})
            feed.wake = self._parts.thread.wake
            reader.add(name, feed)
        return feed

    def _note_unread(self, reader: TemporaryLog, source: Source, first: int = 0) -> None:
        group_id, name = source.group_id(self._parts.config.namespace), destination_of(source).name
        if group_id not in self._unread:
            unread = Unread(first)
            self._unread[group_id] = name, unread
            reader.add(name, unread)

    def _forget(self, group_id: str) -> None:
        channels = self._channels.pop(group_id, None)
        if channels is not None:
            channels.feed.end()
        _, unread = self._unread.pop(group_id, (None, None))
        if unread is not None and self._log is not None:
            self._log.remove(unread)

    def _reader(self) -> TemporaryLog:
        with self._lock, raised_as_jms_errors("a temporary destination"):
            if self._log is None:
                info = self._parts.topics.temporary(create=True)
                self._parts.holder.ensure()
                partition = int(self._parts.chance() * info.partitions)
                reader = TemporaryLog(
                    kafka=self._parts.kafka,
                    admin=self._parts.admin,
                    workers=self._parts.workers,
                    topic=info.topic,
                    partition=partition,
                    catch_up=self._parts.catch_up.read,
                )
                reader.begin()
                self._log = reader
            return self._log


def _check_is_no_other(used: Subscription, wanted: Subscription) -> None:
    """Raises IllegalStateError when one of the name is in use that is not the wanted one (TOPIC-3)."""
    is_of_the_name = (used.kind, used.client_id, used.name) == (wanted.kind, wanted.client_id, wanted.name)
    if is_of_the_name and used.choice != wanted.choice:
        raise IllegalStateError(
            f"{wanted}: the subscription of this name is in use, and it is one of {used.choice_text}, "
            f"this one is of {wanted.choice_text}; close its consumers before it is changed, or choose another name",
            name=wanted.name,
        )
