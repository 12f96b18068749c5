"""Goal: what a link receives is what was sent on it, in however many transfers. Two engines, and no socket."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from proton import Collector, Connection, Event, Transport

from jbm_kafka.amqp_client.record_link import CREDIT, RecordLink
from jbm_kafka.amqp_client.transfer_receiver import TransferReceiver
from jbm_kafka.amqp_wire.message_parts import MessageParts
from jbm_kafka.errors import MessageTooLargeError
from tests.support.manual_clock import ManualClock

ANSWER_S = 5.0


class Collected:
    """A link that keeps what arrives."""

    def __init__(self, link: Any) -> None:
        link.flow(10)
        self._parts = MessageParts(link)
        self.arrived: list[bytes] = []

    def delivery(self, delivery: Any) -> None:
        if (data := self._parts.whole(delivery)) is not None:
            self.arrived.append(data)
            delivery.settle()


class Ends:
    """A sender, the engine at the other end, and the link there that `make` has made."""

    def __init__(self, make: Callable[[Any], Any] = Collected) -> None:
        self._make = make
        self.deliveries: list[Any] = []
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
        self.carry()

    def abort(self, tag: str) -> None:
        """Send a part of a message, and then give it up."""
        delivery = self.sender.delivery(tag)
        self.sender.stream(b"half of")
        self.carry()
        delivery.abort()
        self.carry()

    def carry(self) -> None:
        """Let both ends read what the other has written, until nothing is written any more."""
        while sum(carry(*pair) for pair in (self._engines, self._engines[::-1])):
            while (event := self._collector.peek()) is not None:
                self._take(event)
                self._collector.pop()

    def _take(self, event: Any) -> None:
        if event.type is Event.SESSION_REMOTE_OPEN:
            event.session.open()
        elif event.type is Event.LINK_REMOTE_OPEN:
            event.link.open()
            self.link = self._make(event.link)
        elif event.type is Event.DELIVERY:
            self.deliveries.append(event.delivery)
            self.link.delivery(event.delivery)


def carry(one: Transport, other: Transport) -> bool:
    """Let the other read what the one has written. True: there was something."""
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
        assert ends.link.arrived == []
    ends.sender.advance()
    ends.carry()
    assert ends.link.arrived == [b"one message"]
    delivery.settle()


def test_what_its_sender_aborted_began_the_next_message() -> None:
    """A browser's link, and that of replies, kept the parts."""
    ends = Ends()
    ends.abort("1")
    ends.sender.delivery("2")
    ends.sender.stream(b"another")
    ends.sender.advance()
    ends.carry()
    assert ends.link.arrived == [b"another"]


class OnOneLoop:
    """The connection of a link at the other end; what it is to send is carried anyway."""

    is_over = False
    message_bytes_max = 1_000

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()

    def touch(self) -> None:
        """Nothing to do."""

    def flush(self) -> bool:
        """Return True: it is carried."""
        return True

    def forget(self, link: Any) -> None:
        """Nothing to do."""

    def close(self) -> None:
        """Have what waits done, and end the loop."""
        self.loop.call_soon(self.loop.stop)
        self.loop.run_forever()
        self.loop.close()


@pytest.fixture
def connection() -> Iterator[OnOneLoop]:
    with closing(OnOneLoop()) as made:
        yield made


def test_a_bridge_asked_for_nothing_more_after_large_messages_that_were_aborted(connection: OnOneLoop) -> None:
    """It asks for one at a time then, and its server had used that up."""

    def make(link: Any) -> TransferReceiver:
        made = TransferReceiver(connection, link, "queue:orders", 1_000, 1)
        made.remote_opened()
        return made

    ends = Ends(make)
    for tag in range(3):
        assert ends.sender.credit == 1
        ends.abort(str(tag))
    ends.sender.delivery("whole")
    ends.sender.stream(b"whole")
    ends.sender.advance()
    ends.carry()
    assert [each.data for each in ends.link.take(10, 0)] == [b"whole"]


def test_replies_came_no_more_after_many_that_were_aborted(connection: OnOneLoop) -> None:
    def make(link: Any) -> RecordLink:
        made = RecordLink(connection, link, "replies", lambda message: None, ManualClock())
        made.grant()
        return made

    ends = Ends(make)
    for tag in range(CREDIT + 1):
        assert ends.sender.credit > 0, tag
        ends.abort(str(tag))


def test_a_browser_waited_in_vain_when_the_last_message_was_aborted(connection: OnOneLoop) -> None:
    """Its server has used up the credit, so it says nothing more."""
    ends = Ends(lambda link: RecordLink(connection, link, "a browser", lambda message: None, ManualClock()))

    async def drained() -> None:
        waits = asyncio.ensure_future(ends.link.drain(1))
        await asyncio.wait([waits], timeout=0)  # it begins
        ends.carry()
        ends.abort("1")
        await asyncio.wait_for(waits, ANSWER_S)

    connection.loop.run_until_complete(drained())


@pytest.mark.parametrize("size", [1_000, 1_001])
def test_a_message_that_its_server_never_ends_ends_its_link_and_fills_no_memory(
    connection: OnOneLoop, size: int
) -> None:
    """AMQP-19: whatever the server sends on. One of the size that was said is whole."""

    def make(link: Any) -> TransferReceiver:
        made = TransferReceiver(connection, link, "queue:orders", 10)
        made.remote_opened()
        return made

    ends = Ends(make)
    assert ends.sender.remote_max_message_size == 1_000
    ends.sender.delivery("endless")
    for _ in range(10):
        ends.sender.stream(b"x" * 100)
        ends.carry()
    ends.sender.stream(b"x" * (size - 1_000))
    if size == 1_000:
        ends.sender.advance()
        ends.carry()
        assert [len(each.data) for each in ends.link.take(1, 0)] == [1_000]
        return
    for _ in range(100):
        ends.carry()
        assert not ends.link._parts._parts
        ends.sender.stream(b"x" * 1_000)
    assert ends.deliveries[-1].pending == 0
    with pytest.raises(MessageTooLargeError, match=r"^queue:orders: .* more than 1000 bytes; .* raise receive.message"):
        ends.link.take(1, 0)
    condition = ends.sender.remote_condition
    assert condition is not None
    assert condition.name == "amqp:link:message-size-exceeded"


def test_the_log_says_that_replies_come_no_more_after_one_that_was_too_large(
    connection: OnOneLoop, caplog: pytest.LogCaptureFixture
) -> None:
    """AMQP-19: who waits for a reply hears nothing."""

    def make(link: Any) -> RecordLink:
        made = RecordLink(connection, link, "queue:replies", lambda message: None, ManualClock())
        made.remote_opened()
        made.grant()
        return made

    ends = Ends(make)
    ends.sender.delivery("large")
    ends.sender.stream(b"x" * 1_001)
    ends.carry()
    (line,) = caplog.messages
    assert line.startswith("replies come no more: queue:replies: the AMQP server sends a message of more than 1000 ")
