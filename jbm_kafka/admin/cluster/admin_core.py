"""The ground that all parts of an Admin share: one cluster, one namespace, one registry."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from threading import Lock
from typing import TypeVar

from jbm_kafka.admin.cluster.admin_arguments import named, which_subscription
from jbm_kafka.admin.cluster.administered import IN_MEMORY, administered
from jbm_kafka.admin.cluster.catalog import Catalog
from jbm_kafka.admin.owners.own_connection import OwnConnections
from jbm_kafka.admin.owners.owner_client import Owners
from jbm_kafka.admin.owners.present_owners import PresentOwners
from jbm_kafka.browsing.browse import browse
from jbm_kafka.browsing.unacknowledged_query import UnacknowledgedQuery
from jbm_kafka.client.bodies.large_bodies import LargeBodies
from jbm_kafka.codec.registry_records import SubscriptionRecord
from jbm_kafka.core.destination import Destination, Queue, Topic, with_namespace
from jbm_kafka.core.jms_errors import IllegalStateError
from jbm_kafka.core.plain_text import plain_texts
from jbm_kafka.core.selectors.selector import Selector
from jbm_kafka.core.settings.address_settings import AddressSettings
from jbm_kafka.core.wrong_values import wrong_type
from jbm_kafka.jms.base.arguments import checked_seconds
from jbm_kafka.jms.browser import browsed
from jbm_kafka.jms.factory import checked_namespace
from jbm_kafka.jms.messages.message import Message
from jbm_kafka.ports import Unreachable
from jbm_kafka.ports.client_errors import raised_as_jms_errors
from jbm_kafka.ports.provider import Seen
from jbm_kafka.registry.channel_group import ChannelGroup
from jbm_kafka.registry.registry import Registry
from jbm_kafka.store.recovery import RecoveredChannel

log = logging.getLogger(__name__)

Tell = Callable[[str], object]
"""Takes a line that says what is waited for."""


T = TypeVar("T")
READ_TRIES = 3
"""So many tries of `timeout_s` each: brokers end the transaction of a killed process after 10 s, and look for such
every 10 s."""


def patiently(read: Callable[[], T]) -> T:
    """Return what is read; tried again where the transaction of a killed process holds it back, which ends by
    itself."""
    for _ in range(READ_TRIES - 1):
        with suppress(Unreachable):
            return read()
    return read()


def as_browsed(seen: Seen, destination: Destination, bodies: LargeBodies | None = None) -> Message:
    """The message as a browser shows it; of one that waits, `delivery_time` is when it may go."""
    message = browsed(seen, destination, bodies=bodies)
    if seen.due_at_ms:
        message.delivery_time = seen.due_at_ms
    return message


class AdminCore:
    """One cluster and namespace, for the parts of an Admin. Any thread. Its arguments are those of `Admin`."""

    def __init__(
        self,
        bootstrap: str,
        kafka: Mapping[str, object] | None,
        namespace: str,
        timeout_s: float,
        bodies: LargeBodies | None = None,
    ) -> None:
        namespace = checked_namespace(namespace)
        if kafka is not None and not isinstance(kafka, Mapping):
            raise wrong_type("kafka", kafka, "it is a dict of librdkafka properties, or None")
        kafka = None if kafka is None else plain_texts(kafka)
        timeout_s = checked_seconds("timeout_s", timeout_s)
        self.connections = OwnConnections(bootstrap, kafka, namespace)
        self.cluster = administered(bootstrap, kafka, timeout_s, namespace=namespace)
        self.kafka = self.cluster.kafka
        self.admin = self.kafka.admin()
        self.namespace = namespace
        self.bodies = bodies
        """Where large bodies are; None: no store was given."""
        self._lock, self._is_closed, self._is_met, self._process = Lock(), False, False, os.getpid()
        self.registry = Registry(self.kafka, self.admin, with_namespace("jbm.registry", namespace))
        is_in_memory = self.registry.pauses.is_in_memory = bootstrap.startswith(IN_MEMORY)
        self.catalog = Catalog(self.admin, self.registry, namespace, is_in_memory=is_in_memory)

    def close(self) -> None:
        """Let the cluster go. A second call does nothing."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        self.registry.close()
        self.admin.close()
        self.cluster.let_go()

    @property
    def is_closed(self) -> bool:
        """It was closed."""
        return self._is_closed

    @property
    def url(self) -> str:
        """As it was given."""
        return self.connections.url

    def check_open(self) -> None:
        """Raises IllegalStateError when it was closed."""
        if self._is_closed:
            raise IllegalStateError("the admin is closed; make a new one")

    @contextmanager
    def asking(self, about: str) -> Iterator[None]:
        """Around every call: what Kafka's client raises becomes a JMSError."""
        self.check_open()
        if os.getpid() != self._process:
            raise IllegalStateError("this admin belongs to the parent process: fork before the first is made")
        with raised_as_jms_errors(about):
            if not self._is_met:
                self.admin.cluster_id()  # tells at once that nobody is there, or that we are not let in
                self._is_met = True
            self.cluster.settle()
            yield

    def source(
        self, destination: Queue | Topic | str, subscription: str | None, client_id: str
    ) -> Queue | SubscriptionRecord:
        """The queue, or the subscription of the topic, which is there.

        Raises:
            InvalidDestinationError: it is not.
        """
        found = named(destination, subscription, client_id)
        if isinstance(found, Queue):
            self.catalog.existing(found)
            return found
        self.catalog.named(found)
        if subscription is None:
            raise which_subscription(found)
        return self.catalog.subscription(found, subscription, client_id)

    def group(self, source: Queue | SubscriptionRecord) -> ChannelGroup:
        if isinstance(source, Queue):
            return ChannelGroup.of_queue(source, namespace=self.namespace)
        return ChannelGroup.of_subscription(source.subscription, source, namespace=self.namespace)

    def seen(
        self,
        source: Queue | SubscriptionRecord,
        selector: Selector | None = None,
        *,
        hands: UnacknowledgedQuery | None = None,
        recovered: Callable[[Mapping[int, RecoveredChannel]], object] | None = None,
    ) -> Iterator[Seen]:
        """All that a queue or subscription holds; owners are asked for what is in hand only with `hands`. `recovered`
        as of `browse`."""
        return browse(
            self.kafka,
            self.group(source),
            now_ms=self.cluster.clock.now_ms(),
            hands=hands,
            include_all=True,
            selector=selector,
            recovered=recovered,
        )

    def hands(self, tell: Callable[[str], object] | None = None) -> UnacknowledgedQuery:
        """A look for what is in hand. `tell` is called with a line where a process takes long; None: it is logged."""
        return UnacknowledgedQuery(self.kafka, namespace=self.namespace, ours=None, tell=tell or log.info)

    def owners(self, source: Queue | SubscriptionRecord, settings: AddressSettings) -> Owners:
        """The processes that receive from it; if none does, this process, by these settings below the registry's."""
        group = self.group(source)
        mine = source if isinstance(source, Queue) else source.subscription
        return Owners(
            self.kafka,
            self.admin,
            namespace=self.namespace,
            group=group.group_id,
            topic=group.topic,
            become_owner=self.connections.owner_of(mine, {group.destination.name: settings}),
        )

    def present(self, source: Queue | SubscriptionRecord) -> PresentOwners:
        """The processes that receive from it, for questions only."""
        group = self.group(source)
        return PresentOwners(self.kafka, self.admin, namespace=self.namespace, group=group.group_id)
