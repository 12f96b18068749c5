"""Bytes messages written and read value by value, in memory and through a queue."""

import copy
import pickle
import struct
from collections.abc import Callable
from typing import Any

import pytest

from jbm_kafka import BytesMessage, Queue, errors
from jbm_kafka.jms.session import Session
from tests.jms.support import receive

WRITTEN: list[tuple[str, Any]] = [
    ("boolean", True), ("boolean", False), ("byte", -128), ("short", -32768), ("char", "ß"), ("int", -(2**31)),
    ("long", 2**63 - 1), ("float", 0.5), ("double", -1e300), ("utf", "Zoë\0\U0001f600"), ("bytes", b"\x00\xff"),
]  # fmt: skip


def write_all(message: BytesMessage) -> None:
    for kind, value in WRITTEN:
        getattr(message, f"write_{kind}")(value)


def read_all(message: BytesMessage) -> list[tuple[str, Any]]:
    return [(kind, getattr(message, f"read_{kind}")()) for kind, _ in WRITTEN]


def received(session: Session, orders: Queue, made: BytesMessage) -> BytesMessage:
    session.create_producer(orders).send(made)
    message = receive(session.create_consumer(orders))
    assert isinstance(message, BytesMessage)
    return message


def test_what_is_written_value_by_value_is_read_so(session: Session, orders: Queue) -> None:
    """Of MSG-1"""
    made = session.create_bytes_message()
    write_all(made)
    message = received(session, orders, made)
    assert message.body_length == len(message.body)
    assert read_all(message) == WRITTEN
    with pytest.raises(errors.MessageEOFError, match="of which 0 are left: the next byte takes 1; reset"):
        message.read_byte()
    assert message.read_bytes() == b""
    message.reset()
    assert read_all(message) == WRITTEN


def test_a_received_body_is_read_only_until_it_is_cleared(session: Session, orders: Queue) -> None:
    """Of MSG-1"""
    message = received(session, orders, BytesMessage(b"\x01\x02"))
    with pytest.raises(errors.MessageNotWriteableError, match=r"clear_body\(\)"):
        message.write_int(1)
    with pytest.raises(errors.MessageNotWriteableError, match=r"clear_body\(\)"):
        message.body = b"x"
    assert message.read_byte() == 1
    message.clear_body()
    assert message.body == b""
    with pytest.raises(errors.MessageNotReadableError, match=r"reset\(\)"):
        message.read_byte()
    message.write_short(3)
    message.reset()
    assert message.read_short() == 3
    assert received(session, orders, message).read_short() == 3


def test_a_body_that_is_being_written_is_sent_and_written_on(session: Session, orders: Queue) -> None:
    made = BytesMessage(b"\xff")
    made.write_byte(1)
    assert received(session, orders, made).body == b"\xff\x01"
    made.write_byte(2)
    assert made.body == b"\xff\x01\x02"
    assert received(session, orders, made).body == b"\xff\x01\x02"


def test_values_are_big_endian() -> None:
    message = BytesMessage()
    write_all(message)
    assert message.body == struct.pack(">??bhHiqfdH", True, False, -128, -32768, 0xDF, -(2**31), 2**63 - 1, 0.5,
                                       -1e300, 12) + b"Zo\xc3\xab\xc0\x80\xed\xa0\xbd\xed\xb8\x80\x00\xff"  # fmt: skip


def test_a_new_body_is_written_before_it_is_read() -> None:
    message = BytesMessage(b"\x07")
    for read in (message.read_byte, message.read_bytes, lambda: message.body_length):
        with pytest.raises(errors.MessageNotReadableError, match=r"being written; call reset\(\) before reading"):
            read()
    message.reset()
    assert (message.read_byte(), message.body_length) == (7, 1)
    with pytest.raises(errors.MessageNotWriteableError, match=r"read-only since reset\(\); call clear_body\(\)"):
        message.write_byte(1)
    message.clear_body()
    message.write_byte(8)
    assert message.body == b"\x08"


def test_unsigned_values_are_read() -> None:
    message = BytesMessage(b"\xff\xff\xff")
    message.reset()
    assert (message.read_unsigned_byte(), message.read_unsigned_short()) == (255, 65535)


def test_bytes_are_read_in_portions() -> None:
    message = BytesMessage(bytes(range(10)))
    message.reset()
    portions = []
    while portion := message.read_bytes(4):
        portions.append(portion)
    assert portions == [bytes(range(4)), bytes(range(4, 8)), bytes(range(8, 10))]
    message.reset()
    assert (message.read_bytes(0), message.read_bytes()) == (b"", bytes(range(10)))
    with pytest.raises(errors.InvalidSettingError, match="length is -1"):
        message.read_bytes(-1)


@pytest.mark.parametrize(
    ("body", "read", "says"),
    [
        (b"\x00\x00\x00", "read_int", "the body has 3 bytes, of which 3 are left: the next int takes 4"),
        (b"\x00", "read_utf", "the length of a text takes 2"),
        (b"\x00\x05abc", "read_utf", "of which 5 are left: the text with its length takes 7"),
        (b"", "read_boolean", "the next boolean takes 1"),
    ],
)
def test_a_read_past_the_end_takes_nothing(body: bytes, read: str, says: str) -> None:
    message = BytesMessage(body)
    message.reset()
    with pytest.raises(errors.MessageEOFError, match=says):
        getattr(message, read)()
    assert message.read_bytes() == body


def test_bytes_that_are_no_text_stay_the_next_ones() -> None:
    message = BytesMessage(b"\x07\x00\x02a\xff")
    message.reset()
    message.read_byte()
    with pytest.raises(errors.MessageFormatError, match="no text is at byte 1 of the body: byte 1 of the text is 0xff"):
        message.read_utf()
    assert message.read_bytes() == b"\x00\x02a\xff"


@pytest.mark.parametrize(
    ("write", "value", "rule"),
    [
        ("write_byte", 128, "value is 128: it is an int from -128 to 127"),
        ("write_short", "5", "value is '5': it is an int from -32768"),
        ("write_int", 2**31, "it is an int from -2147483648"),
        ("write_int", True, "it is an int"),
        ("write_long", 2**63, "it is an int"),
        ("write_boolean", 1, "it is True or False"),
        ("write_char", "ab", "it is a str of one character up to U"),
        ("write_char", "\U0001f600", "it is a str of one character up to U"),
        ("write_float", "1", "it is a number"),
        ("write_double", None, "it is a number"),
        ("write_utf", b"x", "value is b'x': it is a str"),
        ("write_utf", "x" * 65_536, "write_utf takes 65535"),
        ("write_bytes", "x", "value is 'x': it is bytes"),
        ("write_object", None, "value is None: it is a bool, int, float, str or bytes"),
        ("write_object", [1], "value is"),
    ],
)
def test_a_value_that_is_not_of_the_type_adds_nothing(write: str, value: object, rule: str) -> None:
    message = BytesMessage(b"\x01")
    with pytest.raises(errors.MessageFormatError, match=rule):
        getattr(message, write)(value)
    assert message.body == b"\x01"


@pytest.mark.parametrize(
    ("value", "read"),
    [(True, "boolean"), (5, "int"), (2**40, "long"), (0.5, "double"), ("Zoë", "utf"), (b"ab", "bytes")],
)
def test_an_object_is_written_as_its_class_says(value: object, read: str) -> None:
    message = BytesMessage()
    message.write_object(value)  # type: ignore[arg-type]
    message.reset()
    assert getattr(message, f"read_{read}")() == value
    assert message.read_bytes() == b""


def test_a_char_may_be_half_a_pair_as_in_java() -> None:
    message = BytesMessage()
    message.write_char("\ud83d")
    message.reset()
    assert message.read_char() == "\ud83d"


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda made: pickle.loads(pickle.dumps(made))])
def test_a_copy_is_written_on_alone(again: Callable[[BytesMessage], BytesMessage]) -> None:
    made = BytesMessage()
    made.write_byte(1)
    other = again(made)
    made.write_byte(2)
    other.write_byte(3)
    assert (made.body, other.body) == (b"\x01\x02", b"\x01\x03")


def test_a_copy_of_a_received_body_can_be_written(session: Session, orders: Queue) -> None:
    other = copy.copy(received(session, orders, BytesMessage(b"\x01")))
    other.write_byte(2)
    assert other.body == b"\x01\x02"


def test_a_body_that_is_set_anew_is_read_from_its_beginning() -> None:
    message = BytesMessage(b"\x01\x02")
    message.reset()
    message.read_byte()
    message.body = b"\x03\x04"
    assert message.read_byte() == 3


def test_a_large_body_is_written_in_a_moment() -> None:
    """It was copied for each value: 20 GB for these 200,000."""
    message = BytesMessage()
    for number in range(200_000):
        message.write_byte(number & 0x7F)
    assert len(message.body) == 200_000
