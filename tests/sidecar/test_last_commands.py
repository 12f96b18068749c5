"""The commands that a group worker gets while it ends: each is carried out, or refused to whoever gives it."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from jbm_kafka.memory.memory_kafka import MemoryCluster
from jbm_kafka.ports.completion import Completion
from jbm_kafka.sidecar.channel.group_data import Mailbox
from jbm_kafka.sidecar.checkpoints.checkpointer import _freeze_all
from jbm_kafka.sidecar.lane.own_partitions import WorkerPartitions
from tests.sidecar.stepped import SteppedSidecar
from tests.support.manual_clock import ManualClock

COMMANDS_MAX = 100_000
"""Many more than are given before the owner ends."""


@pytest.fixture
def process() -> Iterator[SteppedSidecar]:
    """Its group worker serves one receiver."""
    process = SteppedSidecar("one", MemoryCluster(ManualClock(), waits=False))
    process.attach("s")
    process.run(lambda: process.group_worker.is_settled)
    yield process
    process.crash()


def test_no_command_is_lost_between_those_that_are_carried_out_and_those_that_are_refused() -> None:
    mailbox = Mailbox()
    carried_out: list[int] = []
    accepted = [0] * 4
    have_begun = threading.Barrier(len(accepted) + 1)

    def give_commands(giver: int) -> None:
        have_begun.wait()
        while accepted[giver] < COMMANDS_MAX and mailbox.post(lambda: carried_out.append(giver)):
            accepted[giver] += 1

    givers = [threading.Thread(target=give_commands, args=(giver,)) for giver in range(len(accepted))]
    for giver in givers:
        giver.start()
    have_begun.wait()
    while len(carried_out) < 1_000:
        mailbox.carry_out()
    mailbox.end()
    for giver in givers:
        giver.join()
    assert [carried_out.count(giver) for giver in range(len(accepted))] == accepted
    assert max(accepted) < COMMANDS_MAX, "none was refused"


def test_what_a_command_asks_for_in_turn_is_refused_when_the_owner_ends() -> None:
    """One that asks for itself again, as a receiver that leaves during a commit does, would keep the owner for ever."""
    mailbox = Mailbox()
    answers: list[bool] = []

    def again() -> None:
        if len(answers) < 3:
            answers.append(mailbox.post(again))

    mailbox.post(again)
    mailbox.end()
    assert answers == [False]


def test_who_asks_a_group_worker_that_has_made_its_last_step_is_answered(process: SteppedSidecar) -> None:
    """UNIT-13: its thread counts as alive a moment longer. A browser waited 10 s and failed, a checkpoint waited as
    long, and a decision about prepared branches for ever."""
    worker = process.group_worker
    worker.data.mailbox.end()
    assert worker.is_alive
    assert worker.data.channels
    assert WorkerPartitions(lambda: worker).unacknowledged() == {}
    (wait,) = list(_freeze_all([worker.checkpoint_part], [], "jbm.x:1"))
    assert wait.signal is not None
    assert wait.signal.is_set()
    decided = Completion()
    process.sidecar._group_workers.look_at_branches(decided)
    assert decided.is_done
    assert process.sidecar.observation.statistics().destinations


def test_receivers_hear_of_the_end_where_one_command_after_the_other_fails(process: SteppedSidecar) -> None:
    """Each time the worker carried out the next while it told them of the last; nobody was told, and who had asked
    for something else waited."""
    worker = process.group_worker
    (link,) = worker.data.links.values()
    done = Completion()

    def fail() -> None:
        raise ZeroDivisionError

    for _ in range(5):
        worker.post(fail)
    worker.post(done.complete)
    process.run(lambda: not worker.is_alive)
    assert "the sidecar failed" in str(link.notices.failure)
    assert done.is_done
    assert not worker.post(fail)
