"""How a wrong argument or setting is told: one line with its name, its value and what it should be."""

from __future__ import annotations

from jbm_kafka.core.errors import InvalidSettingError, InvalidTypeError

SHOWN_MAX = 200
"""Characters of a value in an error: it may be a whole message."""


def shown(value: object) -> str:
    """The value as in Python source, on one line and not too long."""
    try:
        text = repr(value)
    except Exception:  # somebody else's class: its mistake must not hide this one
        text = f"a {type(value).__name__}"
    text = " ".join(text.split("\n"))
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}…"


def wrong_value(name: str, value: object, rule: str) -> InvalidSettingError:
    """What is said of a value that cannot be; `rule` says what it should be, and begins with "it" or with a verb."""
    return InvalidSettingError(f"{name} is {shown(value)}: {rule}", setting=name, value=value)


def wrong_type(name: str, value: object, rule: str) -> InvalidTypeError:
    """The same of a value whose type cannot be."""
    return InvalidTypeError(f"{name} is {shown(value)}: {rule}", setting=name, value=value)


def is_int(value: object) -> bool:
    """Whether it is an int that was meant as one; True and False are ints to Python alone."""
    return isinstance(value, int) and not isinstance(value, bool)


def checked_int(name: str, value: object, least: int, most: int | None, unit: str) -> int:
    """The value, if it is an int of that size; `unit` says what of, as in "an int of milliseconds".

    Raises:
        InvalidSettingError: it is not.
    """
    reach = f"of at least {least}" if most is None else f"from {least} to {most}"
    rule = f"it is an int{unit and f' of {unit}'} {reach}"
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong_type(name, value, rule)
    if value < least or (most is not None and value > most):
        raise wrong_value(name, value, rule)
    return value
