"""A group worker whose Kafka client blocks: its part comes too late for the checkpoint that asked for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jbm_kafka.core.channel.settlement import unknown_offsets
from jbm_kafka.memory.memory_kafka import MemoryCluster
from jbm_kafka.ports.completion import Completion
from jbm_kafka.ports.deliveries import Disposition
from jbm_kafka.sidecar.checkpoints.checkpointer import FREEZE_TIMEOUT_S
from tests.sidecar.stepped import SteppedSidecar
from tests.support.manual_clock import ManualClock


@pytest.fixture
def process() -> Iterator[SteppedSidecar]:
    made = SteppedSidecar("one", MemoryCluster(ManualClock(), waits=False))
    yield made
    made.crash()


def test_what_was_answered_too_late_is_recorded_by_the_next_checkpoint(
    process: SteppedSidecar, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Of ACK-9: the part that nobody takes is undone. Else nothing of its partition would be recorded any more."""
    link = process.attach("s")
    process.send("a")
    link.demand.credit = 1
    process.run(lambda: bool(link.buffer))
    delivery = link.pop()
    assert delivery is not None
    consumer = process.group_worker.data.consumer
    assert consumer is not None
    answer = consumer.group_metadata
    answered: list[object] = []

    def blocks_once() -> object:
        answered.append(answer())
        if len(answered) == 1:
            process.workers.pause(FREEZE_TIMEOUT_S)
            process.workers.pause(0.0)  # the checkpointer's turn: it goes on without this group
        return answered[-1]

    monkeypatch.setattr(consumer, "group_metadata", blocks_once)
    done = Completion()
    link.settlement.dispositions.append(Disposition(acknowledged=[(delivery.lease, delivery.offset)], done=done))
    process.run(lambda: done.is_done)
    done.wait(0.0, about="acknowledge")
    assert "did not answer within 5 s; the checkpoint goes on without it" in caplog.text
    (channel,) = process.group_worker.data.channels.values()
    assert unknown_offsets(channel.state, "s", [delivery.offset]) == [delivery.offset], "settled"
