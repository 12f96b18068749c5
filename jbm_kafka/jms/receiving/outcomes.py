"""The exceptions by which a handler says what becomes of its message."""

from __future__ import annotations

from collections.abc import Iterable

from jbm_kafka.core.durations import Duration, checked_duration_ms
from jbm_kafka.core.wrong_values import wrong_type
from jbm_kafka.jms.messages.message import Message


class Reject(Exception):
    """Nobody can process the message: it is given up now, and its letter tells the reason (`message.reject`)."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Retry(Exception):
    """The message comes again after `delay_ms`; None: after its queue's own delay. It counts as an attempt."""

    def __init__(self, reason: str = "", *, delay_ms: Duration | None = None) -> None:
        super().__init__(reason)
        self.delay_ms = None if delay_ms is None else checked_duration_ms("delay_ms", delay_ms)


class Failed(Exception):
    """These messages of a batch failed: they come again, each with the later ones of its unit in the batch, which
    count no attempt; the others are acknowledged.

    Raises:
        InvalidTypeError: `messages` has something else than messages.
    """

    def __init__(self, messages: Iterable[Message], reason: str = "") -> None:
        rule = "they are messages of the batch, which a list[Message] parameter has"
        if isinstance(messages, Message) or not isinstance(messages, Iterable):
            raise wrong_type("messages", messages, f"{rule}; write Failed([message]) for one")
        self.messages = tuple(messages)
        for each in self.messages:
            if not isinstance(each, Message):
                raise wrong_type("messages", each, rule)
        super().__init__(reason or "a part of its batch failed")
