"""The health of several bridges of a process, for its probes."""

from __future__ import annotations

from collections.abc import Sequence

from jbm_kafka.bridge.bridge import Bridge
from jbm_kafka.core.statistics import Health


class BridgesTogether:
    """Ready when each of them is."""

    def __init__(self, bridges: Sequence[Bridge]) -> None:
        self._bridges = bridges

    def health(self, timeout: float | None) -> Health:
        """How they fare."""
        found = [bridge.health(timeout) for bridge in self._bridges]
        reasons = tuple(dict.fromkeys(reason for each in found for reason in each.reasons))
        return Health(all(each.is_alive for each in found), all(each.is_ready for each in found), reasons)
