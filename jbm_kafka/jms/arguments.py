"""What an application may give for a timeout, a prefetch and a listener."""

from __future__ import annotations

from threading import TIMEOUT_MAX
from typing import SupportsFloat

from jbm_kafka.core.errors import InvalidSettingError

Seconds = SupportsFloat
"""A number of seconds, as a caller gives it. Wider than what is taken: told `float`, compiled code would refuse all
else by itself, and less kindly."""


def checked_timeout_s(timeout: object) -> float | None:
    """The timeout, if it is one; what no thread can wait as long as is for ever.

    Raises:
        ValueError: it is negative, or no number of seconds.
    """
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout >= 0:
        raise ValueError(f"timeout is {timeout!r}: a number of seconds, 0 not to wait, None to wait for ever")
    return None if timeout > TIMEOUT_MAX else timeout


def checked_prefetch(count: object) -> int:
    """The prefetch, if it is one.

    Raises:
        ValueError: it is no int of at least 1.
    """
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ValueError(f"prefetch is {count!r}: it is an int of at least 1")
    return count


def check_callable(name: str, value: object) -> None:
    """Raises InvalidSettingError when it can neither be called nor is None."""
    if value is not None and not callable(value):
        raise InvalidSettingError(f"{name} is {value!r}: it is a function or another callable, or None", value=value)


def check_kind(kind: object) -> None:
    """Raises TypeError when it is not a type: before anything is taken, for afterwards it would be lost."""
    if not isinstance(kind, type):
        raise TypeError(f"kind is {kind!r}: it is a type, str or bytes")
