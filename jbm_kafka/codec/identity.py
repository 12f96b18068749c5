"""How a record's key and place show in JMS."""

from collections.abc import Sequence
from typing import Final

from jbm_kafka.codec.scan import MESSAGE_ID_HEADER, Header

UNIT_OF_ORDER: Final = "JMS_BEA_UnitOfOrder"
"""The property that tells the unit."""
GROUP_ID: Final = "JMSXGroupID"
"""The property that tells it where nobody set another group."""
DELIVERY_COUNT: Final = "JMSXDeliveryCount"
TOLD_BY_PROVIDER: Final = (DELIVERY_COUNT, UNIT_OF_ORDER)
"""Properties that no sender sets. They can be looked up and are not among the names, so what was received may be given
to a send as it is."""


def unit_name(key: bytes | None) -> str | None:
    """The unit of order of a record's key: its text, or `0x<hex>` when it is not UTF-8; None for an empty key."""
    if not key:
        return None
    try:
        return key.decode()
    except UnicodeDecodeError:
        return f"0x{key.hex()}"


def foreign_message_id(topic: str, partition: int, offset: int) -> str:
    """The id of a message whose record has no JMSMessageID."""
    return f"ID:kafka:{topic}:{partition}:{offset}"


def message_id_of(headers: Sequence[Header] | None, topic: str, partition: int, offset: int) -> str:
    """The id that receivers see: the last JMSMessageID that is not null; where that is empty or no UTF-8, the place."""
    ids = [value for name, value in headers or () if name == MESSAGE_ID_HEADER and value is not None]
    try:
        if ids and ids[-1]:
            return ids[-1].decode()
    except UnicodeDecodeError:
        pass
    return foreign_message_id(topic, partition, offset)
