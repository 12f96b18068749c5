"""What a lane does when its partitions come and go."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from jbm_kafka.sidecar.link import Link
from jbm_kafka.sidecar.owned_channel import OwnedChannel
from jbm_kafka.testing.clock import ManualClock
from jbm_kafka.testing.memory_kafka import MemoryCluster
from tests.sidecar.stepped import CHECKPOINTS, QUEUE, SteppedSidecar

Start = Callable[[str], SteppedSidecar]


@pytest.fixture
def cluster() -> MemoryCluster:
    return MemoryCluster(ManualClock(), waits=False)


@pytest.fixture
def start(cluster: MemoryCluster) -> Iterator[Start]:
    """Makes processes that end with the test."""
    started: list[SteppedSidecar] = []

    def make(name: str) -> SteppedSidecar:
        started.append(SteppedSidecar(name, cluster))
        return started[-1]

    yield make
    for sidecar in started:
        sidecar.crash()


def one_frozen_channel(one: SteppedSidecar, link: Link, offsets: list[int]) -> OwnedChannel:
    """Acknowledged there, and the checkpoint that records it stops after the freeze."""
    one.run_for(200)
    channel = link.lane.channels[0]
    link.taps[0].acked.extend(offsets)
    one.run(lambda: channel.freeze is not None)
    one.held.add(CHECKPOINTS)
    return channel


def test_a_topic_made_again_while_a_checkpoint_of_the_old_one_is_under_way_loses_no_message(
    cluster: MemoryCluster, start: Start
) -> None:
    """LOG-2: what that checkpoint says is settled was settled in another topic."""
    one = start("one")
    link = one.attach("s")
    one.send(*(f"old {number}" for number in range(40)))
    offsets = one.receive(link, 40)
    old = one_frozen_channel(one, link, offsets[5:])

    cluster.delete_topic(QUEUE.kafka_topic(""))
    cluster.create_topic(QUEUE.kafka_topic(""), 1, {})
    one.run(lambda: old.is_lost)
    one.run_for(500)
    one.held.clear()
    lane = link.lane
    one.run(lambda: 0 in lane.channels and old.freeze is None)
    one.send(*(f"new {number}" for number in range(20)))
    one.run_for(500)
    one.crash()

    two = start("two")
    assert two.receive(two.attach("t"), 20) == list(range(20))
