"""What Spark writes is what our own senders write: records, partitions, order, refusals."""

import random
from datetime import UTC, datetime
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from jbm_kafka import ConnectionFactory
from jbm_kafka.codec.identity import unit_name
from jbm_kafka.codec.record_size import batch_bytes
from jbm_kafka.codec.scan import MESSAGE_ID_HEADER
from jbm_kafka.codec.typed_values import TypedValue, encode_map
from jbm_kafka.core.murmur2 import partition_for
from jbm_kafka.errors import InvalidDestinationError, OrderError
from jbm_spark import record_bytes
from jbm_spark.columns import message_columns
from jbm_spark.errors import FrameRefusedError, OptionRefusedError, TopicError, WriteError
from jbm_spark.frame_check import checked_columns
from jbm_spark.java_writer import packed_headers
from jbm_spark.messages import messages, write_messages
from jbm_spark.outgoing import header, outgoing_columns
from tests.jms.test_golden_records import CASES, to_bytes
from tests.spark.any_record import any_record
from tests.spark.conftest import Topics
from tests.spark.records import Record, headers

MAP = encode_map({"qty": TypedValue("int", 5)})
LATER = datetime(2033, 5, 18, 3, 33, 20, tzinfo=UTC)


def texts(spark: SparkSession, *rows: tuple[str | None, str]) -> DataFrame:
    """Rows of a unit and a text."""
    return spark.createDataFrame(list(rows), "unit_of_order string, body_text string")


def test_every_column_becomes_the_header_that_the_wire_has_for_it(spark: SparkSession, topics: Topics) -> None:
    """SPARK-2, of LOG-1: the records that our own senders write."""
    queue = topics.create()
    properties = F.struct(
        F.lit("EU").alias("region"), F.lit(5).alias("qty"), F.lit(True).alias("paid"), F.lit(1.5).alias("weight"),
        F.lit(None).cast("string").alias("left_out"), F.lit(7).cast("bigint").alias("total"),
    )  # fmt: skip
    frame = spark.range(1).select(
        F.lit("hällo").alias("body_text"), F.lit("joe").alias("unit_of_order"), properties.alias("properties"),
        F.lit("c").alias("correlation_id"), F.lit("t").alias("type"), F.lit("queue:replies").alias("reply_to"),
        F.lit(9).alias("priority"), F.lit(LATER).alias("expiration"), F.lit(LATER).alias("delivery_time"),
        F.lit("ID:mine").alias("message_id"), F.lit("d").alias("duplicate_id"),
        F.lit("NON_PERSISTENT").alias("delivery_mode"),
    )  # fmt: skip
    write_messages(frame, queue, bootstrap=topics.bootstrap)
    [record] = topics.read(queue)
    assert (record.key(), record.value()) == (b"joe", "hällo".encode())
    assert headers(record) == {
        "JMSMessageID": b"ID:mine", "JBMBody": b"text", "JMSCorrelationID": b"c", "JMSType": b"t",
        "JMSReplyTo": b"queue:replies", "JMSDeliveryMode": b"NON_PERSISTENT", "JMSPriority": b"9",
        "JMSExpiration": b"2000000000000", "JMSDeliveryTime": b"2000000000000", "JBMDuplicateID": b"d",
        "jms.string.region": b"EU", "jms.int.qty": b"5", "jms.boolean.paid": b"true", "jms.double.weight": b"1.5",
        "jms.long.total": b"7",
    }  # fmt: skip


def test_a_text_alone_is_a_text_message_with_an_id(spark: SparkSession, topics: Topics) -> None:
    queue = topics.create()
    write_messages(spark.createDataFrame([("one",)], "body_text string"), queue, bootstrap=topics.bootstrap, job="load")
    [record] = topics.read(queue)
    assert (record.key(), record.value(), headers(record)["JBMBody"]) == (None, b"one", b"text")
    assert (headers(record)["JMSMessageID"] or b"").startswith(b"ID:spark:load:")


def test_bytes_go_as_the_kind_that_the_row_names(spark: SparkSession, topics: Topics) -> None:
    rows: list[tuple[str | None, bytes | None, bytes | None, bytes | None]] = [
        ("bytes", b"\x00\xff", b"\x00\xff", None),
        (None, b"\x00\xff", b"\x00\xff", None),
        (None, None, None, None),
        ("none", b"ignored", None, None),
        ("bytes", None, b"", None),
        ("text", b"x", b"x", b"text"),
        ("map", MAP, MAP, b"map"),
        ("object", b"[1]", b"[1]", b"object"),
    ]
    given = [(kind, None if content is None else bytearray(content)) for kind, content, _, _ in rows]
    queue = topics.create()
    frame = spark.createDataFrame(given, "body_kind string, body_bytes binary")
    write_messages(frame, queue, bootstrap=topics.bootstrap)
    found = [(record.value(), headers(record).get("JBMBody")) for record in topics.read(queue)]
    assert found == [(value, header) for _, _, value, header in rows]


def test_a_text_that_was_changed_wins_over_the_bytes_it_was_read_from(spark: SparkSession, topics: Topics) -> None:
    source, queue = topics.create(), topics.create()
    topics.write(source, [Record(value=b"one", headers=(("JBMBody", b"text"),)), Record(value=b"two")])
    frame = messages(spark, source, bootstrap=topics.bootstrap)
    loud = frame.withColumn("body_text", F.upper(F.coalesce("body_text", F.decode("body_bytes", "UTF-8"))))
    write_messages(loud, queue, bootstrap=topics.bootstrap)
    assert [(record.value(), headers(record)["JBMBody"]) for record in topics.read(queue)] == [
        (b"ONE", b"text"), (b"TWO", b"text"),
    ]  # fmt: skip


def test_what_writing_on_needs_is_carried_along_or_asked_for(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    """SPARK-2: through filters and joins; a frame that has lost it is refused, and so is a text without its text."""
    source, queue = topics.create(), topics.create()
    topics.write(source, [Record(key=b"\xff", value=b"one", headers=(("JBMBody", b"text"), ("trace-id", b"7")))])
    frame, numbers = messages(spark, source, bootstrap=topics.bootstrap), spark.range(3)
    joined = frame.where("priority = 4").join(numbers, F.col("kafka.offset") == numbers.id).drop("id")
    for each in (joined.withColumn("type", F.lit("new")), frame.select("unit_of_order", "body_text", "kafka")):
        write_messages(each, queue, bootstrap=topics.bootstrap)
    assert [(record.key(), headers(record)["trace-id"]) for record in topics.read(queue)] == [(b"\xff", b"7")] * 2
    frame.write.parquet(str(tmp_path / "slim"))
    for lost in (spark.read.parquet(str(tmp_path / "slim")), frame.union(frame)):
        with pytest.raises(FrameRefusedError, match=r"are not known any more.*read them with raw=True"):
            write_messages(lost, queue, bootstrap=topics.bootstrap)
    with pytest.raises(WriteError, match=r"is a text, which body_text has.*keep body_text"):
        write_messages(frame.select("body_bytes", "kafka"), queue, bootstrap=topics.bootstrap)


def shown(row: Any) -> dict[str, Any]:
    """A row without what a send makes anew."""
    values: dict[str, Any] = row.asDict()
    if values["body_kind"] == "none":
        values["body_bytes"] = None  # nothing and no bytes are the same body
    values["unit_of_order"] = values["unit_of_order"] or values["properties"].get("JMSXGroupID")  # UNIT-10
    return {name: value for name, value in values.items() if name not in ("timestamp", "kafka")}


def test_what_spark_reads_and_writes_on_is_the_same_message(spark: SparkSession, topics: Topics) -> None:
    """SPARK-2, of MSG-1: any record at all, with its key's bytes, property types and headers that JMS cannot show."""
    chance = random.Random(15)
    source, queue = topics.create(), topics.create()
    topics.write(source, [any_record(chance) for _ in range(400)])
    topics.write(source, [
        Record(key=to_bytes(case["key"]), value=to_bytes(case["value"]),
               headers=tuple((name, to_bytes(value)) for name, value in case["headers"])) for case in CASES
    ])  # fmt: skip
    frame = messages(spark, source, bootstrap=topics.bootstrap)
    write_messages(frame, queue, bootstrap=topics.bootstrap)
    before, after = (
        messages(spark, topic, bootstrap=topics.bootstrap, raw=True).orderBy("kafka.offset").collect()
        for topic in (source, queue)
    )
    assert len(before) == 400 + len(CASES)
    assert [shown(row) for row in after] == [shown(row) for row in before]
    has_key = [row.unit_of_order is not None for row in before]
    assert [row.kafka.key for row, has in zip(after, has_key, strict=True) if has] == [
        row.kafka.key for row in before if row.unit_of_order is not None
    ]
    codecs = {"JBMCodec", "JBMBody"}
    last = [row.kafka.headers for row in after if row.body_kind == "object"][-1]
    assert [each.value for each in last if each.key in codecs] == [b"object", b"order-v1"]
    for old, new in zip(before, after, strict=True):
        typed = {header.key for header in old.kafka.headers or [] if header.key.startswith("jms.")}
        assert {header.key for header in new.kafka.headers if header.key.startswith("jms.")} <= typed


def test_a_header_that_a_record_has_several_times_goes_on_as_it_came(spark: SparkSession, topics: Topics) -> None:
    """SPARK-2, of MSG-1: of h=1, h=null, h=2 the last was left; of a property that was changed none may be."""
    source, queue = topics.create(), topics.create()
    h = (("h", b"1"), ("h", None), ("jms.int.h", b"7"), ("h", b"2"))
    topics.write(source, [Record(headers=(*h, ("other", b"x"), ("other", b"y")))])
    frame = messages(spark, source, bootstrap=topics.bootstrap)
    changed = frame.withColumn("properties", F.create_map(F.lit("h"), F.lit("8"), F.lit("other"), F.lit("y")))
    for each in (frame, changed):
        write_messages(each, queue, bootstrap=topics.bootstrap)
    kept, new = ([each for each in r.headers() or [] if each[0] != "JMSMessageID"] for r in topics.read(queue))
    assert kept == [*h, ("other", b"x"), ("other", b"y")]
    assert new == [("other", b"x"), ("other", b"y"), ("jms.string.h", b"8")]


def test_a_body_that_nobody_can_read_goes_on_with_what_it_was_announced_as(spark: SparkSession, topics: Topics) -> None:
    """SPARK-2, of MSG-2: receivers of the copy took it for bytes, and were told of no fault."""
    source, queue = topics.create(), topics.create()
    odd = [(b"text", b"\xff"), (b"none", b"x"), (b"video", b"x"), (b"map", b"x")]
    topics.write(source, [Record(value=value, headers=(("JBMBody", kind),)) for kind, value in odd])
    write_messages(messages(spark, source, bootstrap=topics.bootstrap), queue, bootstrap=topics.bootstrap)
    assert [(headers(r)["JBMBody"], r.value()) for r in topics.read(queue)] == odd


def test_a_unit_goes_where_our_own_senders_send_it(spark: SparkSession, topics: Topics) -> None:
    """SPARK-2, of UNIT-11: all messages of a unit live in one partition, whoever sends them."""
    queue = topics.create(7)
    units = [f"kunde-{number}ü" for number in range(60)]
    with ConnectionFactory(topics.bootstrap).create_context() as jms:
        producer, here = jms.create_producer(), jms.create_queue(queue)
        for unit in units:
            producer.send(here, "python", unit_of_order=unit)
    write_messages(texts(spark, *((unit, "spark") for unit in units)), queue, bootstrap=topics.bootstrap)
    places: dict[bytes | None, list[int | None]] = {}
    for record in topics.read(queue):
        places.setdefault(record.key(), []).append(record.partition())
    assert places == {unit.encode(): [partition_for(unit.encode(), 7)] * 2 for unit in units}


def test_a_queue_that_got_more_partitions_is_refused_until_they_are_admitted(
    spark: SparkSession, topics: Topics
) -> None:
    """SPARK-2, of UNIT-11: as our own senders refuse it."""
    queue = topics.create(2)
    write_messages(texts(spark, ("joe", "1")), queue, bootstrap=topics.bootstrap)
    topics.grow(queue, 5)
    with pytest.raises(OrderError, match=f"5 partitions now, .* routed by 2.*admit-partitions {queue}"):
        write_messages(texts(spark, ("joe", "2")), queue, bootstrap=topics.bootstrap)
    assert len(topics.read(queue)) == 1


def test_messages_without_a_unit_are_spread(spark: SparkSession, topics: Topics) -> None:
    queue = topics.create(4)
    write_messages(texts(spark, *((None, str(number)) for number in range(40))), queue, bootstrap=topics.bootstrap)
    found = topics.read(queue)
    assert {record.partition() for record in found} == {0, 1, 2, 3}
    assert {record.key() for record in found} == {None}


def test_a_unit_is_written_in_the_order_asked_for(spark: SparkSession, topics: Topics) -> None:
    """SPARK-3: by a column, by the source's offsets, else as the frame has them."""
    queue, again = topics.create(3), topics.create(3)
    rows = [(f"u{number % 5}", f"{number:03}") for number in range(100)]
    frame = texts(spark, *rows).repartition(4, "body_text")
    write_messages(frame, queue, bootstrap=topics.bootstrap, order_by="body_text")
    by_unit = units_of(topics, queue)
    assert by_unit == {f"u{unit}": [text for name, text in rows if name == f"u{unit}"] for unit in range(5)}

    shuffled = messages(spark, queue, bootstrap=topics.bootstrap).repartition(4, "message_id")
    write_messages(shuffled, again, bootstrap=topics.bootstrap)
    assert units_of(topics, again) == by_unit

    write_messages(texts(spark, *rows), again, bootstrap=topics.bootstrap)
    assert units_of(topics, again) == {unit: found * 2 for unit, found in by_unit.items()}


def units_of(topics: Topics, queue: str) -> dict[str | None, list[str]]:
    found: dict[str | None, list[str]] = {}
    for record in topics.read(queue):
        found.setdefault(unit_name(record.key()), []).append((record.value() or b"").decode())
    return found


def ids_of(topics: Topics, queue: str) -> list[str]:
    return [(headers(record)["JMSMessageID"] or b"").decode() for record in topics.read(queue)]


def test_the_same_rows_of_the_same_job_have_the_same_ids(spark: SparkSession, topics: Topics) -> None:
    """SPARK-4: equal rows are told apart by a count, and who writes them again writes the same ids."""
    queue = topics.create()
    frame = texts(spark, ("u", "a"), ("u", "a"), ("u", "b"))
    write_messages(frame, queue, bootstrap=topics.bootstrap, job="monday")
    write_messages(frame.repartition(2, "body_text"), queue, bootstrap=topics.bootstrap, job="monday")
    write_messages(frame, queue, bootstrap=topics.bootstrap)
    ids = ids_of(topics, queue)
    assert len(set(ids[:3])) == 3
    assert sorted(ids[3:6]) == sorted(ids[:3])
    assert not set(ids[6:]) & set(ids[:6])


def test_several_messages_made_of_one_have_ids_of_their_own(spark: SparkSession, topics: Topics) -> None:
    source, queue = topics.create(), topics.create()
    topics.write(source, [Record(value=b"a,b,a")])
    frame = messages(spark, source, bootstrap=topics.bootstrap)
    parts = F.explode(F.split(F.decode("body_bytes", "UTF-8"), ","))
    write_messages(frame.select(parts.alias("body_text"), "kafka"), queue, bootstrap=topics.bootstrap, job="split")
    assert [record.value() for record in topics.read(queue)] == [b"a", b"b", b"a"]
    place = f"ID:spark:split:{source}:0:0"
    assert sorted(ids_of(topics, queue)) == [place, f"{place}:2", f"{place}:3"]


WRONG_VALUES = [
    ("cast(10 as int) priority", "priority is '10': it is an int from 0 to 9"),
    ("'' unit_of_order", "unit_of_order is ''"),
    ("'replies' reply_to", "reply_to is 'replies': write queue:<name>"),
    ("'queue:jbm.events' reply_to", "reply_to is 'queue:jbm.events'"),
    ("'NOW' delivery_mode", "delivery_mode is 'NOW'"),
    ("cast('x' as binary) body_bytes, 'video' body_kind", "body_kind is 'video'"),
    ("timestamp'1969-12-31' expiration", "expiration is '-86400000'"),
    ("map('JMSMine','1') properties", "'JMSMine' is no name of a property"),
    ("map('JMSXDeliveryCount','1') properties", "property 'JMSXDeliveryCount' is read-only: leave it out"),
    ("map('a','1','b$','2','or','3') properties", "'or' is no name of a property"),
    ("map(concat('a',chr(44),'b'),'1') properties", "'a,b' is no name of a property"),
    ("map('a','1','','2') properties", "'' is no name of a property"),
    ("X'ff' body_bytes, 'text' body_kind", "the body is no UTF-8, as that of a text is: give its bytes with"),
    ("X'ff' body_bytes, 'map' body_kind", "body_kind is 'map': the body is announced as a map, but cannot be read"),
    ("'video' body_kind", "body_kind is 'video': it is one of text, bytes"),
    ("'map' body_kind", "body_kind is 'map', and the row has a text: give its bytes as body_bytes"),
    ("'object' body_kind", "body_kind is 'object': the body is announced as an object, but cannot be read as JSON"),
    ("cast(null as string) message_id", "message_id is null or empty"),
]


def test_values_that_no_message_has_are_named(spark: SparkSession) -> None:
    found = []
    for columns, _ in WRONG_VALUES:
        text = [] if "body_bytes" in columns else ["'bad' body_text"]
        frame = spark.range(1).selectExpr(*text, *columns.split(", "))
        found.append(outgoing_columns(frame, checked_columns(frame)).select("out_fault"))
    faults = [row.out_fault for row in reduce(DataFrame.union, found).collect()]
    for (columns, told), fault in zip(WRONG_VALUES, faults, strict=True):
        assert told in fault, columns


def test_a_record_whose_id_is_empty_is_written_on_with_the_id_that_receivers_see(
    spark: SparkSession, topics: Topics
) -> None:
    """MSG-2, of SPARK-2: one such record, which any client may write, refused the whole frame."""
    source, queue = topics.create(), topics.create()
    topics.write(source, [Record(value=b"odd", headers=(("JMSMessageID", b""),))])
    frame = messages(spark, source, bootstrap=topics.bootstrap)
    assert [row.message_id for row in frame.collect()] == [f"ID:kafka:{source}:0:0"]
    write_messages(frame, queue, bootstrap=topics.bootstrap)
    assert [record.value() for record in topics.read(queue)] == [b"odd"]
    assert ids_of(topics, queue) == [f"ID:kafka:{source}:0:0"]


def test_what_only_the_provider_tells_is_no_property_of_a_record_and_goes_on_as_it_came(
    spark: SparkSession, topics: Topics
) -> None:
    """SPARK-2, of MSG-2: as Python's messages show it; one that was listed could not be sent on."""
    source, queue = topics.create(), topics.create()
    foreign = (("JMS_BEA_UnitOfOrder", b"u"), ("jms.int.JMSXDeliveryCount", b"3"), ("jms.string.a", b"b"))
    topics.write(source, [Record(headers=foreign)])
    frame = messages(spark, source, bootstrap=topics.bootstrap)
    assert [row.properties for row in frame.collect()] == [{"a": "b"}]
    write_messages(frame, queue, bootstrap=topics.bootstrap)
    write_messages(frame.drop("kafka"), queue, bootstrap=topics.bootstrap)
    kept, plain = (headers(record) for record in topics.read(queue))
    assert {name: value for name, value in kept.items() if name in dict(foreign)} == dict(foreign)
    assert plain.keys() & dict(foreign).keys() == {"jms.string.a"}


def test_what_a_function_of_the_user_s_raises_is_told_as_it_is(spark: SparkSession, topics: Topics) -> None:
    """It was "PythonException: Traceback (most recent call last):"."""
    price = F.udf(lambda number: str(5 // number), "string", useArrow=False)
    frame = spark.range(2).select(price("id").alias("body_text"))
    queue = topics.create()
    with pytest.raises(WriteError, match=r"^write to queue:[^:]*: ZeroDivisionError: [^\n]*$"):
        write_messages(frame, queue, bootstrap=topics.bootstrap)


def test_of_a_batch_with_a_bad_row_nothing_is_written(spark: SparkSession, topics: Topics) -> None:
    """SPARK-3: also one that is too large, which the broker would refuse alone."""
    queue = topics.create()
    large = F.repeat(F.lit("x"), F.when(F.col("id") == 19, 2_000_000).otherwise(1))
    frame = spark.range(20).select(large.alias("body_text"), F.lit("u").alias("unit_of_order"))
    with pytest.raises(
        WriteError, match=r"^write to queue:.*: a message takes 2000.* bytes, and queue:.* takes 1048588"
    ):
        write_messages(frame, queue, bootstrap=topics.bootstrap)
    assert topics.read(queue) == []


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ("1 priority", "no body among its columns"),
        ("1 body_text", "column body_text is int: it must be a string"),
        ("'x' body_bytes", "column body_bytes is string: it must be binary"),
        ("'x' body_text, '4' priority", "column priority is string: it must be an int, 0 to 9"),
        ("'x' body_text, 5 expiration", "column expiration is int: it must be a timestamp"),
        ("'x' body_text, timestamp_ntz'2030-01-01' delivery_time", "column delivery_time is timestamp_ntz"),
        ("'x' body_text, 1 unit_of_order", "column unit_of_order is int: it must be a string"),
        ("'x' body_text, 'a=1' properties", "must be a map of strings, or a struct"),
        ("'x' body_text, struct(current_date() as day) properties", "its field day must be one of string, boolean"),
        ("'x' body_text, struct(1 as JMSMine) properties", "its field JMSMine: property name 'JMSMine': use letters"),
        ("'x' body_text, struct(1 as JMSXDeliveryCount) properties", "property JMSXDeliveryCount is read-only"),
        ("'x' body_text, struct(1 as JMSXGroupID) properties", "its field JMSXGroupID must be a string, the unit"),
        (
            "'x' body_text, 'y' body_text",
            "the frame has 2 columns body_text, body_text: rename or drop all of them but one",
        ),
        ("'x' body_text, 1 priority, 2 Priority", "the frame has 2 columns priority, Priority: rename or drop"),
        ("'x' body_text, 'x' kafka", "column kafka is string: it must be what messages"),
    ],
)
def test_a_column_of_a_wrong_type_is_named(spark: SparkSession, columns: str, told: str) -> None:
    with pytest.raises(FrameRefusedError, match=told):
        write_messages(spark.range(1).selectExpr(*columns.split(", ")), "orders", bootstrap="127.0.0.1:1")


def test_columns_that_no_message_has_are_named_in_a_warning(spark: SparkSession, topics: Topics) -> None:
    queue = topics.create()
    frame = spark.range(1).selectExpr("'x' body_text", "1 qty", "2 place")
    with pytest.warns(UserWarning, match="such a column: qty; .* Columns of a message are body_text, ") as warned:
        write_messages(frame, queue, bootstrap=topics.bootstrap, order_by="place")
    assert [each.filename for each in warned] == [__file__]
    assert len(topics.read(queue)) == 1


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("kafka.transactional.id", "t", "no transactions"),
        ("kafka.partitioner.class", "RoundRobin", "nobody looks"),
        ("kafka.acks", "1", "always all"),
        ("kafka.delivery.timeout.ms", "1000", "break the unit's order"),
        ("topic", "other", "destination"),
        ("linger.ms", "5", "with `kafka.` in front"),
    ],
)
def test_an_option_that_breaks_order_is_refused_with_its_reason(
    spark: SparkSession, name: str, value: str, reason: str
) -> None:
    with pytest.raises(OptionRefusedError, match=reason):
        write_messages(texts(spark, ("u", "x")), "orders", bootstrap="127.0.0.1:1", options={name: value})


def test_what_is_no_name_is_refused(spark: SparkSession) -> None:
    with pytest.raises(InvalidDestinationError, match="a name is a str, not int"):
        write_messages(texts(spark, ("u", "x")), 5, bootstrap="127.0.0.1:1")  # type: ignore[arg-type]


def test_a_queue_that_is_not_there_is_named_with_the_command_that_makes_it(spark: SparkSession, topics: Topics) -> None:
    with pytest.raises(InvalidDestinationError, match=r"jbm-kafka create no-such-queue$"):
        write_messages(texts(spark, ("u", "x")), "no-such-queue", bootstrap=topics.bootstrap)


def test_brokers_that_do_not_answer_are_told_in_one_line(spark: SparkSession) -> None:
    with pytest.raises(TopicError, match=r"127\.0\.0\.1:1") as told:
        write_messages(texts(spark, ("u", "x")), "orders", bootstrap="127.0.0.1:1")
    assert "\n" not in str(told.value)


def test_a_stream_is_no_batch(spark: SparkSession) -> None:
    stream = spark.readStream.format("rate").load().selectExpr("string(value) body_text")
    with pytest.raises(FrameRefusedError, match="write_stream"):
        write_messages(stream, "orders", bootstrap="127.0.0.1:1")


def test_a_record_is_measured_as_brokers_do(spark: SparkSession) -> None:
    rows = [(b"k" * n, b"v" * (n * n), [("h" * n, b"x" * (70 * n)), ("n", None)] * (n % 70)) for n in range(1, 300, 37)]
    rows += [(None, None, []), (None, b"v" * 2_100_000, [])]  # type: ignore[list-item]
    packed = [(key and bytearray(key), value and bytearray(value), found) for key, value, found in rows]
    frame = spark.createDataFrame(packed, "key binary, value binary, headers array<struct<key:string,value:binary>>")
    key, value, headers = F.col("key"), F.col("value"), F.col("headers")
    of_packed = record_bytes.packed_record_bytes(key, value, packed_headers(headers))
    ways = [record_bytes.batch_bytes(key, value, headers), record_bytes.batch_bytes_of_record(of_packed)]
    exact = [batch_bytes(key, value, found) for key, value, found in rows]
    assert frame.select(*ways).collect() == [(size, size) for size in exact]


@pytest.mark.parametrize("changed", ["nothing", "properties", "body", "typed properties"])
def test_no_record_is_larger_than_what_is_known_of_it_at_most(spark: SparkSession, changed: str) -> None:
    """SPARK-3: then it is measured to the byte only where it may be too large."""
    chance = random.Random(changed)
    rows = [("t", 0, number, LATER, each.key, each.value, [*each.headers, ("large", b"x" * number * 20)])
            for number, each in enumerate(any_record(chance) for _ in range(200))]  # fmt: skip
    source = spark.createDataFrame(
        rows, "topic string, partition int, offset bigint, timestamp timestamp, key binary, value binary, "
        "headers array<struct<key:string,value:binary>>")  # fmt: skip
    frame = message_columns(source)
    texts = F.repeat(F.lit("ü"), (F.col("kafka.offset") * 7).cast("int"))
    more = F.create_map(F.lit("more"), texts)
    typed = F.struct(F.lit(-1.7976931348623157e308).alias("größe"), texts.alias("b"), F.lit(False).alias("c"))
    frame = {
        "nothing": frame,
        "properties": frame.withColumn("properties", F.map_concat("properties", more)),
        "body": frame.withColumns({"body_bytes": texts.cast("binary"), "unit_of_order": texts, "type": texts}),
        "typed properties": frame.withColumns({"properties": typed, "correlation_id": texts, "duplicate_id": texts}),
    }[changed]
    columns = checked_columns(frame)
    made = outgoing_columns(frame, columns).withColumn("out_id", F.col("message_id"))
    written = F.concat("out_carried", header(MESSAGE_ID_HEADER, F.col("out_id")), "out_own")
    bound = record_bytes.batch_bytes_at_most(columns)
    found = made.where("out_fault is null").select("out_key", "out_value", written.alias("headers"), bound.alias("n"))
    measured = [(row.n, batch_bytes(row.out_key, row.out_value, row.headers)) for row in found.collect()]
    assert len(measured) > 50
    assert all(bound >= size for bound, size in measured)
