"""The things that a forked child leaves alone: its parent's Kafka clients and databases, whose threads a fork does not
copy.

Their destructors wait for those threads, and so does RocksDB when a process exits: the child would hang, or die of
SIGSEGV. So it holds what it inherited for as long as it lives, and its exit ends with Python's own clean-up.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from typing import TypeVar

T = TypeVar("T")

_owners: weakref.WeakSet[object] = weakref.WeakSet()
_was_used = False


def kept_at_fork(owner: T) -> T:
    """The owner of a client or a database; in a forked child neither it nor what it holds is ever destroyed."""
    global _was_used  # noqa: PLW0603 - of the process
    _was_used = True
    _owners.add(owner)
    return owner


def _keep() -> None:
    if not _was_used:
        return
    for owner in list(_owners):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(owner))
    # Run in reverse order, before what the parent's libraries registered: C's files are flushed, and all is over. Only
    # C functions, for Python has ended by then.
    libc = ctypes.CDLL(None)
    if hasattr(libc, "on_exit"):
        libc.on_exit(libc._exit, None)
        libc.__cxa_atexit(libc.fflush, None, None)


os.register_at_fork(after_in_child=_keep)
