"""What the checkpoint thread does when a checkpoint fails by a bug of ours."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import cast

import pytest

from jbm_kafka.core.jms_errors import JMSError, TransactionRolledBackError
from jbm_kafka.memory.memory_cluster import CommitFault
from jbm_kafka.memory.memory_kafka import MemoryCluster
from jbm_kafka.ports import Outgoing
from jbm_kafka.ports.steps import Steps, StepWorker, Wait
from jbm_kafka.sidecar.checkpoints.checkpoint_parts import Transfer
from jbm_kafka.sidecar.checkpoints.checkpointer import BUG_PAUSE_S
from tests.sidecar.parts import checkpointer_of
from tests.support.manual_clock import ManualClock


class ByHand:
    """Workers whose steps the test makes."""

    steps: Iterator[Wait]

    def start(self, name: str, steps: Steps) -> StepWorker:
        self.steps = steps
        return cast(StepWorker, None)

    def pause(self, seconds: float) -> None:
        raise AssertionError("nothing here pauses in the middle of a step")


def test_a_checkpoint_that_fails_by_a_bug_is_not_tried_again_at_once(caplog: pytest.LogCaptureFixture) -> None:
    """Tried again without a pause it fills the disk with tracebacks and takes a processor."""
    clock = ManualClock()
    by_hand = ByHand()
    checkpointer = checkpointer_of(MemoryCluster(clock, waits=False), by_hand)
    checkpointer.start()
    broken = Transfer(about="a commit", sends=(cast(Outgoing, "no record"),), settlings=())
    checkpointer.submit(broken)
    with caplog.at_level(logging.CRITICAL, logger="jbm_kafka.sidecar.checkpoints.checkpointer"):
        waits = [next(by_hand.steps) for _ in range(3)]
    assert Wait(BUG_PAUSE_S) in waits
    with pytest.raises(JMSError, match="a commit: the checkpoint failed"):
        broken.done.wait(0.0, about="commit")


class Sessions:
    """Transfers of one record each, and the checkpoint thread, step by step; each of its steps takes a millisecond."""

    def __init__(self, beside: Sessions | None = None) -> None:
        self.clock: ManualClock = ManualClock() if beside is None else beside.clock
        self._by_hand = ByHand()
        self.cluster: MemoryCluster = MemoryCluster(self.clock, waits=False) if beside is None else beside.cluster
        if beside is None:
            self.cluster.create_topic("t", 1, {})
        self.checkpointer = checkpointer_of(self.cluster, self._by_hand)
        self.checkpointer.start()
        self.run()

    def submit(self, count: int) -> list[Transfer]:
        record = Outgoing("t", 0, None, b"sent")
        made = [Transfer(about="a commit", sends=(record,), settlings=()) for _ in range(count)]
        for transfer in made:
            self.checkpointer.submit(transfer)
        return made

    def run(self) -> Wait:
        """Go on until it waits for a signal that is not given; returns that."""
        while True:
            wait = next(self._by_hand.steps)
            if wait.signal is not None and not wait.signal.is_set():
                return wait
            self.clock.advance(1)


def test_the_first_of_many_sessions_to_come_back_has_no_checkpoint_for_itself() -> None:
    """It would take as long as one for all, and all others wait for its end."""
    sessions = Sessions()
    sessions.submit(1)
    sessions.run()
    sessions.submit(4)
    sessions.run()
    before = sessions.checkpointer.checkpoints
    first = sessions.submit(1)
    sessions.run()
    assert not first[0].done.is_done
    others = sessions.submit(3)
    sessions.run()
    assert all(transfer.done.is_done for transfer in (*first, *others))
    assert sessions.checkpointer.checkpoints == before + 1


def test_a_session_does_not_wait_longer_for_others_than_the_last_checkpoint_took() -> None:
    """And one alone does not wait at all."""
    sessions = Sessions()
    sessions.submit(4)
    sessions.run()
    alone = sessions.submit(1)
    wait = sessions.run()
    assert wait.timeout_s is not None
    assert 0 < wait.timeout_s <= 0.010
    sessions.clock.advance(round(wait.timeout_s * 1_000))
    sessions.run()
    assert alone[0].done.is_done
    again = sessions.submit(1)
    sessions.run()
    assert again[0].done.is_done


def test_a_send_that_expires_while_kafka_is_away_is_not_written_by_the_next_try() -> None:
    """Of STATE-2: commit() returned, and nobody ever received it."""
    clock = ManualClock()
    by_hand = ByHand()
    cluster = MemoryCluster(clock, waits=False)
    cluster.create_topic("t", 1, {})
    checkpointer = checkpointer_of(cluster, by_hand)
    checkpointer.start()
    cluster.faults.commits.append(CommitFault.NOT_HEARD)
    expires_at_ms = clock.now_ms() + 3_000
    record = Outgoing("t", 0, None, b"sent")
    expiring = Transfer(about="a commit", sends=(record,), settlings=(), expires_at_ms=expires_at_ms)
    lasting = Transfer(about="another", sends=(record,), settlings=())
    checkpointer.submit(expiring)
    checkpointer.submit(lasting)
    for wait in by_hand.steps:
        if not cluster.faults.commits:
            clock.advance(3_000)
        if lasting.done.is_done:
            break
        assert wait.signal is None or wait.signal.is_set() or wait.timeout_s, "it waits for nothing"
    with pytest.raises(TransactionRolledBackError, match=f"expired at {expires_at_ms} .*before it was committed"):
        expiring.done.wait(0.0, about="commit")
    assert [each.value() for each in cluster.log("t", 0).read(0, 10, committed_only=True)[0]] == [b"sent"]


def test_two_processes_with_one_transactional_id_are_told_by_a_warning_that_says_what_to_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Each took it from the other ten times a second, and nothing but the client's own errors told so."""
    one = Sessions()
    two = Sessions(beside=one)
    caplog.set_level(logging.INFO)
    for each in (one, two, one, two):
        [transfer] = each.submit(1)
        each.run()
        assert transfer.done.is_done
    told = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert [record.getMessage().partition(":")[0] for record in told] == [
        "another process runs with a copy of this one's state folder, or with the same one on another host "
        "(transactional id jbm.one.0)"
    ] * 2, "each says it once"
