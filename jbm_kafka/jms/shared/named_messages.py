"""Adds message ids to errors that name messages by topic, partition and offsets (ACK-9)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import cast

from jbm_kafka.codec.identity import message_id_of
from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.ports import KafkaRecord
from jbm_kafka.ports.deliveries import Delivery
from jbm_kafka.ports.refusals import some_ids

log = logging.getLogger(__name__)

IdsOf = Callable[[str, int, Collection[int]], Mapping[int, str]]
"""The ids of messages by their place: topic, partition, offsets. Raises JMSError when that is not to be known."""


def with_ids(error: Exception, ids_of: IdsOf) -> Exception:
    """The error with the ids of the messages that it is about; as it is, when it is about none or has them."""
    if not isinstance(error, JMSError) or "message_ids" in error.values:
        return error
    topic, partition, offsets = (error.values.get(name) for name in ("topic", "partition", "offsets"))
    if not (isinstance(topic, str) and isinstance(partition, int) and isinstance(offsets, tuple)):
        return error
    try:
        ids = ids_of(topic, partition, offsets)
    except JMSError as unknown:
        log.info("the ids of an error's messages could not be read: %s", unknown)
        text, message_ids = f"{error}; their ids could not be read", tuple[str, ...]()
    else:
        message_ids = tuple(ids[offset] for offset in offsets if offset in ids)
        text = f"{error}; {some_ids(message_ids)}" if message_ids else str(error)
    return type(error)(text, **{**error.values, "message_ids": message_ids})


def ids_in_hand(deliveries: Iterable[Delivery]) -> IdsOf:
    """The ids of messages that the session has."""
    held = list(deliveries)

    def ids_of(topic: str, partition: int, offsets: Collection[int]) -> Mapping[int, str]:
        found: dict[int, str] = {}
        for each in held:
            channel, reference = each.lease.channel, each.reference
            if (channel.topic, channel.partition) == (topic, partition) and reference.offset in offsets:
                record = cast("KafkaRecord | None", reference.record)
                headers = None if record is None else record.headers()
                found[reference.offset] = message_id_of(headers, topic, partition, reference.offset)
        return found

    return ids_of
