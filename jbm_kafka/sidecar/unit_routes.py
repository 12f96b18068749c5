"""Notices units that stand in another partition than their hash says: some other client sends them there.

Then what we send of the same unit goes elsewhere, and the unit is processed in two places at once. Told once a queue.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from jbm_kafka.core.reference import Reference
from jbm_kafka.core.unit_places import UnitPlaces
from jbm_kafka.core.wrong_values import shown

log = logging.getLogger(__name__)

LOOKED_AT_MAX = 64
"""Messages of one batch and partition: a client that hashes otherwise is noticed at once by any of its messages, and
the hot path hardly notices the look."""
UNITS_MAX = 100_000
"""Known units of one partition; then it begins anew."""


class UnitRoutes:
    """Of one channel group. Owner thread only."""

    def __init__(self, queue: str, places_of: Callable[[], UnitPlaces | None]) -> None:
        """`places_of` tells where units are; None: not known now."""
        self._queue = queue
        self._places_of = places_of
        self._known: dict[int, set[bytes | None]] = {}
        self._is_told = False

    def look(self, partition: int, references: Sequence[Reference]) -> None:
        """Look at the units of some messages that were fetched from the partition, each unit once."""
        if self._is_told:
            return
        known = self._known.get(partition)
        if known is None or len(known) > UNITS_MAX:
            known = self._known[partition] = {None}
        units = {reference.unit for reference in references[:LOOKED_AT_MAX]}
        if units <= known:
            return
        places = self._places_of()
        # While partitions are admitted, and while paths end, others may know already what this process reads soon.
        if places is None or places.next_partitions:
            return
        for unit in units - known:
            assert unit is not None, self._queue
            if (path := places.paths.get(unit)) is not None and path.ending:
                continue
            known.add(unit)
            if (home := places.home(unit)) != partition:
                self._log_misplaced(unit, partition, home)
                return

    def _log_misplaced(self, unit: bytes, partition: int, home: int) -> None:
        self._is_told = True
        log.warning(
            "%s: messages of unit %s are in partition %d and belong into %d: a client that hashes keys otherwise sends "
            "to this queue, and what others send of its units is processed beside, not after. Set "
            "partitioner=murmur2_random there (librdkafka: Python, Go, .NET, Node); Java clients need nothing. "
            "jbm-kafka show counts such messages",
            self._queue,
            shown(unit.decode(errors="replace")),
            partition,
            home,
        )
