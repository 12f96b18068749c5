"""`json=` and `headers=` of a send, and `message.json()`."""

from dataclasses import dataclass
from typing import Any

import pytest

from jbm_kafka import AcknowledgeMode, BytesMessage, Connection, MapMessage, ObjectMessage, Queue, Session, TextMessage
from jbm_kafka.errors import MessageFormatError
from tests.jms.support import receive, receive_all

NESTED = {"id": 7, "lines": [{"sku": "é", "qty": 1.5}, None, True]}


@dataclass
class Line:
    sku: str
    qty: int


class Model:
    """As Pydantic's."""

    def model_dump(self, *, mode: str) -> dict[str, object]:
        return {"mode": mode}


class Own:
    def __json__(self) -> object:
        return [1, 2]


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (NESTED, NESTED),
        ([], []),
        (None, None),
        ("text", "text"),
        (Line("a", 2), {"sku": "a", "qty": 2}),
        ({"lines": [Line("a", 2)], "model": Model(), "own": Own()},
         {"lines": [{"sku": "a", "qty": 2}], "model": {"mode": "json"}, "own": [1, 2]}),
    ],
)  # fmt: skip
def test_json_goes_as_a_text_and_comes_back(session: Session, orders: Queue, given: object, read: object) -> None:
    """MSG-1: any client reads it as JSON, by its content type."""
    session.create_producer(orders).send(json=given, unit_of_order="joe")
    message = receive(session.create_consumer(orders))
    assert isinstance(message, TextMessage)
    assert message.json() == read
    assert message.kafka is not None
    assert dict(message.kafka.headers)["content-type"] == b"application/json"
    assert message.unit_of_order == "joe"


@pytest.mark.parametrize("value", [float("nan"), {1, 2}, "\ud800", object()])
def test_what_json_cannot_carry_is_refused(session: Session, orders: Queue, value: object) -> None:
    with pytest.raises(MessageFormatError, match="json is "):
        session.create_producer(orders).send(json=value)


def test_a_message_and_json_are_one_too_many_and_neither_is_too_few(session: Session, orders: Queue) -> None:
    producer = session.create_producer(orders)
    with pytest.raises(MessageFormatError, match="give one of them"):
        producer.send("a", json=1)
    with pytest.raises(MessageFormatError, match="no message"):
        producer.send()


def test_json_of_bodies() -> None:
    assert TextMessage('{"a": 1}').json() == {"a": 1}
    assert BytesMessage(b"[1]").json() == [1]
    assert ObjectMessage({"a": 1}).json() == {"a": 1}
    for wrong in (TextMessage("{"), TextMessage(None), BytesMessage(b"\xff"), MapMessage({"a": 1})):
        with pytest.raises(MessageFormatError):
            wrong.json()


def test_raw_headers_are_kept_as_they_are(connection: Connection, session: Session, orders: Queue) -> None:
    """MSG-1: whoever passes trace context or CloudEvents on needs nothing of ours."""
    given: dict[str, bytes | None] = {"traceparent": b"00-ab", "ce_id": b"\xff\x00", "empty": b"", "null": None}
    session.create_producer(orders).send("a", headers=given)
    with connection.create_session(AcknowledgeMode.TRANSACTED) as transacted:
        transacted.create_producer(orders).send(json=[1], headers=given)
        transacted.commit()
    for message in receive_all(session.create_consumer(orders), 2):
        assert message.kafka is not None
        assert {name: value for name, value in message.kafka.headers if name in given} == given
        assert message.properties["traceparent"] == "00-ab", "it is a text, and a property may have its name"


def test_a_header_replaces_what_a_message_came_with(session: Session, orders: Queue) -> None:
    producer, consumer = session.create_producer(orders), session.create_consumer(orders)
    producer.send("a", headers={"traceparent": b"1", "other": b"2"})
    producer.send(receive(consumer), headers={"traceparent": b"3"})
    message = receive(consumer)
    assert message.kafka is not None
    assert [header for header in message.kafka.headers if header[0] in ("traceparent", "other")] == [
        ("other", b"2"),
        ("traceparent", b"3"),
    ]


@pytest.mark.parametrize(
    "headers", [{"JMSPriority": b"9"}, {"jms.int.a": b"1"}, {"JBMBody": b"map"}, {"a": "text"}, {"": b""}, {1: b""}, 7]
)
def test_headers_of_ours_and_what_is_no_header_are_refused(session: Session, orders: Queue, headers: Any) -> None:
    with pytest.raises(MessageFormatError, match="headers"):
        session.create_producer(orders).send("a", headers=headers)
