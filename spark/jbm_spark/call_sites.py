"""Columns of ours are made without PySpark's notes of which line of Python made them.

For each call of a function of columns PySpark asks the JVM five times, and looks for IPython, so that an error can name
that line. In an expression of ours it would be a line of this package; and it is a third of what it takes to plan a
small job, again for each batch of a stream.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import utils

SETTING = "spark.python.sql.dataFrameDebugging.enabled"
"""The same for all of a session that has no program of a user's."""

_ENABLED = "_enable_debugging_cache"
_lock = threading.Lock()
_inside: list[object] = []
"""The finding of each of the calls that are inside."""


@contextmanager
def without_call_sites() -> Iterator[None]:
    """As a `with` or a decorator. What other threads make meanwhile has no notes either."""
    with _lock:
        _inside.append(getattr(utils, _ENABLED))
        setattr(utils, _ENABLED, False)
    try:
        yield
    finally:
        with _lock:
            # What the first one found stays at the beginning until all have left, and is put back then.
            found = _inside.pop()
            setattr(utils, _ENABLED, False if _inside else found)
