"""Which messages a channel group delivers, and under which names Kafka knows it."""

from __future__ import annotations

from dataclasses import dataclass

from jbm_kafka.core.destination import Destination, Queue


@dataclass(frozen=True, slots=True)
class ChannelGroup:
    """All channels of one queue: one consumer group over one topic."""

    destination: Destination
    group_id: str
    """Of the consumer group."""
    topic: str
    changelog_topic: str
    partitions: int
    """How many the topic had when the group was joined."""

    @classmethod
    def of_queue(cls, queue: Queue, *, namespace: str, partitions: int) -> ChannelGroup:
        """The group of a queue's receivers."""
        return cls(
            destination=queue,
            group_id=queue.group_id(namespace),
            topic=queue.kafka_topic(namespace),
            changelog_topic=queue.changelog_topic(namespace),
            partitions=partitions,
        )

    def __str__(self) -> str:
        return str(self.destination)
