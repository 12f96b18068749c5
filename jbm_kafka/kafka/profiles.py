"""librdkafka's settings for each kind of client, with the reason of every number."""

from typing import Any

RECORD_BYTES_MAX = 1_000_000_000
"""librdkafka's own upper limit; what a topic takes is the topic's to say."""

BATCH_BYTES = 65_536
"""Messages sent together, before compression: never more than a partition's share of a fetch. With librdkafka's million
sending is not faster."""

_JOINS_NO_GROUP_MS = 1
"""librdkafka's demand that a `max.poll.interval.ms`, which may be the user's, is no shorter than the session timeout
is for members, but it makes no consumer without. This one is shorter than any."""

_TOPIC_APPEARS_MS = 3_000
"""A topic that no broker shows for so long does not exist; librdkafka would hope for 30 s."""

GROUP_QUEUED_MESSAGES = 16_000
"""A member's client fetches more while it holds fewer than these, of all its partitions together. It must not be done
after the first large batch, or it asks for that partition's next before others have been asked at all: see
`fetch.max.bytes` below."""
GROUP_PARTITION_BYTES = 262_144
GROUP_PARTITION_BYTES_MIN = BATCH_BYTES
GROUP_FETCH_BYTES = 1_048_576
"""One partition's share of a fetch at most and at least, and about all of it. As they are on the wire: compressed text
is many times that."""
GROUP_REFRESH_MS = 5_000
"""How soon a group takes partitions that were added to its topic: what is sent to them waits so long."""
GROUP_LARGE_BATCH_BYTES = 8_388_608
"""Room besides for a batch larger than a share: one comes in each fetch, of the partition that is asked for first."""


def group_settings(
    *, group: str, partitions: int, session_timeout_ms: int, rebalance_timeout_ms: int, memory_bytes: int
) -> dict[str, Any]:
    """librdkafka's settings of a member that may get all of so many partitions."""
    fetch_bytes = min(GROUP_FETCH_BYTES, memory_bytes // 2)
    share_bytes = max(GROUP_PARTITION_BYTES_MIN, min(GROUP_PARTITION_BYTES, fetch_bytes // partitions))
    return {
        "group.id": group,
        "partition.assignment.strategy": "cooperative-sticky",
        "session.timeout.ms": session_timeout_ms,
        # A fifth leaves room for four lost heartbeats; brokers and clients allow at most a third.
        "heartbeat.interval.ms": max(1, session_timeout_ms // 5),
        # Not how often we must poll, for that heartbeats are enough: how long a group waits for us in a rebalance.
        "max.poll.interval.ms": max(rebalance_timeout_ms, session_timeout_ms),
        **reading_settings(memory_bytes, share_bytes),
        # A prefetch that stays small stays in the processor's cache, and its memory is used again instead of being
        # asked of the system: 71,000 page faults became 23,000.
        "queued.min.messages": GROUP_QUEUED_MESSAGES,
        # Never less than all shares: librdkafka asks for partitions in the same order again and again if it has enough
        # in between (its issue 1854), so that those for which no room is left would get nothing before others end.
        "fetch.max.bytes": share_bytes * partitions + GROUP_LARGE_BATCH_BYTES,
        "isolation.level": "read_committed",
        # Told as `ends_reached`.
        "enable.partition.eof": True,
        # The default would jump over a gap in silence.
        "auto.offset.reset": "error",
    }


def reading_settings(memory_bytes: int, per_partition_bytes: int) -> dict[str, Any]:
    """Settings of any reader: bounded prefetch, quick answers, positions that are ours alone."""
    return {
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "queued.min.messages": 100_000,
        "queued.max.messages.kbytes": max(64, memory_bytes // 1024),
        "fetch.message.max.bytes": per_partition_bytes,
        # librdkafka raises fetch.max.bytes to message.max.bytes, whose only other use is in producers.
        "message.max.bytes": per_partition_bytes,
        "fetch.max.bytes": max(per_partition_bytes, min(52_428_800, memory_bytes // 2)),
        # A pending fetch delays the first one after an assignment or a seek by at most this.
        "fetch.wait.max.ms": 50,
        "fetch.queue.backoff.ms": 5,
        "fetch.error.backoff.ms": 100,
        "topic.metadata.propagation.max.ms": _TOPIC_APPEARS_MS,
    }


def log_settings(memory_bytes: int, group: str) -> dict[str, Any]:
    """librdkafka's settings of a reader by position, which joins no group; `group`: a name that its user may describe.

    librdkafka demands one, and asks for its coordinator twice a second while that is refused.
    """
    return {
        **reading_settings(memory_bytes, max(16_384, min(1_048_576, memory_bytes // 4))),
        "group.id": group,
        "session.timeout.ms": _JOINS_NO_GROUP_MS,
        # Only reached by a position below the log's start (which then is where reading begins) or above its end.
        "auto.offset.reset": "earliest",
        "enable.partition.eof": True,
        "fetch.wait.max.ms": 20,
    }


def tail_settings(memory_bytes: int, group: str) -> dict[str, Any]:
    """librdkafka's settings of a reader that reads on as records come."""
    return {
        **log_settings(memory_bytes, group),
        "isolation.level": "read_committed",
        # The default would jump over a gap in silence.
        "auto.offset.reset": "error",
        # An answer comes with the first record; so many questions a second are asked while no record comes, and a
        # position past a transaction's marker is known that late.
        "fetch.wait.max.ms": 100,
    }


def offsets_settings(group: str) -> dict[str, Any]:
    """librdkafka's settings of a consumer that only asks, what its group has committed or where logs end."""
    return {
        "group.id": group,
        "session.timeout.ms": _JOINS_NO_GROUP_MS,
        "enable.auto.commit": False,
        # Also in this question: offsets in an open transaction are waited for.
        "isolation.level": "read_committed",
    }


def transactional_settings(
    transactional_id: str, transaction_timeout_ms: int, record_timeout_ms: int, memory_bytes: int
) -> dict[str, Any]:
    """librdkafka's settings of a transactional producer."""
    # A record that cannot be written must fail while the transaction can still be aborted and redone.
    record_timeout_ms = min(record_timeout_ms, transaction_timeout_ms)
    return {
        "transactional.id": transactional_id,
        "transaction.timeout.ms": transaction_timeout_ms,
        "message.timeout.ms": record_timeout_ms,
        "topic.metadata.propagation.max.ms": record_timeout_ms,
        # The coordinator may answer "not yet" to each step of a commit; the default waits 100 ms each time.
        "retry.backoff.ms": 2,
        "retry.backoff.max.ms": 100,
        "linger.ms": 1,
        "batch.size": BATCH_BYTES,
        "compression.type": "lz4",
        "message.max.bytes": RECORD_BYTES_MAX,
        "queue.buffering.max.messages": 1_000_000,
        "queue.buffering.max.kbytes": max(1024, memory_bytes // 1024),
    }


def sender_settings(memory_bytes: int, linger_ms: int = 0) -> dict[str, Any]:
    """librdkafka's settings of a sender."""
    return {
        "enable.idempotence": True,
        "acks": "all",
        "compression.type": "lz4",
        # With 0 a lone record leaves at once, for its sender may do nothing but wait; under load batches fill while
        # earlier ones are under way.
        "linger.ms": linger_ms,
        "batch.size": BATCH_BYTES,
        # The sender keeps the time itself (see sender.py).
        "message.timeout.ms": 0,
        "topic.metadata.propagation.max.ms": _TOPIC_APPEARS_MS,
        "message.max.bytes": RECORD_BYTES_MAX,
        "queue.buffering.max.messages": 2_000_000,
        "queue.buffering.max.kbytes": max(1024, memory_bytes // 1024),
        "retry.backoff.ms": 20,
    }
