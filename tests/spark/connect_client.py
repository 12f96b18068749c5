"""A client of Spark Connect in a process of its own: `SERVER BOOTSTRAP SOURCE QUEUE PACKAGE CHECKPOINT`."""

import sys
import warnings
from collections.abc import Callable

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from jbm_kafka.core.jms_errors import JMSError
from jbm_spark.columns import property_column
from jbm_spark.messages import message_stream, messages, wait_until_done, write_messages, write_stream
from jbm_spark.session import build_session


def main(server: str, bootstrap: str, source: str, queue: str, package: str, checkpoint: str) -> None:
    """Prints what it read, and what was refused."""
    SparkSession.builder.remote(server).getOrCreate()
    spark = build_session("client")
    print(spark.conf.get("spark.sql.mapKeyDedupPolicy"))
    spark.addArtifacts(package, pyfile=True)

    held = messages(spark, source, bootstrap=bootstrap, raw=True)
    large = held.where(property_column("qty", "int") >= 20).orderBy("kafka.offset")
    print([(row["unit_of_order"], row["body_text"]) for row in large.select("unit_of_order", "body_text").collect()])
    write_messages(large.withColumn("body_text", F.upper("body_text")), queue, bootstrap=bootstrap)

    stream = message_stream(spark, source, bootstrap=bootstrap)
    counts = stream.groupBy("unit_of_order").count()
    query = counts.writeStream.format("memory").queryName("counts").outputMode("complete").trigger(availableNow=True)
    print(wait_until_done(query.start()), sorted(map(tuple, spark.table("counts").collect())))

    _print_refusal(lambda: write_stream(stream, queue, bootstrap=bootstrap, checkpoint=checkpoint))
    _print_refusal(lambda: messages(spark, "nowhere", bootstrap=bootstrap))
    bad = held.withColumn("priority", F.lit(10))
    _print_refusal(lambda: write_messages(bad, queue, bootstrap=bootstrap))
    spark.stop()
    _print_refusal(lambda: messages(spark, source, bootstrap=bootstrap))


def _print_refusal(call: Callable[[], object]) -> None:
    try:
        call()
    except JMSError as error:
        print(error)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(*sys.argv[1:])
