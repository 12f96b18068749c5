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

from jbm_kafka.core.address_settings import AddressSettingsRepository, ResolvedSettings
from jbm_kafka.core.destination import Destination, Queue, with_namespace
from jbm_kafka.core.errors import IllegalStateError, InvalidDestinationError, JMSError
from jbm_kafka.core.subscription import Source, Subscription, destination_of
from jbm_kafka.ports import Clock, Kafka, KafkaClientError
from jbm_kafka.ports.client_errors import as_jms_error
from jbm_kafka.ports.installation import SidecarConfig
from jbm_kafka.ports.link import Link
from jbm_kafka.ports.provider import TopicInfo
from jbm_kafka.sidecar.channel_group import ChannelGroup
from jbm_kafka.sidecar.checkpoint_parts import Transfer
from jbm_kafka.sidecar.checkpointer import Checkpointer
from jbm_kafka.sidecar.client_ids import ClientIds
from jbm_kafka.sidecar.collector import give_messages_time_to_die
from jbm_kafka.sidecar.flow import Flow
from jbm_kafka.sidecar.group_worker import GroupWorker, GroupWorkerParts
from jbm_kafka.sidecar.holder import Holder
from jbm_kafka.sidecar.idleness import wait_idle
from jbm_kafka.sidecar.producer_pool import ProducerPool
from jbm_kafka.sidecar.recovery import ChannelOpener
from jbm_kafka.sidecar.registry import Registry
from jbm_kafka.sidecar.slewed_clock import SlewedClock
from jbm_kafka.sidecar.steps import ThreadWorkers, Workers
from jbm_kafka.sidecar.stores import Stores
from jbm_kafka.sidecar.subscription_remains import Remains
from jbm_kafka.sidecar.subscriptions import SubscriptionParts, Subscriptions
from jbm_kafka.sidecar.targets import Targets
from jbm_kafka.sidecar.topic_watch import TopicWatch
from jbm_kafka.sidecar.topics import MARGIN_BYTES, Topics, dead_letter_queue
from jbm_kafka.sidecar.transaction import TransactionWriter

log = logging.getLogger(__name__)

STOP_TIMEOUT_S = 20.0
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
        self._admin = kafka.admin()
        registry = Registry(kafka, self._admin, with_namespace("jbm.registry", config.namespace))
        self._holder = self._new_holder(registry.log.topic)
        self.client_ids = ClientIds(registry.log, self._holder)
        self._subscriptions = Subscriptions(self._subscription_parts(registry))
        self.topics = Topics(self._admin, namespace=config.namespace, registry=registry)
        self._watch = TopicWatch(
            topics=self.topics, workers=self._workers, clock=clock, looked=self._tell_group_workers
        )
        self._targets = Targets(topics=self.topics, ensure=self._ensure_target, workers=self._workers)
        self._repository = AddressSettingsRepository(config.address_settings)
        self._group_workers: dict[str, GroupWorker] = {}
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
        self._opener = ChannelOpener(
            kafka=kafka,
            journal=stores.journal,
            topics=self.topics,
            clock=clock,
            config=config,
            settings_of=self.settings_of,
            workers=self._workers,
        )
        self._is_started = False

    def _new_holder(self, topic: str) -> Holder:
        return Holder(
            kafka=self._kafka,
            admin=self._admin,
            config=self.config,
            topic=topic,
            workers=self._workers,
            chance=self._chance,
        )

    def _subscription_parts(self, registry: Registry) -> SubscriptionParts:
        namespace = self.config.namespace
        return SubscriptionParts(
            registry=registry.log,
            holder=self._holder,
            admin=self._admin,
            remains=Remains(self._kafka, self._admin, namespace=namespace, workers=self._workers),
            workers=self._workers,
            clock=self._clock,
            chance=self._chance,
            namespace=namespace,
            stop_group_worker=self._stop_group_worker,
        )

    # -- destinations --------------------------------------------------------------------------------------------

    def settings_of(self, name: str) -> ResolvedSettings:
        """The address settings in force for a destination."""
        return self._repository.resolve(name)

    def ensure(self, destination: Destination, *, message_bytes_min: int = 0) -> TopicInfo:
        """The destination's topic, made when the configuration says so, with room for messages of that size.

        Raises:
            InvalidDestinationError, JMSError: it cannot be used; the text says why.
        """
        shipped = destination.name in ("DLQ", "ExpiryQueue")
        if not self._watch.is_started:
            self._watch.start()
        try:
            return self.topics.ensure(
                destination,
                create=self.config.auto_create or shipped,
                partitions=self.settings_of(destination.name).partitions,
                message_bytes_min=message_bytes_min,
            )
        except KafkaClientError as error:
            raise as_jms_error(error, str(destination), destination=destination.name) from None

    def _ensure_target(self, address: str, message_bytes_min: int) -> TopicInfo:
        known = self.topics.destination(address)
        return self.ensure(known or dead_letter_queue(address), message_bytes_min=message_bytes_min)

    def _ensure_targets(self, source: Destination, info: TopicInfo) -> None:
        """Dead-letter and expiry addresses must be there before the first message needs them, with room for any.

        A copy of a copy is no larger, what told of the hop before is replaced; and two addresses that are each other's
        would grow for ever.
        """
        settings = self.settings_of(source.name)
        size = info.max_message_bytes + (0 if self._repository.takes_copies(source.name) else MARGIN_BYTES)
        for address in (settings.dead_letter_address, settings.expiry_address):
            if address is not None:
                try:
                    self.ensure(dead_letter_queue(address), message_bytes_min=size)
                except InvalidDestinationError as error:
                    raise InvalidDestinationError(
                        f"the dead-letter or expiry address {address!r} cannot be used: {error}", destination=address
                    ) from None

    # -- receivers -----------------------------------------------------------------------------------------------

    def attach(self, source: Source, link: Link) -> GroupWorker:
        """Serve a receiver; the process joins the group of the queue or subscription for it.

        Raises:
            InvalidDestinationError, JMSError: it cannot be used.
        """
        self._check()
        destination = destination_of(source)
        info = self.ensure(destination)
        self._ensure_targets(destination, info)
        group = self._group_of(source, info)
        ending = self._group_workers.get(group.group_id)
        if ending is not None and ending.data.group.incarnation != group.incarnation:
            ending.stop()  # of a subscription that has ended
        if ending is not None and not ending.is_running:
            # Not under the lock: what it waits for may be a commit of this process, which needs the lock.
            ending.join(STOP_TIMEOUT_S)
        with self._lock:
            self._start()
            group_worker = self._group_workers.get(group.group_id)
            if group_worker is None or not group_worker.is_running:
                group_worker = self._group_workers[group.group_id] = GroupWorker(group=group, parts=self._parts())
                group_worker.attach(link)
                group_worker.start()
            else:
                group_worker.attach(link)
            return group_worker

    def _group_of(self, source: Source, info: TopicInfo) -> ChannelGroup:
        namespace = self.config.namespace
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
        self._subscriptions.subscribe(subscription, info)

    def end_use(self, subscription: Subscription) -> None:
        """One consumer less, and nothing of it is unacknowledged."""
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

    def _stop_group_worker(self, group_id: str) -> None:
        group_worker = self._group_workers.get(group_id)
        if group_worker is not None:
            group_worker.stop()
            group_worker.join(STOP_TIMEOUT_S)

    def _tell_group_workers(self, info: TopicInfo) -> None:
        """A topic may be another than it was."""
        for group_worker in list(self._group_workers.values()):
            if group_worker.data.group.topic == info.topic:
                log_id = group_worker.data.group.log_id(info.topic_id)
                group_worker.post(partial(group_worker.assignment.topic_is, log_id, info.partitions))

    def group_worker_of(self, source: Source) -> GroupWorker | None:
        """The group worker that serves the queue or subscription here, if there is one."""
        return self._group_workers.get(source.group_id(self.config.namespace))

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
        return wait_idle(lambda: list(self._group_workers.values()), timeout_s)

    def close(self) -> None:
        """Leave every group in order, finish the last checkpoint, close the stores. Again: nothing happens."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            group_workers = list(self._group_workers.values())
        for group_worker in group_workers:
            group_worker.stop()
        for group_worker in group_workers:
            if not group_worker.join(STOP_TIMEOUT_S):
                log.warning("%s: its thread did not end in %g s", group_worker.data.group, STOP_TIMEOUT_S)
        self._watch.stop()
        self._opener.close()
        self.checkpointer.stop(STOP_TIMEOUT_S)
        self._stores.close()
        self._holder.stop()
        self.topics.close()
        self._admin.close()

    def _check(self) -> None:
        if os.getpid() != self._process:
            raise IllegalStateError(
                f"this connection belongs to process {self._process}; after fork make a new connection factory",
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

    def _share_bytes(self) -> int:
        """What each group worker has of the memory budget, as of now; asked by the group workers' threads."""
        group_workers = sum(group_worker.is_alive for group_worker in list(self._group_workers.values()))
        return self.config.memory_budget_bytes // max(group_workers, 1)

    def _parts(self) -> GroupWorkerParts:
        return GroupWorkerParts(
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
            target_of=self._targets.topic_of,
            look_at_topics=self._watch.look_now,
        )
