"""A connection factory's words: which cluster, which folder, and how the sidecar shall work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from jbm_kafka.core.channel.offered_target import USUAL, OfferedLimits
from jbm_kafka.core.settings.address_settings import AddressSettings

RECORD_TIMEOUT_MS = 3_000
"""The usual time, and the least: users' `linger.ms` must be below it."""


@dataclass(frozen=True, slots=True)
class SidecarConfig:
    """The settings of a connection factory; durations in milliseconds, sizes in bytes."""

    namespace: str = ""
    session_timeout_ms: int = 10_000
    checkpoint_interval_ms: int = 50
    memory_budget_bytes: int = 256 * 2**20
    address_settings: Mapping[str, AddressSettings] = field(default_factory=dict)
    persist_delivery_count_before_delivery: bool = False
    auto_create: bool = True
    revoke_drain_ms: int = 30_000
    """How long a rebalance waits for what the application has in hand: as long as handlers may need."""
    leave_drain_ms: int = 2_000
    """As long when the process itself leaves: then nobody works on."""
    membership_idle_ms: int = 60_000
    """How long an open, started consumer that pauses keeps its process in the group. Each leave and join moves
    partitions, and so may take from others what they have in hand."""
    linger_ms: int = 10_000
    """How long membership outlives the last receiver: stock brokers delay a first join by 3 s."""
    receiver_idle_ms: int = 3_000
    """After so long without a receive an unread buffer goes back, so that it starves nobody."""
    transaction_timeout_ms: int = 10_000
    """A crash in the middle of a checkpoint stalls readers of the touched partitions that long, not longer: with the
    usual `record_timeout_ms`."""
    record_timeout_ms: int = RECORD_TIMEOUT_MS
    """A record of a checkpoint that is not written by then has it aborted, while there is time left to do so."""
    commit_timeout_ms: int = 10_000
    """After so long without an answer to its commit nobody knows whether a checkpoint was committed, and it is found
    out."""
    offered_limits: OfferedLimits = USUAL
    """How far ahead of hand-over `offered_position` is recorded."""
    is_in_memory: bool = False
    """No command of the terminal reaches it."""
    command_look_ms: int = 1_000
    """How often it is looked whether an administrator asks anything: decision 34."""

    truncate_look_ms: int = 20_000
    """How often it is looked what of the logs may be deleted."""
    park_look_ms: int = 10_000
    """How often it is looked what holds up much of the logs, and so is to be parked; younger messages are not."""

    @property
    def whole_transaction_ms(self) -> int:
        """How long a checkpoint's transaction may be open: what its records may take longer than usual it gets, too."""
        return self.transaction_timeout_ms + self.record_timeout_ms - RECORD_TIMEOUT_MS

    @property
    def join_timeout_s(self) -> float:
        """How long a consumer waits for its first assignment: joining waits for the drains of the other members."""
        return 60.0 + self.revoke_drain_ms / 1_000

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long a group waits for a member that lives and does not answer: more than giving up ever takes."""
        return max(300_000, self.session_timeout_ms, self.revoke_drain_ms + 60_000)


@dataclass(frozen=True, slots=True)
class Installation:
    """All that makes two factories share one provider, and that it is made from."""

    bootstrap: str
    client_settings: Mapping[str, object]
    state_dir: str | None
    config: SidecarConfig
    is_encrypted: bool = False
    """TLS is used where the scheme of the address says so."""
    given: frozenset[str] = frozenset()
    """The settings of `config` that were asked for by name; the others are taken as a running sidecar has them."""

    @property
    def key(self) -> tuple[str, str, str | None]:
        """Process-wide identity."""
        return self.bootstrap, self.config.namespace, self.state_dir
