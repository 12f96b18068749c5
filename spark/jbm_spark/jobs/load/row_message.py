"""Makes a message of a row of a file, or tells why it is none: by the rules of a send. It needs no session."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from jbm_kafka.codec.identity import GROUP_ID
from jbm_kafka.codec.object_codecs import read_json
from jbm_kafka.codec.property_header import PropertyValue, property_header, property_of
from jbm_kafka.codec.record_size import batch_bytes_at_most
from jbm_kafka.core.destination import parse_destination
from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.core.wrong_values import shown
from jbm_kafka.jms.messages.message_properties import check_group, checked_property_name
from jbm_spark.columns import BODY_KINDS
from jbm_spark.frame_check import INSTANT_COLUMNS, NOT_WRITTEN, TEXT_COLUMNS, WRITTEN

_WHOLE = re.compile(r"[+-]?[0-9]{1,9}")
_OWN_HEADERS_BYTES = 600
"""More than the names of all headers of ours take, and the id that is made."""


class RowFault(ValueError):
    """A row that is no message; the text says why."""


@dataclass(slots=True)
class RowMessage:
    """The columns of a message."""

    texts: dict[str, str | None]
    instants_ms: dict[str, int | None]
    priority: int | None = None
    properties: dict[str, str | None] = field(default_factory=dict)
    """As `messages` shows them."""
    headers: list[tuple[str, bytes]] = field(default_factory=list)
    """The same with their types."""
    unknown: list[str] = field(default_factory=list)
    """Columns that no message has."""


def message_of(values: Mapping[str, object], max_message_bytes: int) -> RowMessage:
    """The message of a row of text or JSON.

    Raises:
        RowFault: it is none.
    """
    if "body_text" not in values:
        raise RowFault(f"it has no body_text; its columns are {', '.join(values) or 'none'}")
    for name in ("body_bytes", "kafka"):
        if values.get(name) is not None:
            raise RowFault(f"{name}: a file of text cannot have it; a Parquet file can")
    texts = {name: _text(name, values.get(name)) for name in TEXT_COLUMNS}
    found = RowMessage(texts, {name: _instant_ms(name, values.get(name)) for name in INSTANT_COLUMNS})
    found.priority = _priority(values.get("priority"))
    found.unknown = [name for name in values if name not in _KNOWN]
    for name, value in _properties(values.get("properties")).items():
        try:
            name = checked_property_name(name)
            held = property_of(name, value)
            if name == GROUP_ID:
                check_group(held)
            header, content = property_header(name, held)
        except JMSError as error:
            raise RowFault(str(error)) from None
        found.headers.append((header, content))
        found.properties[name] = None if held.value is None else content.decode()
    if texts["unit_of_order"] is None:
        texts["unit_of_order"] = found.properties.get(GROUP_ID)
    if (fault := fault_of_texts(texts)) is not None:
        raise RowFault(fault)
    size = batch_bytes_at_most(_bytes(texts["unit_of_order"]), _bytes(texts["body_text"]), found.headers)
    size += _OWN_HEADERS_BYTES + sum(len(_bytes(texts[name]) or b"") for name in TEXT_COLUMNS if name != "body_text")
    if size > max_message_bytes:
        raise RowFault(f"its message takes up to {size} bytes, and the queue takes {max_message_bytes}: write less, or "
                       "raise max.message.bytes of its topic")  # fmt: skip
    return found


def fault_of_texts(texts: Mapping[str, str | None]) -> str | None:
    """Return what is wrong with the message columns that are texts, which may have been given as bytes beside them."""
    for name in ("unit_of_order", "message_id"):
        if texts.get(name) == "":
            return f"{name} is '': leave it out, or give it a value"
    mode, kind, reply_to, body = (texts.get(name) for name in ("delivery_mode", "body_kind", "reply_to", "body_text"))
    if mode not in (None, "PERSISTENT", "NON_PERSISTENT"):
        return f"delivery_mode is {mode!r}: it is PERSISTENT or NON_PERSISTENT"
    if kind is not None and kind not in BODY_KINDS:
        return f"body_kind is {kind!r}: it is one of {', '.join(BODY_KINDS)}"
    if reply_to is not None:
        try:
            parse_destination(reply_to)
        except JMSError as error:
            return f"reply_to: {error}"
    if kind in ("map", "stream") and body is not None:
        return f"body_kind is {kind!r}, and the row has a text: give its bytes as body_bytes, or leave body_kind out"
    if kind == "object" and body is not None:
        try:
            read_json(body.encode(), is_strict=True)
        except ValueError as fault:
            return f"body_kind is 'object', and body_text is not JSON: {fault}"
    return None


def fault_of_priority(priority: object) -> str | None:
    """Return what is wrong with it; None is the default."""
    is_one = isinstance(priority, int) and not isinstance(priority, bool) and 0 <= priority <= 9
    return None if priority is None or is_one else f"priority is {shown(priority)}: it is an int from 0 to 9"


_KNOWN = {*WRITTEN, *NOT_WRITTEN}


def _text(name: str, value: object) -> str | None:
    if value is None or isinstance(value, str):
        _check_utf8(name, value or "")
        return value
    raise RowFault(f"{name} is {shown(value)}: it is a text; write it in quotes")


def _check_utf8(name: str, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise RowFault(f"{name} is {shown(text)}: half a character, which no text has") from None


def _priority(value: object) -> int | None:
    found = int(value) if isinstance(value, str) and _WHOLE.fullmatch(value) else value
    if (fault := fault_of_priority(found)) is not None:
        raise RowFault(fault)
    return found if isinstance(found, int) else None


def _instant_ms(name: str, value: object) -> int | None:
    if value is None:
        return None
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) else None
        at_ms = 0 if found is None else round((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        at_ms = 0
    if at_ms <= 0:
        raise RowFault(f"{name} is {shown(value)}: it is a time after 1970, as in 2030-01-31T12:00:00Z")
    return at_ms


def _properties(value: object) -> dict[str, PropertyValue]:
    """Return the row's properties, of CSV from the JSON of its text; a missing value is no properties.

    Raises:
        RowFault: they are no JSON object, or a text in them is no UTF-8.
    """
    why = ""
    if isinstance(value, str):  # of CSV, which has nothing but texts
        try:
            value = read_json(value.encode(), is_strict=True)
        except ValueError as fault:
            value, why = False, f" ({fault})"
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise RowFault(f'properties: they are a JSON object, as in {{"qty": 5}}{why}')
    for name, content in value.items():
        for each in (name, content):
            if isinstance(each, str):
                _check_utf8(f"property {shown(name)}", each)
    return value


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()
