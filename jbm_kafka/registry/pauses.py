"""Pauses of destinations, as the registry said when it was read last. Every process follows by itself (decision 38)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from jbm_kafka.codec.pause_record import NOTHING, Halt, Pause, decode_pause, pause_key
from jbm_kafka.core.destination import Destination
from jbm_kafka.core.jms_errors import IllegalStateError
from jbm_kafka.ports import KafkaClientError
from jbm_kafka.registry.registry_log import RegistryLog


@dataclass(frozen=True, slots=True)
class Pausing:
    """A group worker's view of the pause of the destination of a name."""

    is_paused: Callable[[str], bool]
    """Nothing of it may be handed over."""
    why_nothing_comes: Callable[[str], str]
    """The reason to log for a receiver that waits for it then."""


class Pauses:
    """The pauses in force, as last read from the registry. Any thread may call it."""

    def __init__(self, registry: RegistryLog) -> None:
        self._registry = registry
        self.is_in_memory = False
        """No command of the terminal reaches it, so none is advised."""
        self._read: dict[str, tuple[bytes, Pause]] = {}
        """The latest record and its meaning, by name."""

    def of(self, name: str) -> Pause:
        """Return what of this destination is paused."""
        value = self._registry.get(pause_key(name))
        if value is None:
            return NOTHING
        known = self._read.get(name)
        if known is None or known[0] != value:
            known = self._read[name] = value, decode_pause(value)
        return known[1]

    def is_paused(self, name: str) -> bool:
        """Nothing of this destination may be handed over."""
        return self.of(name).consumption is not None

    def why_nothing_comes(self, name: str) -> str:
        """The reason to log for a receiver of a paused destination, which looks empty to it."""
        halt = self.of(name).consumption
        by = "" if halt is None else f" {_by_whom(halt)}"  # resumed since it was asked
        return f"receiving is paused{by}, so nothing comes; when it may go on: {self._resume(name)}"

    def check_sendable(self, destination: Destination) -> None:
        """Return when messages may be sent there.

        Raises:
            IllegalStateError: sending is paused.
        """
        halt = self.of(destination.name).production
        if halt is not None:
            # What is read every second would refuse a send right after `Admin.resume` has returned.
            with suppress(KafkaClientError):
                self._registry.refresh()
            halt = self.of(destination.name).production
        if halt is not None:
            raise IllegalStateError(
                f"{destination}: sending is paused {_by_whom(halt)}, and nothing was sent; when it may go on: "
                f"{self._resume(destination.name)}",
                destination=destination.name,
                by=halt.by,
                since_ms=halt.since_ms,
            )

    def _resume(self, name: str) -> str:
        return f"Admin.resume({name!r})" if self.is_in_memory else f"jbm-kafka resume {name}"


def _by_whom(halt: Halt) -> str:
    since = datetime.fromtimestamp(halt.since_ms / 1_000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    return f"by {halt.by} since {since} UTC"
