"""Work that takes the interpreter for long, as reading and writing large messages does: on one thread, in turns."""

from __future__ import annotations

import sys
from asyncio import AbstractEventLoop, Future
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import Any, TypeVar

from jbm_kafka.amqp.shares import Whose
from jbm_kafka.amqp.turns import Turns

T = TypeVar("T")
SWITCH_S = 0.0005
"""So long the loop waits for the interpreter while there is work; usually it is ten times as long, and each call of
Proton's engine waits, for it lets go of the interpreter."""
ENDLESS = 2**62


class Beside:
    """One thread: the loop waits for the interpreter behind no more than that. Users and addresses take turns."""

    def __init__(self, loop: AbstractEventLoop, thread: Executor) -> None:
        self._loop, self._thread = loop, thread
        self._under_way = 0
        self._usual_s: float | None = None
        """How long another thread usually waits; None: it does so now."""
        self._turns: Turns[tuple[Whose, Callable[[], Any], Future[Any]]] = Turns(1, 1, ENDLESS)

    def do(self, whose: Whose, call: Callable[[], T]) -> Future[T]:
        """Its result, when its turn has been. On the loop."""
        answer: Future[T] = self._loop.create_future()
        self._turns.arrive(whose, (whose, call, answer))
        self._begin()
        if self._usual_s is None:
            self._usual_s = sys.getswitchinterval()
            sys.setswitchinterval(min(SWITCH_S, self._usual_s))
        self._under_way += 1
        return answer

    def _begin(self) -> None:
        for whose, call, answer in self._turns.begin():
            self._loop.run_in_executor(self._thread, call).add_done_callback(partial(self._ended, whose, answer))

    def _ended(self, whose: Whose, answer: Future[Any], done: Future[Any]) -> None:
        self._turns.end(whose)
        self._begin()
        self._under_way -= 1
        if not self._under_way and self._usual_s is not None:
            sys.setswitchinterval(self._usual_s)
            self._usual_s = None
        error = done.exception()
        if answer.done():  # nobody waits any more
            return
        if error is None:
            answer.set_result(done.result())
        else:
            answer.set_exception(error)
