"""How the message of a transacted handler ends: with what the handler sent, in one transaction."""

from __future__ import annotations

from typing import Any

from jbm_kafka.core.destination import Destination
from jbm_kafka.jms.messages.message import Message
from jbm_kafka.jms.session import Session
from jbm_kafka.jms.settling.acknowledge import put_back


class InTransaction:
    """The one message of a TRANSACTED session's transaction; implements `Settlement`. The session's thread."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._producer = session.create_producer()

    def accept(self, message: Message) -> None:
        self._session.commit()

    def retry(self, message: Message, delay_ms: int | None) -> None:
        self._session._roll_back(delay_ms=delay_ms, rejected=None)

    def reject(self, message: Message, reason: str) -> None:
        self._session._roll_back(delay_ms=None, rejected=reason)

    def put_back(self, message: Message) -> None:
        put_back(message)
        self._session._roll_back(delay_ms=None, rejected=None)

    def answer(self, to: Destination, body: Any, correlation_id: str | None) -> None:
        self._producer.send(body, destination=to, correlation_id=correlation_id)
