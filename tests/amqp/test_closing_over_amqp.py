"""Closing over AMQP: whatever was in hand, its connection goes on, and the next consumer gets everything."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final

import pytest

from jbm_kafka import AcknowledgeMode, ConnectionFactory, DeliveryMode, Message, Queue, errors
from jbm_kafka.amqp.amqp_server import Server
from jbm_kafka.amqp.server_settings import Listener, ServerSettings
from jbm_kafka.amqp_client.amqp_provider import AmqpProvider
from jbm_kafka.amqp_client.remote_receiver import RemoteReceiver
from jbm_kafka.core.channel.settlement import Modified
from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.consumer import MessageConsumer
from jbm_kafka.ports.completion import Completion
from jbm_kafka.ports.installation import Installation, SidecarConfig
from jbm_kafka.providers import in_memory
from tests.support.interrupts import interrupted_at, places
from tests.support.waiting import wait_until

TIMEOUT_S = 20.0
QUEUE = Queue("orders")
COUNT = 200
LONG = 400
UNITS: Final[dict[str, Callable[[int], str | None]]] = {
    "one": lambda _: "joe",
    "none": lambda _: None,
    "each": lambda number: f"u{number}",
}


@pytest.fixture
def server() -> Iterator[Server]:
    installation = Installation(f"closing{secrets.token_hex(4)}", {}, None, SidecarConfig())
    settings = ServerSettings([Listener(port=0)], drain_s=0.0)
    with Server(settings, lambda: in_memory.connect(installation)) as made:
        yield made


@pytest.fixture
def connection(server: Server) -> Iterator[Connection]:
    with ConnectionFactory(f"amqp://127.0.0.1:{server.ports[0]}").create_connection() as made:
        yield made


def send(connection: Connection, count: int, units: str) -> None:
    sender = connection.create_sender()
    for number in range(count):
        sender.send(QUEUE, str(number), unit_of_order=UNITS[units](number))


def receive(consumer: MessageConsumer, count: int) -> list[Message]:
    got: list[Message] = []
    while len(got) < count and (message := consumer.receive(TIMEOUT_S)) is not None:
        got.append(message)
    return got


def check_all_come(connection: Connection, count: int, units: str) -> None:
    """To a consumer of the same connection."""
    session = connection.create_session(AcknowledgeMode.CLIENT)
    again = [int(str(message.body)) for message in receive(session.create_consumer(QUEUE), count)]
    assert again == sorted(again) if units == "one" else sorted(again) == list(range(count))
    assert len(again) == count
    session.acknowledge()


@pytest.mark.parametrize("mode", DeliveryMode)
def test_ctrl_c_anywhere_in_a_send_holds_up_no_close(
    server: Server, connection: Connection, mode: DeliveryMode
) -> None:
    """SEND-3: a send that was counted and never made was waited for, for a minute; and where the event loop was about
    to be woken, everything that came after it.
    """
    sending = ConnectionFactory(f"amqp://127.0.0.1:{server.ports[0]}").create_connection()
    producer = sending.create_session().create_producer(QUEUE)
    producer.delivery_mode = mode
    producer.send("begun")
    finished: list[object] = []
    for place in places(finished):
        with suppress(KeyboardInterrupt):
            try:
                with interrupted_at(place):
                    producer.send(f"m{place}")
            except errors.JMSError as error:  # of a group: the last one was interrupted
                assert "was interrupted" in str(error)  # noqa: PT017
            else:
                finished.append(f"m{place}")
    with suppress(errors.JMSError):
        producer.flush(TIMEOUT_S)
    begin = time.monotonic()
    sending.close()
    assert time.monotonic() - begin < TIMEOUT_S
    browsed = [message.body for message in connection.create_session().create_browser(QUEUE)]
    assert set(finished) <= set(browsed)


@pytest.mark.parametrize("units", list(UNITS))
@pytest.mark.parametrize("mode", [AcknowledgeMode.CLIENT, AcknowledgeMode.TRANSACTED, AcknowledgeMode.INDIVIDUAL])
def test_a_session_that_closes_with_very_many_in_hand_breaks_no_connection(
    connection: Connection, mode: AcknowledgeMode, units: str
) -> None:
    """Its server was sending more meanwhile, and the next consumer heard nothing."""
    told: list[Exception] = []
    connection.exception_listener = told.append
    send(connection, COUNT, units)
    session = connection.create_session(mode)
    in_hand = COUNT if mode is not AcknowledgeMode.INDIVIDUAL or units != "one" else 1
    assert len(receive(session.create_consumer(QUEUE), in_hand)) == in_hand
    session.close()
    check_all_come(connection, COUNT, units)
    assert told == []


@pytest.mark.parametrize("goes_back", ["nack", "recover", "close"])
def test_a_unit_longer_than_a_read_keeps_its_counts_when_it_goes_back(connection: Connection, goes_back: str) -> None:
    """UNIT-3, REDELIVER-1: its outcomes come in several reads, and the server has it all back at the first."""
    send(connection, LONG, "one")
    session = connection.create_session(AcknowledgeMode.CLIENT)
    consumer = session.create_consumer(QUEUE)
    got = receive(consumer, LONG)
    if goes_back == "nack":
        got[0].nack()
    elif goes_back == "recover":
        session.recover()
    else:
        session.close()
        session = connection.create_session(AcknowledgeMode.CLIENT)
        consumer = session.create_consumer(QUEUE)
    again = [(message.body, message.delivery_count) for message in receive(consumer, LONG)]
    assert again == [(str(number), 2) for number in range(LONG)]
    session.acknowledge()


def test_what_goes_back_unread_in_two_parts_was_seen_by_nobody(connection: Connection) -> None:
    """REDELIVER-1: a receive that a close breaks off gives back what it took, and the close what is behind that."""
    send(connection, COUNT, "one")
    session = connection.create_session(AcknowledgeMode.CLIENT)
    consumer = session.create_consumer(QUEUE)
    link, seen = consumer._link, receive(consumer, 1)
    while len(link.buffer) < 2:
        seen += receive(consumer, 1)
    provider, are_back = connection._core.provider, Completion()
    assert isinstance(provider, AmqpProvider)

    def give_back() -> None:
        with link.lock:
            taken = link.pop()
        assert taken is not None
        link.give_back([(taken, Modified(taken.offset, counted=False))], are_back)
        link.give_back_unread()

    provider._io.mailbox.post(give_back)  # on the loop, which looks at what was said only after that
    assert are_back.wait_done(TIMEOUT_S)
    again = [(message.body, message.redelivered) for message in receive(consumer, COUNT - len(seen))]
    assert again == [(str(number), False) for number in range(len(seen), COUNT)]
    session.acknowledge()


@pytest.mark.parametrize("closes", ["consumer", "session", "connection"])
def test_what_a_listener_had_and_what_was_still_coming_when_it_closed_comes_again(
    server: Server, connection: Connection, closes: str
) -> None:
    """It holds all that it got, and another thread closes it in the midst of that."""
    other = ConnectionFactory(f"amqp://127.0.0.1:{server.ports[0]}").create_connection()
    other.start()
    send(connection, COUNT, "one")
    session, got = other.create_session(AcknowledgeMode.CLIENT), list[Message]()
    consumer = session.create_consumer(QUEUE)
    consumer.set_listener(got.append)
    wait_until(lambda: len(got) > COUNT // 2, about="half of them", timeout_s=TIMEOUT_S)
    if closes == "consumer":
        consumer.close()
    elif closes == "session":
        session.close()
    else:
        other.close()
    session.close()
    check_all_come(connection, COUNT, "one")
    other.close()


def test_a_consumer_whose_connection_breaks_as_it_is_made_is_not_deaf(connection: Connection) -> None:
    """Its link had been answered, and nobody told it that it had ended since."""
    provider = connection._core.provider
    assert isinstance(provider, AmqpProvider)
    made = provider._connection
    assert made is not None

    def break_when_answered() -> None:
        if any(isinstance(each, RemoteReceiver) and each._opened.done() for each in made._links.values()):
            made._wire.connection_lost(ConnectionResetError("it broke"))
            made.abort()
        else:
            provider._io.loop.call_soon(break_when_answered)

    provider._io.mailbox.post(break_when_answered)
    session = connection.create_session(AcknowledgeMode.CLIENT)
    with pytest.raises(errors.ConnectionFailedError, match="it broke"):
        session.create_consumer(QUEUE)
    send(connection, 1, "one")
    assert len(receive(session.create_consumer(QUEUE), 1)) == 1
