"""Between the headers of a Kafka record and those of a JMS message, with its properties.

A header that is not ours is shown as a property where JMS can show it, and is passed on untouched in every case. What
cannot be understood never fails the message: the reason stands in the property `_JBM_DECODE_ERROR`.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple, cast

from jbm_kafka.codec.property_header import (
    HEADER_PREFIX,
    NULL,
    PROPERTY_TYPES,
    Property,
    PropertyType,
    is_legal_name,
    parse_property,
    property_header,
)
from jbm_kafka.codec.scan import (
    MESSAGE_ID_HEADER,
    PRIORITY_DEFAULT,
    SUBSCRIPTION_HEADER,
    Header,
    Scanned,
    parse_count,
    scan,
)
from jbm_kafka.core.delivery_mode import DeliveryMode
from jbm_kafka.core.destination import Destination, parse_destination
from jbm_kafka.core.jms_errors import InvalidDestinationError
from jbm_kafka.ports import UNREADABLE

DECODE_ERROR = "_JBM_DECODE_ERROR"
"""The property that says what could not be decoded."""

REPLY_TO_HEADER = "JMSReplyTo"
REPLY_TO_ADDRESS_HEADER = "amqp.reply-to"
"""An address of AMQP for answers that is none of ours."""
_TEXT_HEADERS = frozenset(
    [
        MESSAGE_ID_HEADER,
        "JMSCorrelationID",
        "JMSType",
        REPLY_TO_HEADER,
        "JMSDeliveryMode",
        "JBMDuplicateID",
        "JBMSender",
    ]
)
OWN_HEADERS = _TEXT_HEADERS | {
    "JMSTimestamp",
    "JMSPriority",
    "JMSExpiration",
    "JMSDeliveryTime",
    "JBMBody",
    "JBMCodec",
    "JBMTemporary",
    SUBSCRIPTION_HEADER,
}
"""Headers that a send writes by itself; of a message that is sent on, none is passed on but a JMSReplyTo that cannot be
read."""

_NO_PROPERTIES: Mapping[str, Property] = MappingProxyType({})
_PERSISTENT, _NON_PERSISTENT = DeliveryMode.PERSISTENT, DeliveryMode.NON_PERSISTENT


class JmsHeaders(NamedTuple):
    """The headers of a JMS message as its record tells them, and its properties."""

    message_id: str | None
    """None: the record came from a foreign producer."""
    timestamp_ms: int | None
    """None: the record's own."""
    correlation_id: str | None
    type: str | None
    reply_to: Destination | None
    delivery_mode: DeliveryMode
    scanned: Scanned
    """Priority, expiration, delivery time and duplicate id, as the channel sees them."""
    sender: str | None
    properties: Mapping[str, Property]
    """Values by name; the reason of a failed decoding is among them."""


def decode_headers(headers: Sequence[Header] | None) -> JmsHeaders:
    """Everything the headers tell. Of several with one name the last typed one counts; typed beats plain."""
    headers = headers or ()
    faults: list[str] = []
    own: dict[str, bytes] = {}
    plain: dict[str, Property] = {}
    typed: dict[str, Property] = {}
    for header, value in headers:
        if header in OWN_HEADERS:
            if value is not None:
                own[header] = value
            continue
        kind, name = property_of_header(header)
        if name is None:
            if UNREADABLE in header:
                faults.append(f"the name of the header {header!r} is not UTF-8")
            continue
        held = NULL if value is None else shown_property(header, kind, value, faults)
        if held is not None:
            (plain if kind is None else typed)[name] = held
    timestamp = own.get("JMSTimestamp")
    decoded = JmsHeaders(
        message_id=_text(own, MESSAGE_ID_HEADER, faults),
        timestamp_ms=None if timestamp is None else parse_count(timestamp),
        correlation_id=_text(own, "JMSCorrelationID", faults),
        type=_text(own, "JMSType", faults),
        reply_to=parse_reply_to(_text(own, "JMSReplyTo", faults), faults),
        delivery_mode=_NON_PERSISTENT if own.get("JMSDeliveryMode") == b"NON_PERSISTENT" else _PERSISTENT,
        scanned=scan(headers),
        sender=_text(own, "JBMSender", faults),
        properties={**plain, **typed} if plain else typed,
    )
    if faults:
        return decoded._replace(properties={**decoded.properties, DECODE_ERROR: Property("string", "; ".join(faults))})
    return decoded


@lru_cache(maxsize=4096)
def property_of_header(header: str) -> tuple[PropertyType | None, str | None]:
    """Type and name of the property that a header shows as: no type for a plain one, no name when it shows as none."""
    if header in OWN_HEADERS:
        return None, None
    if header.startswith(HEADER_PREFIX):
        kind, _, name = header[len(HEADER_PREFIX) :].partition(".")
        if kind in PROPERTY_TYPES and is_legal_name(name):
            return cast(PropertyType, kind), name
    return None, header if is_legal_name(header) else None


def utf8_or_none(value: bytes) -> str | None:
    """The text, or None when the bytes are no UTF-8."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def _text(own: Mapping[str, bytes], header: str, faults: list[str]) -> str | None:
    value = own.get(header)
    if value is None:
        return None
    text = utf8_or_none(value)
    if text is None:
        faults.append(f"{header} is not UTF-8")
    return text


def shown_property(header: str, kind: PropertyType | None, value: bytes, faults: list[str]) -> Property | None:
    """The property of a header with a value; None when nothing can show it. It is kept and passed on all the same.

    What is wrong with it is added to `faults`.
    """
    text = utf8_or_none(value)
    if text is None:
        if kind is not None:
            faults.append(f"{header} is not UTF-8")
        return None
    if kind is None or kind == "string":
        return Property("string", text)
    try:
        return parse_property(kind, text)
    except ValueError as fault:
        faults.append(f"{header}: {fault}")
        return Property("string", text)


def parse_reply_to(text: str | None, faults: list[str]) -> Destination | None:
    """The destination that a header's text names; what is wrong with it is added to `faults`."""
    if text is None:
        return None
    try:
        return parse_destination(text)
    except InvalidDestinationError as fault:
        faults.append(f"JMSReplyTo: {fault}")
        return None


def carried_headers(
    headers: Sequence[Header] | None, *, with_properties: bool = True, with_reply_to: bool = False
) -> list[Header]:
    """Return what of a received record is passed on untouched when its message is sent on.

    Without its properties, after they were cleared, only what JMS cannot show is left. `with_reply_to`: the message
    shows no address for replies, so if its record has one it is in a form that somebody else can read.
    """
    return [
        header
        for header in headers or ()
        if (with_reply_to and header[0] == REPLY_TO_HEADER)
        or (header[0] not in OWN_HEADERS and (with_properties or not _shows_as_property(header)))
    ]


def _shows_as_property(header: Header) -> bool:
    kind, name = property_of_header(header[0])
    value = header[1]
    return name is not None and (kind is not None or value is None or utf8_or_none(value) is not None)


def encode_headers(
    *,
    message_id: str | None = None,
    timestamp_ms: int = 0,
    correlation_id: str | None = None,
    type: str | None = None,  # noqa: A002 - its name in JMS
    reply_to: Destination | None = None,
    delivery_mode: DeliveryMode = _PERSISTENT,
    priority: int = PRIORITY_DEFAULT,
    expiration_ms: int = 0,
    delivery_time_ms: int = 0,
    body_kind: bytes | None = None,
    body_codec: bytes | None = None,
    duplicate_id: str | None = None,
    sender: str | None = None,
    properties: Mapping[str, Property] = _NO_PROPERTIES,
    carried: Sequence[Header] = (),
) -> list[Header]:
    """The headers of a record; one that has its default is left out.

    `timestamp_ms` only where the record's own timestamp will not do. `carried` goes first, so that a property given
    now wins over one passed on.
    """
    headers: list[Header] = [*carried]
    add = headers.append
    if message_id is not None:
        add((MESSAGE_ID_HEADER, message_id.encode()))
    if body_kind is not None:
        add(("JBMBody", body_kind))
    if body_codec is not None:
        add(("JBMCodec", body_codec))
    if timestamp_ms:
        add(("JMSTimestamp", b"%d" % timestamp_ms))
    if correlation_id is not None:
        add(("JMSCorrelationID", correlation_id.encode()))
    if type is not None:
        add(("JMSType", type.encode()))
    if reply_to is not None:
        add(("JMSReplyTo", str(reply_to).encode()))
    if delivery_mode is _NON_PERSISTENT:
        add(("JMSDeliveryMode", b"NON_PERSISTENT"))
    if priority != PRIORITY_DEFAULT:
        add(("JMSPriority", b"%d" % priority))
    if expiration_ms:
        add(("JMSExpiration", b"%d" % expiration_ms))
    if delivery_time_ms:
        add(("JMSDeliveryTime", b"%d" % delivery_time_ms))
    if duplicate_id is not None:
        add(("JBMDuplicateID", duplicate_id.encode()))
    if sender is not None:
        add(("JBMSender", sender.encode()))
    for name, held in properties.items():
        add(property_header(name, held))
    return headers
