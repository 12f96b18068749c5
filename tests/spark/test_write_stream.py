"""From queue to queue as a stream: batches, restarts, and what ends a query."""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from jbm_kafka.devbroker import LocalBroker
from jbm_kafka.errors import OrderError
from jbm_kafka.kafka import ConfluentKafka
from jbm_spark.errors import CheckpointError, FrameRefusedError, OptionRefusedError, QueryError, TopicError
from jbm_spark.messages import message_stream, messages, wait_until_done, write_stream
from tests.spark.conftest import Topics
from tests.spark.crashed_checkpoint import forget_that_the_last_batch_was_done
from tests.spark.records import Record, headers
from tests.support.topics import admin_client, create_topic
from tests.support.waiting import wait_until

END_S = 300


@pytest.fixture
def copy(spark: SparkSession, topics: Topics, tmp_path: Path) -> Callable[..., None]:
    """Runs a query from one queue to another until all is written that is there."""

    def run(
        source: str,
        queue: str,
        change: Callable[[DataFrame], DataFrame] = lambda frame: frame,
        *,
        exactly_once: bool = True,
    ) -> None:
        frame = change(
            message_stream(spark, source, bootstrap=topics.bootstrap, options={"maxOffsetsPerTrigger": "20"})
        )
        query = write_stream(frame, queue, bootstrap=topics.bootstrap, checkpoint=tmp_path / "checkpoint",
                             exactly_once=exactly_once)  # fmt: skip
        try:
            assert wait_until_done(query, timeout=END_S), "the query did not end"
        finally:
            query.stop()

    return run


def numbered(begin: int, end: int) -> list[Record]:
    return [Record(key=b"u%d" % (number % 5), value=b"%d" % number) for number in range(begin, end)]


def seen(topics: Topics, queue: str) -> list[tuple[bytes | None, int, bytes]]:
    """Unit, number and id of every record, in the order of the log."""
    found = topics.read(queue)
    return [(r.key(), int(r.value() or b""), headers(r)["JMSMessageID"] or b"") for r in found]


def test_a_query_goes_on_where_it_was(topics: Topics, copy: Callable[..., None]) -> None:
    """SPARK-3: in small batches and over restarts every unit stays in order, and nothing comes twice."""
    source, queue = topics.create(3), topics.create(2)
    topics.write(source, numbered(0, 50))
    copy(source, queue)
    topics.write(source, numbered(50, 70))
    topics.write(source, [Record(value=b"aborted")], transactional_id=f"{source}-a").abort_transaction()
    copy(source, queue)
    found = seen(topics, queue)
    for unit in range(5):
        assert [number for key, number, _ in found if key == b"u%d" % unit] == [*range(unit, 70, 5)]
    assert len({message_id for _, _, message_id in found}) == 70


def test_a_batch_that_is_written_again_has_the_same_ids(
    topics: Topics, copy: Callable[..., None], tmp_path: Path
) -> None:
    """SPARK-4: Spark crashed when its last batch was written; ids made of places in the source, and of content."""
    source, queue = topics.create(2), topics.create(2)
    topics.write(source, numbered(0, 30))

    def without_ids(frame: DataFrame) -> DataFrame:
        return frame.select(
            "unit_of_order", "body_bytes", F.when(F.col("kafka.offset") > 3, F.col("kafka")).alias("kafka")
        )

    copy(source, queue, without_ids, exactly_once=False)
    before = seen(topics, queue)
    forget_that_the_last_batch_was_done(tmp_path / "checkpoint")
    copy(source, queue, without_ids, exactly_once=False)
    after = seen(topics, queue)
    assert len(before) == len(set(before)) == 30
    assert len(after) > 30
    assert set(after) == set(before)
    for unit in range(5):
        first = dict.fromkeys(number for key, number, _ in after if key == b"u%d" % unit)
        assert [*first] == [*range(unit, 30, 5)]


@pytest.mark.parametrize("forgotten", ["nothing", pytest.param("the offset", marks=pytest.mark.slow)])
def test_a_batch_that_is_written_is_not_written_again(
    topics: Topics, copy: Callable[..., None], tmp_path: Path, forgotten: str
) -> None:
    """SPARK-3: Spark crashed when its last batch was written; also when Kafka has forgotten the group's offset."""
    source, queue = topics.create(2), topics.create(3)
    topics.write(source, numbered(0, 30))
    copy(source, queue)
    before = seen(topics, queue)
    query = forget_that_the_last_batch_was_done(tmp_path / "checkpoint")
    if forgotten == "the offset":  # as it does when a query rests for a week
        with closing(ConfluentKafka(topics.bootstrap).admin()) as admin:
            admin.delete_groups([f"jbm.spark.{query}{each}" for each in ("", "-0", "-1")])
    copy(source, queue)
    topics.write(source, numbered(30, 50))
    copy(source, queue)
    after = seen(topics, queue)
    assert len(before) == 30
    assert len(after) == 50
    for unit in range(5):
        assert [number for key, number, _ in after if key == b"u%d" % unit] == [*range(unit, 50, 5)]


def test_a_checkpoint_that_went_back_is_refused(topics: Topics, copy: Callable[..., None], tmp_path: Path) -> None:
    """SPARK-3: its batches have numbers that were written, and would be left out."""
    source, queue, checkpoint = topics.create(1), topics.create(1), tmp_path / "checkpoint"
    topics.write(source, numbered(0, 50))
    copy(source, queue)
    for folder in ("offsets", "commits"):
        shutil.rmtree(checkpoint / folder)
    with pytest.raises(QueryError, match=r"batch 0 comes after batch \d+ was written: .* new checkpoint"):
        copy(source, queue)
    assert len(seen(topics, queue)) == 50


def test_a_stream_without_an_order_is_refused(spark: SparkSession) -> None:
    rate = spark.readStream.format("rate").load()
    frame = rate.selectExpr("string(value) body_text", "'u' unit_of_order")
    with pytest.raises(FrameRefusedError, match="order_by="):
        write_stream(frame, "orders", bootstrap="127.0.0.1:1", checkpoint="unused")


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"trigger": {"once": True}}, "processingTime"),
        ({"trigger": {"processingTime": 1}}, "processingTime"),
        ({"trigger": {}}, "processingTime"),
        ({"trigger": "1 second"}, "processingTime"),
        (
            {"trigger": {"processingTime": "often"}},
            r"^trigger=\{'processingTime': 'often'\}: it is an interval; write \"1 second\"$",
        ),
        ({"trigger": {"processingTime": "-1 second"}}, 'it is an interval; write "1 second"$'),
        ({"checkpoint": None}, "checkpoint=None"),
        ({"bootstrap": "localhost"}, "localhost"),
        ({"name": ""}, "name='': it is a text"),
    ],
)
def test_what_is_no_argument_is_refused_before_a_query_is_started(
    spark: SparkSession, wrong: dict[str, Any], told: str
) -> None:
    stream = spark.readStream.format("rate").load().selectExpr("string(value) body_text")
    with pytest.raises(ValueError, match=told):
        write_stream(stream, "orders", **{"bootstrap": "127.0.0.1:1", "checkpoint": "unused", **wrong})


def test_a_stream_says_where_it_may_start(spark: SparkSession) -> None:
    with pytest.raises(OptionRefusedError, match="starting='begin': use 'earliest', 'latest', an instant"):
        message_stream(spark, "orders", bootstrap="127.0.0.1:1", starting="begin")


def test_a_batch_is_no_stream(spark: SparkSession) -> None:
    with pytest.raises(FrameRefusedError, match="write_messages"):
        write_stream(spark.range(1), "orders", bootstrap="127.0.0.1:1", checkpoint="unused")


def test_a_checkpoint_of_another_query_is_refused_and_stays_usable(
    spark: SparkSession, topics: Topics, tmp_path: Path, copy: Callable[..., None]
) -> None:
    """Spark took it: to another target it wrote nothing, and from another source it spoilt it for both."""
    source, other, queue, elsewhere = (topics.create(1) for _ in range(4))
    topics.write(source, numbered(0, 5))
    copy(source, queue)
    for from_, to in [(source, elsewhere), (other, queue)]:
        frame = message_stream(spark, from_, bootstrap=topics.bootstrap)
        with pytest.raises(CheckpointError, match=f"is that of a query from {source} to {queue}, and this one is from"):
            write_stream(frame, to, bootstrap=topics.bootstrap, checkpoint=tmp_path / "checkpoint")
    topics.write(source, numbered(5, 7))
    copy(source, queue)
    assert [number for _, number, _ in seen(topics, queue)] == [*range(7)]


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"output_mode": "complete"}, "complete"),
        ({"output_mode": "apend"}, "apend"),
    ],
)
def test_what_spark_does_not_start_is_one_line(
    spark: SparkSession, topics: Topics, tmp_path: Path, wrong: dict[str, Any], told: str
) -> None:
    """It was Spark's own error."""
    frame = message_stream(spark, topics.create(), bootstrap=topics.bootstrap)
    with pytest.raises(QueryError, match=f"^Spark does not start the query with checkpoint .*{told}") as caught:
        write_stream(frame, topics.create(), bootstrap=topics.bootstrap, checkpoint=tmp_path / "new", **wrong)
    assert "\n" not in str(caught.value)


def test_each_batch_is_told_with_its_rows(
    spark: SparkSession, topics: Topics, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """To a function of the caller's, whose fault ends nothing, and in a line of the log."""
    source, queue = topics.create(1), topics.create(1)
    topics.write(source, numbered(0, 30))
    frame = message_stream(spark, source, bootstrap=topics.bootstrap, options={"maxOffsetsPerTrigger": "20"})
    told: list[tuple[str | None, int, int]] = []

    def tell(progress: StreamingQueryProgress) -> None:
        told.append((progress.name, progress.batchId, progress.observedMetrics["jbm"].rows))
        raise ValueError("of the caller's")

    with caplog.at_level("INFO", logger="jbm_spark"):
        query = write_stream(frame, queue, bootstrap=topics.bootstrap, checkpoint=tmp_path / "checkpoint",
                             name="copies", on_progress=tell)  # fmt: skip
        assert query.name == "copies"
        assert wait_until_done(query, timeout=END_S)
        wait_until(lambda: len(told) >= 2, about="both batches told", timeout_s=END_S)
        wait_until(lambda: caplog.text.count("on_progress of query copies failed") >= 2, about="log", timeout_s=END_S)
    assert told[:2] == [("copies", 0, 20), ("copies", 1, 10)]
    assert f"query copies, batch 0: 20 rows to queue:{queue} in " in caplog.text


def test_a_changed_grouping_says_that_it_takes_a_new_checkpoint(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    """It was a line about the schema of a state store."""
    source, queue = topics.create(1), topics.create(1)
    topics.write(source, numbered(0, 5))

    def start(*keys: str) -> StreamingQuery:
        frame = message_stream(spark, source, bootstrap=topics.bootstrap)
        counts = frame.groupBy(*keys).count().selectExpr("string(count) body_text")
        return write_stream(counts, queue, bootstrap=topics.bootstrap, checkpoint=tmp_path / "checkpoint",
                            output_mode="update")  # fmt: skip

    assert wait_until_done(start("unit_of_order"), timeout=END_S)
    topics.write(source, numbered(5, 8))
    with pytest.raises(QueryError, match=r"the checkpoint keeps the state of another grouping .* new checkpoint"):
        wait_until_done(start("unit_of_order", "priority"), timeout=END_S)


@pytest.mark.parametrize("trigger", [None, {"processingTime": "1 second"}])
def test_a_query_from_a_queue_to_itself_that_would_never_end_is_refused(
    spark: SparkSession, topics: Topics, tmp_path: Path, trigger: dict[str, Any] | None
) -> None:
    """It was started, and one message became six in 15 s."""
    queue = topics.create()
    frame = message_stream(spark, queue, bootstrap=topics.bootstrap).where("priority = 4").drop("message_id")
    told = f"this query reads queue:{queue} and writes to it, so it would never end: write to another queue"
    for bootstrap in [topics.bootstrap, topics.bootstrap.replace("127.0.0.1", "localhost")]:
        with pytest.raises(OptionRefusedError, match=f"^{told}$"):
            write_stream(frame, queue, bootstrap=bootstrap, checkpoint=tmp_path / "new", trigger=trigger)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    "option",
    [
        ("subscribe", "other,{queue}"),
        ("subscribePattern", "{queue}|other"),
        ("assign", '{{"{queue}": [0]}}'),
    ],
)
def test_a_circle_through_one_of_several_sources_of_the_user_s_own_is_seen(
    spark: SparkSession, topics: Topics, tmp_path: Path, option: tuple[str, str]
) -> None:
    name, value = option
    queue, other = topics.create(), topics.create()
    own = spark.readStream.format("kafka").option("kafka.bootstrap.servers", topics.bootstrap)
    own = own.option(name, value.format(queue=queue))
    first = message_stream(spark, other, bootstrap=topics.bootstrap).select("body_bytes")
    frame = first.union(own.load().selectExpr("value as body_bytes"))
    with pytest.raises(OptionRefusedError, match=f"reads queue:{queue} and writes to it"):
        write_stream(frame, queue, bootstrap=topics.bootstrap, checkpoint=tmp_path / "new")


def test_a_queue_is_copied_to_that_of_the_same_name_on_another_cluster(
    spark: SparkSession, topics: Topics, dedicated_broker: Callable[[], LocalBroker], tmp_path: Path
) -> None:
    source, there = topics.create(), dedicated_broker().bootstrap
    create_topic(there, source, partitions=1, config={"retention.ms": "-1"})
    topics.write(source, numbered(0, 3))
    frame = message_stream(spark, source, bootstrap=topics.bootstrap)
    query = write_stream(frame, source, bootstrap=there, checkpoint=tmp_path / "checkpoint")
    assert wait_until_done(query, timeout=END_S)
    assert [number for _, number, _ in seen(Topics(there), source)] == [0, 1, 2]


@pytest.mark.slow
def test_partitions_that_are_added_to_the_source_are_read_from_their_beginning(
    topics: Topics, copy: Callable[..., None]
) -> None:
    source, queue = topics.create(1), topics.create(1)
    topics.write(source, numbered(0, 5))
    copy(source, queue)
    topics.grow(source, 4)
    topics.write(source, numbered(5, 40))
    copy(source, queue)
    assert sorted(number for _, number, _ in seen(topics, queue)) == [*range(40)]


def test_a_query_does_not_start_when_its_queue_got_more_partitions(topics: Topics, copy: Callable[..., None]) -> None:
    """SPARK-2, of UNIT-11: told when it is started, with the command that admits them."""
    source, queue = topics.create(1), topics.create(2)
    topics.write(source, numbered(0, 5))
    copy(source, queue)
    topics.grow(queue, 4)
    topics.write(source, numbered(5, 10))
    with pytest.raises(OrderError, match="admit-partitions"):
        copy(source, queue)
    assert len(seen(topics, queue)) == 5


def test_a_query_ends_when_messages_are_gone_that_it_has_not_read(topics: Topics, copy: Callable[..., None]) -> None:
    """SPARK-1: nothing is skipped in silence."""
    source, queue = topics.create(1), topics.create(1)
    topics.write(source, numbered(0, 5))
    copy(source, queue)
    topics.write(source, numbered(5, 20))
    admin = admin_client(topics.bootstrap)
    for future in admin.delete_records([TopicPartition(source, 0, 10)]).values():
        future.result(END_S)
    with pytest.raises(QueryError, match=rf"offsets 5 to 19 of topic {source}, partition 0: .* gone .* new checkpoint"):
        copy(source, queue)
    assert len(seen(topics, queue)) == 5


def test_the_checkpoint_is_plain_json_with_the_identity_that_ids_are_made_of(
    topics: Topics, copy: Callable[..., None], tmp_path: Path
) -> None:
    source, queue = topics.create(1), topics.create(1)
    topics.write(source, numbered(0, 1))
    copy(source, queue, lambda frame: frame.drop("message_id"))
    identity = json.loads((tmp_path / "checkpoint" / "metadata").read_text())["id"]
    assert seen(topics, queue) == [(b"u0", 0, f"ID:spark:{identity}:{source}:0:0".encode())]


def test_a_source_made_anew_ends_a_query_for_good(
    topics: Topics, copy: Callable[..., None], running: Callable[..., AbstractContextManager[StreamingQuery]]
) -> None:
    """SPARK-1: Spark goes by offsets alone, and skipped the new one's first messages; one that runs, too."""
    source, queue = topics.create(1), topics.create(1)
    topics.write(source, numbered(0, 3))
    with running(source, queue) as query:
        topics.make_anew(source)
        topics.write(source, numbered(8, 30))
        told = f"topic {source} was made anew: the checkpoint is of the one with the id .*, and now it is .* gone"
        with pytest.raises(QueryError, match=f"{told}|messages that were not read yet are gone|is not there any more"):
            assert not wait_until_done(query, timeout=END_S), "it ended without an error"
    with pytest.raises(QueryError, match=told):
        copy(source, queue)
    assert len(seen(topics, queue)) == 8


@pytest.fixture
def running(spark: SparkSession, topics: Topics, tmp_path: Path) -> Callable[[str, str], AbstractContextManager[Any]]:
    """A block in which a query goes on from one queue to another; it has written a batch."""

    @contextmanager
    def run(source: str, queue: str) -> Iterator[StreamingQuery]:
        topics.write(source, numbered(0, 5))
        frame = message_stream(spark, source, bootstrap=topics.bootstrap)
        query = write_stream(frame, queue, bootstrap=topics.bootstrap, checkpoint=tmp_path / "checkpoint",
                             trigger={"processingTime": "1 second"})  # fmt: skip
        try:
            wait_until(lambda: query.lastProgress is not None, about="a batch", timeout_s=END_S)
            yield query
        finally:
            query.stop()

    return run


def test_a_wait_with_a_timeout_tells_whether_the_query_has_ended(
    topics: Topics, running: Callable[..., AbstractContextManager[StreamingQuery]]
) -> None:
    with running(topics.create(), topics.create()) as query:
        assert wait_until_done(query, timeout=0) is False
        query.stop()
        assert wait_until_done(query) is True


def test_a_query_that_is_stopped_within_a_batch_has_not_failed_and_the_next_one_writes_it(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    """It was "QueryError: the query ended: An error occurred while calling o33843.save"."""
    source, queue, gate = topics.create(), topics.create(), tmp_path / "gate"
    topics.write(source, numbered(0, 5))

    def held(text: str) -> str:
        while not gate.exists():  # in Spark's worker, until it is killed
            gate.with_name("begun").touch()
        return text

    def start() -> StreamingQuery:
        frame = message_stream(spark, source, bootstrap=topics.bootstrap).drop("body_text")
        slow = frame.withColumn("unit_of_order", F.udf(held, "string", useArrow=False)("unit_of_order"))
        return write_stream(slow, queue, bootstrap=topics.bootstrap, checkpoint=tmp_path / "checkpoint")

    query = start()
    try:
        wait_until((tmp_path / "begun").exists, about="a batch that is being written", timeout_s=END_S)
    finally:
        query.stop()
    assert wait_until_done(query) is True
    assert query.exception() is None
    assert seen(topics, queue) == []
    gate.touch()
    assert wait_until_done(start(), timeout=END_S) is True
    assert [number for _, number, _ in seen(topics, queue)] == [*range(5)]


@pytest.mark.parametrize(
    ("deleted", "told"),
    [
        (
            "source",
            # The second, when Spark sees no partitions before it hears that there is no topic.
            "a topic is not there any more: create it|messages that were not read yet are gone",
        ),
        # Another queue's name may be much like it by chance, and is asked about then.
        ("queue", "there is no Kafka topic '{queue}'; .*reate it with: jbm-kafka create {queue}"),
    ],
)
def test_a_topic_that_is_deleted_under_a_query_is_one_line(
    topics: Topics, running: Callable[..., AbstractContextManager[StreamingQuery]], deleted: str, told: str
) -> None:
    source, queue = topics.create(), topics.create()
    with running(source, queue) as query:
        topics.delete(source if deleted == "source" else queue)
        if deleted == "queue":
            topics.write(source, numbered(5, 10))
        with pytest.raises(QueryError, match=told.format(queue=queue)) as raised:
            assert not wait_until_done(query, timeout=END_S), "it ended without an error"
    assert str(raised.value).startswith("the query ended: ")
    assert "\n" not in str(raised.value)


def test_a_query_ends_when_its_queue_got_more_partitions(
    topics: Topics, running: Callable[..., AbstractContextManager[StreamingQuery]]
) -> None:
    """SPARK-2, of UNIT-11: told by the query, before it writes; with the command that admits them."""
    source, queue = topics.create(), topics.create(2)
    with running(source, queue) as query:
        topics.grow(queue, 4)
        topics.write(source, numbered(5, 10))
        with pytest.raises(QueryError, match=r"^the query ended: .*admit-partitions"):
            assert not wait_until_done(query, timeout=END_S), "it ended without an error"
    assert len(seen(topics, queue)) == 5


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_broker_that_dies_under_a_query_is_one_line(
    spark: SparkSession, dedicated_broker: Callable[[], LocalBroker], tmp_path: Path
) -> None:
    broker = dedicated_broker()
    topics = Topics(broker.bootstrap)
    source, queue = topics.create(), topics.create()
    # Java's client gives up after a minute, if it is not told otherwise.
    sooner = {"kafka.default.api.timeout.ms": "30000", "kafka.request.timeout.ms": "20000"}
    frame = message_stream(spark, source, bootstrap=broker.bootstrap, options=sooner)
    query = write_stream(frame, queue, bootstrap=broker.bootstrap, checkpoint=tmp_path / "checkpoint",
                         trigger={"processingTime": "1 second"})  # fmt: skip
    try:
        wait_until(lambda: query.isActive and query.lastProgress is not None, about="a batch", timeout_s=END_S)
        broker.kill()
        with pytest.raises(QueryError, match=r"the query ended: TimeoutException: .*; the brokers did not answer: see"):
            assert not wait_until_done(query, timeout=END_S), "it ended without an error"
        with pytest.raises(TopicError, match=r"^read queue:.*: nobody answers at .*; start the broker"):
            messages(spark, source, bootstrap=broker.bootstrap)
    finally:
        query.stop()
