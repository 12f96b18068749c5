"""What `receive_body` gives: a message's body without the message, and only of the kind that was asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from jbm_kafka.core.errors import MessageFormatError
from jbm_kafka.jms.messages_wire import message_of
from jbm_kafka.jms.modes import AcknowledgeMode
from jbm_kafka.ports.grants import Granted

if TYPE_CHECKING:
    from jbm_kafka.jms.consumer import MessageConsumer

T = TypeVar("T")


def check_kind(kind: object) -> None:
    """Raises TypeError when it is no type: before anything is taken, for afterwards it would be lost."""
    if not isinstance(kind, type):
        raise TypeError(f"kind is {kind!r}: it is a type, str or bytes")


def present_body(consumer: MessageConsumer, granted: Granted, kind: type[T]) -> T:
    """Hand the body over. In AUTO one of another kind is none the application got; elsewhere it got the message.

    Raises:
        MessageFormatError: it is of another kind.
    """
    reference = granted.reference
    record, body_kind = reference.record, reference.body_kind
    body = message_of(record, body_kind, consumer.destination, 0, False, None).body  # type: ignore[arg-type]
    if isinstance(body, kind):
        consumer.session.settling.handed_over(consumer, granted)
        return body
    if consumer.session.acknowledge_mode is AcknowledgeMode.AUTO:
        consumer.link.put_back(granted)
        remedy = "the message was not received: the next receive gets it"
    else:
        consumer.session.settling.handed_over(consumer, granted)
        remedy = "the message was received: acknowledge it or give it back with the session"
    raise MessageFormatError(f"the body is a {type(body).__name__}, not a {kind.__name__}; {remedy}")
