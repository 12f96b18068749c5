"""Clients of an AMQP server that come, use it in every way, and leave in every way; a process may run them."""

from __future__ import annotations

import os
import secrets
import time
from itertools import count
from pathlib import Path
from typing import Any

from proton import Delivery, Message
from proton.reactor import DurableSubscription
from proton.utils import BlockingConnection

from tests.amqp.blocking_transactions import BlockingTransaction, is_committed

TIMEOUT_S = 60
EACH = 40
"""Messages that a client sends."""
PREFETCHED = 20
IN_TRANSACTION = 5
ACCEPTED = 0x24


def a_message() -> Message:
    return Message(id=secrets.token_hex(8), body="x" * 200, durable=True)


def send(client: Any, address: str, how_many: int) -> None:
    """Return when the server has them all."""
    sender = client.create_sender(address)
    sent = [sender.link.send(a_message()) for _ in range(how_many)]
    client.wait(lambda: all(each.settled for each in sent))
    assert all(each.remote_state == Delivery.ACCEPTED for each in sent)
    for each in sent:
        each.settle()
    sender.close()


def receive_all(receiver: Any) -> None:
    """What one client has sent."""
    for _ in range(EACH):
        receiver.receive(timeout=TIMEOUT_S)
        receiver.accept()
    receiver.close()


class Visitor:
    """Clients one after another, on a queue of their own; after each that leaves messages one takes them all."""

    def __init__(self, url: str, pid: int, name: str) -> None:
        self._url = url
        self._memory = Path(f"/proc/{pid}/statm")
        self._name = name
        self._left = 0
        """Messages in the queue."""
        self._outcomes = count()
        self.samples: list[tuple[float, int]] = []
        """When, and the bytes that the server had resident."""

    def visit(self, number: int) -> None:
        ways = (
            self.drop,
            self.roll_back,
            self.commit,
            self.subscribe,
            self.subscribe_durably,
            self.ask,
            self.open_links,
        )
        client = BlockingConnection(self._url, timeout=TIMEOUT_S)
        if number % 2:
            self.take(client)
        else:
            ways[number // 2 % len(ways)](client)
        pages = int(self._memory.read_text(encoding="ascii").split()[1])
        self.samples.append((time.monotonic(), pages * os.sysconf("SC_PAGE_SIZE")))

    def fill(self, client: Any, how_many: int = EACH) -> None:
        send(client, self._name, how_many)
        self._left += how_many

    def take(self, client: Any) -> None:
        """All there are, with every outcome."""
        self.fill(client)
        receiver = client.create_receiver(self._name, credit=PREFETCHED)
        while self._left:
            attempts = receiver.receive(timeout=TIMEOUT_S).delivery_count
            outcome = next(self._outcomes) % EACH
            if outcome == 1:
                receiver.release(delivered=False)
            elif outcome == 2 and not attempts:  # or else it would be given up, now and then
                receiver.fetcher.unsettled[0].local.failed = True
                receiver.release(delivered=True)
            else:
                receiver.settle(Delivery.REJECTED if outcome == 3 else Delivery.ACCEPTED)
                self._left -= 1
        receiver.close()
        client.close()

    def drop(self, client: Any) -> None:
        """Its socket, without a word, with messages in hand."""
        self.fill(client)
        receiver = client.create_receiver(self._name, credit=PREFETCHED)
        for _ in range(PREFETCHED // 2):
            receiver.receive(timeout=TIMEOUT_S)
        cut(client)

    def roll_back(self, client: Any) -> None:
        self._transact(client, fails=True)

    def commit(self, client: Any) -> None:
        self._transact(client, fails=False)
        self._left -= IN_TRANSACTION - 1

    def _transact(self, client: Any, *, fails: bool) -> None:
        self.fill(client, EACH - 1)
        transaction = BlockingTransaction(client)
        transaction.send(client.create_sender(self._name), a_message())
        receiver = client.create_receiver(self._name, credit=1)
        for _ in range(IN_TRANSACTION):
            receiver.receive(timeout=TIMEOUT_S)
            transaction.settle(receiver, ACCEPTED, [])
        assert is_committed(transaction.discharge(fails=fails)) or fails
        client.close()

    def subscribe(self, client: Any) -> None:
        receiver = client.create_receiver(f"topic://{self._name}.topic", credit=PREFETCHED)
        send(client, f"topic://{self._name}.topic", EACH)
        receive_all(receiver)
        client.close()

    def subscribe_durably(self, client: Any) -> None:
        """And end the subscription, as closing its link does."""
        topic = f"topic://{self._name}.topic"
        receiver = client.create_receiver(topic, credit=PREFETCHED, name=self._name, options=DurableSubscription())
        send(client, topic, EACH)
        receive_all(receiver)
        client.close()

    def ask(self, client: Any) -> None:
        """Through a temporary queue."""
        receiver = client.create_receiver(None, dynamic=True, credit=PREFETCHED)
        send(client, receiver.remote_source.address, EACH)
        receive_all(receiver)
        client.close()

    def open_links(self, client: Any) -> None:
        """And leave."""
        self.fill(client)
        for number in range(10):
            client.create_sender(self._name, name=f"sender-{number}")
            client.create_receiver(self._name, credit=1, name=f"receiver-{number}")
        cut(client)


def cut(client: Any) -> None:
    client.conn.transport._selectable._delegate.close()


def visit_all(url: str, pid: int, visits: int) -> list[tuple[float, int]]:
    """Samples of the server's memory, one a client."""
    visitor = Visitor(url, pid, f"soak{secrets.token_hex(4)}")
    for number in range(visits):
        visitor.visit(number)
    return visitor.samples
