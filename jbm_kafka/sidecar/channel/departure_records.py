"""Copies of messages that leave for a dead-letter or expiry address (REDELIVER-4), or are moved: what to produce."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import cast

from jbm_kafka.codec.bodies import BodyShape, decode_body
from jbm_kafka.codec.dead_letter import dead_letter_headers, expired_headers, moved_headers
from jbm_kafka.codec.identity import message_id_of
from jbm_kafka.core.channel.departure import EXPIRED, MOVED, OUT_OF_ATTEMPTS, UNDECODABLE, Departure
from jbm_kafka.core.destination import Destination
from jbm_kafka.core.subscription import Subscription
from jbm_kafka.ports import Headers, KafkaRecord, Outgoing
from jbm_kafka.ports.provider import TopicInfo

RECORD_OVERHEAD_BYTES = 512
"""Generous room for a record batch's own fields, so that a copy judged to fit does fit."""

COMPRESSION_DOUBT = 2
"""zlib's quickest result times this is what our producer's compression is hoped to reach."""

CompressedBytes = Callable[[bytes | None, bytes, Headers], int]
"""How large a batch with this key, value and headers is taken to be when our producer has compressed it."""


def copy_of(
    leaving: Departure,
    *,
    source: Destination,
    target: TopicInfo,
    now_ms: int,
    compressed: CompressedBytes | None,
    subscription: Subscription | None = None,
    topic_id: str = "",
    namespace: str = "",
) -> tuple[Outgoing, bool]:
    """The copy, and whether it has its body: one too large for the target's topic goes without.

    `compressed`: the broker measures what is compressed, and so did the source when it took the original; None: it is
    measured as it is. `topic_id`: as the channel's position has it; "" of a temporary destination.
    """
    record = cast(KafkaRecord, leaving.reference.record)
    headers = _headers(leaving, record, source, now_ms, subscription, topic_id, namespace)
    key = record.key() or None
    partition = leaving.reference.offset % target.partitions if key is None else target.home(key)
    value = record.value()
    fits = value is None or _bytes_beside_value(key, headers) + len(value) <= target.max_message_bytes
    if not fits and value is not None and compressed is not None:
        fits = compressed(key, value, headers) <= target.max_message_bytes
    return Outgoing(
        target.topic, partition, key, value if fits else None, headers, None, target.max_message_bytes
    ), fits


def hoped_bytes(key: bytes | None, value: bytes, headers: Headers) -> int:
    """A quick guess; the caller tries again without the body if it was wrong."""
    return _bytes_beside_value(key, headers) + COMPRESSION_DOUBT * len(zlib.compress(value, 1))


def as_told(leaving: Departure) -> Departure:
    """With the reason that its letter, its event and the log tell: of used-up attempts, that the body is unreadable.

    That follows from the record alone, so whoever has it tells the same.
    """
    record = cast(KafkaRecord | None, leaving.reference.record)
    if leaving.reason != OUT_OF_ATTEMPTS or record is None:
        return leaving
    shape, _, fault = decode_body(record.headers(), record.value())
    if fault is None or shape is not BodyShape.BYTES:
        return leaving
    return Departure(leaving.reference, leaving.attempts, UNDECODABLE, leaving.last_error)


def _bytes_beside_value(key: bytes | None, headers: Headers) -> int:
    return RECORD_OVERHEAD_BYTES + len(key or b"") + sum(len(n.encode()) + len(v or b"") + 8 for n, v in headers)


def _headers(
    leaving: Departure,
    record: KafkaRecord,
    source: Destination,
    now_ms: int,
    subscription: Subscription | None,
    topic_id: str,
    namespace: str,
) -> Headers:
    partition, offset = cast(int, record.partition()), leaving.reference.offset
    message_id = message_id_of(record.headers(), cast(str, record.topic()), partition, offset)
    timestamp_ms = max(record.timestamp()[1], 0)
    if leaving.reason == MOVED:
        return moved_headers(record.headers(), message_id=message_id, timestamp_ms=timestamp_ms)
    if leaving.reason == EXPIRED:
        return expired_headers(
            record.headers(),
            destination=source,
            message_id=message_id,
            partition=partition,
            offset=offset,
            delivery_count=leaving.attempts,
            actual_expiry_ms=now_ms,
            timestamp_ms=timestamp_ms,
            subscription=subscription,
            topic_id=topic_id,
            namespace=namespace,
        )
    return dead_letter_headers(
        record.headers(),
        destination=source,
        message_id=message_id,
        partition=partition,
        offset=offset,
        delivery_count=leaving.attempts,
        reason=leaving.reason,
        last_error=leaving.last_error,
        timestamp_ms=timestamp_ms,
        subscription=subscription,
        topic_id=topic_id,
        namespace=namespace,
    )
