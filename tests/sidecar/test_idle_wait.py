"""How long a group worker sleeps: a process that waited for messages took a tenth of a processor."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jbm_kafka.core.channel.settlement import Modified
from jbm_kafka.memory.memory_kafka import MemoryCluster
from jbm_kafka.ports.deliveries import Delivery
from jbm_kafka.ports.link import Link
from jbm_kafka.sidecar.channel.tuning import BUSY_POLL_S, IDLE_POLL_S, QUIET_MS
from tests.sidecar.stepped import CHECKPOINTS, SteppedSidecar
from tests.support.manual_clock import ManualClock

LONG_MS = 1_000


@pytest.fixture
def process() -> Iterator[SteppedSidecar]:
    process = SteppedSidecar("one", MemoryCluster(ManualClock(), waits=False))
    yield process
    process.crash()


@pytest.fixture
def link(process: SteppedSidecar) -> Link:
    """Of a receiver who has long been waiting for a message."""
    link = process.attach("s")
    link.demand.credit = 1
    process.run(lambda: process.group_worker.is_settled)
    process.run_for(LONG_MS)
    return link


def taken(process: SteppedSidecar, link: Link) -> Delivery:
    """A message that the application works on, while it waits for another."""
    process.send("a", unit=b"joe")
    process.run(lambda: len(link.buffer) == 1)
    delivery = link.pop()
    assert delivery is not None
    link.demand.credit = 1
    process.run_for(LONG_MS)
    return delivery


def sleeps_s(process: SteppedSidecar) -> float:
    turn = process.group_worker.turn
    return turn.rest_s(is_beside=turn.is_beside())


def test_who_only_waits_for_messages_looks_a_few_times_a_second(process: SteppedSidecar, link: Link) -> None:
    assert link.demand.credit == 1
    assert sleeps_s(process) == IDLE_POLL_S


def test_what_somebody_works_on_beside_who_waits_is_heard_of_at_once(process: SteppedSidecar, link: Link) -> None:
    """Asleep in Kafka's client it hears no acknowledgement."""
    delivery = taken(process, link)
    assert sleeps_s(process) == BUSY_POLL_S
    delivery.lease.acknowledge(delivery.offset)
    process.run_for(LONG_MS)
    assert sleeps_s(process) == IDLE_POLL_S


def test_where_whoever_asks_wakes_it_it_sleeps_long(process: SteppedSidecar, link: Link) -> None:
    """All work, and nobody waits for a message."""
    taken(process, link)
    link.demand.is_waiting = False
    assert process.group_worker.turn.is_beside()
    assert sleeps_s(process) == IDLE_POLL_S


def test_after_somebody_asked_for_something_it_looks_often_for_a_while(process: SteppedSidecar, link: Link) -> None:
    process.group_worker.wake()
    process.run_for(QUIET_MS // 2)
    assert sleeps_s(process) == BUSY_POLL_S
    process.run_for(QUIET_MS)
    assert sleeps_s(process) == IDLE_POLL_S


def test_what_is_not_recorded_yet_is_no_quiet(process: SteppedSidecar, link: Link) -> None:
    """Whoever waits for the record is told by this thread."""
    delivery = taken(process, link)
    process.held = {CHECKPOINTS}
    delivery.lease.acknowledge(delivery.offset)
    process.run_for(LONG_MS)
    assert sleeps_s(process) == BUSY_POLL_S


def test_a_delay_that_ends_soon_is_not_slept_over(process: SteppedSidecar, link: Link) -> None:
    delivery = taken(process, link)
    link.give_back([(delivery, Modified(delivery.offset, counted=True, delay_ms=5_000))])
    process.run_for(LONG_MS)
    assert sleeps_s(process) == IDLE_POLL_S
    due_at_ms = process.group_worker.data.channels[0].next_at_ms
    process.run(lambda: process.clock.now_ms() >= due_at_ms - 20)
    assert BUSY_POLL_S < sleeps_s(process) <= 0.02
