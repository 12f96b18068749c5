"""The sidecar of one process for one cluster, namespace and state folder: group workers, checkpointer, stores.

Connections share it, counted; the last one closes it.
"""

from __future__ import annotations

import logging
import os
import random
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

from jbm_kafka.core.address_settings import ResolvedSettings
from jbm_kafka.core.destination import Destination, Queue, TemporaryQueue, TemporaryTopic, with_namespace
from jbm_kafka.core.jms_errors import IllegalStateError, JMSError
from jbm_kafka.core.subscription import Source, Subscription, destination_of
from jbm_kafka.core.temporary_name import settings_name
from jbm_kafka.ports import Clock, Kafka, KafkaClientError
from jbm_kafka.ports.client_errors import as_jms_error
from jbm_kafka.ports.installation import SidecarConfig
from jbm_kafka.ports.link import Link
from jbm_kafka.ports.patience import Patience
from jbm_kafka.ports.provider import TopicInfo
from jbm_kafka.sidecar.channel_group import ChannelGroup
from jbm_kafka.sidecar.channel_opener import ChannelOpener
from jbm_kafka.sidecar.checkpoint_parts import Transfer
from jbm_kafka.sidecar.checkpointer import Checkpointer
from jbm_kafka.sidecar.client_ids import ClientIds
from jbm_kafka.sidecar.collector import give_messages_time_to_die
from jbm_kafka.sidecar.command_watch import CommandWatch
from jbm_kafka.sidecar.flow import Flow
from jbm_kafka.sidecar.group_worker import GroupWorker, GroupWorkerParts
from jbm_kafka.sidecar.group_workers import GroupWorkers
from jbm_kafka.sidecar.holder import Holder
from jbm_kafka.sidecar.idleness import wait_idle
from jbm_kafka.sidecar.leaving import STOP_TIMEOUT_S, Leaving, is_answered
from jbm_kafka.sidecar.live_settings import LiveSettings
from jbm_kafka.sidecar.pauses import Pausing
from jbm_kafka.sidecar.producer_pool import ProducerPool
from jbm_kafka.sidecar.registry import Registry
from jbm_kafka.sidecar.selector_sets import SelectorSetParts, SelectorSets
from jbm_kafka.sidecar.slewed_clock import SlewedClock
from jbm_kafka.sidecar.steps import ThreadWorkers, Workers
from jbm_kafka.sidecar.stores import Stores
from jbm_kafka.sidecar.subscription_remains import Remains
from jbm_kafka.sidecar.subscriptions import SubscriptionParts, Subscriptions
from jbm_kafka.sidecar.targets import Targets
from jbm_kafka.sidecar.temporaries import Temporaries, TemporariesParts
from jbm_kafka.sidecar.topic_watch import TopicWatch
from jbm_kafka.sidecar.topics import Topics
from jbm_kafka.sidecar.transaction import TransactionWriter

log = logging.getLogger(__name__)

Temporary = TypeVar("Temporary", TemporaryQueue, TemporaryTopic)
SHIPPED_QUEUES = (Queue("DLQ"), Queue("ExpiryQueue"))
"""Made in any case: the settings that hold unless others are given name them."""
CLIENTS_EXPECTED = 4
"""What Kafka clients may prefetch is divided over so many group workers: a client cannot be told later to keep less."""


class Sidecar:
    """Owns every thread and store; `close` ends them."""

    def __init__(
        self,
        *,
        kafka: Kafka,
        clock: Clock,
        config: SidecarConfig,
        stores: Stores,
        workers: Workers | None = None,
        chance: Callable[[], float] | None = None,
    ) -> None:
        self._workers = workers or ThreadWorkers()
        self._chance = chance or random.SystemRandom().random
        self._kafka = kafka
        clock = self._clock = SlewedClock(clock)
        self.config = config
        self._stores = stores
        self._group_workers = GroupWorkers()
        self._admin = kafka.admin()
        topic = with_namespace("jbm.registry", config.namespace)
        registry = self._registry = Registry(
            kafka, self._admin, topic, clock=clock, pause=self._workers.pause, chance=self._chance
        )
        self._holder = self._new_holder(registry.log.topic)
        registry.pauses.is_in_memory = config.is_in_memory
        self.client_ids = ClientIds(registry.log, self._holder)
        self._subscriptions = Subscriptions(self._subscription_parts(registry))
        self.selector_sets = SelectorSets(self._selector_set_parts(registry))
        self.topics = self._new_topics(registry)
        self._watch = self._new_watch()
        self._commands = self._new_command_watch()
        self._settings = LiveSettings(registry.log, config.address_settings)
        self._targets = self._new_targets(registry)
        self.temporaries = Temporaries(self._temporaries_parts())
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._is_closed = False
        self._writer = TransactionWriter(
            kafka=kafka,
            journal=stores.journal,
            topics=self.topics,
            clock=clock,
            transactional_id=stores.transactional_id,
            pool=ProducerPool(
                kafka=kafka,
                clock=clock,
                workers=self._workers,
                transactional_id=stores.transactional_id,
                has_past=stores.has_past,
                transaction_timeout_ms=config.transaction_timeout_ms,
                known_topic=self.topics.registry_topic,
            ),
        )
        self.checkpointer = Checkpointer(
            writer=self._writer, clock=clock, interval_ms=config.checkpoint_interval_ms, workers=self._workers
        )
        self._opener = self._new_opener(stores)
        self._is_started = False

    def _new_command_watch(self) -> CommandWatch:
        return CommandWatch(
            kafka=self._kafka,
            admin=self._admin,
            topic=self.topics.commands_topic,
            look_ms=self.config.command_look_ms,
            carry_out=self._group_workers.command,
        )

    def _new_opener(self, stores: Stores) -> ChannelOpener:
        return ChannelOpener(
            kafka=self._kafka,
            journal=stores.journal,
            topics=self.topics,
            clock=self._clock,
            config=self.config,
            settings_of=self.settings_of,
            workers=self._workers,
            check=self._check_claim,
        )

    def _new_topics(self, registry: Registry) -> Topics:
        config = self.config
        return Topics(self._admin, namespace=config.namespace, registry=registry, is_in_memory=config.is_in_memory)

    def _new_targets(self, registry: Registry) -> Targets:
        return Targets(
            topics=self.topics,
            ensure=self.ensure,
            workers=self._workers,
            settings=self._settings,
            registry=registry.log,
        )

    def _new_holder(self, topic: str) -> Holder:
        return Holder(
            kafka=self._kafka,
            admin=self._admin,
            config=self.config,
            topic=topic,
            workers=self._workers,
            clock=self._clock,
            chance=self._chance,
        )

    def _new_watch(self) -> TopicWatch:
        return TopicWatch(
            topics=self.topics,
            workers=self._workers,
            clock=self._clock,
            looked=self._group_workers.notify_topic,
            follow=self._follow_settings,
        )

    def _subscription_parts(self, registry: Registry) -> SubscriptionParts:
        namespace = self.config.namespace
        return SubscriptionParts(
            registry=registry.log,
            holder=self._holder,
            admin=self._admin,
            remains=Remains(self._kafka, self._admin, namespace=namespace, workers=self._workers, clock=self._clock),
            workers=self._workers,
            clock=self._clock,
            chance=self._chance,
            namespace=namespace,
            stop_group_worker=self._group_workers.stop,
            refuse=self._group_workers.refuse,
        )

    def _selector_set_parts(self, registry: Registry) -> SelectorSetParts:
        return SelectorSetParts(
            registry=registry.log,
            holder=self._holder,
            admin=self._admin,
            workers=self._workers,
            clock=self._clock,
            namespace=self.config.namespace,
            linger_ms=self.config.linger_ms,
            session_timeout_ms=self.config.session_timeout_ms,
            own_members=self._group_workers.own_members,
            stop_group_worker=self._group_workers.stop,
            refuse=self._group_workers.refuse,
        )

    def _temporaries_parts(self) -> TemporariesParts:
        return TemporariesParts(
            kafka=self._kafka,
            admin=self._admin,
            topics=self.topics,
            holder=self._holder,
            workers=self._workers,
            clock=self._clock,
            config=self.config,
            chance=self._chance,
            settings_of=self.settings_of,
        )

    # -- destinations --------------------------------------------------------------------------------------------

    def settings_of(self, name: str) -> ResolvedSettings:
        """The address settings in force for a destination."""
        return self._settings.resolve(settings_name(name))

    def ensure(self, destination: Destination, *, message_bytes_min: int = 0) -> TopicInfo:
        """The destination's topic, made when the configuration says so, with room for messages of that size.

        Raises:
            InvalidDestinationError, JMSError: it cannot be used; the text says why.
        """
        try:
            return self.find(destination, message_bytes_min=message_bytes_min)
        except KafkaClientError as error:
            raise as_jms_error(error, str(destination), destination=destination.name) from None

    def find(self, destination: Destination, *, message_bytes_min: int = 0) -> TopicInfo:
        """As `ensure`, but a KafkaClientError stays one: its kind says whether it helps to ask again."""
        if not self._watch.is_started:
            self._watch.start()
        is_new = self.topics.known(destination.name) is None
        self._settings.load()
        if destination.is_temporary:
            return self.temporaries.ensure(destination)
        found = self.topics.ensure(
            destination,
            create=self.config.auto_create or destination in SHIPPED_QUEUES,
            partitions=self.settings_of(destination.name).partitions,
            message_bytes_min=message_bytes_min,
        )
        if is_new:
            self._settings.warn_of_differences([destination.name])
        return found

    # -- receivers -----------------------------------------------------------------------------------------------

    def attach(self, source: Source, link: Link) -> GroupWorker:
        """Serve a receiver; the process joins the group of the queue or subscription for it.

        Raises:
            IllegalStateError: other processes receive from the queue with other selectors.
            InvalidDestinationError, JMSError: it cannot be used.
        """
        self._check()
        destination = destination_of(source)
        info = self.ensure(destination)
        self._targets.ensure_of(destination, info)
        with self._lock:
            self._start()
        group = self._group_of(source, info)
        if isinstance(source, Queue) and not source.is_temporary:
            self.selector_sets.claim(source, is_joining=not self._group_workers.own_members(group.group_id))
        ending = self._group_workers.of(group.group_id)
        if ending is not None and ending.data.group.incarnation != group.incarnation:
            ending.stop()  # of a subscription that has ended
        if ending is not None and not ending.is_running:
            # Not under the lock: what it waits for may be a commit of this process, which needs the lock.
            ending.join(STOP_TIMEOUT_S)
        with self._lock:
            group_worker = self._group_workers.of(group.group_id)
            self._commands.start(self._workers)
            if group_worker is None or not group_worker.is_running:
                group_worker = GroupWorker(group=group, parts=self._parts(group))
                self._group_workers.add(group_worker)
                group_worker.attach(link)
                group_worker.start()
            else:
                group_worker.attach(link)
            return group_worker

    def _group_of(self, source: Source, info: TopicInfo) -> ChannelGroup:
        namespace = self.config.namespace
        if destination_of(source).is_temporary:
            return self.temporaries.group_of(source)
        if isinstance(source, Queue):
            return ChannelGroup.of_queue(source, namespace=namespace, partitions=info.partitions)
        record = self._subscriptions.record_of(source)
        return ChannelGroup.of_subscription(source, record, namespace=namespace, partitions=info.partitions)

    def subscribe(self, subscription: Subscription) -> None:
        """Have the subscription, begun at the latest now, in use by one more consumer until `end_use`.

        Raises:
            IllegalStateError, InvalidDestinationError, JMSError: it cannot be had; the text says why.
        """
        self._check()
        info = self.ensure(subscription.topic)
        with self._lock:
            self._start()
        if subscription.topic.is_temporary:
            self.temporaries.subscribe(subscription)
        else:
            self._subscriptions.subscribe(subscription, info)

    def end_use(self, subscription: Subscription) -> None:
        """One consumer less, and nothing of it is unacknowledged."""
        if subscription.topic.is_temporary:
            self.temporaries.end_use(subscription)
        else:
            self._subscriptions.end_use(subscription)

    def unsubscribe(self, client_id: str, name: str) -> None:
        """End a durable subscription.

        Raises:
            InvalidDestinationError, IllegalStateError, JMSError: it cannot be ended; the text says why.
        """
        self._check()
        with self._lock:
            self._start()
        self._subscriptions.unsubscribe(client_id, name)

    # -- temporary destinations --------------------------------------------------------------------------------------

    def create_temporary(self, kind: type[Temporary], connection_id: str, number: int) -> Temporary:
        """A new temporary destination of this connection; see Temporaries.create."""
        self._check()
        if not self._watch.is_started:
            self._watch.start()
        with self._lock:
            self._start()
        return self.temporaries.create(kind, connection_id, number)

    def delete_temporary(self, destination: TemporaryQueue | TemporaryTopic) -> None:
        """End it with all that it holds. It has no receivers."""
        self._group_workers.end_all_of(destination)
        self.temporaries.delete(destination)

    def _check_claim(self, group: ChannelGroup) -> None:
        """Raises IllegalStateError where others have what this process received from, as after it was thought dead."""
        if group.subscription is not None:
            self._subscriptions.check(group.group_id, group.incarnation)
        elif isinstance(group.destination, Queue):
            self.selector_sets.check(group.destination)

    def _follow_settings(self) -> None:
        """What the registry says of settings and pauses holds for the next hand-over, failure and send."""
        has_changed = self._settings.follow()
        self.topics.follow_pauses()
        if not has_changed:
            return
        self._settings.warn_of_differences(self.topics.names())
        for group_worker in self._group_workers.all():
            destination = group_worker.data.group.destination
            try:
                self._targets.ensure_of(destination, self.ensure(destination))
            except JMSError as error:
                log.warning("%s: its settings were changed in the registry, and %s", destination, error)
            group_worker.post(partial(group_worker.use_settings, self.settings_of(destination.name)))

    def group_worker_of(self, source: Source) -> GroupWorker | None:
        """The group worker that serves the queue or subscription here, if there is one."""
        return self._group_workers.of(source.group_id(self.config.namespace))

    def submit(self, transfer: Transfer) -> None:
        """Commit sends and acknowledgements together with the next checkpoint."""
        self._check()
        with self._lock:
            self._start()
        self.checkpointer.submit(transfer)

    def end_positions(self, source: Source, timeout_s: float) -> Mapping[int, int]:
        """The stable end of our partitions of it, as of now; none when the cluster does not say so in time."""
        group_worker = self.group_worker_of(source)
        if group_worker is None:
            return {}
        partitions = list(group_worker.data.channels)
        try:
            return self._admin.end_positions(
                group_worker.data.group.topic, partitions, stable=True, timeout_s=timeout_s
            )
        except KafkaClientError as error:
            log.info("%s: the end of the log is not known: %s", group_worker.data.group, error)
            return {}

    def wait_idle(self, timeout_s: float) -> bool:
        """True once everything that was asked before is carried out and recorded, and what must leave has left."""
        return wait_idle(self._group_workers.all, timeout_s)

    def is_answered(self, timeout_s: float) -> bool:
        """Kafka answers within so many seconds; a refusal is an answer."""
        return is_answered(self.topics, timeout_s)

    def close(self, patience: Patience | None = None) -> None:
        """Leave every group in order, finish the last checkpoint, close the stores. Again: nothing happens.

        All that waits for Kafka does so within one limit, and not after `patience` with it is over.
        """
        patience = patience or Patience(self.is_answered)
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            group_workers = self._group_workers.all()
        leaving = Leaving(patience)
        leaving.end_group_workers(group_workers)
        for part in (self._commands, self._watch, self.temporaries):
            part.stop(patience)
        self._opener.close(patience, leaving.left_s)
        self.checkpointer.stop(patience, leaving.left_s)
        self._stores.close()
        self._holder.stop(patience)
        leaving.let_clients_go([self.topics.close, self._admin.close])

    def _check(self) -> None:
        if os.getpid() != self._process:
            raise IllegalStateError(
                f"this connection belongs to process {self._process}: fork before the first connection",
                process=self._process,
            )
        if self._is_closed:
            raise IllegalStateError("the sidecar is closed")

    def _start(self) -> None:
        if not self._is_started:
            self._is_started = True
            try:
                self.topics.ensure_system_topics()
            except KafkaClientError as error:
                self._is_started = False
                raise as_jms_error(error, "cannot use the cluster") from None
            except JMSError as error:
                self._is_started = False
                raise JMSError(f"cannot use the cluster: {error}") from None
            give_messages_time_to_die()
            self.checkpointer.start()

    def _is_paused(self, name: str) -> bool:
        return self._registry.pauses.of(name).consumption is not None

    def _share_bytes(self) -> int:
        """What each group worker has of the memory budget, as of now; asked by the group workers' threads."""
        return self.config.memory_budget_bytes // max(self._group_workers.count_alive(), 1)

    def _parts(self, group: ChannelGroup) -> GroupWorkerParts:
        parts = GroupWorkerParts(
            kafka=self._kafka,
            clock=self._clock,
            config=self.config,
            opener=self._opener,
            workers=self._workers,
            flow=lambda: Flow(
                self._stores.held,
                share_bytes=self._share_bytes,
                consumer_bytes=self.config.memory_budget_bytes // 8 // CLIENTS_EXPECTED,
            ),
            chance=self._chance,
            note_dirty=self.checkpointer.note_dirty,
            submit=self.checkpointer.submit,
            targets=self._targets,
            pausing=Pausing(self._is_paused, self._registry.pauses.why_nothing_comes),
            look_at_topics=self._watch.look_now,
        )
        return self.temporaries.parts_of(group, parts) if group.is_temporary else parts
