"""Waits until lanes have nothing left to do: for whoever stops or moves the clock, and must not do so in the midst."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from jbm_kafka.sidecar.lane import Lane

LOOK_S = 0.001
ANSWER_S = 0.05
"""How long one look waits for a lane; one that ends does not answer any more."""


def wait_idle(lanes: Callable[[], list[Lane]], timeout_s: float) -> bool:
    """True once every lane has carried out and recorded what was asked of it before, and what must leave has left.

    What sessions have in hand, and what waits for a time or for its unit, stays as it is.
    """
    deadline = time.monotonic() + timeout_s
    pause = threading.Event()
    while not all(_is_idle(lane) for lane in lanes() if lane.is_alive):
        if time.monotonic() >= deadline:
            return False
        pause.wait(LOOK_S)
    return True


def _is_idle(lane: Lane) -> bool:
    """What the lane's own thread says, after a whole turn."""
    answers: list[bool] = []
    is_answered = threading.Event()

    def answer() -> None:
        answers.append(_has_nothing_to_do(lane))
        is_answered.set()

    # In the turn of the first command what the links enqueued is taken and due times pass; the second looks after that.
    lane.post(lambda: lane.post(answer))
    is_answered.wait(ANSWER_S)
    return answers == [True]


def _has_nothing_to_do(lane: Lane) -> bool:
    """On the lane's thread."""
    data = lane.data
    return (
        data.is_settled
        and not any(link.dispositions for link in data.links.values())
        and not any(channel.needs_checkpoint or channel.freeze for channel in data.channels.values())
        and not lane.departures.is_sending
    )
