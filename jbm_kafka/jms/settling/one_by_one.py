"""How the messages of handlers end, each by itself."""

from __future__ import annotations

from typing import Any

from jbm_kafka.core.destination import Destination
from jbm_kafka.jms.messages.message import Message
from jbm_kafka.jms.settling.acknowledge import put_back
from jbm_kafka.jms.shared.connection_core import ConnectionCore


class OneByOne:
    """Messages of an INDIVIDUAL session; implements `handler_settlement.Settlement`. Any thread."""

    def __init__(self, connection: ConnectionCore) -> None:
        self._connection = connection

    def accept(self, message: Message) -> None:
        message.acknowledge()

    def retry(self, message: Message, delay_ms: int | None) -> None:
        message.nack(delay_ms)

    def reject(self, message: Message, reason: str) -> None:
        message.reject(reason)

    def put_back(self, message: Message) -> None:
        put_back(message)

    def answer(self, to: Destination, body: Any, correlation_id: str | None) -> None:
        self._connection.answer(to, body, correlation_id)
