"""What AMQP can say and JMS cannot, and what no AMQP client should send."""

import struct
from contextlib import suppress
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from proton import Message as ProtonMessage
from proton import symbol, timestamp, ubyte, uint

from jbm_kafka.codec.amqp.address_forms import is_foreign, parse_address
from jbm_kafka.codec.amqp.decode_transfer import IncomingMessage, decode_transfer
from jbm_kafka.codec.amqp.encode_transfer import encode_transfer
from jbm_kafka.codec.amqp.ids import encoded_id, id_text
from jbm_kafka.codec.amqp.sections import APPLICATION, DATA, FOOTER, SEQUENCE, VALUE, section, split
from jbm_kafka.codec.amqp.values import Amqp, Budget, binary, list_of, map_of, read, string
from jbm_kafka.codec.amqp.values import symbol as a_symbol
from jbm_kafka.codec.amqp.values import uint as a_uint
from jbm_kafka.codec.bodies import body_kind
from jbm_kafka.codec.headers import decode_headers
from jbm_kafka.core.destination import Queue, TemporaryQueue, Topic
from jbm_kafka.core.jms_errors import InvalidDestinationError, MessageFormatError
from jbm_kafka.jms.messages.messages_wire import from_record, to_record
from jbm_kafka.jms.messages.object_message import ObjectMessage
from tests.support.golden_messages import GOLDEN, Golden
from tests.support.records import Record

NOW_MS = 1_700_000_000_500
ORDERS = Queue("orders")


def record_of(found: IncomingMessage) -> Record:
    return Record(value=found.value, key=found.unit, headers=found.headers, timestamp_ms=found.timestamp_ms)


def sent_out(record: Record) -> bytes:
    return encode_transfer(record, body_kind(record.headers()), ORDERS, delivery_count=0, now_ms=NOW_MS)


def through(data: bytes) -> bytes:
    """The message on its way through a record."""
    return sent_out(record_of(decode_transfer(data, now_ms=NOW_MS)))


VALUES = {
    "a value of no JMS type": section(VALUE, a_uint(5)),
    "a map with numbers as keys": section(VALUE, map_of([a_uint(1) + string("one")])),
    "a list in a list": section(VALUE, list_of([list_of([string("x")])])),
    "two data sections": section(DATA, binary(b"ab")) + section(DATA, binary(b"c")),
    "two sequences": section(SEQUENCE, list_of([string("a")])) + section(SEQUENCE, list_of([])),
    "an array": section(VALUE, b"\xe0\x04\x02\x50\x01\x02"),
    "a described value": section(VALUE, b"\0" + a_symbol("x:y") + string("z")),
    "a binary as a value": section(VALUE, binary(b"raw")),
    "a list as a value": section(VALUE, list_of([string("a")])),
    "long data": section(DATA, binary(b"x" * 70_000)),
}


@pytest.mark.parametrize("body", VALUES.values(), ids=VALUES)
@pytest.mark.parametrize(
    "footer", [b"", section(FOOTER, map_of([a_symbol("x-sum") + a_uint(900)]))], ids=["", "footer"]
)
def test_a_body_that_only_amqp_has_goes_through_to_the_byte(body: bytes, footer: bytes) -> None:
    """AMQP-2."""
    assert through(body + footer).endswith(body + footer)


def test_types_that_only_amqp_has_go_through_and_jms_sees_what_it_can() -> None:
    """AMQP-2."""
    properties = {"small": ubyte(7), "word": symbol("w"), "at": timestamp(5), "raw": b"\0", "own": UUID(int=3), "n": 1}
    marks = {symbol("x-opt-jms-dest"): ubyte(0), symbol("x-opt-region"): "north", symbol("x-opt-n"): uint(4)}
    message = ProtonMessage("x", properties=properties, annotations=marks, content_encoding="gzip", user_id=b"\xff")
    found = decode_transfer(message.encode(), now_ms=NOW_MS)
    shown = {name: held.value for name, held in decode_headers(found.headers).properties.items()}
    assert shown == {"small": 7, "word": "w", "at": 5, "own": str(UUID(int=3)), "n": 1}
    out = ProtonMessage()
    out.decode(sent_out(record_of(found)))
    assert out.properties is not None
    assert out.annotations is not None
    raw = out.properties.pop("raw")
    assert isinstance(raw, memoryview)
    assert bytes(raw) == properties.pop("raw")
    assert {name: (type(held), held) for name, held in out.properties.items()} == {
        name: (type(held), held) for name, held in properties.items()
    }
    assert (out.annotations["x-opt-region"], out.annotations["x-opt-n"]) == ("north", uint(4))
    assert (out.content_encoding, bytes(out.user_id)) == ("gzip", b"\xff")


def test_a_property_that_an_operator_changed_wins_over_what_came() -> None:
    found = decode_transfer(ProtonMessage("x", properties={"n": ubyte(7)}).encode(), now_ms=NOW_MS)
    found.headers.append(("jms.short.n", b"8"))
    out = ProtonMessage()
    out.decode(sent_out(record_of(found)))
    assert out.properties == {"n": 8}


def test_what_python_sends_on_keeps_what_only_amqp_says() -> None:
    """AMQP-2, MSG-1."""
    message = ProtonMessage(uint(5), annotations={symbol("x-opt-region"): "north"})
    received = from_record(record_of(decode_transfer(message.encode(), now_ms=NOW_MS)), ORDERS, 1, False, None)
    again = to_record(received)
    out = ProtonMessage()
    out.decode(sent_out(Record(value=again.value, headers=again.headers)))
    assert out.annotations is not None
    assert (out.body, out.annotations["x-opt-region"]) == (uint(5), "north")


def test_an_object_of_python_is_json_text_that_comes_back_as_an_object() -> None:
    """AMQP-1."""
    sent = to_record(ObjectMessage({"a": [1, 2]}))
    out = ProtonMessage()
    data = sent_out(Record(value=sent.value, headers=sent.headers))
    out.decode(data)
    assert (out.body, str(out.content_type)) == ('{"a":[1,2]}', "application/json")
    back = from_record(record_of(decode_transfer(data, now_ms=NOW_MS)), ORDERS, 1, False, None)
    assert isinstance(back, ObjectMessage)
    assert back.body == {"a": [1, 2]}


@given(st.one_of(st.text(st.characters(exclude_categories=["Cs"])), st.uuids(), st.binary(), st.integers(0, 2**64 - 1)))
def test_an_id_of_any_type_comes_back(value: object) -> None:
    """AMQP-1."""
    kind = {str: "string", UUID: "uuid", bytes: "binary", int: "ulong"}[type(value)]
    held = Amqp(kind, value)  # type: ignore[arg-type]
    for is_correlation in (False, True):
        text = id_text(held, is_correlation=is_correlation)
        assert text is not None
        assert is_correlation or text.startswith("ID:")
        assert read(encoded_id(text), 0)[0] == held


@pytest.mark.parametrize("text", ["ID:AMQP_UUID:zz", "ID:AMQP_ULONG:-1", f"ID:AMQP_ULONG:{2**64}", "ID:AMQP_BINARY:a"])
def test_an_id_that_only_looks_typed_is_a_string(text: str) -> None:
    assert read(encoded_id(text), 0)[0] == Amqp("string", text)


def test_a_distant_clock_is_kept_in_a_header_and_a_ttl_becomes_a_time() -> None:
    """AMQP-1: brokers refuse records of a distant future."""
    message = ProtonMessage("x", ttl=2.5)
    message.creation_time = 4_000_000_000.0
    found = decode_transfer(message.encode(), now_ms=NOW_MS)
    assert (found.timestamp_ms, found.expiration_ms) == (NOW_MS, NOW_MS + 2500)
    assert ("JMSTimestamp", b"4000000000000") in found.headers
    back = ProtonMessage()
    back.decode(sent_out(record_of(found)))
    assert (back.creation_time, back.ttl) == (4_000_000_000.0, 2.5)


def test_addresses_with_and_without_prefixes() -> None:
    """AMQP-3."""
    name = "0000000000000-c0000.1@3"
    assert parse_address("orders", None) == parse_address("queue://orders", None) == ORDERS
    assert parse_address("prices", "topic") == parse_address("topic:prices", None) == Topic("prices")
    assert parse_address(name, None) == TemporaryQueue(name)


def test_an_alias_is_what_the_file_says_and_of_no_other_kind() -> None:
    """AMQP-3."""
    aliases = {"/queues/orders": ORDERS, "a:b": Topic("prices")}
    assert parse_address("/queues/orders", None, aliases) == parse_address("/queues/orders", "queue", aliases) == ORDERS
    assert parse_address("a:b", "topic", aliases) == Topic("prices")
    with pytest.raises(InvalidDestinationError, match="'a:b' is an alias of topic:prices, and the client means a"):
        parse_address("a:b", "queue", aliases)
    assert [is_foreign(each) for each in ("/queues/orders", "a:b", "my orders", "jbm.own")] == [True] * 4
    assert is_foreign("q" * 255), "RabbitMQ has queues of such long names, and here none can be"
    ours = ("orders", "queue:orders", "topic://prices", "topic://a b", "")
    assert [is_foreign(each) for each in ours] == [False] * 5, "and what has no address goes nowhere"


GARBAGE = {
    "an empty map key": section(APPLICATION, map_of([b"\x40" + string("x")])),
    "a key twice": section(APPLICATION, map_of([string("a") + string("x"), string("a") + string("y")])),
    "a header that is a map": section(0x70, map_of([])),
    "sections out of order": section(VALUE, string("x")) + section(APPLICATION, map_of([])),
    "two kinds of bodies": section(DATA, binary(b"")) + section(VALUE, string("x")),
    "no section": b"hello",
    "a section of no kind": section(0x12, string("x")),
    "half a string": section(VALUE, string("hello"))[:-1],
    "a length beyond the end": section(VALUE, b"\xb1" + struct.pack(">I", 2**32 - 1)),
    "a list longer than its bytes": section(VALUE, b"\xd0" + struct.pack(">II", 4, 2**31)),
    "four billion nulls": section(VALUE, b"\xf0" + struct.pack(">II", 5, 2**32 - 1) + b"\x40"),
    "nesting without end": section(VALUE, b"\xc0\x7f\x01" * 5000),
    "descriptors without end": section(VALUE, b"\0" * 5000),
    "a text that is no UTF-8": section(VALUE, b"\xa1\x01\xff"),
    "a field of a wrong type": section(0x73, list_of([b"\x40"] * 10 + [a_uint(5)])),
    "an id of a wrong type": section(0x73, list_of([b"\x41"])),
    "a delay of a wrong type": section(0x72, map_of([a_symbol("x-opt-delivery-delay") + string("5")])),
}


@pytest.mark.parametrize("data", GARBAGE.values(), ids=GARBAGE)
def test_garbage_is_one_clear_error(data: bytes) -> None:
    """AMQP-4."""
    with pytest.raises(MessageFormatError, match="cannot be read: ") as failure:
        decode_transfer(data, now_ms=NOW_MS)
    assert "\n" not in str(failure.value)


MANY = {
    "a list": section(VALUE, list_of([b"\x40"] * 11)),
    "lists in a list": section(VALUE, list_of([list_of([b"\x40"] * 4)] * 2)),
    "a map": section(APPLICATION, map_of(string(f"k{n}") + b"\x40" for n in range(6))),
    "an array": section(VALUE, b"\xe0\x0d\x0b\x50" + bytes(11)),
    "a described list": section(VALUE, b"\0" + string("d") + list_of([b"\x40"] * 11)),
    "sections": section(DATA, binary(b"")) * 11,
}


@pytest.mark.parametrize("data", MANY.values(), ids=MANY)
def test_more_values_than_are_taken_are_refused(data: bytes) -> None:
    """AMQP-10."""
    decode_transfer(data, now_ms=NOW_MS)
    with pytest.raises(MessageFormatError, match="more than 10 values"):
        decode_transfer(data, now_ms=NOW_MS, budget=Budget(10))


@given(
    row=st.sampled_from(GOLDEN),
    changes=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=4),
    cut=st.integers(0, 400) | st.none(),
)
def test_damaged_messages_are_errors_or_messages(row: Golden, changes: list[tuple[int, int]], cut: int | None) -> None:
    """AMQP-4: what is let in can be sent out again, and is read as the same."""
    data = bytearray(row.amqp.encode())
    for at, byte in changes:
        if at < len(data):
            data[at] = byte
    with suppress(MessageFormatError):
        out = through(bytes(data[:cut]))
        assert split(out).header
        found, again = (decode_transfer(each, now_ms=NOW_MS) for each in (out, through(out)))
        assert (found.headers, found.value, found.unit) == (again.headers, again.value, again.unit)


@given(st.binary(max_size=200))
def test_bytes_of_chance_never_crash_the_decoder(data: bytes) -> None:
    """AMQP-4."""
    for each in (data, section(VALUE, data), section(0x73, data), section(APPLICATION, data), section(0x72, data)):
        with suppress(MessageFormatError):
            decode_transfer(each, now_ms=NOW_MS)


_NAMES = ["amqp.annotations", "amqp.properties", "amqp.body", "amqp.footer", "amqp.user-id", "amqp.reply-to",
          "content-type", "content-encoding", "JBMBody", "JBMCodec", "JMSReplyTo", "JMSExpiration", "JMSPriority",
          "JMSDeliveryTime", "JMSMessageID", "JMSTimestamp", "jms.int.x", "jms.string.a-b", "jms.int.a-b", "jms.",
          "jms.string.JMSXGroupID", "jms.int.JMSXGroupSeq", "plain", "jms.float.f", "jms.string."]  # fmt: skip
_TEXTS = [b"data 3,5", b"data x", b"value", b"text", b"map", b"stream", b"object", b"none", b"amqp", b"java", b"json",
          b"9223372036854775807", b"1e999", b"\xff", b"", map_of([string("a") + string("b")])]  # fmt: skip


@given(
    headers=st.lists(st.tuples(st.sampled_from(_NAMES), st.none() | st.sampled_from(_TEXTS) | st.binary(max_size=20))),
    value=st.none() | st.binary(max_size=60),
    key=st.none() | st.binary(max_size=5),
    timestamp_ms=st.sampled_from([-1, 0, 2**62]),
)
def test_any_record_is_a_message_that_can_be_read(
    headers: list[tuple[str, bytes | None]], value: bytes | None, key: bytes | None, timestamp_ms: int
) -> None:
    """AMQP-4, MSG-2: whoever wrote it."""
    out = sent_out(Record(value=value, key=key, headers=headers, timestamp_ms=timestamp_ms))
    decode_transfer(out, now_ms=NOW_MS)
    ProtonMessage().decode(out)
