"""Mistakes that were taken in silence, or whose error led to what does not help. In memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from jbm_kafka import (
    AcknowledgeMode,
    BytesMessage,
    ConnectionFactory,
    DeliveryMode,
    MapMessage,
    Queue,
    StreamMessage,
    TextMessage,
    Topic,
    errors,
)
from jbm_kafka.admin import Admin
from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.context import Context
from jbm_kafka.jms.session import Session
from jbm_kafka.testing.memory_world import MemoryWorld

ORDERS = Queue("orders")
Call = Callable[[Any], object]


@pytest.fixture
def world() -> Iterator[MemoryWorld]:
    with MemoryWorld() as made:
        yield made


@pytest.fixture
def connection(world: MemoryWorld) -> Iterator[Connection]:
    with world.factory().create_connection() as made:
        yield made


@pytest.fixture
def session(connection: Connection) -> Session:
    return connection.create_session()


@pytest.fixture
def admin(world: MemoryWorld, session: Session) -> Iterator[Admin]:
    """Of a world with a queue and a topic."""
    with Admin(world.url) as made:
        made.create_queue(ORDERS)
        made.create_topic(Topic("news"))
        yield made


def _send(session: Session, **arguments: Any) -> object:
    return session.create_producer(ORDERS).send("a", **arguments)


@pytest.mark.parametrize(
    ("argument", "meant"),
    [
        ("on_delivery", "on_completion"),
        ("message_attributes", "properties"),
        ("MessageAttributes", "properties"),
        ("message_type", "type"),
        ("message_id", "duplicate_id"),
        ("MessageGroupId", "unit_of_order"),
        ("DelaySeconds", "delivery_delay_ms"),
        ("countdown", "delivery_delay_ms"),
        ("expires", "time_to_live_ms"),
        ("ttl_ms", "time_to_live_ms"),
        ("dedup_id", "duplicate_id"),
    ],
)
def test_what_other_systems_call_an_argument_of_send(session: Session, argument: str, meant: str) -> None:
    with pytest.raises(errors.InvalidTypeError, match=f"no argument '{argument}'; '{meant}' is meant, probably"):
        _send(session, **{argument: 1})


@pytest.mark.parametrize(
    ("made", "name", "meant"),
    [
        (TextMessage("a"), "requeue", "nack"),
        (TextMessage("a"), "delete", "acknowledge"),
        (TextMessage("a"), "property_names", "properties"),
        (TextMessage("a"), "payload", "body"),
        (BytesMessage(), "write_unsigned_byte", "write_byte"),
        (ConnectionFactory("memory://x"), "connect", "create_connection"),
        (TextMessage("a"), "delivery_tag", "message_id"),
        (TextMessage("a"), "change_visibility", "nack"),
        (TextMessage("a"), "basic_ack", "acknowledge"),
        (StreamMessage(), "write_utf", "write_string"),
        (MapMessage(), "set_list", "body"),
    ],
)
def test_what_other_systems_call_an_attribute(made: object, name: str, meant: str) -> None:
    with pytest.raises(AttributeError, match=f"'{name}'; '{meant}' is meant, probably"):
        getattr(made, name)


@pytest.mark.parametrize(
    ("call", "kind", "said"),
    [
        (lambda s: s.create_browser(ORDERS, "all"), errors.InvalidSettingError,
         "selector is 'all': it is what is shown; give it by name, as include='all'"),
        (lambda s: _send(s, properties={"JMSXGroupID": ""}), errors.MessageFormatError,
         "property JMSXGroupID is '': it is a str that is not empty, the unit of order"),
        (lambda s: _send(s, reply_to=""), errors.InvalidDestinationError,
         "reply_to is '': it is a Queue, as in Queue('orders'), and a name is not empty"),
        (lambda s: s.set_default_prefetch(-1), errors.InvalidSettingError,
         "count is -1: it is an int of messages from 1 to 1000000"),
    ],
)  # fmt: skip
def test_what_a_session_was_asked_for(session: Session, call: Call, kind: type[Exception], said: str) -> None:
    with pytest.raises(kind) as caught:
        call(session)
    assert str(caught.value) == said


@pytest.mark.parametrize(
    "write",
    [
        lambda: TextMessage("a").set_float_property("n", 1e300),
        lambda: MapMessage().set_float("n", -1e300),
        lambda: StreamMessage().write_float(1e39),
        lambda: BytesMessage().write_float(1e39),
    ],
)
def test_a_float_beyond_its_range_became_infinite(write: Callable[[], None]) -> None:
    with pytest.raises(errors.MessageFormatError, match=r"it is too large for a float; use a double$"):
        write()


def test_an_infinite_float_is_one() -> None:
    message = TextMessage("a")
    message.set_float_property("n", float("inf"))
    assert message.get_float_property("n") == float("inf")


def test_a_deleted_attribute_failed_in_the_midst_of_the_next_send(session: Session) -> None:
    producer, message = session.create_producer(ORDERS), TextMessage("a")
    with pytest.raises(AttributeError, match=r"^priority of a MessageProducer cannot be deleted$"):
        del producer.priority
    with pytest.raises(AttributeError, match=r"^correlation_id of a TextMessage cannot be deleted$"):
        del message.correlation_id
    producer.send(message)


def test_a_delivery_mode_given_by_its_number_is_the_mode(session: Session) -> None:
    producer = session.create_producer(ORDERS)
    producer.delivery_mode = 1  # type: ignore[assignment]
    assert producer.delivery_mode is DeliveryMode.NON_PERSISTENT


def test_create_session_with_whether_it_is_transacted_as_in_jms(connection: Connection) -> None:
    for asked, meant in ((True, "TRANSACTED"), (False, "AUTO")):
        with pytest.raises(errors.InvalidTypeError, match=f"use AcknowledgeMode.{meant}$"):
            connection.create_session(asked)  # type: ignore[arg-type]


def test_a_client_id_is_given_to_the_factory(world: MemoryWorld) -> None:
    told = r"it is given to the factory, ConnectionFactory\(…, client_id=…\)$"
    factory = world.factory()
    for make in (factory.create_connection, factory.create_context):
        with pytest.raises(errors.InvalidTypeError, match=told):
            make(client_id="a")  # type: ignore[call-arg]
    with factory.create_context() as context, pytest.raises(AttributeError, match=f"can be read, and not set; {told}"):
        context.client_id = "a"  # type: ignore[misc]


def test_a_context_that_sends_to_a_name_is_told_of_the_queue(world: MemoryWorld) -> None:
    with world.factory().create_context() as context:
        assert isinstance(context, Context)
        with pytest.raises(
            errors.InvalidDestinationError, match=r"it is a Queue, not its name; use Queue\('orders'\)$"
        ):
            context.create_producer().send("orders", "a")  # type: ignore[arg-type]


def test_a_nack_in_a_transaction_is_told_of_the_rollback(connection: Connection, session: Session) -> None:
    _send(session)
    transacted = connection.create_session(AcknowledgeMode.TRANSACTED)
    message = transacted.create_consumer(ORDERS).receive(10)
    assert message is not None
    with pytest.raises(errors.IllegalStateError, match=r"here rollback\(\) gives all of the transaction back$"):
        message.nack()


def test_a_subscription_in_use_names_both_selectors(session: Session) -> None:
    session.create_shared_durable_consumer(Topic("news"), "team")
    told = "one of topic:news, this one is of topic:news with the selector 'a = 1'; close its consumers"
    with pytest.raises(errors.IllegalStateError, match=told):
        session.create_shared_durable_consumer(Topic("news"), "team", selector="a = 1")


@pytest.mark.parametrize(
    ("call", "kind", "said"),
    [
        (lambda a: a.counts(5), errors.InvalidDestinationError,
         "destination is 5: it is a Queue, as in Queue('orders'), or its name"),
        (lambda a: a.exists(5), errors.InvalidDestinationError,
         "destination is 5: it is a Queue, as in Queue('orders'), or its name"),
        (lambda a: a.dead_letters(origin=5), errors.InvalidDestinationError,
         "origin is 5: it is a Queue, as in Queue('orders'), or its name"),
        (lambda a: a.move(ORDERS, Topic("news"), everything=True), errors.InvalidDestinationError,
         "to is topic:news: this is for queues only, use Queue(…); of a topic each subscription has its own copy"),
        (lambda a: a.counts(ORDERS, client_id="a"), errors.InvalidSettingError,
         "client_id is 'a': it is that of a subscription; name that too, with subscription=…"),
        (lambda a: a.counts("news"), errors.InvalidDestinationError,
         "'news' is a topic: name one of its subscriptions with subscription=NAME; jbm-kafka subscriptions list news "
         "shows them"),
        (lambda a: a.queues_with_dead_letters(queues_max=0), errors.InvalidSettingError,
         "queues_max is 0: it is an int of queues of at least 1"),
        (lambda a: a.unset_address_settings("orders", ["partitions"]), errors.InvalidTypeError,
         "name is ['partitions']: it is the name of a setting; several are arguments of their own"),
        (lambda a: a.pause("orders", 5), errors.InvalidTypeError,
         "what is 5: it is 'production' or 'sending', 'consumption' or 'receiving', or 'both'"),
        (lambda a: a.move("orders", "DLQ", everything=True, order=5), errors.InvalidTypeError,
         "order is 5: it is 'log' or 'sent' or 'priority'"),
        (lambda a: a.purge, AttributeError, "an Admin has no attribute 'purge'; 'remove' is meant, probably"),
    ],
)  # fmt: skip
def test_what_an_admin_was_asked_for(admin: Admin, call: Call, kind: type[Exception], said: str) -> None:
    with pytest.raises(kind) as caught:
        call(admin)
    assert str(caught.value) == said


def test_a_closed_admin_was_entered(world: MemoryWorld, connection: Connection) -> None:
    assert not connection.is_closed
    admin = Admin(world.url)
    admin.close()
    assert admin.is_closed
    with pytest.raises(errors.IllegalStateError, match="the admin is closed; make a new one"), admin:
        pass


def test_an_address_that_was_given_and_not_used_was_not_told_of(admin: Admin, session: Session) -> None:
    """Who receives goes by his own settings, and a dry run did not say where to."""
    admin.create_queue("elsewhere")
    given = {"everything": True, "expiry_address": "elsewhere"}
    _send(session)
    assert admin.expire(ORDERS, dry_run=True, **given).address == "elsewhere"  # type: ignore[arg-type]
    consumer = session.create_consumer(ORDERS)
    report = admin.expire(ORDERS, **given)  # type: ignore[arg-type]
    assert (len(report.messages), report.address) == (1, "ExpiryQueue")
    told = "expiry_address='elsewhere' was not used, they went to ExpiryQueue: processes receive from queue:orders"
    assert [each.startswith(told) for each in report.warnings] == [True]
    _send(session)
    assert not admin.expire(ORDERS, everything=True, expiry_address="ExpiryQueue").warnings
    _send(session)
    assert not admin.expire(ORDERS, everything=True).warnings
    consumer.close()


def test_a_message_compared_with_what_is_none_named_an_attribute_of_that() -> None:
    with pytest.raises(TypeError, match="'<' not supported between instances of 'TextMessage' and 'int'"):
        TextMessage("a") < 5  # type: ignore[operator]  # noqa: B015


def test_what_is_transient_elsewhere_was_led_to_its_opposite() -> None:
    with pytest.raises(AttributeError, match="'NON_PERSISTENT' is meant, probably"):
        DeliveryMode.TRANSIENT  # type: ignore[attr-defined]  # noqa: B018
