"""Ctrl-C at a chosen place: each place of a call in turn, so that none is left to chance."""

import dis
import sys
import threading
from collections.abc import Iterator, Sequence, Sized
from contextlib import contextmanager
from functools import cache
from types import CodeType, FrameType
from typing import Any

AFTER_ERRORS = {"MessageConsumer._break_off", "CallGuard.break_off"}
"""What ends a call that an error has ended, and what it calls: an interrupt within would be the second trouble."""
COMPILED_ONLY = {"CallInUse.__exit__"}
"""What only compiled code can do without an interrupt, and what it calls."""


def handler(code: CodeType, offset: int) -> int | None:
    """Where an error of the instruction is handled, if it is within a block that does."""
    return next((found.target for found in handlers(code) if found.start <= offset < found.end), None)


@cache
def handlers(code: CodeType) -> Sequence[Any]:
    return dis._parse_exception_table(code)  # type: ignore[attr-defined,no-any-return]


def callers(frame: FrameType | None) -> Iterator[str]:
    """The function of the frame, and the two that led there."""
    for _ in range(3):
        if frame is not None:
            yield frame.f_code.co_qualname
            frame = frame.f_back


class Interrupts:
    """Raises KeyboardInterrupt in this thread, at the so many-th place of ours or of threading.py where a signal could.

    Python looks for signals at the beginning of a function, after a call, and at the end of a round of a loop: as the
    last act of that instruction. Here it is the first of the next one, so those places count where one block has both.
    """

    def __init__(self, place: int) -> None:
        self._places_left = place
        self._looked: dict[object, int] = {}
        """Of each frame: its instruction before this one, if Python looks for signals at its end."""

    def __call__(self, frame: FrameType, event: str, argument: object) -> object:
        code = frame.f_code
        is_seen = "jbm_kafka" in code.co_filename or code.co_filename == threading.__file__
        left_out = COMPILED_ONLY if sys.exc_info()[1] is None else COMPILED_ONLY | AFTER_ERRORS
        if not is_seen or not left_out.isdisjoint(callers(frame)):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            before = self._looked.pop(frame, None)
            if before is not None and handler(code, before) == handler(code, frame.f_lasti):
                self._places_left -= 1
                if self._places_left == -1:
                    raise KeyboardInterrupt
            if dis.opname[code.co_code[frame.f_lasti]].startswith(("CALL", "RESUME", "JUMP_BACKWARD")):
                self._looked[frame] = frame.f_lasti
        return self


@contextmanager
def interrupted_at(place: int) -> Iterator[None]:
    sys.settrace(Interrupts(place))  # type: ignore[arg-type]
    try:
        yield
    finally:
        sys.settrace(None)


def places(finished: Sized) -> Iterator[int]:
    """Each place in turn, until some calls have come to their end, which are in `finished`."""
    for place in range(5_000):
        yield place
        if len(finished) == 5:
            return
    raise AssertionError("too many places")
