"""The record of a message that came by AMQP."""

from dataclasses import dataclass
from typing import Any, Final

from jbm_kafka.codec.amqp.address_forms import NO_ALIASES, Aliases, parse_address
from jbm_kafka.codec.amqp.forms import (
    AMQP_CODEC,
    ANNOTATIONS_HEADER,
    BODY_HEADER,
    CONTENT_ENCODING,
    DELIVERY_DELAY,
    DELIVERY_TIME,
    DESTINATION,
    DUPLICATE_ID,
    FOOTER_HEADER,
    GROUP_SEQUENCE,
    JAVA_CODEC,
    JAVA_OBJECT,
    KINDS,
    MAPPED,
    MESSAGE_TYPE,
    MESSAGE_TYPES,
    OBJECT_CODEC,
    PROPERTIES_HEADER,
    REPLY_TO,
    REPLY_TO_GROUP,
    STATE,
    USER_ID,
    USER_ID_HEADER,
    jms_property,
)
from jbm_kafka.codec.amqp.ids import id_text
from jbm_kafka.codec.amqp.sections import DATA, VALUE, Sections, as_they_came, checked_map, split
from jbm_kafka.codec.amqp.values import NULL, Amqp, Budget, map_of
from jbm_kafka.codec.bodies import BYTES, MAP, NONE, OBJECT, STREAM, TEXT, BodyShape
from jbm_kafka.codec.headers import REPLY_TO_ADDRESS_HEADER, encode_headers
from jbm_kafka.codec.identity import GROUP_ID, TOLD_BY_PROVIDER, UNIT_OF_ORDER
from jbm_kafka.codec.json_text import CONTENT_TYPE
from jbm_kafka.codec.object_codecs import JSON
from jbm_kafka.codec.property_header import Property
from jbm_kafka.codec.scan import LONG_MAX, PRIORITY_DEFAULT, Header
from jbm_kafka.codec.typed_values import TypedValue, encode_map, encode_stream, is_char
from jbm_kafka.core.delivery_mode import DeliveryMode
from jbm_kafka.core.destination import Destination, DestinationKind
from jbm_kafka.core.jms_errors import InvalidDestinationError, MessageFormatError

CLOCKS_APART_MS: Final = 60_000
"""A creation time that is further from our clock is kept in a header: brokers refuse records of a distant future."""
_TEXTS: Final = ("application/json", "application/xml")
_UTF8: Final = frozenset({"", "utf-8", "utf8", "us-ascii"})


@dataclass(slots=True)
class IncomingMessage:
    """A message from AMQP as a record will have it; topic and partition are the sender's business."""

    to: str | None
    """The address that it names."""
    to_kind: DestinationKind | None
    """The kind of that destination; None: the message does not tell."""
    is_durable: bool
    priority: int
    """0 to 9."""
    expiration_ms: int
    """Absolute time; 0: never."""
    delivery_time_ms: int
    """Absolute time; 0: at once."""
    unit: bytes | None
    """The record's key: its JMS_BEA_UnitOfOrder, else its group id."""
    duplicate_id: str | None
    value: bytes | None
    headers: list[Header]
    timestamp_ms: int
    """The time that the record is stamped with."""
    delivery_count: int = 0
    """Attempts before this one that failed."""
    state: str | None = None
    """Where it stands, when a browser shows it."""


def decode_transfer(
    data: bytes | bytearray, *, now_ms: int, budget: Budget | None = None, aliases: Aliases = NO_ALIASES
) -> IncomingMessage:
    """The message that these bytes are.

    Args:
        data: its sections.
        now_ms: for its times.
        budget: how many values its sections, lists, maps and arrays may have in all; None: any number.
        aliases: what its reply-to may be called.

    Raises:
        MessageFormatError: they are no AMQP message, or it has a field of a wrong type; one line says where. Or it
            has too many values, as its budget says then; no more than it has were looked at.
    """
    try:
        return _incoming(split(bytes(data), budget), now_ms, aliases)
    except ValueError as fault:
        raise MessageFormatError(f"an AMQP message of {len(data)} bytes cannot be read: {fault}") from None


def _incoming(found: Sections, now_ms: int, aliases: Aliases) -> IncomingMessage:
    header, fields = found.header, found.properties
    marks, carried = _annotations(found)
    properties, more = _application(found)
    carried += more
    duplicate_id = _told(properties.pop(DUPLICATE_ID, None))
    ordered = _told(properties.get(UNIT_OF_ORDER))
    for name in TOLD_BY_PROVIDER:
        properties.pop(name, None)
    group = _text(fields, 10, "group-id")
    _jms_fields(fields, properties, carried)
    content_type = _text(fields, 6, "content-type", "symbol")
    encoding = _text(fields, 7, "content-encoding", "symbol")
    carried += [
        (name, text.encode())
        for name, text in ((CONTENT_TYPE, content_type), (CONTENT_ENCODING, encoding))
        if text is not None
    ]
    kind, codec, value, form = _body(found, _number(marks, MESSAGE_TYPE), content_type or "", marks)
    if form:
        carried.append((BODY_HEADER, form))
    if found.footer:
        carried.append((FOOTER_HEADER, found.footer))
    created_ms = _integer(fields, 9, "creation-time", "timestamp")
    is_near = created_ms is not None and abs(created_ms - now_ms) <= CLOCKS_APART_MS
    is_durable = bool(_field(header, 0, "durable", "boolean"))
    priority = min(_integer(header, 1, "priority", "ubyte", PRIORITY_DEFAULT) or 0, 9)
    expiration_ms, delivery_time_ms = _expiration(header, fields, now_ms), _delivery_time(marks, now_ms)
    headers = encode_headers(
        message_id=id_text(_at(fields, 0)),
        timestamp_ms=0 if is_near else max(created_ms or 0, 0),
        correlation_id=id_text(_at(fields, 5), is_correlation=True),
        type=_text(fields, 3, "subject"),
        reply_to=_reply_to(fields, marks, carried, aliases),
        delivery_mode=DeliveryMode.PERSISTENT if is_durable else DeliveryMode.NON_PERSISTENT,
        priority=priority,
        expiration_ms=expiration_ms,
        delivery_time_ms=delivery_time_ms,
        body_kind=None if kind == BYTES else kind,
        body_codec=codec,
        duplicate_id=duplicate_id,
        properties=properties,
        carried=carried,
    )
    unit = ordered or group
    return IncomingMessage(
        to=_text(fields, 2, "to"),
        to_kind=_kind(marks, DESTINATION),
        is_durable=is_durable,
        priority=priority,
        expiration_ms=expiration_ms,
        delivery_time_ms=delivery_time_ms,
        unit=unit.encode() if unit else None,
        duplicate_id=duplicate_id,
        value=value,
        headers=headers,
        timestamp_ms=created_ms if created_ms is not None and is_near else now_ms,
        delivery_count=_integer(header, 4, "delivery-count", "uint", 0) or 0,
        state=str(marks[STATE].value) if STATE in marks else None,
    )


def _told(held: Property | None) -> str | None:
    """The text of a property that is one, and not empty."""
    return held.value or None if held is not None and isinstance(held.value, str) else None


def _kind(marks: dict[str, Amqp], name: str) -> DestinationKind | None:
    number = _number(marks, name)
    return KINDS[number] if number is not None and 0 <= number < len(KINDS) else None


def _at(fields: list[Amqp], index: int) -> Amqp:
    return fields[index] if index < len(fields) else NULL


def _field(fields: list[Amqp], index: int, name: str, *kinds: str) -> Any:
    """The value of a field; None: it is null, or left out."""
    if index >= len(fields):
        return None
    kind, value = fields[index]
    if kind in kinds or value is None:
        return value
    raise ValueError(f"the field {name} is a {kind}; it should be a {kinds[0]}")


def _text(fields: list[Amqp], index: int, name: str, *others: str) -> str | None:
    text: str | None = _field(fields, index, name, "string", *others)
    return text


def _integer(fields: list[Amqp], index: int, name: str, kind: str, default: int | None = None) -> int | None:
    number: int | None = _field(fields, index, name, kind)
    return default if number is None else number


def _number(marks: dict[str, Amqp], name: str) -> int | None:
    held = marks.get(name)
    return held.value if held is not None and isinstance(held.value, int) else None


def _annotations(found: Sections) -> tuple[dict[str, Amqp], list[Header]]:
    """Return those that a record has words for, and the others as they came."""
    if found.annotations is None:
        return {}, []
    held = checked_map(found.annotations)
    marks = {key.value: value for key, value in held if key.value in MAPPED}
    # A body that only AMQP can say goes out as it came in, so what was said of it does too.
    if len(marks) == len(held):
        return marks, []
    came = as_they_came(found.data, found.annotations_at, found.annotations)
    return marks, [
        (ANNOTATIONS_HEADER, map_of(data for (key, _), data in zip(held, came, strict=True) if key.value not in MAPPED))
    ]


def _application(found: Sections) -> tuple[dict[str, Property], list[Header]]:
    """The application's properties as JMS shows them, and as they came those of which it shows less."""
    if found.application is None:
        return {}, []
    held = checked_map(found.application)
    properties: dict[str, Property] = {}
    only_amqp: list[int] = []
    for number, (key, value) in enumerate(held):
        if key.type == "ulong":
            raise ValueError("an application property has a number as its name; it should have a string")
        shown, is_all = jms_property(value)
        if shown is not None:
            properties[key.value] = shown
        if not is_all:
            only_amqp.append(number)
    if not only_amqp:
        return properties, []
    came = as_they_came(found.data, found.application_at, found.application)
    return properties, [(PROPERTIES_HEADER, map_of(came[number] for number in only_amqp))]


def _jms_fields(fields: list[Amqp], properties: dict[str, Property], carried: list[Header]) -> None:
    """Add the fields of the properties' section that JMS knows as properties."""
    user: bytes | None = _field(fields, 1, "user-id", "binary")
    if user is not None:
        try:
            properties[USER_ID] = Property("string", user.decode())
        except UnicodeDecodeError:
            carried.append((USER_ID_HEADER, user))
    group = _text(fields, 10, "group-id")
    if group is not None:
        properties[GROUP_ID] = Property("string", group)
    sequence = _integer(fields, 11, "group-sequence", "uint")
    if sequence is not None:  # Java has no unsigned int: the upper half shows as negative, as in Qpid JMS
        properties[GROUP_SEQUENCE] = Property("int", sequence if sequence < 1 << 31 else sequence - (1 << 32))
    answers = _text(fields, 12, "reply-to-group-id")
    if answers is not None:
        properties[REPLY_TO_GROUP] = Property("string", answers)


def _expiration(header: list[Amqp], fields: list[Amqp], now_ms: int) -> int:
    absolute = _integer(fields, 8, "absolute-expiry-time", "timestamp")
    if absolute is not None:
        return max(absolute, 0)
    lives = _integer(header, 2, "ttl", "uint")
    return now_ms + lives if lives else 0


def _delivery_time(marks: dict[str, Amqp], now_ms: int) -> int:
    for name in (DELIVERY_TIME, DELIVERY_DELAY):
        held = marks.get(name)
        if held is not None and held.type != "null" and not isinstance(held.value, int):
            raise ValueError(f"{name} is a {held.type}; it is an integer of milliseconds")
    at_ms = _number(marks, DELIVERY_TIME)
    if at_ms is None:
        delay = _number(marks, DELIVERY_DELAY)
        at_ms = now_ms + delay if delay is not None and delay > 0 else 0
    return min(max(at_ms, 0), LONG_MAX)


def _reply_to(
    fields: list[Amqp], marks: dict[str, Amqp], carried: list[Header], aliases: Aliases
) -> Destination | None:
    address = _text(fields, 4, "reply-to")
    if address is None:
        return None
    try:
        return parse_address(address, _kind(marks, REPLY_TO), aliases)
    except InvalidDestinationError:
        carried.append((REPLY_TO_ADDRESS_HEADER, address.encode()))
        return None


_Body = tuple[bytes, bytes | None, bytes | None, bytes | None]
"""Kind, codec of an object, value, and the form where it is not the usual one."""


def _body(found: Sections, number: int | None, content_type: str, marks: dict[str, Amqp]) -> _Body:
    shape = MESSAGE_TYPES[number] if number is not None and 0 <= number < len(MESSAGE_TYPES) else None
    sections = found.body
    if not sections:
        return _empty(shape)
    code, (kind, value) = sections[0]
    written_by = marks.get(OBJECT_CODEC)
    if written_by is not None and kind in ("string", "binary") and len(sections) == 1:
        codec = str(written_by.value)
        return OBJECT, None if codec == JSON else codec.encode(), value.encode() if kind == "string" else value, None
    if code == DATA:
        return _of_data([held.value for _, held in sections], shape, content_type)
    if kind == "null":
        return _empty(shape)
    if shape is not BodyShape.OBJECT and len(sections) == 1:
        if kind == "string":
            return TEXT, None, value.encode(), None
        if kind == "binary":
            return BYTES, None, value, b"value"
        entries = _map(value) if kind == "map" else _stream(value) if kind == "list" else None
        if isinstance(entries, dict):
            return MAP, None, encode_map(entries), None
        if entries is not None:
            return STREAM, None, encode_stream(entries), b"value" if code == VALUE else None
    form = None if number is None else b"%d" % number
    return OBJECT, AMQP_CODEC, found.data[found.body_from : found.body_to], form


def _empty(shape: BodyShape | None) -> _Body:
    if shape is BodyShape.TEXT:
        return TEXT, None, None, None
    if shape is BodyShape.BYTES:
        return BYTES, None, b"", None
    if shape is BodyShape.MAP:
        return MAP, None, encode_map({}), None
    if shape is BodyShape.STREAM:
        return STREAM, None, encode_stream(()), None
    return (OBJECT, None, b"null", None) if shape is BodyShape.OBJECT else (NONE, None, None, None)


def _of_data(parts: list[bytes], shape: BodyShape | None, content_type: str) -> _Body:
    value = parts[0] if len(parts) == 1 else b"".join(parts)
    cuts = b"" if len(parts) == 1 else b" " + b",".join(b"%d" % len(part) for part in parts)
    if shape is BodyShape.OBJECT or (shape is None and content_type == JAVA_OBJECT):
        return OBJECT, JAVA_CODEC, value, b"data" + cuts if cuts else None
    if shape is BodyShape.TEXT or (shape is None and _is_utf8_text(content_type)):
        try:
            value.decode()
        except UnicodeDecodeError:
            pass
        else:
            return TEXT, None, value, b"data" + cuts
    return BYTES, None, value, b"data" + cuts if cuts else None


def _is_utf8_text(content_type: str) -> bool:
    media, _, parameters = content_type.lower().partition(";")
    if not (media.startswith("text/") or media.strip() in _TEXTS):
        return False
    _, _, charset = parameters.partition("charset=")
    return charset.split(";")[0].strip(' "') in _UTF8


def _map(pairs: list[tuple[Amqp, Amqp]]) -> dict[str, TypedValue] | None:
    """The entries, if a map message can have them."""
    entries: dict[str, TypedValue] = {}
    for key, value in pairs:
        held = _typed(value)
        if key.type != "string" or held is None:
            return None
        if key.value in entries:
            raise ValueError(f"the key {key.value!r:.60} stands twice in one map")
        entries[key.value] = held
    return entries


def _stream(values: list[Amqp]) -> list[TypedValue] | None:
    """The values, if a stream message can have them."""
    found: list[TypedValue] = []
    for value in values:
        held = _typed(value)
        if held is None:
            return None
        found.append(held)
    return found


def _typed(held: Amqp) -> TypedValue | None:
    kind, value = held
    if kind == "binary":
        return TypedValue("bytes", value)
    if kind in ("boolean", "byte", "short", "int", "long", "float", "double", "string", "null"):
        return TypedValue(kind, value)
    return TypedValue("char", value) if kind == "char" and is_char(value) else None
