"""Bodies are shown as what they are (LOOK-2)."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from jbm_kafka import Queue
from jbm_kafka.admin import Admin, StoredMessage
from jbm_kafka.console.messages.shown_body import BYTES_SHOWN, DEPTH_MAX, TEXT_SHOWN, VALUES_SHOWN, shown_body
from jbm_kafka.jms.session import Session
from jbm_kafka.memory.memory_kafka import MemoryKafka
from jbm_kafka.ports import Headers, Outgoing
from jbm_kafka.testing.memory_world import MemoryWorld


class Log:
    """A queue of one partition, and what was sent to it last."""

    def __init__(self, world: MemoryWorld, admin: Admin) -> None:
        self.world, self.admin, self.offset = world, admin, 0
        admin.create_queue("orders", partitions=1)

    def sent(self, body: Any) -> StoredMessage:
        with self.world.factory().create_connection() as connection, connection.create_session() as session:
            message = body(session) if callable(body) else body
            session.create_producer(Queue("orders")).send(message)
        return self.latest()

    def written(self, value: bytes | None, *headers: tuple[str, bytes]) -> StoredMessage:
        """By another producer."""
        given: Headers = headers
        sender = MemoryKafka(self.world._world.cluster).sender()
        sender.send(Outgoing("orders", 0, None, value, given), None)
        sender.flush(5)
        return self.latest()

    def latest(self) -> StoredMessage:
        found = self.admin.message_at("orders", 0, self.offset)
        assert found is not None
        self.offset += 1
        return found


@pytest.fixture
def log() -> Iterator[Log]:
    with MemoryWorld() as world, Admin(world.url) as admin:
        yield Log(world, admin)


def test_text_is_shown_as_it_is(log: Log) -> None:
    text = "<script>alert('x')</script>\r\n\u202eevil"
    shown = shown_body(log.sent(text))
    assert (shown.kind, shown.announced, shown.text, shown.is_whole) == ("text", "text", text, True)
    assert shown.bytes == len(text.encode())


def test_json_is_folded_and_kept_as_it_was_written(log: Log) -> None:
    """`1.10` and the order of names are the sender's."""
    text = '{"b": 1.10, "a": [true, null, {"c": "x"}]}'
    shown = shown_body(log.sent(text))
    assert (shown.kind, shown.has_tree, shown.text) == ("json", True, text)
    assert shown.tree == {"b": 1.1, "a": [True, None, {"c": "x"}]}
    assert list(shown.tree) == ["b", "a"]


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        "[" * (DEPTH_MAX + 1) + "]" * (DEPTH_MAX + 1),
        json.dumps(list(range(5_000))),
        '{"a": NaN}',
        '{"a": 1',
        '["' + "9" * 10 + '", ' + "9" * 5_000 + "]",
        "17",
    ],
)
def test_what_is_no_json_or_too_much_of_it_is_text(log: Log, text: str) -> None:
    shown = shown_body(log.sent(text))
    assert (shown.kind, shown.has_tree) == ("text", False)
    assert shown.text == text[:TEXT_SHOWN]


def test_twenty_megabytes_are_shown_in_part_with_their_size(log: Log) -> None:
    log.admin._core.admin.alter_config("orders", {"max.message.bytes": str(30 * 2**20)})
    size = 20 * 2**20
    shown = shown_body(log.written(b"x" * size, ("JBMBody", b"text")))
    assert (shown.kind, shown.bytes, shown.shown_bytes, shown.is_whole) == ("text", size, TEXT_SHOWN, False)
    assert len(shown.text) == TEXT_SHOWN
    raw = shown_body(log.written(b"\xff" * size))
    assert (raw.kind, raw.bytes, raw.shown_bytes, raw.is_whole) == ("bytes", size, BYTES_SHOWN, False)


def test_maps_and_streams_have_their_values_with_types(log: Log) -> None:
    shown = shown_body(log.sent({"name": "Ann", "age": 7, "raw": b"\x01\xff", "none": None}))
    assert shown.kind == "map"
    assert [(each.name, each.type, each.value) for each in shown.values] == [
        ("name", "string", "Ann"),
        ("age", "int", "7"),
        ("raw", "bytes", "01 ff"),
        ("none", "null", "null"),
    ]

    def stream(session: Session) -> Any:
        message = session.create_stream_message()
        message.write_string("a")
        message.write_long(5)
        return message

    found = shown_body(log.sent(stream))
    assert (found.kind, found.is_whole) == ("stream", True)
    assert [(each.name, each.value) for each in found.values] == [("1", "a"), ("2", "5")]
    large = shown_body(log.sent({f"n{number}": number for number in range(VALUES_SHOWN + 1)}))
    assert (len(large.values), large.is_whole) == (VALUES_SHOWN, False)


def test_objects_in_json_are_folded_and_others_are_bytes_that_nobody_runs(log: Log) -> None:
    shown = shown_body(log.sent(lambda session: session.create_object_message({"a": [1]})))
    assert (shown.kind, shown.announced, shown.tree) == ("json", "object", {"a": [1]})
    value = pickle.dumps({"a": 1})
    foreign = shown_body(log.written(value, ("JBMBody", b"object"), ("JBMCodec", b"pickle")))
    assert (foreign.kind, foreign.codec) == ("bytes", "pickle")
    assert bytes.fromhex("".join(line.hex for line in foreign.lines)) == value


def test_bytes_are_a_dump(log: Log) -> None:
    shown = shown_body(log.sent(b"0123456789abcdef\x00\x7f\xff<b>"))
    first, second = shown.lines
    assert (first.at, first.text) == ("00000000", "0123456789abcdef")
    assert (second.at, second.hex, second.text) == ("00000010", "00 7f ff 3c 62 3e", "...<b>")


def test_bytes_of_another_producer_that_are_json_are_folded(log: Log) -> None:
    assert shown_body(log.written(b'{"a": 1}')).kind == "json"
    assert shown_body(log.written(b'{"a": \xff}')).kind == "bytes"


def test_what_a_schema_registry_framed_tells_the_schema(log: Log) -> None:
    shown = shown_body(log.written(b"\x00\x00\x00\x00\x2a\x06ann"))
    assert shown.kind == "bytes"
    assert shown.notes == ["It begins as a schema registry's serializers write: with the id 42 of a schema."]


def test_what_cannot_be_read_says_so_and_is_shown_as_bytes(log: Log) -> None:
    for kind, value in ((b"text", b"\xff"), (b"map", b"no map"), (b"object", b"{no json"), (b"newer", b"x")):
        shown = shown_body(log.written(value, ("JBMBody", kind)))
        assert (shown.kind, bool(shown.lines)) == ("bytes", True), kind
        assert "It cannot be read as what it says it is" in shown.notes[0]


def test_no_body_is_none(log: Log) -> None:
    assert shown_body(log.written(None)).kind == "none"
