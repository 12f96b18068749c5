"""Ids for messages that have none: the same again when Spark computes and writes the same rows again.

Spark repeats tasks, and after a crash a whole batch with exactly the rows it had. Neither the number of a task nor a
row's place within it is the same then, so an id is made of what is: the record that a row came from (topic, partition
and offset), else the content of the row and the batch; and a count, where several rows have that in common.
"""

from collections.abc import Set as AbstractSet

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

_HASH_DIGITS = 32


def with_message_ids(frame: DataFrame, columns: AbstractSet[str], *, job: str, batch: int | None) -> DataFrame:
    """The frame of `outgoing_columns` with `out_id`: the row's own `message_id`, or `ID:spark:<job>:...`.

    `job` sets one job's ids apart from another's; `batch` is the number of a stream's batch, which Spark keeps when it
    repeats one.
    """
    if "message_id" in columns:
        return frame.withColumn("out_id", F.col("message_id"))
    content = F.to_json(F.struct("out_key", "out_value", "out_carried", "out_own"))
    step = frame.withColumn("out_hash", F.substring(F.sha2(content.cast("binary"), 256), 1, _HASH_DIGITS))
    place = F.col("out_hash") if batch is None else F.concat(F.lit(f"{batch}:"), F.col("out_hash"))
    if "kafka" in columns:
        place = F.coalesce(_came_from(), place)
    step = step.withColumn("out_place", place)
    # Rows with all in common are the same message several times: which of them is the second does not matter.
    count = F.row_number().over(Window.partitionBy("out_place").orderBy("out_hash", "out_row"))
    suffix = F.when(count > 1, F.concat(F.lit(":"), count)).otherwise(F.lit(""))
    return step.withColumn("out_id", F.concat(F.lit(f"ID:spark:{job}:"), F.col("out_place"), suffix))


def _came_from() -> Column:
    """Null where it is not known."""
    return F.concat(F.col("kafka.topic"), F.lit(":"), F.col("kafka.partition"), F.lit(":"), F.col("kafka.offset"))
