"""How much of the processor Spark has used on this machine, for measures; no Spark needed to import it."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def processor_seconds(spark: "SparkSession") -> float | None:
    """Return the time of the driver's JVM, which runs a local master's tasks too, and of the Python workers below
    it."""
    try:
        top = spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]
    except AttributeError:
        return None
    ticks, parents = _processes()
    if top not in ticks:
        return None
    below = {pid for pid in ticks if top in _line(pid, parents)}
    return sum(ticks[pid] for pid in below) / 100


def _processes() -> tuple[dict[int, int], dict[int, int]]:
    """Ticks of the processor that each took, with those of its ended children, and each one's parent."""
    ticks, parents = {}, {}
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = place.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        pid = int(place.parent.name)
        parents[pid], ticks[pid] = int(fields[1]), sum(map(int, fields[11:15]))
    return ticks, parents


def _line(pid: int, parents: Mapping[int, int]) -> Iterator[int]:
    """The process and those that it comes from."""
    found: int | None = pid
    while found is not None:
        yield found
        found = parents.get(found)
