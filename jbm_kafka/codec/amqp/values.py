"""Values as AMQP 1.0 encodes them, read and written one at a time (part 1 of its specification).

What comes from a client is not trusted: each length is checked against what is there, and nesting has an end.
"""

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple
from uuid import UUID

AmqpType = Literal[
    "null", "boolean", "ubyte", "ushort", "uint", "ulong", "byte", "short", "int", "long", "float", "double",
    "decimal", "char", "timestamp", "uuid", "binary", "string", "symbol", "list", "map", "array", "described",
]  # fmt: skip
DEPTH_MAX: Final = 32
"""So deep may values stand in each other; no client of this world goes to ten."""
WIDTHLESS_MAX: Final = 4096
"""Elements of an array that take no byte each, as nulls: else five bytes would ask for four billion of them."""


class Amqp(NamedTuple):
    """A value and its AMQP type. A list or an array is a list of these, a map a list of pairs, a described value the
    pair of its descriptor and what it describes; a decimal is its bytes."""

    type: AmqpType
    value: Any


NULL: Final = Amqp("null", None)

_FIXED: Mapping[int, tuple[AmqpType, struct.Struct]] = MappingProxyType(
    {
        0x50: ("ubyte", struct.Struct(">B")),
        0x60: ("ushort", struct.Struct(">H")),
        0x70: ("uint", struct.Struct(">I")),
        0x52: ("uint", struct.Struct(">B")),
        0x80: ("ulong", struct.Struct(">Q")),
        0x53: ("ulong", struct.Struct(">B")),
        0x51: ("byte", struct.Struct(">b")),
        0x61: ("short", struct.Struct(">h")),
        0x71: ("int", struct.Struct(">i")),
        0x54: ("int", struct.Struct(">b")),
        0x81: ("long", struct.Struct(">q")),
        0x55: ("long", struct.Struct(">b")),
        0x72: ("float", struct.Struct(">f")),
        0x82: ("double", struct.Struct(">d")),
        0x74: ("decimal", struct.Struct(">4s")),
        0x84: ("decimal", struct.Struct(">8s")),
        0x94: ("decimal", struct.Struct(">16s")),
        0x83: ("timestamp", struct.Struct(">q")),
    }
)
_SINGLE: Mapping[int, Amqp] = MappingProxyType(
    {
        0x40: NULL,
        0x41: Amqp("boolean", True),
        0x42: Amqp("boolean", False),
        0x43: Amqp("uint", 0),
        0x44: Amqp("ulong", 0),
        0x45: Amqp("list", []),
    }
)
_VARIABLE: Mapping[int, AmqpType] = MappingProxyType({0: "binary", 1: "string", 3: "symbol"})
_COMPOUND: Mapping[int, AmqpType] = MappingProxyType({0: "list", 1: "map"})


PAUSE_VALUES: Final = 1024


class Budget:
    """How many more values may be read, of lists, maps and arrays: each takes far more memory here than bytes there."""

    def __init__(self, values: int, pause: Callable[[], object] | None = None) -> None:
        """`pause`: called now and then while they are read. Compiled code lets no other thread run by itself."""
        self.most = values
        self.is_exceeded = False
        self._left = values
        self._pause = pause
        self._to_pause = PAUSE_VALUES

    def take(self, count: int) -> None:
        """So many are about to be read. Raises ValueError: those are too many, as `is_exceeded` says from then on."""
        self._left -= count
        if self._left < 0:
            self.is_exceeded = True
            raise ValueError(f"it has more than {self.most} values in lists, maps, arrays and sections; send several")

    def was_read(self) -> None:
        """One was read."""
        self._to_pause -= 1
        if not self._to_pause:
            self._to_pause = PAUSE_VALUES
            if self._pause is not None:
                self._pause()


def read(data: bytes, at: int, depth: int = DEPTH_MAX, budget: Budget | None = None) -> tuple[Amqp, int]:
    """The value that begins there, and where it ends.

    Raises:
        ValueError: what stands there is no value; the text says why.
    """
    if at >= len(data):
        raise ValueError(f"it ends at byte {at}, where a value should begin")
    code = data[at]
    if code:
        return _read(code, data, at + 1, depth, budget)
    if depth <= 0:
        raise ValueError(f"values are nested deeper than {DEPTH_MAX}")
    descriptor, at = read(data, at + 1, depth - 1, budget)
    described, at = read(data, at, depth - 1, budget)
    return Amqp("described", (descriptor, described)), at


def _read(code: int, data: bytes, at: int, depth: int, budget: Budget | None) -> tuple[Amqp, int]:
    found = _SINGLE.get(code)
    if found is not None:
        return found, at
    form = _FIXED.get(code)
    if form is not None:
        kind, number = form
        if at + number.size > len(data):
            raise _cut(kind, at)
        return Amqp(kind, number.unpack_from(data, at)[0]), at + number.size
    width, low = code >> 4, code & 0x0F
    if width in (0xA, 0xB) and low in _VARIABLE:
        kind = _VARIABLE[low]
        start, end = _extent(kind, data, at, 1 if width == 0xA else 4)
        taken = data[start:end]
        try:
            text = taken if low == 0 else taken.decode("utf-8" if low == 1 else "ascii")
        except UnicodeDecodeError as fault:
            raise ValueError(f"the {kind} at byte {start} cannot be read: {fault}") from None
        return Amqp(kind, text), end
    if width in (0xC, 0xD) and low in _COMPOUND:
        return _read_compound(_COMPOUND[low], data, at, 1 if width == 0xC else 4, depth, budget)
    if code in (0xE0, 0xF0):
        return _read_array(data, at, 1 if code == 0xE0 else 4, depth, budget)
    if code == 0x56:
        if data[at : at + 1] not in (b"\0", b"\1"):
            raise ValueError(f"the boolean at byte {at} is neither 0 nor 1")
        return Amqp("boolean", data[at] == 1), at + 1
    if code == 0x73:
        return Amqp("char", _char(data[at : at + 4], at)), at + 4
    if code == 0x98:
        if at + 16 > len(data):
            raise _cut("uuid", at)
        return Amqp("uuid", UUID(bytes=data[at : at + 16])), at + 16
    raise ValueError(f"byte {at - 1} is {code:#04x}, which begins no value of AMQP")


def _cut(kind: str, at: int) -> ValueError:
    return ValueError(f"the {kind} at byte {at} is longer than what holds it")


def _char(taken: bytes, at: int) -> str:
    code = int.from_bytes(taken, "big")
    if len(taken) < 4 or code > 0x10FFFF or 0xD800 <= code < 0xE000:
        raise ValueError(f"the char at byte {at} is no character of Unicode")
    return chr(code)


def _extent(kind: str, data: bytes, at: int, width: int) -> tuple[int, int]:
    start = at + width
    end = start + int.from_bytes(data[at:start], "big")
    if start > len(data) or end > len(data):
        raise _cut(kind, at)
    return start, end


def _read_compound(
    kind: AmqpType, data: bytes, at: int, width: int, depth: int, budget: Budget | None
) -> tuple[Amqp, int]:
    if depth <= 0:
        raise ValueError(f"values are nested deeper than {DEPTH_MAX}")
    start, end = _extent(kind, data, at, width)
    elements, at = [], start + width
    count = int.from_bytes(data[start:at], "big")
    if budget is not None:
        budget.take(count)
    for _ in range(count):
        if at >= end:
            raise ValueError(f"the {kind} at byte {start} has fewer elements than it says")
        element, at = read(data, at, depth - 1, budget)
        elements.append(element)
        if budget is not None:
            budget.was_read()
    if at != end:
        raise ValueError(f"the {kind} at byte {start} does not end where it says")
    if kind == "list":
        return Amqp(kind, elements), end
    if len(elements) % 2:
        raise ValueError(f"the map at byte {start} has a key without a value")
    return Amqp(kind, list(zip(elements[::2], elements[1::2], strict=True))), end


def _read_array(data: bytes, at: int, width: int, depth: int, budget: Budget | None) -> tuple[Amqp, int]:
    if depth <= 0:
        raise ValueError(f"values are nested deeper than {DEPTH_MAX}")
    start, end = _extent("array", data, at, width)
    count, at = int.from_bytes(data[start : start + width], "big"), start + width
    if budget is not None:
        budget.take(count)
    descriptor = None
    if data[at : at + 1] == b"\0":
        descriptor, at = read(data, at + 1, depth - 1, budget)
    if at >= end:
        raise _cut("array", start)
    code, at = data[at], at + 1
    if code in _SINGLE and count > WIDTHLESS_MAX:
        raise ValueError(
            f"the array at byte {start} has {count} elements of no width; at most {WIDTHLESS_MAX} are taken"
        )
    elements = []
    for _ in range(count):
        if at > end or (at == end and code not in _SINGLE):
            raise ValueError(f"the array at byte {start} has fewer elements than it says")
        element, at = _read(code, data, at, depth - 1, budget)
        elements.append(element if descriptor is None else Amqp("described", (descriptor, element)))
        if budget is not None:
            budget.was_read()
    if at != end:
        raise ValueError(f"the array at byte {start} does not end where it says")
    return Amqp("array", elements), end


def _variable(code: int, taken: bytes) -> bytes:
    if len(taken) < 256:
        return bytes((code, len(taken))) + taken
    return bytes((code | 0x10,)) + len(taken).to_bytes(4, "big") + taken


def string(text: str) -> bytes:
    """A string. It has no lone surrogate."""
    return _variable(0xA1, text.encode())


def utf8(text: bytes) -> bytes:
    """A string whose UTF-8 is at hand, and was checked."""
    return _variable(0xA1, text)


def symbol(text: str) -> bytes:
    """A symbol. It is ASCII."""
    return _variable(0xA3, text.encode("ascii"))


def binary(taken: bytes) -> bytes:
    """A binary."""
    return _variable(0xA0, taken)


def small(code: int, taken: bytes) -> bytes:
    """The constructor byte, and what follows it."""
    return bytes((code,)) + taken


def uint(number: int) -> bytes:
    """An unsigned int of 32 bits."""
    if not number:
        return b"\x43"
    return bytes((0x52, number)) if number < 256 else b"\x70" + number.to_bytes(4, "big")


def ulong(number: int) -> bytes:
    """An unsigned int of 64 bits."""
    if not number:
        return b"\x44"
    return bytes((0x53, number)) if number < 256 else b"\x80" + number.to_bytes(8, "big")


def timestamp(ms: int) -> bytes:
    """A time in milliseconds since 1970."""
    return b"\x83" + ms.to_bytes(8, "big", signed=True)


def _long(number: int) -> bytes:
    if -128 <= number < 128:
        return b"\x55" + number.to_bytes(1, "big", signed=True)
    return b"\x81" + number.to_bytes(8, "big", signed=True)


def _int(number: int) -> bytes:
    if -128 <= number < 128:
        return b"\x54" + number.to_bytes(1, "big", signed=True)
    return b"\x71" + number.to_bytes(4, "big", signed=True)


_WRITERS: Mapping[str, Callable[[Any], bytes]] = MappingProxyType(
    {
        "null": lambda _: b"\x40",
        "boolean": lambda value: b"\x41" if value else b"\x42",
        "byte": lambda value: small(0x51, value.to_bytes(1, "big", signed=True)),
        "short": lambda value: small(0x61, value.to_bytes(2, "big", signed=True)),
        "int": _int,
        "long": _long,
        "float": lambda value: small(0x72, struct.pack(">f", value)),
        "double": lambda value: small(0x82, struct.pack(">d", value)),
        "char": lambda value: small(0x73, ord(value).to_bytes(4, "big")),
        "string": string,
        "bytes": binary,
    }
)


def jms_value(kind: str, value: object) -> bytes:
    """A value of one of JMS's types, as `typed_values` and `property_header` name them; it fits the type."""
    return _WRITERS[kind](value)


def list_of(fields: Sequence[bytes]) -> bytes:
    """A list of these values."""
    return _compound(0xC0, len(fields), fields)


def map_of(entries: Iterable[bytes]) -> bytes:
    """A map of these; each is a key with its value behind it."""
    taken = list(entries)
    return _compound(0xC1, 2 * len(taken), taken)


def _compound(code: int, count: int, parts: Sequence[bytes]) -> bytes:
    taken = b"".join(parts)
    if len(taken) < 255 and count < 256:
        return bytes((code, len(taken) + 1, count)) + taken
    return bytes((code | 0x10,)) + (len(taken) + 4).to_bytes(4, "big") + count.to_bytes(4, "big") + taken
