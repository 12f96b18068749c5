"""The AMQP message of a record: what a client receives."""

from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Final

from jbm_kafka.codec.amqp.forms import (
    AMQP_CODEC,
    ANNOTATIONS_HEADER,
    BODY_HEADER,
    CONTENT_ENCODING,
    DELIVERY_TIME,
    DESTINATION,
    FOOTER_HEADER,
    GROUP_SEQUENCE,
    JAVA_CODEC,
    JAVA_OBJECT,
    KINDS,
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
from jbm_kafka.codec.amqp.ids import encoded_id
from jbm_kafka.codec.amqp.sections import (
    ANNOTATIONS,
    APPLICATION,
    DATA,
    HEADER,
    PROPERTIES,
    SEQUENCE,
    VALUE,
    as_they_came,
    section,
    split,
)
from jbm_kafka.codec.amqp.values import (
    Amqp,
    binary,
    jms_value,
    list_of,
    map_of,
    read,
    string,
    symbol,
    timestamp,
    uint,
    utf8,
)
from jbm_kafka.codec.bodies import BodyShape, ObjectBody, decode_value
from jbm_kafka.codec.headers import (
    DECODE_ERROR,
    REPLY_TO_ADDRESS_HEADER,
    JmsHeaders,
    decode_headers,
    property_of_header,
)
from jbm_kafka.codec.identity import GROUP_ID, TOLD_BY_PROVIDER, UNIT_OF_ORDER, message_id_of, unit_name
from jbm_kafka.codec.json_text import CONTENT_TYPE, JSON_TYPE
from jbm_kafka.codec.object_codecs import JSON
from jbm_kafka.codec.property_header import HEADER_PREFIX, PROPERTY_TYPES, Property, parse_property
from jbm_kafka.codec.scan import Header, parse_count
from jbm_kafka.core.delivery_mode import DeliveryMode
from jbm_kafka.core.destination import Destination
from jbm_kafka.ports import KafkaRecord

_NULL: Final = b"\x40"
_UINT_MAX: Final = (1 << 32) - 1


def encode_transfer(
    record: KafkaRecord,
    kind: bytes | None,
    destination: Destination,
    *,
    delivery_count: int,
    now_ms: int,
    state: str | None = None,
) -> bytes:
    """The message of a record of this destination, for one attempt to deliver it. `kind`: its `JBMBody`;
    `delivery_count`: of the attempts before that failed; `state`: for a browser, where it stands.

    Also of a damaged record there is a message; what is wrong stands in its property `_JBM_DECODE_ERROR`.
    """
    headers = record.headers() or ()
    found = decode_headers(headers)
    only_amqp = {name: value for name, value in headers if value is not None and name in _ONLY_AMQP}
    shape, body, fault = decode_value(kind, record.value(), headers)
    properties = dict(found.properties)
    if fault is not None and shape is not BodyShape.OBJECT:  # what reads an object is the receiver's business
        earlier = properties.get(DECODE_ERROR)
        properties[DECODE_ERROR] = Property("string", f"{earlier.value}; {fault}" if earlier else fault)
    for name in TOLD_BY_PROVIDER:
        properties.pop(name, None)
    codec = body.codec.encode() if isinstance(body, ObjectBody) else None
    return b"".join(
        (
            _header(found, delivery_count, now_ms),
            _annotations(found, shape, codec, destination, only_amqp, state),
            _properties(record, found, properties, destination, only_amqp, codec),
            _application(headers, properties, only_amqp.get(PROPERTIES_HEADER)),
            _body(shape, body, record.value(), codec, only_amqp.get(BODY_HEADER, b"")),
            _footer(only_amqp.get(FOOTER_HEADER, b"")),
        )
    )


def _header(found: JmsHeaders, delivery_count: int, now_ms: int) -> bytes:
    priority, expiration_ms = found.scanned.priority, found.scanned.expiration_ms
    durable = b"\x41" if found.delivery_mode is DeliveryMode.PERSISTENT else b"\x42"
    ttl = uint(min(max(expiration_ms - now_ms, 1), _UINT_MAX)) if expiration_ms else _NULL
    first = b"\x42" if delivery_count else b"\x41"
    return section(HEADER, list_of((durable, bytes((0x50, priority)), ttl, first, uint(delivery_count))))


_ONLY_AMQP: Final = frozenset(
    {
        ANNOTATIONS_HEADER,
        PROPERTIES_HEADER,
        BODY_HEADER,
        FOOTER_HEADER,
        USER_ID_HEADER,
        REPLY_TO_ADDRESS_HEADER,
        CONTENT_TYPE,
        CONTENT_ENCODING,
    }
)


def _annotations(
    found: JmsHeaders,
    shape: BodyShape,
    codec: bytes | None,
    destination: Destination,
    only_amqp: dict[str, bytes],
    state: str | None,
) -> bytes:
    entries = [*_usual_annotations(KINDS.index(destination.kind), _message_type(shape, codec, only_amqp))]
    if found.reply_to is not None:
        entries.append(_mark(REPLY_TO, KINDS.index(found.reply_to.kind)))
    if found.scanned.delivery_time_ms:
        entries.append(symbol(DELIVERY_TIME) + jms_value("long", found.scanned.delivery_time_ms))
    if codec is not None and codec not in (JAVA_CODEC, AMQP_CODEC):
        entries.append(symbol(OBJECT_CODEC) + utf8(codec))
    if state is not None:
        entries.append(symbol(STATE) + string(state))
    return section(ANNOTATIONS, map_of([*entries, *_kept(only_amqp.get(ANNOTATIONS_HEADER))]))


@lru_cache(maxsize=64)
def _usual_annotations(destination: int, message_type: int | None) -> tuple[bytes, ...]:
    first = _mark(DESTINATION, destination)
    return (first,) if message_type is None else (first, _mark(MESSAGE_TYPE, message_type))


def _mark(name: str, number: int) -> bytes:
    return symbol(name) + bytes((0x51, number))


def _message_type(shape: BodyShape, codec: bytes | None, only_amqp: dict[str, bytes]) -> int | None:
    """The number of the body's kind; of one that only AMQP can say, the number that it came with, if any."""
    if codec == AMQP_CODEC:
        number = only_amqp.get(BODY_HEADER, b"")
        return int(number) if number in (b"0", b"1", b"2", b"3", b"4", b"5") else None
    if codec is not None and codec != JAVA_CODEC:
        return MESSAGE_TYPES.index(BodyShape.TEXT if codec == JSON.encode() else BodyShape.BYTES)
    return MESSAGE_TYPES.index(shape)


def _kept(encoded: bytes | None) -> list[bytes]:
    """The entries of a map that a header kept; none where somebody else wrote something else there."""
    if encoded is None:
        return []
    held = _readable(encoded)
    return as_they_came(encoded, 0, held) if held is not None else []


def _readable(encoded: bytes) -> Amqp | None:
    try:
        held, end = read(encoded, 0)
    except ValueError:
        return None
    return held if held.type == "map" and end == len(encoded) else None


def _properties(
    record: KafkaRecord,
    found: JmsHeaders,
    properties: dict[str, Property],
    destination: Destination,
    only_amqp: dict[str, bytes],
    codec: bytes | None,
) -> bytes:
    """Takes out of `properties` what this section says."""
    user = only_amqp.get(USER_ID_HEADER)
    if user is None and (held := _taken(properties, USER_ID, "string")) is not None:
        user = str(held).encode()
    answers = None if found.reply_to is None else found.reply_to.name.encode()
    group = _taken(properties, GROUP_ID, "string")
    unit = unit_name(record.key())
    if group is not None and unit is not None and group != unit:
        properties[UNIT_OF_ORDER] = Property("string", unit)
    group = unit if group is None else group
    sequence = _taken(properties, GROUP_SEQUENCE, "int")
    group_of_answers = _taken(properties, REPLY_TO_GROUP, "string")
    content_type = only_amqp.get(CONTENT_TYPE)
    if content_type is None and codec is not None:
        content_type = JAVA_OBJECT.encode() if codec == JAVA_CODEC else JSON_TYPE if codec == JSON.encode() else None
    expiration_ms = found.scanned.expiration_ms
    created_ms = record.timestamp()[1] if found.timestamp_ms is None else found.timestamp_ms
    message_id, offset = found.message_id, record.offset()
    if not message_id and offset is not None:  # else it is in no log yet, and its sender wants it to have none
        message_id = message_id_of((), record.topic() or "", record.partition() or 0, offset)
    fields = [
        encoded_id(message_id) if message_id else _NULL,
        _NULL if user is None else binary(user),
        _address(destination.name),
        _NULL if found.type is None else string(found.type),
        _utf8_or_null(only_amqp.get(REPLY_TO_ADDRESS_HEADER) if answers is None else answers),
        _NULL if found.correlation_id is None else encoded_id(found.correlation_id),
        _symbol_or_null(content_type),
        _symbol_or_null(only_amqp.get(CONTENT_ENCODING)),
        timestamp(expiration_ms) if expiration_ms else _NULL,
        timestamp(created_ms) if created_ms > 0 else _NULL,
        _NULL if group is None else string(str(group)),
        _NULL if sequence is None else uint(int(sequence) & _UINT_MAX),
        _NULL if group_of_answers is None else string(str(group_of_answers)),
    ]
    while fields[-1] is _NULL:
        fields.pop()
    return section(PROPERTIES, list_of(fields))


@lru_cache(maxsize=1024)
def _address(name: str) -> bytes:
    return string(name)


def _taken(properties: dict[str, Property], name: str, kind: str) -> str | bool | int | float | None:
    held = properties.get(name)
    if held is None or held.type != kind:
        return None
    del properties[name]
    return held.value


def _utf8_or_null(text: bytes | None) -> bytes:
    try:
        return _NULL if text is None else string(text.decode())
    except UnicodeDecodeError:
        return _NULL


def _symbol_or_null(text: bytes | None) -> bytes:
    return _NULL if text is None or not text.isascii() else symbol(text.decode("ascii"))


def _application(headers: Sequence[Header], properties: dict[str, Property], only_amqp: bytes | None) -> bytes:
    """The application's properties; those whose type JMS has not as they came, unless the record says otherwise now."""
    for name, value in headers:  # those whose names JMS forbids
        kind, dot, rest = name.removeprefix(HEADER_PREFIX).partition(".")
        if name.startswith(HEADER_PREFIX) and dot and kind in PROPERTY_TYPES and property_of_header(name)[1] is None:
            _add_unnamed(properties, kind, rest, value)
    entries: list[bytes] = []
    if only_amqp is not None and (held := _readable(only_amqp)) is not None:
        for (key, given), came in zip(held.value, as_they_came(only_amqp, 0, held), strict=True):
            shown, _ = jms_property(given)
            if shown is None or properties.get(key.value) == shown:
                properties.pop(key.value, None)
                entries.append(came)
    if not properties and not entries:
        return b""
    entries += [string(name) + jms_value(*held) for name, held in properties.items()]
    return section(APPLICATION, map_of(entries))


def _add_unnamed(properties: dict[str, Property], kind: str, name: str, value: bytes | None) -> None:
    try:
        text = b"" if value is None else value
        properties[name] = parse_property("null" if value is None else kind, text.decode())  # type: ignore[arg-type]
    except ValueError:
        properties[name] = Property("string", (value or b"").decode(errors="backslashreplace"))


def _body(shape: BodyShape, body: object, value: bytes | None, codec: bytes | None, form: bytes) -> bytes:
    value = b"" if value is None else value
    if codec is not None:
        return _object(codec, value, form)
    if shape is BodyShape.TEXT and body is not None:
        return section(DATA, binary(value)) if form.startswith(b"data") else section(VALUE, utf8(value))
    if shape is BodyShape.BYTES:
        return section(VALUE, binary(value)) if form == b"value" else _data(value, form)
    if shape is BodyShape.MAP:
        assert isinstance(body, dict), type(body)
        return section(VALUE, map_of(string(name) + jms_value(*held) for name, held in body.items()))
    if shape is BodyShape.STREAM:
        assert isinstance(body, tuple | list), type(body)
        return section(VALUE if form == b"value" else SEQUENCE, list_of([jms_value(*held) for held in body]))
    return section(VALUE, _NULL)


def _object(codec: bytes, value: bytes, form: bytes) -> bytes:
    if codec == AMQP_CODEC:
        return value if _is_body(value) else section(DATA, binary(value))
    return section(VALUE, utf8(value)) if codec == JSON.encode() else _data(value, form)


def _footer(came: bytes) -> bytes:
    try:
        return came if split(came).footer == came else b""
    except ValueError:
        return b""


def _is_body(value: bytes) -> bool:
    """Return True if these are the sections of a body, and nothing else: anybody may write to a topic."""
    try:
        found = split(value)
    except ValueError:
        return False
    return bool(value) and found.body_from == 0 and found.body_to == len(value)


def _data(value: bytes, form: bytes) -> bytes:
    """The data sections, cut where the sender had cut them."""
    cuts = form.removeprefix(b"data ").split(b",")
    if not form.startswith(b"data ") or any(parse_count(cut) is None for cut in cuts):
        return section(DATA, binary(value))
    lengths = [int(cut) for cut in cuts]
    if sum(lengths) != len(value):
        return section(DATA, binary(value))
    ends = list(accumulate(lengths))
    return b"".join(section(DATA, binary(value[end - length : end])) for end, length in zip(ends, lengths, strict=True))
