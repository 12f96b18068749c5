"""Errors for a wrong argument or setting: one line with its name, its value and what it should be."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches

from jbm_kafka.core.jms_errors import InvalidSettingError, InvalidTypeError

SHOWN_MAX = 60
"""Characters of a value in an error: it may be a whole message. A cut value is shown with its length."""


def shown(value: object) -> str:
    """The value as in Python source, on one line and not too long."""
    try:
        text = repr(value)
    except Exception:  # somebody else's class: its mistake must not hide this one
        text = f"a {type(value).__name__}"
    text = " ".join(text.split("\n"))
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}…{_length(value)}"


def shown_name(name: object) -> str:
    """A name as it stands, without quotes, and not too long."""
    text = name if isinstance(name, str) else shown(name)
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}…{_length(name)}"


def _length(value: object) -> str:
    if isinstance(value, str):
        return f" ({len(value)} characters)"
    if isinstance(value, bytes | bytearray):
        return f" ({len(value)} bytes)"
    return f" ({len(value)} of them)" if isinstance(value, list | tuple | dict | set) else ""


UTF8_REMEDY = "a wrong decoding leaves such halves of a pair; text.encode('utf-8', 'replace').decode() puts ? there"
"""The remedy for a lone surrogate, the one thing in a str that has no UTF-8 form."""


def no_utf8(fault: UnicodeEncodeError, instead: str = "") -> str:
    """Return what is wrong with a text that cannot be encoded, and what to do; `instead`: what else."""
    where = f"{fault.object[fault.start : fault.end]!a:.60} at position {fault.start + 1}"
    return f"{where} has no UTF-8 form: {UTF8_REMEDY}{instead}"


def with_article(kind: type) -> str:
    """The name of a class as a sentence has it: `a str`, `an int`, `bytes`."""
    name = kind.__name__
    if kind is bytes:
        return name
    return f"an {name}" if name[:1].lower() in "aeiou" else f"a {name}"


def wrong_value(name: str, value: object, rule: str) -> InvalidSettingError:
    """The error text for a wrong value; `rule` says what it should be, and begins with "it" or with a verb."""
    return InvalidSettingError(f"{name} is {shown(value)}: {rule}", setting=name, value=value)


def wrong_type(name: str, value: object, rule: str) -> InvalidTypeError:
    """The same of a value whose type cannot be."""
    return InvalidTypeError(f"{name} is {shown(value)}: {rule}", setting=name, value=value)


def did_you_mean(written: str, known: Collection[str]) -> str:
    """Return what an error says behind the name of a setting that does not exist; empty where no known one is written
    alike.

    For settings alone: one that is misspelt and taken in silence would change how messages are sent.
    """
    near = get_close_matches(written, known, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def is_int(value: object) -> bool:
    """Return True if it is an int that was meant as one; True and False are ints to Python alone."""
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
