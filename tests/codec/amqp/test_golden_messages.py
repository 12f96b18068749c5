"""A Kafka record, a Python message and an AMQP message are the same message."""

import pytest
from proton import Message as ProtonMessage

from jbm_kafka.codec.amqp.decode_transfer import decode_transfer
from jbm_kafka.codec.amqp.encode_transfer import encode_transfer
from jbm_kafka.codec.bodies import body_kind
from jbm_kafka.core.destination import Queue
from jbm_kafka.jms.messages.messages_wire import from_record
from jbm_kafka.jms.messages.object_message import ObjectMessage
from tests.support.golden_messages import GOLDEN, SENT_MS, Golden
from tests.support.records import Record

rows = pytest.mark.parametrize("row", GOLDEN, ids=lambda row: row.name)
ORDERS = Queue("orders")


def record_of(row: Golden) -> Record:
    return Record(value=row.value, key=row.key, headers=row.headers, timestamp_ms=SENT_MS)


@rows
def test_what_another_client_encodes_becomes_the_record(row: Golden) -> None:
    """AMQP-1: proton's own encoder writes, our decoder reads."""
    found = decode_transfer(row.amqp.encode(), now_ms=SENT_MS + 10)
    assert (found.to, found.to_kind, found.timestamp_ms) == ("orders", "queue", SENT_MS)
    assert (sorted(found.headers), found.unit, found.value) == (sorted(row.headers), row.key, row.value)


@rows
def test_the_record_becomes_what_another_client_decodes(row: Golden) -> None:
    """AMQP-1: our encoder writes, proton's own decoder reads."""
    sent = encode_transfer(record_of(row), body_kind(row.headers), ORDERS, delivery_count=2, now_ms=SENT_MS)
    found, wanted = ProtonMessage(), ProtonMessage()
    found.decode(sent)
    wanted.decode(row.amqp.encode())  # so that both came by its decoder, which has types of its own
    assert (found.durable, found.delivery_count, found.first_acquirer) == (True, 2, False)
    for field in (
        "body", "properties", "annotations", "id", "correlation_id", "address", "subject", "reply_to", "user_id",
        "creation_time", "expiry_time", "priority", "group_id", "group_sequence", "reply_to_group_id",
        "content_type", "content_encoding", "inferred",
    ):  # fmt: skip
        mine, theirs = getattr(found, field), getattr(wanted, field)
        assert (field, mine, _types(mine)) == (field, theirs, _types(theirs))


@rows
def test_python_shows_the_record(row: Golden) -> None:
    """AMQP-1, MSG-1."""
    message = from_record(record_of(row), ORDERS, 1, False, None)
    assert type(message).__name__ == row.python_class
    if not isinstance(message, ObjectMessage):
        body = getattr(message, "body", None)
        assert (body if not isinstance(body, tuple) else list(body)) == row.body
    for name, value in row.shown.items():
        shown = getattr(message, name) if hasattr(message, name) else message.properties[name]
        assert (name, shown) == (name, value)


def _types(value: object) -> object:
    if isinstance(value, dict):
        return {name: type(held) for name, held in value.items()}
    return type(value) if not isinstance(value, list) else [type(held) for held in value]
