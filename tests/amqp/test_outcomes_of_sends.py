"""Goal: of a send that a server refuses the client knows whose fault it is. Two engines, and no socket."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from proton import Collector, Condition, Connection, Delivery, Event, Transport, symbol

from jbm_kafka.amqp_client.remote_sender import RemoteSender
from jbm_kafka.errors import JMSError, MessageTooLargeError
from tests.amqp.test_message_parts import OnOneLoop, carry

TOO_LARGE = Condition("amqp:link:message-size-exceeded", "too large")
MAXLEN = Condition("amqp:resource-limit-exceeded", "rejected", {symbol("reason"): "maxlen"})


class Sends:
    """A sender, what it was told of each message, and the server's end of its link."""

    def __init__(self, bytes_max: int = 0) -> None:
        """`bytes_max`: the server says that it takes no larger message; 0: it says nothing."""
        self._bytes_max = bytes_max
        self.at = OnOneLoop()
        self._engines = [Transport(mode) for mode in (Transport.CLIENT, Transport.SERVER)]
        self._collectors = [Collector(), Collector()]
        for engine, collector in zip(self._engines, self._collectors, strict=True):
            connection = Connection()
            connection.container = "an end"
            connection.collect(collector)
            connection.open()
            engine.bind(connection)
            if engine is self._engines[0]:
                session = connection.session()
        session.open()
        self.link: Any = None
        """The server's."""
        self.came: list[Any] = []
        """The deliveries, at the server."""
        self.told: dict[str, tuple[JMSError | None, Any]] = {}
        self._sender = RemoteSender(self.at, session.sender("link"), "queue:orders")
        self._sender.begin_open()
        self.carry()

    def put(self, data: str) -> None:
        """Send this."""

        def told(error: JMSError | None, said: Any) -> None:
            self.told[data] = error, said

        self._sender.put(data.encode(), told)
        self.carry()

    def carry(self) -> None:
        """Let both ends read and hear all."""
        while carry(*self._engines) + carry(*self._engines[::-1]):
            for number, collector in enumerate(self._collectors):
                while (event := collector.peek()) is not None:
                    (self._at_server if number else self._at_client)(event)
                    collector.pop()

    def _at_server(self, event: Any) -> None:
        if event.type is Event.SESSION_REMOTE_OPEN:
            event.session.open()
        elif event.type is Event.LINK_REMOTE_OPEN:
            self.link = event.link
            self.link.target.copy(self.link.remote_target)
            self.link.target.address = "orders"
            self.link.max_message_size = self._bytes_max
            self.link.open()
            self.link.flow(10)
        elif event.type is Event.DELIVERY and event.delivery.readable and not event.delivery.partial:
            self.came.append(event.delivery)
            self.link.recv(event.delivery.pending)
            self.link.advance()

    def _at_client(self, event: Any) -> None:
        if event.type is Event.LINK_REMOTE_OPEN:
            self._sender.remote_opened()
        elif event.type is Event.LINK_FLOW:
            self._sender.flow()
        elif event.type is Event.DELIVERY:
            self._sender.delivery(event.delivery)
        elif event.type is Event.LINK_REMOTE_CLOSE:
            self._sender.remote_ended(event.link.remote_condition)

    def close(self) -> None:
        """End the loop."""
        self.at.close()


@pytest.fixture
def sends() -> Iterator[Sends]:
    with closing(Sends()) as made:
        yield made


def test_a_message_larger_than_the_server_says_that_it_takes_is_not_sent_and_the_others_are() -> None:
    """AMQP-19, of BRIDGE-3: the server ended the link, and all that was under way was refused for good."""
    with closing(Sends(bytes_max=100)) as sends:
        for data in ("small", "x" * 101, "y" * 100):
            sends.put(data)
        assert len(sends.came) == 2
        (told,) = sends.told.values()
        error, said = told
        assert isinstance(error, MessageTooLargeError)
        assert str(error) == "queue:orders: a message of 101 bytes; the AMQP server takes 100"
        assert said == Delivery.REJECTED


@pytest.mark.parametrize(("count", "is_known"), [(1, True), (3, False)])
def test_a_link_that_ends_for_a_messages_size_blames_no_other_message(sends: Sends, count: int, is_known: bool) -> None:
    """Of BRIDGE-3: all were dead letters. A server that has not said what it takes does not say which it was."""
    for number in range(count):
        sends.put(str(number))
    sends.link.condition = TOO_LARGE
    sends.link.close()
    sends.carry()
    assert len(sends.told) == count
    for error, said in sends.told.values():
        assert said is None
        assert isinstance(error, MessageTooLargeError) == is_known
        assert "too large" in str(error)
    sends.put("later")
    assert not isinstance(sends.told["later"][0], MessageTooLargeError)


@pytest.mark.parametrize(
    ("condition", "is_for_good"), [(None, False), (MAXLEN, False), (Condition("amqp:decode-error", "not so"), True)]
)
def test_a_rejection_is_for_good_where_it_says_why(
    sends: Sends, condition: Condition | None, is_for_good: bool
) -> None:
    """Of BRIDGE-3: RabbitMQ rejects what comes while its queue is full, and gives no reason, or "maxlen"."""
    sends.put("one")
    (delivery,) = sends.came
    if condition is not None:
        delivery.local.condition = condition
    delivery.update(Delivery.REJECTED)
    delivery.settle()
    sends.carry()
    error, said = sends.told["one"]
    assert isinstance(error, JMSError)
    assert said == (Delivery.REJECTED if is_for_good else None)
