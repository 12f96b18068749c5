"""The ends of bridges as programs and files name them."""

from __future__ import annotations

from typing import Any

from jbm_kafka.core.destination import Destination, Queue, Topic
from jbm_kafka.core.jms_errors import InvalidDestinationError, InvalidSettingError
from jbm_kafka.core.plain_text import plain_text
from jbm_kafka.core.settings.addresses import destination_at
from jbm_kafka.core.wrong_values import wrong_type, wrong_value
from jbm_kafka.jms.factory import ConnectionFactory

_KAFKA = ("kafka", "memory")
"""Schemes of addresses where a transaction of Kafka can be had."""


class BridgeEnd:
    """Where a bridge's messages come from, or go to: a queue or a topic, and the cluster or server that has it.

    destination: the queue or topic. place: the same with the address, for people and for the list of hops.
    address: what the server calls it.
    """

    def __init__(
        self,
        factory_or_url: ConnectionFactory | str,
        destination: str | Destination,
        *,
        subscription: str | None = None,
        duplicate_property: str | None = None,
        address: str | None = None,
        **arguments: Any,
    ) -> None:
        """An end.

        Args:
            factory_or_url: a ConnectionFactory, or a URL with the `arguments` of one.
            destination: a queue's name, "topic:NAME", a Queue or a Topic.
            subscription: of a topic as source: the name of the durable subscription that the bridge has; None: it is
                called as the bridge.
            duplicate_property: of an AMQP server as target: the property by which it drops duplicates, as
                "_AMQ_DUPL_ID" of Artemis. It is set to the message's id.
            address: of an AMQP server: what it calls the destination, where no name of ours can be that, as
                "/amq/queue/orders" of RabbitMQ; None: as the destination.

        Raises:
            InvalidSettingError, InvalidDestinationError: what cannot be.
        """
        if isinstance(factory_or_url, ConnectionFactory):
            if arguments:
                given = ", ".join(arguments)
                raise InvalidSettingError(f"{given}: give it to the ConnectionFactory, which is made already")
            self.factory = factory_or_url
        else:
            self.factory = ConnectionFactory(factory_or_url, **arguments)
        if self.factory._store is not None:
            raise InvalidSettingError(
                "store_and_forward: what a bridge cannot send waits at its source; give the bridge a ConnectionFactory "
                "without a store",
                setting="store_and_forward",
            )
        self.destination = _lasting(destination)
        self.subscription = named_text("subscription", subscription)
        if subscription is not None and isinstance(self.destination, Queue):
            raise wrong_value("subscription", subscription, f"{self.destination} is a queue, and topics have them")
        self.duplicate_property = named_text("duplicate_property", duplicate_property)
        if duplicate_property is not None and self.is_kafka:
            raise wrong_value("duplicate_property", duplicate_property, "it is for AMQP servers; leave it out")
        given_address = named_text("address", address)
        if given_address is not None and self.is_kafka:
            raise wrong_value("address", address, "it is for AMQP servers; leave it out")
        self.address = self.destination.name if given_address is None else given_address

    @property
    def is_kafka(self) -> bool:
        """A cluster of Kafka has it, or `memory://`."""
        return self.factory._scheme in _KAFKA

    @property
    def namespace(self) -> str:
        """The namespace of the installation."""
        return self.factory._installation.config.namespace

    @property
    def place(self) -> str:
        """`queue:orders at localhost:9092`; the namespaces of a cluster share its queues' Kafka topics."""
        return f"{self.destination} at {self.factory._defaults.url.removeprefix('kafka://')}"

    def shares_cluster(self, other: BridgeEnd) -> bool:
        """One transaction of Kafka can have both: the same brokers, as the same user; the namespaces may differ."""
        mine, theirs = self.factory, other.factory
        return (
            self.is_kafka
            and mine._scheme == theirs._scheme
            and mine._installation.bootstrap == theirs._installation.bootstrap
            and dict(mine._installation.client_settings) == dict(theirs._installation.client_settings)
        )

    def __repr__(self) -> str:
        return f"<BridgeEnd {self.place}{f' ({self.namespace})' if self.namespace else ''}>"


def named_text(name: str, value: object) -> str | None:
    """The text as a plain one, or None.

    Raises:
        InvalidSettingError: it is another value, or empty.
    """
    if value is None:
        return None
    if not isinstance(value, str):
        raise wrong_type(name, value, "it is a text, or None")
    if not value:
        raise wrong_value(name, value, "it is a text that is not empty, or None")
    return plain_text(value)


def _lasting(destination: str | Destination) -> Queue | Topic:
    if isinstance(destination, str):
        return destination_at(destination)
    if not isinstance(destination, Queue | Topic):
        if isinstance(destination, Destination):
            raise InvalidDestinationError(f"{destination}: a temporary destination ends with its connection")
        raise wrong_type("destination", destination, "it is a queue's name, 'topic:NAME', a Queue or a Topic")
    return destination
