"""The private subscriptions of this process, and what the registry says for them to be kept (decision 81)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

from jbm_kafka.codec.reader_record import PRIVATE_KIND, RegisteredReader
from jbm_kafka.core.jms_errors import IllegalStateError
from jbm_kafka.core.settings.address_settings import ResolvedSettings
from jbm_kafka.core.subscription import Subscription
from jbm_kafka.ports import Clock, Kafka, KafkaAdmin, KafkaClientError
from jbm_kafka.ports.client_errors import raised_as_jms_errors
from jbm_kafka.ports.installation import SidecarConfig
from jbm_kafka.ports.patience import Patience
from jbm_kafka.ports.provider import TopicInfo
from jbm_kafka.ports.steps import Steps, StepWorker, Wait, Workers
from jbm_kafka.ports.wake_up import WakeUp
from jbm_kafka.registry.channel_group import ChannelGroup
from jbm_kafka.registry.readers import renew_reader, renew_readers
from jbm_kafka.registry.registry_log import RegistryLog
from jbm_kafka.sidecar.feeds.catch_up import CatchUp
from jbm_kafka.sidecar.feeds.fed_channels import FedChannels
from jbm_kafka.sidecar.feeds.shared_thread import SharedThread
from jbm_kafka.sidecar.lane.group_worker import GroupWorkerParts
from jbm_kafka.sidecar.private.topic_reader import TopicReader

log = logging.getLogger(__name__)

FOR_EVER_MS = 2**53
LOOK_S = 0.5
LINGER_MS = 1_000
"""How long a topic is read that has no private subscription any more: the next one may come soon."""
KEPT_BYTES_MAX = 4 * 2**20
KEPT_BYTES_MIN = 2**18
STOP_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class PrivateParts:
    """The parts of the process that private subscriptions use."""

    kafka: Kafka
    admin: KafkaAdmin
    registry: RegistryLog
    workers: Workers
    clock: Clock
    config: SidecarConfig
    thread: SharedThread
    catch_up: CatchUp
    chance: Callable[[], float]
    known: Callable[[str], TopicInfo | None]
    """Gives what the last look found of a destination's topic."""
    settings_of: Callable[[str], ResolvedSettings]
    truncates: Callable[[str, str], bool]
    """Tells if what is settled of a destination with that topic is deleted; from now on it is."""


@dataclass(frozen=True, slots=True)
class _Begun:
    group: ChannelGroup
    channels: FedChannels


class PrivateSubscriptions:
    """Any thread may call it."""

    def __init__(self, given: PrivateParts) -> None:
        self._given = given
        config = given.config
        self._lease_ms = 3 * max(config.session_timeout_ms, config.truncate_look_ms)
        self._process = f"{int(given.chance() * 2**52):013x}"
        self._making = threading.RLock()
        """Held while a topic's reader is made, and asks Kafka; before the other one."""
        self._lock = threading.RLock()
        self._readers: dict[str, TopicReader] = {}
        """The readers by the destination's name."""
        self._unused_since_ms: dict[str, int] = {}
        self._recorded: dict[str, RegisteredReader] = {}
        """The registry's record of each reader, by the destination's name."""
        self._begun: dict[str, _Begun] = {}
        """The subscriptions that have a consumer, by group id."""
        self._wake = WakeUp()
        self._is_stopping = False
        self._renewing: StepWorker | None = None

    # -- beginning and ending ----------------------------------------------------------------------------------------

    def subscribe(self, subscription: Subscription, info: TopicInfo) -> None:
        """It begins now, where the log ends.

        Raises:
            JMSError: the cluster cannot be asked.
        """
        namespace = self._given.config.namespace
        group = ChannelGroup.of_private(subscription, namespace=namespace, partitions=info.partitions)
        with raised_as_jms_errors(str(subscription)):
            reader, begun = self._begin(subscription, group, info)
            try:
                begins = self._given.admin.end_positions(info.topic, list(range(info.partitions)), stable=True)
            except BaseException:
                self.end_use(subscription)
                raise
            if reader.topic_id == info.topic_id:  # else it was made anew just now, and is read from its beginning
                begun.channels.feed.begin(begins)
        self._given.truncates(subscription.topic.name, info.topic_id)

    def _begin(self, subscription: Subscription, group: ChannelGroup, info: TopicInfo) -> tuple[TopicReader, _Begun]:
        name = subscription.topic.name
        with self._lock:
            reader = self._readers.get(name)
            if reader is not None:
                reader.look()
                return reader, self._feed(reader, group, name)
        with self._making:
            with self._lock:
                reader = self._readers.get(name)
            made = reader is None
            if reader is None:
                reader = self._made(subscription, info)
            with self._lock:
                if made:
                    self._readers[name] = reader
                begun = self._feed(reader, group, name)
                self._renew_from_now_on()
        if made:
            reader.start()
        return reader, begun

    def _made(self, subscription: Subscription, info: TopicInfo) -> TopicReader:
        topic = subscription.topic
        made = TopicReader(
            topic,
            info,
            kafka=self._given.kafka,
            admin=self._given.admin,
            workers=self._given.workers,
            known=lambda: self._given.known(topic.name),
            catch_up=self._given.catch_up.read,
        )
        row = self._row(made, made.positions)
        renew_reader(self._given.registry, row)
        with self._lock:
            self._recorded[topic.name] = row
        return made

    def _feed(self, reader: TopicReader, group: ChannelGroup, name: str) -> _Begun:
        feed = reader.feed(self._room_bytes)
        feed.wake = self._given.thread.wake
        channels = FedChannels(
            reader,
            feed,
            kafka=self._given.kafka,
            clock=self._given.clock,
            config=self._given.config,
            settings=lambda: self._given.settings_of(name),
        )
        begun = self._begun[group.group_id] = _Begun(group, channels)
        self._unused_since_ms.pop(name, None)
        return begun

    def _room_bytes(self) -> int:
        """Return what each may keep: all together an eighth of the memory budget, as far as they keep different
        records."""
        share = self._given.config.memory_budget_bytes // 8 // max(len(self._begun), 1)
        return max(KEPT_BYTES_MIN, min(KEPT_BYTES_MAX, share))

    def end_use(self, subscription: Subscription) -> None:
        """It has ended."""
        with self._lock:
            begun = self._begun.pop(subscription.group_id(self._given.config.namespace), None)
            if begun is None:
                return
            begun.channels.feed.end()
            reader = self._readers.get(subscription.topic.name)
            if reader is not None and not reader.feeds:
                self._unused_since_ms[subscription.topic.name] = self._given.clock.monotonic_ms()

    def stop(self, patience: Patience) -> None:
        """Read no more, and keep nothing from being deleted."""
        with self._lock:
            self._is_stopping = True
            readers, self._readers = list(self._readers.values()), {}
            ended, self._recorded = list(self._recorded.values()), {}
        self._wake.set()
        for reader in readers:
            reader.stop(patience)
        if self._renewing is not None:
            patience.wait(self._renewing.wait_end, STOP_TIMEOUT_S)
        if ended:
            patience.run(lambda: self._forget(ended), STOP_TIMEOUT_S)

    # -- receiving ---------------------------------------------------------------------------------------------------

    def group_of(self, subscription: Subscription) -> ChannelGroup:
        """Its channel group."""
        return self._of(subscription).group

    def parts_of(self, subscription: Subscription, parts: GroupWorkerParts) -> GroupWorkerParts:
        """Return what its group worker is given: it stays for as long as the subscription, for it alone knows the
        state."""
        channels = self._of(subscription).channels
        config = replace(parts.config, membership_idle_ms=FOR_EVER_MS, linger_ms=FOR_EVER_MS)
        return replace(parts, kafka=channels, opener=channels, config=config, thread=self._given.thread)

    def serve(self, subscription: Subscription, wake: Callable[[], None]) -> None:
        """`wake` its group worker when there is something."""
        self._of(subscription).channels.feed.notify = wake

    def _of(self, subscription: Subscription) -> _Begun:
        begun = self._begun.get(subscription.group_id(self._given.config.namespace))
        if begun is None:
            raise IllegalStateError(f"{subscription} has ended", name=subscription.name)
        return begun

    # -- what must not be deleted ------------------------------------------------------------------------------------

    def _renew_from_now_on(self) -> None:
        if self._renewing is None and not self._is_stopping:
            self._renewing = self._given.workers.start("jbm-private-readers", self._renewals())

    def _renewals(self) -> Steps:
        while True:
            yield Wait(LOOK_S, self._wake)
            self._wake.clear()
            if self._is_stopping:
                return
            self._end_unused()
            try:
                self._renew()
            except KafkaClientError as error:
                log.info("how far this process's private subscriptions are is recorded another time: %s", error)
            with self._lock:
                if not self._readers and not self._is_stopping:
                    self._renewing = None
                    return

    def _end_unused(self) -> None:
        now_ms, ended = self._given.clock.monotonic_ms(), []
        with self._making:  # else what the next reader of the topic records would be forgotten
            with self._lock:
                for name, since_ms in list(self._unused_since_ms.items()):
                    if now_ms - since_ms >= LINGER_MS and name in self._readers:
                        del self._unused_since_ms[name]
                        self._readers.pop(name).stop()
                        ended.append(self._recorded.pop(name))
            if ended:
                self._forget(ended)

    def _forget(self, ended: list[RegisteredReader]) -> None:
        try:
            renew_readers(self._given.registry, [], ended)
        except KafkaClientError as error:
            log.info("that private subscriptions have ended is not recorded, and counts with their lease: %s", error)

    def _renew(self) -> None:
        wanted: dict[str, RegisteredReader] = {}
        with self._lock:
            for name, reader in self._readers.items():
                with reader.lock:
                    row = self._row(reader, self._needed(reader))
                if self._is_due(row, self._recorded[name]):
                    wanted[name] = row
        if wanted:
            renew_readers(self._given.registry, list(wanted.values()), [])
            with self._lock:
                self._recorded.update({name: row for name, row in wanted.items() if name in self._readers})

    def _needed(self, reader: TopicReader) -> dict[int, int]:
        needed = dict(reader.positions)
        for begun in self._begun.values():
            if begun.channels.reader is reader:
                for partition, position in begun.channels.needed().items():
                    needed[partition] = min(needed[partition], position)
        return needed

    def _row(self, reader: TopicReader, positions: dict[int, int]) -> RegisteredReader:
        now_ms = self._given.clock.now_ms()
        name = f"{self._process}.{reader.topic}"
        until_ms = now_ms + self._lease_ms
        return RegisteredReader(PRIVATE_KIND, name, reader.topic, reader.topic_id, dict(positions), now_ms, until_ms)

    def _is_due(self, row: RegisteredReader, recorded: RegisteredReader) -> bool:
        passed_ms = row.at_ms - recorded.at_ms
        if row.topic_id != recorded.topic_id or passed_ms >= self._lease_ms // 3 or passed_ms < 0:
            return True
        return row.positions != recorded.positions and passed_ms >= self._given.config.truncate_look_ms
