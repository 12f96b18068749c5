"""A body as what it is: text, JSON, named values, or bytes; a large one in part. Nothing of an application is run.

Objects that an application's codec wrote are shown as bytes, whoever runs the console: a codec may do anything with
bytes that a stranger sent.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import Any, Literal, NoReturn

from pydantic import BaseModel

from jbm_kafka.admin import StoredMessage
from jbm_kafka.codec.bodies import BodyShape, ObjectBody, codec_name, decode_body
from jbm_kafka.codec.object_codecs import JSON, SCHEMA_REGISTRY
from jbm_kafka.codec.typed_values import TypedValue
from jbm_kafka.console.frame.registry_schemas import RegistrySchemas, UnreadableBody

TEXT_SHOWN = 64 * 1024
"""Characters of a text that a page has; all of it is a download."""
BYTES_SHOWN = 2 * 1024
VALUES_SHOWN = 500
LINE_BYTES = 16
NODES_MAX = 3_000
"""Parts of a JSON value that is shown to be unfolded; a larger one is shown as its text."""
DEPTH_MAX = 40
_REGISTRY_FRAME = 5
"""A zero byte and the schema's id, before what a schema registry's serializer wrote."""


class HexLine(BaseModel):
    """Sixteen bytes."""

    at: str
    """The place of the first, in hex."""
    hex: str
    text: str
    """The same as ASCII; a dot for what is none."""


class NamedValue(BaseModel):
    """A value of a map or stream."""

    name: str
    """The name; in a stream its number."""
    type: str
    value: str


class ShownBody(BaseModel):
    """A body for people."""

    kind: Literal["text", "json", "map", "stream", "bytes", "none"]
    """How it is shown."""
    announced: str
    """The kind of message that its sender said it is."""
    codec: str
    """The codec of an object; else empty."""
    bytes: int
    """All of it, as it is in the log."""
    shown_bytes: int
    """So many of them are shown, of text and bytes."""
    is_whole: bool
    text: str
    """The text, of text and of JSON: as it is, or its beginning."""
    tree: Any
    """The value of JSON that is shown whole."""
    has_tree: bool
    values: Sequence[NamedValue]
    lines: Sequence[HexLine]
    notes: Sequence[str]
    """Remarks on what cannot be read, and why; the id of a registry's schema."""


def shown_body(stored: StoredMessage, schemas: RegistrySchemas | None = None) -> ShownBody:
    """How the body of a message is shown; `schemas`: of the registry, for what its serializers wrote."""
    headers = () if stored.message.kafka is None else stored.message.kafka.headers
    value = stored.value
    shape, body, fault = decode_body(headers, value)
    codec = codec_name(headers) if shape is BodyShape.OBJECT else ""
    notes = [] if fault is None else [f"It cannot be read as what it says it is: {fault}."]
    if value is None:
        return _shown("none", shape, value, notes=notes)
    if isinstance(body, str):
        return _text(shape, value, body, notes)
    if shape is BodyShape.OBJECT and codec == JSON:
        return _text(shape, value, value.decode(), notes)
    if isinstance(body, dict):
        values = [_named(name, held) for name, held in [*body.items()][:VALUES_SHOWN]]
        return _shown("map", shape, value, values=values, is_whole=len(body) <= VALUES_SHOWN, notes=notes)
    if isinstance(body, tuple) and not isinstance(body, ObjectBody):
        rows = [held for held in body[:VALUES_SHOWN] if isinstance(held, TypedValue)]
        values = [_named(str(number), held) for number, held in enumerate(rows, 1)]
        return _shown("stream", shape, value, values=values, is_whole=len(body) <= VALUES_SHOWN, notes=notes)
    if (
        schemas is not None
        and value
        and codec in ("", SCHEMA_REGISTRY)
        and shape in (BodyShape.OBJECT, BodyShape.BYTES)
    ):
        try:
            read = schemas.read(headers, value)
        except UnreadableBody as error:
            return _bytes(
                shape, value, codec, [*notes, f"A schema registry's serializer seems to have written it: {error}."]
            )
        if read is not None:
            return _text(shape, value, read.text, [f"{read.schema}."], codec=SCHEMA_REGISTRY)
    if codec and not notes:
        notes.append(f"An object that the codec {codec!r} wrote: its bytes are shown, for the console runs no codec.")
    framed = _schema_id(value)
    if framed is not None and codec in ("", SCHEMA_REGISTRY):
        notes.append(f"It begins as a schema registry's serializers write: with the id {framed} of a schema.")
    elif shape is BodyShape.BYTES and fault is None and (text := _as_json(value)) is not None:
        return _text(shape, value, text, notes)
    return _bytes(shape, value, codec, notes)


def _text(shape: BodyShape, value: bytes, text: str, notes: list[str], *, codec: str = "") -> ShownBody:
    part, tree, has_tree = text[:TEXT_SHOWN], None, False
    if len(part) == len(text):
        has_tree, tree = _tree(text)
    return _shown(
        "json" if has_tree else "text",
        shape,
        value,
        codec=codec,
        text=part,
        tree=tree,
        has_tree=has_tree,
        is_whole=len(part) == len(text),
        shown_bytes=len(part.encode(errors="replace")),
        notes=notes,
    )


def _bytes(shape: BodyShape, value: bytes, codec: str, notes: list[str]) -> ShownBody:
    part = value[:BYTES_SHOWN]
    return _shown(
        "bytes",
        shape,
        value,
        codec=codec,
        lines=[_line(at, part[at : at + LINE_BYTES]) for at in range(0, len(part), LINE_BYTES)],
        is_whole=len(part) == len(value),
        shown_bytes=len(part),
        notes=notes,
    )


def _shown(
    kind: Literal["text", "json", "map", "stream", "bytes", "none"],
    shape: BodyShape,
    value: bytes | None,
    **more: Any,
) -> ShownBody:
    size = len(value or b"")
    usual: dict[str, Any] = {
        "codec": "",
        "shown_bytes": size,
        "is_whole": True,
        "text": "",
        "tree": None,
        "has_tree": False,
        "values": (),
        "lines": (),
    }
    return ShownBody(kind=kind, announced=shape.value, bytes=size, **{**usual, **more})


def _named(name: str, held: TypedValue) -> NamedValue:
    kind, value = held
    text = bytes(value).hex(" ") if isinstance(value, bytes | bytearray) else "null" if value is None else str(value)
    return NamedValue(name=name, type=str(getattr(kind, "value", kind)), value=text[:TEXT_SHOWN])


def _line(at: int, part: bytes) -> HexLine:
    text = "".join(chr(each) if 32 <= each < 127 else "." for each in part)
    return HexLine(at=f"{at:08x}", hex=part.hex(" "), text=text)


def _schema_id(value: bytes) -> int | None:
    if len(value) < _REGISTRY_FRAME or value[0] != 0:
        return None
    found: int = struct.unpack(">I", value[1:_REGISTRY_FRAME])[0]
    return found if 0 < found < 1 << 24 else None


def _as_json(value: bytes) -> str | None:
    """Bytes of another producer that are a JSON object or list."""
    if value[:1] not in (b"{", b"[") or len(value) > TEXT_SHOWN:
        return None
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return None
    return text if _tree(text)[0] else None


def _tree(text: str) -> tuple[bool, Any]:
    """Return True if the text is a JSON object or list that can be unfolded, and its value."""
    if text.lstrip()[:1] not in ("{", "["):
        return False, None
    try:
        value = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return False, None
    return (True, value) if _is_small(value) else (False, None)


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _is_small(value: Any) -> bool:
    """Neither too deep nor too wide to be unfolded on a page."""
    ahead, seen = [(value, 1)], 0
    while ahead:
        part, depth = ahead.pop()
        seen += 1
        if seen > NODES_MAX or depth > DEPTH_MAX:
            return False
        children = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
        ahead.extend((child, depth + 1) for child in children)
    return True
