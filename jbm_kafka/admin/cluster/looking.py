"""How administration reads what a queue holds."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from jbm_kafka.core.destination import Destination
from jbm_kafka.jms.message import Message
from jbm_kafka.jms.messages_wire import from_record
from jbm_kafka.ports import Unreachable
from jbm_kafka.ports.provider import Seen

T = TypeVar("T")
READ_TRIES = 3
"""Of `timeout_s` each: brokers end the transaction of a killed process after 10 s, and look for such every 10 s."""


def patiently(read: Callable[[], T]) -> T:
    """What is read, again where the transaction of somebody who was killed holds it back: that ends by itself."""
    for _ in range(READ_TRIES - 1):
        with suppress(Unreachable):
            return read()
    return read()


def as_browsed(seen: Seen, destination: Destination) -> Message:
    """The message, as a browser shows it."""
    message = from_record(
        seen.record,  # type: ignore[arg-type]
        destination=destination,
        delivery_count=seen.attempts,
        redelivered=seen.attempts > 0,
        settler=None,
    )
    message.state = seen.state
    if seen.due_at_ms:
        message.delivery_time = seen.due_at_ms
    return message
