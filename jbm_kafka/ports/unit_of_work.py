"""The unit of work that a session commits: sends, and messages that it received, all of it or nothing (ACK-7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from jbm_kafka.core.channel.branch import Branch
from jbm_kafka.core.jms_errors import TransactionRolledBackError
from jbm_kafka.ports.completion import Completion
from jbm_kafka.ports.deliveries import PartitionLease
from jbm_kafka.ports.kafka import Outgoing
from jbm_kafka.ports.link import Link


@dataclass(frozen=True, slots=True)
class Received:
    """Messages of one channel in the session's hand."""

    link: Link
    lease: PartitionLease
    offsets: Sequence[int]


@dataclass(frozen=True, slots=True)
class UnitOfWork:
    """One transaction of a session, on its way."""

    about: str
    """For people: whose it is."""
    sends: Sequence[Outgoing]
    received: Sequence[Received]
    done: Completion = field(default_factory=Completion)
    """Completed when it is committed; failed with what the caller should see."""
    expires_at_ms: int = 0
    """When the first of its sends expires, ms since the epoch: not committed by then it is rolled back; 0: never."""
    branch: Branch | None = None
    """It is to be prepared, and not committed, as this branch (ACK-10)."""


def expired_before_commit(expires_at_ms: int) -> TransactionRolledBackError:
    """The error of a commit with a send that has expired (STATE-2)."""
    return TransactionRolledBackError(
        f"rolled back: a message sent in it expired at {expires_at_ms} (ms since 1970), before it was committed; "
        f"everything received comes again, sends were dropped. Commit sooner, or give a longer time_to_live_ms",
        expired_at_ms=expires_at_ms,
    )
