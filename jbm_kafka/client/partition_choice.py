"""Which partition a message goes to, whoever sends it."""

from __future__ import annotations

from jbm_kafka.core.jms_errors import OrderError
from jbm_kafka.core.murmur2 import partition_for
from jbm_kafka.ports.provider import TopicInfo


def partition_of(info: TopicInfo, unit: bytes | None, duplicate_id: bytes | None, without_unit: bytes) -> int | None:
    """Return the partition for a message: by its unit, else by its duplicate id, else that of `without_unit` (ORDER-1).

    `without_unit` is the sender's: all that it sends with neither goes to one partition, and so stays in order. None is
    returned where it must be recorded first in which partition the unit is (`Provider.place_unit`).

    Raises:
        OrderError: the topic has got more partitions than its units are routed by.
    """
    if unit is not None:
        if not info.takes_units:
            raise other_count(info)
        return info.partition(unit)
    if duplicate_id is not None:
        return partition_for(duplicate_id, info.unit_partitions)
    return partition_for(without_unit, info.partitions)


def other_count(info: TopicInfo) -> OrderError:
    """Return the error for sending a unit to a topic that has got more partitions."""
    return OrderError(
        f"{info.topic} has {info.partitions} partitions now, and its units are routed by {info.unit_partitions}: by "
        f"another count they would leave their earlier messages behind. Let them be routed anew, each when nothing of "
        f"it is left, with: jbm-kafka admit-partitions {info.topic}; messages without a unit can be sent meanwhile",
        topic=info.topic,
        partitions=info.partitions,
        unit_partitions=info.unit_partitions,
    )
