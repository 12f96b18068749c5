"""A call that waits, written once for threads and for event loops: a generator of what it waits for.

It yields a `Sleep`, or a call that may wait for Kafka, and is sent what that call returned. A thread carries both out
itself, here; `jbm_kafka.aio` sleeps on its loop, and has the call made beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import Any, TypeVar

from jbm_kafka.jms.base.closing import wait_handling_signals
from jbm_kafka.ports.wake_up import Sleepers

T = TypeVar("T")


class Sleep:
    """Wait until something is notified, or for so long at most, unless `is_over`, asked once under the lock."""

    __slots__ = ("is_over", "timeout_s")

    def __init__(self, is_over: Callable[[], bool], timeout_s: float | None) -> None:
        self.is_over = is_over
        self.timeout_s = timeout_s


Pauses = Generator[Sleep | Callable[[], object], Any, T]
"""The pauses of a call, one after the other; it returns a T."""


def on_this_thread(pauses: Pauses[T], filled: Sleepers) -> T:
    """Carry the call out; its thread sleeps."""
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
                wait_handling_signals(filled, pause.is_over, pause.timeout_s)
            else:
                answer = pause()
            go_on = partial(pauses.send, answer)
        except BaseException as error:  # Ctrl-C too: the call ends where it waits
            go_on = partial(pauses.throw, error)
