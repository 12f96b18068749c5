"""Which queue or subscription an administrator means."""

from __future__ import annotations

from jbm_kafka.admin.asked import no_subscriptions
from jbm_kafka.codec.registry_records import SubscriptionRecord, subscriptions_in
from jbm_kafka.core.destination import Queue, Topic
from jbm_kafka.core.jms_errors import InvalidDestinationError
from jbm_kafka.core.subscription import SUBSCRIPTION_ARGUMENT
from jbm_kafka.ports import TopicDescription
from jbm_kafka.registry.channel_group import ChannelGroup
from jbm_kafka.registry.registry_log import RegistryLog


def group_of(
    destination: Queue | Topic,
    described: TopicDescription,
    registry: RegistryLog,
    *,
    namespace: str,
    subscription: str | None,
    client_id: str,
) -> ChannelGroup:
    """The channel group of a queue, or of this subscription of a topic.

    Raises:
        InvalidDestinationError: a queue has no subscriptions; of a topic none was named, or there is none of that name.
    """
    if isinstance(destination, Queue):
        if subscription is not None:
            raise no_subscriptions(destination, subscription)
        return ChannelGroup.of_queue(destination, namespace=namespace, partitions=described.partitions)
    record = _record(destination, registry, subscription, client_id)
    return ChannelGroup.of_subscription(
        record.subscription, record, namespace=namespace, partitions=described.partitions
    )


def _record(topic: Topic, registry: RegistryLog, name: str | None, client_id: str) -> SubscriptionRecord:
    registry.refresh()
    records = [record for _, record in subscriptions_in(registry.values()) if record.subscription.topic == topic]
    for record in records:
        if (record.subscription.name, record.subscription.client_id) == (name, client_id) and not record.is_ending:
            return record
    known = ", ".join(sorted(repr(record.subscription.full_name) for record in records if not record.is_ending))
    told = f"there is no subscription {name!r}{f' with client id {client_id!r}' if client_id else ''}"
    if name is None:
        told = f"it is a topic: name one of its subscriptions with {SUBSCRIPTION_ARGUMENT}"
    lists = f"; jbm-kafka subscriptions list {topic.name} shows them"
    has = f"it has {known} (client id before the /){lists}" if known else "it has none now"
    raise InvalidDestinationError(
        f"{topic}: {told}; {has}",
        destination=topic.name,
        subscription=name,
    )
