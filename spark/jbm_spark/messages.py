"""A queue's or topic's messages as a DataFrame, straight from its Kafka topic; and a DataFrame's rows as messages."""

import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import wait
from contextlib import suppress
from typing import Any

from jbm_spark.cluster_in_use import cluster_in_use
from jbm_spark.extra import pyspark_missing

try:
    from pyspark.errors import AnalysisException, PySparkException
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamReader
except ModuleNotFoundError as error:
    raise pyspark_missing(error) from None

from py4j.protocol import Py4JError

from jbm_kafka.core.bootstrap import checked_bootstrap
from jbm_kafka.core.destination import Destination, Queue
from jbm_kafka.jms.factory import checked_namespace
from jbm_spark.call_checks import check_frame, check_query, check_session, checked_timeout_s, refuse_connect
from jbm_spark.causes import cause_line
from jbm_spark.columns import message_columns
from jbm_spark.errors import FrameRefusedError, OptionRefusedError, QueryError, SessionError
from jbm_spark.kafka_properties import checked_kafka_options
from jbm_spark.options import (
    Position,
    check_ends,
    check_partitions,
    check_span,
    checked,
    ending_options,
    starting_options,
    stream_starting_options,
)
from jbm_spark.raw_columns import shown, with_raw
from jbm_spark.session import NO_CONNECTOR, log_hint, log_path
from jbm_spark.sink import sink_for
from jbm_spark.streaming_query import QueryPlan, awaited
from jbm_spark.topic_check import can_look, check_topics, end_offsets

_AT_ONCE = {
    "kafka.fetch.max.wait.ms": "1",
    "kafka.max.poll.records": "10000",
    "kafka.auto.include.jmx.reporter": "false",
    "kafka.enable.metrics.push": "false",
}
"""A batch reads up to ends that the log has. When a task has its records, Kafka's consumer asks for more ahead, and
Spark's next question, which ends the task, waits behind that one on the same connection: half a second a partition.
After each poll Spark throws away what was fetched ahead, so what was fetched is to be polled at once. And a consumer
lives for one partition: what tells JMX and the brokers of it takes longer than reading a few hundred records."""


def messages(
    spark: SparkSession,
    destination: str | Destination,
    *,
    bootstrap: str | None = None,
    namespace: str = "",
    starting: Position = "earliest",
    ending: Position = "latest",
    kafka: Mapping[str, object] | None = None,
    options: Mapping[str, str] | None = None,
    raw: bool = False,
) -> DataFrame:
    """Everything committed that the topic holds between the two positions, settled or not, one row a message.

    Nothing is read before an action, and every action reads anew (an `ending` of "latest" may then be
    later): `cache()` what two results must agree on. Within a partition rows come in offset order.
    Without `bootstrap` the cluster is that of the configuration (docs/configuration.md). `kafka` are librdkafka's
    properties, as a ConnectionFactory takes them; `options` are Spark's own.
    `raw` shows the record's key and headers in the column `kafka`, for columns to be saved and written on later.

    Raises:
        InvalidDestinationError: no legal name for a queue or topic, or no such one.
        OptionRefusedError: an option or position that would break order or safety; the message says why.
        InvalidTypeError: `kafka` is no dict.
        SessionError: `spark` is no session, or one that was stopped.
        TopicError: the brokers do not answer.
        JMSSecurityError: they refuse us.
    """
    check_session(spark)
    bootstrap, namespace, kafka = cluster_in_use(bootstrap, namespace, kafka)
    namespace = checked_namespace(namespace)
    source = _named(destination)
    topic = source.kafka_topic(namespace)
    chosen = {
        **source_options(spark, topic, bootstrap, kafka, options),
        **starting_options(topic, starting),
        **ending_options(topic, ending),
    }
    check_span(starting, ending)
    partitions = _look(source, bootstrap, namespace, kafka, options)
    if partitions is not None:
        check_partitions("starting", starting, partitions)
        check_partitions("ending", ending, partitions)
        for which, position in (("starting", starting), ("ending", ending)):
            _check_ends(which, position, topic, bootstrap, kafka)
    return _loaded(spark.read, chosen, raw=raw)


def message_stream(
    spark: SparkSession,
    destination: str | Destination,
    *,
    bootstrap: str | None = None,
    namespace: str = "",
    starting: Position = "earliest",
    kafka: Mapping[str, object] | None = None,
    options: Mapping[str, str] | None = None,
    raw: bool = False,
) -> DataFrame:
    """Return what is committed to the topic from the position on, as a stream: the rows and columns of `messages`.

    `starting` ("earliest", "latest", an instant in ms, an offset for each partition) holds when a query is started
    without a checkpoint; with one the query goes on where it was. Partitions that are added later are read from their
    beginning. A query fails when messages that it has not read are gone.

    Raises:
        As `messages`.
    """
    check_session(spark)
    bootstrap, namespace, kafka = cluster_in_use(bootstrap, namespace, kafka)
    namespace = checked_namespace(namespace)
    source = _named(destination)
    topic = source.kafka_topic(namespace)
    chosen = {
        **source_options(spark, topic, bootstrap, kafka, options, is_stream=True),
        **stream_starting_options(topic, starting),
    }
    if _look(source, bootstrap, namespace, kafka, options) is not None:
        _check_ends("starting", starting, topic, bootstrap, kafka)
    return _loaded(spark.readStream, chosen, raw=raw)


def write_messages(
    frame: DataFrame,
    destination: str | Destination,
    *,
    bootstrap: str | None = None,
    namespace: str = "",
    order_by: str | Sequence[str] | None = None,
    job: str | None = None,
    rejects: str | os.PathLike[str] | None = None,
    kafka: Mapping[str, object] | None = None,
    options: Mapping[str, str] | None = None,
) -> None:
    """Send the rows of a batch frame to a queue; returns when Kafka has them all.

    The columns are those of `messages`, as many as wanted: `body_text`, or `body_bytes` with `body_kind`;
    `unit_of_order`, `properties` (a map, or a struct for types), `priority`, `expiration`, ... (docs/spark.md).
    Within a unit rows are sent by `order_by`, else by their place in the source (column `kafka`), else as
    `frame.collect()` would give them. Rows without `message_id` get one; a call with the same `job` and the same rows
    gives the same ids.

    Args:
        rejects: a folder for the rows that are no messages, as JSON with the reason, in `job=<job>/batch=0`; the others
            are written. Without it such a row ends the call before anything is written.
        kafka: librdkafka's properties, as a ConnectionFactory takes them: the client's name, and the security.
        options: of Spark's sink: Java's properties with `kafka.` in front, such as `kafka.compression.type`.

    Raises:
        InvalidDestinationError: no legal name, or no such queue.
        OrderError: the queue's topic has another count of partitions than its units are routed by.
        FrameRefusedError: no body, a column of a wrong type; nothing is written.
        OptionRefusedError: an option that would break order or safety.
        TopicError: the brokers do not answer.
        WriteError: a message cannot have a value of a row, and nothing is written; or Spark or Kafka failed, and some
            rows may be written.
    """
    check_frame(frame, is_stream=False)
    frame = with_raw(frame)
    bootstrap, namespace, kafka = cluster_in_use(bootstrap, namespace, kafka)
    sink = sink_for(frame, _named(destination), bootstrap=bootstrap, namespace=namespace, kafka=kafka,
                    options=options, order_by=order_by, rejects=rejects)  # fmt: skip
    sink.write(frame, job=_checked_job(job) if job is not None else uuid.uuid4().hex)


def write_stream(
    frame: DataFrame,
    destination: str | Destination,
    *,
    bootstrap: str | None = None,
    checkpoint: str | os.PathLike[str],
    trigger: Mapping[str, Any] | None = None,
    namespace: str = "",
    order_by: str | Sequence[str] | None = None,
    output_mode: str = "append",
    name: str | None = None,
    on_progress: Callable[[StreamingQueryProgress], object] | None = None,
    exactly_once: bool = True,
    rejects: str | os.PathLike[str] | None = None,
    kafka: Mapping[str, object] | None = None,
    options: Mapping[str, str] | None = None,
) -> StreamingQuery:
    """Start a query that sends the rows of a stream to a queue, batch by batch; columns as for `write_messages`.

    Returns when the query runs; a batch that a crash interrupted is finished before.
    Each row is written once: after a failure a query that is started again with its `checkpoint` leaves out what it has
    written of its last batch. Every task writes its part of a batch in Kafka transactions of at most 50,000 rows. The
    query fails when a source was made anew.

    Args:
        checkpoint: a folder of this query alone, kept between its runs; it holds the position and the query's identity.
        trigger: `{"availableNow": True}` (the default) ends when everything is written that was there at the start;
            `{"processingTime": "1 second"}` runs until it is stopped.
        output_mode: Spark's, for streams that aggregate.
        name: what Spark and the log call the query.
        on_progress: called with Spark's progress after each batch, on a thread of Spark's;
            `progress.observedMetrics["jbm"].rows` is how many rows the batch had. A line in the log tells the same.
        exactly_once: False writes as Spark's own sink, which takes all of Java's options and may write a batch again
            after a failure, with the same ids, of which the first stand in the order of the unit.
        rejects: a folder for the rows that are no messages, as JSON with the reason; the others are written. A batch's
            are in `job=<query.id>/batch=<number>`. Without it such a row ends the query, at every start.

    Raises:
        CheckpointError: another query has the checkpoint (on a local disk), or its folder cannot be written.
        OptionRefusedError: the stream reads the queue that it is written to; or as `write_messages`.
        QueryError: the batch that was interrupted fails again.
        SessionError: the session is Spark Connect's.
        The rest as `write_messages`, before the query is started. Later failures are the query's: `wait_until_done`.
    """
    check_frame(frame, is_stream=True)
    refuse_connect(frame, "write_stream()")
    frame = with_raw(frame)
    bootstrap, namespace, kafka = cluster_in_use(bootstrap, namespace, kafka)
    sink = sink_for(frame, _named(destination), bootstrap=bootstrap, namespace=namespace, kafka=kafka,
                    options=options, order_by=order_by, rejects=rejects, exactly_once=exactly_once)  # fmt: skip
    wanted = _checked_trigger(frame, trigger)
    if not isinstance(checkpoint, str | os.PathLike) or not os.fspath(checkpoint):
        raise OptionRefusedError(f"checkpoint={checkpoint!r}: name a folder of this query alone, to be kept")
    if name is not None and (not isinstance(name, str) or not name or not name.isprintable()):
        raise OptionRefusedError(f"name={name!r}: it is a text, printable and not empty")
    plan = QueryPlan(frame, sink, os.fspath(checkpoint), output_mode, name, on_progress)
    plan.check()
    sink.look()  # a missing queue is an error now, not of a query that fails later
    return plan.start(wanted)


def wait_until_done(query: StreamingQuery, *, timeout: float | None = None) -> bool:
    """Wait until the query ends, at most `timeout` seconds: whether it has. Ctrl-C stops it, and is raised on.

    As `query.awaitTermination()`, whose error for a failure has a hundred lines, and for Ctrl-C too.

    Raises:
        QueryError: it failed; one line with cause and remedy.
        OptionRefusedError: it is no query, or `timeout` no time.
    """
    check_query(query)
    timeout_s = checked_timeout_s(timeout)
    end = awaited(query, None if timeout_s is None else max(timeout_s, 0.001))  # Spark takes no 0
    try:
        wait([end])
    except KeyboardInterrupt:
        with suppress(PySparkException, Py4JError, OSError):
            query.stop()
        raise
    error = end.exception()
    if isinstance(error, (PySparkException, Py4JError, OSError)):
        raise QueryError(f"the query ended: {cause_line(error)}{log_hint(log_path())}") from None
    return end.result()


def _named(destination: str | Destination) -> Destination:
    if isinstance(destination, Destination):
        return destination
    return Queue(destination)  # refuses what is no name


def _loaded(reader: DataFrameReader | DataStreamReader, options: Mapping[str, str], *, raw: bool) -> DataFrame:
    try:
        records = reader.format("kafka").options(**options).load()
        _ = records.schema  # Spark Connect looks for the connector only when it is asked for something
    except AnalysisException as error:
        if "find data source: kafka" not in str(error):
            raise
        raise SessionError(NO_CONNECTOR) from None
    return shown(message_columns(records), raw=raw)


def _look(
    source: Destination,
    bootstrap: str,
    namespace: str,
    kafka: Mapping[str, object] | None,
    options: Mapping[str, str] | None,
) -> int | None:
    """How many partitions it has; None where only Spark's own options say how we get in."""
    if not can_look(kafka, options):
        return None
    [partitions] = check_topics([source], about=f"read {source}", bootstrap=bootstrap, namespace=namespace, kafka=kafka)
    return partitions


def _check_ends(which: str, position: Position, topic: str, bootstrap: str, kafka: Mapping[str, object] | None) -> None:
    """Check the ends of offsets alone; other positions cost no look."""
    if isinstance(position, Mapping):
        ends = end_offsets(topic, sorted(position), about=f"read {topic}", bootstrap=bootstrap, kafka=kafka)
        check_ends(which, position, ends)


def _checked_trigger(frame: DataFrame, trigger: Mapping[str, Any] | None) -> Mapping[str, Any]:
    chosen = {"availableNow": True} if trigger is None else trigger
    is_one = isinstance(chosen, Mapping) and len(chosen) == 1
    if not is_one or not (chosen.get("availableNow") is True or isinstance(chosen.get("processingTime"), str)):
        raise OptionRefusedError(
            f'trigger={trigger!r}: it is {{"availableNow": True}}, to end when all is written that is there, or '
            '{"processingTime": "1 second"}, to go on'
        )
    try:
        frame.writeStream.trigger(**dict(chosen))
    except (PySparkException, Py4JError):
        raise OptionRefusedError(f'trigger={trigger!r}: it is an interval; write "1 second"') from None
    return chosen


def _checked_job(job: str) -> str:
    if not isinstance(job, str) or not job or not job.isprintable():
        raise FrameRefusedError(f"job is {job!r}: it is a name, printable and not empty")
    return job


def source_options(
    spark: SparkSession,
    topic: str,
    bootstrap: str,
    kafka: Mapping[str, object] | None,
    options: Mapping[str, str] | None,
    *,
    is_stream: bool = False,
) -> dict[str, str]:
    """Options of Spark's Kafka source for committed records of the topic.

    Raises:
        OptionRefusedError: an option that would break order or safety; a session that cannot read every record.
    """
    if spark.conf.get("spark.sql.mapKeyDedupPolicy") != "LAST_WIN":
        raise OptionRefusedError(
            "this session fails at a record that has a header name twice: use build_session(), or "
            'spark.conf.set("spark.sql.mapKeyDedupPolicy", "LAST_WIN")'
        )
    return {
        **({} if is_stream else _AT_ONCE),
        **checked_kafka_options(kafka),
        **checked(options, is_stream=is_stream),
        "kafka.bootstrap.servers": checked_bootstrap("bootstrap", bootstrap),
        "subscribe": topic,
        "includeHeaders": "true",
        "failOnDataLoss": "true",
        "kafka.isolation.level": "read_committed",
    }
