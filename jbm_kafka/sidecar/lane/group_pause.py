"""Whether a group worker may hand over at all, and what the log says of it: to who waits a paused queue looks empty.

docs/logging.md lists the lines.
"""

from __future__ import annotations

import logging

from jbm_kafka.sidecar.group_data import GroupData
from jbm_kafka.sidecar.pauses import Pausing

log = logging.getLogger("jbm_kafka.sidecar.turn")
"""Where its lines have always been: people set levels by the names."""


class GroupPause:
    """Of one channel group; its owner thread's."""

    def __init__(self, data: GroupData, pausing: Pausing) -> None:
        self._data = data
        self._pausing = pausing
        self._is_told = False
        """Somebody who waited has heard of the pause that is in force, and is to hear of its end."""

    def is_in_force(self) -> bool:
        """Nothing may be handed over now. Each consumer that waits is told once, and that it is over."""
        destination = self._data.group.destination
        is_paused = self._pausing.is_paused(destination.name)
        if is_paused:
            self._tell_who_waits()
        elif self._is_told:
            self._is_told = False
            for link in self._data.links.values():
                link.notices.has_heard_of_pause = False
            # At the level of the pause: who logs warnings alone is to see that it is over.
            log.warning("%s: receiving is not paused any more, and goes on", destination)
        return is_paused

    def _tell_who_waits(self) -> None:
        destination = self._data.group.destination
        for link in self._data.links.values():
            if link.demand.is_waiting and not link.notices.has_heard_of_pause:
                link.notices.has_heard_of_pause = self._is_told = True
                log.warning("%s: %s", destination, self._pausing.why_nothing_comes(destination.name))
