"""The messages of JMS: headers, properties and a body; made by an application, or read from a Kafka record.

A received message is read-only until its body or its properties are cleared, and stays readable after its session is
closed. A value of its record is decoded when it is looked at, and only that value (see `MessageCore` and
`Message.__getattr__`): decoding all headers costs ten times what making the message does.
"""

import builtins
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar, cast

from jbm_kafka.codec.bodies import Body, BodyShape, ObjectBody
from jbm_kafka.codec.identity import GROUP_ID
from jbm_kafka.codec.json_text import json_value
from jbm_kafka.codec.object_codecs import JSON
from jbm_kafka.codec.property_header import Property
from jbm_kafka.core.channel.states import MessageState
from jbm_kafka.core.delivery_mode import DeliveryMode
from jbm_kafka.core.destination import Destination
from jbm_kafka.core.durations import Duration, checked_duration_ms
from jbm_kafka.core.failure_text import one_line_of
from jbm_kafka.core.jms_errors import IllegalStateError, MessageFormatError, MessageNotWriteableError
from jbm_kafka.core.plain_text import plain_text
from jbm_kafka.core.wrong_values import shown, with_article, wrong_type, wrong_value
from jbm_kafka.jms.base.arguments import check_kind
from jbm_kafka.jms.messages.checked_headers import with_checked_headers
from jbm_kafka.jms.messages.message_core import MessageCore, look_up_headers
from jbm_kafka.jms.messages.message_properties import TypedProperties, check_group, checked_property_name
from jbm_kafka.jms.messages.received import READERS, KafkaRecord, KafkaView, kafka_view

T = TypeVar("T")


class Settler(Protocol):
    """A received message's session, which settles it. Raises IllegalStateError once it is closed."""

    def acknowledge(self, message: "Message") -> None: ...
    def nack(self, message: "Message", delay_ms: int | None) -> None: ...
    def reject(self, message: "Message", reason: str) -> None: ...


@with_checked_headers
class Message(MessageCore, TypedProperties):
    """A message without a body; base of all messages.

    Times are milliseconds; 0 means not set. Of a message not yet sent, what a send sets is empty.

    Body: body, json, get_body, is_body_assignable_to, clear_body.
    Properties: properties, a mapping; property_exists, clear_properties; get_int_property, set_int_property, and so for
        each type of JMS, which convert as JMS says.
    Settle: acknowledge; nack, to have it again; reject, to give it up.
    Headers:
    message_id: `ID:...`, unique; None of a message that was not sent.
    unit_of_order: what it is in order with; None: nothing. The send sets it.
    correlation_id, reply_to, type: headers for the application's own use.
    destination: the queue or topic it was sent to.
    timestamp: when it was sent.
    expiration: when it expires.
    delivery_time: when it may be delivered.
    delivery_mode: the DeliveryMode it was sent with.
    priority: 0 to 9.
    redelivered: it may have been handed to an application before.
    delivery_count: hand-overs to an application, this one included; at least 2 when `redelivered`.
    state: where it stands in its channel; only browsers set it.
    last_error: why its latest failed attempt failed; only browsers set it.
    kafka: the record of a received message: topic, partition, offset, key, headers.
    """

    __slots__ = ()

    _shape: ClassVar[BodyShape] = BodyShape.NONE

    message_id: str | None
    timestamp: int
    correlation_id: str | None
    reply_to: Destination | None
    destination: Destination | None
    delivery_mode: DeliveryMode
    redelivered: bool
    type: str | None
    expiration: int
    """When the message expires."""
    delivery_time: int
    """When it may be delivered."""
    priority: int
    delivery_count: int
    """Hand-overs to an application, this one included; at least 2 when `redelivered`."""
    unit_of_order: str | None
    """The unit it was sent with."""
    state: MessageState | None
    """Where it stands in its channel; only browsers set it."""
    last_error: str | None
    """Why its latest failed attempt failed, as in `ValueError: no such customer`; None: it is not known. Only browsers
    set it."""

    _body: Body
    _body_is_read_only: bool
    _properties: dict[str, Property]
    _properties_are_read_only: bool
    _record: KafkaRecord | None
    _settler: Settler | None

    def __init__(self) -> None:
        super().__init__()

    if TYPE_CHECKING:

        @property
        def body(self) -> Any:  # which, the kind of message says: a union would make each use of it a cast
            """As a TextMessage has a text, a BytesMessage bytes, a MapMessage a dict, a StreamMessage a list."""

        @body.setter
        def body(self, body: object) -> None: ...

    if not TYPE_CHECKING:  # A type checker would take it for "any name is an attribute".

        def __getattr__(self, name: str) -> object:
            """Reads a field from the record when it is asked for the first time; what was set does not come here."""
            if name not in READERS:
                text = f"{type(self).__name__!r} object has no attribute {name!r}"
                raise AttributeError(text, name=name, obj=self)
            value = READERS[name](self._record)
            object.__setattr__(self, name, value)
            return value

    def __getstate__(self) -> object:
        """For copies and pickles. One of a received message is detached: writable, and nobody's to settle."""
        _ = self._body  # fetched now, where it is a large one that was not looked at
        look_up_headers(self)  # from the record, which the copy does not hold
        own, fields = cast(tuple[object, dict[str, object]], super().__getstate__())
        of_dict, of_slots = own if isinstance(own, tuple) else (own, None)
        slots = {name: value for name, value in (of_slots or {}).items() if name not in fields}
        detached = {
            "_record": None,
            "_settler": None,
            "_body_is_read_only": False,
            "_properties_are_read_only": False,
            "_known_unit": self.unit_of_order,
            "_known_id": self.message_id,
            "_known_properties": dict(self._properties),
        }
        return (of_dict, slots), {**fields, **detached}

    @property
    def kafka(self) -> KafkaView | None:
        """The record of a received message; None of one that was made here."""
        return None if self._record is None else kafka_view(self._record)

    def get_body(self, kind: builtins.type[T]) -> T | None:
        """The body, if it is an instance of `kind`; None of a message without one.

        Raises:
            MessageFormatError: it is of another class; or it is an object, and cannot be decoded.
        """
        check_kind(kind)
        body: object = self.body
        if body is None:
            return None
        if isinstance(body, kind):
            return body
        of_message = "" if self.message_id is None else f"message {self.message_id}: "
        remedy = f"is_body_assignable_to({kind.__name__}) tells before"
        raise MessageFormatError(f"{of_message}{not_of_kind(body, kind)}; {remedy}")

    def is_body_assignable_to(self, kind: builtins.type[object]) -> bool:
        """Return True if `get_body(kind)` gives the body, or None.

        Raises:
            MessageFormatError: it is an object, and cannot be decoded.
        """
        check_kind(kind)
        body: object = self.body
        return body is None or isinstance(body, kind)

    def json(self) -> Any:
        """The value of a body that is JSON: a text, bytes, or an object in JSON.

        Raises:
            MessageFormatError: it is none.
        """
        if self._shape is BodyShape.OBJECT and cast(ObjectBody, self._body).codec == JSON:
            return self.body
        body = self.body if self._shape in (BodyShape.TEXT, BodyShape.BYTES) else None
        if body is None:
            raise MessageFormatError(f"json() is for text, bytes and objects in JSON; {self!r} is none; read its body")
        return json_value(body.encode() if isinstance(body, str) else body)

    def clear_body(self) -> None:
        """Empties the body and makes it writable; headers and properties stay."""
        self._body = None
        self._body_is_read_only = False

    def clear_properties(self) -> None:
        """Removes the properties and makes them writable; headers and body stay."""
        self._properties = {}
        self._properties_are_read_only = False

    def acknowledge(self) -> None:
        """Acknowledges as the session's mode says.

        Raises:
            IllegalStateError: the message was not received; its session is closed; it was given back before, or taken
                from the session because its partition moved: it comes again.
            JMSError: with `block_on_acknowledge`: no answer came in time, and it may come again.
        """
        (self._settler or self._settled_by()).acknowledge(self)

    def nack(self, delay_ms: Duration | None = None) -> None:
        """Gives the message back, to come again after the delay; None: after the destination's own.

        Raises:
            IllegalStateError: the message was not received, its session is closed or has no nack.
            InvalidSettingError: the delay is not a duration.
        """
        self._settled_by().nack(self, None if delay_ms is None else checked_duration_ms("delay_ms", delay_ms))

    def reject(self, reason: str) -> None:
        """Gives the message up now, as one that is out of attempts: a dead letter that tells the reason (REDELIVER-3).

        Raises:
            IllegalStateError: the message was not received, its session is closed or has no reject.
            InvalidSettingError: the reason is empty; an InvalidTypeError, where it is no text.
        """
        if not isinstance(reason, str):
            raise wrong_type("reason", reason, "it is a text that tells why nobody can process the message")
        if not (text := one_line_of(reason)):
            raise wrong_value("reason", reason, "it is a text that tells why nobody can process the message")
        self._settled_by().reject(self, text)

    def _settled_by(self) -> Settler:
        if self._settler is None:
            raise IllegalStateError("this message was not received by a consumer; there is nothing to settle")
        return self._settler

    def _write_body(self, body: Body) -> None:
        if self._body_is_read_only:
            raise MessageNotWriteableError(
                f"the body of received message {self.message_id} is read-only; call clear_body() first",
                message_id=self.message_id,
            )
        self._body = body

    def _property_names(self) -> Iterator[str]:
        return iter(self._properties)

    def _set_property(self, name: str, held: Property | None) -> None:
        if self._properties_are_read_only:
            raise MessageNotWriteableError(
                f"the properties of received message {self.message_id} are read-only; call clear_properties() first",
                message_id=self.message_id,
                property=name,
            )
        if held is None:
            del self._properties[plain_text(name) if isinstance(name, str) else name]
            return
        name = checked_property_name(name)
        if name == GROUP_ID:
            check_group(held)
        self._properties[name] = held

    def __lt__(self, other: "Message") -> bool:
        """Higher priority first."""
        if not isinstance(other, Message):
            return NotImplemented
        return self.priority > other.priority

    def __repr__(self) -> str:
        again = f"delivery_count={self.delivery_count}" if self.delivery_count > 1 else None
        parts = (type(self).__name__, self.message_id or "not sent", self.destination, again)
        return f"<{' '.join(str(each) for each in parts if each is not None)}>"


def not_of_kind(body: object, kind: type) -> str:
    """The error's text for a body that is not of the requested type."""
    return f"the body is {with_article(type(body))}, not {with_article(kind)}"


class TextMessage(Message):
    """A message whose body is a str, or None."""

    __slots__ = ()
    _shape = BodyShape.TEXT

    def __init__(self, text: str | None = None) -> None:
        super().__init__()
        self._write_body(self._checked_body(text))

    if TYPE_CHECKING:

        @property  # type: ignore[override]
        def body(self) -> str | None:
            """The text; None: it has none."""

        @body.setter  # type: ignore[override]  # what else it is given it refuses
        def body(self, text: str | None) -> None: ...

    def _checked_body(self, body: object) -> str | None:
        if body is not None and not isinstance(body, str):
            raise MessageFormatError(
                f"body is {shown(body)}: a TextMessage holds a str, a BytesMessage bytes", value=body
            )
        return None if body is None else plain_text(body)
