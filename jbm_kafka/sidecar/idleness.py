"""Waits until group workers have nothing left to do, so that a clock is not stopped or moved in the midst."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from jbm_kafka.sidecar.lane.group_worker import GroupWorker

LOOK_S = 0.001
ANSWER_S = 0.05
"""How long one look waits for a group worker; one that ends does not answer any more."""


def wait_idle(group_workers: Callable[[], list[GroupWorker]], timeout_s: float) -> bool:
    """True once every worker has carried out and recorded what was asked of it before, and what must leave has left.

    What sessions have in hand, and what waits for a time or for its unit, stays as it is.
    """
    deadline = time.monotonic() + timeout_s
    pause = threading.Event()
    while not all(_is_idle(group_worker) for group_worker in group_workers() if group_worker.is_alive):
        if time.monotonic() >= deadline:
            return False
        pause.wait(LOOK_S)
    return True


def _is_idle(group_worker: GroupWorker) -> bool:
    """Return True when what the group worker's own thread says, after a whole turn."""
    answers: list[bool] = []
    is_answered = threading.Event()

    def answer() -> None:
        answers.append(_has_nothing_to_do(group_worker))
        is_answered.set()

    # In the turn of the first command what the links enqueued is taken and due times pass; the second looks after that.
    group_worker.post(lambda: group_worker.post(answer))
    is_answered.wait(ANSWER_S)
    return answers == [True]


def _has_nothing_to_do(group_worker: GroupWorker) -> bool:
    """On the group worker's thread."""
    data = group_worker.data
    return (
        data.is_settled
        and not any(link.settlement.dispositions for link in data.links.values())
        and not any(channel.needs_checkpoint or channel.checkpoints.freeze for channel in data.channels.values())
        and not group_worker.turn.departures.is_sending
        and not group_worker.commands.is_leaving
    )
