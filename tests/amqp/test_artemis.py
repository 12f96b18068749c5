"""The API over AMQP against Apache Artemis: another broker of AMQP 1.0 serves for plain queues (docs/amqp.md)."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from typing import Any

import pytest

from jbm_kafka import AcknowledgeMode, ConnectionFactory, Context, Message, Queue, errors
from tests.support.artemis import artemis_server

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(120)]

TIMEOUT_S = 20.0
NOTHING_S = 0.5


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    """Its address; it keeps nothing, and its dead letters are those that failed thrice."""
    with artemis_server() as server:
        yield server.url


@pytest.fixture
def factory(broker: str) -> ConnectionFactory:
    return ConnectionFactory(broker)


@pytest.fixture
def context(factory: ConnectionFactory) -> Iterator[Context]:
    with factory.create_context() as made:
        yield made


@pytest.fixture
def orders() -> Queue:
    return Queue(f"orders-{secrets.token_hex(4)}")


def send(context: Context, queue: Queue, *bodies: Any, **values: Any) -> None:
    producer = context.create_producer()
    for body in bodies:
        producer.send(queue, body, **values)


def receive(consumer: Any) -> Message:
    message: Message | None = consumer.receive(timeout=TIMEOUT_S)
    assert message is not None
    return message


def bodies(consumer: Any, count: int) -> list[Any]:
    return [receive(consumer).body for _ in range(count)]


BODIES = ["text", b"\x00\xff", {"a": 1, "b": b"bytes", "c": "text"}]


def test_every_kind_of_body_comes_as_it_was_sent(context: Context, orders: Queue) -> None:
    """AMQP-17."""
    send(context, orders, *BODIES)
    producer = context.create_producer()
    producer.send(orders, context.create_object_message({"nested": [1, {"deep": None}]}))
    producer.send(orders, context.create_stream_message([1, "two", 3.5, None, True]))
    producer.send(orders, context.create_message())
    consumer = context.create_consumer(orders)
    assert bodies(consumer, 6) == [*BODIES, {"nested": [1, {"deep": None}]}, [1, "two", 3.5, None, True], None]


def test_headers_and_properties_come_as_they_were_sent(context: Context, orders: Queue) -> None:
    """AMQP-17."""
    message = context.create_text_message("one")
    message.type, message.correlation_id = "order", "c-1"
    properties = {"text": "ä", "number": 5, "flag": True, "real": 1.5}
    sent = context.create_producer().send(orders, message, properties=properties, priority=7, time_to_live_ms=60_000)
    found = receive(context.create_consumer(orders))
    assert {name: found.properties[name] for name in properties} == properties
    assert (found.type, found.correlation_id, found.priority) == ("order", "c-1", 7)
    assert (found.message_id, found.timestamp, found.redelivered) == (sent.message_id, sent.timestamp, False)
    assert abs(found.expiration - sent.expiration) < 5_000
    assert found.destination == orders


@pytest.mark.parametrize("mode", [AcknowledgeMode.AUTO, AcknowledgeMode.DUPS_OK])
def test_what_was_received_is_gone(factory: ConnectionFactory, orders: Queue, mode: AcknowledgeMode) -> None:
    """AMQP-17."""
    with factory.create_context(acknowledge_mode=mode) as context:
        send(context, orders, *range_of(20))
        assert bodies(context.create_consumer(orders), 20) == range_of(20)
    with factory.create_context() as context:
        assert context.create_consumer(orders).receive(timeout=NOTHING_S) is None


def range_of(count: int) -> list[str]:
    return [str(number) for number in range(count)]


def test_client_acknowledges_all_at_once_and_recovers(factory: ConnectionFactory, orders: Queue) -> None:
    """AMQP-17: what comes again is counted by the broker."""
    with factory.create_context(acknowledge_mode=AcknowledgeMode.CLIENT) as context:
        send(context, orders, "one", "two")
        consumer = context.create_consumer(orders)
        assert bodies(consumer, 2) == ["one", "two"]
        context.recover()
        again = [receive(consumer), receive(consumer)]
        assert [(each.body, each.delivery_count, each.redelivered) for each in again] == [
            ("one", 2, True),
            ("two", 2, True),
        ]
        context.acknowledge()
        assert consumer.receive(timeout=NOTHING_S) is None
    with factory.create_context() as context:
        assert context.create_consumer(orders).receive(timeout=NOTHING_S) is None


def test_individual_acknowledges_one(factory: ConnectionFactory, orders: Queue) -> None:
    """AMQP-17."""
    with factory.create_context(acknowledge_mode=AcknowledgeMode.INDIVIDUAL) as context:
        send(context, orders, "one", "two", "three")
        consumer = context.create_consumer(orders)
        first, second, third = (receive(consumer) for _ in range(3))
        second.acknowledge()
        first.nack()
        third.acknowledge()
        again = receive(consumer)
        assert (again.body, again.delivery_count) == ("one", 2)
        again.acknowledge()
        assert consumer.receive(timeout=NOTHING_S) is None


@pytest.mark.parametrize("mode", [AcknowledgeMode.CLIENT, AcknowledgeMode.PRE, AcknowledgeMode.NO])
@pytest.mark.parametrize("waits", [False, True])
def test_what_was_acknowledged_is_gone(broker: str, orders: Queue, mode: AcknowledgeMode, waits: bool) -> None:
    """AMQP-17: `block_on_acknowledge` finds nothing to wait for."""
    factory = ConnectionFactory(broker, block_on_acknowledge=waits)
    with factory.create_context(acknowledge_mode=mode) as context:
        send(context, orders, "one", "two")
        assert bodies(context.create_consumer(orders), 2) == ["one", "two"]
        if mode is AcknowledgeMode.CLIENT:
            context.acknowledge()
    with factory.create_context() as context:
        assert context.create_consumer(orders).receive(timeout=NOTHING_S) is None


def test_a_transaction_sends_and_acknowledges_together_or_not_at_all(
    factory: ConnectionFactory, context: Context, orders: Queue
) -> None:
    """AMQP-17."""
    answers = Queue(f"{orders.name}-answers")
    send(context, orders, "one")
    with factory.create_context(acknowledge_mode=AcknowledgeMode.TRANSACTED) as transacted:
        consumer = transacted.create_consumer(orders)
        assert receive(consumer).body == "one"
        send(transacted, answers, "rolled back")
        transacted.rollback()
        again = receive(consumer)
        assert (again.body, again.delivery_count, again.redelivered) == ("one", 2, True)
        send(transacted, answers, "answer")
        transacted.commit()
        assert consumer.receive(timeout=NOTHING_S) is None
    consumer = context.create_consumer(answers)
    assert receive(consumer).body == "answer"
    assert consumer.receive(timeout=NOTHING_S) is None


def test_what_fails_too_often_is_the_brokers_dead_letter(factory: ConnectionFactory, orders: Queue) -> None:
    """AMQP-17."""
    with factory.create_context(acknowledge_mode=AcknowledgeMode.TRANSACTED) as context:
        send(context, orders, "bad")
        context.commit()
        consumer = context.create_consumer(orders)
        for count in range(1, 4):
            message = receive(consumer)
            assert (message.body, message.delivery_count) == ("bad", count)
            context.rollback()
        letters = context.create_consumer(Queue("DLQ"))
        assert receive(letters).body == "bad"
        context.commit()


def test_a_selector_chooses(context: Context, orders: Queue) -> None:
    """AMQP-17."""
    send(context, orders, "eu", properties={"region": "EU"})
    send(context, orders, "us", properties={"region": "US"})
    assert receive(context.create_consumer(orders, selector="region = 'US'")).body == "us"
    assert receive(context.create_consumer(orders)).body == "eu"


def test_a_browser_shows_and_takes_nothing(context: Context, orders: Queue) -> None:
    """AMQP-17."""
    send(context, orders, "one", "two")
    assert [message.body for message in context.create_browser(orders)] == ["one", "two"]
    assert bodies(context.create_consumer(orders), 2) == ["one", "two"]


def test_a_unit_is_the_group_that_one_consumer_gets(factory: ConnectionFactory, orders: Queue) -> None:
    """AMQP-17: as the broker's rules for groups are."""
    with factory.create_context() as one, factory.create_context() as other:
        first, second = one.create_consumer(orders), other.create_consumer(orders)
        send(one, orders, *range_of(4), unit_of_order="joe")
        found = receive(first) if (found := first.receive(timeout=2)) is None else found
        assert (found.body, found.unit_of_order) == ("0", "joe")
        assert bodies(first, 3) == range_of(4)[1:]
        assert second.receive(timeout=NOTHING_S) is None


def test_what_is_rolled_back_of_a_unit_comes_again_before_what_is_behind_it(
    factory: ConnectionFactory, orders: Queue
) -> None:
    """AMQP-17: what was sent ahead goes back, too. A broker that confirms no outcome sent the unit in circles."""
    with factory.create_context(acknowledge_mode=AcknowledgeMode.TRANSACTED) as context:
        send(context, orders, *range_of(300), unit_of_order="joe")
        context.commit()
        consumer = context.create_consumer(orders, prefetch=50)
        done = 0
        while done < 300:
            assert bodies(consumer, 3) == range_of(300)[done : done + 3]
            context.rollback()
            assert bodies(consumer, 20) == range_of(300)[done : done + 20]
            context.commit()
            done += 20
        assert consumer.receive(timeout=NOTHING_S) is None


def test_a_large_message_goes_through(context: Context, orders: Queue) -> None:
    """AMQP-17: in many frames, as one that the broker keeps apart."""
    data = secrets.token_bytes(3 * 2**20)
    send(context, orders, data)
    assert receive(context.create_consumer(orders)).body == data


def test_a_delayed_message_comes_at_its_time(context: Context, orders: Queue) -> None:
    """AMQP-17."""
    before = time.monotonic()
    send(context, orders, "later", delivery_delay_ms=1_000)
    assert receive(context.create_consumer(orders)).body == "later"
    assert time.monotonic() - before >= 0.9


def test_a_request_gets_its_reply(factory: ConnectionFactory, context: Context, orders: Queue) -> None:
    """AMQP-17: by a temporary queue of the broker's."""
    with factory.create_context() as server:
        producer = server.create_producer()

        def answer(message: Message) -> None:
            assert message.reply_to is not None
            producer.send(message.reply_to, f"re: {message.body}", correlation_id=message.correlation_id)

        server.create_consumer(orders).set_listener(answer)
        assert context.request(orders, "question", timeout=TIMEOUT_S).body == "re: question"


def test_what_the_broker_refuses_is_an_error(context: Context) -> None:
    """AMQP-17."""
    with pytest.raises(errors.JMSError):
        context.create_consumer(Queue("orders"), selector="region = = 'EU'")
