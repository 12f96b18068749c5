"""How a handler's message ends; with a trace of that where somebody follows messages."""

from __future__ import annotations

from typing import Any, Protocol

from jbm_kafka.core.destination import Destination
from jbm_kafka.jms.messages.message import Message
from jbm_kafka.jms.sends.tracing import Tracing


class Settlement(Protocol):
    """How a handler's message ends."""

    def accept(self, message: Message) -> None:
        """It was processed."""

    def retry(self, message: Message, delay_ms: int | None) -> None:
        """It comes again."""

    def reject(self, message: Message, reason: str) -> None:
        """It is given up."""

    def put_back(self, message: Message) -> None:
        """It comes again, and this was no attempt: its handler ran nothing."""

    def answer(self, to: Destination, body: Any, correlation_id: str | None) -> None:
        """Send what the handler returned."""


class TracedSettlement:
    """Another one, with a trace of each ending."""

    def __init__(self, settlement: Settlement, tracing: Tracing) -> None:
        self._settlement = settlement
        self._tracing = tracing
        self.answer = settlement.answer
        self.put_back = settlement.put_back

    def accept(self, message: Message) -> None:
        with self._tracing.settling(message, "ack"):
            self._settlement.accept(message)

    def retry(self, message: Message, delay_ms: int | None) -> None:
        with self._tracing.settling(message, "nack"):
            self._settlement.retry(message, delay_ms)

    def reject(self, message: Message, reason: str) -> None:
        with self._tracing.settling(message, "reject"):
            self._settlement.reject(message, reason)
