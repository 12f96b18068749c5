"""The errors of sessions whose partition is gone: their acknowledgements are lost, and the messages come again."""

from __future__ import annotations

from collections.abc import Sequence

from jbm_kafka.core.jms_errors import IllegalStateError, JMSError, TransactionInDoubtError, TransactionRolledBackError
from jbm_kafka.ports.deliveries import LeasedChannel, PartitionLease


def refusal(channel: LeasedChannel, offsets: Sequence[int]) -> IllegalStateError:
    """The error of a session whose acknowledgement came too late."""
    return IllegalStateError(
        f"{channel.topic}[{channel.partition}]: acknowledgement of offset {_some(offsets)} refused: the messages were "
        f"taken from this session (its partition moved to another process, its topic was deleted, or it was away too "
        f"long); what is there still is delivered again",
        topic=channel.topic,
        partition=channel.partition,
        offsets=tuple(offsets),
    )


def notify_refused(lease: PartitionLease, offsets: Sequence[int]) -> None:
    """Tell a session what no call can raise: these acknowledgements came too late. What it heard when they were taken
    it does not hear again."""
    untold = [offset for offset in offsets if offset not in lease.taken]
    if untold:
        lease.notify(refusal(lease.channel, untold))


MOVED = (
    "the partition moves to another process, or its topic was deleted. A rebalance waits for handlers: revoke_drain_ms "
    "says how long"
)
"""Why a session loses what it holds."""
LOST = (
    "the group took this process for dead and gave the partition to others, for it heard nothing of it for "
    "session_timeout_ms: Kafka was silent, or the process stood still"
)
READ_ANEW = "the partition is read anew by this process; the log says why"
MEANWHILE = "this process lost the partition meanwhile"
GONE = "the topic was deleted, or has this partition no more, and its messages are gone with it"


_AGAIN = "They are delivered again with JMSRedelivered set, which counts as no attempt. "
_STILL = "What this session still says of them is refused"


def taken_from_session(
    channel: LeasedChannel, offsets: Sequence[int], message_ids: Sequence[str], why: str
) -> JMSError:
    """The error that a live session gets at once: what it holds is delivered to others."""
    return JMSError(
        f"{channel.topic}[{channel.partition}]: offset {_some(offsets)} taken from this session before it settled "
        f"them: {why}. {'' if why == GONE else _AGAIN}{_STILL}; {some_ids(message_ids)}",
        topic=channel.topic,
        partition=channel.partition,
        offsets=tuple(offsets),
        message_ids=tuple(message_ids),
    )


def taken(channel: LeasedChannel, why: str) -> TransactionRolledBackError:
    """The error of a caller that waited for a record that will never be made."""
    again = "" if why == GONE else "; the messages are delivered again"
    return TransactionRolledBackError(
        f"{channel.topic}[{channel.partition}]: not recorded: {why}{again}",
        topic=channel.topic,
        partition=channel.partition,
    )


def in_doubt(channel: LeasedChannel) -> TransactionInDoubtError:
    return TransactionInDoubtError(
        f"{channel.topic}[{channel.partition}] was given up while this was being recorded, and whether it was is not "
        f"known; if not, the messages are delivered again",
        topic=channel.topic,
        partition=channel.partition,
    )


def some_ids(message_ids: Sequence[str]) -> str:
    """Which messages it is about, for people; the errors' attributes have all."""
    return f"message id {_some(message_ids)}"


def _some(values: Sequence[object]) -> str:
    return ", ".join(str(value) for value in values[:5]) + (", …" if len(values) > 5 else "")
