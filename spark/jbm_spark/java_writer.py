"""Writes records in the executors' own JVMs, where our classes of Java are: no Python runs, and no row is copied.

Each once by the rules of `record_transaction.py`, which does it everywhere else: each may go on where the other one
was. Else as Spark's own sink, by the producer that it would have. Headers go there as one value (`packed_headers`).
"""

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import BinaryType

from jbm_kafka.registry.own_topics import ledger_topic
from jbm_spark.batch_ledger import PATIENCE_S, TRANSACTION_TIMEOUT_MS, UNBOUNDED_TIMEOUT_MS
from jbm_spark.batch_parts import ROWS_MAX, SECONDS_MAX
from jbm_spark.errors import OptionRefusedError
from jbm_spark.java_calls import called, has_class, of_java
from jbm_spark.record_transaction import BatchTarget
from jbm_spark.sink_options import all_sink_options, number_of_bytes

WRITER = "spark.jbm.writer"
"""Setting of a session: `java` or `python`; without it Java writes, where it can."""
_TASK, _TARGET, _PLAIN_TASK = "jbm.spark.SinkTask", "jbm.spark.BatchTarget", "jbm.spark.PlainTask"
_PACKED_HEADERS = "jbm.spark.PackedHeaders"
_CLIENT = "kafka."
_LIKE_LIBRDKAFKA = {"linger.ms": "1", "batch.size": "65536", "compression.type": "lz4"}
"""The settings of a producer of the Python writer, but where the options say otherwise."""
_BUFFER_BYTES = f"{16 * 2**20}"
"""Half of Kafka's default, for a producer that is kept keeps its memory, too; more, where the topic takes larger
messages."""
_PATIENCE_MS = int(PATIENCE_S * 1000)
_OF_PRODUCER = ("acks", "enable.idempotence", "max.request.size", "buffer.memory", *_LIKE_LIBRDKAFKA)


def writes_by_java(frame: DataFrame) -> bool:
    """Return True if batches of the frame's session are written by Java.

    Raises:
        OptionRefusedError: the session's setting is neither, or it is Java, whose classes are not there.
    """
    wanted = frame.sparkSession.conf.get(WRITER, None)
    if wanted not in (None, "java", "python"):
        raise OptionRefusedError(f"{WRITER}={wanted}: it is java or python, or left out")
    # The newest of our classes: a jar of an earlier version, which a session may name, counts as none.
    is_there = wanted != "python" and has_class(_PACKED_HEADERS)
    if wanted == "java" and not is_there:
        raise OptionRefusedError(
            f"{WRITER}=java, and the session has no class {_PACKED_HEADERS}: "
            "build it with build_session(), or leave it out"
        )
    return is_there


def packed_headers(headers: Column) -> Column:
    """Return headers as the bytes that they are in a record of Kafka's, for frames that Java writes."""
    return called(_PACKED_HEADERS, "pack", "binary", [headers], takes_null=False)


def are_packed(frame: DataFrame) -> bool:
    """Return True if the frame's column `headers` has `packed_headers`, so that Java is to write it."""
    return isinstance(frame.schema["headers"].dataType, BinaryType)


def write_plainly_by_java(records: DataFrame, options: Mapping[str, str], *, max_message_bytes: int) -> None:
    """Over partition, key, value, packed headers, in order, with the options that Spark's sink would have.

    What fails raises what Spark raises for a task, or as `plain_settings`.
    """
    settings = plain_settings(options, max_message_bytes=max_message_bytes)
    of_java(_PLAIN_TASK).write(records._jdf, settings, options["topic"])


def plain_settings(options: Mapping[str, str], *, max_message_bytes: int) -> Mapping[str, str]:
    """Return the settings of the producer that writes plainly.

    Raises:
        OptionRefusedError: kafka.batch.size is no number.
    """
    settings = _of_client(options)
    for name in ("linger.ms", "batch.size"):
        settings.setdefault(name, _LIKE_LIBRDKAFKA[name])
    return {**settings, "batch.size": _batch_size(settings, max_message_bytes)}


def write_by_java(records: DataFrame, target: BatchTarget, options: Mapping[str, str]) -> None:
    """Over sink, partition, key, value, packed headers, digest, place, in order; all rows of a task have one sink.

    `options` are those of Spark's sink. What fails raises what Spark raises for a task.
    """
    client, producer = transactional_settings(options, target)
    of_batch = of_java(_TARGET)(client, producer, ledger_topic(target.namespace), target.query_name, target.topic,
                                target.batch, ROWS_MAX, int(SECONDS_MAX * 1000), _PATIENCE_MS,
                                UNBOUNDED_TIMEOUT_MS)  # fmt: skip
    of_java(_TASK).write(records._jdf, of_batch)


def transactional_settings(
    options: Mapping[str, str], target: BatchTarget
) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Return the settings of all clients that write once, and those of the producer besides.

    Raises:
        OptionRefusedError: kafka.batch.size or kafka.buffer.memory is no number.
    """
    given = _of_client(
        all_sink_options(
            options, bootstrap=target.bootstrap, topic=target.topic, max_message_bytes=target.max_message_bytes,
            buffer_bytes=_BUFFER_BYTES,
        )
    )  # fmt: skip
    client = {name: value for name, value in given.items() if name not in (*_OF_PRODUCER, "delivery.timeout.ms")}
    producer = {
        **_LIKE_LIBRDKAFKA,
        **{name: value for name, value in given.items() if name in _OF_PRODUCER},
        "transaction.timeout.ms": str(TRANSACTION_TIMEOUT_MS),
        # A record that cannot be written must fail while the transaction can still be aborted and redone.
        "delivery.timeout.ms": str(TRANSACTION_TIMEOUT_MS),
        "max.block.ms": str(_PATIENCE_MS),
        # A coordinator may answer "not yet" to each step of a commit.
        "retry.backoff.ms": "2",
        "retry.backoff.max.ms": "100",
    }
    return client, {**producer, "batch.size": _batch_size(producer, target.max_message_bytes)}


def _of_client(options: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of Kafka's client by the names that it knows."""
    return {name.removeprefix(_CLIENT): value for name, value in options.items() if name.startswith(_CLIENT)}


def _batch_size(settings: Mapping[str, str], max_message_bytes: int) -> str:
    """A topic that takes only small batches refuses a larger one, though each record in it would fit."""
    return str(min(number_of_bytes(_CLIENT + "batch.size", settings["batch.size"]), max_message_bytes))
