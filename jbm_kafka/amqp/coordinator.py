"""A client's coordinator: declares and discharges its transactions; another sidecar's has them prepared and decided."""

from __future__ import annotations

from typing import Any

from proton import Condition, Delivery, Message

from jbm_kafka.amqp.across_sidecars import DECIDED, DISCHARGE, PREPARE, carried_out
from jbm_kafka.amqp.seams import Client
from jbm_kafka.amqp.told_outcome import DECLARED
from jbm_kafka.amqp_wire.conditions import UNKNOWN_TRANSACTION, condition_of
from jbm_kafka.core.branch import BranchState, branch_across
from jbm_kafka.core.jms_errors import JMSError, MessageTooLargeError
from jbm_kafka.ports.forwarding import ForwardingSidecar

MESSAGE_BYTES = 4_096
"""Of a declare, a discharge, and what sidecars say to each other; the engine keeps its parts until they are read."""


class Coordinator:
    """Declares and discharges the transactions of one of a client's sessions."""

    def __init__(self, peer: Client, receiver: Any, *, is_sidecars: bool) -> None:
        """`is_sidecars`: another sidecar's, which prepares its clients' transactions here, and decides them."""
        self._peer = peer
        self._receiver = receiver
        self._is_sidecars = is_sidecars
        self._mine: set[bytes] = set()
        self._is_closed = False

    def grant(self) -> None:
        self._receiver.flow(max(0, 20 - self._receiver.credit))

    def arrived(self, delivery: Any) -> None:
        """A declare or a discharge."""
        if delivery.pending > MESSAGE_BYTES:
            raise MessageTooLargeError(f"a message of more than {MESSAGE_BYTES} bytes is none for a coordinator")
        if delivery.partial:
            return
        message: Any = Message()
        message.decode(bytes(self._receiver.recv(delivery.pending) or b""))
        self._receiver.advance()
        body = message.body
        names = {"amqp:declare:list": 0x31, DISCHARGE: 0x32}
        code = names.get(body.descriptor, body.descriptor)
        if self._is_sidecars and code in (PREPARE, DECIDED):
            name, number, what = body.value
            work = self._prepare if code == PREPARE else self._decided
            self._peer.spawn(work(delivery, bytes(name), int(number), what), self._receiver)
        elif int(code) == 0x31:
            transaction = self._peer.declare()
            self._mine.add(transaction.id)
            delivery.local.data = [transaction.id]
            delivery.update(DECLARED)
            delivery.settle()
        else:
            # Copied now: the engine's memory has other bytes there when the task runs.
            name, *flag = body.value
            self._peer.spawn(self._discharge(delivery, bytes(name), fails=bool(flag and flag[0])), self._receiver)
        self.grant()

    async def _discharge(self, delivery: Any, name: bytes, *, fails: bool) -> None:
        transaction = self._peer.transactions.get(name)
        if transaction is not None:
            await transaction.all_there()
            transaction = self._peer.transactions.pop(name, None)  # none: meanwhile the client went, and it with him
        self._mine.discard(name)
        condition: Condition | None = None
        if transaction is None:
            condition = Condition(UNKNOWN_TRANSACTION, "there is no such transaction")
        elif fails:
            await transaction.roll_back()
        else:
            try:
                await transaction.commit()
            except JMSError as error:
                condition = condition_of(error)
        self._answer(delivery, condition)

    def _answer(self, delivery: Any, condition: Condition | None, data: bytes = b"") -> None:
        if self._is_closed or self._peer.is_over:
            return
        if condition is not None:
            delivery.local.condition = condition
            delivery.update(Delivery.REJECTED)
        elif data:
            delivery.local.data = [data]
            delivery.update(DECLARED)
        else:
            delivery.update(Delivery.ACCEPTED)
        delivery.settle()
        self._peer.flush()

    async def _prepare(self, delivery: Any, name: bytes, number: int, decider: str) -> None:
        transaction = self._peer.transactions.get(name)
        if transaction is None:
            self._answer(delivery, Condition(UNKNOWN_TRANSACTION, "there is no such transaction"))
            return
        try:
            record = await transaction.prepare(branch_across(name, number, str(decider)))
        except JMSError as error:
            self._answer(delivery, condition_of(error))
        else:
            self._answer(delivery, None, record)

    async def _decided(self, delivery: Any, name: bytes, number: int, is_committed: bool) -> None:
        transaction = self._peer.transactions.pop(name, None)
        provider: Any = self._peer.provider
        assert isinstance(provider, ForwardingSidecar), provider
        state = BranchState.COMMITTED if is_committed else BranchState.ROLLED_BACK
        await carried_out(self._peer, provider, branch_across(name, number, ""), state)
        if transaction is not None and is_committed:
            transaction.decided()
        elif transaction is not None:
            await transaction.roll_back()
        self._answer(delivery, None)

    async def close(self, *, is_lost: bool, ends: bool) -> None:
        """What was not discharged is rolled back."""
        self._is_closed = True
        for name in self._mine:
            transaction = self._peer.transactions.pop(name, None)
            if transaction is not None:
                await transaction.roll_back()
        self._mine.clear()
