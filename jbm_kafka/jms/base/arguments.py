"""Checks of an application's arguments. An error names the argument, its value and what is allowed."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from threading import TIMEOUT_MAX
from typing import SupportsFloat

from jbm_kafka.core.destination import Destination, Queue, Topic
from jbm_kafka.core.jms_errors import InvalidDestinationError
from jbm_kafka.core.wrong_values import checked_int, shown, wrong_type, wrong_value
from jbm_kafka.jms.base.modes import AcknowledgeMode
from jbm_kafka.jms.base.never_run import check_runs
from jbm_kafka.ports.connection_ranges import RANGES

PREFETCH_MAX = RANGES["prefetch"].most
CONCURRENCY_MAX = 10_000
"""Messages that a process handles at once."""


def checked_timeout_s(timeout: object, without: str = "to wait for ever") -> float | None:
    """The timeout, if it is one; what no thread can wait as long as is for ever. `without` tells what None is for.

    Raises:
        InvalidSettingError: it is negative, or not a number of seconds.
    """
    rule = f"it is a number of seconds, 0 not to wait, None {without}"
    seconds = _seconds(timeout)
    if seconds is None:
        raise wrong_type("timeout", timeout, rule)
    if not seconds >= 0:
        raise wrong_value("timeout", timeout, rule)
    return None if seconds > TIMEOUT_MAX else seconds


def checked_seconds(name: str, value: object) -> float:
    """The time, if it is a number of seconds that a thread can wait.

    Raises:
        InvalidSettingError: it is not.
    """
    rule = "it is a number of seconds, 0 or more"
    seconds = _seconds(value)
    if seconds is None:
        raise wrong_type(name, value, rule)
    if not 0 <= seconds <= TIMEOUT_MAX:
        raise wrong_value(name, value, rule)
    return seconds


def _seconds(value: object) -> float | None:
    """The value as a float, if it is a number of any class (a Decimal, or numpy's); None if it is not a number."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return value
    try:
        return float(value) if isinstance(value, SupportsFloat) else None
    except (TypeError, ValueError, OverflowError):  # an array of several, a number that no float holds
        return None


def checked_prefetch(count: object, name: str = "prefetch") -> int:
    """The prefetch, if it is one; `name`: that of the argument.

    Raises:
        InvalidSettingError: it is not.
    """
    return checked_int(name, count, 1, PREFETCH_MAX, "messages")


def check_callable(name: str, value: object) -> None:
    """Raises InvalidSettingError when it can neither be called nor is None."""
    if value is not None and not callable(value):
        raise wrong_type(name, value, "it is a function or another callable, or None")


def check_listener(name: str, value: object, argument: str) -> None:
    """Raises InvalidTypeError when it cannot be called with one argument, or a call of it would run nothing: at the
    first call nobody would hear it."""
    check_callable(name, value)
    if callable(value):
        check_runs(name, value, argument)
        check_arguments(name, value, argument)


def check_arguments(name: str, value: Callable[..., object], arguments: str) -> None:
    """Raises InvalidTypeError when it cannot be called with so many arguments; the error names them."""
    try:
        signature = inspect.signature(value, follow_wrapped=False)  # what a decorator takes is what is called
    except (TypeError, ValueError):  # of some built-in functions nobody knows it
        return
    try:
        signature.bind(*arguments.split(","))
    except TypeError as error:
        rule = f"it cannot be called as {name}({arguments}) ({error})"
        raise wrong_type(name, value, f"{rule}; write: def {name}({arguments}): …") from None


def check_kind(kind: object) -> None:
    """Raises InvalidTypeError when nothing is an instance of it: before a body is taken, for afterwards it would be
    lost. The body of an object message may be of any class."""
    if kind is str or kind is bytes:
        return
    if not isinstance(kind, type) or not _has_instances(kind):
        raise wrong_type("kind", kind, "it is a class: str, bytes, dict, list, or that of the objects that are sent")


def _has_instances(kind: type) -> bool:
    try:
        isinstance(None, kind)  # a Protocol that is for type checkers only refuses
    except TypeError:
        return False
    return True


def checked_flag(name: str, value: object) -> bool:
    """The value, if it is True or False.

    Raises:
        InvalidTypeError: it is not.
    """
    if not isinstance(value, bool):
        raise wrong_type(name, value, "it is True or False")
    return value


def check_mode(mode: object) -> None:
    """Raises InvalidTypeError when it is not an AcknowledgeMode."""
    if not isinstance(mode, AcknowledgeMode):
        members = ", ".join(member.name for member in AcknowledgeMode)
        raise wrong_type("acknowledge_mode", mode, f"it is a member of AcknowledgeMode, which has {members}")


def as_destination(destination: object, name: str = "destination") -> Destination:
    """The destination, if it is one.

    Raises:
        InvalidDestinationError: it is something else, such as a bare name.
    """
    if not isinstance(destination, Destination):
        raise InvalidDestinationError(f"{name} is {shown(destination)}: {_instead_of(destination)}", value=destination)
    return destination


def as_queue(queue: object, name: str) -> Queue:
    """The queue, if it is one.

    Raises:
        InvalidDestinationError: it is something else, such as a bare name.
    """
    if not isinstance(queue, Queue):
        if isinstance(queue, Destination):
            raise InvalidDestinationError(
                f"{name} is {queue}: this is for queues only, use Queue(…); of a topic each subscription has its own "
                f"copy",
                value=queue,
            )
        raise InvalidDestinationError(f"{name} is {shown(queue)}: {_instead_of(queue)}", value=queue)
    return queue


def as_topic(topic: object, name: str = "topic") -> Topic:
    """The topic, if it is one.

    Raises:
        InvalidDestinationError: it is something else, such as a bare name.
    """
    if not isinstance(topic, Topic):
        if isinstance(topic, Destination):
            raise InvalidDestinationError(
                f"{name} is {topic}: only topics have subscriptions, use Topic(…)", value=topic
            )
        hint = f"; use Topic({shown(topic)})" if isinstance(topic, str) else ", as in Topic('prices')"
        raise InvalidDestinationError(f"{name} is {shown(topic)}: it is a Topic, not its name{hint}", value=topic)
    return topic


def _instead_of(value: object) -> str:
    if isinstance(value, str):
        return f"it is a Queue, not its name; use Queue({shown(value)})"
    return "it is a Queue, as in Queue('orders')"
