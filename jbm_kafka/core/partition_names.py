"""How partitions are named in a line for people."""

from collections.abc import Collection
from itertools import pairwise


def named(partitions: Collection[int]) -> str:
    """`partition 3`, `partitions 0-3, 7`."""
    ordered = sorted(partitions)
    begins = [*ordered[:1], *(later for earlier, later in pairwise(ordered) if later != earlier + 1)]
    ends = [*(earlier for earlier, later in pairwise(ordered) if later != earlier + 1), *ordered[-1:]]
    runs = [str(first) if first == last else f"{first}-{last}" for first, last in zip(begins, ends, strict=True)]
    return f"{'partition' if len(ordered) == 1 else 'partitions'} {', '.join(runs)}"
