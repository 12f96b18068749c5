"""Partitions of keys, as Kafka's Java clients compute them.

tests/golden/murmur2.json was written by `org.apache.kafka.common.utils.Utils` (tests/golden/Murmur2Vectors.java).
"""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jbm_kafka.core.murmur2 import murmur2, partition_for

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parents[1] / "golden/murmur2.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("vector", GOLDEN["vectors"], ids=lambda vector: vector["key"][:16])
def test_hash_and_partitions_equal_those_of_java(vector: dict[str, Any]) -> None:
    """The hash of UNIT-11: murmur2, as Java clients do."""
    key = bytes.fromhex(vector["key"])
    assert murmur2(key) == vector["murmur2"]
    assert [partition_for(key, count) for count in GOLDEN["partition_counts"]] == vector["partitions"]


def test_an_empty_key_hashes_too() -> None:
    assert murmur2(b"") == 275646681


@given(key=st.binary(max_size=200), count=st.integers(1, 10_000))
def test_every_key_has_a_partition_and_keeps_it(key: bytes, count: int) -> None:
    partition = partition_for(key, count)
    assert 0 <= partition < count
    assert partition_for(bytes(bytearray(key)), count) == partition
    assert -(2**31) <= murmur2(key) < 2**31
