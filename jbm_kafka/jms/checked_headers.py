"""Headers of a message that are checked where an application sets them, and not where they are used, if ever.

A `__setattr__` would be asked for every field of every message. So the fields are those of `MessageCore`, under names
of their own, which receives and sends set as they are; before them stand properties, for applications. To read one goes
through C alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from types import MappingProxyType
from typing import TypeVar

from jbm_kafka.jms.arguments import as_destination, checked_flag
from jbm_kafka.jms.header_values import (
    checked_count,
    checked_delivery_mode,
    checked_instant,
    checked_priority,
    checked_reply_to,
    checked_state,
    checked_text,
)
from jbm_kafka.jms.message_core import MessageCore

T = TypeVar("T")

_CHECKS: Mapping[str, Callable[[str, object], object]] = MappingProxyType(
    {
        "timestamp": checked_instant,
        "correlation_id": checked_text,
        "reply_to": lambda _, value: checked_reply_to(value),
        "destination": lambda _, value: None if value is None else as_destination(value),
        "delivery_mode": lambda _, value: checked_delivery_mode(value),
        "redelivered": checked_flag,
        "type": checked_text,
        "expiration": checked_instant,
        "delivery_time": checked_instant,
        "priority": lambda _, value: checked_priority(value),
        "delivery_count": checked_count,
        "state": lambda _, value: checked_state(value),
    }
)
"""By header: what makes of a value the one that is kept, or raises."""
_DOCS: Mapping[str, str] = MappingProxyType(
    {
        "timestamp": "When it was sent: milliseconds since 1970; 0 of a message that was not.",
        "correlation_id": "A str for the application's own use: of a reply, the `message_id` of its request; or None.",
        "reply_to": "The Queue or Topic where a reply is to go; None: nowhere.",
        "destination": "The Queue or Topic that it was sent to; None of a message that was not sent.",
        "delivery_mode": "The DeliveryMode that it was sent with, PERSISTENT unless the send says otherwise.",
        "redelivered": "Whether it may have been handed to an application before.",
        "type": "A str for the application's own use, which selectors call JMSType; or None.",
        "expiration": "When it expires: milliseconds since 1970; 0: never.",
        "delivery_time": "Before when it is not delivered: milliseconds since 1970; 0: at once.",
        "priority": "0 to 9, 4 unless the send says otherwise; the higher is received first.",
        "delivery_count": "Which hand-over to an application this is, from 1; of a browser's: how many there were.",
        "state": "Of a browser's message a MessageState: NEW, or DELIVERED where a session has it; else None.",
    }
)
"""By header: what `help()` shows."""


def with_checked_headers(cls: type[T]) -> type[T]:
    """The class, Message, whose headers refuse a value that they cannot have."""
    for name, check in _CHECKS.items():
        setattr(cls, name, _checked(name, check))
    return cls


def _checked(name: str, check: Callable[[str, object], object]) -> property:
    field = f"_{name}"
    keep = vars(MessageCore)[field].__set__

    def set_checked(message: object, value: object) -> None:
        keep(message, check(name, value))

    return property(attrgetter(field), set_checked, doc=_DOCS[name])
