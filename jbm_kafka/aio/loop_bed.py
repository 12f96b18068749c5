"""How a task waits where threads do: its event loop is woken."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from jbm_kafka.client.call_lane import CallLane
from jbm_kafka.jms.base.call_pauses import Pauses, Sleep
from jbm_kafka.ports.wake_up import Sleepers

T = TypeVar("T")


class LoopBed:
    """Implements `Bed`: any thread wakes the task that waits for `risen`."""

    __slots__ = ("_is_awake", "_loop", "risen")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.risen: asyncio.Future[None] = self._loop.create_future()
        self._is_awake = False

    def locked(self) -> bool:
        return not self._is_awake

    def release(self) -> None:
        self._is_awake = True
        with suppress(RuntimeError):  # the loop is closed, and its tasks with it
            self._loop.call_soon_threadsafe(self.rise)

    def rise(self) -> None:
        """On the loop."""
        if not self.risen.done():
            self.risen.set_result(None)


async def on_this_loop(pauses: Pauses[T], filled: Sleepers, lane: CallLane, about: str) -> T:
    """Carry a call out: it sleeps on the loop, and what may wait for Kafka is done in the lane.

    Cancelled, the call ends in one of its pauses.
    """
    go_on: Callable[[], Any] = partial(pauses.send, None)
    while True:
        try:
            pause = go_on()
        except StopIteration as end:
            result: T = end.value
            return result
        try:
            answer: object = None
            if isinstance(pause, Sleep):
                await _sleep(filled, pause)
            else:
                answer = await lane.do(pause, about)
            go_on = partial(pauses.send, answer)
        except BaseException as error:
            go_on = partial(pauses.throw, error)


async def _sleep(filled: Sleepers, sleep: Sleep) -> None:
    bed = LoopBed()
    try:
        if filled.lie_down_unless(sleep.is_over, bed):
            return
        if sleep.timeout_s is None:
            await bed.risen
            return
        timer = asyncio.get_running_loop().call_later(max(sleep.timeout_s, 0.0), bed.rise)
        try:
            await bed.risen
        finally:
            timer.cancel()
    finally:
        filled.get_up(bed)
