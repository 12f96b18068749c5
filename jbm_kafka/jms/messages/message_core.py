"""The fields that every receive sets of a message, and most applications read: compiled, it is a struct (decision 10).

Unit, id and a property are read from the record when they are asked for, each for itself.

Its fields take any object, for a compiled class would refuse another with an error of its own. `Message` says what they
are, and `checked_headers` stands between them and applications.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from mypy_extensions import mypyc_attr

from jbm_kafka.codec.bodies import Body
from jbm_kafka.codec.headers import DECODE_ERROR
from jbm_kafka.codec.identity import DELIVERY_COUNT, GROUP_ID, UNIT_OF_ORDER, unit_name
from jbm_kafka.codec.one_header import header_property, header_property_value, header_text
from jbm_kafka.codec.property_header import Property, PropertyValue
from jbm_kafka.codec.scan import MESSAGE_ID_HEADER, PRIORITY_DEFAULT
from jbm_kafka.core.delivery_mode import DeliveryMode
from jbm_kafka.core.jms_errors import IllegalStateError, MessageFormatError, OrderError
from jbm_kafka.core.plain_text import plain_text
from jbm_kafka.core.sentinels import UNSET, Unset
from jbm_kafka.core.wrong_values import shown
from jbm_kafka.jms.messages.received import READERS, KafkaRecord, decoded_properties, place_id
from jbm_kafka.jms.messages.unread_body import UnreadBody

_FIELDS = (
    "_body_is_read_only",
    "_correlation_id",
    "_delivery_count",
    "_delivery_mode",
    "_delivery_time",
    "_destination",
    "_expiration",
    "_known_body",
    "_known_id",
    "_known_properties",
    "_known_unit",
    "_last_error",
    "_priority",
    "_properties_are_read_only",
    "_record",
    "_redelivered",
    "_reply_to",
    "_settler",
    "_state",
    "_timestamp",
    "_type",
)
SET_BY_SEND: Final[Mapping[str, str]] = {
    "message_id": "each send gives an id; your own goes into a property, or duplicate_id=… of the send",
    "timestamp": "each send sets the time; your own goes into a property",
    "destination": "give it to the send, as send(message, destination=…), or to create_producer",
    "delivery_mode": "give it to the send, as send(message, delivery_mode=…), or to the producer",
    "priority": "give it to the send, as send(message, priority=…), or to the producer",
    "expiration": "give a time to live to the send, as send(message, time_to_live_ms=…), or to the producer",
    "delivery_time": "give a delay to the send, as send(message, delivery_delay_ms=…), or to the producer",
    "redelivered": "the queue sets it for receivers",
}
"""The place where an application says what it wants in place of a header that a send sets, by header."""
_PERSISTENT: Final = DeliveryMode.PERSISTENT
_UNREAD: Final = UNSET
_NOT_OF_ONE_HEADER: Final = frozenset({GROUP_ID, DELIVERY_COUNT, UNIT_OF_ORDER, DECODE_ERROR})


@mypyc_attr(allow_interpreted_subclasses=True)
class MessageCore:
    """Base of `Message` alone."""

    __slots__ = _FIELDS

    def __init__(self) -> None:
        self._record: object = None
        self._settler: object = None
        self._known_body: object = None
        self._body_is_read_only: object = False
        self._properties_are_read_only: object = False
        self._destination: object = None
        self._delivery_count: object = 0
        self._redelivered: object = False
        self._known_unit: object = None
        self._known_id: object = None
        self._known_properties: object = {}
        # From here on only of messages that were made here, or after somebody looked: `Message.__getattr__` sets them.
        self._timestamp: object = 0
        self._correlation_id: object = None
        self._reply_to: object = None
        self._delivery_mode: object = _PERSISTENT
        self._type: object = None
        self._expiration: object = 0
        self._delivery_time: object = 0
        self._priority: object = PRIORITY_DEFAULT
        self._state: object = None
        self._last_error: object = None

    @property
    def unit_of_order(self) -> object:
        """The unit it was sent with."""
        unit = self._known_unit
        if unit is _UNREAD:
            unit = self._known_unit = unit_name(cast(KafkaRecord, self._record).key())
        return unit

    @unit_of_order.setter
    def unit_of_order(self, unit: object) -> None:
        if unit is not None and not isinstance(unit, str):
            rule = "it is a str, or None; NO_UNIT and SYSTEM_GENERATED are for producers and their sends"
            raise OrderError(f"unit_of_order is {shown(unit)}: {rule}", value=unit)
        self._known_unit = None if unit is None else plain_text(unit)

    @property
    def message_id(self) -> object:
        """`ID:...`; None of a message that was not sent, or was sent without one."""
        known = self._known_id
        if known is _UNREAD:
            record = cast(KafkaRecord, self._record)
            known = header_text(record.headers(), MESSAGE_ID_HEADER)
            self._known_id = known = known or place_id(record)
        return known

    @message_id.setter
    def message_id(self, value: object) -> None:
        if value is not None and not isinstance(value, str):
            text = f"message_id is {shown(value)}: it is a str, or None"
            raise MessageFormatError(text, header="message_id", value=value)
        check_not_new(self, "message_id", value)
        self._known_id = None if value is None else plain_text(value)

    @property
    def _properties(self) -> object:
        """All properties by name; of a received message they are all decoded now."""
        properties = self._known_properties
        if properties is _UNREAD:
            properties = self._known_properties = decoded_properties(cast(KafkaRecord, self._record))
        return properties

    @_properties.setter
    def _properties(self, properties: object) -> None:
        self._known_properties = properties

    def _property(self, name: object) -> Property | None:
        """The property; of a received message no other is decoded for it."""
        if not isinstance(name, str):
            raise MessageFormatError(f"property name {shown(name)}: it is a str", property=name)
        name = plain_text(name)
        if self._known_properties is not _UNREAD or name in _NOT_OF_ONE_HEADER:
            return self._property_of_all(name)
        return header_property(cast(KafkaRecord, self._record).headers(), name)

    def _property_value(self, name: object) -> PropertyValue | Unset:
        """The value alone of what `_property` returns; UNSET: not set."""
        if isinstance(name, str):
            name = plain_text(name)
        if self._known_properties is not _UNREAD or name in _NOT_OF_ONE_HEADER or not isinstance(name, str):
            held = self._property_of_all(name)
            return UNSET if held is None else held.value
        return header_property_value(cast(KafkaRecord, self._record).headers(), name)

    def _property_of_all(self, name: object) -> Property | None:
        properties = cast(Mapping[object, Property], self._properties)
        # What we know ourselves comes first: a foreign record may carry headers of these names.
        if name == DELIVERY_COUNT and self._delivery_count:
            return Property("int", cast(int, self._delivery_count))
        if name in (UNIT_OF_ORDER, GROUP_ID):
            unit = self.unit_of_order
            of_unit = None if unit is None else Property("string", cast(str, unit))
            if name == UNIT_OF_ORDER:
                return of_unit
            held = properties.get(name)
            return of_unit if held is None and self._properties_are_read_only else held
        return properties.get(name)

    @property
    def _body(self) -> object:
        """The body as its kind of message holds it; a large one that a browser shows is fetched now."""
        body = self._known_body
        if isinstance(body, UnreadBody):
            body = self._known_body = body.read()
        return body

    @_body.setter
    def _body(self, body: object) -> None:
        self._known_body = body

    @property
    def body(self) -> object:
        """As a TextMessage has a text, a BytesMessage bytes, a MapMessage a dict, a StreamMessage a list."""
        body = self._known_body
        kind = type(body)
        if kind is bytearray:
            return bytes(cast(bytearray, body))
        return self._body if kind is UnreadBody else body

    @body.setter
    def body(self, body: object) -> None:
        self._write_body(self._checked_body(body))

    def __getstate__(self) -> object:
        """For copies: Python knows nothing of a compiled class's fields."""
        return super().__getstate__(), {name: getattr(self, name) for name in _FIELDS}

    def __setstate__(self, state: object) -> None:
        own, fields = cast(tuple[object, dict[str, object]], state)
        of_dict, of_slots = own if isinstance(own, tuple) else (own, None)
        for values in (of_dict, of_slots, fields):
            for name, value in cast(Mapping[str, object], values or {}).items():
                object.__setattr__(self, name, value)

    def _checked_body(self, body: object) -> Body:
        raise MessageFormatError(f"a {type(self).__name__} has no body to set; make a TextMessage or a BytesMessage")

    def _write_body(self, body: Body) -> None:
        raise NotImplementedError


def check_not_new(message: MessageCore, header: str, value: object) -> None:
    """Raises IllegalStateError for a message that was neither sent nor received: its send would overwrite it."""
    if message._record is None and message._destination is None:
        raise IllegalStateError(
            f"{header} of a message that was not sent is {shown(value)}, which its send would overwrite: "
            f"{SET_BY_SEND[header]}",
            header=header,
            value=value,
        )


def new_into(message: MessageCore, body: Body) -> None:
    """Make it a new message with a body, as its `__init__` would."""
    MessageCore.__init__(message)
    message._known_body = body


def look_up_headers(message: MessageCore) -> None:
    """Have every header read that a received message has not been asked for: compiled code asks no `__getattr__`."""
    if message._record is not None:
        for name in READERS:
            getattr(message, name)


def receive_into(
    message: MessageCore,
    record: object,
    settler: object,
    body: object,
    destination: object,
    delivery_count: object,
    redelivered: object,
) -> None:
    """Make it a received, read-only message."""
    message._record = record
    message._settler = settler
    message._known_body = body
    message._known_unit = message._known_id = message._known_properties = _UNREAD
    message._body_is_read_only = message._properties_are_read_only = True
    message._destination = destination
    message._delivery_count = delivery_count
    message._redelivered = redelivered
