"""The values that headers of a message may have: as arguments of a send, and as an application sets them of a
message."""

from __future__ import annotations

from jbm_kafka.core.channel.states import MessageState
from jbm_kafka.core.delivery_mode import DeliveryMode
from jbm_kafka.core.destination import Destination
from jbm_kafka.core.jms_errors import MessageFormatError
from jbm_kafka.core.plain_text import plain_text
from jbm_kafka.core.wrong_values import checked_int, shown, wrong_type, wrong_value
from jbm_kafka.jms.base.arguments import as_destination


def checked_text(name: str, value: object) -> str | None:
    """A header's plain text, if it is one.

    Raises:
        MessageFormatError: it is neither a str nor None.
    """
    if value is None:
        return None
    if not isinstance(value, str):
        raise MessageFormatError(f"{name} is {shown(value)}: it is a str, or None", header=name, value=value)
    return plain_text(value)


def checked_reply_to(value: object) -> Destination | None:
    """Where an answer shall go, if that is a destination.

    Raises:
        InvalidDestinationError: it is something else, such as a bare name.
    """
    return None if value is None else as_destination(value, "reply_to")


def checked_priority(value: object) -> int:
    """Raises InvalidSettingError when it is not a priority."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 9:
        return checked_int("priority", value, 0, 9, "")
    return value


def checked_delivery_mode(value: object) -> DeliveryMode:
    """The mode, if it is one or the number of one.

    Raises:
        InvalidSettingError: it is not.
    """
    rule = "it is DeliveryMode.PERSISTENT, NON_PERSISTENT or PERSISTENT_GROUPACK"
    if not isinstance(value, int) or isinstance(value, bool):
        raise wrong_type("delivery_mode", value, rule)
    if value not in tuple(DeliveryMode):
        raise wrong_value("delivery_mode", value, rule)
    return DeliveryMode(value)


def checked_instant(name: str, value: object) -> int:
    """Raises InvalidSettingError when it is no instant."""
    return checked_int(name, value, 0, None, "milliseconds since 1970, 0 for none,")


def checked_count(name: str, value: object) -> int:
    """Raises InvalidSettingError when it is no number of hand-overs."""
    return checked_int(name, value, 0, None, "hand-overs")


def checked_state(value: object) -> MessageState | None:
    """Raises InvalidTypeError when it is no state of a message."""
    if value is not None and not isinstance(value, MessageState):
        raise wrong_type("state", value, "it is what a browser tells of its message: a MessageState, or None")
    return value
