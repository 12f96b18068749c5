"""The headers of a copy that goes to a dead-letter or expiry address (REDELIVER-4), and of one that is sent again.

A copy keeps the message's headers and names the place it left, in place of what an earlier hop wrote. A letter that is
sent again loses these names.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from jbm_kafka.codec.headers import decode_headers, property_of_header
from jbm_kafka.codec.one_header import header_count
from jbm_kafka.codec.property_header import Property, property_header
from jbm_kafka.codec.scan import MESSAGE_ID_HEADER, SUBSCRIPTION_HEADER, Header
from jbm_kafka.core.destination import Destination
from jbm_kafka.core.subscription import Subscription
from jbm_kafka.core.temporary_name import TEMPORARY_HEADER

ORIG_DESTINATION = "_JBM_ORIG_DESTINATION"
ORIG_NAMESPACE = "_JBM_ORIG_NAMESPACE"
ORIG_SUBSCRIPTION = "_JBM_ORIG_SUBSCRIPTION"
ORIG_SUBSCRIPTION_KIND = "_JBM_ORIG_SUBSCRIPTION_KIND"
ORIG_MESSAGE_ID = "_JBM_ORIG_MESSAGE_ID"
ORIG_TOPIC_ID = "_JBM_ORIG_TOPIC_ID"
ORIG_PARTITION = "_JBM_ORIG_PARTITION"
ORIG_OFFSET = "_JBM_ORIG_OFFSET"
DELIVERY_COUNT = "_JBM_DELIVERY_COUNT"
DEAD_LETTER_REASON = "_JBM_DEAD_LETTER_REASON"
LAST_ERROR = "_JBM_LAST_ERROR"
LAST_ERROR_KIND = "_JBM_LAST_ERROR_KIND"
"""What selectors may ask of the last error, though no header has it: its kind, so that letters of one can be chosen."""
ACTUAL_EXPIRY = "_JBM_ACTUAL_EXPIRY"
COPY_OF = "_JBM_COPY_OF"
"""On a changed copy that an operator sent: the id of the letter it was made from. It tells of no hop, so it stays."""

HOP_PROPERTIES = frozenset(
    [
        ORIG_DESTINATION,
        ORIG_NAMESPACE,
        ORIG_SUBSCRIPTION,
        ORIG_SUBSCRIPTION_KIND,
        ORIG_MESSAGE_ID,
        ORIG_TOPIC_ID,
        ORIG_PARTITION,
        ORIG_OFFSET,
        DELIVERY_COUNT,
        DEAD_LETTER_REASON,
        LAST_ERROR,
        ACTUAL_EXPIRY,
    ]
)
"""They describe the last hop, so a further hop replaces them all."""

_NOT_COPIED = frozenset(["JMSExpiration", "JMSDeliveryTime", "JBMDuplicateID", TEMPORARY_HEADER, SUBSCRIPTION_HEADER])
"""The first two by REDELIVER-4. With its duplicate id a message that is retried and fails again would look like a
duplicate of itself, and be settled unseen. The last two say which temporary destination or subscription it was for."""

_NOT_MOVED = frozenset(["JBMDuplicateID", TEMPORARY_HEADER, SUBSCRIPTION_HEADER])


def dead_letter_headers(
    original: Sequence[Header] | None,
    *,
    destination: Destination,
    message_id: str,
    partition: int,
    offset: int,
    delivery_count: int,
    reason: str,
    last_error: str | None = None,
    timestamp_ms: int = 0,
    subscription: Subscription | None = None,
    topic_id: str = "",
    namespace: str = "",
) -> list[Header]:
    """The headers of a dead letter.

    `message_id` is the message's id as its receivers saw it; a record whose own header does not say so gets it as a
    header. `last_error`: why the last attempt failed. `subscription`: whose copy of a topic's message it was.
    `topic_id`: that of the topic it was in, as in the channel's `Position`; "": it was in none of its own. `namespace`:
    whose receivers gave it up.
    `timestamp_ms`, when given, keeps the message's JMSTimestamp although the copy's record has a later one.
    """
    hop = _hop(destination, message_id, partition, offset, delivery_count, subscription, topic_id, namespace)
    hop[DEAD_LETTER_REASON] = Property("string", reason)
    if last_error is not None:
        hop[LAST_ERROR] = Property("string", last_error)
    return _copied(original, message_id, timestamp_ms, hop)


def expired_headers(
    original: Sequence[Header] | None,
    *,
    destination: Destination,
    message_id: str,
    partition: int,
    offset: int,
    delivery_count: int,
    actual_expiry_ms: int,
    timestamp_ms: int = 0,
    subscription: Subscription | None = None,
    topic_id: str = "",
    namespace: str = "",
) -> list[Header]:
    """The headers of an expired message's copy; `actual_expiry_ms` is when it was found to be expired."""
    hop = _hop(destination, message_id, partition, offset, delivery_count, subscription, topic_id, namespace)
    hop[ACTUAL_EXPIRY] = Property("long", actual_expiry_ms)
    return _copied(original, message_id, timestamp_ms, hop)


class Origin(NamedTuple):
    """Where a dead letter was, and why it left: what it tells itself, None where it does not."""

    destination: str | None
    """As in `queue:orders`."""
    subscription: str | None
    """The full name of the subscription whose copy it was; None: it was a queue's."""
    message_id: str | None
    partition: int | None
    offset: int | None
    delivery_count: int | None
    """How often it was handed over."""
    reason: str | None
    actual_expiry_ms: int | None
    """When it should have expired; None: it did not expire."""
    last_error: str | None
    """Why the last attempt failed."""
    subscription_kind: str | None = None
    """`durable`, `shared-durable`, `shared` or `private`; None: it was a queue's, or a letter of earlier versions,
    which do not tell it."""
    namespace: str | None = None
    """Whose receivers gave it up; letters of earlier versions do not tell it."""


def origin_of(headers: Sequence[Header] | None) -> Origin:
    """Return what a dead letter's or an expired message's headers tell; of another message, that they tell nothing."""
    properties = decode_headers(headers).properties

    def text(name: str) -> str | None:
        found = properties.get(name)
        return found.value if found is not None and isinstance(found.value, str) else None

    def number(name: str) -> int | None:
        found = properties.get(name)
        return found.value if found is not None and type(found.value) is int else None

    return Origin(
        destination=text(ORIG_DESTINATION),
        subscription=text(ORIG_SUBSCRIPTION),
        message_id=text(ORIG_MESSAGE_ID),
        partition=number(ORIG_PARTITION),
        offset=number(ORIG_OFFSET),
        delivery_count=number(DELIVERY_COUNT),
        reason=text(DEAD_LETTER_REASON),
        actual_expiry_ms=number(ACTUAL_EXPIRY),
        last_error=text(LAST_ERROR),
        subscription_kind=text(ORIG_SUBSCRIPTION_KIND),
        namespace=text(ORIG_NAMESPACE),
    )


def retried_headers(copied: Sequence[Header] | None, *, subscription: Subscription | None = None) -> list[Header]:
    """The headers of a dead letter that is sent again: without those of its hop, all others unchanged.

    Its id and its time of sending stay: it is the same message still. It has no duplicate id (decision 7).
    Only this `subscription` of its topic gets it; None: it goes to a queue.
    """
    headers = [header for header in copied or () if property_of_header(header[0])[1] not in HOP_PROPERTIES]
    if subscription is None:
        return headers
    addressed = (SUBSCRIPTION_HEADER, subscription.group_id().encode())
    return [*(header for header in headers if header[0] != SUBSCRIPTION_HEADER), addressed]


def moved_headers(original: Sequence[Header] | None, *, message_id: str, timestamp_ms: int) -> list[Header]:
    """The headers of a message that an operator moves: all as they were, also what tells of an earlier hop.

    It is the same message still, so a record that does not tell its id, or its time of sending, does from now on. But
    for its duplicate id: moved back it would look like a duplicate of itself.
    """
    kept = [header for header in original or () if header[0] not in _NOT_MOVED]
    return identified_headers(kept, message_id, timestamp_ms)


def _hop(
    destination: Destination,
    message_id: str,
    partition: int,
    offset: int,
    delivery_count: int,
    subscription: Subscription | None,
    topic_id: str,
    namespace: str,
) -> dict[str, Property]:
    of = {}
    if subscription is not None:
        of[ORIG_SUBSCRIPTION] = Property("string", subscription.full_name)
        of[ORIG_SUBSCRIPTION_KIND] = Property("string", subscription.kind.value)
    return {
        ORIG_DESTINATION: Property("string", str(destination)),
        ORIG_NAMESPACE: Property("string", namespace),
        **of,
        ORIG_MESSAGE_ID: Property("string", message_id),
        **({ORIG_TOPIC_ID: Property("string", topic_id)} if topic_id else {}),
        ORIG_PARTITION: Property("int", partition),
        ORIG_OFFSET: Property("long", offset),
        DELIVERY_COUNT: Property("int", delivery_count),
    }


def _copied(
    original: Sequence[Header] | None, message_id: str, timestamp_ms: int, hop: Mapping[str, Property]
) -> list[Header]:
    kept = [header for header in original or () if not _is_replaced(header[0])]
    return [
        *identified_headers(kept, message_id, timestamp_ms),
        *(property_header(name, held) for name, held in hop.items()),
    ]


def identified_headers(headers: Sequence[Header], message_id: str, timestamp_ms: int) -> list[Header]:
    """The headers, which tell the message's id and its time of sending, if it is known, wherever the record is."""
    id_header = (MESSAGE_ID_HEADER, message_id.encode())
    # An id that is null or not text does not count (docs/topics.md): receivers of the copy would see the copy's place.
    kept = [header for header in headers if header[0] != MESSAGE_ID_HEADER or header == id_header]
    present = {name for name, _ in kept}
    if MESSAGE_ID_HEADER not in present:
        kept.append(id_header)
    if timestamp_ms and header_count(kept, "JMSTimestamp") is None:
        # Nor does one that cannot be read: receivers of the original saw the time of its record.
        kept = [header for header in kept if header[0] != "JMSTimestamp"]
        kept.append(("JMSTimestamp", b"%d" % timestamp_ms))
    return kept


def _is_replaced(name: str) -> bool:
    return name in _NOT_COPIED or property_of_header(name)[1] in HOP_PROPERTIES
