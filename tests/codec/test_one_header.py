"""One header asked for alone tells what it tells among all of them."""

from hypothesis import given

from jbm_kafka.codec.headers import DECODE_ERROR, decode_headers
from jbm_kafka.codec.one_header import (
    header_count,
    header_property,
    header_property_value,
    header_reply_to,
    header_text,
)
from jbm_kafka.codec.scan import Header
from jbm_kafka.core.sentinels import UNSET
from tests.support.any_headers import property_names, records_headers


@given(headers=records_headers)
def test_each_header_alone_reads_as_among_all(headers: list[Header]) -> None:
    """MSG-2."""
    decoded = decode_headers(headers)
    assert header_text(headers, "JMSMessageID") == decoded.message_id
    assert header_text(headers, "JMSCorrelationID") == decoded.correlation_id
    assert header_text(headers, "JMSType") == decoded.type
    assert header_count(headers, "JMSTimestamp") == decoded.timestamp_ms
    assert header_reply_to(headers) == decoded.reply_to


@given(headers=records_headers, unset=property_names)
def test_each_property_alone_reads_as_among_all(headers: list[Header], unset: str) -> None:
    """MSG-2: of several headers of one name the last typed one counts, typed beats plain."""
    properties = decode_headers(headers).properties
    for name in {*properties, unset, *(header for header, _ in headers)} - {DECODE_ERROR}:
        # By their text, for NaN is not equal to itself.
        held = properties.get(name)
        assert repr(header_property(headers, name)) == repr(held), name
        assert repr(header_property_value(headers, name)) == repr(UNSET if held is None else held.value), name
