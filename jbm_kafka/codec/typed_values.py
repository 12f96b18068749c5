"""The values in map and stream bodies: each has its JMS type, and Avro carries both."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, get_args

from jbm_kafka.codec.property_header import INTEGER_BITS, integer_fits, nearest_float32
from jbm_kafka.codec.schemas import codec
from jbm_kafka.core.jms_errors import CorruptRecordError, MessageFormatError
from jbm_kafka.core.wrong_values import no_utf8

ValueType = Literal[
    "boolean", "byte", "short", "char", "int", "long", "float", "double", "string", "bytes", "null"
]  # fmt: skip
Value = str | bool | int | float | bytes | None

CHUNK = 128
"""So many entries are encoded at once, half a millisecond long."""
VALUE_TYPES = frozenset(get_args(ValueType))


class TypedValue(NamedTuple):
    """A value and its JMS type; the value fits the type."""

    type: ValueType
    value: Value


NULL_VALUE = TypedValue("null", None)


def encode_map(entries: Mapping[str, TypedValue]) -> bytes:
    """The body of a map message, as a record carries it.

    Raises:
        MessageFormatError: a text in it has no UTF-8 form.
    """
    if len(entries) <= CHUNK:
        return _encoded("MapBody", {name: held._asdict() for name, held in entries.items()})
    rows = iter(entries.items())
    chunks = iter(lambda: {name: held._asdict() for name, held in islice(rows, CHUNK)}, {})
    return _in_chunks("MapBody", len(entries), chunks)


def decode_map(data: bytes) -> dict[str, TypedValue]:
    """The entries of a map body; raises ValueError, with the reason, when this version cannot read it."""
    return {name: _value_of(entry, f"entry {name!r}") for name, entry in _decoded("MapBody", data).items()}


def encode_stream(entries: Sequence[TypedValue]) -> bytes:
    """The body of a stream message, as a record carries it.

    Raises:
        MessageFormatError: a text in it has no UTF-8 form.
    """
    if len(entries) <= CHUNK:
        return _encoded("StreamBody", [held._asdict() for held in entries])
    rows = iter(entries)
    return _in_chunks("StreamBody", len(entries), iter(lambda: [held._asdict() for held in islice(rows, CHUNK)], []))


def decode_stream(data: bytes) -> tuple[TypedValue, ...]:
    """The values of a stream body; raises ValueError, with the reason, when this version cannot read it."""
    return tuple(_value_of(entry, f"value {n}") for n, entry in enumerate(_decoded("StreamBody", data)))


def _encoded(schema: str, entries: object) -> bytes:
    try:
        return codec(schema).encode({"entries": entries})
    except UnicodeEncodeError as fault:
        raise MessageFormatError(f"body: {no_utf8(fault, ', or send bytes')}") from None


def _in_chunks(schema: str, count: int, chunks: Iterator[Any]) -> bytes:
    """As `_encoded` of all of them at once, which would let no other thread run for seconds."""
    empty = _encoded(schema, [] if schema == "StreamBody" else {})
    start, end = empty[:-1], empty[-1:]
    found = [start, _avro_long(count)]
    for chunk in chunks:
        found.append(_encoded(schema, chunk)[len(start) + len(_avro_long(len(chunk))) : -len(end)])
    return b"".join((*found, end))


def _avro_long(number: int) -> bytes:
    """A count as Avro has it: twice, seven bits a byte, the low ones first."""
    rest, found = 2 * number, bytearray()
    while rest >= 128:
        found.append(rest & 127 | 128)
        rest >>= 7
    found.append(rest)
    return bytes(found)


def _decoded(schema: str, data: bytes) -> Any:
    try:
        return codec(schema).decode(data)["entries"]
    except CorruptRecordError as fault:
        raise ValueError(str(fault)) from None


def _value_of(entry: Mapping[str, Any], what: str) -> TypedValue:
    kind, value = entry["type"], entry["value"]
    fits = _FITS.get(kind)
    if fits is None or not fits(value):
        raise ValueError(f"{what} of type {kind!a} holds {value!a:.60}")
    return TypedValue(kind, nearest_float32(value) if kind == "float" else value)


def _is_integer(bits: int) -> Callable[[object], bool]:
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and integer_fits(value, bits)


def is_char(value: object) -> bool:
    """Return True if it is one UTF-16 unit, as a Java char is, that text can carry."""
    return isinstance(value, str) and len(value) == 1 and value <= "\uffff" and not "\ud800" <= value <= "\udfff"


_FITS: Mapping[str, Callable[[object], bool]] = MappingProxyType(
    {
        "boolean": lambda value: isinstance(value, bool),
        **{kind: _is_integer(bits) for kind, bits in INTEGER_BITS.items()},
        "char": is_char,
        "float": lambda value: isinstance(value, float),
        "double": lambda value: isinstance(value, float),
        "string": lambda value: isinstance(value, str),
        "bytes": lambda value: isinstance(value, bytes),
        "null": lambda value: value is None,
    }
)
