"""A look at a queue: messages one after the other, and at the end how many were not shown, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Self

from jbm_kafka.codec.scan import scan
from jbm_kafka.core.redelivery import FOREVER_MS, is_expired
from jbm_kafka.core.states import MessageState
from jbm_kafka.jms.message import Message
from jbm_kafka.ports.provider import Seen


class Wait(Enum):
    """Why a message cannot be received now; the value is how people read it."""

    UNIT = "behind others of their unit"
    TIME = "delayed"
    OPERATOR = "on hold"
    """With its unit, by `on_dead_letter="hold"`."""
    IN_HAND = "in a receiver's hand"
    EXPIRED = "expired"
    """It leaves as soon as somebody receives."""


class QueueLook(Iterator[Message]):
    """The messages that are shown, in the order of receiving. One thread."""

    def __init__(self, messages: Iterator[Message], not_shown: Mapping[Wait, int]) -> None:
        self._messages = messages
        self.not_shown = not_shown
        """How many were passed over so far, by why they cannot be received; at the end that is all of them."""

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Message:
        return next(self._messages)

    def __repr__(self) -> str:
        passed = ", ".join(f"{count} {wait.value}" for wait, count in self.not_shown.items())
        return f"<QueueLook iterate it for its messages; not shown so far: {passed or 'none'}>"


def wait_of(seen: Seen, now_ms: int) -> Wait:
    """Why a message that is not deliverable is not."""
    if seen.state is MessageState.DELIVERED:
        return Wait.IN_HAND
    if seen.due_at_ms >= FOREVER_MS:
        return Wait.OPERATOR
    if is_expired(scan(seen.record.headers()).expiration_ms, now_ms):
        return Wait.EXPIRED
    return Wait.TIME if seen.due_at_ms > now_ms else Wait.UNIT
