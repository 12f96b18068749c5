"""Rows to Kafka records by the Python codec, where `jbm_spark.outgoing` does it by Spark expressions: the same records.

A row that is no message raises WriteError, with one line that names column and value.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from pyspark.sql.types import MapType, StringType, StructType

from jbm_kafka.codec.bodies import BODY_HEADER, CODEC_HEADER
from jbm_kafka.codec.headers import (
    OWN_HEADERS,
    REPLY_TO_HEADER,
    encode_headers,
    parse_reply_to,
    utf8_or_none,
)
from jbm_kafka.codec.identity import GROUP_ID, TOLD_BY_PROVIDER, unit_name
from jbm_kafka.codec.large_body import is_kept_elsewhere
from jbm_kafka.codec.property_header import NULL, Property, is_legal_name, property_text
from jbm_kafka.codec.scan import PRIORITY_DEFAULT, Header
from jbm_kafka.core.delivery_mode import DeliveryMode
from jbm_spark.body_check import body_fault
from jbm_spark.errors import WriteError
from jbm_spark.frame_check import PROPERTY_TYPES
from pyspark_jbm.message_batches import property_texts, shown_name

BODY_KINDS = ("text", "bytes", "map", "stream", "object", "none")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)


class RowRecord(NamedTuple):
    """The fate of a row."""

    key: bytes | None
    value: bytes | None
    headers: list[Header]
    routed_by: bytes
    """Its hash is the record's partition."""


class RowEncoder:
    """Makes records of rows with the columns of one schema, which `checked_fields` has checked."""

    def __init__(self, schema: StructType) -> None:
        held = schema["properties"].dataType if "properties" in schema.names else None
        self._are_texts = isinstance(held, MapType) and isinstance(held.valueType, StringType)
        self._map_type = PROPERTY_TYPES[type(held.valueType)] if isinstance(held, MapType) else "null"
        self._field_types = (
            {each.name: PROPERTY_TYPES[type(each.dataType)] for each in held.fields}
            if isinstance(held, StructType)
            else {}
        )
        self._has_id = "message_id" in schema.names
        self._has_bytes = "body_bytes" in schema.names

    def encode(self, row: Mapping[str, Any], *, made_id: str, sent_at_ms: int = 0) -> RowRecord:
        """The record of a row as Arrow gives it.

        `made_id` is used where there is no column of ids; `sent_at_ms` is 0 unless brokers stamp the topic's records.
        """
        message_id = row["message_id"] if self._has_id else made_id
        if not message_id:
            raise WriteError(
                "message_id is null or empty: give every row one, or leave the column out to have ids made"
            )
        came_with = row.get("kafka") or {}
        came: list[Header] = [(each["key"], each["value"]) for each in came_with.get("headers") or ()]
        properties = self._properties(row.get("properties"))
        kind, value = self._body(row, came)
        carried = self._carried(came, properties)
        shown = {shown_name(header) for header in carried}
        reply_to = None
        if (text := row.get("reply_to")) is not None:
            reply_to = parse_reply_to(text, [])
            if reply_to is None:
                if (REPLY_TO_HEADER, text.encode()) not in came:
                    raise WriteError(f"reply_to is '{text}': write queue:<name> or topic:<name>")
                carried.append((REPLY_TO_HEADER, text.encode()))
        key = _key(row.get("unit_of_order"), properties, came_with.get("key"))
        duplicate_id = row.get("duplicate_id")
        headers = encode_headers(
            message_id=message_id,
            timestamp_ms=sent_at_ms,
            correlation_id=row.get("correlation_id"),
            type=row.get("type"),
            reply_to=reply_to,
            delivery_mode=_delivery_mode(row.get("delivery_mode")),
            priority=_priority(row.get("priority")),
            expiration_ms=_instant_ms("expiration", row.get("expiration")),
            delivery_time_ms=_instant_ms("delivery_time", row.get("delivery_time")),
            body_kind=_announced(kind, value, came),
            body_codec=_last(came, CODEC_HEADER) or None if kind == "object" or _goes_on(value, came) else None,
            duplicate_id=duplicate_id,
            properties={name: held for name, held in sorted(properties.items()) if name not in shown},
            carried=carried,
        )
        return RowRecord(key, value, headers, key or (duplicate_id or message_id).encode())

    def _properties(self, given: Any) -> dict[str, Property]:
        """A null of a map is a property; a null field of a struct is none."""
        if given is None:
            return {}
        found: dict[str, Property] = {}
        if self._field_types:
            for name, kind in self._field_types.items():
                if given[name] is not None:
                    found[name] = Property(kind, given[name])  # type: ignore[arg-type]  # one of the types
            return found
        for name, value in given:
            if name in TOLD_BY_PROVIDER:
                raise WriteError(f"property '{name}' is read-only: leave it out")
            found[name] = NULL if value is None else Property(self._map_type, value)  # type: ignore[arg-type]
        return found

    def _carried(self, came: list[Header], properties: Mapping[str, Property]) -> list[Header]:
        """Return what JMS cannot show, and the properties that are still the same; the names of new ones are
        checked."""
        unchanged = set()
        if self._are_texts:
            texts = {name: None if held.value is None else property_text(held) for name, held in properties.items()}
            unchanged = {name for name, text in property_texts(came).items() if name in texts and texts[name] == text}
        kept = [
            header
            for header in came
            if header[0] not in OWN_HEADERS and ((name := shown_name(header)) is None or name in unchanged)
        ]
        shown = {shown_name(header) for header in kept}
        for name in properties:
            if name not in shown and not is_legal_name(name):
                raise WriteError(
                    f"properties: '{name}' is no name of a property: use letters, digits, '_' and '$', no digit first, "
                    "no word of the selector language, and no 'JMS' in front"
                )
        return kept

    def _body(self, row: Mapping[str, Any], came: list[Header]) -> tuple[str, bytes | None]:
        said, text, content = row.get("body_kind"), row.get("body_text"), row.get("body_bytes")
        if said is not None and said not in BODY_KINDS:
            raise WriteError(f"body_kind is '{said}': it is one of {', '.join(BODY_KINDS)}")
        is_news = said is not None and _last(came, "JBMBody") != said.encode()
        if text is not None:
            kind = "text"
            if is_news and content is None and said in ("map", "stream", "object"):
                if said != "object":
                    raise WriteError(
                        f"body_kind is '{said}', and the row has a text: give its bytes as body_bytes, or leave "
                        "body_kind out for a text"
                    )
                kind = said
        elif self._has_bytes:
            kind = said or ("none" if content is None else "bytes")
        else:
            kind = "none" if said == "none" else "text"
        encoded = None if text is None else text.encode()
        if kind == "text":
            value = content if encoded is None else encoded
            if value is not None and utf8_or_none(value) is None:
                raise WriteError("the body is no UTF-8, as that of a text is: give its bytes with body_kind 'bytes'")
            return kind, value
        value = None if kind == "none" else content if content is not None else encoded or b""
        if is_news and kind in ("map", "stream", "object") and (fault := body_fault(kind, bytearray(value or b""))):
            raise WriteError(fault)
        return kind, value


def _announced(kind: str, value: bytes | None, came: list[Header]) -> bytes | None:
    """The kind that the record says; of bytes that were announced as something else and are not, still that."""
    if _goes_on(value, came):
        return _last(came, BODY_HEADER)
    if kind in ("text", "map", "stream", "object"):
        return kind.encode()
    came_as = _last(came, "JBMBody")
    if kind != "bytes" or came_as is None or value is None:
        return None
    if came_as == b"text":
        is_odd = utf8_or_none(value) is None
    else:
        is_odd = len(value) > 0 if came_as == b"none" else came_as.decode(errors="replace") not in BODY_KINDS
    return came_as if is_odd else None


def _goes_on(value: bytes | None, came: list[Header]) -> bool:
    """The row has no body, and its record names one that is kept elsewhere, which the new record names, too."""
    return value is None and is_kept_elsewhere(came)


def _key(unit: str | None, properties: Mapping[str, Property], came_with: bytes | None) -> bytes | None:
    if unit is None and (group := properties.get(GROUP_ID)) is not None and isinstance(group.value, str):
        unit = group.value or None
    if unit == "":
        raise WriteError("unit_of_order is '': a unit has a name; null means no unit")
    if came_with is not None and unit is not None and unit_name(came_with) == unit:
        return came_with  # also a key that is no text
    return None if unit is None else unit.encode()


def _delivery_mode(text: str | None) -> DeliveryMode:
    if text not in (None, "PERSISTENT", "NON_PERSISTENT"):
        raise WriteError(f"delivery_mode is '{text}': it is PERSISTENT or NON_PERSISTENT")
    return DeliveryMode[text or "PERSISTENT"]


def _priority(number: int | None) -> int:
    if number is not None and not 0 <= number <= 9:
        raise WriteError(f"priority is '{number}': it is an int from 0 to 9")
    return PRIORITY_DEFAULT if number is None else number


def _instant_ms(name: str, instant: datetime | None) -> int:
    if instant is None:
        return 0
    ms = (instant - _EPOCH) // _MS
    if ms <= 0:
        raise WriteError(f"{name} is '{ms}' ms from 1970 on: it is later, or null for none")
    return ms


def _last(headers: list[Header], name: str) -> bytes | None:
    return next((value for each, value in reversed(headers) if each == name), None)
