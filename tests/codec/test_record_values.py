"""What a selector is told of a record is what a receiver of the message sees."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jbm_kafka import Queue
from jbm_kafka.codec.headers import DECODE_ERROR
from jbm_kafka.codec.record_values import record_value
from jbm_kafka.codec.scan import Header
from jbm_kafka.core.selectors.nodes import Value
from jbm_kafka.jms.messages.message import Message
from jbm_kafka.jms.messages.messages_wire import from_record
from tests.support.any_headers import property_names, records_headers
from tests.support.records import Record


def received(record: Record) -> Message:
    return from_record(
        record,
        destination=Queue("orders"),
        delivery_count=1,
        redelivered=False,
        settler=None,
    )


@given(headers=records_headers, unset=property_names, key=st.sampled_from([None, b"", b"joe", b"\xff"]))
def test_each_name_has_the_value_that_the_message_shows(headers: list[Header], unset: str, key: bytes | None) -> None:
    """Of SEL-1: properties by their type, header fields, the unit as JMSXGroupID."""
    record = Record(headers=headers, key=key)
    message = received(record)
    of_headers: dict[str, Value] = {
        "JMSDeliveryMode": message.delivery_mode.name,
        "JMSPriority": message.priority,
        "JMSMessageID": message.message_id,
        "JMSTimestamp": message.timestamp,
        "JMSCorrelationID": message.correlation_id,
        "JMSType": message.type,
    }
    assert {name: record_value(record, name) for name in of_headers} == of_headers
    names = {*message.properties, unset, "JMSXGroupID", "JMS_BEA_UnitOfOrder"} - {DECODE_ERROR} - of_headers.keys()
    for name in names:
        # By their text, for NaN is not equal to itself.
        assert repr(record_value(record, name)) == repr(message.get_object_property(name)), name


@pytest.mark.parametrize(
    ("headers", "name", "value"),
    [
        ([], "JMSTimestamp", 1_700_000_000_000),
        ([], "JMSMessageID", "ID:kafka:orders:3:17"),
        ([], "JMSDeliveryMode", "PERSISTENT"),
        ([("JMSDeliveryMode", b"NON_PERSISTENT")], "JMSDeliveryMode", "NON_PERSISTENT"),
        ([], "JMSPriority", 4),
        ([], "JMSType", None),
        ([("jms.int.qty", b"11")], "qty", 11),
        ([("jms.long.qty", b"9007199254740993")], "qty", 9007199254740993),
        ([("jms.float.ratio", b"0.1")], "ratio", 0.10000000149011612),
        ([("jms.boolean.paid", b"true")], "paid", True),
        ([("jms.null.paid", b"")], "paid", None),
        ([("trace", b"7")], "trace", "7"),
        ([("jms.string.JMSXGroupID", b"own")], "JMSXGroupID", "own"),
        ([], "JMSXGroupID", "joe"),
        ([], "JMS_BEA_UnitOfOrder", "joe"),
    ],
)
def test_a_name_stands_for(headers: list[Header], name: str, value: Value) -> None:
    found = record_value(Record(headers=headers, key=b"joe"), name)
    assert (found, type(found)) == (value, type(value))
