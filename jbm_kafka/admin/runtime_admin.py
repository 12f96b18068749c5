"""Changes settings, pauses and units on hold while processes run."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping

from jbm_kafka.admin.address_kinds import absent_addresses, check_kinds, unheard_addresses
from jbm_kafka.admin.cluster.admin_core import AdminCore
from jbm_kafka.admin.cluster.recorded_settings import (
    check_settings,
    own_addresses,
    recorded_settings,
    set_settings,
    unset_settings,
)
from jbm_kafka.admin.pausing import What, change, operator_name, parts_of
from jbm_kafka.codec.pause_record import Halt, Pause
from jbm_kafka.core.destination import Queue, Topic
from jbm_kafka.core.settings.address_settings import AddressSettings
from jbm_kafka.core.wrong_values import shown
from jbm_kafka.jms.base.arguments import checked_seconds

log = logging.getLogger(__name__)


class SettingsAdmin:
    """Settings that running processes go by. Any thread."""

    def __init__(self, core: AdminCore) -> None:
        self._core = core

    def recorded(self, pattern: str | None) -> dict[str, AddressSettings]:
        """Return what is recorded, by pattern."""
        with self._core.asking("look up address settings"):
            return recorded_settings(self._core.registry.log, pattern)

    def set(self, pattern: str, settings: AddressSettings) -> None:
        """Record settings for what the pattern matches."""
        with self._core.asking(f"set address settings of {shown(pattern)}"):
            check_settings(pattern, settings)
            check_kinds(pattern, settings, self._core.catalog, self._core.registry)
            absent = absent_addresses(pattern, settings, self._core.catalog)  # before: then running workers make it
            set_settings(self._core.registry.log, pattern, settings)
            unheard = unheard_addresses(settings, self._core.catalog)
        for warning in (*own_addresses(pattern, settings), *absent, *unheard):
            log.warning("%s", warning)

    def unset(self, pattern: str, names: tuple[str, ...]) -> bool:
        """Record nothing of these any more for the pattern; False: nothing was recorded."""
        with self._core.asking(f"unset address settings of {shown(pattern)}"):
            return unset_settings(self._core.registry.log, pattern, names)


class PauseAdmin:
    """Pauses destinations, and lets them go on. Any thread."""

    def __init__(self, core: AdminCore) -> None:
        self._core = core

    def pause(self, destination: Queue | Topic | str, what: What, by: str | None, wait_s: float) -> Pause:
        """Pause sending to it, receiving from it, or both."""
        halt = Halt(operator_name(by), self._core.cluster.clock.now_ms())
        return self._change_pause("pause", destination, dict.fromkeys(parts_of(what), halt), wait_s)

    def resume(self, destination: Queue | Topic | str, what: What, wait_s: float) -> Pause:
        """Let go on what was paused; what is still paused."""
        return self._change_pause("resume", destination, dict.fromkeys(parts_of(what)), wait_s)

    def paused(self, destination: Queue | Topic | str) -> Pause:
        """Return what of it is paused."""
        with self._core.asking(f"look whether {destination} is paused"):
            return self._core.registry.pauses.of(self._core.catalog.named(destination).name)

    def _change_pause(
        self, verb: str, destination: Queue | Topic | str, halts: Mapping[str, Halt | None], wait_s: float
    ) -> Pause:
        wait_s = checked_seconds("wait_s", wait_s)
        with self._core.asking(f"{verb} {destination}"):
            pause = change(self._core.registry.log, self._core.catalog.named(destination), halts)
            if self._core.cluster.heard is not None and wait_s:
                self._core.cluster.heard(wait_s)
                return pause
        time.sleep(wait_s)  # out here: a wait is nothing that a cluster refuses
        return pause
