"""Headers of records and of messages, both ways."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jbm_kafka.codec.headers import carried_headers, decode_headers, encode_headers
from jbm_kafka.codec.property_header import Property
from jbm_kafka.codec.scan import Header, Scanned
from jbm_kafka.core.delivery_mode import DeliveryMode
from jbm_kafka.core.destination import Queue, Topic

texts = st.text(st.characters(exclude_categories=["Cs"]))
names = st.sampled_from(["region", "qty", "_x", "JMSXGroupID", "größe"])
values = st.one_of(
    texts.map(lambda value: Property("string", value)),
    st.integers(-(2**63), 2**63 - 1).map(lambda value: Property("long", value)),
    st.booleans().map(lambda value: Property("boolean", value)),
    st.just(Property("null", None)),
)


@given(
    fields=st.fixed_dictionaries(
        {},
        optional={
            "message_id": texts,
            "timestamp_ms": st.integers(1, 2**62),
            "correlation_id": texts,
            "type": texts,
            "reply_to": st.sampled_from([Queue("replies"), Topic("prices")]),
            "delivery_mode": st.sampled_from([DeliveryMode.PERSISTENT, DeliveryMode.NON_PERSISTENT]),
            "sender": texts,
            "properties": st.dictionaries(names, values),
        },
    ),
    priority=st.integers(0, 9),
    expiration_ms=st.integers(0, 2**62),
    delivery_time_ms=st.integers(0, 2**62),
    duplicate_id=st.none() | texts,
)
def test_headers_read_back_as_they_were_written(
    fields: dict[str, Any], priority: int, expiration_ms: int, delivery_time_ms: int, duplicate_id: str | None
) -> None:
    """Of MSG-1."""
    headers = encode_headers(
        **fields,
        priority=priority,
        expiration_ms=expiration_ms,
        delivery_time_ms=delivery_time_ms,
        duplicate_id=duplicate_id,
    )
    decoded = decode_headers(headers)
    defaults: dict[str, Any] = {
        "message_id": None,
        "timestamp_ms": None,
        "correlation_id": None,
        "type": None,
        "reply_to": None,
        "delivery_mode": DeliveryMode.PERSISTENT,
        "sender": None,
        "properties": {},
    }
    id_bytes = None if duplicate_id is None else duplicate_id.encode()
    assert decoded.scanned == Scanned(priority, expiration_ms, delivery_time_ms, id_bytes)
    assert {name: getattr(decoded, name) for name in defaults} == {**defaults, **fields}
    assert len({name for name, _ in headers}) == len(headers)


def test_a_header_at_its_default_is_not_written() -> None:
    assert encode_headers() == []
    assert encode_headers(delivery_mode=DeliveryMode.PERSISTENT_GROUPACK, priority=4) == []
    assert encode_headers(message_id="ID:1", body_kind=b"text", priority=0) == [
        ("JMSMessageID", b"ID:1"),
        ("JBMBody", b"text"),
        ("JMSPriority", b"0"),
    ]


def properties(headers: list[Header]) -> dict[str, Property]:
    return dict(decode_headers(headers).properties)


def test_of_several_the_last_typed_one_wins_and_typed_beats_plain() -> None:
    headers: list[Header] = [("jms.int.x", b"1"), ("x", b"plain"), ("jms.string.x", b"2"), ("x", b"later")]
    assert properties(headers) == {"x": Property("string", "2")}
    assert properties([*headers, ("jms.long.x", b"3")]) == {"x": Property("long", 3)}
    assert properties([("x", b"1"), ("x", b"2")]) == {"x": Property("string", "2")}


def test_foreign_headers_are_seen_where_jms_can_show_them() -> None:
    """MSG-2."""
    headers: list[Header] = [
        ("traceparent", b"00-4b"),
        ("content-type", b"text/plain"),
        ("nothing", None),
        ("binary", b"\xff\x00"),
        ("JMSFuture", b"1"),
        ("null", b"1"),
        ("jms.decimal.x", b"1.5"),
        ("jms.int.a-b", b"1"),
        ("jms.null.gone", b""),
        ("jms.int.unset", None),
    ]
    assert properties(headers) == {
        "traceparent": Property("string", "00-4b"),
        "nothing": Property("null", None),
        "gone": Property("null", None),
        "unset": Property("null", None),
    }


def test_a_header_whose_name_was_not_utf_8_is_told_and_carried_on() -> None:
    """MSG-2: why a property that its sender wrote is not there."""
    headers: list[Header] = [("caf\N{REPLACEMENT CHARACTER}", b"2"), ("ok", b"1")]
    assert properties(headers) == {
        "ok": Property("string", "1"),
        "_JBM_DECODE_ERROR": Property("string", "the name of the header 'caf\N{REPLACEMENT CHARACTER}' is not UTF-8"),
    }
    assert carried_headers(headers) == headers


def test_what_cannot_be_decoded_is_told_and_the_rest_is_there() -> None:
    """MSG-2: never fatal."""
    headers: list[Header] = [
        ("JMSType", b"\xff"),
        ("JMSCorrelationID", None),
        ("JMSReplyTo", b"nowhere"),
        ("JMSTimestamp", b"soon"),
        ("jms.int.qty", b"many"),
        ("jms.string.raw", b"\xfe"),
        ("jms.int.n", b"5"),
    ]
    decoded = decode_headers(headers)
    assert (decoded.type, decoded.correlation_id, decoded.reply_to, decoded.timestamp_ms) == (None, None, None, None)
    assert decoded.properties["qty"] == Property("string", "many")
    assert decoded.properties["n"] == Property("int", 5)
    assert "raw" not in decoded.properties
    reason = str(decoded.properties["_JBM_DECODE_ERROR"].value)
    for part in (
        "JMSType is not UTF-8",
        "'nowhere' is not a destination",
        "jms.int.qty: 'many'",
        "jms.string.raw is not UTF-8",
    ):
        assert part in reason


own_names = st.sampled_from(
    [
        "JMSMessageID",
        "JMSTimestamp",
        "JMSCorrelationID",
        "JMSType",
        "JMSReplyTo",
        "JMSDeliveryMode",
        "JMSPriority",
        "JMSExpiration",
        "JMSDeliveryTime",
        "JBMBody",
        "JBMDuplicateID",
        "JBMSender",
        "JBMTemporary",
    ]
)
other_names = st.one_of(
    st.text().filter(lambda name: not name.startswith(("JMS", "JBM"))), names.map(lambda name: f"jms.int.{name}")
)
raw_values = st.none() | st.binary()


@given(
    own=st.lists(st.tuples(own_names, raw_values)),
    others=st.lists(st.tuples(other_names, raw_values)),
    others_first=st.booleans(),
)
def test_no_headers_of_any_kind_fail_the_decoding_and_others_are_carried_on(
    own: list[Header], others: list[Header], others_first: bool
) -> None:
    """MSG-2."""
    headers = others + own if others_first else own + others
    decode_headers(headers)
    assert carried_headers(headers) == others


FOREIGN: list[Header] = [("content-type", b"x"), ("binary", b"\xff"), ("content-type", b"y"), ("JMSFuture", b"1")]


def test_what_is_not_ours_is_carried_on_untouched() -> None:
    """Of MSG-1: a received message can be sent on; its foreign headers go along, in order."""
    headers: list[Header] = [
        ("JMSMessageID", b"ID:1"),
        ("JMSExpiration", b"5"),
        ("JBMDuplicateID", b"d"),
        ("JBMBody", b"text"),
        *FOREIGN,
        ("seen", b"1"),
        ("jms.int.bad", b"x"),
    ]
    assert carried_headers(headers) == [*FOREIGN, ("seen", b"1"), ("jms.int.bad", b"x")]
    assert carried_headers(headers, with_properties=False) == FOREIGN
    assert carried_headers(None) == []


@pytest.mark.parametrize("value", [b"PERSISTENT", b"1", b"non_persistent", None])
def test_only_the_word_non_persistent_makes_a_message_so(value: bytes | None) -> None:
    assert decode_headers([("JMSDeliveryMode", value)]).delivery_mode is DeliveryMode.PERSISTENT
    assert decode_headers([("JMSDeliveryMode", b"NON_PERSISTENT")]).delivery_mode is DeliveryMode.NON_PERSISTENT
