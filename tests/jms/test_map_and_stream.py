"""Map and stream messages through a queue: bodies, states, browsers, dead letters, and sending on."""

import copy

import pytest

from jbm_kafka import MapMessage, Message, Queue, StreamMessage, errors
from jbm_kafka.cli.render import as_values, brief, json_line
from jbm_kafka.jms.session import Session
from tests.jms.support import SOON_S, receive

ORDER = {"item": "chair", "qty": 3, "price": 49.5, "paid": True, "photo": b"\x00\xff", "note": None, "far": 2**40}


def received_map(session: Session, orders: Queue) -> MapMessage:
    session.create_producer(orders).send(ORDER)
    message = receive(session.create_consumer(orders))
    assert isinstance(message, MapMessage)
    return message


def test_a_dict_that_is_sent_is_received_as_a_map(session: Session, orders: Queue) -> None:
    """Of MSG-1: with its types and its order."""
    message = received_map(session, orders)
    assert message.body == ORDER
    assert message.names == tuple(ORDER)
    assert message.item_exists("note")
    assert not message.item_exists("colour")
    assert (message.get_int("qty"), message.get_string("qty"), message.get_string("price")) == (3, "3", "49.5")
    assert message.get_bytes("photo") == b"\x00\xff"
    with pytest.raises(errors.MessageFormatError, match="of type long and cannot be read as int"):
        message.get_int("far")


def test_a_received_map_is_read_only_until_it_is_cleared(session: Session, orders: Queue) -> None:
    """Of MSG-1: and what is sent on then is what was set."""
    message = received_map(session, orders)
    message.body["item"] = "lamp"
    assert message.body == ORDER
    with pytest.raises(errors.MessageNotWriteableError, match=r"clear_body\(\)"):
        message.set_int("qty", 4)
    with pytest.raises(errors.MessageNotWriteableError, match=r"clear_body\(\)"):
        message.body = {}
    message.clear_body()
    assert message.body == {}
    message.set_byte("qty", 4)
    session.create_producer(orders).send(message)
    again = receive(session.create_consumer(orders))
    assert isinstance(again, MapMessage)
    assert again.body == {"qty": 4}
    assert again.get_byte("qty") == 4


def test_a_stream_is_read_value_by_value_in_the_types_it_was_written(session: Session, orders: Queue) -> None:
    """Of MSG-1"""
    made = session.create_stream_message()
    made.write_string("chair")
    made.write_short(3)
    made.write_char("ß")
    made.write_object(None)
    with pytest.raises(errors.MessageNotReadableError, match=r"reset\(\)"):
        made.read_string()
    session.create_producer(orders).send(made)
    message = receive(session.create_consumer(orders))
    assert isinstance(message, StreamMessage)
    assert message.body == ["chair", 3, "ß", None]
    with pytest.raises(errors.MessageFormatError, match="stream value 0 cannot be read as int: 'chair'"):
        message.read_int()
    assert (message.read_string(), message.read_long(), message.read_char()) == ("chair", 3, "ß")
    assert message.read_object() is None
    with pytest.raises(errors.MessageEOFError, match="has 4 values, and all were read"):
        message.read_object()
    message.reset()
    assert message.read_string() == "chair"
    with pytest.raises(errors.MessageNotWriteableError, match=r"clear_body\(\)"):
        message.write_int(5)
    message.clear_body()
    message.write_int(5)
    message.reset()
    assert message.read_int() == 5
    session.create_producer(orders).send(message)
    assert receive(session.create_consumer(orders)).body == [5]


def test_a_stream_that_was_reset_takes_nothing_until_it_is_cleared() -> None:
    message = StreamMessage([1])
    message.reset()
    with pytest.raises(errors.MessageNotWriteableError, match=r"read-only since reset\(\); call clear_body"):
        message.write_int(2)
    message.clear_body()
    message.write_int(2)
    assert message.body == [2]


def test_what_follows_bytes_that_were_read_in_portions_is_read_as_ever() -> None:
    """Of MSG-1: a portion of exactly what was left, and the second value behind it was said to be bytes."""
    message = StreamMessage([b"abc", 1, "x"])
    message.reset()
    assert (message.read_bytes(3), message.read_int(), message.read_string()) == (b"abc", 1, "x")


def test_bytes_of_a_stream_are_read_in_portions(session: Session, orders: Queue) -> None:
    """Of MSG-1: as JMS has it, the last portion is shorter than what was asked for."""
    made = StreamMessage([bytes(range(10)), b"12345678", b"", None, 5, b"12345678", "x", b"1"])
    session.create_producer(orders).send(made)
    message = receive(session.create_consumer(orders))
    assert isinstance(message, StreamMessage)
    assert [message.read_bytes(4) for _ in range(3)] == [bytes(range(4)), bytes(range(4, 8)), b"\x08\x09"]
    assert [message.read_bytes(4) for _ in range(3)] == [b"1234", b"5678", b""]
    assert (message.read_bytes(4), message.read_bytes(4)) == (b"", None)
    with pytest.raises(errors.MessageFormatError, match="stream value 4 is of type int and cannot be read as bytes"):
        message.read_bytes(4)
    assert message.read_int() == 5
    assert message.read_bytes(6) == b"123456"
    with pytest.raises(
        errors.MessageFormatError, match="value 5 is being read in portions, and 2 bytes of it are left"
    ):
        message.read_string()
    assert message.read_bytes() == b"78"
    assert message.read_string() == "x"
    assert message.read_bytes(1) == b"1"
    with pytest.raises(errors.MessageEOFError, match="has 8 values"):
        message.read_string()
    message.reset()
    assert message.read_bytes(1) == b"\x00"
    message.reset()
    assert message.read_bytes() == bytes(range(10))
    with pytest.raises(errors.InvalidSettingError, match="length is 0"):
        message.read_bytes(0)


def test_a_stream_that_is_being_written_is_sent_and_written_on(session: Session, orders: Queue) -> None:
    made = StreamMessage([1])
    consumer = session.create_consumer(orders)
    for number in (2, 3):
        made.write_int(number)
        session.create_producer(orders).send(made)
        assert receive(consumer).body == list(range(1, number + 1))


def test_a_long_stream_is_written_in_a_moment() -> None:
    """It was copied for each value: 40 GB for these 100,000."""
    message = StreamMessage()
    for number in range(100_000):
        message.write_int(number)
    assert len(message.body) == 100_000


def test_a_copy_of_a_stream_is_written_on_alone() -> None:
    made = StreamMessage()
    made.write_int(1)
    other = copy.copy(made)
    made.write_int(2)
    other.write_int(3)
    assert (made.body, other.body) == ([1, 2], [1, 3])


def test_receive_body_takes_a_dict_and_a_list(session: Session, orders: Queue) -> None:
    producer = session.create_producer(orders)
    producer.send({"a": 1}, unit_of_order="u")
    producer.send(session.create_stream_message([1, "b"]), unit_of_order="u")
    consumer = session.create_consumer(orders)
    with pytest.raises(errors.MessageFormatError, match="the body is a dict, not a str"):
        consumer.receive_body(str, SOON_S)
    assert consumer.receive_body(dict, SOON_S) == {"a": 1}
    assert consumer.receive_body(list, SOON_S) == [1, "b"]


def test_a_browser_and_the_commands_show_maps_and_streams_readably(session: Session, orders: Queue) -> None:
    producer = session.create_producer(orders)
    producer.send({"a": 1, "b": b"\xff", "c": float("inf")}, unit_of_order="u")
    producer.send(session.create_stream_message([1, "b"]), unit_of_order="u")
    shown = list(session.create_browser(orders, include="all"))
    assert [as_values(each)["body"] for each in shown] == [{"a": 1, "b": "/w==", "c": "Infinity"}, [1, "b"]]
    assert [brief(each.body) for each in shown] == ['{"a": 1, "b": "/w==", "c": "Infinity"}', '[1, "b"]']
    assert '"body": [1, "b"]' in json_line(as_values(shown[1]))


def test_a_copy_of_a_map_that_changes_leaves_the_first_as_it_was() -> None:
    made = MapMessage({"a": 1})
    copy.copy(made).set_int("a", 2)
    assert made.body == {"a": 1}


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: MapMessage({"a": [1]}), r"map entry 'a' is \[1\]"),  # type: ignore[dict-item]
        (lambda: MapMessage({"": 1}), "map entry name ''"),
        (lambda: MapMessage({5: 1}), "map entry name 5"),  # type: ignore[dict-item]
        (lambda: MapMessage([1]), "a MapMessage holds a dict"),  # type: ignore[arg-type]
        (lambda: StreamMessage("ab"), "a StreamMessage holds a list"),
        (lambda: StreamMessage([{}]), "stream value 0 is {}"),  # type: ignore[list-item]
    ],
)
def test_a_body_that_cannot_be_carried_is_refused_when_it_is_set(make: "type[Message]", says: str) -> None:
    with pytest.raises(errors.MessageFormatError, match=says):
        make()


def test_which_entry_of_a_map_cannot_be_carried_was_in_the_text_only() -> None:
    for make in (
        lambda: MapMessage({"a": 1, "k": [1]}),  # type: ignore[dict-item]
        lambda: MapMessage().set_object("k", [1]),  # type: ignore[arg-type]
        lambda: MapMessage().set_int("k", [1]),  # type: ignore[arg-type]
    ):
        with pytest.raises(errors.MessageFormatError) as told:
            make()
        assert (told.value.property, told.value.value) == ("k", [1])
