"""A setting of a running session, for as long as one thing is planned with it."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from pyspark.sql import SparkSession

_LOCK = threading.Lock()
_INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
_IN_USE: dict[tuple[int, str], tuple[int, str]] = {}
"""By session and setting how many blocks have it so now, and how it was before the first of them."""


@contextmanager
def session_setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    """Have the session so inside the block, and afterwards as it was, also where threads have it so side by side. What
    runs beside it is planned so too."""
    at = id(spark), name
    with _LOCK:
        count, before = _IN_USE.get(at) or (0, str(spark.conf.get(name)))
        spark.conf.set(name, value)
        _IN_USE[at] = count + 1, before
    try:
        yield
    finally:
        with _LOCK:
            count, before = _IN_USE.pop(at)
            if count > 1:
                _IN_USE[at] = count - 1, before
            else:
                spark.conf.set(name, before)


class Size(NamedTuple):
    """The work of a query."""

    records: int
    """It has so many at most."""
    tasks: int

    @property
    def is_small(self) -> bool:
        """Return True if it runs for less than Spark compiles it. Each task makes what is interpreted anew."""
        return self.records <= 5_000 and self.tasks <= 16


@contextmanager
def planned_for(spark: SparkSession, size: Size | None) -> Iterator[None]:
    """Have what is planned inside the block interpreted where it is small; None: nobody knows."""
    with ExitStack() as settings:
        for name, value in _INTERPRETED.items() if size is not None and size.is_small else ():
            settings.enter_context(session_setting(spark, name, value))
        yield
