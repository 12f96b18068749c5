"""Who receives in another namespace than the others of its queue is warned: it gets every message, too."""

from __future__ import annotations

import logging
from typing import NoReturn

import pytest

from jbm_kafka.core.destination import Queue
from jbm_kafka.memory.memory_admin import MemoryAdmin
from jbm_kafka.memory.memory_kafka import MemoryCluster
from jbm_kafka.ports import KafkaClientError
from jbm_kafka.registry.other_namespaces import namespaces_among
from tests.sidecar.stepped import SteppedSidecar


def started(cluster: MemoryCluster, name: str, namespace: str) -> SteppedSidecar:
    process = SteppedSidecar(name, cluster, numbers={"namespace": namespace})
    process.attach("s")
    process.run(lambda: bool(process.group_worker.data.channels))
    process.run_for(1_000)
    return process


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [row.getMessage() for row in caplog.records if row.levelno >= logging.WARNING]
    caplog.clear()
    return found


def test_a_worker_in_a_wrong_namespace_said_nothing_but_open(
    cluster: MemoryCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """It got all messages, beside those who should. Told once, by who comes later."""
    right = started(cluster, "one", "")
    assert warnings(caplog) == []
    wrong = started(cluster, "two", "shop")
    assert warnings(caplog) == [
        "queue:orders: this process receives in namespace 'shop', and others receive from the same topic in no "
        "namespace: each of them gets every message. If that is not meant, correct the namespace of one of them"
    ]
    right.crash()
    wrong.crash()


def test_groups_of_other_queues_are_of_no_other_namespace() -> None:
    groups = ["jbm.queue.orders", "shop.jbm.queue.orders", "shop.jbm.queue.orders2", "jbm.queue.a.orders", "orders"]
    assert sorted(namespaces_among(Queue("orders"), groups)) == ["", "shop"]


def test_a_cluster_that_lists_no_groups_is_no_fault(
    cluster: MemoryCluster, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(admin: MemoryAdmin) -> NoReturn:
        raise KafkaClientError("not you")

    monkeypatch.setattr(MemoryAdmin, "groups", refused)
    started(cluster, "one", "shop").crash()
    assert warnings(caplog) == []
