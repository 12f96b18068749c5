"""Streaming queries that the registry knows as readers."""

import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from jbm_kafka.admin import Admin, RegisteredReader
from jbm_spark.messages import message_stream, wait_until_done, write_stream
from jbm_spark.reader_registration import register_query
from tests.spark.conftest import PATIENCE_S, Topics
from tests.spark.records import Record
from tests.support.waiting import wait_until

pytestmark = pytest.mark.thorough


@pytest.mark.parametrize("source", ["kafka", "jbm"])
def test_a_query_is_registered_with_all_and_then_with_what_it_has_not_read(
    spark: SparkSession, topics: Topics, tmp_path: Path, source: str
) -> None:
    """Of LOG-4: of format "jbm" nothing was deleted as long as it ran, for its positions were not understood."""
    topic = topics.create(2)
    frame = message_stream(spark, topic, bootstrap=topics.bootstrap)
    if source == "jbm":
        options = {"destination": topic, "bootstrap": topics.bootstrap}
        frame = spark.readStream.format("jbm").options(**options).load()

    def registered(admin: Admin) -> list[RegisteredReader]:
        return [reader for reader in admin.readers() if reader.topic == topic]

    stream = frame.writeStream.format("noop").queryName("watch")
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


def test_a_query_that_has_nothing_to_read_stays_a_reader(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    """Of LOG-4: the lease of one that had read nothing since its start ended after a week."""
    topic, interval = topics.create(), "spark.sql.streaming.noDataProgressEventInterval"
    stream = message_stream(spark, topic, bootstrap=topics.bootstrap).writeStream.format("noop")
    spark.conf.set(interval, "100ms")
    try:
        query = stream.option("checkpointLocation", str(tmp_path)).trigger(processingTime="0 seconds").start()
    finally:
        spark.conf.unset(interval)
    with Admin(topics.bootstrap) as admin:

        def reader() -> RegisteredReader:
            [found] = [each for each in admin.readers() if each.topic == topic]
            return found

        try:
            register_query(spark, query, [topic], bootstrap=topics.bootstrap, renewed_after_s=0)
            first = reader()
            wait_until(lambda: reader().lease_until_ms > first.lease_until_ms, about="more time", timeout_s=PATIENCE_S)
        finally:
            query.stop()
        admin.end_reader(reader().name)


class _Slow(StreamingQueryListener):
    """Somebody else's, for which all that is told of later waits."""

    def __init__(self) -> None:
        self.may_go_on = threading.Event()

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        pass

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        self.may_go_on.wait(PATIENCE_S)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        pass


def test_a_query_that_is_started_again_stays_a_reader(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    """Of LOG-4: the end of its run before was told late, and ended its registration: after a week what it had not read
    could be deleted."""
    source, target, slow = topics.create(), topics.create(), _Slow()
    stream = message_stream(spark, source, bootstrap=topics.bootstrap)

    def read() -> int:
        [found] = [each for each in admin.readers() if each.topic == source]
        return sum(found.positions.values())

    spark.streams.addListener(slow)
    try:
        topics.write(source, [Record(key=b"u", value=b"%d" % number) for number in range(10)])
        first = write_stream(stream, target, bootstrap=topics.bootstrap, checkpoint=tmp_path)
        assert wait_until_done(first, timeout=PATIENCE_S)
        topics.write(source, [Record(key=b"u", value=b"%d" % number) for number in range(10, 15)])
        again = write_stream(stream, target, bootstrap=topics.bootstrap, checkpoint=tmp_path,
                             trigger={"processingTime": "0 seconds"})  # fmt: skip
        try:
            slow.may_go_on.set()
            with Admin(topics.bootstrap) as admin:
                wait_until(lambda: read() == 15, about="its position", timeout_s=PATIENCE_S)
                [name] = [each.name for each in admin.readers() if each.topic == source]
                admin.end_reader(name)
        finally:
            again.stop()
    finally:
        slow.may_go_on.set()
        spark.streams.removeListener(slow)
