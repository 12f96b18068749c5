"""A look at a queue: messages one after the other, and at the end how many were not shown, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum

from jbm_kafka.codec.scan import scan
from jbm_kafka.core.channel.redelivery import FOREVER_MS, is_expired
from jbm_kafka.core.channel.states import MessageState
from jbm_kafka.jms.base.one_process import refuse_pickle
from jbm_kafka.jms.messages.message import Message
from jbm_kafka.ports.provider import Seen


class Wait(Enum):
    """Why a message cannot be received now; the value is how people read it."""

    UNIT = "behind others of their unit"
    """Earlier messages of its unit are not finished."""
    TIME = "delayed"
    """It waits for a time, by a delivery delay, or because it came back and waits for its next attempt."""
    OPERATOR = "on hold"
    """It waits for an operator with its unit, by `on_dead_letter="hold"`."""
    IN_HAND = "in a receiver's hand"
    """Somebody has it, and has not said what becomes of it."""
    EXPIRED = "expired"
    """It leaves as soon as somebody receives."""


class QueueLook(Iterable[Message]):
    """The messages that are shown, in the order of receiving. One thread.

    Made by `admin.browse`. Iterate it; each iteration looks anew, as of a QueueBrowser. It has no `len`: to count is to
    look.
    """

    __reduce__ = refuse_pickle

    def __init__(self, look: Callable[[Counter[Wait]], Iterator[Message]]) -> None:
        """`look`: a look from the beginning, which adds what it passes over to what it is given."""
        self._look = look
        self._not_shown = Counter[Wait]()

    @property
    def not_shown(self) -> Mapping[Wait, int]:
        """How many the last iteration passed over so far, by why they cannot be received; at its end that is all."""
        return self._not_shown

    def __iter__(self) -> Iterator[Message]:
        # Each has a counter of its own: one that was left in its midst may go on.
        self._not_shown = Counter[Wait]()
        return self._look(self._not_shown)

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
