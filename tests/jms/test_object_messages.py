"""Object messages through a queue: JSON, codecs of the application, and receivers that do not know one."""

import copy
import json
import pickle
from dataclasses import asdict, dataclass

import pytest

from jbm_kafka import (
    AcknowledgeMode,
    BytesMessage,
    MapMessage,
    Message,
    ObjectMessage,
    Queue,
    StreamMessage,
    TextMessage,
    errors,
    register_object_codec,
)
from jbm_kafka.codec import object_codecs
from jbm_kafka.codec.bodies import ObjectBody
from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.session import Session
from tests.jms.support import DEAD_LETTERS, SOON_S, Seen, copies, eventually, receive

ORDER = {"item": "chair", "lines": [{"qty": 3, "price": 49.5}, {"qty": 1, "price": None}], "paid": True}


PROPERTIES = {
    "boolean": True, "byte": -128, "short": 32767, "int": -(2**31), "long": 2**63 - 1, "float": 0.5, "double": 0.1,
    "string": "Zoë",
}  # fmt: skip


@dataclass(frozen=True)
class Parcel:
    to: str
    grams: int


register_object_codec(
    "parcel-v1",
    encode=lambda parcel: json.dumps(asdict(parcel)).encode(),
    decode=lambda data: Parcel(**json.loads(data)),
)


@pytest.fixture
def foreign(monkeypatch: pytest.MonkeyPatch) -> str:
    """A codec that is known while a message is made, and never when one is received."""
    monkeypatch.setitem(object_codecs._CODECS, "theirs", object_codecs.ObjectCodec(bytes, bytes))
    return "theirs"


def forget(codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(object_codecs._CODECS, codec)


def test_a_nested_value_is_received_as_it_was_sent(session: Session, orders: Queue) -> None:
    """Of MSG-1: JSON unless said otherwise, and every look is a value of its own."""
    session.create_producer(orders).send(session.create_object_message(ORDER))
    message = receive(session.create_consumer(orders))
    assert isinstance(message, ObjectMessage)
    assert message.body == ORDER
    message.body["item"] = "lamp"
    assert message.body == ORDER
    assert message.codec == "json"
    assert json.loads(message.data) == ORDER
    assert dict(message.properties) == {}


@pytest.mark.parametrize("value", [None, True, 5, 2**80, 0.5, "text", [], {}, [[1], None]])
def test_any_value_of_json_is_an_object(session: Session, orders: Queue, value: object) -> None:
    """Of MSG-1"""
    session.create_producer(orders).send(ObjectMessage(value))
    message = receive(session.create_consumer(orders))
    assert isinstance(message, ObjectMessage)
    assert message.body == value
    assert type(message.body) is type(value)


def test_a_class_of_the_application_is_received_by_its_codec(session: Session, orders: Queue) -> None:
    """Of MSG-1: whose name stands in a header."""
    parcel = Parcel("Zoë", 900)
    session.create_producer(orders).send(ObjectMessage(parcel, codec="parcel-v1"), unit_of_order="u")
    session.create_producer(orders).send(ObjectMessage(None, codec="parcel-v1"), unit_of_order="u")
    consumer = session.create_consumer(orders)
    message = receive(consumer)
    assert isinstance(message, ObjectMessage)
    assert (message.body, message.codec) == (parcel, "parcel-v1")
    assert message.kafka is not None
    assert ("JBMCodec", b"parcel-v1") in message.kafka.headers
    assert receive(consumer).body is None


def test_a_received_object_is_read_only_until_it_is_cleared(session: Session, orders: Queue) -> None:
    """Of MSG-1: then it keeps its codec."""
    session.create_producer(orders).send(ObjectMessage(Parcel("a", 1), codec="parcel-v1"))
    message = receive(session.create_consumer(orders))
    with pytest.raises(errors.MessageNotWriteableError, match=r"clear_body\(\)"):
        message.body = Parcel("b", 2)
    message.clear_body()
    assert message.body is None
    message.body = Parcel("b", 2)
    session.create_producer(orders).send(message)
    assert receive(session.create_consumer(orders)).body == Parcel("b", 2)


def written(made: BytesMessage) -> BytesMessage:
    made.write_int(5)
    made.write_utf("Zoë")
    return made


@pytest.mark.parametrize(
    "made",
    [
        TextMessage("Zoë"),
        TextMessage(),
        written(BytesMessage(b"\x00\xff")),
        MapMessage({"item": "chair", "qty": 3, "price": 0.5, "paid": True, "photo": b"\xff", "note": None}),
        StreamMessage(["chair", 3, 0.5, True, b"\xff", None]),
        ObjectMessage(ORDER),
        ObjectMessage(Parcel("a", 1), codec="parcel-v1"),
        Message(),
    ],
    ids=["text", "no-text", "bytes", "map", "stream", "json", "codec", "none"],
)
def test_every_kind_of_body_and_property_goes_through_and_on_unchanged(
    session: Session, orders: Queue, made: Message
) -> None:
    """MSG-1: read-only until cleared, and sent on as it was received."""
    made, has_body = copy.copy(made), type(made) is not Message
    for kind, value in PROPERTIES.items():
        getattr(made, f"set_{kind}_property")(kind, value)
    producer, consumer = session.create_producer(orders), session.create_consumer(orders)
    producer.send(made)
    message = receive(consumer)
    for _ in range(2):
        assert type(message) is type(made)
        assert message.body == made.body
        assert {kind: getattr(message, f"get_{kind}_property")(kind) for kind in PROPERTIES} == PROPERTIES
        assert dict(message._properties) == dict(made._properties)
        with pytest.raises(errors.MessageNotWriteableError, match=r"clear_properties\(\)"):
            message.properties["more"] = 1
        if has_body:
            with pytest.raises(errors.MessageNotWriteableError, match=r"clear_body\(\)"):
                message.body = made.body
        producer.send(message)
        message = receive(consumer)
    message.clear_properties()
    message.clear_body()
    assert dict(message.properties) == {}
    assert not message.body
    message.properties["more"] = 1
    if has_body:
        message.body = made.body
    producer.send(message)
    again = receive(consumer)
    assert (again.body, dict(again.properties)) == (made.body, {"more": 1})


def test_an_object_that_changes_after_it_was_given_does_not_change_its_message() -> None:
    """As JMS has it: the message holds the state of the object when it was set."""
    order = {"qty": 1}
    message = ObjectMessage(order)
    order["qty"] = 2
    assert message.body == {"qty": 1}


def test_an_object_of_an_unknown_codec_is_told_and_not_lost(
    session: Session, orders: Queue, foreign: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MSG-2: its bytes are there, the reason too, and it can be sent on as it is."""
    session.create_producer(orders).send(ObjectMessage(b"\x00\xff", codec=foreign))
    forget(foreign, monkeypatch)
    message = receive(session.create_consumer(orders))
    assert isinstance(message, ObjectMessage)
    remedy = r"codec 'theirs', which is not registered .* call jbm_kafka.register_object_codec\('theirs', encode=…"
    for read in (lambda: message.body, lambda: message.get_body(bytes), lambda: message.is_body_assignable_to(bytes)):
        with pytest.raises(errors.MessageFormatError, match=remedy) as caught:
            read()
        assert caught.value.codec == "theirs"
    assert message.data == b"\x00\xff"
    assert "'theirs', which is not registered" in str(message.properties["_JBM_DECODE_ERROR"])
    session.create_producer(orders).send(message)
    monkeypatch.setitem(object_codecs._CODECS, foreign, object_codecs.ObjectCodec(bytes, bytes))
    assert receive(session.create_consumer(orders)).body == b"\x00\xff"


def test_a_listener_that_does_not_know_a_codec_goes_on_with_other_messages(
    connection: Connection, orders: Queue, foreign: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of REDELIVER-4: the message comes again, as after any error of a handler, and is a dead letter then."""
    queue = Queue(f"{orders.name}.twice")
    session = connection.create_session()
    producer = session.create_producer(queue)
    producer.send(ObjectMessage(b"\x00\xff", codec=foreign), unit_of_order="a")
    producer.send("fine", unit_of_order="b")
    forget(foreign, monkeypatch)
    done: list[object] = []
    seen = Seen(lambda message: done.append(message.body))
    connection.create_session().create_consumer(queue).set_listener(seen)
    seen.wait(3)
    eventually(lambda: len(copies(connection, DEAD_LETTERS, of=queue)) == 1, "no dead letter")
    assert done == ["fine"]
    (letter,) = copies(connection, DEAD_LETTERS, of=queue)
    assert isinstance(letter, ObjectMessage)
    assert (letter.codec, letter.data) == ("theirs", b"\x00\xff")


def test_receive_body_of_an_unknown_codec_counts_as_not_received(
    session: Session, orders: Queue, foreign: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.create_producer(orders).send(ObjectMessage(b"x", codec=foreign))
    consumer = session.create_consumer(orders)
    forget(foreign, monkeypatch)
    for _ in range(2):
        with pytest.raises(errors.MessageFormatError, match=r"not registered .*; the message was not received") as told:
            consumer.receive_body(bytes, SOON_S)
        assert told.value.codec == "theirs"
    message = receive(consumer)
    assert (message.delivery_count, message.redelivered) == (1, False)


def test_receive_body_takes_the_class_of_an_object(session: Session, orders: Queue) -> None:
    producer = session.create_producer(orders)
    for made in (ObjectMessage(ORDER), ObjectMessage(Parcel("a", 1), codec="parcel-v1"), ObjectMessage(7)):
        producer.send(made, unit_of_order="u")
    consumer = session.create_consumer(orders)
    assert consumer.receive_body(dict, SOON_S) == ORDER
    with pytest.raises(errors.MessageFormatError, match="the body is a Parcel, not a dict; the message was not"):
        consumer.receive_body(dict, SOON_S)
    assert consumer.receive_body(Parcel, SOON_S) == Parcel("a", 1)
    assert consumer.receive_body(int, SOON_S) == 7


def test_what_is_announced_as_an_object_and_is_not_json_is_bytes_with_the_reason(
    session: Session, orders: Queue
) -> None:
    """MSG-2: whoever wrote it."""
    made = ObjectMessage({"a": 1})
    made._body = ObjectBody("json", b"{broken")
    session.create_producer(orders).send(made)
    message = receive(session.create_consumer(orders))
    assert isinstance(message, BytesMessage)
    assert message.body == b"{broken"
    assert "announced as an object, but cannot be read as JSON" in str(message.properties["_JBM_DECODE_ERROR"])


def test_a_transacted_session_sends_and_receives_objects(connection: Connection, orders: Queue) -> None:
    with connection.create_session(AcknowledgeMode.TRANSACTED) as session:
        session.create_producer(orders).send(ObjectMessage(ORDER))
        session.commit()
        assert receive(session.create_consumer(orders)).body == ORDER
        session.commit()


@pytest.mark.parametrize(
    "made",
    [ObjectMessage(ORDER), ObjectMessage(Parcel("a", 1), codec="parcel-v1"), MapMessage({"a": 1}), StreamMessage([1])],
    ids=["json", "codec", "map", "stream"],
)
def test_copies_have_a_body_of_their_own(made: ObjectMessage | MapMessage | StreamMessage) -> None:
    for again in (copy.copy(made), copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert again.body == made.body
        assert getattr(again, "codec", None) == getattr(made, "codec", None)
        again.clear_body()
        assert made.body


def test_a_codec_whose_error_has_no_text_is_told_as_any_other() -> None:
    """It came out as what its `__str__` raised."""

    class Silent(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    def encode(value: object) -> bytes:
        raise Silent

    register_object_codec("silent", encode=encode, decode=json.loads)
    with pytest.raises(errors.MessageFormatError, match=r"codec 'silent' cannot encode it: .*Silent$"):
        ObjectMessage({}, codec="silent")


def test_a_codec_that_is_not_registered_cannot_be_sent_by() -> None:
    with pytest.raises(errors.InvalidSettingError, match=r"codec is 'gone': .*call jbm_kafka.register_object_codec"):
        ObjectMessage(5, codec="gone")
    with pytest.raises(errors.InvalidTypeError, match="codec is 5"):
        ObjectMessage(5, codec=5)  # type: ignore[arg-type]


def test_a_cleared_object_of_an_unknown_codec_refuses_a_new_body(
    session: Session, orders: Queue, foreign: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.create_producer(orders).send(ObjectMessage(b"x", codec=foreign))
    forget(foreign, monkeypatch)
    message = receive(session.create_consumer(orders))
    message.clear_body()
    with pytest.raises(errors.InvalidSettingError, match="codec is 'theirs'"):
        message.body = b"y"


@pytest.mark.parametrize(
    ("message", "kinds", "others"),
    [
        (ObjectMessage([1]), (list, object), (dict, str)),
        (ObjectMessage(Parcel("a", 1), codec="parcel-v1"), (Parcel, object), (dict, bytes)),
        (BytesMessage(b"a"), (bytes, object), (str, dict, Parcel)),
        (StreamMessage([1]), (list, object), (bytes, dict)),
    ],
    ids=["list", "codec", "bytes", "stream"],
)
def test_a_body_is_given_as_a_class_that_it_is_of(
    message: Message, kinds: tuple[type, ...], others: tuple[type, ...]
) -> None:
    """Of MSG-1: getBody and isBodyAssignableTo."""
    for kind in kinds:
        assert message.is_body_assignable_to(kind)
        assert message.get_body(kind) == message.body
    for kind in others:
        assert not message.is_body_assignable_to(kind)
        with pytest.raises(errors.MessageFormatError, match=f"the body is .*, not (an? )?{kind.__name__}; "):
            message.get_body(kind)
    with pytest.raises(errors.InvalidTypeError, match="kind is 'str'"):
        message.get_body("str")  # type: ignore[arg-type]


def test_no_body_is_of_every_class() -> None:
    """As JMS has it, of a message without a body and of a text message without text."""
    for message in (Message(), ObjectMessage()):
        assert message.is_body_assignable_to(dict)
        assert message.get_body(dict) is None
