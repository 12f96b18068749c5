"""Bodies that a schema registry's serializers wrote (decision 71), read by the schemas that the registry has.

A schema is data: Avro's is read by fastavro, Protobuf's by descriptors, and nothing of an application is run. The
registry is asked for a schema once. What it does not say, or what does not fit, is told, and the page has the bytes.
"""

from __future__ import annotations

import base64
import json
import re
import threading
import time
import urllib.error
import urllib.request
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from http.client import HTTPException, HTTPMessage
from importlib import import_module
from io import BytesIO
from typing import IO, Any, NamedTuple
from urllib.parse import quote, urlsplit
from uuid import UUID

from jbm_kafka.codec.one_header import last_value
from jbm_kafka.core.failure_text import failure_text, one_line_of
from jbm_kafka.core.wrong_values import wrong_value
from jbm_kafka.ports import Headers

ANSWER_S = 3.0
"""For one answer of the registry; a page waits for it."""
SCHEMAS_KEPT = 500
AGAIN_S = 10.0
"""The time after which a schema that could not be had is asked for again."""
REFERENCES_MAX = 50
"""Schemas that one names, and those that these name."""
SCHEMA_BYTES_MAX = 4 << 20
BODY_BYTES_MAX = 1 << 20
"""A larger one is shown as its bytes: what it says would not fit on a page."""
ID_HEADER = "__value_schema_id"
_GOOGLES = re.compile(r"google/protobuf/[a-z_]+\.proto")
"""Files that the package protobuf has itself."""
_NUMBER, _GUID = 5, 17
"""How long the magic byte and an id are."""


class UnreadableBody(Exception):
    """Why it cannot be shown as what it is, in one line."""


class ReadBody(NamedTuple):
    """A body as its schema reads it."""

    text: str
    """As JSON."""
    schema: str
    """In words: `Avro by schema 7, com.acme.Order`."""


class _Place(NamedTuple):
    """Where the registry has the schema, and where the data begin."""

    path: str
    name: str
    begin: int


class RegistrySchemas:
    """One registry. Any thread."""

    def __init__(self, url: str, user: str = "", password: str = "") -> None:
        """
        Raises:
            InvalidSettingError: it is no address of a registry.
        """
        if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname or "@" in urlsplit(url).netloc:
            rule = "it is https://HOST:PORT of a schema registry; user and password are settings of their own"
            raise wrong_value("schema_registry", url.rpartition("@")[2], rule)
        self._url = url.rstrip("/")
        self._login = base64.b64encode(f"{user}:{password}".encode()).decode() if user else ""
        self._lock = threading.Lock()
        self._known: OrderedDict[str, Callable[[bytes], ReadBody]] = OrderedDict()
        self._failed: dict[str, tuple[float, str]] = {}
        self._opener = urllib.request.build_opener(_NoRedirects)

    def read(self, headers: Headers | None, value: bytes) -> ReadBody | None:
        """The body; None: no serializer of a registry seems to have written it.

        Raises:
            UnreadableBody: it cannot be read.
        """
        place = _place(headers, value)
        if place is None:
            return None
        if len(value) > BODY_BYTES_MAX:
            raise UnreadableBody(f"it has more than {BODY_BYTES_MAX:,} bytes")
        reader = self._reader(place)
        try:
            return reader(value[place.begin :])
        except Exception as fault:  # whatever damaged bytes lead to
            text = f"it does not fit {place.name}: {failure_text(fault)}"
        raise UnreadableBody(text)

    def _reader(self, place: _Place) -> Callable[[bytes], ReadBody]:
        with self._lock:
            found = self._known.get(place.path)
            if found is not None:
                self._known.move_to_end(place.path)
                return found
            failed_at_s, why = self._failed.get(place.path, (-AGAIN_S, ""))
        if time.monotonic() - failed_at_s < AGAIN_S:
            raise UnreadableBody(why)
        try:
            made = self._made(place)
        except UnreadableBody as error:
            text = str(error)
        except Exception as fault:  # a schema that is none, a module that is missing
            text = f"{place.name} cannot be used: {failure_text(fault)}"
        else:
            with self._lock:
                self._known[place.path] = made
                while len(self._known) > SCHEMAS_KEPT:
                    self._known.popitem(last=False)
            return made
        with self._lock:
            if len(self._failed) >= SCHEMAS_KEPT:
                self._failed.clear()
            self._failed[place.path] = time.monotonic(), text
        raise UnreadableBody(text)

    def _made(self, place: _Place) -> Callable[[bytes], ReadBody]:
        told = self._get(place.path)
        kind = str(told.get("schemaType") or "AVRO")
        if kind == "AVRO":
            return _avro_reader(json.loads(told["schema"]), self._referred(told, json.loads), place.name)
        if kind == "JSON":
            return _json_reader(place.name)
        if kind == "PROTOBUF":
            whole = self._get(f"{place.path}?format=serialized")
            files = [text for _, text in self._named_files(told, serialized=True)]
            return _protobuf_reader(base64.b64decode(whole["schema"]), files, place.name)
        raise UnreadableBody(f"{place.name} is of the kind {one_line_of(kind, 40)}, which is not known here")

    def _referred(self, told: Mapping[str, Any], parsed: Callable[[str], Any]) -> list[Any]:
        return [parsed(text) for _, text in self._named_files(told, serialized=False)]

    def _named_files(self, told: Mapping[str, Any], *, serialized: bool) -> list[tuple[str, str]]:
        """Return those that it needs, each after those that it needs itself."""
        found: OrderedDict[str, str] = OrderedDict()

        def take(references: Sequence[Mapping[str, Any]], depth: int) -> None:
            for each in references:
                path = f"/subjects/{quote(str(each['subject']), safe='')}/versions/{int(each['version'])}"
                if path in found:
                    continue
                if len(found) >= REFERENCES_MAX or depth > REFERENCES_MAX:
                    raise UnreadableBody(f"its schema needs more than {REFERENCES_MAX} others")
                one = self._get(path)
                take(one.get("references") or (), depth + 1)
                found[path] = self._get(f"{path}?format=serialized")["schema"] if serialized else one["schema"]

        take(told.get("references") or (), 0)
        return list(found.items())

    def _get(self, path: str) -> Mapping[str, Any]:
        request = urllib.request.Request(self._url + path, headers={"Accept": "application/json"})
        if self._login:
            request.add_header("Authorization", f"Basic {self._login}")
        try:
            with self._opener.open(request, timeout=ANSWER_S) as answer:
                told = answer.read(SCHEMA_BYTES_MAX + 1)
            if len(told) > SCHEMA_BYTES_MAX:
                raise UnreadableBody("the schema registry's answer is too long")
            found = json.loads(told)
        except urllib.error.HTTPError as error:
            error.close()
            why = "has no such schema" if error.code == 404 else f"answered with status {error.code}"
        except (OSError, HTTPException) as error:
            why = f"does not answer: {one_line_of(str(getattr(error, 'reason', None) or error), 100)}"
        except (ValueError, RecursionError):
            why = "answered with what is no JSON"
        else:
            if isinstance(found, dict):
                return found
            why = "answered with what is no schema"
        raise UnreadableBody(f"the schema registry {why} ({path.partition('?')[0]})")


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """The login is for this registry alone."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        return None


def _place(headers: Headers | None, value: bytes) -> _Place | None:
    """The registry's header wins: then the body is the data alone."""
    told = last_value(headers, ID_HEADER)
    framed, begin_after = (told, False) if told is not None else (value, True)
    if len(framed) >= _NUMBER and framed[0] == 0:
        number = int.from_bytes(framed[1:_NUMBER], "big")
        if 0 < number < 1 << 31:
            return _Place(f"/schemas/ids/{number}", f"schema {number}", _NUMBER if begin_after else 0)
    if len(framed) >= _GUID and framed[0] == 1:
        guid = UUID(bytes=bytes(framed[1:_GUID]))
        return _Place(f"/schemas/guids/{guid}", f"schema {guid}", _GUID if begin_after else 0)
    return None


def _avro_reader(schema: Any, referred: Sequence[Any], name: str) -> Callable[[bytes], ReadBody]:
    from fastavro import parse_schema, schemaless_reader

    named: dict[str, Any] = {}
    for each in referred:
        parse_schema(each, named_schemas=named)
    parsed = parse_schema(schema, named_schemas=named)
    _check_bounded(parsed, named)
    title = parsed.get("name", "") if isinstance(parsed, dict) else str(parsed)

    def read(data: bytes) -> ReadBody:
        left = BytesIO(data)
        value = schemaless_reader(left, parsed)
        if left.read(1):
            raise ValueError("bytes are left behind it")
        return ReadBody(_as_text(value), f"Avro by {name}, {title}")

    return read


def _check_bounded(schema: Any, named: Mapping[str, Any], seen: frozenset[str] = frozenset()) -> None:
    """Refuse lists of what takes no bytes: a few of them would say that there are a billion.

    Raises:
        UnreadableBody: it has such a list.
    """
    if isinstance(schema, str):
        if schema in named and schema not in seen:
            _check_bounded(named[schema], named, seen | {schema})
        return
    if isinstance(schema, list):
        for each in schema:
            _check_bounded(each, named, seen)
        return
    if schema.get("type") == "array" and _takes_nothing(schema["items"], named, seen):
        raise UnreadableBody("its schema has a list of what takes no bytes, which may be of any length")
    inner = schema.get("name")
    seen = seen | {inner} if isinstance(inner, str) else seen
    for part in (schema.get("items"), schema.get("values"), *(each["type"] for each in schema.get("fields", ()))):
        if part is not None:
            _check_bounded(part, named, seen)
    if isinstance(schema.get("type"), dict | list):
        _check_bounded(schema["type"], named, seen)


def _takes_nothing(schema: Any, named: Mapping[str, Any], seen: frozenset[str]) -> bool:
    if isinstance(schema, str):
        if schema in seen:
            return False  # within itself: it takes what it says
        return schema == "null" or (schema in named and _takes_nothing(named[schema], named, seen | {schema}))
    if isinstance(schema, list):
        return False  # a number tells which
    if schema.get("type") == "fixed":
        return bool(schema.get("size") == 0)
    if schema.get("type") in ("record", "error"):
        return all(_takes_nothing(each["type"], named, seen) for each in schema.get("fields", ()))
    return bool(schema.get("type") == "null")


def _json_reader(name: str) -> Callable[[bytes], ReadBody]:
    return lambda data: ReadBody(_as_text(json.loads(data)), f"JSON by {name}")


def _protobuf_reader(file: bytes, others: Sequence[str], name: str) -> Callable[[bytes], ReadBody]:
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
    except ModuleNotFoundError:
        raise UnreadableBody(f"it is Protobuf by {name}: pip install protobuf where the console runs") from None
    pool, usual = descriptor_pool.DescriptorPool(), descriptor_pool.Default()
    own = descriptor_pb2.FileDescriptorProto.FromString(file)
    files = [descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(each)) for each in others]

    def add(each: Any) -> None:
        for needed in each.dependency:
            if _GOOGLES.fullmatch(needed):
                import_module(f"{needed.removesuffix('.proto').replace('/', '.')}_pb2")
                given = descriptor_pb2.FileDescriptorProto()
                usual.FindFileByName(needed).CopyToProto(given)
                add(given)
        pool.Add(each)

    for each in files:
        add(each)
    own.name = own.name or "message.proto"
    add(own)
    there = pool.FindFileByName(own.name)

    def read(data: bytes) -> ReadBody:
        path, begin = _message_path(data)
        kind = there.message_types_by_name[own.message_type[path[0]].name]
        for at in path[1:]:
            kind = kind.nested_types[at]
        message = message_factory.GetMessageClass(kind)()
        message.ParseFromString(data[begin:])
        told = json_format.MessageToDict(message, preserving_proto_field_name=True, descriptor_pool=pool)
        return ReadBody(_as_text(told), f"Protobuf by {name}, {kind.full_name}")

    return read


def _message_path(data: bytes) -> tuple[list[int], int]:
    """Which message of the file it is, and where it begins: numbers as zigzag varints, their count first; 0: [0]."""
    count, at = _varint(data, 0)
    path = []
    for _ in range(min(count, REFERENCES_MAX)):
        each, at = _varint(data, at)
        path.append(each)
    return path or [0], at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            break
    number = (value >> 1) ^ -(value & 1)
    if number < 0:
        raise ValueError("the place of its message is below zero")
    return number, at


def _as_text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2, default=_shown)


def _shown(value: Any) -> object:
    """Return what JSON has no kind for: bytes as hex, times and decimals as their text."""
    return bytes(value).hex(" ") if isinstance(value, bytes | bytearray) else str(value)
