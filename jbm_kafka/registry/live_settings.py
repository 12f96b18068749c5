"""The address settings in force: a factory's, and over them the registry's, followed while the process runs.

Decision 35 says which value wins, and when a change takes effect.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping

from jbm_kafka.codec.settings_record import decode_settings, patterns_in
from jbm_kafka.core.jms_errors import CorruptRecordError, InvalidSettingError, NewerRecordError
from jbm_kafka.core.settings.address_pattern import checked_pattern
from jbm_kafka.core.settings.address_settings import (
    AddressSettings,
    AddressSettingsRepository,
    Overridden,
    ResolvedSettings,
    default_addresses,
    shipped_settings,
)
from jbm_kafka.core.temporary_name import settings_name
from jbm_kafka.registry.own_addresses import addresses_of
from jbm_kafka.registry.registry_log import RegistryLog

lines = logging.getLogger("jbm_kafka.settings")


class LiveSettings:
    """The settings in force now; those of the factory until the registry is first read. Any thread may call it."""

    def __init__(self, registry: RegistryLog, ours: Mapping[str, AddressSettings], *, namespace: str = "") -> None:
        """`ours`: the factory's, by pattern."""
        self._registry = registry
        self._namespace = namespace
        self._addresses = ""
        """The namespace whose default addresses hold."""
        self._ours = ours
        self._repository = AddressSettingsRepository(ours)
        self._lock = threading.Lock()
        self._version = -1
        self._recorded: dict[str, bytes] = {}
        self._is_loaded = False
        self._is_news = False
        """Whoever follows has not heard yet of what was taken: sends and receivers take it, too, on other threads."""
        self._logged: set[str] = set()
        """Differences and unreadable parts, each logged once."""

    def resolve(self, name: str) -> ResolvedSettings:
        """Return what holds for the destination of this name now."""
        return self._repository.resolve(settings_name(name))

    def takes_copies(self, name: str) -> bool:
        """The name is some destination's dead-letter or expiry address."""
        return self._repository.takes_copies(name)

    def is_default_address(self, name: str) -> bool:
        """The name is that of a queue that takes messages where no setting names any."""
        return name in default_addresses(self._addresses)

    def load(self) -> None:
        """Have read the registry once.

        Raises:
            KafkaClientError: no answer.
        """
        if not self._is_loaded:
            self._registry.refresh()
            self.take()
            with self._lock:
                if not self._is_loaded:  # nobody goes by any others yet; two threads may load at once
                    self._is_news, self._is_loaded = False, True

    def follow(self) -> bool:
        """Look, without waiting, whether the registry says something else by now; True when it does.

        What `take` found since the last call counts, too, so that no change passes those by who are told of it here.
        """
        self._registry.follow()
        self.take()
        with self._lock:
            is_news, self._is_news = self._is_news, False
        return is_news

    def take(self) -> None:
        """Go by what was read of the registry."""
        with self._lock:
            if self._version == self._registry.version:
                return
            self._version = self._registry.version
            recorded = dict(patterns_in(self._registry.values()))
            addresses = addresses_of(self._namespace, self._registry.values())
            if (recorded, addresses) == (self._recorded, self._addresses):
                return
            self._is_news = True
            before, self._recorded, self._addresses = self._recorded, recorded, addresses
            known = {pattern: self._decoded(pattern, value) for pattern, value in recorded.items()}
            overrides = {pattern: settings for pattern, settings in known.items() if settings is not None}
            defaults = shipped_settings(addresses)
            self._repository = AddressSettingsRepository(self._ours, defaults, overrides=overrides)
        for pattern in sorted(before.keys() | recorded.keys()):
            if before.get(pattern) != recorded.get(pattern):
                lines.info("address settings of %r in the registry: %s", pattern, _shown(overrides.get(pattern)))

    def warn_of_differences(self, names: Iterable[str]) -> None:
        """Tell once what the factory says of these destinations and does not hold."""
        repository = self._repository
        for name in names:
            for each in repository.overridden(name):
                self._log_once(_difference(each, name), key=_difference(each, each.pattern))

    def _decoded(self, pattern: str, value: bytes) -> AddressSettings | None:
        try:
            checked_pattern(pattern)
            record, faults = decode_settings(value)
        except (CorruptRecordError, NewerRecordError, InvalidSettingError) as error:
            self._log_once(f"address settings of {pattern!r} in the registry mean nothing to this version: {error}")
            return None
        for fault in faults:
            self._log_once(f"address settings of {pattern!r} in the registry: passed over here: {fault}")
        return record.settings

    def _log_once(self, line: str, *, key: str = "") -> None:
        key = key or line
        if key not in self._logged:
            self._logged.add(key)
            lines.warning("%s", line)


def _difference(each: Overridden, name: str) -> str:
    return (
        f"{each.setting} of {name!r} is {each.by_value!r}, as the registry says for {each.by_pattern!r}, and not "
        f"{each.value!r}, as was given to this process for {each.pattern!r}: the registry wins. To have what was "
        f"given: jbm-kafka settings unset '{each.by_pattern}' {each.setting}"
    )


def _shown(settings: AddressSettings | None) -> str:
    given = {} if settings is None else settings.given()
    return ", ".join(f"{name}={value!r}" for name, value in given.items()) or "nothing any more"
