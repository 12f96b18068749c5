"""The message that an application is in: which, and since when. The owner thread's question, which changes nothing."""

from __future__ import annotations

from typing import NamedTuple

from jbm_kafka.codec.identity import message_id_of
from jbm_kafka.core.channel.reference import GateKey
from jbm_kafka.ports import KafkaRecord
from jbm_kafka.ports.link import Link
from jbm_kafka.sidecar.channel.group_data import GroupData


class CurrentDelivery(NamedTuple):
    """The message that a consumer's listener is in, or that its application took last and has not finished."""

    topic: str
    partition: int
    offset: int
    has_unit: bool
    gate_key: GateKey
    """Where the later ones of its unit wait."""
    message_id: str
    ago_ms: int
    """Since it was taken, about."""


def current_delivery_of(data: GroupData, link: Link) -> CurrentDelivery | None:
    """None: the application has asked since, or finished it."""
    delivery = link.buffer.taken
    if delivery is None:
        return None
    partition, offset = delivery.place
    if not link.demand.is_in_listener:
        channel = data.channels.get(partition)
        hand = {} if channel is None else channel.state.in_hand.get(link.terms.session_id, {})
        if offset not in hand or offset in link.unread(partition):
            return None
    record: KafkaRecord = delivery.reference.record  # type: ignore[assignment]
    topic = delivery.lease.channel.topic
    message_id = message_id_of(record.headers(), topic, partition, offset)
    ago_ms = link.demand.asked_ms_ago(data.clock.monotonic_ms())
    reference = delivery.reference
    return CurrentDelivery(topic, partition, offset, reference.unit is not None, reference.gate_key, message_id, ago_ms)
