"""The sources that this process receives from: queues and subscriptions, each served by the group worker of its
group."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TypeGuard

from jbm_kafka.core.destination import Destination, Queue
from jbm_kafka.core.jms_errors import InvalidDestinationError
from jbm_kafka.core.subscription import Source, Subscription, SubscriptionKind, destination_of
from jbm_kafka.ports import KafkaAdmin, KafkaClientError
from jbm_kafka.ports.client_errors import raised_as_jms_errors
from jbm_kafka.ports.link import Link
from jbm_kafka.ports.provider import HeldPartitions, TopicInfo
from jbm_kafka.registry.channel_group import ChannelGroup
from jbm_kafka.registry.command_server import CommandServer
from jbm_kafka.sidecar.destinations import Destinations
from jbm_kafka.sidecar.idleness import wait_idle
from jbm_kafka.sidecar.lane.group_worker import GroupWorker, GroupWorkerParts
from jbm_kafka.sidecar.lane.group_workers import GroupWorkers
from jbm_kafka.sidecar.lane.shutdown import STOP_TIMEOUT_S, Leaving
from jbm_kafka.sidecar.log_lines.connection_lines import EndLines
from jbm_kafka.sidecar.private.private_subscriptions import PrivateSubscriptions
from jbm_kafka.sidecar.registry_claims import RegistryClaims
from jbm_kafka.sidecar.runtime import Lifetime


def _is_private(source: Source) -> TypeGuard[Subscription]:
    """Return True for a plain consumer of a topic: it has no consumer group (decision 81), and its topic lasts."""
    if not isinstance(source, Subscription):
        return False
    return source.kind is SubscriptionKind.PRIVATE and not source.topic.is_temporary


class Sources:
    """The group workers of this process. Any thread may call it."""

    def __init__(
        self,
        *,
        lifetime: Lifetime,
        destinations: Destinations,
        claims: RegistryClaims,
        privates: PrivateSubscriptions,
        group_workers: GroupWorkers,
        parts: GroupWorkerParts,
        commands: CommandServer,
        admin: KafkaAdmin,
    ) -> None:
        """`parts`: what every group worker is given; `commands` are listened to from the first receiver on."""
        self._lifetime = lifetime
        self._destinations = destinations
        self._claims = claims
        self._privates = privates
        self._group_workers = group_workers
        self._parts = parts
        self._commands = commands
        self._admin = admin
        self._end_lines = EndLines(parts.clock)
        self._lock = threading.Lock()
        """Held while a receiver gets its group worker: two must not start two of them."""

    # -- receivers -----------------------------------------------------------------------------------------------

    def attach(self, source: Source, link: Link) -> GroupWorker:
        """Serve a receiver; the process joins the group of the queue or subscription for it.

        Raises:
            IllegalStateError: other processes receive from the queue with other selectors.
            InvalidDestinationError, JMSError: it cannot be used.
        """
        self._lifetime.check()
        destination = destination_of(source)
        is_open = link.is_attached  # its group worker has left meanwhile, as it does when nobody receives for a while
        before = None if destination.is_temporary else self.group_worker_of(source)
        if before is not None and (
            isinstance(before.failure, InvalidDestinationError) or (before.served.lacks_topic and not is_open)
        ):
            self._destinations.topics.forget(destination.name)  # it was deleted: it is looked for again, and made
        info = self._info_of(destination, is_open=is_open)
        self._destinations.targets.ensure_of(destination, info)
        self._lifetime.begin()
        group = self._group_of(source, info)
        if isinstance(source, Queue) and not source.is_temporary:
            is_joining = not self._group_workers.own_members(group.group_id)
            self._claims.selector_sets.claim(source, is_joining=is_joining)
        ending = self._group_workers.of(group.group_id)
        if ending is not None and ending.data.group.incarnation != group.incarnation:
            ending.stop()  # of a subscription that has ended
        if ending is not None and (ending.failure is not None or not ending.is_running):
            # Not under the lock: the receivers of other groups would wait for it, too.
            ending.join(STOP_TIMEOUT_S)
        with self._lock:
            group_worker = self._group_workers.of(group.group_id)
            self._commands.start(self._parts.workers)
            if group_worker is None or not group_worker.is_running:
                parts = self._parts_of(source, group)
                group_worker = GroupWorker(group=group, parts=parts, client_id=link.terms.client_id)
                if _is_private(source):
                    self._privates.serve(source, group_worker.wake)
                elif group.is_temporary:
                    self._destinations.temporaries.serve(source, group_worker.wake)
                self._group_workers.add(group_worker)
                group_worker.attach(link, is_open=is_open)
                group_worker.start()
            else:
                group_worker.attach(link, is_open=is_open)
            return group_worker

    def attach_present(self, source: Source, link: Link) -> GroupWorker | None:
        """Serve a link from what is here; see ForwardingSidecar."""
        with self._lock:
            found = self.group_worker_of(source)
            if found is None or not found.is_running or destination_of(source) != found.data.group.destination:
                return None
            found.attach(link, is_open=True)
            return found

    def _info_of(self, destination: Destination, *, is_open: bool) -> TopicInfo:
        """Where the topic is gone a consumer that is open waits until others make it again; see ServedLinks."""
        known = self._destinations.topics.known(destination.name) if is_open and not destination.is_temporary else None
        return known or self._destinations.ensure(destination)

    def group_worker_of(self, source: Source) -> GroupWorker | None:
        """The group worker that serves the queue or subscription here, if there is one."""
        return self._group_workers.of(source.group_id(self._parts.config.namespace))

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
            self._end_lines.unknown(group_worker.data.group, error)
            return {}

    def held_partitions(self, source: Source) -> HeldPartitions:
        """Return those of it that are open here, and how many there are as far as is known here."""
        group_worker = self.group_worker_of(source)
        known = self._destinations.topics.known(destination_of(source).name)
        held = frozenset() if group_worker is None else frozenset(list(group_worker.data.channels))
        return HeldPartitions(held, 0 if known is None else known.partitions)

    def wait_idle(self, timeout_s: float) -> bool:
        """True once everything that was asked before is carried out and recorded, and what must leave has left."""
        return wait_idle(self._group_workers.all, timeout_s)

    def leave(self, leaving: Leaving) -> None:
        """Leave every group in order; nobody receives any more."""
        with self._lock:  # what is attached at this moment leaves, too
            group_workers = self._group_workers.all()
        leaving.end_group_workers(group_workers)

    def _group_of(self, source: Source, info: TopicInfo) -> ChannelGroup:
        namespace = self._parts.config.namespace
        if destination_of(source).is_temporary:
            return self._destinations.temporaries.group_of(source)
        if isinstance(source, Queue):
            return ChannelGroup.of_queue(source, namespace=namespace, partitions=info.partitions)
        if _is_private(source):
            return self._privates.group_of(source)
        record = self._claims.subscriptions.record_of(source)
        return ChannelGroup.of_subscription(source, record, namespace=namespace, partitions=info.partitions)

    def _parts_of(self, source: Source, group: ChannelGroup) -> GroupWorkerParts:
        if _is_private(source):
            return self._privates.parts_of(source, self._parts)
        if group.is_temporary:
            return self._destinations.temporaries.parts_of(group, self._parts)
        return self._parts

    # -- subscriptions -------------------------------------------------------------------------------------------

    def subscribe(self, subscription: Subscription) -> None:
        """Have the subscription, begun at the latest now, in use by one more consumer until `end_use`.

        Raises:
            IllegalStateError, InvalidDestinationError, JMSError: it cannot be had; the text says why.
        """
        self._lifetime.check()
        self._destinations.ensure(subscription.topic)
        self._lifetime.begin()
        if subscription.topic.is_temporary:
            self._destinations.temporaries.subscribe(subscription)
            return
        with raised_as_jms_errors(str(subscription)):
            # It begins in every partition that there is, also in those that others have added meanwhile.
            info = self._destinations.topics.refresh(subscription.topic)
        if _is_private(subscription):
            self._claims.subscriptions.sweep_once()
            self._privates.subscribe(subscription, info)
        else:
            self._claims.subscriptions.subscribe(subscription, info)

    def end_use(self, subscription: Subscription) -> None:
        """One consumer less, and nothing of it is unacknowledged."""
        if subscription.topic.is_temporary:
            self._destinations.temporaries.end_use(subscription)
        elif _is_private(subscription):
            self._privates.end_use(subscription)
            if (group_worker := self.group_worker_of(subscription)) is not None:
                group_worker.stop()
        else:
            self._claims.subscriptions.end_use(subscription)

    def unsubscribe(self, client_id: str, name: str, user: str | None = None) -> None:
        """End a durable subscription; see Subscriptions.unsubscribe.

        Raises:
            InvalidDestinationError, IllegalStateError, JMSError: it cannot be ended; the text says why.
        """
        self._lifetime.check()
        self._lifetime.begin()
        self._claims.subscriptions.unsubscribe(client_id, name, user)
