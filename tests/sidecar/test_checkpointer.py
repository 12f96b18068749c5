"""What the checkpoint thread does when a checkpoint fails by a bug of ours."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import cast

import pytest

from jbm_kafka.core.errors import JMSError
from jbm_kafka.memory.memory_kafka import MemoryCluster
from jbm_kafka.ports import Outgoing
from jbm_kafka.sidecar.checkpoint_parts import Transfer
from jbm_kafka.sidecar.checkpointer import BUG_PAUSE_S, Checkpointer
from jbm_kafka.sidecar.steps import Steps, Wait, Worker
from tests.sidecar.parts import writer_of
from tests.support.manual_clock import ManualClock


class ByHand:
    """Workers whose steps the test makes."""

    steps: Iterator[Wait]

    def start(self, name: str, steps: Steps) -> Worker:
        self.steps = steps
        return cast(Worker, None)

    def pause(self, seconds: float) -> None:
        raise AssertionError("nothing here pauses in the middle of a step")


def test_a_checkpoint_that_fails_by_a_bug_is_not_tried_again_at_once(caplog: pytest.LogCaptureFixture) -> None:
    """Tried again without a pause it fills the disk with tracebacks and takes a processor."""
    clock = ManualClock()
    by_hand = ByHand()
    writer = writer_of(MemoryCluster(clock, waits=False))
    checkpointer = Checkpointer(writer=writer, clock=clock, interval_ms=50, workers=by_hand)
    checkpointer.start()
    broken = Transfer(about="a commit", sends=(cast(Outgoing, "no record"),), settlings=())
    checkpointer.submit(broken)
    with caplog.at_level(logging.CRITICAL, logger="jbm_kafka.sidecar.checkpointer"):
        waits = [next(by_hand.steps) for _ in range(3)]
    assert Wait(BUG_PAUSE_S) in waits
    with pytest.raises(JMSError, match="a commit: the checkpoint failed"):
        broken.done.wait(0.0, about="commit")
