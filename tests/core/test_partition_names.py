"""Partitions are named shortly in a line for people."""

import pytest

from jbm_kafka.core.channel.partition_names import named


@pytest.mark.parametrize(
    ("partitions", "text"),
    [
        ([3], "partition 3"),
        ([0, 1, 2, 3, 7], "partitions 0-3, 7"),
        ([5, 4], "partitions 4-5"),
        ([9, 2], "partitions 2, 9"),
    ],
)
def test_partitions_are_named_shortly(partitions: list[int], text: str) -> None:
    assert named(partitions) == text
