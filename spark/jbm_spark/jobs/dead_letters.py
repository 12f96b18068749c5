"""Why messages died: the dead-letter topic by reason, error and age, and what a queue's topic holds.

Reads only committed messages, acknowledges nothing, and can run beside live receivers. The two topics are read one
after the other, each to its end at that moment.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from jbm_kafka.codec.dead_letter import (
    DEAD_LETTER_REASON,
    DELIVERY_COUNT,
    LAST_ERROR,
    ORIG_DESTINATION,
    ORIG_MESSAGE_ID,
)
from jbm_spark.dead_letter_queue import dead_letter_queue
from jbm_spark.jobs.report import DeadLetterGroup, DeadLetterReport, ErrorGroup, QueueContent

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EXAMPLES_MAX = 3
"""Examples of each group in the report: the first by partition and offset."""

GROUPS_MAX = 1_000
"""Groups in the report; reasons and destinations are few, unless a foreign producer invents them."""

_HOUR_MS = 3_600_000
AGES = (
    ("less than an hour ago", _HOUR_MS),
    ("less than a day ago", 24 * _HOUR_MS),
    ("less than a week ago", 168 * _HOUR_MS),
)
_EARLIER = "earlier"
_ERROR_CLASS = r"^([A-Za-z_][A-Za-z0-9_.]*)(?=:|$)"
_ERROR_MAX = 60


def narrow_letters(letters: "DataFrame") -> "DataFrame":
    """Return of dead letters (rows of `messages`) the columns that the report counts."""
    from pyspark.sql import functions as F  # noqa: N812

    from jbm_spark.columns import property_column

    error = property_column(LAST_ERROR)
    return letters.select(
        property_column(DEAD_LETTER_REASON).alias("reason"),
        property_column(ORIG_DESTINATION).alias("destination"),
        property_column(DELIVERY_COUNT, "int").alias("attempts"),
        error.alias("text"),
        F.coalesce(
            F.nullif(F.regexp_extract(error, _ERROR_CLASS, 1), F.lit("")), F.left(error, F.lit(_ERROR_MAX))
        ).alias("error"),
        F.unix_millis("kafka.timestamp").alias("at_ms"),
        F.coalesce(property_column(ORIG_MESSAGE_ID), "message_id").alias("id"),
        F.col("unit_of_order").alias("unit"),
        F.col("kafka.partition").alias("partition"),
        F.col("kafka.offset").alias("offset"),
    )


def dead_letter_groups(letters: "DataFrame") -> tuple[DeadLetterGroup, ...]:
    """Rows of `narrow_letters` by reason and original destination, the largest group first."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    in_log_order = Window.partitionBy("reason", "destination").orderBy("partition", "offset")
    ranked = letters.withColumn("rank", F.row_number().over(in_log_order))
    example = F.when(F.col("rank") <= EXAMPLES_MAX, F.struct("rank", "id", "unit"))
    rows = (
        ranked.groupBy("reason", "destination")
        .agg(
            F.count("*").alias("letters"),
            F.max("attempts").alias("attempts_max"),
            F.min("at_ms").alias("first_at_ms"),
            F.max("at_ms").alias("last_at_ms"),
            F.sort_array(F.collect_list(example)).alias("examples"),  # collect_list leaves nulls out: bounded
        )
        .orderBy(F.desc("letters"), "reason", "destination")
        .limit(GROUPS_MAX)
        .collect()
    )
    return tuple(
        DeadLetterGroup(
            reason=row["reason"],
            destination=row["destination"],
            count=row["letters"],
            attempts_max=row["attempts_max"],
            first_at_ms=row["first_at_ms"],
            last_at_ms=row["last_at_ms"],
            example_ids=tuple(found["id"] for found in row["examples"]),
            example_units=tuple(dict.fromkeys(found["unit"] for found in row["examples"] if found["unit"] is not None)),
        )
        for row in rows
    )


def error_groups(letters: "DataFrame") -> tuple[ErrorGroup, ...]:
    """Rows of `narrow_letters` that tell an error, by its class and original destination, the largest group first."""
    from pyspark.sql import functions as F  # noqa: N812

    rows = (
        letters.where(F.col("error").isNotNull())
        .groupBy("error", "destination")
        .agg(
            F.count("*").alias("n"),
            F.min("at_ms").alias("first_at_ms"),
            F.max("at_ms").alias("last_at_ms"),
            F.min(F.struct("partition", "offset", "text", "id")).alias("first"),
        )
        .orderBy(F.desc("n"), "error", "destination")
        .limit(GROUPS_MAX)
        .collect()
    )
    return tuple(
        ErrorGroup(
            error=row["error"], destination=row["destination"], count=row["n"], first_at_ms=row["first_at_ms"],
            last_at_ms=row["last_at_ms"], example=row["first"]["text"], example_id=row["first"]["id"],
        )
        for row in rows
    )  # fmt: skip


def ages(letters: "DataFrame") -> tuple[tuple[str, int], ...]:
    """How many of the rows of `narrow_letters` died how long ago."""
    from pyspark.sql import functions as F  # noqa: N812

    age = F.unix_millis(F.current_timestamp()) - F.col("at_ms")
    named = F.lit(_EARLIER)
    for name, limit_ms in reversed(AGES):
        named = F.when(age < limit_ms, F.lit(name)).otherwise(named)
    found = {row["age"]: row["count"] for row in letters.groupBy(named.alias("age")).count().collect()}
    return tuple((name, found[name]) for name in (*(name for name, _ in AGES), _EARLIER) if name in found)


def queue_content(name: str, held: "DataFrame", *, top: int) -> QueueContent:
    """Messages of a queue's topic (rows of `messages`) by body kind, and its `top` largest units."""
    from pyspark.sql import functions as F  # noqa: N812

    counted = held.groupBy("body_kind", "unit_of_order").agg(F.count("*").alias("n")).cache()
    try:
        kinds = counted.groupBy("body_kind").agg(F.sum("n").alias("n")).orderBy(F.desc("n"), "body_kind").collect()
        units = counted.where(F.col("unit_of_order").isNotNull()).groupBy("unit_of_order").agg(F.sum("n").alias("n"))
        largest = units.orderBy(F.desc("n"), "unit_of_order").limit(top).collect()
        return QueueContent(
            name=name,
            count=sum(row["n"] for row in kinds),
            unit_count=units.count(),
            by_body_kind=tuple((row["body_kind"], row["n"]) for row in kinds),
            largest_units=tuple((row["unit_of_order"], row["n"]) for row in largest),
        )
    finally:
        counted.unpersist()


def run(
    spark: "SparkSession",
    dead_letters: str | None = None,
    *,
    bootstrap: str,
    namespace: str = "",
    kafka: Mapping[str, object] | None = None,
    queue: str | None = None,
    top: int = 5,
) -> DeadLetterReport:
    """The report; with `queue` also of what that queue's topic holds, and its `top` largest units.

    Raises:
        As `messages`.
    """
    from jbm_spark.messages import messages

    dead_letters = dead_letters or dead_letter_queue(bootstrap, namespace, kafka)

    def rows(name: str) -> "DataFrame":
        return messages(spark, name, bootstrap=bootstrap, namespace=namespace, kafka=kafka)

    letters = narrow_letters(rows(dead_letters)).cache()
    try:
        return DeadLetterReport(
            dead_letters=dead_letters,
            count=letters.count(),
            groups=dead_letter_groups(letters),
            errors=error_groups(letters),
            ages=ages(letters),
            queue=None if queue is None else queue_content(queue, rows(queue), top=top),
        )
    finally:
        letters.unpersist()
