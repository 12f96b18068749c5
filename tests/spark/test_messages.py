"""What `messages` reads of a topic, and what it refuses."""

from collections.abc import Callable
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from jbm_kafka.core.jms_errors import InvalidDestinationError
from jbm_spark.errors import OptionRefusedError, TopicError
from jbm_spark.messages import message_stream, messages, source_options
from tests.spark.conftest import Topics
from tests.spark.records import Record


def bodies(spark: SparkSession, topics: Topics, topic: str, **chosen: object) -> list[bytes]:
    rows = messages(spark, topic, bootstrap=topics.bootstrap, **chosen).orderBy("kafka.offset")  # type: ignore[arg-type]
    return [bytes(row.body_bytes) for row in rows.collect()]


def test_messages_of_aborted_and_open_transactions_never_appear(spark: SparkSession, topics: Topics) -> None:
    """Of LOG-1: a read_committed reader."""
    topic = topics.create()
    topics.write(topic, [Record(value=b"committed")], transactional_id=uuid4().hex).commit_transaction()
    topics.write(topic, [Record(value=b"aborted")], transactional_id=uuid4().hex).abort_transaction()
    topics.write(topic, [Record(value=b"plain")])
    open_one = topics.write(topic, [Record(value=b"open")], transactional_id=uuid4().hex)
    assert bodies(spark, topics, topic) == [b"committed", b"plain"]
    open_one.commit_transaction()
    assert bodies(spark, topics, topic) == [b"committed", b"plain", b"open"]


def test_an_empty_topic_gives_no_rows(spark: SparkSession, topics: Topics) -> None:
    assert bodies(spark, topics, topics.create(2)) == []


def test_offsets_of_some_partitions_only_are_told_at_once(spark: SparkSession, topics: Topics) -> None:
    """Spark told it at the first action, with a Java trace."""
    with pytest.raises(OptionRefusedError, match="starting names partition 1: give an offset for each of the part"):
        bodies(spark, topics, topics.create(2), starting={1: 1})


@pytest.mark.parametrize(
    ("read", "which"), [(messages, "starting"), (messages, "ending"), (message_stream, "starting")]
)
def test_an_offset_beyond_the_end_is_one_line_at_once(
    spark: SparkSession, topics: Topics, read: Callable[..., object], which: str
) -> None:
    """It was a Java trace of 53 lines at the first action."""
    topic = topics.create(2)
    with pytest.raises(OptionRefusedError, match=f"^{which}: partition 1 ends at 0, not at 1000000000: give an offset"):
        read(spark, topic, bootstrap=topics.bootstrap, **{which: {0: 0, 1: 10**9}})


def test_starting_and_ending_cut_by_offset_and_by_time(spark: SparkSession, topics: Topics) -> None:
    topic = topics.create()
    topics.write(topic, [Record(value=b"%d" % n, timestamp_ms=1_700_000_000_000 + n) for n in range(5)])
    assert bodies(spark, topics, topic, starting={0: 1}, ending={0: 3}) == [b"1", b"2"]
    assert bodies(spark, topics, topic, starting=1_700_000_000_003) == [b"3", b"4"]
    assert bodies(spark, topics, topic, ending=1_700_000_000_002) == [b"0", b"1"]
    assert bodies(spark, topics, topic, starting=1_700_000_000_999) == []


@pytest.mark.parametrize("read", [messages, message_stream])
def test_a_missing_queue_is_named_with_the_command_that_makes_it_before_spark_is_asked(
    spark: SparkSession, topics: Topics, read: Callable[..., object]
) -> None:
    with pytest.raises(InvalidDestinationError, match=r"^queue:no-such-queue: .*jbm-kafka create") as told:
        read(spark, "no-such-queue", bootstrap=topics.bootstrap)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("read", [messages, message_stream])
def test_an_unreachable_broker_is_one_line_before_spark_is_asked(
    spark: SparkSession, read: Callable[..., object]
) -> None:
    with pytest.raises(TopicError) as told:
        read(spark, "orders", bootstrap="127.0.0.1:1")
    assert str(told.value) == (
        "read queue:orders: nobody answers at 127.0.0.1:1: Connection refused; start the broker, or correct the address"
    )


def test_who_gets_in_by_sparks_own_options_alone_is_not_looked_for(spark: SparkSession) -> None:
    """What Java alone can be told, we cannot try."""
    frame = messages(spark, "orders", bootstrap="127.0.0.1:1", options={"kafka.sasl.mechanism": "GSSAPI"})
    assert "message_id" in frame.columns


def test_a_refused_option_is_refused_before_anything_is_read(spark: SparkSession) -> None:
    with pytest.raises(OptionRefusedError, match="minPartitions"):
        messages(spark, "orders", bootstrap="127.0.0.1:1", options={"minPartitions": "4"})


def test_a_batch_has_no_consumer_that_waits_for_what_is_to_come(spark: SparkSession) -> None:
    """Half a second for each partition; a stream's may wait, and so may one of a caller who says so."""
    name = "kafka.fetch.max.wait.ms"
    assert source_options(spark, "orders", "127.0.0.1:1", None, None)[name] == "1"
    assert source_options(spark, "orders", "127.0.0.1:1", None, {name: "70"})[name] == "70"
    assert name not in source_options(spark, "orders", "127.0.0.1:1", None, None, is_stream=True)


def test_an_illegal_name_is_refused(spark: SparkSession) -> None:
    with pytest.raises(InvalidDestinationError, match="reserved"):
        messages(spark, "jbm.events", bootstrap="127.0.0.1:1")


def test_a_session_that_fails_at_repeated_headers_is_refused(spark: SparkSession) -> None:
    strict = spark.newSession()
    strict.conf.set("spark.sql.mapKeyDedupPolicy", "EXCEPTION")
    with pytest.raises(OptionRefusedError, match="mapKeyDedupPolicy"):
        messages(strict, "orders", bootstrap="127.0.0.1:1")
