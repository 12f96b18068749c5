"""Names of a message's body, annotations and properties, in AMQP and in the headers of a record.

A record says in JMS's words what AMQP and JMS both can say. What only AMQP can say stands beside it in headers that
begin with `amqp.`: no property has such a name, so every other reader passes them on untouched.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from jbm_kafka.codec.amqp.values import Amqp
from jbm_kafka.codec.bodies import BodyShape
from jbm_kafka.codec.property_header import Property, PropertyType, integer_fits
from jbm_kafka.core.destination import DestinationKind

KINDS: Final[tuple[DestinationKind, ...]] = ("queue", "topic", "temporary-queue", "temporary-topic")
"""Kinds in the order of the numbers that `x-opt-jms-dest` and `x-opt-jms-reply-to` have for them."""
MESSAGE_TYPES: Final = (
    BodyShape.NONE, BodyShape.OBJECT, BodyShape.MAP, BodyShape.BYTES, BodyShape.STREAM, BodyShape.TEXT
)  # fmt: skip
"""Shapes in the order of the numbers that `x-opt-jms-msg-type` has for them."""

MESSAGE_TYPE: Final = "x-opt-jms-msg-type"
DESTINATION: Final = "x-opt-jms-dest"
REPLY_TO: Final = "x-opt-jms-reply-to"
DELIVERY_TIME: Final = "x-opt-delivery-time"
DELIVERY_DELAY: Final = "x-opt-delivery-delay"
OBJECT_CODEC: Final = "x-opt-jbm-object"
"""An extension: the body is an object, and this codec has written it."""
STATE: Final = "x-opt-jbm-state"
"""An extension: where a message stands that a browser shows."""
MAPPED: Final = frozenset({MESSAGE_TYPE, DESTINATION, REPLY_TO, DELIVERY_TIME, DELIVERY_DELAY, OBJECT_CODEC, STATE})
"""Annotations for which a record has words of its own."""

ANNOTATIONS_HEADER: Final = "amqp.annotations"
"""A map of the other annotations."""
PROPERTIES_HEADER: Final = "amqp.properties"
"""A map of the application's properties whose types JMS has not."""
BODY_HEADER: Final = "amqp.body"
"""Which section the body came in, where it is not the one that its kind usually has; and where it was cut."""
FOOTER_HEADER: Final = "amqp.footer"
"""The whole footer."""
USER_ID_HEADER: Final = "amqp.user-id"
"""A user id that is no text."""
CONTENT_ENCODING: Final = "content-encoding"

USER_ID: Final = "JMSXUserID"
GROUP_SEQUENCE: Final = "JMSXGroupSeq"
REPLY_TO_GROUP: Final = "JMS_AMQP_REPLY_TO_GROUP_ID"
DUPLICATE_ID: Final = "JBMDuplicateID"
"""A property that a client of AMQP sends, and the header that it becomes."""

JAVA_OBJECT: Final = "application/x-java-serialized-object"
JAVA_CODEC: Final = b"java"
"""The codec of an object that Java has serialized."""
AMQP_CODEC: Final = b"amqp"
"""The codec of a body that only AMQP can say: the record's value is its sections."""

_SAME: Mapping[str, PropertyType] = MappingProxyType(
    {
        kind: kind
        for kind in ("null", "boolean", "byte", "short", "int", "long", "float", "double", "string")
    }
)  # fmt: skip
_WIDER: Mapping[str, PropertyType] = MappingProxyType(
    {"ubyte": "short", "ushort": "int", "uint": "long", "timestamp": "long"}
)


def jms_property(held: Amqp) -> tuple[Property | None, bool]:
    """The property that shows the value, and whether it says all of it; None: JMS has nothing that shows it."""
    kind, value = held
    same = _SAME.get(kind)
    if same is not None:
        return Property(same, value), True
    wider = _WIDER.get(kind)
    if wider is not None:
        return Property(wider, value), False
    if kind == "ulong":
        return (Property("long", value) if integer_fits(value, 64) else None), False
    if kind in ("symbol", "char", "uuid"):
        return Property("string", str(value)), False
    return None, False
