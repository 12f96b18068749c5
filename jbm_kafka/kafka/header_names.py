"""Makes the headers of fetched records readable whatever bytes their names are: C and C++ clients write any.

confluent-kafka's `Message.headers()` raises SystemError the first time when a name is not UTF-8. The second time it
returns tuples with nothing at all where the name belongs, and whoever takes that out ends the process. So each record's
headers are asked for here, before anybody else sees the record.
"""

import ctypes
from collections import deque
from collections.abc import Sequence
from typing import cast

from confluent_kafka import Message

from jbm_kafka.ports import UNREADABLE

_slot = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_ssize_t)(("PyTuple_GetItem", ctypes.pythonapi))
"""Looks at what a tuple holds without taking it out; None: nothing."""


def mend_headers(records: Sequence[Message]) -> None:
    """Afterwards `headers()` of each of these records, none of them an error, returns names that are text."""
    try:
        # Without a step of the interpreter: almost always all of them are right. And only so is it sure to raise here:
        # an optimised call in a loop looks for no exception beside a result, and something later would raise it.
        deque(map(Message.headers, records), maxlen=0)
    except (SystemError, UnicodeDecodeError) as error:
        fault: BaseException = error
    else:
        return
    for record in records:
        try:
            next(map(Message.headers, (record,)))
        except (SystemError, UnicodeDecodeError) as error:
            fault = error
        headers = cast("list[tuple[str, str | bytes | None]]", record.headers() or [])
        if not all(_slot(header, 0) for header in headers):
            names = [_first_name(fault)]  # those of later ones are lost
            record.set_headers([h if _slot(h, 0) else (names.pop() if names else UNREADABLE, h[1]) for h in headers])


def _first_name(fault: BaseException) -> str:
    """The name that was read first and is not UTF-8: the deepest cause holds its bytes."""
    cause: BaseException | None = fault
    while cause is not None and not isinstance(cause, UnicodeDecodeError):
        cause = cause.__cause__
    return UNREADABLE if cause is None else cause.object.decode(errors="replace")
