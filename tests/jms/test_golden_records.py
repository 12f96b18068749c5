"""MSG-2, of LOG-1 and MSG-1: a record and the JMS message it is, as tests/golden/records.json has them.

The file was written by hand from docs/topics.md. What reads or writes records in another language reads the same file.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from jbm_kafka.core.destination import Queue
from jbm_kafka.jms.messages.message import Message
from jbm_kafka.jms.messages.messages_wire import from_record, to_record
from jbm_kafka.jms.messages.object_message import ObjectMessage
from tests.support.records import Record

FILE = Path(__file__).parents[1] / "golden/records.json"
CASES: list[dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))["cases"]


def to_bytes(text: Any) -> bytes | None:
    if text is None:
        return None
    return bytes.fromhex(text["hex"]) if isinstance(text, dict) else str(text).encode()


def message_of(case: dict[str, Any]) -> Message:
    headers = [(name, to_bytes(value)) for name, value in case["headers"]]
    record = Record(key=to_bytes(case["key"]), value=to_bytes(case["value"]), headers=headers or None)
    return from_record(record, destination=Queue("orders"), delivery_count=1, redelivered=False, settler=None)


def view(message: Message) -> dict[str, Any]:
    body: Any
    if isinstance(message, ObjectMessage) and message.codec != "json":
        body = {"codec": message.codec, "hex": message.data.hex()}
    else:
        body = message.body
    held = {name: message._property(name) for name in message.properties}
    return {
        "kind": type(message).__name__,
        "body": {"hex": body.hex()} if isinstance(body, bytes) else body,
        "message_id": message.message_id,
        "timestamp": message.timestamp,
        "correlation_id": message.correlation_id,
        "type": message.type,
        "reply_to": None if message.reply_to is None else str(message.reply_to),
        "delivery_mode": message.delivery_mode.name,
        "priority": message.priority,
        "expiration": message.expiration,
        "delivery_time": message.delivery_time,
        "unit_of_order": message.unit_of_order,
        # JSON has no infinity: there a number is written as its text.
        "properties": {
            name: [each.type, "-Infinity" if each.value == float("-inf") else each.value]
            for name, each in held.items()
            if each is not None
        },
    }


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["about"])
def test_a_record_is_the_message_that_the_golden_file_says(case: dict[str, Any]) -> None:
    assert view(message_of(case)) == case["view"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["about"])
def test_a_message_sent_on_unchanged_is_the_same_message_again(case: dict[str, Any]) -> None:
    message = message_of(case)
    key = to_bytes(case["key"])
    encoded = to_record(message, write_timestamp=True)
    again = from_record(
        Record(key=key, value=encoded.value, headers=encoded.headers),
        destination=Queue("orders"),
        delivery_count=1,
        redelivered=False,
        settler=None,
    )
    assert view(again) == case["view"]
