"""Between the value of a record and the body of a message: text, bytes, maps, streams, objects, nothing.

Whatever cannot be read as announced is delivered as its bytes, with the reason; an object of a codec that is not known
here stays an object, which tells so when it is looked at.
"""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple

from jbm_kafka.codec.object_codecs import JSON, SCHEMA_REGISTRY, is_registered, not_registered, read_json
from jbm_kafka.codec.scan import Header
from jbm_kafka.codec.typed_values import TypedValue, decode_map, decode_stream, encode_map, encode_stream
from jbm_kafka.core.jms_errors import MessageFormatError
from jbm_kafka.core.wrong_values import no_utf8

BODY_HEADER: Final = "JBMBody"
CODEC_HEADER: Final = "JBMCodec"
"""The codec of an object that is not JSON."""
TEXT: Final = b"text"
BYTES: Final = b"bytes"
MAP: Final = b"map"
STREAM: Final = b"stream"
OBJECT: Final = b"object"
NONE: Final = b"none"


class BodyShape(Enum):
    """Which kind of message carries the body."""

    TEXT = "text"
    """A str; None when a text message was sent without text."""
    BYTES = "bytes"
    """Bytes as they are."""
    MAP = "map"
    """Values with their JMS types, by name."""
    STREAM = "stream"
    """Values with their JMS types, in a row."""
    OBJECT = "object"
    """Any value, in JSON or as a codec of the application writes it."""
    NONE = "none"
    """No body."""


class ObjectBody(NamedTuple):
    """An object as its codec has written it."""

    codec: str
    data: bytes | None
    """None: the object is None, which is JSON's null whatever the codec."""
    reader: Callable[[bytes], Any] | None = None
    """Reads it in place of the codec of that name: one that the message's connection has."""


Body = str | bytes | bytearray | dict[str, TypedValue] | tuple[TypedValue, ...] | list[TypedValue] | ObjectBody | None
"""A bytearray is bytes, a list is a stream that is being written."""
DecodedBody = tuple[BodyShape, Body, str | None]
"""A body, the kind of message it makes, and why it cannot be read as what was announced."""

# A member of an Enum costs a look-up through its class each time; this is called for every message.
_TEXT_SHAPE: Final = BodyShape.TEXT
_BYTES_SHAPE: Final = BodyShape.BYTES
_NONE_SHAPE: Final = BodyShape.NONE


def body_kind(headers: Sequence[Header] | None) -> bytes | None:
    """The last `JBMBody` header; None: none, or null."""
    kind: bytes | None = None
    for name, value in headers or ():
        if name == BODY_HEADER:
            kind = value
    return kind


def decode_body(headers: Sequence[Header] | None, value: bytes | None) -> DecodedBody:
    """The body that the value is, by the last `JBMBody` header."""
    return decode_value(body_kind(headers), value, headers)


def decode_value(kind: bytes | None, value: bytes | None, headers: Sequence[Header] | None = None) -> DecodedBody:
    """The body that the value is when its kind is known. Only of an object it matters what else the headers tell."""
    if value is None:
        return (_TEXT_SHAPE if kind == TEXT else _NONE_SHAPE), None, None
    if kind == TEXT:
        try:
            return _TEXT_SHAPE, value.decode(), None
        except UnicodeDecodeError as fault:
            return _BYTES_SHAPE, value, f"the body is announced as text, but is not UTF-8: {fault}"
    if kind is None or kind == BYTES:
        return _BYTES_SHAPE, value, None
    return _decode_other(kind, value, headers)


def _decode_other(kind: bytes, value: bytes, headers: Sequence[Header] | None) -> DecodedBody:
    if kind in (MAP, STREAM):
        try:
            return (BodyShape.MAP, decode_map(value), None) if kind == MAP else _decode_stream(value)
        except ValueError as fault:
            return _BYTES_SHAPE, value, f"the body is announced as a {kind.decode()}, but cannot be read: {fault}"
    if kind == OBJECT:
        return _decode_object(codec_name(headers), value)
    if kind != NONE:
        announced = kind.decode(errors="backslashreplace")
        return _BYTES_SHAPE, value, f"body kind {announced!r} is not known to this version"
    if value:
        return _BYTES_SHAPE, value, "no body is announced, but there is one"
    return _NONE_SHAPE, None, None


def _decode_stream(value: bytes) -> DecodedBody:
    return BodyShape.STREAM, decode_stream(value), None


def codec_name(headers: Sequence[Header] | None) -> str:
    """The codec that an object was written by: the last `JBMCodec` header, or JSON."""
    name: bytes | None = None
    for header, value in headers or ():
        if header == CODEC_HEADER and value:
            name = value
    return JSON if name is None else name.decode(errors="backslashreplace")


def _decode_object(codec: str, value: bytes) -> DecodedBody:
    """JSON is checked here; an error of an application's codec is raised where the body is asked for."""
    if codec != JSON:
        is_known = codec == SCHEMA_REGISTRY or is_registered(codec)  # the former each connection knows or not
        return BodyShape.OBJECT, ObjectBody(codec, value), None if is_known else not_registered(codec)
    try:
        read_json(value)
    except ValueError as fault:
        return _BYTES_SHAPE, value, f"the body is announced as an object, but cannot be read as JSON: {fault}"
    return BodyShape.OBJECT, ObjectBody(codec, value), None


def encode_body(shape: BodyShape, body: Body) -> tuple[bytes | None, bytes | None]:
    """The value of the `JBMBody` header (None: leave it out) and the value of the record.

    Raises:
        MessageFormatError: the text has no UTF-8 form.
    """
    if shape is BodyShape.TEXT:
        if body is None:
            return TEXT, None
        assert isinstance(body, str), type(body)
        try:
            return TEXT, body.encode()
        except UnicodeEncodeError as fault:
            raise MessageFormatError(f"body: {no_utf8(fault, ', or send bytes')}") from None
    if shape is BodyShape.BYTES:
        # Bytes without content are a value, not its absence.
        if isinstance(body, bytearray):
            return None, bytes(body)
        assert isinstance(body, bytes), type(body)
        return None, body
    if shape is BodyShape.MAP:
        assert isinstance(body, dict), type(body)
        return MAP, encode_map(body)
    if shape is BodyShape.STREAM:
        assert isinstance(body, tuple | list), type(body)
        assert not isinstance(body, ObjectBody), body
        return STREAM, encode_stream(body)
    if shape is BodyShape.OBJECT:
        assert isinstance(body, ObjectBody), type(body)
        return OBJECT, b"null" if body.data is None else body.data
    assert body is None, body
    return None, None
