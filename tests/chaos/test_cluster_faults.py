"""A round each of the faults that a cluster of three brokers meets; `make chaos-cluster` plays all that there are."""

from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest

from tests.chaos.cluster_faults import Scene, play
from tests.support.cluster import Cluster, three_brokers

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One for all, whole again after each fault."""
    with three_brokers(tmp_path_factory.mktemp("cluster")) as made:
        yield made


@pytest.mark.parametrize(
    "fault",
    [
        *("group_coordinator", "transaction_coordinator", "rolling_restart"),
        *(pytest.param(each, marks=pytest.mark.slow) for each in ("leader", "controller", "disk_wiped")),
    ],
)
def test_nothing_is_lost_doubled_or_out_of_order(cluster: Cluster, fault: str, tmp_path: Path) -> None:
    """CONN-3: dead letters are exact, transactions take all or nothing, and no worker is started again."""
    row = play(Scene(cluster, tmp_path, Event().wait), fault, seed=1, each=30, is_full=False)
    assert row.is_right, row


@pytest.mark.slow  # a dozen processes beside three brokers keep all else waiting
def test_nothing_is_lost_whatever_receives(cluster: Cluster, tmp_path: Path) -> None:
    """CONN-3: beside sessions a subscription, handlers, sidecars and a transaction manager, while a leader dies."""
    row = play(Scene(cluster, tmp_path, Event().wait), "leader_and_worker", seed=1, each=30)
    assert row.is_right, row
