"""The copy of a foreign record has the id under which receivers saw the original."""

import pytest

from jbm_kafka.codec.scan import Header
from jbm_kafka.core.channel.departure import Departure
from jbm_kafka.core.channel.reference import Reference
from jbm_kafka.core.destination import Queue
from jbm_kafka.jms.messages.messages_wire import from_record
from jbm_kafka.ports.provider import TopicInfo
from jbm_kafka.sidecar.channel.departure_records import as_told, copy_of, hoped_bytes
from tests.support.records import Record

DLQ = TopicInfo("DLQ", "d", 1, 1_000_000)


@pytest.mark.parametrize(
    ("kind", "value", "reason"),
    [
        (b"text", b"\xff", "undecodable"),
        (b"map", b"no avro", "undecodable"),
        (b"video", b"x", "undecodable"),
        (b"text", b"x", "max-delivery-attempts"),
        (b"text", None, "max-delivery-attempts"),
    ],
)
def test_the_reason_tells_of_a_body_that_cannot_be_read(kind: bytes, value: bytes | None, reason: str) -> None:
    """Of REDELIVER-4: of used-up attempts only; what expired has expired, whatever is in it."""
    record = Record(headers=[("JBMBody", kind)], value=value)
    assert as_told(Departure(Reference(17, None, record=record), 2, "max-delivery-attempts")).reason == reason
    assert as_told(Departure(Reference(17, None, record=record), 2, "expired")).reason == "expired"
    assert as_told(Departure(Reference(17, None), 2, "max-delivery-attempts")).reason == "max-delivery-attempts"


def test_of_an_object_of_a_codec_that_is_not_known_here_the_reason_tells_nothing() -> None:
    """The process that gives it up may be an administrator's; it stays an object, which others can read."""
    record = Record(headers=[("JBMBody", b"object"), ("JBMCodec", b"theirs")], value=b"x")
    assert as_told(Departure(Reference(17, None, record=record), 2, "max-delivery-attempts")).reason != "undecodable"


@pytest.mark.parametrize("reason", ["max-delivery-attempts", "expired"])
@pytest.mark.parametrize(
    ("headers", "message_id"),
    [
        ([], "ID:kafka:orders:3:17"),
        ([("JMSMessageID", None)], "ID:kafka:orders:3:17"),
        ([("JMSMessageID", b"")], "ID:kafka:orders:3:17"),
        ([("JMSMessageID", b"\xff")], "ID:kafka:orders:3:17"),
        ([("JMSMessageID", b"ID:a"), ("JMSMessageID", b"\xff")], "ID:kafka:orders:3:17"),
        ([("JMSMessageID", b"ID:a"), ("JMSMessageID", b"ID:b"), ("JMSMessageID", None)], "ID:b"),
    ],
)
def test_a_copy_has_the_id_that_receivers_saw(headers: list[Header], message_id: str, reason: str) -> None:
    """Of REDELIVER-4: in its own header and in _JBM_ORIG_MESSAGE_ID."""
    queue = Queue("orders")
    original = Record(headers=headers)
    assert from_record(original, queue, 1, False, None).message_id == message_id
    leaving = Departure(Reference(17, None, record=original), 2, reason)
    copy, _ = copy_of(leaving, source=queue, target=DLQ, now_ms=5, compressed=hoped_bytes)
    made = Record(headers=copy.headers, topic="DLQ", offset=0)
    letter = from_record(made, Queue("DLQ"), 1, False, None)
    assert letter.message_id == message_id == letter.properties["_JBM_ORIG_MESSAGE_ID"]
    assert "_JBM_DECODE_ERROR" not in letter.properties
