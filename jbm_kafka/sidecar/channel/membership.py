"""When a group worker's process is a member of its group: while it has a receiver, which may pause (decision 12)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from jbm_kafka.ports.installation import SidecarConfig


class Receiver(Protocol):
    """The part of a link that is asked here."""

    @property
    def is_open(self) -> bool: ...
    def is_active(self, now_ms: int, idle_ms: int) -> bool: ...


class Membership:
    """Decides for one group worker; all times are monotonic."""

    def __init__(self, config: SidecarConfig, *, lingers: bool = True) -> None:
        """`lingers`: membership outlives the last receiver; not where that may be the end of the group."""
        self._idle_ms = config.membership_idle_ms
        self._linger_ms = config.linger_ms if lingers else 0
        self._unused_since_ms: int | None = None
        self._held_at_ms: int | None = None
        """When, while nobody received, something was last seen in a hand."""
        self._was_rebalanced = False
        """Others wanted partitions of ours while nobody received here."""
        self.is_bereft = False
        """Partitions were lost, and none came since."""

    def given(self) -> None:
        """Partitions came."""
        self.is_bereft = False

    def lost(self) -> None:
        """Partitions are with others, and nobody here was asked."""
        self.is_bereft = True

    def rebalanced(self) -> None:
        """Partitions were given up to others."""
        self._was_rebalanced = True

    def is_used(self, now_ms: int, links: Collection[Receiver]) -> bool:
        """Somebody receives here, or did a short while ago."""
        if not any(link.is_active(now_ms, self._idle_ms) for link in links):
            return False
        self._used()
        return True

    def is_over(
        self, now_ms: int, links: Collection[Receiver], *, is_holding: bool, is_owing: bool, shares: bool
    ) -> bool:
        """To be asked when it is not used: membership would only keep partitions from others.

        `is_holding`: some session has messages in hand; its pause counts from when it has none. `is_owing`: something
        is not recorded yet. Neither leaves. One that `shares` the group with others leaves at once; a sole member
        lingers a while, for joining anew is slow on stock brokers, but leaves when others need partitions.
        """
        if is_holding:
            self._held_at_ms = now_ms
        is_recent = self._held_at_ms is not None and now_ms - self._held_at_ms <= self._idle_ms
        if is_recent and any(link.is_open for link in links):
            self._used()
            return False
        if self._unused_since_ms is None:
            self._unused_since_ms = now_ms
        if is_holding or is_owing:
            return False
        return shares or self._was_rebalanced or now_ms - self._unused_since_ms > self._linger_ms

    def _used(self) -> None:
        self._unused_since_ms = None
        self._was_rebalanced = False
