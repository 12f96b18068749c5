"""The few headers that a channel decides by, read from every fetched record; so this is the codec's hottest code.

Everything else of a message is decoded when its application looks at it: `jbm_kafka.codec.headers`.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

Header = tuple[str, bytes | None]
"""A Kafka record header. Several may have one name."""

PRIORITY_DEFAULT: Final = 4
LONG_MAX: Final = 2**63 - 1


class Scanned(NamedTuple):
    """All that a channel must know of a record besides its key and offset."""

    priority: int = PRIORITY_DEFAULT
    expiration_ms: int = 0
    """Absolute time; 0: never."""
    delivery_time_ms: int = 0
    """Absolute time; 0: at once."""
    duplicate_id: bytes | None = None
    subscription: bytes | None = None
    """The full name of the one subscription of its topic that has it (decision 51); None: every one."""


ALL_DEFAULT: Final = Scanned()
"""The one object that `scan` returns for every record in which nothing is special: most of them."""

MESSAGE_ID_HEADER: Final = "JMSMessageID"
SUBSCRIPTION_HEADER: Final = "JBMSubscription"
DECIDING_HEADERS: Final = frozenset(
    {"JMSPriority", "JMSExpiration", "JMSDeliveryTime", "JBMDuplicateID", SUBSCRIPTION_HEADER}
)
"""A record with none of them is `ALL_DEFAULT`. All names of ours begin with a J, and no property's does."""


def scan(headers: Sequence[Header] | None) -> Scanned:
    """Return what the channel decides by. A bad number counts as absent; of several good ones the last counts."""
    if headers:
        for name, _ in headers:
            # A set finds out with one hash; four comparisons take twice as long.
            if name in DECIDING_HEADERS:
                return _scan_special(headers)
    return ALL_DEFAULT


def _scan_special(headers: Sequence[Header]) -> Scanned:
    priority = PRIORITY_DEFAULT
    expiration_ms = delivery_time_ms = 0
    duplicate_id: bytes | None = None
    subscription: bytes | None = None
    for name, value in headers:
        if value is None or name not in DECIDING_HEADERS:
            continue
        if name == "JBMDuplicateID":
            duplicate_id = value
            continue
        if name == SUBSCRIPTION_HEADER:
            subscription = value
            continue
        number = parse_count(value)
        if number is None:
            continue
        if name == "JMSExpiration":
            expiration_ms = number
        elif name == "JMSDeliveryTime":
            delivery_time_ms = number
        elif number <= 9:
            priority = number
    return Scanned(priority, expiration_ms, delivery_time_ms, duplicate_id, subscription)


def parse_count(value: bytes) -> int | None:
    """The number that the ASCII digits tell, if it fits a Java `long`; else None."""
    # 19 digits are enough for a long; int() would also take signs, spaces and underscores.
    if not value.isdigit() or len(value) > 19:
        return None
    number = int(value)
    return number if number <= LONG_MAX else None
