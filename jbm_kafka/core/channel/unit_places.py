"""In which partition a unit of order is, also while its queue gets more of them (UNIT-11).

Values and their only changes; decision 41 says which process waits how long between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from jbm_kafka.core.murmur2 import partition_for


@dataclass(frozen=True, slots=True)
class Path:
    """Says where one unit is, whatever its hash says."""

    partition: int
    ending: str = ""
    """Mark of the run that is about to delete it; empty: nobody is."""


@dataclass(frozen=True, slots=True)
class UnitPlaces:
    """The record of one destination's units."""

    partitions: int
    """Units without a path are routed by this count."""
    next_partitions: int = 0
    """The count by which they are soon; 0: no admission is running."""
    admission: str = ""
    """Mark of the one that is."""
    paths: Mapping[bytes, Path] = field(default_factory=dict)

    def partition(self, unit: bytes) -> int | None:
        """Where the unit's next message goes; None: that must be claimed first."""
        path = self.paths.get(unit)
        if path is not None:
            return None if path.ending else path.partition
        found = partition_for(unit, self.partitions)
        if self.next_partitions and partition_for(unit, self.next_partitions) != found:
            return None
        return found

    def home(self, unit: bytes) -> int:
        """Where the unit's messages are, as far as our senders sent them."""
        path = self.paths.get(unit)
        return partition_for(unit, self.partitions) if path is None else path.partition

    def may_be_in(self, unit: bytes, partition: int) -> bool:
        """A sender of ours may have put it there: others may know already that the admission that runs has ended."""
        if partition == self.home(unit):
            return True
        return self.next_partitions > 0 and partition == partition_for(unit, self.next_partitions)

    def claimed(self, units: Iterable[bytes]) -> UnitPlaces:
        """Every one of them may be sent to: nothing moves it, or it has a path that nobody ends."""
        paths = {unit: Path(self.home(unit)) for unit in units if self.partition(unit) is None}
        return replace(self, paths={**self.paths, **paths}) if paths else self

    def admitting(self, partitions: int, mark: str) -> UnitPlaces:
        """An admission of so many has begun; one that runs to the same count goes on under its own mark."""
        assert partitions > 0, partitions
        assert mark
        if partitions in (self.partitions, self.next_partitions):
            return self
        return replace(self, next_partitions=partitions, admission=mark)

    def admitted(self, mark: str, held: Iterable[bytes]) -> UnitPlaces | None:
        """It has ended, and of what the queue holds no unit was moved. None: it is not running any more.

        A unit's place is where our senders sent it; what others have put elsewhere is no reason to send there.
        """
        if self.admission != mark:
            return None
        count = self.next_partitions
        staying = {
            unit: Path(self.home(unit))
            for unit in held
            if unit not in self.paths and partition_for(unit, count) != self.home(unit)
        }
        return UnitPlaces(count, paths={**staying, **self.paths})

    def given_up(self, mark: str) -> UnitPlaces:
        """That admission will not end, and nothing has moved: the paths that were claimed say what is so anyway."""
        return replace(self, next_partitions=0, admission="") if self.admission == mark else self

    def ending(self, units: Iterable[bytes], mark: str) -> UnitPlaces:
        """The paths of these units are about to be deleted, by nobody but this run."""
        assert mark
        marked = {unit: replace(self.paths[unit], ending=mark) for unit in units if unit in self.paths}
        return replace(self, paths={**self.paths, **marked})

    def ended(self, mark: str, held: Iterable[bytes]) -> UnitPlaces:
        """Return it without the paths that still carry the mark; units of `held` keep theirs, and nobody ends them."""
        kept = set(held)
        paths = {
            unit: Path(path.partition) if path.ending == mark else path
            for unit, path in self.paths.items()
            if path.ending != mark or unit in kept
        }
        return replace(self, paths=paths)
