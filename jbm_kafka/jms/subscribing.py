"""What a session subscribes to, of what it was asked for."""

from __future__ import annotations

import secrets

from jbm_kafka.core.destination import Topic
from jbm_kafka.core.subscription import Subscription, SubscriptionKind, client_id_needed
from jbm_kafka.jms.connection_core import ConnectionCore


def durable(connection: ConnectionCore, topic: Topic, name: str, *, no_local: bool) -> Subscription:
    """An unshared durable subscription.

    Raises:
        IllegalStateError: the connection has no client id.
        InvalidSettingError: the name cannot be one.
    """
    if connection.client_id is None:
        raise client_id_needed(name)
    return Subscription(topic, SubscriptionKind.DURABLE, name, connection.client_id, no_local)


def shared(connection: ConnectionCore, topic: Topic, name: str, *, is_durable: bool) -> Subscription:
    """A shared subscription: the client id's, or everybody's where there is none.

    Raises:
        InvalidSettingError: the name cannot be one.
    """
    kind = SubscriptionKind.SHARED_DURABLE if is_durable else SubscriptionKind.SHARED
    return Subscription(topic, kind, name, connection.client_id or "")


def private(connection: ConnectionCore, topic: Topic, *, no_local: bool) -> Subscription:
    """One consumer's own, which ends with it."""
    name = f"{connection.connection_id}-{secrets.token_hex(4)}"
    return Subscription(
        topic,
        SubscriptionKind.PRIVATE,
        name,
        connection.client_id or "",
        no_local,
        connection.connection_id,
    )
