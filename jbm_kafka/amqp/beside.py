"""Work that takes the interpreter for long, as reading and writing large messages does: on one thread, in turns."""

from __future__ import annotations

from asyncio import AbstractEventLoop, Future
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import Any, TypeVar

from jbm_kafka.amqp.shares import Whose
from jbm_kafka.amqp.turns import Turns
from jbm_kafka.client.quick_switches import QUICK_SWITCHES

T = TypeVar("T")
ENDLESS = 2**62


class Beside:
    """One thread: the loop waits for the interpreter behind no more than that, and not for long, for each call of
    Proton's engine lets go of it. Users and addresses take turns."""

    def __init__(self, loop: AbstractEventLoop, thread: Executor) -> None:
        self._loop, self._thread = loop, thread
        self._turns: Turns[tuple[Whose, Callable[[], Any], Future[Any]]] = Turns(1, 1, ENDLESS)

    def do(self, whose: Whose, call: Callable[[], T]) -> Future[T]:
        """Its result, when its turn has been. On the loop."""
        answer: Future[T] = self._loop.create_future()
        self._turns.arrive(whose, (whose, call, answer))
        self._begin()
        return answer

    def _begin(self) -> None:
        for whose, call, answer in self._turns.begin():
            done = self._loop.run_in_executor(self._thread, QUICK_SWITCHES.during, call)
            done.add_done_callback(partial(self._ended, whose, answer))

    def _ended(self, whose: Whose, answer: Future[Any], done: Future[Any]) -> None:
        self._turns.end(whose)
        self._begin()
        error = done.exception()
        if answer.done():  # nobody waits any more
            return
        if error is None:
            answer.set_result(done.result())
        else:
            answer.set_exception(error)
