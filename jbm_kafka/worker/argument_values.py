"""A message's body and headers as a handler's annotations want them: checked, or else no message for this handler."""

from __future__ import annotations

import types
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Union, get_args, get_origin

from jbm_kafka.codec.json_text import json_value
from jbm_kafka.core.jms_errors import InvalidTypeError, MessageFormatError
from jbm_kafka.core.wrong_values import shown, with_article
from jbm_kafka.jms.messages.message import Message

_BARE = (str, bytes, dict, list)
"""Bodies that need no Pydantic."""
_SCALARS = (str, int, float, bool, bytes, types.NoneType)
_FIELDS = {
    "JMSMessageID": "message_id",
    "JMSCorrelationID": "correlation_id",
    "JMSType": "type",
    "JMSPriority": "priority",
    "JMSTimestamp": "timestamp",
    "JMSXDeliveryCount": "delivery_count",
    "JMSXGroupID": "unit_of_order",
}
"""The attribute of a message, by JMS's name."""

MISSING = object()


def body_reader(kind: Any) -> Callable[[Message], Any]:
    """Returns what reads a body as `kind`; it raises MessageFormatError for a message whose body is none.

    Raises:
        InvalidTypeError: nobody can read a body as that.
    """
    if kind in _BARE:
        return lambda message: _bare(kind, message)
    adapter, invalid = _adapter(kind)
    of_json, of_object = adapter.validate_json, adapter.validate_python
    name = _name(kind)

    def read(message: Message) -> Any:
        body = message.body
        try:
            return of_json(body) if isinstance(body, str | bytes) else of_object(body)
        except invalid as error:
            told = told_faults(error)
        raise MessageFormatError(f"the body is no {name}: {told}")

    return read


def header_reader(name: str, kind: Any, default: object) -> Callable[[Message], Any]:
    """Returns what reads a header or property; it raises MessageFormatError where it is missing, or is no `kind`.

    Raises:
        InvalidTypeError: no header can be that.
    """
    check = _header_check(name, kind)
    field = _FIELDS.get(name)

    def read(message: Message) -> Any:
        value = _property(message, name) if field is None else getattr(message, field)
        if value is MISSING or (value is None and field is not None):
            if default is MISSING:
                raise MessageFormatError(f"the message has no {name!r} among its headers and properties", header=name)
            return default
        return check(value)

    return read


def _bare(kind: type, message: Message) -> Any:
    body: Any = message.body
    if kind is str and isinstance(body, bytes):
        try:
            return body.decode()
        except UnicodeDecodeError as error:
            fault = str(error)
        raise MessageFormatError(f"the body is no text in UTF-8: {fault}")
    if kind is bytes and isinstance(body, str):
        return body.encode()
    if kind in (dict, list) and isinstance(body, str | bytes):
        body = json_value(body.encode() if isinstance(body, str) else body)
    if kind is list and isinstance(body, tuple):
        return list(body)
    if not isinstance(body, kind):
        raise MessageFormatError(f"the body is {with_article(type(body))}, not {with_article(kind)}")
    return body


def _property(message: Message, name: str) -> Any:
    properties = message.properties
    if name in properties:
        return properties[name]
    view = message.kafka
    for key, value in reversed(() if view is None else view.headers):
        if key == name:
            return value.decode(errors="replace") if isinstance(value, bytes) else value
    return MISSING


def _header_check(name: str, kind: Any) -> Callable[[Any], Any]:
    if kind is Any:
        return lambda value: value
    kinds = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
    if all(each in _SCALARS for each in kinds):
        classes = frozenset((*kinds, int) if float in kinds else kinds)
        reads_text = bool({int, float, bool}.intersection(kinds))

        def check(value: Any) -> Any:
            if type(value) in classes:
                return value
            if reads_text and isinstance(value, str):  # headers of other producers are text, whatever they mean
                adapter, invalid = _adapter(kind)
                with suppress(invalid):
                    return adapter.validate_python(value)
            raise MessageFormatError(f"{name!r} is {shown(value)}, no {_name(kind)}", header=name)

        return check
    adapter, invalid = _adapter(kind)

    def validate(value: Any) -> Any:
        try:
            return adapter.validate_python(value)
        except invalid as error:
            told = told_faults(error)
        raise MessageFormatError(f"{name!r} is no {_name(kind)}: {told}", header=name)

    return validate


def _adapter(kind: Any) -> tuple[Any, type[ValueError]]:
    """Pydantic's reader of values of the kind, and the error that it raises."""
    from pydantic import PydanticUserError, TypeAdapter, ValidationError  # a tenth of a second to import

    try:
        return TypeAdapter(kind), ValidationError
    except (PydanticUserError, TypeError, NameError) as error:
        reason = " ".join(str(error).split("\n", 1)[0].split())
        text = f"Pydantic cannot read {_name(kind)}: {reason}; take a model, a dataclass, a TypedDict, or the Message"
        raise InvalidTypeError(text, value=kind) from None


def told_faults(error: Any) -> str:
    """A validation's faults in one line, without what was sent: the letter has that."""
    faults = error.errors(include_url=False, include_input=False, include_context=False)
    return "; ".join(": ".join(filter(None, (".".join(map(str, each["loc"])), each["msg"]))) for each in faults)


def _name(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) else str(kind).replace("typing.", "")
