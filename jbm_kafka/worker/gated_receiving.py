"""Receives by a handler's gate, and tells the gate what becomes of the messages."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from jbm_kafka.core.destination import Destination
from jbm_kafka.jms.base.handler_threads import Receiving, Work
from jbm_kafka.jms.consumer import MessageConsumer
from jbm_kafka.jms.messages.message import Message
from jbm_kafka.jms.receiving.handler_settlement import Settlement
from jbm_kafka.jms.settling.acknowledge import put_back
from jbm_kafka.jms.two_step_receive import TwoStepReceive
from jbm_kafka.worker.gates import HandlerGate

ASYNC_LOOK_MS = 200
"""How often a coroutine that waits to begin looks whether it is to receive no more."""


class GatedConsumer:
    """A consumer that gives a message only when its handler may begin; implements `Receiving`.

    Each message that it gives is to begin at the gate, or to be left out there.
    """

    def __init__(self, consumer: MessageConsumer, gate: HandlerGate) -> None:
        self._consumer = consumer
        self._steps = TwoStepReceive(consumer)
        self._gate = gate
        self._closed = threading.Event()
        gate.add(self._steps)

    @property
    def destination(self) -> Destination:
        """The destination that is received from."""
        return self._consumer.destination

    @property
    def is_closed(self) -> bool:
        """It gets nothing more."""
        return self._closed.is_set() or self._consumer.is_closed

    def receive(self) -> Message | None:
        """The next message; None when it was closed meanwhile."""
        while self._steps.wait(None):
            while not self._gate.reserve(self._is_closed):
                if self.is_closed:
                    return None
                self._steps.stay()
            message = None
            try:
                message = self._steps.take()
            finally:
                if message is None:
                    self._gate.left_out()
            if message is not None:
                return message
        return None

    def close(self) -> None:
        """Receive no more."""
        self._closed.set()
        self._gate.remove(self._steps)
        self._consumer.close()

    def begins(self) -> bool:
        """The call for what was received last begins now; False: it was closed before it could."""
        return self._gate.wait_begin(self._is_closed)

    async def run(self, message: Message, handling: Coroutine[Any, Any, None]) -> None:
        """A message that was received, on its event loop: its handling begins and ends at the gate. What may not begin
        goes back, as it came."""
        gate, begins = self._gate, False
        try:
            while (wait_ms := gate.begin_in_ms()) and not self.is_closed:
                await asyncio.sleep(min(wait_ms, ASYNC_LOOK_MS) / 1_000)
            begins = wait_ms == 0
        finally:
            if not begins:
                handling.close()
                gate.left_out()
                put_back(message, was_seen=False)
        if not begins:
            return
        try:
            await handling
        finally:
            gate.end()

    def _is_closed(self) -> bool:
        return self.is_closed


def at_gate(
    gate: HandlerGate | None, consumer: MessageConsumer, handle: Callable[[Message], None]
) -> tuple[Receiving[Message], Callable[[Message], None]]:
    """Return what is received from, and what handles it: by the gate, if there is one."""
    if gate is None:
        return consumer, handle
    gated = GatedConsumer(consumer, gate)
    return gated, through(gate, gated.begins, handle, partial(put_back, was_seen=False))


def through(
    gate: HandlerGate, begins: Callable[[], bool], handle: Callable[[Work], None], give_back: Callable[[Work], None]
) -> Callable[[Work], None]:
    """The same `handle`, which begins and ends at the gate. What may not begin goes back, as it came."""

    def pass_through(work: Work) -> None:
        if not begins():
            gate.left_out()
            give_back(work)
            return
        try:
            handle(work)
        finally:
            gate.end()

    return pass_through


class NotedSettlement:
    """Another settlement, of which a gate hears: what was accepted went well, what is tried again failed."""

    def __init__(self, settlement: Settlement, gate: HandlerGate) -> None:
        self._settlement = settlement
        self._gate = gate
        self.reject = settlement.reject  # says something of the message, and nothing of what its handler needs
        self.put_back = settlement.put_back

    def accept(self, message: Message) -> None:
        self._settlement.accept(message)
        self._gate.succeeded()

    def retry(self, message: Message, delay_ms: int | None) -> None:
        self._settlement.retry(message, delay_ms)
        self._gate.failed()

    def answer(self, to: Destination, body: Any, correlation_id: str | None) -> None:
        self._settlement.answer(to, body, correlation_id)
