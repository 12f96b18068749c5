"""`jbm-spark archive`: what an archive has is what the topic had, for every reader of its files, at every moment."""

import random
import re
import shutil
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow.dataset as ds
import pytest
from confluent_kafka import TopicPartition
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from jbm_kafka import AcknowledgeMode, ConnectionFactory
from jbm_kafka.admin import Admin
from jbm_spark.archiving import read_archive, read_archived_events
from jbm_spark.archiving.archive_folder import locked_archive
from jbm_spark.archiving.table_folder import BATCHES_MAX
from jbm_spark.cli.job_command import main
from jbm_spark.errors import ArchiveError
from jbm_spark.events import events
from jbm_spark.jobs.archive import Archived, run
from jbm_spark.messages import messages
from tests.spark.any_record import any_record
from tests.spark.conftest import PATIENCE_S, Topics
from tests.spark.planted import Planted
from tests.spark.records import Record
from tests.support.topics import admin_client

pytestmark = pytest.mark.thorough
LOOK_EACH_S = 0.05
"""A reader that never paused took a third of a minute of processor time from the runs that it watches."""


def archive(spark: SparkSession, topics: Topics, topic: str, folder: Path, **arguments: Any) -> Archived:
    return run(spark, topic, folder, bootstrap=topics.bootstrap, **arguments)


def places(folder: Path) -> list[tuple[str, int, int]]:
    """Topic id, partition and offset of each row, as a reader finds them that knows nothing of Spark."""
    table = ds.dataset(folder / "messages", partitioning="hive").to_table(columns=["topic_id", "partition", "offset"])
    return sorted((row["topic_id"], row["partition"], row["offset"]) for row in table.to_pylist())


def comparable(frame: DataFrame) -> list[str]:
    """Every value of every row, headers with their order and their nulls."""
    columns = [F.to_json(F.struct(name), {"ignoreNullFields": "false"}) for name in frame.columns]
    return sorted(row[0] for row in frame.select(F.concat_ws(" ", *columns)).collect())


def test_an_archive_gives_back_every_record_to_the_byte(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    """SPARK-10: of chance headers, keys and bodies, and without what was aborted or is not committed."""
    topic, chance = topics.create(2), random.Random(63)
    topics.write(topic, [any_record(chance) for _ in range(400)])
    topics.write(topic, [Record(value=b"aborted")], transactional_id="archive-aborts").abort_transaction()
    done = archive(spark, topics, topic, tmp_path / "a")
    assert (done.messages, done.messages_in_all) == (400, 400)
    archived, held = (
        read_archive(spark, tmp_path / "a", raw=True),
        messages(spark, topic, bootstrap=topics.bootstrap, raw=True),
    )
    assert archived.dtypes == held.dtypes
    assert comparable(archived) == comparable(held)
    assert [(row[1], row[2]) for row in places(tmp_path / "a")] == sorted(
        (record.partition(), record.offset()) for record in topics.read(topic)
    )
    assert archive(spark, topics, topic, tmp_path / "a").messages == 0


def test_small_runs_are_compacted_and_a_reader_never_sees_a_row_twice_or_not_at_all(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    """SPARK-10: it was 192 files of 7 kB after 12 small runs."""
    topic, folder = topics.create(4), tmp_path / "a"
    written, seen, is_over = 0, [0], threading.Event()
    faults: list[str] = []

    def look() -> None:
        while not is_over.wait(LOOK_EACH_S):
            least = written
            with suppress(FileNotFoundError):  # files that were listed went meanwhile: look again
                found = places(folder)
                if len(set(found)) != len(found) or len(found) < least:
                    faults.append(f"{len(found)} rows, {len(set(found))} places; {least} were published")
                seen.append(len(found))

    looks = threading.Thread(target=look)
    compactions = 0
    try:
        for number in range(BATCHES_MAX + 3):
            topics.write(topic, [Record(key=b"k%d" % each, value=b"%d" % number) for each in range(8)])
            done = archive(spark, topics, topic, folder)
            compactions, written = compactions + done.compactions, done.messages_in_all
            if number == 0:
                looks.start()
    finally:
        is_over.set()
        looks.join()
    assert not faults
    assert compactions == 1
    assert len(seen) > BATCHES_MAX
    assert len([*folder.glob("messages/**/*.parquet")]) <= BATCHES_MAX
    assert len(places(folder)) == read_archive(spark, folder).count() == 8 * (BATCHES_MAX + 3)


def test_messages_that_were_deleted_before_they_were_archived_are_told_with_their_range(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    """SPARK-10: and only who accepts the loss goes on behind it."""
    topic = topics.create()
    topics.write(topic, [Record(value=b"%d" % number) for number in range(10)])
    assert archive(spark, topics, topic, tmp_path).messages == 10
    topics.write(topic, [Record(value=b"%d" % number) for number in range(10, 20)])
    admin = admin_client(topics.bootstrap)
    for future in admin.delete_records([TopicPartition(topic, 0, 15)]).values():
        future.result(PATIENCE_S)
    with pytest.raises(ArchiveError, match="offsets 10 to 14 of partition 0 were deleted before they were archived"):
        archive(spark, topics, topic, tmp_path)
    assert len(places(tmp_path)) == 10
    assert archive(spark, topics, topic, tmp_path, accept_loss=True).messages_in_all == 15
    assert [place[2] for place in places(tmp_path)] == [*range(10), *range(15, 20)]


def test_a_queue_that_was_made_anew_is_archived_beside_the_old_one(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    """SPARK-10: the same partition and offset of another topic id is another message."""
    topic = topics.create()
    topics.write(topic, [Record(value=b"old") for _ in range(3)])
    archive(spark, topics, topic, tmp_path)
    topics.make_anew(topic)
    topics.write(topic, [Record(value=b"new") for _ in range(5)])
    assert archive(spark, topics, topic, tmp_path).messages_in_all == 8
    found = places(tmp_path)
    assert len({place[0] for place in found}) == 2
    assert sorted(place[2] for place in found) == [0, 0, 1, 1, 2, 2, 3, 4]


def test_an_archive_is_registered_as_a_reader_of_what_it_has_not_read(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.create(2)
    topics.write(topic, [Record(key=b"k", value=b"1")])
    archive(spark, topics, topic, tmp_path)
    with Admin(topics.bootstrap) as admin:
        [reader] = [each for each in admin.readers() if each.topic == topic]
        assert sum(reader.positions.values()) == 1
        assert reader.counts(int(time.time() * 1000) + 6 * 86_400_000)
        assert not reader.counts(int(time.time() * 1000) + 8 * 86_400_000)
        admin.end_reader(reader.name)


def test_what_became_of_the_messages_is_archived_too(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    """SPARK-10: of this queue and no other, once, with the columns of `events`."""
    mine, other = topics.create(), topics.create()
    for queue in (mine, other):
        topics.write(queue, [Record(value=b"%d" % number) for number in range(3)])
        with ConnectionFactory(topics.bootstrap).create_context(AcknowledgeMode.AUTO) as jms:
            consumer = jms.create_consumer(jms.create_queue(queue))
            for _ in range(3):
                assert consumer.receive(timeout=PATIENCE_S) is not None
    assert archive(spark, topics, mine, tmp_path).events > 0
    assert archive(spark, topics, mine, tmp_path).events == 0
    archived, held = read_archived_events(spark, tmp_path), events(spark, bootstrap=topics.bootstrap)
    assert archived.dtypes == held.dtypes
    assert comparable(archived) == comparable(held.where(F.col("topic") == mine))
    settled = archived.where("fate = 'acknowledged'").select(F.expr("last_offset - offset + 1").alias("n"))
    assert sum(row["n"] for row in settled.collect()) == 3


def test_a_quiet_queue_is_archived_when_events_are_gone_and_lost_ones_are_a_warning(
    spark: SparkSession, bootstrap: str, tmp_path: Path
) -> None:
    """SPARK-10: it failed, and `--accept-loss`, which it asked for, would have meant messages as well."""
    world = Planted(bootstrap, f"arc-{uuid4().hex[:12]}")
    world.send([None], {})

    def archived() -> tuple[Archived, list[str]]:
        told: list[str] = []
        return run(spark, world.queue, tmp_path, bootstrap=bootstrap, namespace=world.namespace, tell=told.append), told

    world.checkpoint(1, 10, acknowledged=[0])
    assert archived()[0].events == 1
    world.checkpoint(2, 20, acknowledged=[1])
    world.moved_letter(0, 30)  # of another queue
    world.delete_events()
    world.checkpoint(3, 40, acknowledged=[2])
    done, told = archived()
    assert done.events == 1
    assert re.search("warning: .*what became of messages is missing, for offsets .* of partition", told[0])
    assert archived()[1] == []


@pytest.mark.parametrize(
    ("plant", "told"),
    [
        (lambda folder: (folder / "notes.txt").write_text("mine"), "is no archive and has other files, such as notes"),
        (lambda folder: (folder / "_archive.json").write_text("{"), r"its file _archive.json cannot be used \("),
        (lambda folder: (folder.rmdir(), folder.write_text("a file")), "File exists; name a folder"),
    ],
)
def test_a_folder_that_is_something_else_is_one_line_before_spark_starts(
    topics: Topics, tmp_path: Path, capsys: pytest.CaptureFixture[str], plant: Any, told: str
) -> None:
    folder, topic = tmp_path / "a", topics.create()
    folder.mkdir()
    plant(folder)
    assert main(["archive", topic, "--to", str(folder), "--bootstrap", topics.bootstrap]) == 1
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    assert re.search(told, line)


def test_a_batch_that_is_missing_is_told_and_nothing_goes_on(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.create()
    for _ in range(2):
        topics.write(topic, [Record()])
        archive(spark, topics, topic, tmp_path)
    [first] = tmp_path.glob("messages/segment=*/batch=00000000-*")
    first.rename(tmp_path / "_elsewhere")
    for use in (lambda: archive(spark, topics, topic, tmp_path), lambda: read_archive(spark, tmp_path)):
        with pytest.raises(ArchiveError, match="batch 0 is missing, and batch=00000001-00000001 is there: restore it"):
            use()
    (tmp_path / "_elsewhere").rename(first)
    (first / "_manifest.json").unlink()
    with pytest.raises(ArchiveError, match="has no manifest that can be read"):
        read_archive(spark, tmp_path)


def test_an_archive_that_was_emptied_does_not_begin_anew(
    spark: SparkSession, topics: Topics, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """SPARK-21: it archived what Kafka had yet, and said nothing of what both had lost."""
    topic = topics.create()
    topics.write(topic, [Record(value=b"%d" % number) for number in range(10)])
    archive(spark, topics, topic, tmp_path)
    admin = admin_client(topics.bootstrap)  # a client that nobody has any more never answers
    for future in admin.delete_records([TopicPartition(topic, 0, 10)]).values():
        future.result(PATIENCE_S)
    topics.write(topic, [Record(value=b"later")])
    shutil.rmtree(tmp_path / "messages")
    told = "batch 0 is missing: restore what is lost, or begin another archive"
    for use in (lambda: archive(spark, topics, topic, tmp_path), lambda: read_archive(spark, tmp_path)):
        with pytest.raises(ArchiveError, match=told):
            use()
    assert main(["archive", topic, "--to", str(tmp_path), "--bootstrap", topics.bootstrap]) == 1
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    assert told in line


def test_two_jobs_do_not_write_to_one_archive(topics: Topics, tmp_path: Path) -> None:
    with (
        locked_archive(tmp_path, destination="queue:a", cluster_id="c"),
        pytest.raises(ArchiveError, match="is being written by another job"),
        locked_archive(tmp_path, destination="queue:a", cluster_id="c"),
    ):
        raise AssertionError
    with (
        pytest.raises(ArchiveError, match="is that of queue:a, and this job is for queue:b"),
        locked_archive(tmp_path, destination="queue:b", cluster_id="c"),
    ):
        raise AssertionError
