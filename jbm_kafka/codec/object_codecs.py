"""How the values of object messages become bytes, and come back: JSON, or a codec that the application registered.

Pickle is left out: unpickling runs what the writer of the bytes wants, and anybody may write to a topic (decision 24).
"""

import json
import re
import sys
from collections.abc import Callable
from typing import Any, Final, NamedTuple, NoReturn

from jbm_kafka.core.failure_text import failure_text
from jbm_kafka.core.jms_errors import MessageFormatError
from jbm_kafka.core.plain_text import plain_text
from jbm_kafka.core.wrong_values import no_utf8, shown, wrong_type, wrong_value

JSON: Final = "json"
"""The codec of applications that do not name one."""

SCHEMA_REGISTRY: Final = "schema-registry"
"""The codec of a schema registry's serializer: read with `ConnectionFactory(codecs=…)` (decision 71)."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_NAME_RULE: Final = "it is up to 100 letters, digits, '.', '_' and '-', a letter or digit first, as 'order-v1'"


class ObjectCodec(NamedTuple):
    """A codec of object messages."""

    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]


def _to_json(value: object) -> bytes:
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        _check_names(value)
        return text.encode()
    except UnicodeEncodeError as fault:
        reason = no_utf8(fault)
    except RecursionError:
        reason = "it is nested too deeply"
    except (TypeError, ValueError) as fault:
        reason = json_fault(fault)
    raise MessageFormatError(
        f"body is {shown(value)}: {reason}. JSON has dict with str as names, list, str, bool, int, finite float and "
        f"None; for other values register a codec: {_registration('NAME')}",
        codec=JSON,
        value=value,
    )


def _check_names(value: object) -> None:
    """Raises TypeError for a name that JSON would make a text of in silence. No recursion: it may be nested deeply."""
    left = [value]
    while left:
        part = left.pop()
        if isinstance(part, dict):
            for name in part:
                if not isinstance(name, str):
                    raise TypeError(f"{shown(name)} is the name of a value")
            left.extend(part.values())
        elif isinstance(part, list | tuple):
            left.extend(part)


def read_json(data: bytes, *, is_strict: bool = False) -> Any:
    """The value that the JSON tells. `is_strict`: NaN and Infinity are refused, which are Python's.

    Raises:
        ValueError: it is not JSON in UTF-8; the text is one line.
    """
    try:
        return json.loads(data.decode(), parse_constant=_refuse_constant if is_strict else None)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ValueError as fault:
        raise ValueError(json_fault(fault)) from None


def json_fault(fault: Exception) -> str:
    """Why Python cannot read or write the JSON; of a very long number it tells how to change Python."""
    text = str(fault)
    return (
        f"a number has more than {sys.get_int_max_str_digits():,} digits" if "set_int_max_str_digits" in text else text
    )


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is Python's, and no number of JSON; send a text that says so")


_CODECS: dict[str, ObjectCodec] = {JSON: ObjectCodec(_to_json, read_json)}
"""The process's codecs by name. Any thread: nothing but a whole entry is ever set."""


def register_object_codec(name: str, *, encode: Callable[[Any], bytes], decode: Callable[[bytes], Any]) -> None:
    """Make a codec for object messages known to this process; `ObjectMessage(value, codec=name)` then uses it.

    Senders and receivers both register it, before they send and receive. The name travels in the header `JBMCodec`;
    let it tell the version too, as `order-v1`. The same functions may be registered again, also those of a module that
    was loaded again; others of this name are refused. Any thread may encode and decode, at the same time.

    Args:
        name: up to 100 letters, digits, '.', '_' and '-'. Not `json`, which is there.
        encode: makes bytes of a value.
        decode: makes the value of bytes. Anybody with write access to the topic may have written them, so it must not
            run what they say, as pickle does.

    Raises:
        InvalidSettingError: the name cannot be one or is another codec's, or `encode` or `decode` cannot be called.
    """
    if not isinstance(name, str):
        raise wrong_type("name", name, _NAME_RULE)
    name = plain_text(name)
    if _NAME.fullmatch(name) is None:
        raise wrong_value("name", name, _NAME_RULE)
    if name == JSON:
        raise wrong_value("name", name, "that codec is there, and stays as every reader knows it; choose another name")
    for argument, function in (("encode", encode), ("decode", decode)):
        if not callable(function):
            raise wrong_type(argument, function, "it is a function or another callable")
    there = _CODECS.get(name)
    for argument, function, known in zip(("encode", "decode"), (encode, decode), there or (), strict=False):
        if _home(function) != _home(known):
            rule = f"the codec {name!r} has {shown(known)}, and its messages may be in queues; choose another name"
            raise wrong_value(argument, function, rule)
    _CODECS[name] = ObjectCodec(encode, decode)


def _home(function: object) -> object:
    """Return a value that stays the same when the function's module is loaded again; else the function itself."""
    name = getattr(function, "__qualname__", None)
    return function if name is None else (getattr(function, "__module__", None), name)


def is_registered(name: str) -> bool:
    """Return True if this process can read what the codec wrote."""
    return name in _CODECS


def checked_codec(name: object) -> str:
    """The name, if it is that of a codec that is known here.

    Raises:
        InvalidSettingError: it is not.
    """
    if not isinstance(name, str):
        raise wrong_type("codec", name, "it is the name of a codec, a str")
    if name not in _CODECS:
        rule = f"it is not registered in this process; call {_registration(name)} first"
        raise wrong_value("codec", name, f"{rule} (registered: {', '.join(sorted(_CODECS))})")
    return plain_text(name)


def not_registered(name: str) -> str:
    """The error for an object whose codec this process does not know."""
    if name == SCHEMA_REGISTRY:
        return (
            "the object was written by a schema registry's serializer, and none of this connection's codecs is for it: "
            "give ConnectionFactory(codecs={'QUEUE-value': (serializer, deserializer)})"
        )
    return (
        f"the object was written by codec {shown(name)}, which is not registered in this process: call "
        f"{_registration(name)} before receiving"
    )


def encode_object(name: str, value: object) -> bytes:
    """The value's bytes.

    Raises:
        MessageFormatError: the codec cannot carry it; of an application's codec its own error is the cause.
    """
    if name == JSON:
        return _to_json(value)
    codec = _CODECS.get(name)
    if codec is None:  # of a received object, which was cleared
        checked_codec(name)
    assert codec is not None
    try:
        data: object = codec.encode(value)
    except Exception as fault:
        raise MessageFormatError(
            f"body is {shown(value)}: codec {name!r} cannot encode it: {failure_text(fault)}", codec=name, value=value
        ) from fault
    if not isinstance(data, bytes):
        raise MessageFormatError(
            f"body is {shown(value)}: codec {name!r} made {shown(data)} of it, and not bytes", codec=name, value=value
        )
    return data


def decode_object(name: str, data: bytes) -> Any:
    """The value that the bytes are.

    Raises:
        MessageFormatError: the codec is not registered, or cannot read them; of an application's codec its own error is
            the cause.
    """
    codec = _CODECS.get(name)
    if codec is None:
        raise MessageFormatError(not_registered(name), codec=name)
    try:
        return codec.decode(data)
    except Exception as fault:
        raise MessageFormatError(
            f"the object was written by codec {name!r}, which cannot decode it here: {failure_text(fault)}", codec=name
        ) from fault


def _registration(name: str) -> str:
    return f"jbm_kafka.register_object_codec({name!r}, encode=…, decode=…)"
