"""What the log says of a member that lost its partitions and gets no others."""

from __future__ import annotations

import logging

import pytest

from jbm_kafka.core.channel_state import ChannelState
from jbm_kafka.memory.memory_kafka import MemoryCluster, MemoryKafka
from jbm_kafka.sidecar.awaited_partitions import LONG_MS, PATIENCE_MS, AwaitedPartitions
from jbm_kafka.sidecar.group_data import GroupData
from jbm_kafka.sidecar.slewed_clock import SlewedClock
from tests.sidecar.parts import channel_of, group_worker_of
from tests.support.manual_clock import ManualClock


def test_a_worker_that_stayed_without_partitions_after_an_outage_said_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Of CONN-3: for minutes, while Kafka answered. Once a wait; and nothing while it has some."""
    caplog.set_level(logging.INFO, "jbm_kafka.partitions")
    clock = ManualClock()
    channel = channel_of(ChannelState())
    worker = group_worker_of(channel)
    data = GroupData(worker.data.group, clock=SlewedClock(clock), config=worker.data.config)
    consumer = MemoryKafka(MemoryCluster(clock, waits=False)).group_consumer(
        group="g", topic="t", partitions=1, listener=worker.assignment, session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000, memory_bytes=1,
    )  # fmt: skip
    awaited = AwaitedPartitions(data)
    for count in (1, 2):
        data.channels[0] = channel
        awaited.look(consumer)
        clock.advance(10 * LONG_MS)
        awaited.look(consumer)
        data.channels.clear()
        awaited.look(consumer)
        clock.advance(LONG_MS - 1)
        awaited.look(consumer)
        assert len(caplog.records) == count - 1
        for _ in range(3):
            clock.advance(PATIENCE_MS)
            awaited.look(consumer)
        assert len(caplog.records) == count
    assert caplog.records[0].levelno == logging.WARNING
    assert caplog.messages[0].startswith(f"{data.group}: no partition for 64 s: the other members of group ")
    assert caplog.messages[0].endswith(f"; who they are: jbm-kafka explain {channel.topic}")
