"""The values that a selector may ask of a record, by name: header fields and properties, as a receiver sees them.

Only what is asked for is decoded, and never the body.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from jbm_kafka.codec.dead_letter import LAST_ERROR, LAST_ERROR_KIND
from jbm_kafka.codec.identity import GROUP_ID, UNIT_OF_ORDER, message_id_of, unit_name
from jbm_kafka.codec.one_header import header_count, header_property, header_text, last_value
from jbm_kafka.codec.scan import scan
from jbm_kafka.core.delivery_mode import DeliveryMode
from jbm_kafka.core.failure_kind import failure_kind
from jbm_kafka.core.selectors.nodes import Value
from jbm_kafka.ports import KafkaRecord


def record_timestamp_ms(record: KafkaRecord) -> int:
    """JMSTimestamp: its header's, else the record's own."""
    sent_at_ms = header_count(record.headers(), "JMSTimestamp")
    return record.timestamp()[1] if sent_at_ms is None else sent_at_ms


def record_delivery_mode(record: KafkaRecord) -> DeliveryMode:
    """JMSDeliveryMode."""
    is_light = last_value(record.headers(), "JMSDeliveryMode") == b"NON_PERSISTENT"
    return DeliveryMode.NON_PERSISTENT if is_light else DeliveryMode.PERSISTENT


def _message_id(record: KafkaRecord) -> str:
    return message_id_of(record.headers(), record.topic() or "", record.partition() or 0, record.offset() or 0)


def _group_id(record: KafkaRecord) -> Value:
    held = header_property(record.headers(), GROUP_ID)
    return unit_name(record.key()) if held is None else held.value


def _last_error_kind(record: KafkaRecord) -> Value:
    held = header_property(record.headers(), LAST_ERROR)
    return failure_kind(held.value) if held is not None and isinstance(held.value, str) and held.value else None


_BY_NAME: Mapping[str, Callable[[KafkaRecord], Value]] = MappingProxyType(
    {
        "JMSDeliveryMode": lambda record: record_delivery_mode(record).name,
        "JMSPriority": lambda record: scan(record.headers()).priority,
        "JMSMessageID": _message_id,
        "JMSTimestamp": record_timestamp_ms,
        "JMSCorrelationID": lambda record: header_text(record.headers(), "JMSCorrelationID"),
        "JMSType": lambda record: header_text(record.headers(), "JMSType"),
        GROUP_ID: _group_id,
        LAST_ERROR_KIND: _last_error_kind,
        UNIT_OF_ORDER: lambda record: unit_name(record.key()),
    }
)


def record_value(record: KafkaRecord, name: str) -> Value:
    """The value of a header field or property; None when the message has none of this name."""
    read = _BY_NAME.get(name)
    if read is not None:
        return read(record)
    held = header_property(record.headers(), name)
    return None if held is None else held.value
