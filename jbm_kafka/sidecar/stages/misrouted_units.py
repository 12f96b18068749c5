"""Notices units that stand in another partition than their hash says: some other client sends them there.

Then what we send of the same unit goes elsewhere, and the unit is processed in two places at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jbm_kafka.core.channel.reference import Reference
from jbm_kafka.core.channel.unit_places import UnitPlaces

LOOKED_AT_MAX = 64
"""Messages of one batch and partition: a client that hashes otherwise is noticed at once by any of its messages, and
the hot path hardly notices the look."""
UNITS_MAX = 10_000
"""Known units of one partition, some 100 bytes each; then it begins anew."""


class UnitRoutes:
    """The routes of one channel group. Owner thread only."""

    def __init__(self, places_of: Callable[[], UnitPlaces | None], note: Callable[[int, Reference, int], None]) -> None:
        """`places_of` tells where units are, None: not known now; `note` gets each message that is misplaced, its
        partition and that of its unit."""
        self._places_of = places_of
        self._note = note
        self._known: dict[int, set[bytes | None]] = {}
        """The units that belong to a partition, by partition."""

    def look(self, partition: int, references: Sequence[Reference]) -> None:
        """Report the messages whose unit belongs to another partition than the one that they were fetched from.

        At most the first LOOKED_AT_MAX messages are looked at, and units that were found right before are passed over.
        """
        known = self._known.get(partition)
        if known is None or len(known) > UNITS_MAX:
            known = self._known[partition] = {None}
        looked_at = references[:LOOKED_AT_MAX]
        units = {reference.unit for reference in looked_at}
        if units <= known:
            return
        places = self._places_of()
        if places is None:
            return
        misplaced: dict[bytes | None, int] = {}
        for unit in units - known:
            assert unit is not None
            # While paths end others may know already what this process reads soon.
            if (path := places.paths.get(unit)) is not None and path.ending:
                continue
            if not places.may_be_in(unit, partition):
                misplaced[unit] = places.home(unit)
            elif not places.next_partitions:  # after an admission it may be elsewhere
                known.add(unit)
        if misplaced:
            for reference in looked_at:
                if (home := misplaced.get(reference.unit)) is not None:
                    self._note(partition, reference, home)
