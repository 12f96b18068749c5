"""A query by Spark's own sink from queue to queue in a process of its own, which a test may kill.

Its arguments are `BOOTSTRAP SOURCE QUEUE CHECKPOINT`, and `whole` for batches of any size and rows with a duplicate id.
"""

import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from jbm_spark.messages import message_stream, write_stream
from jbm_spark.session import build_session

BATCH = {"maxOffsetsPerTrigger": "60"}


def with_duplicate_ids(spark: SparkSession, source: str, bootstrap: str) -> DataFrame:
    """All that is there as one batch, whose rows the target's receivers get once."""
    frame = message_stream(spark, source, bootstrap=bootstrap)
    return frame.withColumn("duplicate_id", F.col("message_id"))


def main(bootstrap: str, source: str, queue: str, checkpoint: str, *whole: str) -> None:
    """Runs until it is killed."""
    spark = build_session("copying", starts_fast=True)
    if whole:
        frame = with_duplicate_ids(spark, source, bootstrap)
    else:
        frame = message_stream(spark, source, bootstrap=bootstrap, options=BATCH).drop("message_id")
    trigger = {"processingTime": "0 seconds"}
    query = write_stream(frame, queue, bootstrap=bootstrap, checkpoint=checkpoint, trigger=trigger, exactly_once=False)
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
