"""Large bodies, which are kept beside Kafka, in a frame of messages; and the names of those that a frame has.

Without these functions a message whose body is kept elsewhere is a row without a body. A body is fetched by Spark's
Python workers, once for each row that names one; a frame that does not take it needs none.
"""

from jbm_spark.extra import pyspark_missing

try:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import BinaryType, StringType, StructField, StructType
except ModuleNotFoundError as error:
    raise pyspark_missing(error) from None

from jbm_kafka.client.bodies.body_store import BodyStore
from jbm_kafka.client.bodies.large_bodies import LargeBodies
from jbm_kafka.codec.bodies import BODY_HEADER
from jbm_kafka.codec.large_body import BYTES_HEADER, DIGEST_HEADER, NAME_HEADER
from jbm_kafka.core.jms_errors import LargeBodyError
from jbm_spark.columns import BODY_KINDS, last_header
from jbm_spark.raw_columns import headers_of

_FETCHED = StructType([StructField("body", BinaryType()), StructField("error", StringType())])
_HELD = "found_large_body"


def with_large_bodies(frame: DataFrame, large_bodies: str | BodyStore) -> DataFrame:
    """The frame of `messages`, an archive or format "jbm" with its large bodies in `body_kind`, `body_text` and
    `body_bytes`, and a column `large_body_error`: why a body cannot be had, or null. That ends no query.

    `large_bodies` is the store, as of `ConnectionFactory`; executors must reach it, too.

    Raises:
        InvalidSettingError: the store cannot be.
    """
    bodies = LargeBodies(large_bodies)
    headers = headers_of(frame)

    def fetch(name: bytes | None, digest: bytes | None, size: bytes | None) -> tuple[bytes | None, str | None] | None:
        if name is None:
            return None
        told = zip((NAME_HEADER, DIGEST_HEADER, BYTES_HEADER), (name, digest, size), strict=True)
        try:
            return bodies.fetch([(header, None if value is None else bytes(value)) for header, value in told]), None
        except LargeBodyError as error:
            return None, str(error)

    is_elsewhere = _is_elsewhere(frame, headers)
    named = (F.when(is_elsewhere, last_header(headers, each)) for each in (NAME_HEADER, DIGEST_HEADER, BYTES_HEADER))
    found = F.udf(fetch, _FETCHED, useArrow=False)(*named)  # Arrow would need pandas
    said = last_header(headers, BODY_HEADER).cast("string")
    # In steps, or Spark would fetch a body once for each place that uses it.
    step = frame.withColumn(_HELD, F.struct(is_elsewhere.alias("is"), said.alias("said"), found.alias("found")))
    body = F.col(_HELD)["found"]["body"]
    is_text = (F.col(_HELD)["said"] == "text") & F.is_valid_utf8(body.cast("string"))
    is_as_said = F.col(_HELD)["said"].isin(*(each for each in BODY_KINDS if each not in ("text", "none")))
    kind = F.when(is_text, F.lit("text")).otherwise(F.when(is_as_said, F.col(_HELD)["said"]).otherwise(F.lit("bytes")))
    has_it = F.col(_HELD)["is"] & body.isNotNull()
    return step.withColumns(
        {
            "body_kind": F.when(has_it, kind).otherwise(F.col("body_kind")),
            "body_text": F.when(has_it, F.when(kind == "text", body.cast("string"))).otherwise(F.col("body_text")),
            "body_bytes": F.when(has_it, F.when(kind != "text", body)).otherwise(F.col("body_bytes")),
            "large_body_error": F.col(_HELD)["found"]["error"],
        }
    ).drop(_HELD)


def large_body_names(frame: DataFrame) -> DataFrame:
    """The names of the large bodies that the rows name, each once, in a column `name`: what `jbm-kafka bodies remove
    --named-in` is given for an archive."""
    name = last_header(headers_of(frame), NAME_HEADER).cast("string")
    return frame.select(name.alias("name")).where(F.col("name").isNotNull()).distinct()


def _is_elsewhere(frame: DataFrame, headers: Column) -> Column:
    """The row has no body, and names one."""
    named = F.coalesce(F.array_contains(headers["key"], F.lit(NAME_HEADER)), F.lit(False))
    return named & F.col("body_text").isNull() & F.col("body_bytes").isNull()
