"""A process with many queues and subscriptions: what one checkpoint takes of them, so that Kafka does not end it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jbm_kafka.core.destination import Queue
from jbm_kafka.memory.memory_kafka import MemoryCluster
from jbm_kafka.ports import Outgoing
from jbm_kafka.ports.completion import Completion
from jbm_kafka.ports.deliveries import Disposition
from jbm_kafka.ports.link import Link
from jbm_kafka.sidecar.checkpoints.checkpoint_parts import Settling, Transfer
from jbm_kafka.sidecar.checkpoints.checkpoint_schedule import GROUPS_MAX
from tests.sidecar.parts import group_worker_behind, link_of
from tests.sidecar.stepped import SteppedSidecar
from tests.support.manual_clock import ManualClock

QUEUES = 40
TRANSACTION_TIMEOUT_MS = 10_000
INTERVAL_MS = 60_000
"""What does not wait for it is seen."""


class Offsets:
    """What the cluster is asked by producers: each group's offsets take their time, and are counted by transaction."""

    def __init__(self, clock: ManualClock) -> None:
        self.each_ms = 0
        self._clock = clock
        self.groups: list[int] = []
        """By transaction that was begun, how many groups wrote their offsets in it; its mark counts as one."""

    def step(self, transactional_id: str, step: str) -> None:
        if not transactional_id.startswith("jbm.one.0"):
            return
        if step == "begin":
            self.groups.append(0)
        if step == "send_offsets":
            self.groups[-1] += 1
            self._clock.advance(self.each_ms)


@pytest.fixture
def process() -> Iterator[SteppedSidecar]:
    numbers = {
        "session_timeout_ms": 3_600_000,
        "transaction_timeout_ms": TRANSACTION_TIMEOUT_MS,
        "checkpoint_interval_ms": INTERVAL_MS,
    }
    made = SteppedSidecar("one", MemoryCluster(ManualClock(), waits=False), numbers=numbers)
    yield made
    made.crash()


@pytest.fixture
def offsets(process: SteppedSidecar) -> Offsets:
    offsets = Offsets(process.clock)
    process.cluster.faults.step = offsets.step
    return offsets


def receivers(process: SteppedSidecar, count: int) -> list[Link]:
    """One of each of so many queues, with a message to get."""
    links = [link_of(f"s{number}") for number in range(count)]
    for number, link in enumerate(links):
        queue = Queue(f"orders-{number}")
        link.demand.is_waiting, link.demand.credit = True, 1
        link.group_worker = process.sidecar.sources.attach(queue, link)
        link.is_attached = True
        with process.cluster.changed:
            process.cluster.append(Outgoing(queue.kafka_topic(""), 0, b"u", b"body"), None)
    return links


def test_forty_groups_were_written_in_one_transaction_which_kafka_ended_each_time(
    process: SteppedSidecar, offsets: Offsets
) -> None:
    """Of ACK-9, LOG-5: nothing is handed over before the first checkpoint, so nothing ever came."""
    offsets.each_ms = 500  # 20 s for all of them, and a transaction has 10
    links = receivers(process, QUEUES)
    process.run(lambda: all(link.buffer for link in links))
    assert max(offsets.groups) <= GROUPS_MAX


def test_a_checkpoint_that_takes_too_long_becomes_smaller_until_it_does_not(
    process: SteppedSidecar, offsets: Offsets
) -> None:
    """Of ACK-9: where four groups are too many for the time of a transaction, fewer are written at a time."""
    offsets.each_ms = TRANSACTION_TIMEOUT_MS * 3 // 10
    links = receivers(process, QUEUES)
    process.run(lambda: all(link.buffer for link in links))
    assert min(offsets.groups) <= 3


def test_commits_of_many_sessions_are_divided_as_well(process: SteppedSidecar, offsets: Offsets) -> None:
    """ACK-7: forty sessions with a queue each commit at once."""
    links = receivers(process, QUEUES)
    process.run(lambda: all(link.buffer for link in links))
    offsets.each_ms = 500
    begun = len(offsets.groups)
    transfers = []
    for link in links:
        delivery = link.pop()
        assert delivery is not None
        settling = Settling(group_worker_behind(link).data.channels[0], link.terms.session_id, [delivery.offset])
        part = group_worker_behind(link).checkpoint_part
        transfers.append(Transfer(about="a commit", sends=(), settlings=[(part, settling)]))
    for transfer in transfers:
        process.sidecar.submit(transfer)
    process.run(lambda: all(transfer.done.is_done for transfer in transfers))
    for transfer in transfers:
        transfer.done.wait(0.0, about="commit")
    assert max(offsets.groups[begun:]) <= 2 * GROUPS_MAX + 1


def test_who_waits_for_its_acknowledgement_comes_in_turn(process: SteppedSidecar, offsets: Offsets) -> None:
    """Of ACK-9: what one checkpoint leaves, the next ones take at once, and not an interval later each."""
    links = receivers(process, QUEUES)
    process.run(lambda: all(link.buffer for link in links))
    done = []
    for link in links:
        delivery = link.pop()
        assert delivery is not None
        done.append(Completion())
        link.settlement.dispositions.append(
            Disposition(acknowledged=[(delivery.lease, delivery.offset)], done=done[-1])
        )
    begun, begun_ms = len(offsets.groups), process.clock.monotonic_ms()
    process.run(lambda: all(each.is_done for each in done))
    assert len(offsets.groups) - begun <= 2 * (QUEUES // GROUPS_MAX + 1)
    assert process.clock.monotonic_ms() - begun_ms < INTERVAL_MS
