"""A call that no signal handler interrupts in the middle: it is made on another thread than the one they run on."""

import _thread
import threading
from collections.abc import Callable
from typing import TypeVar

from jbm_kafka.ports.wake_up import WakeUp

_T = TypeVar("_T")
_LOOK_S = 0.5
"""A signal that the system gives to another thread does not wake the main one, which is to handle it."""


def shielded(call: Callable[[], _T]) -> _T:
    """Return what `call` returns or raises. On the main thread an exception of a signal handler ends the waiting alone.

    A request that is interrupted within its future leaves the future's lock taken, and the client's one thread that
    brings answers waits for it for ever; within the client's own code the exception comes as SystemError. And
    `Thread.start` waits for an event, whose lock the new thread then waits for.
    """
    if threading.current_thread() is not threading.main_thread():
        return call()
    answers: list[_T] = []
    raised: list[BaseException] = []
    is_over = WakeUp()

    def run() -> None:
        try:
            answers.append(call())
        except BaseException as error:
            raised.append(error)
        finally:
            is_over.set()

    _thread.start_new_thread(run, ())
    while not is_over.wait(_LOOK_S):
        pass
    if raised:
        raise raised.pop()
    return answers.pop()
