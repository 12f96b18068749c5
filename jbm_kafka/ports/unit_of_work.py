"""What a session commits: sends, and messages that it received, all of it or nothing (ACK-7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

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
