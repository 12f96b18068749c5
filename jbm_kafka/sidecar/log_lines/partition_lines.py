"""Log lines about partitions that come and go. docs/logging.md lists them."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from jbm_kafka.core.channel.partition_names import named
from jbm_kafka.core.log_fields import log_fields
from jbm_kafka.core.log_rate_limit import LogRateLimit

log = logging.getLogger("jbm_kafka.partitions")

INTERVAL_MS = 5_000
TWIN_MS = 60_000
"""Two fences within so long are by another process: each of both checkpoints more often."""
TWIN_AGAIN_MS = 600_000
"""It goes on until somebody ends one of both, and is logged again after so long."""


def log_assigned(queue: object, partitions: Sequence[int]) -> None:
    """The group gave them to this process."""
    log.info("%s: %s assigned to this process, opening", queue, named(partitions))


def log_open(queue: object, count: int, duration_ms: int) -> None:
    """All that was assigned can be received from."""
    log.info("%s: open, %d %s in %.1f s", queue, count, _word(count), duration_ms / 1000)


def log_revoked(queue: object, partitions: Sequence[int], in_hand: int, wait_s: float) -> None:
    """The group wants them back."""
    messages = "1 message" if in_hand == 1 else f"{in_hand} messages"
    waits = f"; waiting up to {wait_s:g} s for {messages} that sessions here hold" if in_hand else ""
    log.info("%s: %s revoked%s", queue, named(partitions), waits)


def log_given_up(queue: object, partitions: Sequence[int], duration_ms: int) -> None:
    """Log that what could be recorded of them is, and that others may have them."""
    log.info("%s: %s passed on after %.1f s", queue, named(partitions), duration_ms / 1000)


def log_lost(queue: object, partitions: Sequence[int], session_timeout_ms: int, *, timed_out: bool) -> None:
    """Others may have them already. `timed_out`: the client has noticed why."""
    silence = f"this process and their group did not hear of each other for session_timeout_ms={session_timeout_ms}"
    unknown = f"either {silence}, or their topic was deleted (jbm-kafka explain tells whether it is there)"
    log.warning(
        "%s: %s lost, and others may have them: %s; what was not recorded%s is delivered again",
        queue,
        named(partitions),
        silence if timed_out else unknown,
        "" if timed_out else " and is there still",
    )


def log_taken(topic: str, partition: int, offsets: Sequence[int], *, are_gone: bool) -> None:
    """A session holds them in vain. Its exception listener gets it too; without one it is a warning there."""
    log.info(
        "%s[%d]: %d messages that a session holds are taken from it, offsets %d to %d; they are %s",
        topic,
        partition,
        len(offsets),
        min(offsets),
        max(offsets),
        "gone with their topic" if are_gone else "delivered again",
        extra=log_fields(topic, partition, min(offsets), reason="taken"),
    )


class FenceLines:
    """Checkpoints that a group refused: one is nothing in a rebalance; many in a row are. The checkpoint thread's."""

    def __init__(self) -> None:
        self._bursts: LogRateLimit[str] = LogRateLimit(interval_ms=INTERVAL_MS, each_max=1)

    def refused(self, group: str, error: Exception, now_ms: int) -> None:
        """The group refused one, at this time of the monotonic clock."""
        for burst in self._bursts.due(now_ms):
            log.warning(
                "group %s refused %d more checkpoints of this process within %.1f s: what it settled is not recorded "
                "and comes again (%s)",
                burst.key,
                burst.events,
                burst.duration_ms / 1000,
                error,
            )
        if self._bursts.note(group, now_ms):
            log.info("group %s refused a checkpoint of this process, which is tried again: %s", group, error)


class TwinLines:
    """Another process that uses the same transactional id: each of both ends what the other began. The checkpoint
    thread's."""

    def __init__(self) -> None:
        self._fenced_at_ms: int | None = None
        self._logged_at_ms: int | None = None

    def fenced(self, transactional_id: str, now_ms: int) -> None:
        """A checkpoint of this process was ended by a newer producer of its id, at this time of the monotonic clock.

        Once is nothing: a coordinator does so to a transaction that outlasts its timeout.
        """
        before_ms, self._fenced_at_ms = self._fenced_at_ms, now_ms
        if before_ms is None or now_ms - before_ms > TWIN_MS or self.is_logged(now_ms):
            return
        self._logged_at_ms = now_ms
        log.warning(
            "another process runs with a copy of this one's state folder, or with the same one on another host "
            "(transactional id %s): each ends the checkpoints of the other, so both are slow, and what is acknowledged "
            "is recorded late; end one of them, and give each process a state_dir of its own",
            transactional_id,
        )

    def is_logged(self, now_ms: int) -> bool:
        """A line said so lately: what follows from it again and again is no news."""
        return self._logged_at_ms is not None and now_ms - self._logged_at_ms < TWIN_AGAIN_MS


def _word(count: int) -> str:
    return "partition" if count == 1 else "partitions"
