"""Texts of other classes than `str`: what counts is their characters, on Kafka as in memory."""

from enum import Enum

import pytest

from jbm_kafka import (
    AcknowledgeMode,
    AddressSettings,
    BytesMessage,
    ConnectionFactory,
    MapMessage,
    Message,
    ObjectMessage,
    Queue,
    StreamMessage,
    Topic,
    errors,
)
from jbm_kafka.jms.session import Session
from tests.jms.conftest import Connect
from tests.jms.support import receive


class Status(str, Enum):  # noqa: UP042 - what is tested
    """As applications write them: `str()` of a member is `Status.OPEN`."""

    OPEN = "open"
    NOTE = "note"


def assert_plain(values: object) -> None:
    """No text in it is of another class."""
    if isinstance(values, dict):
        values = [*values, *values.values()]
    for each in values if isinstance(values, list | tuple) else [values]:
        assert not isinstance(each, str) or type(each) is str, repr(each)


@pytest.mark.parametrize(
    ("message", "body"),
    [
        (Status.OPEN, "open"),
        ({Status.NOTE: Status.OPEN}, {"note": "open"}),
        (MapMessage({"note": Status.OPEN}), {"note": "open"}),
        (StreamMessage([Status.OPEN, 1]), ["open", 1]),
        (ObjectMessage({Status.NOTE: [Status.OPEN]}), {"note": ["open"]}),
    ],
    ids=["text", "dict", "map", "stream", "object"],
)
def test_a_member_of_a_text_enum_arrived_as_the_name_of_its_class(
    session: Session, orders: Queue, message: Message, body: object
) -> None:
    """MSG-1: `Status.OPEN` arrived as 'Status.OPEN', or was refused, where its characters are 'open'."""
    sent = session.create_producer(orders).send(
        message, type=Status.NOTE, correlation_id=Status.OPEN, unit_of_order=Status.OPEN,
        duplicate_id=Status.NOTE, properties={Status.NOTE: Status.OPEN},
    )  # fmt: skip
    received = receive(session.create_consumer(orders, selector=Chosen.OPEN))
    for each in (sent, received) if sent is not message else (received,):
        assert (each.body, each.properties.get("note")) == (body, "open")
        assert each.properties.get(Status.NOTE) == "open"
    for each in (sent, received):
        assert (each.type, each.correlation_id, each.unit_of_order) == ("note", "open", "open")
        assert_plain([each.type, each.correlation_id, each.unit_of_order, *each.properties, *each.properties.values()])
        assert_plain(each.body)


class Chosen(str, Enum):  # noqa: UP042 - what is tested
    """Selectors."""

    OPEN = "note = 'open'"


def test_what_is_set_of_a_message_is_plain() -> None:
    """MSG-1: properties, entries and headers by their setters, and looked up by a member too."""
    message = MapMessage()
    message.set_string(Status.NOTE, Status.OPEN)
    message.set_object("char", Status.OPEN)
    message.set_string_property(Status.NOTE, Status.OPEN)
    message.correlation_id, message.type = Status.OPEN, Status.NOTE
    assert_plain([message.body, *message.names, *message.properties, *message.properties.values()])
    assert_plain([message.body["note"], message.body["char"], message.correlation_id, message.type])
    assert message.get_string(Status.NOTE) == message.get_string_property(Status.NOTE) == "open"
    assert message.item_exists(Status.NOTE)
    assert message.property_exists(Status.NOTE)
    del message.properties[Status.NOTE]
    assert not message.properties
    stream = StreamMessage()
    stream.write_string(Status.OPEN)
    assert_plain(stream.body)
    data = BytesMessage()
    data.write_utf(Status.OPEN)
    assert data.body == b"\0\4open"


def test_a_destination_of_a_text_enum_was_another_one(connect: Connect, orders: Queue) -> None:
    """MSG-1: names of destinations, subscriptions, clients, settings and units, as members of an enum."""
    names = Enum("names", {"QUEUE": orders.name, "CLIENT": f"{orders.name}.client", "PATTERN": "#"}, type=str)
    queue = Queue(names.QUEUE)  # type: ignore[arg-type]
    assert queue == orders
    assert_plain(queue.name)
    topic = Topic(f"{orders.name}.news")
    settings = AddressSettings(dead_letter_address=Status.OPEN, default_unit_of_order=Status.NOTE, partitions=1)
    assert_plain([settings.dead_letter_address, settings.default_unit_of_order])
    with connect(client_id=names.CLIENT) as connection:
        assert_plain(connection.client_id)
        session = connection.create_session(AcknowledgeMode.AUTO)
        consumer = session.create_durable_consumer(topic, Status.NOTE)
        producer = session.create_producer(topic)
        producer.unit_of_order = Status.OPEN
        producer.send("a")
        received = receive(consumer)
        assert received.unit_of_order == "open"
        assert_plain(received.unit_of_order)
        consumer.close()
        session.unsubscribe("note")


WRONG = "caf\udce9"
NO_UTF8 = r"'caf\\udce9': '\\udce9' at position 4 has no UTF-8 form: .*puts \? there"


def test_a_lone_surrogate_in_a_recorded_name_was_a_bare_unicode_error(connect: Connect, orders: Queue) -> None:
    """CONN-2, TOPIC-2: as a shell's $'caf\\xe9' gives it: one line with the value and the remedy."""
    with pytest.raises(errors.InvalidClientIDError, match=f"client_id is {NO_UTF8}"):
        connect(client_id=WRONG)
    with pytest.raises(errors.InvalidSettingError, match=f"default_unit_of_order is {NO_UTF8}"):
        ConnectionFactory("localhost:9092", default_unit_of_order=WRONG)
    with pytest.raises(errors.InvalidSettingError, match=f"default_unit_of_order is {NO_UTF8}"):
        AddressSettings(default_unit_of_order=WRONG)
    with connect() as connection:
        with pytest.raises(errors.InvalidClientIDError, match=f"client_id is {NO_UTF8}"):
            connection.client_id = WRONG
        with connection.create_session(AcknowledgeMode.AUTO) as session:
            for use in (session.create_shared_consumer, session.create_shared_durable_consumer):
                with pytest.raises(errors.InvalidSettingError, match=f"name is {NO_UTF8}"):
                    use(Topic(f"{orders.name}.news"), WRONG)
            with pytest.raises(errors.InvalidSettingError, match=f"name is {NO_UTF8}"):
                session.unsubscribe(WRONG)
