"""Which subscription an administrator means."""

from __future__ import annotations

from jbm_kafka.codec.registry_records import SubscriptionRecord, subscriptions_in
from jbm_kafka.core.destination import Topic
from jbm_kafka.core.jms_errors import InvalidDestinationError
from jbm_kafka.registry.registry_log import RegistryLog


def found_subscription(registry: RegistryLog, topic: Topic, name: str, client_id: str) -> SubscriptionRecord:
    """The topic's subscription of this name, as the registry has it when it is called; a durable one before others.

    Raises:
        InvalidDestinationError: there is none; the text names those of the topic.
        KafkaClientError: no answer.
    """
    registry.refresh()
    records = [record for _, record in subscriptions_in(registry.values()) if not record.is_ending]
    of_topic = [record for record in records if record.subscription.topic == topic]
    meant = [each for each in of_topic if (each.subscription.name, each.subscription.client_id) == (name, client_id)]
    if meant:
        return max(meant, key=lambda each: each.subscription.is_durable)
    others = ", ".join(sorted(repr(each.subscription.full_name) for each in of_topic))
    hint = f"it has {others} (client id before the /)" if others else "it has none"
    told = f"{name!r} with client id {client_id!r}" if client_id else repr(name)
    raise InvalidDestinationError(
        f"{topic}: there is no subscription {told}: {hint}", destination=topic.name, name=name
    )
