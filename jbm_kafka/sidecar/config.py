"""The numbers of a sidecar, each with its reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from jbm_kafka.core.address_settings import AddressSettings

RESERVE_OFFSETS = 16_384
"""How far ahead of hand-over `offered` is recorded at least: seldom enough to cost nothing, near enough to flag few
messages. A fast channel's is a second of its traffic: core/offered_target.py."""


@dataclass(frozen=True, slots=True)
class SidecarConfig:
    """What a connection factory sets; durations in milliseconds, sizes in bytes."""

    namespace: str = ""
    session_timeout_ms: int = 10_000
    checkpoint_interval_ms: int = 50
    memory_budget_bytes: int = 256 * 2**20
    address_settings: Mapping[str, AddressSettings] = field(default_factory=dict)
    persist_delivery_count_before_delivery: bool = False
    auto_create: bool = True
    revoke_drain_ms: int = 2_000
    """How long a rebalance waits for what the application has in hand."""
    membership_idle_ms: int = 60_000
    """How long an open, started consumer that pauses keeps its process in the group. Each leave and join moves
    partitions, and so may take from others what they have in hand."""
    linger_ms: int = 10_000
    """How long membership outlives the last receiver: stock brokers delay a first join by 3 s."""
    receiver_idle_ms: int = 3_000
    """After so long without a receive an unread buffer goes back, so that it starves nobody."""
    transaction_timeout_ms: int = 10_000
    """A crash in the middle of a checkpoint stalls readers of the touched partitions that long, not longer."""
    join_timeout_s: float = 60.0
    reserve_offsets: int = RESERVE_OFFSETS


ARRIVALS_HIGH = 20_000
"""Deliverable messages read ahead per channel before its partition pauses."""
ARRIVALS_LOW = 4_000
"""It resumes below this; far apart, since every pause throws away what the client had prefetched."""
RECORD_OVERHEAD_BYTES = 700
"""Measured cost of one waiting record besides its body: message object, headers, reference, gate entry."""
GATE_BYTES = 400
"""A unit that waits, or a delayed message, whose messages are all in the held store: gate, timer, their places."""
LINE_BYTES = 700
"""What a gate costs besides when something of it is in memory."""
ENOUGH_AHEAD = 1_000
"""Deliverable messages that a lane reads ahead of all that is asked for. What is left in the client costs nothing; a
partition that never gets to ARRIVALS_HIGH is never paused; and a message of 100 bytes is about 1 KiB of objects, which
should still be in the processor's cache when the application gets it."""
FETCH_PAUSE_MS = 100
"""How long it goes without fetching then: not longer, for the group's rebalances are told inside a fetch."""
FETCH_COUNT_MIN = 250
"""Records asked of the client at once at least. No more while it has enough, so that only a slow receiver's partitions
ever fill up and pause; but some, for only behind the records of a full partition the client gives those of others."""
FETCH_COUNT_MAX = 1_000
"""And at most, however many are wanted: a default prefetch."""
IDLE_POLL_S = 0.05
BUSY_POLL_S = 0.004
"""How long the owner thread sleeps in the client: the longest that an acknowledgement waits to be seen."""
COPY_RETRY_MS = 1_000
"""How long a dead-letter copy that could not be written waits, its unit held."""
