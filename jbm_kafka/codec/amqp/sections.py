"""The sections of an AMQP message: where each begins and ends, without a look inside."""

from dataclasses import dataclass, field
from typing import Final

from jbm_kafka.codec.amqp.values import DEPTH_MAX, Amqp, Budget, read

HEADER, DELIVERY_ANNOTATIONS, ANNOTATIONS, PROPERTIES, APPLICATION, DATA, SEQUENCE, VALUE, FOOTER = range(0x70, 0x79)
_NAMES: Final = {
    "amqp:header:list": HEADER,
    "amqp:delivery-annotations:map": DELIVERY_ANNOTATIONS,
    "amqp:message-annotations:map": ANNOTATIONS,
    "amqp:properties:list": PROPERTIES,
    "amqp:application-properties:map": APPLICATION,
    "amqp:data:binary": DATA,
    "amqp:amqp-sequence:list": SEQUENCE,
    "amqp:amqp-value:*": VALUE,
    "amqp:footer:map": FOOTER,
}
_TYPE: Final = {
    HEADER: "list",
    DELIVERY_ANNOTATIONS: "map",
    ANNOTATIONS: "map",
    PROPERTIES: "list",
    APPLICATION: "map",
    DATA: "binary",
    SEQUENCE: "list",
    FOOTER: "map",
}


@dataclass(slots=True)
class Sections:
    """The values of a message's sections, each None or empty where the message lacks it."""

    data: bytes
    header: list[Amqp] = field(default_factory=list)
    annotations: Amqp | None = None
    annotations_at: int = 0
    properties: list[Amqp] = field(default_factory=list)
    application: Amqp | None = None
    application_at: int = 0
    body: list[tuple[int, Amqp]] = field(default_factory=list)
    """Code and value of each of its sections."""
    body_from: int = 0
    body_to: int = 0
    footer: bytes = b""
    """The whole section."""


def section(code: int, value: bytes) -> bytes:
    """A section of an encoded value."""
    return bytes((0, 0x53, code)) + value


def split(data: bytes, budget: Budget | None = None) -> Sections:
    """The sections of a message.

    Args:
        data: the message.
        budget: of values, one for each section; None: there is no limit.

    Raises:
        ValueError: the bytes are no AMQP message; the text says why.
    """
    found = Sections(data)
    at, earlier = 0, HEADER - 1
    while at < len(data):
        begin = at
        code, at = _code(data, at)
        if (
            code < earlier
            or (code == earlier and code not in (DATA, SEQUENCE))
            or (found.body and _other(earlier, code))
        ):
            raise ValueError(f"the section at byte {begin} stands where none of its kind may")
        earlier, value_at = code, at
        if budget is not None:
            budget.take(1)
        value, at = read(data, at, DEPTH_MAX, budget)
        if code != VALUE and value.type != _TYPE[code]:
            raise ValueError(f"the section at byte {begin} holds a {value.type}; it should hold a {_TYPE[code]}")
        if code == HEADER:
            found.header = value.value
        elif code == ANNOTATIONS:
            found.annotations, found.annotations_at = value, value_at
        elif code == PROPERTIES:
            found.properties = value.value
        elif code == APPLICATION:
            found.application, found.application_at = value, value_at
        elif code == FOOTER:
            found.footer = data[begin:at]
        elif code != DELIVERY_ANNOTATIONS:
            if not found.body:
                found.body_from = begin
            found.body.append((code, value))
            found.body_to = at
    return found


def _other(earlier: int, code: int) -> bool:
    return earlier in (DATA, SEQUENCE, VALUE) and code not in (earlier, FOOTER)


def _code(data: bytes, at: int) -> tuple[int, int]:
    if data[at]:
        raise ValueError(f"byte {at} is {data[at]:#04x}, where a section should begin")
    if data[at + 1 : at + 2] == b"\x53" and at + 2 < len(data):  # as nearly all write it
        code, at = data[at + 2], at + 3
    else:
        held, at = read(data, at + 1)
        code = held.value if held.type == "ulong" else _NAMES.get(str(held.value), 0)
    if not HEADER <= code <= FOOTER:
        raise ValueError(f"the section that ends its name at byte {at} is of a kind that AMQP has not")
    return code, at


def checked_map(held: Amqp) -> list[tuple[Amqp, Amqp]]:
    """Key and value of each entry of a map of a message's section.

    Raises:
        ValueError: a key is of no type for one, or stands there twice.
    """
    seen = set()
    for key, _ in held.value:
        if key.type not in ("string", "symbol", "ulong"):
            raise ValueError(f"a key of a section's map is a {key.type}; it is a string, a symbol or a ulong")
        if key.value in seen:
            raise ValueError(f"the key {key.value!r:.60} stands twice in one map")
        seen.add(key.value)
    found: list[tuple[Amqp, Amqp]] = held.value
    return found


def as_they_came(data: bytes, at: int, held: Amqp) -> list[bytes]:
    """The bytes of each entry, key and value, of the map that was read there."""
    at += 3 if data[at] == 0xC1 else 9
    found = []
    for _ in held.value:
        begin = at
        _, at = read(data, at)
        _, at = read(data, at)
        found.append(data[begin:at])
    return found
