"""A query from queue to queue beside live senders and receivers, killed and started again from its checkpoint."""

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from jbm_kafka import AcknowledgeMode, AddressSettings, ConnectionFactory
from jbm_kafka.admin import Admin
from jbm_kafka.devbroker import LocalBroker
from jbm_spark.errors import CheckpointError
from jbm_spark.messages import message_stream, write_stream
from tests.spark.conftest import Topics
from tests.spark.copying_query import BATCH, with_duplicate_ids
from tests.spark.killed import kill_in_the_midst
from tests.spark.records import Record, headers
from tests.support.waiting import wait_until

pytestmark = pytest.mark.thorough

UNITS = 12
WINDOW = 1_000
"""So many duplicate ids a queue remembers here; 10,000 by default."""
PATIENCE_S = 300.0


class Received:
    """What a receiver of the target got: unit, number and id, in the order of handing over."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, int, str]] = []

    def receive(self, factory: ConnectionFactory, queue: str) -> None:
        """Until its context is closed."""
        with factory.create_context(AcknowledgeMode.CLIENT) as jms:
            consumer = jms.create_consumer(jms.create_queue(queue))
            while not (self.seen and self.seen[-1][0] == "the end"):
                message = consumer.receive(timeout=1.0)
                if message is not None:
                    self.seen.append((str(message.unit_of_order), int(str(message.body)), str(message.message_id)))
                    message.acknowledge()


def send(factory: ConnectionFactory, queue: str, begin: int, end: int) -> None:
    """Numbers, one after the other, each of the unit of its number."""
    with factory.create_context() as jms:
        producer, here = jms.create_producer(), jms.create_queue(queue)
        for number in range(begin, end):
            producer.send(here, str(number), unit_of_order=f"u{number % UNITS}")


@contextmanager
def query_process(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """The query with its JVM; both are killed at the end, if not before."""
    command = [sys.executable, "-m", "tests.spark.copying_query", *arguments]
    process = subprocess.Popen(command, start_new_session=True)
    try:
        yield process
    finally:
        kill(process)


def kill(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL for Python and its JVM at once, as a crash of the machine would."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def written(bootstrap: str, queue: str) -> int:
    """Records in the queue's topic."""
    with Admin(bootstrap) as admin:
        return sum(part.end for part in admin.counts(queue).partitions)


def wait_copied(bootstrap: str, queue: str, count: int, process: subprocess.Popen[bytes]) -> None:
    """Until so many records are in the queue's topic."""

    def is_far() -> bool:
        assert process.poll() is None, "the query ended by itself"
        return written(bootstrap, queue) >= count

    wait_until(is_far, about=f"{count} messages copied", timeout_s=PATIENCE_S)


def copy(spark: SparkSession, topics: Topics, source: str, queue: str, checkpoint: str) -> StreamingQuery:
    """The query in this process, to the end of what is there."""
    frame = message_stream(spark, source, bootstrap=topics.bootstrap, options=BATCH).drop("message_id")
    return write_stream(frame, queue, bootstrap=topics.bootstrap, checkpoint=checkpoint, exactly_once=False)


def copy_with_kills(spark: SparkSession, topics: Topics, folder: Path, *, kills: int, messages: int) -> Received:
    """Everything sent is copied, the query killed so often on the way; what the target's receiver got."""
    source, queue = topics.create(3), topics.create(4)
    checkpoint = str(folder / "checkpoint")
    factory = ConnectionFactory(topics.bootstrap)
    received = Received()
    receiver = threading.Thread(target=received.receive, args=(factory, queue))
    sender = threading.Thread(target=send, args=(factory, source, 0, messages))
    sender.start()
    receiver.start()
    try:
        for number in range(1, kills + 1):
            with query_process(topics.bootstrap, source, queue, checkpoint) as process:
                wait_copied(topics.bootstrap, queue, messages * number // (kills + 1), process)
                with pytest.raises(CheckpointError, match=f"in use by a query of process {process.pid}: "):
                    copy(spark, topics, source, queue, checkpoint)
        sender.join()
        query = copy(spark, topics, source, queue, checkpoint)
        assert query.awaitTermination(int(PATIENCE_S)), "the last run did not end"
        wait_until(lambda: len({number for _, number, _ in received.seen}) == messages,
                   about="every message received", timeout_s=PATIENCE_S)  # fmt: skip
    finally:
        with factory.create_context() as jms:
            jms.create_producer().send(jms.create_queue(queue), "-1", unit_of_order="the end")
        receiver.join()
        sender.join()
    return received


def check(received: Received, messages: int) -> int:
    """Nothing is lost, what came twice has one id, and units are in order; how many came twice."""
    seen = [each for each in received.seen if each[0] != "the end"]
    assert {number for _, number, _ in seen} == set(range(messages))
    ids = {message_id for _, _, message_id in seen}
    assert len({(number, message_id) for _, number, message_id in seen}) == len(ids) == messages
    for unit in range(UNITS):
        numbers = dict.fromkeys(number for name, number, _ in seen if name == f"u{unit}")
        assert [*numbers] == [*range(unit, messages, UNITS)]
    return len(seen) - messages


@pytest.mark.slow
@pytest.mark.timeout(1200)  # two starts of Spark, on a busy machine
def test_a_killed_query_loses_nothing_and_repeats_with_the_same_ids(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    """SPARK-3, SPARK-4: with a live sender on the source and a live receiver on the target."""
    check(copy_with_kills(spark, topics, tmp_path, kills=1, messages=300), 300)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kills", [1, pytest.param(10, marks=pytest.mark.slow)])
def test_a_batch_beyond_the_duplicate_window_that_is_killed_is_received_once(
    spark: SparkSession, topics: Topics, tmp_path: Path, kills: int
) -> None:
    """SPARK-3, of SEND-8: after a kill within it thousands came twice, and units out of order."""
    count = 0
    source, queue = topics.create(2), topics.create(1)
    with Admin(topics.bootstrap) as admin:
        admin.set_address_settings(queue, AddressSettings(duplicate_window_count=WINDOW))
    checkpoint = str(tmp_path / "checkpoint")
    command = [sys.executable, "-m", "tests.spark.copying_query", topics.bootstrap, source, queue, checkpoint, "whole"]
    for number in range(kills):
        more = range(count, count + WINDOW * (24 if number == 0 else 11) // 10)
        topics.write(source, [Record(key=b"u%d" % (n % UNITS), value=b"%d" % n, headers=(("JBMBody", b"text"),))
                              for n in more])  # fmt: skip
        count = more.stop
        # Two slices and a part at first, and then some of one.
        records = WINDOW * 11 // 10 if number == 0 else random.randrange(WINDOW * 4 // 10)
        kill_in_the_midst(command, topics, queue, records=records)
    query = write_stream(with_duplicate_ids(spark, source, topics.bootstrap), queue, bootstrap=topics.bootstrap,
                         checkpoint=checkpoint, exactly_once=False)  # fmt: skip
    assert query.awaitTermination(int(3 * PATIENCE_S)), "the last run did not end"
    factory, received = ConnectionFactory(topics.bootstrap), Received()
    with factory.create_context() as jms:
        jms.create_producer().send(jms.create_queue(queue), "-1", unit_of_order="the end")
    received.receive(factory, queue)
    with Admin(topics.bootstrap) as admin:
        admin.unset_address_settings(queue)
    assert check(received, count) == 0


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_many_kills(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    """SPARK-3, SPARK-4: the same, killed in the midst of many batches."""
    check(copy_with_kills(spark, topics, tmp_path, kills=5, messages=2_000), 2_000)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_query_outlives_a_broker_that_is_killed(
    spark: SparkSession, dedicated_broker: Callable[[], LocalBroker], tmp_path: Path
) -> None:
    """SPARK-3, SPARK-4: the one broker is away for some seconds, again and again."""
    broker = dedicated_broker()
    topics = Topics(broker.bootstrap)
    source, queue = topics.create(2), topics.create(2)
    count = 1_500
    topics.write(source, [Record(key=b"u%d" % (n % UNITS), value=b"%d" % n) for n in range(count)])
    frame = message_stream(spark, source, bootstrap=broker.bootstrap, options=BATCH).drop("message_id")
    query = write_stream(frame, queue, bootstrap=broker.bootstrap, checkpoint=tmp_path / "checkpoint",
                         trigger={"processingTime": "0 seconds"})  # fmt: skip
    try:
        for goal in (count // 4, count // 2):
            wait_until(lambda goal=goal: not query.isActive or written(broker.bootstrap, queue) >= goal,  # type: ignore[misc]
                       about=f"{goal} copied", timeout_s=PATIENCE_S)  # fmt: skip
            broker.kill()
            broker.start()
        wait_until(lambda: not query.isActive or written(broker.bootstrap, queue) >= count,
                   about="all copied", timeout_s=PATIENCE_S)  # fmt: skip
        assert query.exception() is None
    finally:
        query.stop()
    received = Received()
    received.seen = [(str(r.key().decode()), int(r.value()), headers(r)["JMSMessageID"].decode())  # type: ignore[union-attr,arg-type]
                     for r in topics.read(queue)]  # fmt: skip
    check(received, count)
