"""Measures reading and writing messages beside Spark's own Kafka source and sink, in one run.

    jbm-spark bench --bootstrap localhost:9092 [--messages 300000] [--repeats 3] [--json]

It makes two queues of its own, fills one, and deletes both. Ours and Spark's own run in turn; the first round warms the
JVM up and does not count. Ratios of one run may be compared, seconds of two runs may not.
"""

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING
from uuid import uuid4

import click

from jbm_kafka.admin import Admin
from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.cli.command_options import Whole
from jbm_kafka.core.destination import Queue
from jbm_spark.jobs.job import in_session, job_options
from jbm_spark.kafka_properties import kafka_options
from jbm_spark.processor_time import processor_seconds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTITIONS = 4
UNITS = 1_000
THREE = ("unit_of_order", "body_text", "priority")

SIZE_TARGET = 1.1
TARGETS: Mapping[str, float | None] = {
    "read all columns": 0.8,
    "stream all columns": 0.8,
    "read three columns": 0.9,
    "stream three columns": 0.9,
    "write unit, text, id, four properties": 0.6,
    "write an archive's rows": 0.5,
    "queue to queue": 0.5,
    "queue to queue, exactly_once=False": None,
}
"""The figures that are measured, each with the least that our speed should be of Spark's own."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One way to read or write: medians beside Spark's own."""

    what: str
    seconds: float
    bare_seconds: float
    ratio: float
    """Our speed by Spark's own."""
    processor_ratio: float | None
    """The same by the processor time of the driver's JVM and the Python workers below it, which other work of the
    machine changes less; None where that is not to be seen."""
    target: float | None


@dataclass(frozen=True, slots=True)
class BenchResult:
    """Everything that one run found."""

    messages: int
    repeats: int
    compared: tuple[Compared, ...]
    archive_bytes: int
    """The size of all columns as Parquet."""
    bare_bytes: int
    """The size of key, value and headers as Parquet."""
    has_violations: bool = False

    def text(self) -> str:
        """A table."""
        lines = [f"{self.messages} messages, medians of {self.repeats}; ratios are our speed by that of Spark alone"]
        lines.append(f"{'':40}{'msg/s':>10}{'Spark':>10}{'ratio':>8}{'by CPU':>8}{'target':>8}")
        for each in self.compared:
            speeds = (self.messages / seconds for seconds in (each.seconds, each.bare_seconds))
            ratios = (each.ratio, each.processor_ratio, each.target)
            told = [f"{speed:>10.0f}" for speed in speeds]
            told += [f"{'-' if ratio is None else format(ratio, '.2f'):>8}" for ratio in ratios]
            lines.append(f"{each.what:40}{''.join(told)}")
        size, bare = self.archive_bytes, self.bare_bytes
        megabytes = f"{size / 1e6:.1f} MB, {bare / 1e6:.1f} MB of key, value and headers"
        return "\n".join([*lines, f"all columns as Parquet: {megabytes}: {size / bare:.2f} (target {SIZE_TARGET})"])


def run(
    spark: "SparkSession",
    *,
    bootstrap: str,
    namespace: str = "",
    kafka: Mapping[str, object] | None = None,
    messages: int = 300_000,
    repeats: int = 3,
) -> BenchResult:
    """Measured in two queues that are made for it and deleted again."""
    from jbm_spark.messages import write_messages

    name = f"jbm-bench-{uuid4().hex[:8]}"
    source, target = Queue(name), Queue(f"{name}-copy")
    with _queues((source, target), bootstrap, namespace, kafka), tempfile.TemporaryDirectory(prefix=name) as folder:
        rows = Path(folder) / "rows"
        _rows(spark, messages).write.parquet(str(rows))
        where: dict[str, object] = {"bootstrap": bootstrap, "namespace": namespace, "kafka": kafka}
        write_messages(spark.read.parquet(str(rows)), source, **where)  # type: ignore[arg-type]
        ways = _Ways(spark, source, target, where, Path(folder))
        ways.save_raw()
        taken: dict[str, list[tuple[_Cost, _Cost]]] = {what: [] for what in TARGETS}
        for turn in range(repeats + 1):
            for what, (ours, bare) in ways.pairs().items():
                pair = _measured(spark, ours), _measured(spark, bare)
                if turn:
                    taken[what].append(pair)
        compared = tuple(_compared(what, pairs) for what, pairs in taken.items())
        return BenchResult(messages, repeats, compared, _size(ways.all_columns), _size(ways.bare))


@contextmanager
def _queues(
    queues: tuple[Queue, ...], bootstrap: str, namespace: str, kafka: Mapping[str, object] | None
) -> Iterator[None]:
    with Admin(bootstrap, kafka=kafka, namespace=namespace) as admin:
        try:
            for queue in queues:
                admin.create_queue(queue, partitions=PARTITIONS)
            yield
        finally:
            for queue in queues:
                admin.delete_destination(queue, force=True)


def _rows(spark: "SparkSession", count: int) -> "DataFrame":
    """Messages with a text of 200 bytes, which no codec makes much smaller."""
    from pyspark.sql import functions as F  # noqa: N812

    number = F.col("id").cast("string")
    text = F.concat(F.lit("order "), number, F.lit(" "), F.sha2(number, 512), F.sha2(F.reverse(number), 512))
    properties = F.struct(
        (F.col("id") % 50).cast("int").alias("qty"),
        F.when(F.col("id") % 3 == 0, "US").otherwise("EU").alias("region"),
        (F.col("id") * 7919).alias("customer"),
        (F.col("id") % 2 == 0).alias("express"),
    )
    return spark.range(count).select(
        F.concat(F.lit("unit-"), (F.col("id") % UNITS).cast("string")).alias("unit_of_order"),
        text.substr(1, 200).alias("body_text"),
        F.concat(F.lit("ID:bench:"), number).alias("message_id"),
        properties.alias("properties"),
    )


class _Ways:
    """The ways that are measured, ours beside Spark's own."""

    def __init__(
        self, spark: "SparkSession", source: Queue, target: Queue, where: dict[str, object], folder: Path
    ) -> None:
        self._spark, self._source, self._target, self._where, self._folder = spark, source, target, where, folder
        self.all_columns, self.bare, self.raw = folder / "all", folder / "bare", folder / "raw"
        namespace = str(where["namespace"])
        self._topics = source.kafka_topic(namespace), target.kafka_topic(namespace)
        self._options = kafka_options(where["kafka"] or {}) | {"kafka.bootstrap.servers": str(where["bootstrap"])}  # type: ignore[arg-type]

    def pairs(self) -> Mapping[str, tuple[Callable[[], object], Callable[[], object]]]:
        from jbm_spark.messages import message_stream, messages, wait_until_done, write_messages, write_stream

        def ours(*, is_stream: bool) -> "DataFrame":
            read = message_stream if is_stream else messages
            return read(self._spark, self._source, **self._where)  # type: ignore[arg-type]

        def sent(folder: Path) -> None:
            write_messages(self._spark.read.parquet(str(folder)), self._target, **self._where)  # type: ignore[arg-type]

        def passed_on(*, exactly_once: bool) -> None:
            to: dict[str, object] = {"checkpoint": self._new(), "exactly_once": exactly_once, **self._where}
            wait_until_done(write_stream(ours(is_stream=True), self._target, **to))  # type: ignore[arg-type]

        bare, three = ("key", "value", "headers"), self._folder / "three"
        read, stream, write, archive, copy = (
            lambda: self._saved(self._bare(is_stream=False).select(*bare), self.bare),
            lambda: self._streamed(self._bare(is_stream=True).select(*bare)),
            self._bare_sent,
            self._bare_sent,
            self._bare_passed_on,
        )
        found = (
            (lambda: self._saved(ours(is_stream=False), self.all_columns), read),
            (lambda: self._streamed(ours(is_stream=True)), stream),
            (lambda: self._saved(ours(is_stream=False).select(*THREE), three), read),
            (lambda: self._streamed(ours(is_stream=True).select(*THREE)), stream),
            (lambda: sent(self._folder / "rows"), write),
            (lambda: sent(self.raw), archive),
            (lambda: passed_on(exactly_once=True), copy),
            (lambda: passed_on(exactly_once=False), copy),
        )
        return dict(zip(TARGETS, found, strict=True))

    def save_raw(self) -> None:
        """The messages with their keys and headers, to be written on."""
        from jbm_spark.messages import messages

        self._saved(messages(self._spark, self._source, raw=True, **self._where), self.raw)  # type: ignore[arg-type]

    def _bare(self, *, is_stream: bool) -> "DataFrame":
        reader = self._spark.readStream if is_stream else self._spark.read
        chosen = {"subscribe": self._topics[0], "includeHeaders": "true", "startingOffsets": "earliest"}
        committed = {"kafka.isolation.level": "read_committed"}
        return reader.format("kafka").options(**self._options, **chosen, **committed).load()

    def _bare_sent(self) -> None:
        frame = self._spark.read.parquet(str(self.bare))
        frame.write.format("kafka").options(**self._options, topic=self._topics[1]).save()

    def _bare_passed_on(self) -> None:
        frame = self._bare(is_stream=True).select("key", "value", "headers").writeStream.format("kafka")
        chosen = {"topic": self._topics[1], "checkpointLocation": self._new()}
        frame.options(**self._options, **chosen).trigger(availableNow=True).start().awaitTermination()

    def _saved(self, frame: "DataFrame", folder: Path) -> None:
        frame.write.mode("overwrite").parquet(str(folder))

    def _streamed(self, frame: "DataFrame") -> None:
        to = Path(self._new())
        query = frame.writeStream.format("parquet").option("checkpointLocation", str(to / "checkpoint"))
        query.trigger(availableNow=True).start(str(to / "rows")).awaitTermination()
        shutil.rmtree(to)

    def _new(self) -> str:
        return str(self._folder / uuid4().hex)


_Cost = tuple[float, float | None]
"""Seconds, and seconds of the processor."""


def _measured(spark: "SparkSession", work: Callable[[], object]) -> _Cost:
    begun, used = time.monotonic(), processor_seconds(spark)
    work()
    seconds, after = time.monotonic() - begun, processor_seconds(spark)
    return seconds, None if used is None or after is None else after - used


def _compared(what: str, pairs: list[tuple[_Cost, _Cost]]) -> Compared:
    seconds, bare = (median(pair[side][0] for pair in pairs) for side in (0, 1))
    used, bare_used = ([pair[side][1] for pair in pairs if pair[side][1]] for side in (0, 1))
    processor = median(map(float, bare_used)) / median(map(float, used)) if used and bare_used else None  # type: ignore[arg-type]
    return Compared(what, seconds, bare, bare / seconds, processor, TARGETS[what])


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.glob("*.parquet"))


@click.command()
@click.option("--messages", metavar="N", type=Whole(1_000, 10_000_000), default=300_000, show_default=True)
@click.option("--repeats", metavar="N", type=Whole(1, 100), default=3, show_default=True, help="After one to warm up.")
@job_options
def bench(messages: int, repeats: int, cluster: Cluster, master: str | None, as_json: bool) -> None:
    """Measure reading and writing beside Spark's own Kafka source and sink. Minutes; queues of its own."""

    def work(spark: "SparkSession") -> BenchResult:
        return run(spark, bootstrap=cluster.bootstrap, namespace=cluster.namespace, kafka=cluster.kafka,
                   messages=messages, repeats=repeats)  # fmt: skip

    in_session("bench", work, cluster=cluster, master=master, as_json=as_json, starts_fast=False)
