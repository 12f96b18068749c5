"""What the log says while a group gives a new member nothing. docs/logging.md lists the line."""

from __future__ import annotations

import logging

from jbm_kafka.core.destination import Queue
from jbm_kafka.ports import GroupConsumer
from jbm_kafka.sidecar.group_data import GroupData

log = logging.getLogger("jbm_kafka.partitions")

PATIENCE_MS = 4_000
"""More than the 3 s that a broker lets an empty group wait for more members (group.initial.rebalance.delay.ms)."""


class FirstPartitions:
    """The wait of one member for its first partitions, from now on. The owner thread's."""

    def __init__(self, data: GroupData) -> None:
        self._data = data
        self._since_ms = data.clock.monotonic_ms()
        self._is_over = data.group.is_temporary
        """It has some, or it was told that it has none."""

    def look(self, consumer: GroupConsumer) -> None:
        """Tell once, when it takes long."""
        if self._is_over:
            return
        if consumer.assignment():
            self._is_over = True
            return
        waited_ms = self._data.clock.monotonic_ms() - self._since_ms
        if waited_ms >= PATIENCE_MS:
            self._is_over = True
            group = self._data.group
            why = _OTHERS_HAVE_THEM if consumer.joined() else _BEING_SHARED
            text = why.format(group=group.group_id)
            log.info("%s: no partition yet, after %.0f s: %s%s", group, waited_ms / 1000, text, self._remedy)

    @property
    def _remedy(self) -> str:
        destination = self._data.group.destination
        if self._data.config.is_in_memory or not isinstance(destination, Queue):
            return ""
        return f"; who they are: jbm-kafka explain {destination.name}"


_OTHERS_HAVE_THEM = (
    "the other members of group {group} have them all, or give some up, for which they have their revoke_drain_ms"
)
_BEING_SHARED = (
    "group {group} shares them anew, and waits for its members: for one whose sessions hold messages up to its "
    "revoke_drain_ms, for one that died up to its session_timeout_ms"
)
