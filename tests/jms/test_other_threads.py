"""What another thread may call of a session while one receives; docs/sending-and-receiving.md lists it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from jbm_kafka import AcknowledgeMode, Connection, ConnectionFactory, Message, MessageConsumer, MessageProducer, Queue
from jbm_kafka import Session as JmsSession
from jbm_kafka.core.jms_errors import IllegalStateError
from tests.jms.support import eventually, receive

ORDERS, EMPTY = Queue("orders"), Queue("empty")


@dataclass
class Bench:
    """A session of which a thread receives from an empty queue, and what else it has."""

    connection: Connection
    session: JmsSession
    consumer: MessageConsumer
    receiving: MessageConsumer
    producer: MessageProducer
    messages: list[Message]
    got: list[Message | None] = field(default_factory=list)


@pytest.fixture(params=[AcknowledgeMode.INDIVIDUAL, AcknowledgeMode.CLIENT])
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    with ConnectionFactory("memory://other-threads").create_connection() as connection:
        sending = connection.create_session().create_producer(ORDERS)
        for number in range(3):
            sending.send(str(number))
        session = connection.create_session(request.param)
        producer = session.create_producer(ORDERS)
        consumer, receiving = session.create_consumer(ORDERS), session.create_consumer(EMPTY)
        made = Bench(connection, session, consumer, receiving, producer, [receive(consumer) for _ in range(3)])
        thread = threading.Thread(target=lambda: made.got.append(receiving.receive()))
        thread.start()
        eventually(lambda: made.session._core.guard.is_in_call, about="a thread in receive")
        yield made
        session.close()
        thread.join(10)
        assert not thread.is_alive()


def test_another_thread_acknowledges_and_gives_back(bench: Bench) -> None:
    bench.messages[2].nack()
    bench.messages[0].acknowledge()
    bench.session.acknowledge()
    assert bench.got == []


def test_another_thread_makes_messages_and_browses(bench: Bench) -> None:
    bench.session.create_text_message("a")
    bench.session.create_queue("other")
    bench.session.create_temporary_queue()
    bench.session.set_default_prefetch(5)
    assert list(bench.session.create_browser(EMPTY)) == []
    bench.producer.flush(timeout=10)
    bench.connection.stop()
    bench.connection.start()
    bench.producer.close()
    assert bench.got == []


@pytest.mark.parametrize(
    "close",
    [
        lambda bench: bench.receiving.close(),
        lambda bench: bench.session.close(),
        lambda bench: bench.connection.close(),
    ],
)
def test_another_thread_closes_and_so_ends_the_receive(bench: Bench, close: Callable[[Bench], None]) -> None:
    close(bench)
    eventually(lambda: bench.got == [None], about="the end of the receive")


REFUSED: dict[str, Callable[[Bench], object]] = {
    "receive": lambda bench: bench.consumer.receive(timeout=0),
    "set_listener": lambda bench: bench.consumer.set_listener(print),
    "send": lambda bench: bench.producer.send("a"),
    "request": lambda bench: bench.session.request(ORDERS, "a", timeout=1),
    "recover": lambda bench: bench.session.recover(),
    "commit": lambda bench: bench.session.commit(),
    "rollback": lambda bench: bench.session.rollback(),
    "create_producer": lambda bench: bench.session.create_producer(ORDERS),
    "create_consumer": lambda bench: bench.session.create_consumer(ORDERS),
    "unsubscribe": lambda bench: bench.session.unsubscribe("audit"),
}


@pytest.mark.parametrize("call", REFUSED)
def test_everything_else_of_another_thread_is_refused_at_once(bench: Bench, call: str) -> None:
    with pytest.raises(IllegalStateError, match=r"is in use by thread .*; use one session per thread"):
        REFUSED[call](bench)
    assert bench.got == []


def test_a_session_with_a_listener_makes_producers_and_consumers_and_sends_nothing() -> None:
    with ConnectionFactory("memory://other-threads").create_connection() as connection:
        session = connection.create_session()
        session.create_consumer(ORDERS).set_listener(lambda message: None)
        session.create_consumer(EMPTY).set_listener(lambda message: None)
        producer = session.create_producer(ORDERS)
        with pytest.raises(IllegalStateError, match="in use by its listener, which runs on a thread of its own"):
            producer.send("a")
