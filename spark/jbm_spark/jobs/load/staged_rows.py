"""The rows of a job's files, checked and put in the order in which they are sent, as Parquet in the job's folder.

Every row has the partition it goes to and its place among those that go there. So the rows below a place are a
beginning of every unit, and a job sends place by place: what is sent is one number.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from pyspark.sql import Column, DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import MapType, StructType

from jbm_kafka.codec.identity import GROUP_ID
from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.jms.messages.message_properties import checked_property_name
from jbm_kafka.ports.provider import TopicInfo
from jbm_spark.body_check import body_fault
from jbm_spark.columns import unit_name
from jbm_spark.frame_check import INSTANT_COLUMNS, TEXT_COLUMNS, WRITTEN, checked_columns
from jbm_spark.jobs.load.file_blocks import Block, CutFiles, content_of
from jbm_spark.jobs.load.file_rows import FileRow, rows_of_block
from jbm_spark.jobs.load.row_message import RowFault, fault_of_priority, fault_of_texts, message_of
from jbm_spark.unit_partition import partition_of

CHUNK = 5_000
"""Places in one folder of the staged rows, and the most that one batch sends to a partition: half of the default
window against duplicates, so that others may send meanwhile."""
REJECTED = -1
"""The chunk of the rows that are not sent."""

_HEADERS = "array<struct<key:string,value:binary>>"
_ROWS = "array<struct<" + ",".join([
    "line:bigint", "fault:string", "text:string", "unknown:array<string>",
    *(f"{name}:string" for name in TEXT_COLUMNS), *(f"{name}:bigint" for name in INSTANT_COLUMNS),
    "priority:int", "properties:map<string,string>", f"headers:{_HEADERS}",
    "order_keys:array<struct<number:double,text:string>>",
]) + ">>"  # fmt: skip
_BLOCK = "file string, number int, begin bigint, size bigint, line bigint, names array<string>"


def text_rows(
    spark: SparkSession, cut: CutFiles, file_format: str, order_by: Sequence[str], max_bytes: int
) -> DataFrame:
    """One row for each of CSV, JSON and text files."""
    wanted = tuple(order_by)

    def parsed(file_format: str, block: Row) -> list[tuple[object, ...]]:
        content = content_of(Block(**block.asDict()))
        rows = rows_of_block(file_format, content, block["names"] or (), block["line"])
        return [_as_tuple(row, wanted, max_bytes) for row in rows]

    blocks = spark.createDataFrame([astuple(block) for block in cut.blocks], _BLOCK)
    read = F.udf(parsed, _ROWS, useArrow=False)
    rows = blocks.select("file", "number", F.explode(read(F.lit(file_format), F.struct(*blocks.columns))).alias("row"))
    found = rows.select("file", "number", "row.*")
    instants = {name: F.timestamp_millis(name) for name in INSTANT_COLUMNS}
    keys = {f"order_{at}": F.col("order_keys")[at] for at in range(len(wanted))}
    # As a message that came from somewhere keeps the types of its properties (SPARK-2).
    carried = F.struct(
        F.col("file").alias("topic"), F.col("number").alias("partition"), F.col("line").alias("offset"),
        F.lit(None).cast("binary").alias("key"), "headers",
    )  # fmt: skip
    return found.withColumns({**instants, **keys, "kafka": carried}).drop("headers", "order_keys")


def parquet_rows(spark: SparkSession, cut: CutFiles, order_by: Sequence[str]) -> DataFrame:
    """The same of Parquet files, whose columns have their types. A row's number stands for its line.

    Raises:
        FrameRefusedError: the columns are no message's.
    """
    # Else the brackets of a name would be a pattern to Hadoop.
    names = [re.sub(r"([\\{}\[\]*?])", r"\\\1", str(file)) for file in cut.files]
    frame = spark.read.parquet(*names)
    columns = [name for name in frame.columns if name in WRITTEN]
    checked_columns(frame, order_by)
    fault = F.udf(_fault_of_row, "string", useArrow=False)(F.struct(*columns))
    path = F.col("_metadata.file_path")
    uris = sorted(row["path"] for row in frame.select(path.alias("path")).distinct().collect()) or [""]
    named = F.create_map(*(F.lit(each) for uri in uris for each in (uri, unquote(urlsplit(uri).path))))
    return frame.select(
        *(F.col(name) for name in columns if name != "unit_of_order"),
        _unit(frame).alias("unit_of_order"),
        *(F.col(name).alias(f"order_{at}") for at, name in enumerate(order_by)),
        named[path].alias("file"),
        F.array_position(F.array(*map(F.lit, uris)), path).cast("int").alias("number"),
        (F.col("_metadata.row_index") + 1).alias("line"),
        fault.alias("fault"),
        F.when(fault.isNotNull(), F.to_json(F.struct(*columns))).alias("text"),
        F.lit(None).cast("array<string>").alias("unknown"),
    )  # fmt: skip


def _unit(frame: DataFrame) -> Column:
    """A row's unit: its JMSXGroupID, where it names none (UNIT-10)."""
    unit = F.col("unit_of_order") if "unit_of_order" in frame.columns else F.lit(None).cast("string")
    held = frame.schema["properties"].dataType if "properties" in frame.columns else None
    if isinstance(held, MapType):
        return F.coalesce(unit, F.nullif(F.try_element_at("properties", F.lit(GROUP_ID)).cast("string"), F.lit("")))
    if isinstance(held, StructType) and GROUP_ID in held.names:
        return F.coalesce(unit, F.nullif(F.col("properties").getField(GROUP_ID), F.lit("")))
    return unit


def stage(rows: DataFrame, folder: Path, *, job_id: str, info: TopicInfo, order_by: Sequence[str]) -> None:
    """Write the rows to the folder, which is new."""
    made_id = row_id(job_id)
    message_id = F.coalesce("message_id", made_id) if "message_id" in rows.columns else made_id
    # The queue drops what a crash makes us send again, and its log tells which rows it has.
    given = F.col("duplicate_id") if "duplicate_id" in rows.columns else F.lit(None).cast("string")
    named = rows.withColumns({"message_id": message_id, "duplicate_id": F.coalesce(given, made_id)})
    key = _key(named)
    routed = F.when(F.col("fault").isNull(), F.coalesce(key, F.col("duplicate_id").cast("binary")))
    routed = F.coalesce(routed, F.lit("-").cast("binary"))
    target = F.when(F.col("fault").isNull(), partition_of(routed, info.unit_partitions)).otherwise(REJECTED)
    order = [f"order_{at}" for at in range(len(order_by))]
    among = Window.partitionBy("target").orderBy(*order, "number", "line")
    placed = named.withColumn("target", target).withColumn("place", F.row_number().over(among) - 1)
    chunk = F.when(F.col("target") == REJECTED, REJECTED).otherwise(F.floor(F.col("place") / CHUNK)).cast("int")
    placed.withColumn("chunk", chunk).drop(*order).write.partitionBy("chunk").parquet(str(folder))


def row_id(job_id: str) -> Column:
    """Return what tells a row of the job: its message's id or duplicate id, where the row has none of its own."""
    return F.concat(F.lit(id_prefix(job_id)), "number", F.lit(":"), "line")


def id_prefix(job_id: str) -> str:
    """How the ids of a job's rows begin."""
    return f"ID:spark:{job_id}:"


def ids_there(log: DataFrame, job_id: str) -> DataFrame:
    """`there`: those of the job's row ids that the messages of a log have."""
    ids = log.select(F.explode(F.array("message_id", "duplicate_id")).alias("there"))
    return ids.where(F.col("there").startswith(id_prefix(job_id))).distinct()


def _key(rows: DataFrame) -> Column:
    """The key of the row's record, as the sink gives it."""
    key = F.col("unit_of_order").cast("binary")
    if "kafka" not in rows.columns:
        return key
    return F.when(unit_name(F.col("kafka.key")) == F.col("unit_of_order"), F.col("kafka.key")).otherwise(key)


def _as_tuple(row: FileRow, order_by: Sequence[str], max_bytes: int) -> tuple[object, ...]:
    fault = row.fault
    if row.values is not None:
        try:
            return _message_tuple(row, row.values, order_by, max_bytes)
        except RowFault as error:
            fault = str(error)
    return (row.line, fault, row.text, None, *[None] * (len(TEXT_COLUMNS) + len(INSTANT_COLUMNS) + 4))


def _message_tuple(
    row: FileRow, values: Mapping[str, object], order_by: Sequence[str], max_bytes: int
) -> tuple[object, ...]:
    found = message_of(values, max_bytes)
    keys = [_order_key(name, values) for name in order_by]
    unknown = [name for name in found.unknown if name not in order_by]
    return (
        row.line, None, None, unknown, *(found.texts[name] for name in TEXT_COLUMNS),
        *(found.instants_ms[name] for name in INSTANT_COLUMNS), found.priority, found.properties,
        [(name, bytearray(content)) for name, content in found.headers], keys,
    )  # fmt: skip


def _order_key(name: str, values: Mapping[str, object]) -> tuple[float | None, str]:
    """Numbers by their value, before all else by its text."""
    value = values.get(name)
    if value is None:
        raise RowFault(f"it has no {name} to order it by")
    text = value if isinstance(value, str) else json.dumps(value)
    try:
        return float(text), text
    except ValueError:
        return None, text


def _fault_of_row(row: Row) -> str | None:
    """Return the fault of a row of Parquet, whose columns have the right types."""
    values: dict[str, Any] = row.asDict()
    texts = {name: values[name] for name in TEXT_COLUMNS if name in values}
    fault = fault_of_priority(values.get("priority")) or fault_of_texts(texts)
    if fault is not None:
        return fault
    if "message_id" in values and values["message_id"] is None and "kafka" in values:
        return "message_id is null: give every row one, or leave the column out"
    kind, content = values.get("body_kind"), values.get("body_bytes")
    if values.get("body_text") is None and "kafka" not in values and kind in ("map", "stream", "object"):
        fault = body_fault(kind, content)
    for name in INSTANT_COLUMNS:
        if values.get(name) is not None and values[name].timestamp() <= 0:
            fault = f"{name} is {values[name]}: it is a time after 1970"
    return fault or next(_faults_of_names(values.get("properties")), None)


def _faults_of_names(properties: Any) -> Iterator[str]:
    if isinstance(properties, dict):  # the names of a struct were checked with the columns
        for name in properties:
            try:
                checked_property_name(name)
            except JMSError as error:
                yield str(error)
