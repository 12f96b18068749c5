"""Where a tracer follows messages: `jbm_kafka.otel` implements it. Without one nothing of this is called."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

from jbm_kafka.core.destination import Destination
from jbm_kafka.jms.messages.message import Message


class SendTrace(Protocol):
    """One send under way."""

    @property
    def headers(self) -> Mapping[str, bytes]:
        """The raw headers of the message by which its receiver finds it."""

    def end(self, message: Message | None, error: BaseException | None) -> None:
        """It is over. Any thread; once."""


class Tracing(Protocol):
    """Any thread."""

    def begin_send(self, destination: Destination) -> SendTrace:
        """A message is about to be sent there."""

    def processing(self, message: Message) -> AbstractContextManager[Any]:
        """Around what a handler or listener does with it; what it sends is part of that."""

    def failed(self, error: BaseException) -> None:
        """The handler that is running raised this."""

    def settling(self, message: Message, operation: str) -> AbstractContextManager[Any]:
        """Around the `ack`, `nack` or `reject` of it."""
