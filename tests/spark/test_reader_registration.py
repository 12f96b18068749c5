"""Streaming queries that the registry knows as readers."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jbm_kafka.admin import Admin, RegisteredReader
from jbm_spark.messages import message_stream, wait_until_done, write_stream
from jbm_spark.reader_registration import register_query
from tests.spark.conftest import PATIENCE_S, Topics
from tests.spark.records import Record
from tests.support.waiting import wait_until

pytestmark = pytest.mark.thorough


def test_a_query_is_registered_with_all_and_then_with_what_it_has_not_read(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.create(2)

    def registered(admin: Admin) -> list[RegisteredReader]:
        return [reader for reader in admin.readers() if reader.topic == topic]

    stream = message_stream(spark, topic, bootstrap=topics.bootstrap).writeStream.format("noop").queryName("watch")
    query = stream.option("checkpointLocation", str(tmp_path)).trigger(processingTime="0 seconds").start()
    with Admin(topics.bootstrap) as admin:
        listener = register_query(spark, query, [topic], bootstrap=topics.bootstrap, renewed_after_s=0)
        try:
            [reader] = registered(admin)
            assert (reader.kind, reader.name) == ("spark", f"watch/{topic}")
            topics.write(topic, [Record(key=b"k%d" % number) for number in range(10)])
            wait_until(lambda: sum(registered(admin)[0].positions.values()) == 10, about="its position",
                       timeout_s=PATIENCE_S)  # fmt: skip
        finally:
            query.stop()
            spark.streams.removeListener(listener)
        again = register_query(spark, query, [topic], bootstrap=topics.bootstrap)
        spark.streams.removeListener(again)
        assert sum(registered(admin)[0].positions.values()) == 10
        admin.end_reader(f"watch/{topic}")


def test_a_written_stream_is_registered_by_itself(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    """Of LOG-4: with all that it has read at its end; one with the name of a job that loads has a lag, too."""
    source, target = topics.create(2), topics.create(2)
    topics.write(
        source, [Record(key=b"k%d" % number, value=b"x", headers=(("JBMBody", b"text"),)) for number in range(10)]
    )
    rows = message_stream(spark, source, bootstrap=topics.bootstrap).select("unit_of_order", "body_text", "kafka")
    query = write_stream(rows, target, bootstrap=topics.bootstrap, checkpoint=tmp_path, name=f"load-{source}")
    assert wait_until_done(query)

    def read() -> int:
        found = [each for each in admin.readers() if each.name == f"query-load-{source}/{source}" and each.is_query]
        return sum(found[0].positions.values()) if found else 0

    with Admin(topics.bootstrap) as admin:
        wait_until(lambda: read() == 10, about="its position", timeout_s=PATIENCE_S)
        admin.end_reader(f"query-load-{source}/{source}")
