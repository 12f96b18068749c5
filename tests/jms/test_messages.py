"""Messages: what may be set and read, what a received one shows, and what it becomes when it is sent on."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jbm_kafka.codec.headers import DECODE_ERROR
from jbm_kafka.codec.scan import Header
from jbm_kafka.core.delivery_mode import DeliveryMode
from jbm_kafka.core.destination import Queue
from jbm_kafka.core.durations import LONGEST_MS
from jbm_kafka.errors import IllegalStateError, MessageFormatError, MessageNotWriteableError
from jbm_kafka.jms.messages.bytes_message import BytesMessage
from jbm_kafka.jms.messages.map_message import MapMessage
from jbm_kafka.jms.messages.message import Message, TextMessage
from jbm_kafka.jms.messages.messages_wire import from_record, message_of, to_record
from jbm_kafka.jms.messages.object_message import ObjectMessage
from jbm_kafka.jms.messages.received import READERS
from jbm_kafka.jms.messages.stream_message import StreamMessage
from jbm_kafka.jms.sends.send_headers import checked_options, stamp
from tests.support.any_headers import records_headers
from tests.support.records import Record

ORDERS = Queue("orders")
HEADERS: list[Header] = [
    ("JMSMessageID", b"ID:p:1"),
    ("JBMBody", b"text"),
    ("JMSCorrelationID", b"c"),
    ("JMSType", b"t"),
    ("JMSReplyTo", b"queue:replies"),
    ("JMSPriority", b"7"),
    ("JMSExpiration", b"1700000009000"),
    ("JMSDeliveryTime", b"1700000001000"),
    ("jms.string.region", b"EU"),
    ("jms.int.qty", b"5"),
    ("content-type", b"\xff"),
]


class Labelled(TextMessage):
    """An application's own kind of message."""

    label = ""


class Verdicts:
    """A settler that writes down what it is asked."""

    def __init__(self) -> None:
        self.given: list[tuple[str, Message, int | None]] = []

    def acknowledge(self, message: Message) -> None:
        self.given.append(("acknowledge", message, None))

    def nack(self, message: Message, delay_ms: int | None) -> None:
        self.given.append(("nack", message, delay_ms))

    def reject(self, message: Message, reason: str) -> None:
        raise NotImplementedError


def received(record: Record, *, delivery_count: int = 1, settler: Verdicts | None = None) -> Message:
    return from_record(
        record, destination=ORDERS, delivery_count=delivery_count, redelivered=delivery_count > 1, settler=settler
    )


def test_a_received_message_shows_what_its_record_tells() -> None:
    """Of MSG-1."""
    message = received(Record(value=b"hello", key=b"joe", headers=HEADERS), delivery_count=2)
    assert isinstance(message, TextMessage)
    assert message.body == "hello"
    assert (message.message_id, message.correlation_id, message.type) == ("ID:p:1", "c", "t")
    assert (message.reply_to, message.destination) == (Queue("replies"), ORDERS)
    assert (message.timestamp, message.priority, message.unit_of_order) == (1_700_000_000_000, 7, "joe")
    assert (message.expiration, message.delivery_time) == (1_700_000_009_000, 1_700_000_001_000)
    assert (message.delivery_mode, message.redelivered, message.delivery_count) == (DeliveryMode.PERSISTENT, True, 2)
    assert message.properties == {"region": "EU", "qty": 5}
    assert message.state is None
    assert message.kafka is not None
    assert (message.kafka.topic, message.kafka.partition, message.kafka.offset) == ("orders", 3, 17)
    assert (message.kafka.key, message.kafka.headers) == (b"joe", tuple(HEADERS))
    assert repr(message) == "<TextMessage ID:p:1 queue:orders delivery_count=2>"


def test_a_record_without_headers_is_a_bytes_message_with_an_id_of_its_place() -> None:
    """MSG-2: any record is delivered, whatever wrote it."""
    message = received(Record(value=b"\x00\xff", key=b"\xff\x01"))
    assert isinstance(message, BytesMessage)
    assert message.body == b"\x00\xff"
    assert message.message_id == "ID:kafka:orders:3:17"
    assert message.unit_of_order == "0xff01"
    assert (message.priority, message.expiration, message.type) == (4, 0, None)


def test_a_null_value_is_a_message_without_a_body() -> None:
    """MSG-2; an empty key is no unit."""
    message = received(Record(value=None, key=b""))
    assert type(message) is Message
    assert message.body is None
    assert message.unit_of_order is None


@pytest.mark.parametrize(
    "made",
    [TextMessage("a"), BytesMessage(b"a"), MapMessage({"a": 1}), StreamMessage([1]), ObjectMessage([1]), Message()],
)
def test_a_received_message_of_every_kind_has_the_headers_that_it_was_sent_with(made: Message) -> None:
    """Of MSG-1: a map, a stream and an object came without them."""
    made.correlation_id, made.type, made.reply_to = "c", "t", Queue("answers")
    made._priority, made._timestamp, made._delivery_mode = 9, 1_600_000_000_000, DeliveryMode.NON_PERSISTENT
    made._expiration, made._delivery_time = 1_800_000_000_000, 1_700_000_000_000
    encoded = to_record(made, write_timestamp=True)
    again = received(Record(value=encoded.value, headers=encoded.headers))
    assert type(again) is type(made)
    assert (again.correlation_id, again.type, again.reply_to, again.priority) == ("c", "t", Queue("answers"), 9)
    assert (again.timestamp, again.delivery_mode) == (1_600_000_000_000, DeliveryMode.NON_PERSISTENT)
    assert (again.expiration, again.delivery_time) == (1_800_000_000_000, 1_700_000_000_000)


def test_a_text_that_is_no_text_is_bytes_with_the_reason_beside_other_reasons() -> None:
    """MSG-2."""
    message = received(Record(value=b"\xff", headers=[("JBMBody", b"text"), ("jms.int.n", b"x")]))
    assert isinstance(message, BytesMessage)
    assert message.body == b"\xff"
    reason = message.get_string_property("_JBM_DECODE_ERROR") or ""
    assert "jms.int.n: 'x' is not a decimal integer; the body is announced as text" in reason
    unknown = received(Record(value=b"x", headers=[("JBMBody", b"video")]))
    assert unknown.properties == {"_JBM_DECODE_ERROR": "body kind 'video' is not known to this version"}


def test_the_timestamp_header_wins_over_that_of_the_record() -> None:
    assert received(Record(headers=[("JMSTimestamp", b"12")])).timestamp == 12


def test_what_an_application_sets_before_it_looks_is_not_overwritten() -> None:
    message = received(Record(headers=HEADERS))
    message.correlation_id = "mine"
    assert (message.message_id, message.correlation_id) == ("ID:p:1", "mine")


def test_a_name_that_is_no_attribute_is_refused() -> None:
    with pytest.raises(AttributeError, match="'BytesMessage' object has no attribute 'reply'"):
        _ = received(Record()).reply  # type: ignore[attr-defined]
    with pytest.raises(AttributeError):
        TextMessage().reply = Queue("a")  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "copied",
    [copy.copy, copy.deepcopy, lambda message: pickle.loads(pickle.dumps(message))],
    ids=["copy", "deep", "pickle"],
)
def test_a_message_can_be_copied_whole(copied: Callable[[Message], Message]) -> None:
    message = Labelled("hello")
    message.label, message.correlation_id, message._destination = "mine", "c", ORDERS
    message.properties["n"] = 1
    other = copied(message)
    assert isinstance(other, Labelled)
    assert (other.body, other.label, other.correlation_id, other.destination) == ("hello", "mine", "c", ORDERS)
    assert dict(other.properties) == {"n": 1}
    other.body = "changed"
    assert message.body == "hello"


@pytest.mark.parametrize(
    ("header", "value", "instead"),
    [
        ("priority", 9, r"send\(message, priority=…\), or to the producer"),
        ("delivery_mode", DeliveryMode.NON_PERSISTENT, r"send\(message, delivery_mode=…\), or to the producer"),
        ("expiration", 1, r"send\(message, time_to_live_ms=…\), or to the producer"),
        ("delivery_time", 1, r"send\(message, delivery_delay_ms=…\), or to the producer"),
        ("destination", Queue("q"), r"send\(message, destination=…\), or to create_producer"),
        ("message_id", "ID:1", "each send gives an id"),
        ("timestamp", 1, "each send sets the time"),
        ("redelivered", True, "the queue sets it for receivers"),
    ],
)
def test_a_header_set_of_a_new_message_was_lost_in_silence_by_its_send(
    header: str, value: object, instead: str
) -> None:
    """MSG-1: `message.priority = 9` was sent with 4; of one that was sent or received it can be set as ever."""
    message = TextMessage("a")
    before = getattr(message, header)
    with pytest.raises(IllegalStateError, match=f"^{header} of a message that was not sent is .*: .*{instead}"):
        setattr(message, header, value)
    assert getattr(message, header) == before
    for known in (received(Record(value=b"a")), sent(message)):
        setattr(known, header, value)
        assert getattr(known, header) == value


def sent(message: Message) -> Message:
    """The message, as a send leaves it."""
    options = checked_options(DeliveryMode.PERSISTENT, 4, 0, 0)
    stamp(message, options, destination=ORDERS, now_ms=1, message_id=None, unit=None)
    return message


def test_a_message_of_no_kind_has_no_body_to_set() -> None:
    with pytest.raises(MessageFormatError, match="a Message has no body to set; make a TextMessage or a BytesMessage"):
        Message().body = "text"
    assert Message().body is None


def test_a_received_message_is_read_only_until_cleared() -> None:
    """Of MSG-1."""
    message = received(Record(value=b"hello", headers=HEADERS))
    assert isinstance(message, TextMessage)
    with pytest.raises(MessageNotWriteableError, match=r"ID:p:1 is read-only; call clear_body\(\) first"):
        message.body = "new"
    with pytest.raises(MessageNotWriteableError, match=r"call clear_properties\(\) first"):
        message.properties["region"] = "US"
    with pytest.raises(MessageNotWriteableError):
        message.set_int_property("n", 1)
    with pytest.raises(MessageNotWriteableError):
        del message.properties["region"]
    message.clear_body()
    assert message.body is None
    message.body = "new"
    message.clear_properties()
    assert message.properties == {}
    message.properties["region"] = "US"
    assert (message.body, dict(message.properties), message.correlation_id) == ("new", {"region": "US"}, "c")


def test_cleared_bytes_are_empty_bytes() -> None:
    message = received(Record(value=b"x"))
    message.clear_body()
    assert message.body == b""


def test_a_foreign_record_does_not_overrule_what_the_provider_knows() -> None:
    """UNIT-9, REDELIVER-1: whoever counts tries by the property must not be misled by a header of its name."""
    headers = [("JMSXDeliveryCount", b"9"), ("JMS_BEA_UnitOfOrder", b"other"), ("JMSXGroupID", b"mine")]
    message = received(Record(key=b"joe", headers=headers), delivery_count=1)
    assert message.get_int_property("JMSXDeliveryCount") == 1
    assert message.get_string_property("JMS_BEA_UnitOfOrder") == "joe"
    assert message.get_string_property("JMSXGroupID") == "mine"


@pytest.mark.parametrize("key", [None, b"joe"], ids=["no unit", "a unit"])
@pytest.mark.parametrize("form", ["", "jms.string.", "jms.int."], ids=["plain", "string", "int"])
def test_listing_the_properties_of_a_foreign_record_raised_a_key_error(form: str, key: bytes | None) -> None:
    """UNIT-9: a header of a name that only the provider tells is no property, with a unit and without."""
    headers = [(f"{form}{name}", b"7") for name in ("JMS_BEA_UnitOfOrder", "JMSXDeliveryCount")]
    message = received(Record(key=key, headers=[*headers, ("region", b"EU")]))
    assert list(message.properties.items()) == [("region", "EU")]
    assert (len(message.properties), repr(message.properties)) == (1, "{'region': 'EU'}")
    assert message.unit_of_order == message.properties.get("JMS_BEA_UnitOfOrder") == (key and key.decode())
    sent_on = TextMessage("x")
    sent_on.properties.update(message.properties)
    assert dict(sent_on.properties) == {"region": "EU"}


def test_provider_properties_can_be_read_and_not_set() -> None:
    """The unit reads back as JMS_BEA_UnitOfOrder (UNIT-9), the count as JMSXDeliveryCount (REDELIVER-1)."""
    message = received(Record(key=b"joe"), delivery_count=3)
    assert message.get_string_property("JMS_BEA_UnitOfOrder") == "joe"
    assert message.properties["JMSXGroupID"] == "joe"
    assert message.get_int_property("JMSXDeliveryCount") == 3
    assert list(message.properties) == []
    for name in ("JMS_BEA_UnitOfOrder", "JMSXDeliveryCount"):
        with pytest.raises(MessageFormatError, match="read-only"):
            TextMessage().properties[name] = "x"
    made = TextMessage()
    assert not made.property_exists("JMSXGroupID")
    made.properties["JMSXGroupID"] = "joe"
    assert made.get_string_property("JMSXGroupID") == "joe"
    with pytest.raises(MessageFormatError, match="JMSXGroupID is 5: it is a str"):
        made.properties["JMSXGroupID"] = 5


@pytest.mark.parametrize(
    "write",
    [
        lambda value: TextMessage().set_float_property("p", value),
        lambda value: TextMessage().set_double_property("p", value),
        lambda value: MapMessage().set_float("p", value),
        lambda value: MapMessage().set_double("p", value),
        lambda value: StreamMessage().write_float(value),
        lambda value: StreamMessage().write_double(value),
        lambda value: BytesMessage().write_float(value),
        lambda value: BytesMessage().write_double(value),
    ],
)
@pytest.mark.parametrize("value", [10**400, -(10**400)])
def test_an_int_too_large_for_a_float_was_an_error_of_python_s(write: Callable[[Any], None], value: int) -> None:
    """Of MSG-1: OverflowError here, struct.error there."""
    with pytest.raises(MessageFormatError, match="too large for a double"):
        write(value)


def test_properties_are_a_mapping() -> None:
    properties = TextMessage().properties
    properties.update(a=1, b="x", c=None)
    del properties["a"]
    assert (dict(properties), len(properties), repr(properties)) == ({"b": "x", "c": None}, 2, "{'b': 'x', 'c': None}")
    with pytest.raises(KeyError):
        properties["a"]
    with pytest.raises(KeyError):
        del properties["a"]


def test_a_message_in_the_making_holds_what_it_is_given() -> None:
    assert TextMessage("a").body == "a"
    assert TextMessage().body is None
    assert BytesMessage(b"x").body == b"x"
    assert BytesMessage().body == b""
    assert Message().body is None
    assert Message().kafka is None
    with pytest.raises(MessageFormatError, match=r"body is b.a.: a TextMessage holds a str"):
        TextMessage(b"a")  # type: ignore[arg-type]
    with pytest.raises(MessageFormatError, match=r"body is .a.: a BytesMessage holds bytes"):
        BytesMessage("a")  # type: ignore[arg-type]
    data = bytearray(b"ab")
    message = BytesMessage(data)
    data[0] = 0
    assert message.body == b"ab"


def test_verdicts_go_to_the_session() -> None:
    verdicts = Verdicts()
    message = received(Record(), settler=verdicts)
    message.acknowledge()
    message.nack()
    message.nack(delay_ms=0)
    assert verdicts.given == [("acknowledge", message, None), ("nack", message, None), ("nack", message, 0)]


@pytest.mark.parametrize("delay_ms", [2**63, LONGEST_MS + 1, -1, 1.5, True, "1s"])
def test_a_delay_that_is_none_is_refused(delay_ms: Any) -> None:
    with pytest.raises(ValueError, match="delay_ms is"):
        received(Record(), settler=Verdicts()).nack(delay_ms=delay_ms)


def test_a_message_that_was_not_received_has_nothing_to_settle() -> None:
    for message in (TextMessage(), sent(TextMessage())):
        for verdict in (message.acknowledge, message.nack):
            with pytest.raises(IllegalStateError, match="not received"):
                verdict()


def test_messages_compare_by_priority_the_higher_first_and_with_nothing_else() -> None:
    with pytest.raises(TypeError, match="not supported between instances of 'TextMessage' and 'int'"):
        TextMessage("a") < 5  # type: ignore[operator]  # noqa: B015
    low, high = TextMessage("low"), TextMessage("high")
    low._priority, high._priority = 1, 8
    assert [message.body for message in sorted([low, high])] == ["high", "low"]


class ClientRecord(Record):
    """Can be neither copied nor pickled, as the client's own."""

    def __reduce_ex__(self, _: object) -> str:
        raise TypeError("cannot pickle a record of the client's")


@pytest.mark.parametrize(
    "copied",
    [copy.copy, copy.deepcopy, lambda message: pickle.loads(pickle.dumps(message))],
    ids=["copy", "deep", "pickle"],
)
def test_a_received_message_can_be_copied_and_the_copy_is_detached(copied: Callable[[Message], Message]) -> None:
    message = received(ClientRecord(value=b"hello", headers=HEADERS))
    again = copied(message)
    assert type(again) is type(message)
    for name in ("body", "message_id", "unit_of_order", "destination", "redelivered", "delivery_count", *READERS):
        assert getattr(again, name) == getattr(message, name), name
    assert again.properties == message.properties
    assert again.kafka is None
    with pytest.raises(IllegalStateError, match="was not received"):
        again.acknowledge()
    again.body, again.properties["more"] = "other", 1
    assert "more" not in message.properties
    assert message.body == "hello"
    assert to_record(again, duplicate_id=None, properties={}).value == b"other"


def test_a_made_message_becomes_a_record() -> None:
    """Of MSG-1."""
    message = TextMessage("hello")
    message._known_id, message._priority, message.reply_to = "ID:p:2", 9, Queue("replies")
    message.set_float_property("f", 0.1)
    encoded = to_record(message, duplicate_id="d", sender="s", properties={"n": 1})
    assert encoded.value == b"hello"
    assert encoded.headers == [
        ("JMSMessageID", b"ID:p:2"),
        ("JBMBody", b"text"),
        ("JMSReplyTo", b"queue:replies"),
        ("JMSPriority", b"9"),
        ("JBMDuplicateID", b"d"),
        ("JBMSender", b"s"),
        ("jms.float.f", b"0.1"),
        ("jms.int.n", b"1"),
    ]
    assert message.properties == {"f": pytest.approx(0.1)}
    message._timestamp = 5
    assert ("JMSTimestamp", b"5") in to_record(message, write_timestamp=True).headers
    nothing = to_record(Message())
    assert (nothing.value, nothing.headers) == (None, [])


@pytest.mark.parametrize(
    "value", [b"temporary-queue:c-1.2@5", b"temporary-topic:c.1@0", b"mailto:me", b"queue:", b"queue:jbm.x", b"\xff"]
)
def test_any_reply_address_goes_on_as_it_came(value: bytes) -> None:
    """MSG-2, of MSG-1: whoever answers in the end may understand it."""
    message = received(Record(headers=[("JMSReplyTo", value), ("x", b"1")]))
    is_read = value.startswith(b"temporary-")
    assert str(message.reply_to).encode() == (value if is_read else b"None")
    assert ("_JBM_DECODE_ERROR" in message.properties) != is_read
    assert [header for header in to_record(message).headers if header[0] == "JMSReplyTo"] == [("JMSReplyTo", value)]
    message.reply_to = Queue("mine")
    mine = ("JMSReplyTo", b"queue:mine")
    assert [header for header in to_record(message).headers if header[0] == "JMSReplyTo"] == [mine]


def test_a_received_message_sent_on_takes_everything_along_but_what_a_send_writes() -> None:
    """Of MSG-1."""
    headers = [*HEADERS, ("JBMDuplicateID", b"d"), ("jms.int.bad", b"x")]
    message = received(Record(value=b"hello", headers=headers))
    message.message_id, message.priority, message.expiration, message.delivery_time = "ID:q:9", 4, 0, 0
    encoded = to_record(message, properties={"qty": "six"})
    assert encoded.value == b"hello"
    assert encoded.headers == [
        ("jms.string.region", b"EU"),
        ("content-type", b"\xff"),
        ("jms.int.bad", b"x"),
        ("JMSMessageID", b"ID:q:9"),
        ("JBMBody", b"text"),
        ("JMSCorrelationID", b"c"),
        ("JMSType", b"t"),
        ("JMSReplyTo", b"queue:replies"),
        ("jms.string.qty", b"six"),
    ]


def test_cleared_properties_do_not_go_along_and_what_jms_cannot_show_does() -> None:
    """Of MSG-1."""
    message = received(Record(value=b"hello", headers=[*HEADERS, ("seen", b"1")]))
    message.clear_properties()
    message.properties["only"] = True
    headers = dict(to_record(message).headers)
    assert headers["content-type"] == b"\xff"
    assert headers["jms.boolean.only"] == b"true"
    assert {"seen", "jms.string.region", "jms.int.qty"}.isdisjoint(headers)


def test_a_text_that_utf_8_cannot_say_is_refused_before_it_is_sent() -> None:
    message = TextMessage("x")
    message.properties["a"] = "\ud800"
    with pytest.raises(MessageFormatError, match="has no UTF-8 form"):
        to_record(message)
    with pytest.raises(MessageFormatError, match="property name"):
        to_record(TextMessage("x"), properties={"a b": 1})


class _HeadersUnread(Record):
    """A record whose headers nobody may look at."""

    def headers(self) -> list[Header] | None:
        raise AssertionError("the headers were read")


def test_the_unit_is_read_without_a_look_at_the_headers() -> None:
    """The key is the unit; all headers were decoded for it, at 5.5 us a message."""
    assert message_of(_HeadersUnread(key=b"u1"), None, ORDERS, 1, False, None).unit_of_order == "u1"


@given(headers=records_headers, value=st.none() | st.binary(max_size=4))
def test_a_property_read_alone_is_what_it_is_among_all(headers: list[Header], value: bytes | None) -> None:
    """MSG-2: also the reason of a failed decoding, and what the provider knows."""
    record = Record(headers=headers, value=value, key=b"u1")
    whole = dict(received(record).properties)
    for name in {*whole, DECODE_ERROR, "x", "JMSXGroupID"}:
        alone, after_all = received(record), received(record)
        assert len(after_all.properties) == len(whole)
        assert repr(alone.properties.get(name)) == repr(after_all.properties.get(name))
        assert name not in whole or repr(alone.properties[name]) == repr(whole[name])
