"""What is paused, as the registry said when it was read last. Every process follows by itself (decision 38)."""

from __future__ import annotations

from datetime import UTC, datetime

from jbm_kafka.codec.pause_record import NOTHING, Pause, decode_pause, pause_key
from jbm_kafka.core.destination import Destination
from jbm_kafka.core.errors import IllegalStateError
from jbm_kafka.sidecar.registry_log import RegistryLog


class Pauses:
    """Any thread."""

    def __init__(self, registry: RegistryLog) -> None:
        self._registry = registry
        self._read: dict[str, tuple[bytes, Pause]] = {}
        """By name: the latest record, and what it says."""

    def of(self, name: str) -> Pause:
        """What of this destination is paused."""
        value = self._registry.get(pause_key(name))
        if value is None:
            return NOTHING
        known = self._read.get(name)
        if known is None or known[0] != value:
            known = self._read[name] = value, decode_pause(value)
        return known[1]

    def check_sendable(self, destination: Destination) -> None:
        """Return when messages may be sent there.

        Raises:
            IllegalStateError: sending is paused.
        """
        halt = self.of(destination.name).production
        if halt is not None:
            since = datetime.fromtimestamp(halt.since_ms / 1_000, UTC).strftime("%Y-%m-%d %H:%M:%S")
            raise IllegalStateError(
                f"{destination}: sending is paused by {halt.by} since {since} UTC, and nothing was sent; when it may "
                f"go on: jbm-kafka resume {destination.name}",
                destination=destination.name,
                by=halt.by,
                since_ms=halt.since_ms,
            )
