"""The streaming queries: `python -m bookstore.streams` runs them until it is ended."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

from bookstore.store_queues import BIG_CENTS, TITLES, Store, store_of_environment
from jbm_spark.messages import message_stream, wait_until_done, write_stream
from jbm_spark.session import build_session

ORDER = "number int, customer string, title_id string, copies int, ordered_at timestamp"
EVERY = {"processingTime": "1 second"}


def enriched(orders: DataFrame) -> DataFrame:
    """Each order with its title and what it costs; one of an unknown title has neither."""
    titles = orders.sparkSession.read.csv(str(TITLES), "title_id string, title string, price_cents int", header=True)
    read = orders.withColumn("order", F.from_json("body_text", ORDER)).select("*", "order.*").drop("order")
    with_title = read.join(F.broadcast(titles), "title_id", "left")
    return with_title.withColumn("cents", F.col("copies") * F.col("price_cents"))


def turnover(priced: DataFrame) -> DataFrame:
    """A message for each hour and title whenever it changes; those of a title are in the order of its hours."""
    by_hour = priced.withWatermark("ordered_at", "30 minutes").groupBy(F.window("ordered_at", "1 hour"), "title")
    counted = by_hour.agg(F.sum("cents").alias("cents"), F.sum("copies").alias("copies"))
    body = F.to_json(F.struct(F.col("window.start").alias("hour"), "title", "cents", "copies"))
    return counted.select(
        F.col("window.start").alias("hour"), F.col("title").alias("unit_of_order"), body.alias("body_text")
    )


def big_orders(priced: DataFrame) -> DataFrame:
    """Return what the workers need of an order. It keeps its id and its unit."""
    body = F.to_json(F.struct("number", "customer", "title", "copies", "cents"))
    big = priced.where(F.col("cents") >= BIG_CENTS).withColumn("body_text", body)
    return big.drop("number", "customer", "title_id", "copies", "ordered_at", "title", "price_cents", "cents")


def start(
    spark: SparkSession, store: Store, folder: Path, cluster: Mapping[str, Any], trigger: Mapping[str, Any] = EVERY
) -> list[StreamingQuery]:
    """Both queries; `folder` keeps how far they are, `cluster` is `bootstrap`, `namespace` and `kafka`."""
    priced = enriched(message_stream(spark, store.orders, raw=True, **cluster))  # a join by name hides key and headers
    return [
        write_stream(turnover(priced), store.turnover, checkpoint=folder / "turnover", name="turnover",
                     output_mode="update", order_by="hour", trigger=trigger, **cluster),
        write_stream(big_orders(priced), store.big_orders, checkpoint=folder / "big-orders", name="big orders",
                     trigger=trigger, **cluster),
    ]  # fmt: skip


if __name__ == "__main__":
    import os

    from jbm_kafka.cli.cluster_settings import cluster_of_environment

    at = cluster_of_environment(os.environ)
    where = {"bootstrap": at.bootstrap, "namespace": at.namespace, "kafka": at.kafka}
    queries = start(build_session("bookstore"), store_of_environment(), Path("checkpoints"), where)
    while not any(wait_until_done(query, timeout=1) for query in queries):  # a failure of one ends the program
        pass
