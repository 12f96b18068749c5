"""Where the units of destinations are, as the registry said last, and the claiming of those in motion (decision 41)."""

from __future__ import annotations

import threading
from collections.abc import Callable

from jbm_kafka.codec.unit_place_records import paths_in, place_changes, places_in
from jbm_kafka.core.channel.unit_places import UnitPlaces
from jbm_kafka.core.jms_errors import OrderError
from jbm_kafka.core.wrong_values import shown
from jbm_kafka.ports import AccessRefused, KafkaClientError
from jbm_kafka.registry.registry_log import Changes, RegistryLog, Values

LEASE_S = 60.0
"""No process routes by what it read of the registry longer ago. Shorter outages do not show."""
ON_ITS_WAY_S = 65.0
"""So long after it was routed a plain send has arrived or is given up: 30 s until there is room in the client's buffer,
30 s and a twentieth until it is reported, and a little for what the broker has in hand."""
SETTLED_AFTER_S = LEASE_S + ON_ITS_WAY_S + 5.0
"""So long after something was recorded nothing arrives any more that was routed without it."""
TRIES = 5
"""Claims of one send; others may end a path again as soon as it was claimed."""


class UnitPaths:
    """Where units are, and the claims of paths. Any thread may call it."""

    def __init__(self, log: RegistryLog) -> None:
        self._log = log
        self._version = -1
        """The version of the registry that these are of:"""
        self._values: Values = {}
        self._paths: dict[str, dict[bytes, bytes]] = {}
        """The paths by destination and unit."""
        self._read: dict[tuple[str, str], UnitPlaces | None] = {}
        """The places by destination and topic id, as far as anybody asked."""
        self.moved: frozenset[str] = frozenset()
        """Topics of which units were somewhere else, or not known to move, since this process knows them."""
        self._lock = threading.Lock()
        self._claiming = threading.Lock()
        self._renewing = threading.Lock()
        self._unread: KafkaClientError | None = None
        """The failure of the last reading of what was too old, if that has failed."""
        self._wanted: dict[tuple[str, str], set[bytes]] = {}
        """Units that are to be claimed, by destination and topic id: one change claims all of them."""

    @property
    def is_stale(self) -> bool:
        """Nobody may go by what was read any more."""
        return self._log.age_ms > LEASE_S * 1000

    def renew(self) -> None:
        """Read on to the end, if what was read is too old. Of many callers at once one asks Kafka, for all of them.

        Raises:
            KafkaClientError: no answer.
        """
        before = self._unread
        with self._renewing:
            if not self.is_stale:
                return
            if self._unread is not None and self._unread is not before:
                raise self._unread
            try:
                self._log.refresh()
            except KafkaClientError as error:
                self._unread = error
                raise

    def of(self, name: str, topic_id: str) -> UnitPlaces | None:
        """Where the destination's units are; None: nothing is recorded of this topic."""
        with self._lock:
            version = self._log.version
            if version != self._version:
                self._values, self._paths, self._read = self._log.values(), {}, {}
                for destination, unit, value in paths_in(self._values):
                    self._paths.setdefault(destination, {})[unit] = value
                self._version = version
            about = name, topic_id
            if about not in self._read:
                self._read[about] = places_in(self._values, name, topic_id, self._paths.get(name, {}))
            return self._read[about]

    def change(self, name: str, topic_id: str, changed: Callable[[UnitPlaces], UnitPlaces]) -> UnitPlaces | None:
        """Record what `changed` makes of what is recorded by then; what is recorded afterwards. None: nothing is.

        Raises:
            KafkaClientError: it cannot be recorded.
        """

        def decide(values: Values) -> Changes:
            before = places_in(values, name, topic_id)
            return {} if before is None else place_changes(name, topic_id, before, changed(before))

        self._log.update(decide)
        return self.of(name, topic_id)

    def claimed(self, name: str, topic_id: str, unit: bytes) -> int:
        """Where the unit's next message goes, whatever is in motion; recorded first where it must be.

        Raises:
            OrderError: it cannot be recorded, and nothing may be sent.
        """
        try:
            for _ in range(TRIES):
                found = self.of(name, topic_id)
                partition = None if found is None or self.is_stale else found.partition(unit)
                if partition is not None:
                    return partition
                self._claim(name, topic_id, unit)
        except AccessRefused as error:
            raise OrderError(
                f"{name}: nothing was sent: partitions are added, and this process may not record where unit "
                f"{shown(unit.decode(errors='replace'))} is ({error}); allow it to write topic {self._log.topic} and "
                f"the transactional id of that name, or send again when jbm-kafka admit-partitions has ended",
                destination=name,
                unit=unit,
            ) from None
        except KafkaClientError as error:
            raise self._failure(name, unit, str(error)) from None
        raise self._failure(name, unit, "others changed it each time")

    def note_moved(self, topic: str) -> None:
        """Look again from now on at what was routed to this topic earlier and is sent later."""
        with self._lock:
            self.moved |= {topic}

    def want_if_moving(self, name: str, topic_id: str, unit: bytes) -> None:
        """Have the unit claimed by the next `claim_wanted`, with others, if it must be before it is sent to."""
        found = self.of(name, topic_id)
        if found is not None and found.partition(unit) is None:
            self._want(name, topic_id, unit)

    def _want(self, name: str, topic_id: str, unit: bytes) -> None:
        with self._lock:
            self._wanted.setdefault((name, topic_id), set()).add(unit)

    def claim_wanted(self) -> None:
        """Claim what is wanted, in one change for each destination.

        Raises:
            KafkaClientError: it cannot be recorded.
        """
        for name, topic_id in list(self._wanted):
            with self._claiming:
                self._claim_all(name, topic_id)

    def _claim(self, name: str, topic_id: str, unit: bytes) -> None:
        self._want(name, topic_id, unit)
        with self._claiming:
            found = self.of(name, topic_id)
            if found is None or self.is_stale or found.partition(unit) is None:
                self._claim_all(name, topic_id)

    def _claim_all(self, name: str, topic_id: str) -> None:
        with self._lock:
            units = self._wanted.pop((name, topic_id), set())
        self.change(name, topic_id, lambda places: places.claimed(units))

    def _failure(self, name: str, unit: bytes, why: str) -> OrderError:
        return OrderError(
            f"{name}: nothing was sent: the partition of unit {shown(unit.decode(errors='replace'))} cannot be "
            f"recorded while partitions are added: {why}; send again",
            destination=name,
            unit=unit,
        )
