"""Memory as Python counts it, byte by byte, beside what a group worker was allowed."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator
from itertools import repeat
from pathlib import Path

import pytest

from jbm_kafka.browsing.intake import reference_of
from jbm_kafka.core.channel.changes import Fetched
from jbm_kafka.sidecar.stages.flow import Flow
from jbm_kafka.store.held import RocksHeldStore
from jbm_kafka.store.rocks import Rocks
from tests.sidecar.parts import group_worker_of
from tests.sidecar.test_flow import LATER_MS, NOW_MS, GroupWorkerUnderTest
from tests.support.store_parts import MadeRecord

BUDGET_BYTES = 4 << 20
BODY_BYTES = 1_000
FETCH = 100
COUNT = 15_000
"""Of each kind: some four times the budget."""


class OnDisk(GroupWorkerUnderTest):
    """What leaves memory is in RocksDB, of which Python counts nothing; each message has a body of its own."""

    def __init__(self, rocks: Rocks) -> None:
        super().__init__(BUDGET_BYTES)
        self.flow = Flow(RocksHeldStore(rocks), share_bytes=lambda: BUDGET_BYTES)
        self.group_worker = group_worker_of(self.channel, flow=self.flow)

    def receive(self, units: list[str | None], due_ms: int) -> None:
        """One fetch: a message of each unit named, to be delivered then."""
        begin = self.state.read_position
        headers = [("JMSDeliveryTime", b"%d" % due_ms)] if due_ms > NOW_MS else []
        references = [
            reference_of(
                MadeRecord(
                    begin + n, key=None if unit is None else unit.encode(), value=bytes(BODY_BYTES), headers=headers
                )
            )
            for n, unit in enumerate(units)
        ]
        self.state.apply(Fetched(begin, begin + len(references), references))

    def checkpoint(self) -> None:
        self.channel.take_freeze("jbm.test:1", ())
        self.channel.settle_freeze(durable=True)


@pytest.fixture
def on_disk(tmp_path: Path) -> Iterator[OnDisk]:
    rocks = Rocks(tmp_path / "rocks")
    yield OnDisk(rocks)
    rocks.close()


@pytest.fixture
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


def grown_bytes(before: int) -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0] - before


@pytest.mark.usefixtures("traced")
def test_memory_stays_within_the_budget_whatever_waits(on_disk: OnDisk) -> None:
    """LOG-9: messages for later, blocked units and units for later, some that came back, and a backlog behind it all.

    Only the backlog stops the reading, and it does so because nobody takes it.
    """
    blocked: list[str | None] = [f"blocked-{n}" for n in range(FETCH)]
    nobody: list[str | None] = [None] * FETCH
    before = tracemalloc.get_traced_memory()[0]
    kinds: list[tuple[str, Iterator[list[str | None]], int]] = [
        ("delayed messages", repeat(nobody, COUNT // FETCH), LATER_MS),
        ("heads of units", repeat(blocked, 1), LATER_MS),
        ("blocked units", repeat(blocked, COUNT // FETCH), NOW_MS),
        ("delayed units", ([f"{k}-{n}" for n in range(FETCH)] for k in range(COUNT // FETCH)), LATER_MS),
    ]
    for what, fetches, due_ms in kinds:
        for units in fetches:
            on_disk.receive(units, due_ms)
            assert list(on_disk.drain(NOW_MS)) == []
        assert not on_disk.channel.memory.is_paused, what
        assert grown_bytes(before) < BUDGET_BYTES, what
    for _ in range(4):
        on_disk.receive(nobody, NOW_MS)
        on_disk.give_back_all(LATER_MS)
        on_disk.checkpoint()
        on_disk.turn()
    assert not on_disk.channel.memory.is_paused
    assert grown_bytes(before) < BUDGET_BYTES, "what came back"
    while not on_disk.channel.memory.is_paused:
        on_disk.receive(nobody, NOW_MS)
        on_disk.turn()
    assert grown_bytes(before) < BUDGET_BYTES, "backlog"
    count = on_disk.state.read_position
    assert count > 3 * COUNT
    assert sorted(on_disk.drain(LATER_MS)) == list(range(count)), "each comes, and comes once"
