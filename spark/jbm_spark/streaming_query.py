"""Starts the query that writes a stream to a queue, alone on its checkpoint and with the checkpoint's identity."""

import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from jbm_kafka.ports import KafkaClientError
from jbm_spark.causes import cause_line, is_stop
from jbm_spark.checkpoint_lock import CheckpointLock, check_file_system, local_folder, plain_is_local
from jbm_spark.checkpoint_record import RECORD_FILE, LocalNote, Note, check_folder, check_ids, claim
from jbm_spark.errors import QueryError
from jbm_spark.hadoop_files import HadoopFiles, HadoopNote
from jbm_spark.query_progress import ProgressListener, with_count
from jbm_spark.reader_registration import register_query
from jbm_spark.sink import Sink, StreamBatch, patiently
from jbm_spark.stream_sources import ids_read, kafka_sources, refuse_a_circle, topics_read

log = logging.getLogger(__name__)

_STARTS_S = 60.0


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """The plan of what is to run."""

    frame: DataFrame
    sink: Sink
    checkpoint: str
    output_mode: str
    name: str | None = None
    on_progress: Callable[[StreamingQueryProgress], object] | None = None

    def check(self) -> None:
        """Raises OptionRefusedError when the stream reads what is written to."""
        sink = self.sink
        topic = sink.destination.kafka_topic(sink.namespace)
        refuse_a_circle(kafka_sources(self.frame), sink.destination,
                        topic=topic, bootstrap=sink.bootstrap, kafka=sink.kafka)  # fmt: skip

    def start(self, trigger: Mapping[str, Any]) -> StreamingQuery:
        """The query, running; it begins with the batch that a crash interrupted.

        Raises:
            CheckpointError: another query has the checkpoint, or it is of another source or target; the folder is of
                something else; the session knows no such file system.
            QueryError: Spark does not start it, such as with this output mode.
        """
        spark = self.frame.sparkSession
        folder = local_folder(self.checkpoint, plain_is_local=plain_is_local(spark))
        if folder is None:
            check_file_system(spark, self.checkpoint)
            note = HadoopNote(HadoopFiles(spark, self.checkpoint), f"{self.checkpoint}/{RECORD_FILE}")
            return self._start(trigger, self.checkpoint, self._claimed(note, self.checkpoint))
        check_folder(folder)
        lock = CheckpointLock(folder)
        lock.acquire()
        # Absolute, for a JVM stays in the folder that it was started in.
        place = str(folder)
        try:
            query = self._start(trigger, place, self._claimed(LocalNote(folder), place))
        except BaseException:
            lock.close()
            raise
        lock.close_with(query)
        return query

    def _claimed(self, note: Note, folder: str) -> Mapping[str, str]:
        target = self.sink.destination.kafka_topic(self.sink.namespace)
        return claim(note, folder, sources=topics_read(self.frame), ids=self._ids_now(), target=target)

    def _ids_now(self) -> Mapping[str, str]:
        return ids_read(self.frame, bootstrap=self.sink.bootstrap, kafka=self.sink.kafka)

    def _start(self, trigger: Mapping[str, Any], checkpoint: str, ids: Mapping[str, str]) -> StreamingQuery:
        job: Future[str] = Future()

        def write(batch: DataFrame, number: int) -> None:
            check_ids(ids, patiently(self._ids_now))
            self.sink.write(batch, job=job.result(_STARTS_S), batch=StreamBatch(number, checkpoint))

        listener = ProgressListener(self.frame, str(self.sink.destination), self.on_progress)
        run = ""
        try:
            self.frame.sparkSession.streams.addListener(listener)
            writer = with_count(self.frame).writeStream.foreachBatch(write).outputMode(self.output_mode)
            named = writer if self.name is None else writer.queryName(self.name)
            query = named.option("checkpointLocation", checkpoint).trigger(**dict(trigger)).start()
            run = query.runId
        except (PySparkException, Py4JError) as error:
            raise QueryError(
                f"Spark does not start the query with checkpoint {checkpoint}: {cause_line(error)}"
            ) from None
        finally:
            listener.run.set_result(run)
            if not run:
                listener.remove()
        job.set_result(query.id)  # of the checkpoint: the same in the next run
        self._register(query)
        return query

    def _register(self, query: StreamingQuery) -> None:
        """Have what it has not read of this cluster kept for it. A cluster that others name otherwise is not known."""
        sink = self.sink
        topics = {each.subscribe for each in kafka_sources(self.frame) or () if each.bootstrap == sink.bootstrap}
        named = sorted(topic for topic in topics if topic is not None)
        if not named:
            return
        try:
            register_query(self.frame.sparkSession, query, named,
                           bootstrap=sink.bootstrap, namespace=sink.namespace, kafka=sink.kafka)  # fmt: skip
        except (KafkaClientError, KeyError) as error:
            log.warning("nothing of %s is kept for the query, which may miss what is deleted: %s", named, error)


def awaited(query: StreamingQuery, timeout: float | None) -> "Future[bool]":
    """Return True if it ended in that time, or why it failed; asked on a thread of its own.

    PySpark's answer to Ctrl-C asks the JVM something, which fails in a thread that waits for the JVM.
    """
    end: Future[bool] = Future()

    def run() -> None:
        try:
            # Without a timeout it gives None, when the query has ended.
            end.set_result(query.awaitTermination(timeout) is not False)  # type: ignore[arg-type]
        except BaseException as error:
            if isinstance(error, PySparkException) and is_stop(error):
                end.set_result(True)
            else:
                end.set_exception(error)

    threading.Thread(target=run, name="jbm-query", daemon=True).start()
    return end
