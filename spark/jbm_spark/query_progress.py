"""Tells of each batch of a query: one line in the log, and Spark's progress for a function of the caller's."""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)

log = logging.getLogger(__name__)

OBSERVED = "jbm"
"""`progress.observedMetrics["jbm"].rows` is how many rows the batch has given the queue, rejects among them."""

_STARTS_S = 60.0


def with_count(frame: DataFrame) -> DataFrame:
    """The stream, with its rows counted in its progress."""
    return frame.observe(OBSERVED, F.count(F.lit(1)).alias("rows"))


class ProgressListener(StreamingQueryListener):
    """Listens to one run of a query, to be added before it starts: Spark calls it for all queries of the session."""

    def __init__(self, frame: DataFrame, target: str, on_progress: Callable[[StreamingQueryProgress], object] | None):
        self._streams = frame.sparkSession.streams
        self._target = target
        self._on_progress = on_progress
        self.run: Future[str] = Future()
        """Its id, when the query has started."""

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Nothing: the caller knows."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        """A batch is done."""
        progress = event.progress
        if not self._is_ours(str(progress.runId)):
            return
        counted = progress.observedMetrics.get(OBSERVED)
        rows = 0 if counted is None else counted.rows
        seconds = progress.batchDuration / 1000
        who = progress.name or progress.id
        log.info("query %s, batch %d: %d rows to %s in %.1f s", who, progress.batchId, rows, self._target, seconds)
        if self._on_progress is not None:
            try:
                self._on_progress(progress)
            except Exception:  # it is the caller's, and runs on Spark's thread
                log.exception("on_progress of query %s failed at batch %d", who, progress.batchId)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        """The last event of the query."""
        if self._is_ours(str(event.runId)):
            # Spark's thread would wait for itself.
            threading.Thread(target=self.remove, name="jbm-progress", daemon=True).start()

    def remove(self) -> None:
        """Spark calls it no more."""
        with suppress(PySparkException, Py4JError, OSError):  # the session has ended
            self._streams.removeListener(self)

    def _is_ours(self, run: str) -> bool:
        return self.run.result(_STARTS_S) == run
