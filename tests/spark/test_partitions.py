"""Spark's sink puts a unit where our producers and receivers look for it."""

import random

from pyspark.sql import SparkSession

from jbm_kafka.core.murmur2 import partition_for
from jbm_spark.messages import messages
from tests.spark.conftest import Topics

PARTITIONS = 7


def test_the_spark_sink_and_our_murmur2_agree_on_every_key(spark: SparkSession, topics: Topics) -> None:
    """Of UNIT-11: all messages of a unit live in one partition, whoever sends them."""
    chance = random.Random(11)
    keys = {chance.randbytes(chance.randint(1, 24)) for _ in range(400)} | {f"kunde-{n}ü".encode() for n in range(100)}
    topic = topics.create(PARTITIONS)
    pairs = [(bytearray(key), bytearray(b"v")) for key in sorted(keys)]
    rows = spark.createDataFrame(pairs, "key binary, value binary")
    rows.write.format("kafka").option("kafka.bootstrap.servers", topics.bootstrap).option("topic", topic).save()

    found = (
        messages(spark, topic, bootstrap=topics.bootstrap, raw=True).select("kafka.key", "kafka.partition").collect()
    )
    assert {bytes(row.key): row.partition for row in found} == {key: partition_for(key, PARTITIONS) for key in keys}
