"""What sessions are told whose messages' partition is gone: what they said is not kept, the messages come again."""

from __future__ import annotations

from collections.abc import Sequence

from jbm_kafka.core.errors import IllegalStateError, TransactionInDoubtError, TransactionRolledBackError
from jbm_kafka.ports.grants import LeasedChannel


def refusal(channel: LeasedChannel, offsets: Sequence[int]) -> IllegalStateError:
    """What a session is told whose acknowledgement came too late."""
    some = ", ".join(str(offset) for offset in offsets[:5]) + (", …" if len(offsets) > 5 else "")
    return IllegalStateError(
        f"{channel.topic}[{channel.partition}]: acknowledgement of offset {some} refused: the messages were taken from "
        f"this session (its partition moved to another process, or it was away too long); they are delivered again",
        topic=channel.topic,
        partition=channel.partition,
        offsets=tuple(offsets),
    )


def taken(channel: LeasedChannel) -> TransactionRolledBackError:
    """What is told who waited for a record that will never be made."""
    return TransactionRolledBackError(
        f"{channel.topic}[{channel.partition}] moved to another process before this was recorded; "
        f"the messages are delivered again",
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
