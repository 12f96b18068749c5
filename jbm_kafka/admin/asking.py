"""What every part of the administration asks with: one cluster, one namespace, one registry."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from typing import Self

from jbm_kafka.admin.administered import IN_MEMORY, administered
from jbm_kafka.admin.asked import named, which_subscription
from jbm_kafka.admin.asking_owners import Owners
from jbm_kafka.admin.asking_present import PresentOwners
from jbm_kafka.admin.found_destinations import FoundDestinations
from jbm_kafka.admin.found_subscription import found_subscription
from jbm_kafka.admin.own_connection import OwnConnections
from jbm_kafka.browsing.browse import browse
from jbm_kafka.browsing.unacknowledged_query import Hands
from jbm_kafka.codec.registry_records import SubscriptionRecord
from jbm_kafka.core.address_settings import AddressSettings
from jbm_kafka.core.destination import Queue, Topic, with_namespace
from jbm_kafka.core.jms_errors import (
    IllegalStateError,
)
from jbm_kafka.core.selectors.selector import Selector
from jbm_kafka.core.wrong_values import wrong_type
from jbm_kafka.jms.arguments import checked_seconds
from jbm_kafka.jms.factory import check_namespace
from jbm_kafka.ports.client_errors import raised_as_jms_errors
from jbm_kafka.ports.provider import Seen
from jbm_kafka.registry.channel_group import ChannelGroup
from jbm_kafka.registry.registry import Registry

log = logging.getLogger(__name__)


class Asking:
    """One cluster and namespace, for an Admin; its arguments are told there. Any thread."""

    def __init__(
        self, bootstrap: str, *, kafka: Mapping[str, object] | None = None, namespace: str = "", timeout_s: float = 10.0
    ) -> None:
        check_namespace(namespace)
        if kafka is not None and not isinstance(kafka, Mapping):
            raise wrong_type("kafka", kafka, "it is a dict of librdkafka properties, or None")
        timeout_s = checked_seconds("timeout_s", timeout_s)
        self._connections = OwnConnections(bootstrap, kafka, namespace)
        self._cluster = administered(bootstrap, kafka, timeout_s)
        self._kafka = self._cluster.kafka
        self._admin = self._kafka.admin()
        self._namespace = namespace
        self._lock, self._is_closed, self._is_met, self._process = Lock(), False, False, os.getpid()
        self._registry = Registry(self._kafka, self._admin, with_namespace("jbm.registry", namespace))
        is_in_memory = bootstrap.startswith(IN_MEMORY)
        self._found = FoundDestinations(self._admin, self._registry, namespace, is_in_memory=is_in_memory)

    def close(self) -> None:
        """Again: nothing happens."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        self._registry.close()
        self._admin.close()
        self._cluster.let_go()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._connections.url} {'closed' if self._is_closed else 'open'}>"

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_closed(self) -> bool:
        """It was closed."""
        return self._is_closed

    def _check_open(self) -> None:
        if self._is_closed:
            raise IllegalStateError("the admin is closed; make a new one")

    @contextmanager
    def _asking(self, about: str) -> Iterator[None]:
        """What Kafka's client raises, as an error for the caller."""
        self._check_open()
        if os.getpid() != self._process:
            raise IllegalStateError("this admin belongs to the parent process: fork before the first is made")
        with raised_as_jms_errors(about):
            if not self._is_met:
                self._admin.cluster_id()  # tells at once that nobody is there, or that we are not let in
                self._is_met = True
            self._cluster.settle()
            yield

    def _source(
        self, destination: Queue | Topic | str, subscription: str | None, client_id: str
    ) -> Queue | SubscriptionRecord:
        """The queue, or the subscription of the topic, which is there.

        Raises:
            InvalidDestinationError: it is not.
        """
        found = named(destination, subscription, client_id)
        if isinstance(found, Queue):
            self._found.existing(found)
            return found
        self._found.named(found)
        if subscription is None:
            raise which_subscription(found)
        return found_subscription(self._registry.log, found, subscription, client_id)

    def _group(self, source: Queue | SubscriptionRecord) -> ChannelGroup:
        if isinstance(source, Queue):
            return ChannelGroup.of_queue(source, namespace=self._namespace)
        return ChannelGroup.of_subscription(source.subscription, source, namespace=self._namespace)

    def _seen(
        self, source: Queue | SubscriptionRecord, selector: Selector | None = None, *, hands: Hands | None = None
    ) -> Iterator[Seen]:
        """All that a queue or subscription holds; owners are asked for what is in hand only with `hands`."""
        return browse(
            self._kafka,
            self._group(source),
            now_ms=self._cluster.clock.now_ms(),
            hands=hands,
            include_all=True,
            selector=selector,
        )

    def _hands(self, tell: Callable[[str], object] | None = None) -> Hands:
        """Who finds out what is in hand; `tell` is called with whom it waits for, None: that is logged."""
        return Hands(self._kafka, namespace=self._namespace, ours=None, tell=tell or log.info)

    def _owners(self, source: Queue | SubscriptionRecord, settings: AddressSettings) -> Owners:
        """Who receives from it; if nobody does, this process by these settings, and the registry's over them."""
        group = self._group(source)
        mine = source if isinstance(source, Queue) else source.subscription
        return Owners(
            self._kafka,
            self._admin,
            namespace=self._namespace,
            group=group.group_id,
            topic=group.topic,
            become_owner=self._connections.owner_of(mine, {group.destination.name: settings}),
        )

    def _present(self, source: Queue | SubscriptionRecord) -> PresentOwners:
        """Who receives from it, to be asked and nothing more."""
        group = self._group(source)
        return PresentOwners(self._kafka, self._admin, namespace=self._namespace, group=group.group_id)
