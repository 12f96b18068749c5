"""Work that is done for many at once, and tells which of them it cannot be done for. No Spark needed."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from jbm_spark.errors import SparkJobError

FAULTS_MAX = 8
"""More of them are no faults of single ones: the cluster's, or Spark's."""
Item = TypeVar("Item")
Done = TypeVar("Done")


@dataclass(frozen=True, slots=True)
class AtFault(Generic[Item]):
    """One that it could not be done for."""

    item: Item
    why: str


def by_halves(items: Sequence[Item], work: Callable[[Sequence[Item]], Done]) -> Iterator[Done | AtFault[Item]]:
    """Yield what came of the work, done for all at once; where it fails, for each half by itself, and so on.

    Raises:
        SparkJobError: it fails for more than FAULTS_MAX of them; what is done stays done.
    """
    waiting, faults = [items] if items else [], 0
    while waiting:
        part = waiting.pop()
        try:
            yield work(part)
        except SparkJobError as error:
            if len(part) > 1:
                half = len(part) // 2
                waiting += [part[half:], part[:half]]
                continue
            faults += 1
            if faults > FAULTS_MAX:
                raise
            yield AtFault(part[0], str(error))
