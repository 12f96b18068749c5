"""How partitions are named in a line for people."""

from collections.abc import Collection

from jbm_kafka.core.channel.offset_ranges import ranges_of


def named(partitions: Collection[int]) -> str:
    """`partition 3`, `partitions 0-3, 7`."""
    runs = [str(run.first) if run.first == run.last else f"{run.first}-{run.last}" for run in ranges_of(partitions)]
    return f"{'partition' if len(partitions) == 1 else 'partitions'} {', '.join(runs)}"
