"""Numbers as Java writes them: `7`, `0x1F`, `017`, `0b11`, `1_000L`, `7.`, `.5`, `7E3`, `0.1f`, `0x1p-3`.

A whole number is a Java `long`, with or without its L; what has a point, an exponent or a D is a `double`, what has an
F the `float` nearest to it.
"""

import re
from math import isinf
from struct import pack, unpack

LONG_BITS = 64
LONG_MAX = 2**63 - 1
BEYOND_LONG = 2**63
"""Nothing holds this number, but behind a minus it is the least one, and Java writes that so too."""

_DECIMAL = "[0-9](?:[0-9_]*[0-9])?"
_HEX = "[0-9a-fA-F](?:[0-9a-fA-F_]*[0-9a-fA-F])?"
_WHOLE = re.compile(f"(?:0[xX](?P<hex>{_HEX})|0[bB](?P<binary>[01](?:[01_]*[01])?)|(?P<decimal>{_DECIMAL}))[lL]?")
_POINT = f"(?:{_DECIMAL}\\.(?:{_DECIMAL})?|\\.{_DECIMAL})(?:[eE][+-]?{_DECIMAL})?"
_FLOAT = re.compile(f"(?P<digits>{_POINT}|{_DECIMAL}[eE][+-]?{_DECIMAL}|{_DECIMAL}(?=[fFdD]))(?P<kind>[fFdD]?)")
_HEX_FLOAT = re.compile(f"(?P<digits>0[xX](?:{_HEX}\\.?|(?:{_HEX})?\\.{_HEX})[pP][+-]?{_DECIMAL})(?P<kind>[fFdD]?)")
_DECIMAL_DIGITS_MAX = 19
_NOT_ZERO = re.compile("[1-9a-fA-F]")


def wrapped(value: int) -> int:
    """The `long` that Java's arithmetic gives where the true result is this number."""
    return value if -BEYOND_LONG <= value <= LONG_MAX else (value + BEYOND_LONG) % 2**LONG_BITS - BEYOND_LONG


def parse_number(written: str) -> int | float:
    """The number, at most `BEYOND_LONG`.

    Raises:
        ValueError: it is not a number, or no long or double holds it; the text says what a number looks like.
    """
    found = _WHOLE.fullmatch(written)
    if found is not None:
        return _whole(found)
    found = _FLOAT.fullmatch(written)
    if found is not None:
        return _float(float(found["digits"].replace("_", "")), found)
    found = _HEX_FLOAT.fullmatch(written)
    if found is not None:
        return _float(_hex_float(found["digits"].replace("_", "")), found)
    raise ValueError("a number such as 7, -957, 1.5 or 7E3, and a space behind it")


def _whole(found: re.Match[str]) -> int:
    decimal = found["decimal"]
    if decimal is None:
        return _bits(int(found["hex"] or found["binary"], 16 if found["hex"] else 2))
    digits = decimal.replace("_", "")
    if digits[0] == "0" and digits != "0":
        if set(digits) & {"8", "9"}:
            raise ValueError("the digits 0 to 7, as a number that begins with 0 is octal")
        return _bits(int(digits, 8))
    # Python refuses to convert texts of thousands of digits.
    if len(digits) > _DECIMAL_DIGITS_MAX or int(digits) > BEYOND_LONG:
        raise ValueError(f"a whole number of 64 bits, at most {LONG_MAX}; write it as 1E30 to have a float")
    return int(digits)


def _bits(value: int) -> int:
    """Return what Java takes the bits of a hexadecimal, octal or binary long for."""
    if value >= 2**LONG_BITS:
        raise ValueError("a number of 64 bits at most")
    return wrapped(value)


def _hex_float(digits: str) -> float:
    try:
        return float.fromhex(digits)
    except OverflowError:
        return float("inf")


def _float(value: float, found: re.Match[str]) -> float:
    if found["kind"] in ("f", "F"):
        value = _nearest_float(value)
    significant = re.split("[eEpP]" if "x" not in found["digits"].lower() else "[pP]", found["digits"])[0]
    if isinf(value) or (value == 0 and _NOT_ZERO.search(significant.removeprefix("0x").removeprefix("0X"))):
        raise ValueError("a number that a double, or with an F a float, can hold")
    return value


def _nearest_float(value: float) -> float:
    try:
        nearest: float = unpack("<f", pack("<f", value))[0]
    except OverflowError:
        return float("inf")
    return nearest
