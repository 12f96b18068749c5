"""A client's coordinator: declares and discharges its transactions; another sidecar's has them prepared and decided."""

from __future__ import annotations

from typing import Any, Final

from proton import Condition, Delivery

from jbm_kafka.amqp.across_sidecars import DECIDED, DISCHARGE, PREPARE, carried_out
from jbm_kafka.amqp.client_outcome import DECLARED
from jbm_kafka.amqp.part_protocols import Client
from jbm_kafka.amqp_wire.conditions import UNKNOWN_TRANSACTION, condition_of
from jbm_kafka.amqp_wire.engine_objects import EngineDelivery, EngineReceiver, grant
from jbm_kafka.codec.amqp.values import Amqp, Budget, read
from jbm_kafka.core.channel.branch import BranchState, branch_across
from jbm_kafka.core.jms_errors import JMSError, MessageFormatError, MessageTooLargeError
from jbm_kafka.ports.forwarding import ForwardingSidecar

MESSAGE_BYTES: Final = 4_096
"""The size of a declare, a discharge, and what sidecars say to each other; the engine keeps its parts until they are
read."""
_CODES: Final = {"amqp:declare:list": 0x31, DISCHARGE: 0x32}


class Coordinator:
    """Declares and discharges the transactions of one of a client's sessions."""

    def __init__(self, peer: Client, receiver: EngineReceiver, *, is_sidecars: bool) -> None:
        """`is_sidecars`: another sidecar's, which prepares its clients' transactions here, and decides them."""
        self._peer = peer
        self._receiver = receiver
        self._is_sidecars = is_sidecars
        self._mine: set[bytes] = set()
        self._is_closed = False

    def grant(self) -> None:
        grant(self._receiver, max(0, 20 - self._receiver.credit))

    def arrived(self, delivery: EngineDelivery) -> None:
        """A declare or a discharge."""
        if delivery.aborted:
            delivery.settle()
            self.grant()
            return
        if delivery.pending > MESSAGE_BYTES:
            raise MessageTooLargeError(f"a message of more than {MESSAGE_BYTES} bytes is none for a coordinator")
        if delivery.partial:
            return
        data = bytes(self._receiver.recv(delivery.pending) or b"")
        self._receiver.advance()
        code, fields = _said(data)
        if self._is_sidecars and code in (PREPARE, DECIDED):
            name, number, what = fields
            work = self._prepare if code == PREPARE else self._decided
            self._peer.spawn(work(delivery, bytes(name), int(number), what), self._receiver)
        elif code == 0x31:
            transaction = self._peer.declare()
            self._mine.add(transaction.id)
            delivery.local.data = [transaction.id]
            delivery.update(DECLARED)
            delivery.settle()
        else:
            name, fails = (*fields, None, None)[:2]
            if code != 0x32 or not isinstance(name, bytes):
                raise MessageFormatError("a transaction is declared, or discharged by its name", value=code)
            self._peer.spawn(self._discharge(delivery, name, fails=bool(fails)), self._receiver)
        self.grant()

    async def _discharge(self, delivery: EngineDelivery, name: bytes, *, fails: bool) -> None:
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

    def _answer(self, delivery: EngineDelivery, condition: Condition | None, data: bytes = b"") -> None:
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

    async def _prepare(self, delivery: EngineDelivery, name: bytes, number: int, decider: str) -> None:
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

    async def _decided(self, delivery: EngineDelivery, name: bytes, number: int, is_committed: bool) -> None:
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
        """Roll back what was not discharged."""
        self._is_closed = True
        for name in self._mine:
            transaction = self._peer.transactions.pop(name, None)
            if transaction is not None:
                await transaction.roll_back()
        self._mine.clear()


def _said(data: bytes) -> tuple[object, list[Any]]:
    """Return what the body of a message says, and the values with it. Raises MessageFormatError."""
    try:
        at, budget = 0, Budget(100)
        while at < len(data):
            section, at = read(data, at, budget=budget)
            code, held = _described(section)
            if code.value in (0x77, "amqp:amqp-value:*"):
                what, fields = _described(held)
                said = [each.value for each in fields.value] if fields.type == "list" else []
                return _CODES.get(what.value, what.value), said
        raise ValueError("it has no body")
    except (ValueError, TypeError) as error:
        raise MessageFormatError(f"what is said of a transaction cannot be read: {error}") from None


def _described(held: Amqp) -> tuple[Amqp, Amqp]:
    if held.type != "described":
        raise ValueError(f"a {held.type} stands where a described value should")
    code, what = held.value
    return code, what
