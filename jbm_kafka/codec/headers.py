"""Between the headers of a Kafka record and those of a JMS message, with its properties.

A header that is not ours is shown as a property where JMS can show it, and is passed on untouched in every case. What
cannot be understood never fails the message: the reason stands in the property `_JBM_DECODE_ERROR`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from jbm_kafka.codec.properties import (
    HEADER_PREFIX,
    NULL,
    Property,
    is_legal_name,
    is_property_type,
    parse_property,
    property_header,
)
from jbm_kafka.codec.scan import PRIORITY_DEFAULT, Header, Scanned, parse_count, scan
from jbm_kafka.core.delivery_mode import DeliveryMode
from jbm_kafka.core.destination import Destination, parse_destination
from jbm_kafka.core.errors import InvalidDestinationError

DECODE_ERROR = "_JBM_DECODE_ERROR"
"""The property that says what could not be decoded."""

_TEXT_HEADERS = frozenset(
    ["JMSMessageID", "JMSCorrelationID", "JMSType", "JMSReplyTo", "JMSDeliveryMode", "JBMDuplicateID", "JBMSender"]
)
OWN_HEADERS = _TEXT_HEADERS | {
    "JMSTimestamp",
    "JMSPriority",
    "JMSExpiration",
    "JMSDeliveryTime",
    "JBMBody",
    "JBMTemporary",
}
"""Headers that a send writes by itself; of a message that is sent on, none is passed on."""

_NO_PROPERTIES: Mapping[str, Property] = MappingProxyType({})
_NON_PERSISTENT = b"NON_PERSISTENT"


@dataclass(frozen=True, slots=True)
class JmsHeaders:
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
    """By name; the reason of a failed decoding among them."""


def decode_headers(headers: Sequence[Header] | None) -> JmsHeaders:
    """Everything the headers tell. Of several with one name the last typed one counts; typed beats plain."""
    headers = headers or ()
    faults: list[str] = []
    texts: dict[str, str] = {}
    timestamp_ms: int | None = None
    plain: dict[str, Property] = {}
    typed: dict[str, Property] = {}
    for name, value in headers:
        if name in OWN_HEADERS:
            if name in _TEXT_HEADERS:
                _take_text(name, value, texts, faults)
            elif name == "JMSTimestamp" and value is not None:
                number = parse_count(value)
                timestamp_ms = timestamp_ms if number is None else number
        elif (key := typed_property_name(name)) is not None:
            _take_typed(name, key, value, typed, faults)
        elif is_legal_name(name):
            _take_plain(name, value, plain)
    reply_to = _parse_reply_to(texts.get("JMSReplyTo"), faults)
    properties = {**plain, **typed}
    if faults:
        properties[DECODE_ERROR] = Property("string", "; ".join(faults))
    non_persistent = texts.get("JMSDeliveryMode") == "NON_PERSISTENT"
    return JmsHeaders(
        message_id=texts.get("JMSMessageID"),
        timestamp_ms=timestamp_ms,
        correlation_id=texts.get("JMSCorrelationID"),
        type=texts.get("JMSType"),
        reply_to=reply_to,
        delivery_mode=DeliveryMode.NON_PERSISTENT if non_persistent else DeliveryMode.PERSISTENT,
        scanned=scan(headers),
        sender=texts.get("JBMSender"),
        properties=properties,
    )


def typed_property_name(header: str) -> str | None:
    """The name of the property that a header `jms.<type>.<name>` carries; None for every other header."""
    if not header.startswith(HEADER_PREFIX):
        return None
    kind, _, name = header[len(HEADER_PREFIX) :].partition(".")
    return name if is_property_type(kind) and is_legal_name(name) else None


def _utf8(value: bytes) -> str | None:
    """The text, or None when the bytes are no UTF-8."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def _take_text(name: str, value: bytes | None, texts: dict[str, str], faults: list[str]) -> None:
    if value is None:
        return
    text = _utf8(value)
    if text is None:
        faults.append(f"{name} is not UTF-8")
    else:
        texts[name] = text


def _take_typed(header: str, name: str, value: bytes | None, typed: dict[str, Property], faults: list[str]) -> None:
    if value is None:
        typed[name] = NULL
        return
    text = _utf8(value)
    if text is None:
        faults.append(f"{header} is not UTF-8")
        return
    kind = header[len(HEADER_PREFIX) : -len(name) - 1]
    try:
        typed[name] = parse_property(kind, text)  # type: ignore[arg-type]  # typed_property_name has looked at it
    except ValueError as fault:
        typed[name] = Property("string", text)
        faults.append(f"{header}: {fault}")


def _take_plain(name: str, value: bytes | None, plain: dict[str, Property]) -> None:
    text = None if value is None else _utf8(value)
    if text is not None:
        plain[name] = Property("string", text)
    elif value is None:
        plain[name] = NULL
    # What is no UTF-8 is kept and passed on, but JMS has no property that could show it.


def _parse_reply_to(text: str | None, faults: list[str]) -> Destination | None:
    if text is None:
        return None
    try:
        return parse_destination(text)
    except InvalidDestinationError as fault:
        faults.append(f"JMSReplyTo: {fault}")
        return None


def carried_headers(headers: Sequence[Header] | None, *, with_properties: bool = True) -> list[Header]:
    """What of a received record is passed on untouched when its message is sent on.

    Without its properties, after they were cleared, only what JMS cannot show is left.
    """
    return [
        header
        for header in headers or ()
        if header[0] not in OWN_HEADERS and (with_properties or not _shows_as_property(header))
    ]


def _shows_as_property(header: Header) -> bool:
    name, value = header
    if typed_property_name(name) is not None:
        return True
    return is_legal_name(name) and (value is None or _utf8(value) is not None)


def encode_headers(
    *,
    message_id: str | None = None,
    timestamp_ms: int = 0,
    correlation_id: str | None = None,
    type: str | None = None,  # noqa: A002 - its name in JMS
    reply_to: Destination | None = None,
    delivery_mode: DeliveryMode = DeliveryMode.PERSISTENT,
    priority: int = PRIORITY_DEFAULT,
    expiration_ms: int = 0,
    delivery_time_ms: int = 0,
    body_kind: bytes | None = None,
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
        add(("JMSMessageID", message_id.encode()))
    if body_kind is not None:
        add(("JBMBody", body_kind))
    if timestamp_ms:
        add(("JMSTimestamp", b"%d" % timestamp_ms))
    if correlation_id is not None:
        add(("JMSCorrelationID", correlation_id.encode()))
    if type is not None:
        add(("JMSType", type.encode()))
    if reply_to is not None:
        add(("JMSReplyTo", str(reply_to).encode()))
    if delivery_mode is DeliveryMode.NON_PERSISTENT:
        add(("JMSDeliveryMode", _NON_PERSISTENT))
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
