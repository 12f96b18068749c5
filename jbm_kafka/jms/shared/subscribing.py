"""Makes the subscription that a session asked for."""

from __future__ import annotations

import secrets
from functools import partial

from jbm_kafka.client import source_use
from jbm_kafka.core.destination import Topic
from jbm_kafka.core.jms_errors import InvalidDestinationError
from jbm_kafka.core.selectors.selector import Selector
from jbm_kafka.core.subscription import (
    Source,
    Subscription,
    SubscriptionKind,
    checked_subscription_name,
    client_id_needed,
    destination_of,
)
from jbm_kafka.jms.shared.connection_core import ConnectionCore
from jbm_kafka.ports.link import Link


def durable(
    connection: ConnectionCore, topic: Topic, name: str, *, no_local: bool, selector: Selector | None
) -> Subscription:
    """An unshared durable subscription.

    Raises:
        IllegalStateError: the connection has no client id.
        InvalidSettingError: the name cannot be one.
    """
    name = checked_subscription_name(name)
    if connection.client_id is None:
        raise client_id_needed(name)
    return Subscription(
        topic, SubscriptionKind.DURABLE, name, connection.client_id, no_local, selector=_normal(selector)
    )


def shared(
    connection: ConnectionCore, topic: Topic, name: str, *, is_durable: bool, selector: Selector | None
) -> Subscription:
    """A shared subscription: the client id's, or everybody's without a client id.

    Raises:
        InvalidSettingError: the name cannot be one.
    """
    kind = SubscriptionKind.SHARED_DURABLE if is_durable else SubscriptionKind.SHARED
    return Subscription(topic, kind, name, connection.client_id or "", selector=_normal(selector))


def private(connection: ConnectionCore, topic: Topic, *, no_local: bool, selector: Selector | None) -> Subscription:
    """One consumer's own, which ends with it."""
    name = f"{connection.connection_id}-{secrets.token_hex(4)}"
    return Subscription(
        topic,
        SubscriptionKind.PRIVATE,
        name,
        connection.client_id or "",
        no_local,
        connection.connection_id,
        _normal(selector),
    )


def _normal(selector: Selector | None) -> str:
    return "" if selector is None else selector.normal


def lasting(topic: Topic) -> Topic:
    """The topic, if it outlives its connection.

    Raises:
        InvalidDestinationError: it is a temporary one.
    """
    if topic.is_temporary:
        raise InvalidDestinationError(
            f"{topic}: a temporary topic ends with its connection, and so has no durable subscriptions; use "
            f"create_consumer or create_shared_consumer",
            destination=topic.name,
        )
    return topic


def begin_use(connection: ConnectionCore, source: Source, link: Link, selector: Selector | None) -> None:
    """Use a queue with its selector, a subscription or a temporary destination, until the link has left.

    Raises:
        IllegalStateError, InvalidDestinationError, JMSError: it cannot be used.
    """
    destination = destination_of(source)
    if destination.is_temporary:
        connection.temporaries.use(destination)
        link.notices.tell_left(partial(connection.temporaries.left, destination))
    try:
        source_use.begin_use(connection.provider, source, link, _normal(selector))
    except BaseException:
        link.leave()
        raise
