"""Which messages a channel group delivers, and under which names Kafka knows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from jbm_kafka.codec.registry_records import SubscriptionRecord
from jbm_kafka.core.channel.companion_group import companion_of
from jbm_kafka.core.channel.log_id import log_id
from jbm_kafka.core.destination import Destination, Queue, with_namespace
from jbm_kafka.core.subscription import Source, Subscription, destination_of
from jbm_kafka.core.temporary_name import TEMPORARY_TOPIC


@dataclass(frozen=True, slots=True)
class ChannelGroup:
    """All channels of one queue or one subscription: one consumer group over one topic."""

    destination: Destination
    group_id: str
    """The id of the consumer group."""
    topic: str
    changelog_topic: str
    partitions: int
    """How many the topic had when the group was joined; 0 for one that only looks."""
    subscription: Subscription | None = None
    """None: a queue's."""
    record: SubscriptionRecord | None = None
    """The registry's record of the subscription; None: a queue's group."""
    begun: str = ""
    """Tells which subscription of its name this is where a temporary topic has it, of which the registry says
    nothing."""

    @classmethod
    def of_queue(cls, queue: Queue, *, namespace: str, partitions: int = 0) -> ChannelGroup:
        """The group of a queue's receivers."""
        return cls(
            destination=queue,
            group_id=queue.group_id(namespace),
            topic=queue.kafka_topic(namespace),
            changelog_topic=queue.changelog_topic(namespace),
            partitions=partitions,
        )

    @classmethod
    def of_subscription(
        cls, subscription: Subscription, record: SubscriptionRecord, *, namespace: str, partitions: int = 0
    ) -> ChannelGroup:
        """The group of a subscription's receivers."""
        return cls(
            destination=subscription.topic,
            group_id=subscription.group_id(namespace),
            topic=subscription.topic.kafka_topic(namespace),
            changelog_topic=subscription.topic.changelog_topic(namespace),
            partitions=partitions,
            subscription=subscription,
            record=record,
        )

    @classmethod
    def of_private(cls, subscription: Subscription, *, namespace: str, partitions: int) -> ChannelGroup:
        """The receiver of a private subscription; Kafka knows no such group (decision 81)."""
        return cls(
            destination=subscription.topic,
            group_id=subscription.group_id(namespace),
            topic=subscription.topic.kafka_topic(namespace),
            changelog_topic="",
            partitions=partitions,
            subscription=subscription,
        )

    @classmethod
    def of_temporary(cls, source: Source, *, namespace: str, begun: str = "") -> ChannelGroup:
        """The receivers of a temporary queue or of a subscription of a temporary topic; Kafka knows no such group."""
        return cls(
            destination=destination_of(source),
            group_id=source.group_id(namespace),
            topic=with_namespace(TEMPORARY_TOPIC, namespace),
            changelog_topic="",
            partitions=1,
            subscription=source if isinstance(source, Subscription) else None,
            begun=begun,
        )

    @property
    def companion(self) -> str:
        """The group whose offsets tell how many messages are parked."""
        return companion_of(self.group_id)

    @property
    def is_temporary(self) -> bool:
        """It is of a temporary destination (decision 33)."""
        return self.destination.is_temporary

    @property
    def is_recorded(self) -> bool:
        """Where not, its part of a checkpoint is applied and not written, and no group is joined."""
        return bool(self.changelog_topic)

    @property
    def incarnation(self) -> str:
        """Another one for each subscription that ever had the name; a queue has none."""
        return self.begun if self.record is None else self.record.incarnation

    def log_id(self, topic_id: str) -> str:
        """Return what the group's positions are about: a log, and of a subscription the part since it was made."""
        return log_id(topic_id, self.incarnation)

    def begins(self, topic_id: str) -> Mapping[int, int]:
        """Where a channel begins that nothing is recorded of, by partition; of the others at the log's start."""
        if self.record is None or self.record.topic_id != topic_id:
            return {}
        return dict(enumerate(self.record.begins))

    def __str__(self) -> str:
        return str(self.subscription or self.destination)
