"""Proton's objects are let go on the thread that they are of, whichever drops the last reference or collects garbage.

Proton is not made for threads: another one that frees an object aborts the process, now and then.
"""

from __future__ import annotations

from collections import deque
from threading import get_ident
from typing import Any

from cproton import pn_decref  # type: ignore[import-untyped]
from proton._wrapper import Wrapper

_left: dict[int, deque[Any]] = {}
"""By thread, of those that called `own`: what others dropped."""
_init = Wrapper.__init__


def _owned(self: Any, *arguments: Any, **named: Any) -> None:
    self.__dict__["_thread"] = get_ident()
    _init(self, *arguments, **named)


def _drop(self: Any) -> None:
    thread = self.__dict__.get("_thread")
    left = None if thread == get_ident() else _left.get(thread)
    if left is None:
        pn_decref(self._impl)
    else:
        left.append(self._impl)


def own() -> None:
    """From now on this thread's objects are let go by its calls of `let_go`, until `disown`."""
    Wrapper.__init__ = _owned  # type: ignore[method-assign]
    Wrapper.__del__ = _drop  # type: ignore[method-assign]
    _left[get_ident()] = deque()


def let_go() -> int:
    """Let go of what other threads dropped; how many."""
    left = _left[get_ident()]
    count = len(left)
    for _ in range(count):
        pn_decref(left.popleft())
    return count


def disown() -> None:
    """The thread ends."""
    let_go()
    del _left[get_ident()]
