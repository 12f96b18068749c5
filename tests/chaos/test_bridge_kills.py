"""Bridges while bridges and Artemis are killed: within a cluster and to another, and from Artemis to Kafka and back;
`make kills-bridge` has both full size, and kills brokers, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.bridge_kills import across_clusters, faults, over_artemis

pytestmark = pytest.mark.timeout(400)


@pytest.mark.thorough
def test_nothing_is_lost_twice_or_out_of_order_within_a_cluster_and_in_another(tmp_path: Path) -> None:
    """BRIDGE-1, BRIDGE-2, BRIDGE-5: each bridge is killed once at least, by this seed."""
    assert across_clusters(tmp_path, count=3_000, seconds=20.0, brokers=1, seed=45) == []


@pytest.mark.thorough
def test_nothing_is_lost_twice_or_out_of_order_from_artemis_to_kafka_and_back(tmp_path: Path) -> None:
    """BRIDGE-2, BRIDGE-3, BRIDGE-5: each is killed once at least, by this seed."""
    assert over_artemis(tmp_path, count=4_000, seconds=20.0, brokers=1, seed=45) == []


def test_the_checker_sees_each_kind_of_fault() -> None:
    right = list(range(1_000))
    assert faults(right, 1_000, "right") == []
    assert faults([number for number in right if number != 7], 1_000, "x") == ["x: lost [7]"]
    assert faults([*right, 999], 1_000, "x") == ["x: 1 are there twice"]
    assert faults([200, 0, *right[1:200], *right[201:]], 1_000, "x") == ["x: out of order [0]"]
