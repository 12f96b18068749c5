"""A server that begins a message and never ends it, by a socket: what its clients are told, and what they keep."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from proton import Collector, Connection, Event, Transport

from jbm_kafka import ConnectionFactory, Queue
from jbm_kafka.bridge import Bridge, BridgeEnd
from jbm_kafka.errors import InvalidSettingError, MessageTooLargeError
from jbm_kafka.testing.memory_world import MemoryWorld
from tests.support.waiting import wait_until

SOON_S = 10.0
MOST = 100_000
SETTINGS = {"receive.message.max.bytes": MOST}


class EndlessServer:
    """Lets everybody in, and sends each receiver one message that has no end, also when the link was ended."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"amqp://127.0.0.1:{self._socket.getsockname()[1]}"
        self.conditions: list[str] = []
        """The reasons with which clients have ended links."""
        self.sent_after = 0
        """The bytes that were sent on links that clients had ended."""
        self.most_said = 0
        """What the latest receiver said that it takes."""
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End it, and its connections."""
        self._is_over.set()
        self._socket.close()
        self._thread.join(SOON_S)

    def _serve(self) -> None:
        self._socket.settimeout(0.05)
        while not self._is_over.is_set():
            try:
                client, _ = self._socket.accept()
            except OSError:  # nobody, or it is closed
                continue
            with closing(client):
                self._talk(client)

    def _talk(self, client: socket.socket) -> None:
        client.settimeout(0.005)
        engine, connection, collector = Transport(Transport.SERVER), Connection(), Collector()
        engine.sasl().allowed_mechs("ANONYMOUS")
        connection.collect(collector)
        engine.bind(connection)
        endless: list[Any] = []
        while not self._is_over.is_set() and engine.capacity() >= 0:
            try:
                if not (came := client.recv(65_536)):
                    return
                engine.push(came)
            except TimeoutError:
                pass
            except OSError:
                return
            while (event := collector.peek()) is not None:
                self._hear(event, endless)
                collector.pop()
            for link in endless:
                link.stream(bytes(20_000))
                self.sent_after += 20_000 if self.conditions else 0
            while (pending := engine.pending()) > 0:
                client.sendall(engine.peek(pending) or b"")
                engine.pop(pending)

    def _hear(self, event: Any, endless: list[Any]) -> None:
        if event.type is Event.CONNECTION_REMOTE_OPEN:
            event.connection.container = "endless"
            event.connection.open()
        elif event.type is Event.SESSION_REMOTE_OPEN:
            event.session.open()
        elif event.type is Event.LINK_REMOTE_OPEN:
            event.link.source.copy(event.link.remote_source)
            event.link.target.copy(event.link.remote_target)
            event.link.open()
        elif event.type is Event.LINK_FLOW and event.link.is_sender and event.link.credit and not endless:
            self.most_said = event.link.remote_max_message_size
            event.link.delivery("endless")
            endless.append(event.link)
        elif event.type in (Event.LINK_REMOTE_DETACH, Event.LINK_REMOTE_CLOSE) and event.link.remote_condition:
            self.conditions.append(event.link.remote_condition.name)


@pytest.fixture
def server() -> Iterator[EndlessServer]:
    with closing(EndlessServer()) as made:
        yield made


def test_a_receive_says_that_the_message_is_too_large_and_what_to_set(server: EndlessServer) -> None:
    """AMQP-19: the client kept all of it."""
    with ConnectionFactory(server.url, kafka=SETTINGS).create_context() as jms:
        consumer = jms.create_consumer(Queue("orders"))
        with pytest.raises(MessageTooLargeError) as told:
            consumer.receive(SOON_S)
        assert str(told.value) == (
            "queue:orders: the AMQP server sends a message of more than 100000 bytes; if one may be so large, raise "
            "receive.message.max.bytes"
        )
        wait_until(lambda: server.sent_after > MOST, about="it sends on", timeout_s=SOON_S)
    assert server.conditions == ["amqp:link:message-size-exceeded"]
    assert server.most_said == MOST


def test_a_bridge_stands_and_says_why(server: EndlessServer) -> None:
    """AMQP-19, BRIDGE-8."""
    with MemoryWorld() as world:
        source = BridgeEnd(server.url, Queue("in"), kafka=SETTINGS)
        bridge = Bridge("across", source, BridgeEnd(world.factory(), Queue("out")))
        bridge.start()
        try:
            wait_until(lambda: "max.bytes" in (bridge.trouble or ""), about=repr(bridge), timeout_s=SOON_S)
        finally:
            bridge.stop()


@pytest.mark.parametrize("size", ["many", 999, 2**31])
def test_a_size_that_cannot_be_is_refused(size: object) -> None:
    with pytest.raises(InvalidSettingError, match=r"receive.message.max.bytes is .*: it is an int of bytes from 1000"):
        ConnectionFactory("amqp://localhost", kafka={"receive.message.max.bytes": size}).create_context()
