"""The same messages as a Kafka record, as Python shows them, and as an AMQP client of another hand writes them."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from proton import Message, byte, float32, int32, short, symbol, ulong

from jbm_kafka.codec.scan import Header
from jbm_kafka.codec.typed_values import TypedValue, encode_map, encode_stream

SENT_MS = 1_700_000_000_000


class Golden(NamedTuple):
    """One message, three times."""

    name: str
    headers: Sequence[Header]
    key: bytes | None
    value: bytes | None
    python_class: str
    body: object
    shown: Mapping[str, object]
    """Attributes and properties, as Python shows them."""
    amqp: Message


def _amqp(body: Any, kind: int, *, reply_kind: int | None = None, **fields: Any) -> Message:
    marks = {symbol("x-opt-jms-dest"): byte(0), symbol("x-opt-jms-msg-type"): byte(kind)}
    if reply_kind is not None:
        marks[symbol("x-opt-jms-reply-to")] = byte(reply_kind)
    marks |= fields.pop("annotations", {})
    message = Message(body, inferred=fields.pop("inferred", False), annotations=marks, durable=True, **fields)
    message.address = "orders"
    message.creation_time = SENT_MS / 1000
    return message


_MAP = {"count": TypedValue("int", 7), "rate": TypedValue("double", 0.5), "raw": TypedValue("bytes", b"\0\1")}
_STREAM = (TypedValue("string", "a"), TypedValue("long", 5), TypedValue("null", None), TypedValue("boolean", True))
_ID = ("JMSMessageID", b"ID:one:1")

GOLDEN = (
    Golden(
        "text",
        [_ID, ("JBMBody", b"text")],
        None,
        "grüß".encode(),
        "TextMessage",
        "grüß",
        {"message_id": "ID:one:1", "timestamp": SENT_MS, "priority": 4},
        _amqp("grüß", 5, id="ID:one:1"),
    ),
    Golden(
        "bytes of a unit",
        [_ID, ("jms.string.JMSXGroupID", b"customer-7"), ("jms.int.JMSXGroupSeq", b"3")],
        b"customer-7",
        b"\0\xff",
        "BytesMessage",
        b"\0\xff",
        {"unit_of_order": "customer-7", "JMSXGroupID": "customer-7", "JMSXGroupSeq": 3},
        _amqp(b"\0\xff", 3, id="ID:one:1", inferred=True, group_id="customer-7", group_sequence=3),
    ),
    Golden(
        "map",
        [_ID, ("JBMBody", b"map")],
        None,
        encode_map(_MAP),
        "MapMessage",
        {"count": 7, "rate": 0.5, "raw": b"\0\1"},
        {},
        _amqp({"count": int32(7), "rate": 0.5, "raw": b"\0\1"}, 2, id="ID:one:1"),
    ),
    Golden(
        "stream",
        [_ID, ("JBMBody", b"stream")],
        None,
        encode_stream(_STREAM),
        "StreamMessage",
        ["a", 5, None, True],
        {},
        _amqp(["a", 5, None, True], 4, id="ID:one:1", inferred=True),
    ),
    Golden("no body", [_ID, ("JBMBody", b"none")], None, None, "Message", None, {}, _amqp(None, 0, id="ID:one:1")),
    Golden(
        "text without text",
        [_ID, ("JBMBody", b"text")],
        None,
        None,
        "TextMessage",
        None,
        {},
        _amqp(None, 5, id="ID:one:1"),
    ),
    Golden(
        "headers",
        [
            ("JMSMessageID", b"ID:AMQP_UUID:00000000-0000-0000-0000-000000000007"),
            ("JBMBody", b"text"),
            ("JMSCorrelationID", b"ID:AMQP_ULONG:9"),
            ("JMSType", b"order"),
            ("JMSReplyTo", b"topic:answers"),
            ("JMSPriority", b"9"),
            ("JMSExpiration", b"1700000060000"),
            ("JMSDeliveryTime", b"1700000005000"),
            ("jms.string.JMSXUserID", b"ann"),
            ("jms.string.JMS_AMQP_REPLY_TO_GROUP_ID", b"g2"),
        ],
        None,
        b"",
        "TextMessage",
        "",
        {
            "correlation_id": "ID:AMQP_ULONG:9",
            "type": "order",
            "priority": 9,
            "expiration": 1_700_000_060_000,
            "delivery_time": 1_700_000_005_000,
            "JMSXUserID": "ann",
        },
        _amqp(
            "",
            5,
            reply_kind=1,
            annotations={symbol("x-opt-delivery-time"): SENT_MS + 5000},
            id=UUID(int=7),
            correlation_id=ulong(9),
            subject="order",
            reply_to="answers",
            priority=9,
            expiry_time=1_700_000_060.0,
            user_id=b"ann",
            reply_to_group_id="g2",
        ),
    ),
    Golden(
        "properties",
        [
            _ID,
            ("JBMBody", b"text"),
            ("jms.string.region", "münchen".encode()),
            ("jms.boolean.ok", b"true"),
            ("jms.byte.b", b"-7"),
            ("jms.short.s", b"300"),
            ("jms.int.i", b"-70000"),
            ("jms.long.l", b"9223372036854775807"),
            ("jms.float.f", b"0.1"),
            ("jms.double.d", b"0.1"),
            ("jms.null.nothing", b""),
            ("jms.string.no-name.of-jms", b"x"),
        ],
        None,
        b"x",
        "TextMessage",
        "x",
        {"region": "münchen", "ok": True, "b": -7, "s": 300, "i": -70000, "l": 2**63 - 1, "d": 0.1, "nothing": None},
        _amqp(
            "x",
            5,
            id="ID:one:1",
            properties={
                "region": "münchen",
                "ok": True,
                "b": byte(-7),
                "s": short(300),
                "i": int32(-70000),
                "l": 2**63 - 1,
                "f": float32(0.1),
                "d": 0.1,
                "nothing": None,
                "no-name.of-jms": "x",
            },
        ),
    ),
    Golden(
        "what Java serialized",
        [("content-type", b"application/x-java-serialized-object"), _ID, ("JBMBody", b"object"), ("JBMCodec", b"java")],
        None,
        b"\xac\xed\0\5p",
        "ObjectMessage",
        None,
        {},
        _amqp(b"\xac\xed\0\5p", 1, id="ID:one:1", inferred=True, content_type="application/x-java-serialized-object"),
    ),
)
