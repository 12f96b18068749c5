"""How long a group worker's thread sleeps when there is nothing to do, and where. On the owner thread only.

It sleeps in Kafka's client while somebody waits for what he may get: the next record wakes it there, nobody else. It
sleeps beside it while there is something to hand over, somebody has just got what he asked for and will ask again, or
all who received work on that and may commit: whoever asks wakes it there, and no record does.

While somebody is active it looks at the other every few milliseconds. Once nothing happens and nobody has anything in
hand, a few times a second are enough: what somebody asks for first after that is heard a little later.
"""

from __future__ import annotations

from jbm_kafka.sidecar import config as numbers
from jbm_kafka.sidecar.group_data import GroupData


class Rest:
    """Of one group worker."""

    def __init__(self, data: GroupData) -> None:
        self._data = data
        self._active_at_ms = 0

    def note_active(self) -> None:
        """Somebody asked for something, or there was something to do."""
        self._active_at_ms = self._data.clock.monotonic_ms()

    def is_beside(self) -> bool:
        """Nobody waits for a message, and somebody may soon ask for something else: a commit, or to be told that his
        acknowledgement is recorded. In the client the group worker would hear that `BUSY_POLL_S` late."""
        data = self._data
        if not data.is_settled:
            return False  # what must come soon is the group's answer
        for link in data.links.values():
            if link.demand.is_waiting and link.demand.credit > 0:
                return False
        return any(channel.needs_checkpoint or not channel.holds_nothing for channel in data.channels.values())

    def seconds(self, *, has_unmet_credit: bool, is_beside: bool) -> float:
        """How long to sleep at most; `has_unmet_credit`: a receiver wants more."""
        channels = self._data.channels.values()
        holds_nothing = all(channel.holds_nothing for channel in channels)
        if holds_nothing and not has_unmet_credit:
            return numbers.IDLE_POLL_S
        if not (holds_nothing or is_beside) or not self._is_quiet():
            return numbers.BUSY_POLL_S
        next_at_ms = min((channel.next_at_ms for channel in channels), default=None)
        if next_at_ms is None:
            return numbers.IDLE_POLL_S
        left_s = (next_at_ms - self._data.clock.now_ms()) / 1000
        return min(numbers.IDLE_POLL_S, max(numbers.BUSY_POLL_S, left_s))

    def _is_quiet(self) -> bool:
        data = self._data
        if not data.is_settled or data.clock.monotonic_ms() - self._active_at_ms < numbers.QUIET_MS:
            return False
        return not any(
            channel.needs_checkpoint or channel.checkpoints.freeze is not None for channel in data.channels.values()
        )
