"""What a member says and does that lost its partitions and gets no others."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from jbm_kafka.core.channel.channel_state import ChannelState
from jbm_kafka.memory.memory_kafka import MemoryCluster, MemoryKafka
from jbm_kafka.sidecar.channel.channel_opener import ChannelOpener
from jbm_kafka.sidecar.channel.group_data import GroupData
from jbm_kafka.sidecar.channel.owned_channel import OwnedChannel
from jbm_kafka.sidecar.channel.slewed_clock import SlewedClock
from jbm_kafka.sidecar.lane.awaited_partitions import LONG_MS, PATIENCE_MS, AwaitedPartitions
from jbm_kafka.sidecar.lane.group_worker import GroupWorker
from tests.sidecar.parts import channel_of, group_worker_of
from tests.support.manual_clock import ManualClock


class _NeverOpens(ChannelOpener):
    def __init__(self) -> None:
        pass

    def open(self, *args: object, **settings: object) -> None:
        pass


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def channel() -> OwnedChannel:
    return channel_of(ChannelState())


@pytest.fixture
def worker(channel: OwnedChannel) -> GroupWorker:
    return group_worker_of(channel, opener=_NeverOpens())


@pytest.fixture
def data(worker: GroupWorker, clock: ManualClock) -> GroupData:
    return GroupData(worker.data.group, clock=SlewedClock(clock), config=worker.data.config)


class _Broken:
    """A group's client, as far as it is asked: without partitions, and with this many lost connections."""

    def __init__(self) -> None:
        self.count = 0

    def assignment(self) -> frozenset[int]:
        return frozenset()

    def breaks(self) -> int:
        return self.count


def lose(worker: GroupWorker, data: GroupData, channel: OwnedChannel, awaited: AwaitedPartitions) -> None:
    """It has a partition, and loses it."""
    data.channels[0] = channel
    awaited.look(_Broken())  # type: ignore[arg-type]
    data.channels.clear()
    worker.assignment.on_assigned([0])
    worker.assignment.on_lost([0])


def test_a_worker_whose_group_did_not_answer_after_an_outage_waited_for_five_minutes(
    worker: GroupWorker,
    data: GroupData,
    channel: OwnedChannel,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Of CONN-3: the answer to its request to join was lost, and librdkafka waits as long as for a rebalance. A new
    client joins a minute after the last lost connection, and again after two, four, …"""
    client, broken = worker.assignment.client, _Broken()
    awaited = AwaitedPartitions(data, worker.membership, client)
    for _ in range(2):
        lose(worker, data, channel, awaited)
        for _ in range(30):  # the outage
            awaited.look(broken)  # type: ignore[arg-type]
            clock.advance(5_000)
            broken.count += 1
            assert not client.is_outdated
        for wait_ms in (LONG_MS, 2 * LONG_MS, 4 * LONG_MS):
            awaited.look(broken)  # type: ignore[arg-type]
            clock.advance(wait_ms - 1)
            awaited.look(broken)  # type: ignore[arg-type]
            assert not client.is_outdated
            caplog.clear()
            clock.advance(1)
            awaited.look(broken)  # type: ignore[arg-type]
            assert client.is_outdated
            client.replaced()
            [line] = caplog.records
            assert (
                "though Kafka answers: this process joins group jbm.queue.orders with a new client" in line.getMessage()
            )


def test_the_minute_without_partitions_begins_when_kafka_is_back(
    worker: GroupWorker,
    data: GroupData,
    channel: OwnedChannel,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Of CONN-3: the warning came nine seconds after `Kafka answers again`, and the partitions a second later."""
    broken = _Broken()
    data.config = replace(data.config, session_timeout_ms=90_000)  # so that it does not join anew in that minute
    awaited = AwaitedPartitions(data, worker.membership, worker.assignment.client)
    lose(worker, data, channel, awaited)
    caplog.clear()
    for _ in range(30):  # the outage
        clock.advance(5_000)
        broken.count += 1
        awaited.look(broken)  # type: ignore[arg-type]
    clock.advance(LONG_MS - 1)
    awaited.look(broken)  # type: ignore[arg-type]
    assert caplog.messages == []
    clock.advance(1)
    awaited.look(broken)  # type: ignore[arg-type]
    assert caplog.messages[0].startswith(f"{data.group}: no partition for 205 s: ")


def test_where_a_session_may_be_gone_for_longer_its_group_has_more_time(
    worker: GroupWorker, data: GroupData, channel: OwnedChannel, clock: ManualClock
) -> None:
    data.config = replace(data.config, session_timeout_ms=90_000)
    client, broken = worker.assignment.client, _Broken()
    awaited = AwaitedPartitions(data, worker.membership, client)
    lose(worker, data, channel, awaited)
    for wait_ms, is_outdated in ((0, False), (90_000 + data.config.revoke_drain_ms, False), (PATIENCE_MS, True)):
        clock.advance(wait_ms)
        awaited.look(broken)  # type: ignore[arg-type]
        assert client.is_outdated is is_outdated


@pytest.mark.parametrize("is_lost", [True, False], ids=["lost", "passed on"])
def test_a_worker_that_stayed_without_partitions_after_an_outage_said_nothing(
    worker: GroupWorker,
    data: GroupData,
    channel: OwnedChannel,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
    is_lost: bool,
) -> None:
    """Of CONN-3: for minutes, while Kafka answered. Once a wait; nothing while it has some, or if it passed them on."""
    caplog.set_level(logging.INFO, "jbm_kafka.partitions")
    consumer = MemoryKafka(MemoryCluster(clock, waits=False)).group_consumer(
        group="g", topic="t", partitions=1, listener=worker.assignment, session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000, memory_bytes=1,
    )  # fmt: skip
    assignment = worker.assignment
    awaited = AwaitedPartitions(data, worker.membership, assignment.client)
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
        assert line.getMessage().startswith(f"{data.group}: no partition for 64 s, though Kafka answers: ")
        assert line.getMessage().endswith(f"; who they are: jbm-kafka explain {channel.topic}")
