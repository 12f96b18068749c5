"""A query from queue to queue in a process of its own, at default settings: `BOOTSTRAP SOURCE QUEUE CHECKPOINT HOW`.

HOW is `format` for a stream of Spark's format "jbm" at both ends, `batch` for a batch of it, or the writer of
`write_stream`: `java` or `python`.
"""

import sys

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from jbm_spark.java_writer import WRITER
from jbm_spark.messages import message_stream, wait_until_done, write_stream
from jbm_spark.session import build_session


def by_format(spark: SparkSession, bootstrap: str, source: str, queue: str, checkpoint: str) -> StreamingQuery:
    """As a data engineer writes it who knows Spark alone."""
    frame = spark.readStream.format("jbm").options(destination=source, bootstrap=bootstrap).load()
    writer = frame.drop("message_id").writeStream.format("jbm").options(destination=queue, bootstrap=bootstrap)
    return writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()


def main(bootstrap: str, source: str, queue: str, checkpoint: str, how: str) -> None:
    """Until all is written that was there at the start."""
    spark = build_session("once", starts_fast=True)
    if how == "batch":
        frame = spark.read.format("jbm").options(destination=source, bootstrap=bootstrap).load()
        frame.write.format("jbm").options(destination=queue, bootstrap=bootstrap).mode("append").save()
        spark.stop()
        return
    if how == "format":
        query = by_format(spark, bootstrap, source, queue, checkpoint)
    else:
        spark.conf.set(WRITER, how)
        frame = message_stream(spark, source, bootstrap=bootstrap).drop("message_id")
        query = write_stream(frame, queue, bootstrap=bootstrap, checkpoint=checkpoint)
    wait_until_done(query)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
