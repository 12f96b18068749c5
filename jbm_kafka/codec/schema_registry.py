"""Bodies that the serializers of a schema registry write and read, chosen by subject or content type (decision 71).

The serializers are confluent-kafka's. They frame what they write: a magic byte and the schema's id before it, or the
id in a header of its own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from jbm_kafka.codec.bodies import OBJECT, ObjectBody, codec_name
from jbm_kafka.codec.dead_letter import ORIG_DESTINATION
from jbm_kafka.codec.json_text import CONTENT_TYPE
from jbm_kafka.codec.object_codecs import SCHEMA_REGISTRY
from jbm_kafka.codec.one_header import header_property_value
from jbm_kafka.codec.scan import Header
from jbm_kafka.core.failure_text import failure_text
from jbm_kafka.core.jms_errors import MessageFormatError
from jbm_kafka.core.plain_text import plain_text
from jbm_kafka.core.wrong_values import shown, wrong_type, wrong_value

if TYPE_CHECKING:
    from confluent_kafka.serialization import Deserializer, SerializationContext, Serializer

_SUBJECT_END: Final = "-value"
ID_HEADER: Final = "__value_schema_id"
_FRAMES: Final = {0: 5, 1: 17}
"""The length of a frame with its id, a number or a UUID, by the magic byte."""
_CODEC_RULE: Final = (
    "it is a serializer or a deserializer of confluent_kafka (not one of its Async… classes), or a tuple of both"
)


class _Codec(NamedTuple):
    name: str
    """The subject or the content type."""
    serializer: Serializer | None
    deserializer: Deserializer | None


class SchemaCodecs:
    """The serializers and deserializers of one factory. Thread-safe as they are."""

    __slots__ = ("_by_name", "given")

    def __init__(self, given: Mapping[str, object]) -> None:
        """Take the arguments that a factory was given.

        Raises:
            InvalidSettingError: a name or a value that cannot be.
        """
        self.given = given
        self._by_name: dict[str, _Codec] = {}
        for name, value in given.items():
            if not isinstance(name, str):
                raise wrong_type("codecs", name, "its keys are subjects and content types, each a str")
            if "/" not in name and not name.endswith(_SUBJECT_END):
                rule = "it is a subject, 'QUEUE-value', or a content type, as 'application/vnd.acme.order'"
                raise wrong_value("codecs", name, rule)
            key = plain_text(name).lower() if "/" in name else plain_text(name)
            self._by_name[key] = _checked(name, value)

    def encoded(self, topic: str, value: object, headers: list[Header]) -> ObjectBody | None:
        """The value as the topic's serializer writes it, which may add to the headers; None: it has none.

        Raises:
            MessageFormatError: the serializer cannot write it, or does not reach its registry.
        """
        codec = self._by_name.get(_content_type(headers)) or self._by_name.get(topic + _SUBJECT_END)
        if codec is None or codec.serializer is None:
            return None
        try:
            data = codec.serializer(value, _context(topic, headers))
        except Exception as fault:
            text = f"body is {shown(value)}: the serializer of {codec.name!r} cannot write it: {failure_text(fault)}"
            raise MessageFormatError(text, codec=codec.name, value=value) from fault
        if not isinstance(data, bytes):
            text = f"body is {shown(value)}: the serializer of {codec.name!r} made {shown(data)} of it, and not bytes"
            raise MessageFormatError(text, codec=codec.name, value=value)
        return ObjectBody(SCHEMA_REGISTRY, data, _Reader(codec, topic, tuple(headers)))

    def of_record(
        self, topic: str, kind: bytes | None, headers: Sequence[Header] | None, value: bytes | None
    ) -> ObjectBody | None:
        """The body of a record, if it is for a deserializer; it is decoded when it is asked for."""
        is_ours = kind == OBJECT and codec_name(headers) == SCHEMA_REGISTRY
        if value is None or not (is_ours or kind is None):
            return None
        codec = self._by_name.get(_content_type(headers))
        if codec is None:
            if not (is_ours or _is_framed(headers, value)):
                return None
            codec = self._by_name.get(topic + _SUBJECT_END)
            if codec is None and isinstance(left := header_property_value(headers, ORIG_DESTINATION), str):
                topic = left.partition(":")[2]  # a dead letter: the subject is that of the queue it left
                codec = self._by_name.get(topic + _SUBJECT_END)
        if codec is None or codec.deserializer is None:
            return None
        return ObjectBody(SCHEMA_REGISTRY, value, _Reader(codec, topic, tuple(headers or ())))


class _Reader:
    """Decodes one body, whenever it is asked for."""

    def __init__(self, codec: _Codec, topic: str, headers: tuple[Header, ...]) -> None:
        self._codec = codec
        self._topic = topic
        self._headers = headers

    def __call__(self, data: bytes) -> Any:
        """The value.

        Raises:
            MessageFormatError: there is no deserializer, it cannot read the body, or does not reach its registry.
        """
        name, _, deserializer = self._codec
        if deserializer is None:
            raise MessageFormatError(f"codecs[{name!r}] has no deserializer; give a tuple of both", codec=name)
        try:
            return deserializer(data, _context(self._topic, list(self._headers)))
        except Exception as fault:
            text = f"the deserializer of {name!r} cannot read the body: {failure_text(fault)}"
            raise MessageFormatError(text, codec=name) from fault

    def __copy__(self) -> _Reader:
        return self

    def __deepcopy__(self, memo: object) -> _Reader:
        return self

    def __reduce__(self) -> tuple[Callable[[], None], tuple[()]]:
        """In another process there is none: the connections there have their own."""
        return _no_reader, ()


def _no_reader() -> None:
    return None


def _context(topic: str, headers: list[Header]) -> SerializationContext:
    from confluent_kafka.serialization import MessageField, SerializationContext

    return SerializationContext(topic, MessageField.VALUE, headers)  # type: ignore[arg-type]


def _checked(name: str, value: object) -> _Codec:
    from confluent_kafka.serialization import Deserializer, Serializer

    setting = f"codecs[{shown(name)}]"
    parts = value if isinstance(value, tuple) and len(value) == 2 else (value,)
    serializer = next((each for each in parts if isinstance(each, Serializer)), None)
    deserializer = next((each for each in parts if isinstance(each, Deserializer)), None)
    found = [each for each in (serializer, deserializer) if each is not None]
    if len(found) != len(parts) or any("._async." in type(each).__module__ for each in found):
        raise wrong_type(setting, value, _CODEC_RULE)
    if any(inspect.iscoroutinefunction(type(each).__call__) for each in found):
        raise wrong_type(setting, value, _CODEC_RULE)
    return _Codec(plain_text(name), serializer, deserializer)


def _content_type(headers: Sequence[Header] | None) -> str:
    """The last one, without its parameters; '' where there is none."""
    for name, value in reversed(headers or ()):
        if isinstance(name, str) and isinstance(value, bytes) and name.lower() == CONTENT_TYPE:
            return value.decode(errors="backslashreplace").partition(";")[0].strip().lower()
    return ""


def _is_framed(headers: Sequence[Header] | None, value: bytes) -> bool:
    """Return True if a serializer of a schema registry seems to have written it."""
    size = _FRAMES.get(value[0]) if value else None
    return (size is not None and len(value) >= size) or any(name == ID_HEADER for name, _ in headers or ())
