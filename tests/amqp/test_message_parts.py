"""Goal: what a link receives is what was sent on it, in however many transfers. Two engines, and no socket."""

from __future__ import annotations

from typing import Any

from proton import Collector, Connection, Event, Transport

from jbm_kafka.amqp_wire.message_parts import MessageParts


class Ends:
    """A sender, the engine at the other end, and what has arrived there."""

    def __init__(self) -> None:
        self._engines = [Transport(mode) for mode in (Transport.CLIENT, Transport.SERVER)]
        client, server = Connection(), Connection()
        self._collector = Collector()
        server.collect(self._collector)
        for connection, engine in zip((client, server), self._engines, strict=True):
            connection.container = "an end"
            connection.open()
            engine.bind(connection)
        session = client.session()
        session.open()
        self.sender = session.sender("link")
        self.sender.open()
        self.arrived: list[bytes] = []
        self.carry()

    def carry(self) -> None:
        """Let both ends read what the other has written, until nothing is written any more."""
        while sum(_carry(*pair) for pair in (self._engines, self._engines[::-1])):
            while (event := self._collector.peek()) is not None:
                self._take(event)
                self._collector.pop()

    def _take(self, event: Any) -> None:
        if event.type is Event.SESSION_REMOTE_OPEN:
            event.session.open()
        elif event.type is Event.LINK_REMOTE_OPEN:
            event.link.open()
            event.link.flow(10)
            self._parts = MessageParts(event.link)
        elif event.type is Event.DELIVERY and (data := self._parts.whole(event.delivery)) is not None:
            self.arrived.append(data)
            event.delivery.settle()


def _carry(one: Transport, other: Transport) -> bool:
    """True: there was something to be carried."""
    pending = one.pending()
    if pending > 0:
        other.push(bytes(one.peek(pending) or b""))
        one.pop(pending)
    return pending > 0


def test_a_message_of_several_transfers_arrives_once_and_whole() -> None:
    ends = Ends()
    delivery = ends.sender.delivery("1")
    for part in (b"one ", b"message"):
        ends.sender.stream(part)
        ends.carry()
        assert ends.arrived == []
    ends.sender.advance()
    ends.carry()
    assert ends.arrived == [b"one message"]
    delivery.settle()


def test_what_its_sender_aborted_began_the_next_message() -> None:
    """A browser's link, and that of replies, kept the parts."""
    ends = Ends()
    aborted = ends.sender.delivery("1")
    ends.sender.stream(b"half of")
    ends.carry()
    aborted.abort()
    ends.carry()
    ends.sender.delivery("2")
    ends.sender.stream(b"another")
    ends.sender.advance()
    ends.carry()
    assert ends.arrived == [b"another"]
