"""What the log says of a member that lost its partitions and gets no others."""

from __future__ import annotations

import logging

import pytest

from jbm_kafka.core.channel_state import ChannelState
from jbm_kafka.memory.memory_kafka import MemoryCluster, MemoryKafka
from jbm_kafka.sidecar.awaited_partitions import LONG_MS, PATIENCE_MS, AwaitedPartitions
from jbm_kafka.sidecar.channel_opener import ChannelOpener
from jbm_kafka.sidecar.group_data import GroupData
from jbm_kafka.sidecar.slewed_clock import SlewedClock
from tests.sidecar.parts import channel_of, group_worker_of
from tests.support.manual_clock import ManualClock


class _NeverOpens(ChannelOpener):
    def __init__(self) -> None:
        pass

    def open(self, *args: object, **settings: object) -> None:
        pass


@pytest.mark.parametrize("is_lost", [True, False], ids=["lost", "passed on"])
def test_a_worker_that_stayed_without_partitions_after_an_outage_said_nothing(
    caplog: pytest.LogCaptureFixture, is_lost: bool
) -> None:
    """Of CONN-3: for minutes, while Kafka answered. Once a wait; nothing while it has some, or if it passed them on."""
    caplog.set_level(logging.INFO, "jbm_kafka.partitions")
    clock = ManualClock()
    channel = channel_of(ChannelState())
    worker = group_worker_of(channel, opener=_NeverOpens())
    data = GroupData(worker.data.group, clock=SlewedClock(clock), config=worker.data.config)
    consumer = MemoryKafka(MemoryCluster(clock, waits=False)).group_consumer(
        group="g", topic="t", partitions=1, listener=worker.assignment, session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000, memory_bytes=1,
    )  # fmt: skip
    assignment = worker.assignment
    awaited = AwaitedPartitions(data, worker.membership)
    for _ in range(2):
        data.channels[0] = channel
        awaited.look(consumer)
        clock.advance(10 * LONG_MS)
        awaited.look(consumer)
        data.channels.clear()
        assignment.on_assigned([0])
        if is_lost:
            assignment.on_lost([0])
        else:
            assignment.on_revoked([0])
        caplog.clear()
        awaited.look(consumer)
        clock.advance(LONG_MS - 1)
        awaited.look(consumer)
        assert not caplog.records
        for __ in range(3):
            clock.advance(PATIENCE_MS)
            awaited.look(consumer)
        if not is_lost:
            assert not caplog.records
            continue
        [line] = caplog.records
        assert line.levelno == logging.WARNING
        assert line.getMessage().startswith(f"{data.group}: no partition for 64 s: the other members of group ")
        assert line.getMessage().endswith(f"; who they are: jbm-kafka explain {channel.topic}")
