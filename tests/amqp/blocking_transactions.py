"""Local transactions for qpid-proton's blocking client, which has none."""

from __future__ import annotations

from typing import Any

from proton import Delivery, Described, Message, Terminus, symbol, ulong
from proton.reactor import LinkOption

TRANSACTIONAL = 0x34


class _ToCoordinator(LinkOption):
    def apply(self, link: Any) -> None:
        link.target.type = Terminus.COORDINATOR
        link.target.capabilities.put_object(symbol("amqp:local-transactions"))


class BlockingTransaction:
    """One, of the connection's default session; links used in it are made after it."""

    def __init__(self, connection: Any) -> None:
        self._control = connection.create_sender(None, name="control", options=_ToCoordinator())
        self._declare()

    def _declare(self) -> None:
        declared = self._control.send(Message(body=Described(symbol("amqp:declare:list"), [None])))
        self.id = bytes(declared.remote.data[0])

    def next(self) -> BlockingTransaction:
        """Another one, of the same session; it takes this one's place."""
        self._declare()
        return self

    def settle(self, receiver: Any, descriptor: int, fields: list[Any]) -> None:
        """Say what becomes of the oldest message that the receiver has unsettled."""
        delivery = receiver.fetcher.unsettled.popleft()
        delivery.local.data = [self.id, Described(ulong(descriptor), fields)]
        delivery.update(TRANSACTIONAL)
        delivery.settle()

    def send(self, sender: Any, message: Message) -> None:
        """Send one in it; returns when the server has it."""
        delivery = sender.link.send(message)
        delivery.local.data = [self.id]
        delivery.update(TRANSACTIONAL)
        sender.connection.wait(lambda: delivery.settled)

    def discharge(self, *, fails: bool = False) -> int:
        """End it; the outcome."""
        body = Described(symbol("amqp:discharge:list"), [self.id, fails])
        return int(self._control.send(Message(body=body), error_states=[]).remote_state)


def is_committed(outcome: int) -> bool:
    """What `discharge` returned says so."""
    return outcome == int(Delivery.ACCEPTED)
