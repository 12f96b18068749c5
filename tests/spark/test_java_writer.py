"""The writer in Java and the one in Python write the same, record the same of it, and tell the same when they cannot.

Method: a query runs by each, as the setting of its session says, and the topics are compared. What may be written again
is compared with what Spark's own sink writes, which is its writer without Java.
"""

import random
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from jbm_kafka.codec.record_size import batch_bytes
from jbm_kafka.kafka import ConfluentKafka
from jbm_kafka.ports import CommittedOffset
from jbm_kafka.registry.own_topics import ledger_topic
from jbm_spark.batch_ledger import LedgerEntry, LedgerProducer, make_ledger
from jbm_spark.batch_parts import Written
from jbm_spark.errors import OptionRefusedError, QueryError, WriteError
from jbm_spark.java_writer import WRITER
from jbm_spark.messages import message_stream, messages, wait_until_done, write_messages, write_stream
from tests.spark.any_record import any_record
from tests.spark.conftest import Topics
from tests.spark.crashed_checkpoint import forget_that_the_last_batch_was_done
from tests.spark.records import Record
from tests.support.waiting import wait_until

END_S = 300
WRITERS = ("java", "python")
LARGE = 17_000_000
PARTS = 45_000
"""Records that take two transactions."""


@contextmanager
def written_by(spark: SparkSession, writer: str) -> Iterator[None]:
    spark.conf.set(WRITER, writer)
    try:
        yield
    finally:
        spark.conf.unset(WRITER)


@pytest.fixture
def copy(spark: SparkSession, topics: Topics, tmp_path: Path) -> Callable[..., str]:
    """Writes all of a queue to another one, by that writer, with ids of its places; the query's identity."""

    def run(
        source: str, queue: str, writer: str, *, checkpoint: str = "", options: dict[str, str] | None = None
    ) -> str:
        with written_by(spark, writer):
            query = write_stream(identified(spark, topics, source), queue, bootstrap=topics.bootstrap,
                                 checkpoint=tmp_path / (checkpoint or writer), rejects=tmp_path / f"{writer}-rejects",
                                 options=options)  # fmt: skip
            try:
                assert wait_until_done(query, timeout=END_S)
            finally:
                query.stop()
        return str(query.id)

    return run


def identified(spark: SparkSession, topics: Topics, source: str) -> DataFrame:
    frame = message_stream(spark, source, bootstrap=topics.bootstrap)
    return frame.withColumn("message_id", F.concat(F.lit("ID:"), F.col("kafka.offset").cast("string")))


def recorded(topics: Topics, query: str) -> tuple[list[tuple[bytes, bytes | None]], dict[str, CommittedOffset]]:
    """What the ledger has of the query's transactional ids, one after the other, and what their groups have."""
    begin = f"jbm.spark.{query}"
    entries = [
        ((record.key() or b"").removeprefix(begin.encode()), record.value())
        for record in topics.read(ledger_topic(""))
        if (record.key() or b"").startswith(begin.encode())
    ]
    with closing(ConfluentKafka(topics.bootstrap).admin()) as admin:
        offsets = {end: admin.committed(begin + end, ledger_topic(""), [0])[0] for end in ("", "-0")}
    return sorted(entries, key=lambda entry: entry[0]), offsets


def test_both_write_the_same_records_and_ledger(topics: Topics, copy: Callable[..., str]) -> None:
    """SPARK-2, SPARK-3: odd records, and more than one transaction takes, byte for byte and in the order they had."""
    chance, source = random.Random(117), topics.create(1)
    numbered = [Record(key=b"u%d" % (n % 50), value=b"%d" % n, headers=(("JBMBody", b"text"),)) for n in range(PARTS)]
    topics.write(source, [*(any_record(chance) for _ in range(300)), *numbered])
    written, ledgers = [], []
    for writer in WRITERS:
        queue = topics.create(1)
        query = copy(source, queue, writer)
        written.append([(record.key(), record.value(), record.headers()) for record in topics.read(queue)])
        ledgers.append(recorded(topics, query))
    assert len(written[0]) > PARTS
    assert written[0] == written[1]
    assert [value for _, value, _ in written[0][-PARTS:]] == [record.value for record in numbered]
    assert ledgers[0] == ledgers[1]
    assert [b"part: " in (value or b"") for end, value in ledgers[0][0] if end == b"-0"] == [True, False]


@pytest.mark.parametrize("writer", WRITERS)
def test_a_batch_goes_on_behind_what_is_recorded_of_it(topics: Topics, copy: Callable[..., str], tmp_path: Path,
                                                       spark: SparkSession, writer: str) -> None:  # fmt: skip
    """SPARK-3: behind a part that an earlier attempt committed; and not where its rows were others."""
    source, queue = topics.create(1), topics.create(1)
    topics.write(source, [Record(key=b"u", value=b"%d" % number) for number in range(30)])
    query = copy(source, queue, "python", checkpoint="checkpoint")
    forget_that_the_last_batch_was_done(tmp_path / "checkpoint")
    rows = spark.createDataFrame([(f"ID:{n}", bytearray(b"u")) for n in range(10)], "out_id string, key binary")
    digest = sum(row[0] for row in rows.select(F.xxhash64("out_id", "key")).collect()) % 2**64

    def record(part: Written) -> None:
        """As an attempt would that ended there."""
        name = f"jbm.spark.{query}-0"
        with closing(LedgerProducer(ConfluentKafka(topics.bootstrap), name, ledger=ledger_topic(""))) as producer:
            producer.write([], lambda: LedgerEntry.of_part(0, part))

    for wrong in (Written(10, digest ^ 1), Written(30, digest)):
        record(wrong)
        with pytest.raises(QueryError, match=f"its first {wrong.rows} rows were written by an earlier attempt, and are "
                           "others now: .* begin with a new checkpoint"):  # fmt: skip
            copy(source, queue, writer, checkpoint="checkpoint")
    record(Written(10, digest))
    copy(source, queue, writer, checkpoint="checkpoint")
    assert [int(each.value() or b"") for each in topics.read(queue)] == [*range(30), *range(10, 30)]


def test_java_writes_a_frame_as_spark_s_own_sink_does(spark: SparkSession, topics: Topics) -> None:
    """SPARK-2, SPARK-3: odd records, byte for byte, each unit in its order and where its hash says."""
    chance, source = random.Random(118), topics.create(3)
    numbered = [Record(key=b"u%d" % (n % 50), value=b"number %d" % n) for n in range(5_000)]
    topics.write(source, [*(any_record(chance) for _ in range(300)), *numbered])
    written = []
    for writer in WRITERS:
        queue = topics.create(3)
        with written_by(spark, writer):
            write_messages(messages(spark, source, bootstrap=topics.bootstrap), queue, bootstrap=topics.bootstrap)
        found = [(each.partition(), each.key(), each.value(), each.headers()) for each in topics.read(queue)]
        written.append([[each[1:] for each in found if each[0] == partition] for partition in range(3)])
    assert sum(map(len, written[0])) == len(numbered) + 300
    assert written[0] == written[1]
    for records in written[0]:
        values = [value for _, value, _ in records if value is not None and value.startswith(b"number ")]
        assert len(values) > 100
        assert values == sorted(values, key=lambda value: int(value.split()[1]))


@pytest.mark.parametrize("writer", WRITERS)
def test_a_frame_s_record_that_kafka_refuses_is_told_in_one_line(
    spark: SparkSession, topics: Topics, writer: str
) -> None:
    queue = topics.create(1)
    with closing(ConfluentKafka(topics.bootstrap).admin()) as admin:
        admin.alter_config(queue, {"max.message.bytes": "200000"})
    frame = spark.createDataFrame([(bytearray(random.Random(1).randbytes(900_000)),)], "body_bytes binary")
    with written_by(spark, writer), pytest.raises(WriteError, match="RecordTooLarge") as told:
        write_messages(frame, queue, bootstrap=topics.bootstrap, options={"kafka.compression.type": "gzip"})
    assert "\n" not in str(told.value)
    assert topics.read(queue) == []


@pytest.mark.parametrize("writer", WRITERS)
def test_a_record_that_kafka_refuses_is_told_in_one_line(topics: Topics, copy: Callable[..., str], writer: str) -> None:
    """SPARK-3: it is compressed, so that nobody knew its size before; nothing of its transaction is there."""
    source, queue = topics.create(1), topics.create(1)
    body = random.Random(1).randbytes(900_000)
    topics.write(source, [Record(key=b"u", value=b"small"), Record(key=b"u", value=body)])
    with closing(ConfluentKafka(topics.bootstrap).admin()) as admin:
        admin.alter_config(queue, {"max.message.bytes": "200000"})
    with pytest.raises(QueryError, match=rf"^the query ended: .*{queue}\[0\].*: .*too large.*") as told:
        copy(source, queue, writer, options={"kafka.compression.type": "gzip"})
    assert "\n" not in str(told.value)
    assert writer == "python" or ", message ID:1 of 900000 bytes: " in str(told.value)
    assert topics.read(queue) == []


def test_a_message_of_any_size_that_its_topic_takes_is_written(topics: Topics, spark: SparkSession,
                                                               tmp_path: Path) -> None:  # fmt: skip
    """SPARK-3: one larger than the producer's memory, 16 MB, ended the query at each start."""
    source, queue = topics.create(1), topics.create(1)
    topics.write(source, [Record(key=b"u", value=b"x", headers=(("JBMBody", b"text"),))])
    with closing(ConfluentKafka(topics.bootstrap).admin()) as admin:
        admin.alter_config(queue, {"max.message.bytes": f"{LARGE + 10_000}"})
    with written_by(spark, "java"):
        rows = identified(spark, topics, source).withColumn("body_text", F.repeat("body_text", F.lit(LARGE)))
        query = write_stream(rows, queue, bootstrap=topics.bootstrap, checkpoint=tmp_path / "checkpoint")
        assert wait_until_done(query, timeout=END_S)
    assert [len(each.value() or b"") for each in topics.read(queue)] == [LARGE]


@pytest.mark.parametrize("writer", WRITERS)
def test_a_message_that_compression_makes_too_large_is_kept_aside(
    spark: SparkSession, topics: Topics, tmp_path: Path, writer: str, copy: Callable[..., str]
) -> None:
    """SPARK-3: bytes without a pattern that were just what the topic takes ended the query at each start."""
    source, queue, limit = topics.create(1), topics.create(1), 200_000
    with closing(ConfluentKafka(topics.bootstrap).admin()) as admin:
        admin.alter_config(queue, {"max.message.bytes": f"{limit}"})
    body = random.Random(1).randbytes(limit)
    topics.write(source, [Record(key=b"u", value=body[: limit // 2])])
    copy(source, queue, writer)
    [written] = topics.read(queue)
    carried: Any = written.headers()
    room = limit - batch_bytes(written.key(), written.value(), carried) + limit // 2
    topics.write(source, [Record(key=b"u", value=body[: room + more]) for more in (-100, 0, 1)])
    copy(source, queue, writer)
    kept = spark.read.json(str(tmp_path / f"{writer}-rejects")).orderBy("row.kafka.offset").collect()
    assert [row.row.kafka.offset for row in kept] == ([2, 3] if writer == "java" else [3])
    assert [len(each.value() or b"") for each in topics.read(queue)[1:]] == (
        [room - 100] if writer == "java" else [room - 100, room]
    )
    assert f"its id: ID:3; it came from {source}:0:3; its key: u" in kept[-1].reason


@pytest.mark.parametrize("writer", WRITERS)
def test_a_query_that_begins_does_not_wait_for_a_transaction_that_another_has_left(
    topics: Topics, spark: SparkSession, tmp_path: Path, writer: str
) -> None:
    """SPARK-3: a killed process held up each new query for five minutes."""
    source, queue, namespace = topics.create(1), topics.create(1), uuid4().hex[:12]
    topics.write(source, [Record(key=b"u", value=b"x")])
    with closing(ConfluentKafka(topics.bootstrap).admin()) as admin:
        make_ledger(admin, namespace)
    killed = topics.write(ledger_topic(namespace), [Record(key=b"another", value=b"{}")], transactional_id=f"{uuid4()}")
    with written_by(spark, writer):
        query = write_stream(identified(spark, topics, source), queue, bootstrap=topics.bootstrap, namespace=namespace,
                             checkpoint=tmp_path / "checkpoint")  # fmt: skip
        try:
            assert wait_until_done(query, timeout=60)
        finally:
            query.stop()
    killed.abort_transaction()
    assert [each.value() for each in topics.read(queue)] == [b"x"]


def test_a_producer_is_kept_from_batch_to_batch_until_another_takes_over(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    """SPARK-3: an open one costs a batch nothing; one that was fenced is found before its task has taken a row."""
    source, queue = topics.create(1), topics.create(1)
    with written_by(spark, "java"):
        query = write_stream(identified(spark, topics, source), queue, bootstrap=topics.bootstrap,
                             checkpoint=tmp_path / "checkpoint", trigger={"processingTime": "0 seconds"})  # fmt: skip
    name = f"jbm.spark.{query.id}-0"

    def batch(numbers: range) -> set[int]:
        """Write one; the threads of the sink partition's producers then."""
        topics.write(source, [Record(key=b"u", value=b"%d" % number) for number in numbers])
        wait_until(lambda: not query.isActive or len(topics.read(queue)) == numbers.stop,
                   about=f"{numbers} to be written", timeout_s=END_S)  # fmt: skip
        threads = spark.sparkContext._jvm.Thread.getAllStackTraces().keySet()  # type: ignore[union-attr]
        return {thread.getId() for thread in threads if thread.getName().endswith(f"producer-{name}")}

    try:
        first, second = batch(range(5)), batch(range(5, 10))
        assert len(first) == 1
        assert first == second
        LedgerProducer.fence(ConfluentKafka(topics.bootstrap), name, ledger=ledger_topic(""))
        third = batch(range(10, 15))
        assert query.exception() is None
        assert len(third) == 1
        assert first != third
    finally:
        query.stop()
    assert [int(each.value() or b"") for each in topics.read(queue)] == [*range(15)]


def test_a_setting_that_is_no_writer_is_refused(spark: SparkSession) -> None:
    stream = spark.readStream.format("rate").load().selectExpr("string(value) body_text")
    with written_by(spark, "scala"), pytest.raises(OptionRefusedError, match=rf"^{WRITER}=scala: it is java or python"):
        write_stream(stream, "orders", bootstrap="127.0.0.1:1", checkpoint="unused")
