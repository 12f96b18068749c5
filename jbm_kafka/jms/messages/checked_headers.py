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

from jbm_kafka.jms.base.arguments import as_destination, checked_flag
from jbm_kafka.jms.messages.header_values import (
    checked_count,
    checked_delivery_mode,
    checked_instant,
    checked_priority,
    checked_reply_to,
    checked_state,
    checked_text,
)
from jbm_kafka.jms.messages.message_core import SET_BY_SEND, MessageCore, check_not_new

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
        "last_error": checked_text,
    }
)
"""Makes the value that is kept of the one that is given, or raises, by header."""


def with_checked_headers(cls: type[T]) -> type[T]:
    """The class, Message, whose headers refuse a value that they cannot have."""
    for name, check in _CHECKS.items():
        setattr(cls, name, _checked(name, check))
    return cls


def _checked(name: str, check: Callable[[str, object], object]) -> property:
    field = f"_{name}"
    keep = vars(MessageCore)[field].__set__
    is_set_by_send = name in SET_BY_SEND

    def set_checked(message: MessageCore, value: object) -> None:
        checked = check(name, value)
        if is_set_by_send:
            check_not_new(message, name, value)
        keep(message, checked)

    return property(attrgetter(field), set_checked)
