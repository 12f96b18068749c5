"""`jbm-spark archive --format delta`: each batch is one commit of a Delta table, whatever happens to the job."""

import datetime
import json
import random
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyarrow import parquet
from pyspark.sql import SparkSession

from jbm_spark.archiving import read_archive, read_archived_events
from jbm_spark.archiving.archive_files import RowShape, rewrite
from jbm_spark.archiving.archive_folder import DESTINATION, MESSAGES
from jbm_spark.archiving.archive_rows import MESSAGE_KEY, MESSAGES_SCHEMA
from jbm_spark.archiving.delta_folder import LOG, DeltaFolder
from jbm_spark.archiving.manifest import Span
from jbm_spark.archiving.table_folder import BATCHES_MAX, positions
from jbm_spark.cli.job_command import main
from jbm_spark.errors import ArchiveError
from jbm_spark.jobs.archive import Archived, run
from jbm_spark.jobs.audit import run as audit
from jbm_spark.jobs.replay import run as replay
from jbm_spark.messages import messages
from tests.spark.any_record import any_record
from tests.spark.archive_process import archiving
from tests.spark.conftest import Topics
from tests.spark.planted_archive import PlantedArchive, message
from tests.spark.records import Record
from tests.spark.test_archive_job import comparable
from tests.support.waiting import wait_until

pytestmark = pytest.mark.thorough


def archive(spark: SparkSession, topics: Topics, topic: str, folder: Path, **arguments: Any) -> Archived:
    return run(spark, topic, folder, bootstrap=topics.bootstrap, **arguments)


def table(folder: Path) -> DeltaTable:
    return DeltaTable(folder / "messages")


def places(folder: Path) -> list[tuple[int, int]]:
    """Partition and offset of each row, as a reader of Delta tables finds them."""
    rows = pa.table(table(folder).to_pyarrow_table(columns=["partition", "offset"])).to_pylist()
    return sorted((row["partition"], row["offset"]) for row in rows)


def test_a_delta_archive_gives_back_every_record_to_the_byte(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    """SPARK-10: for Spark, for a reader of Delta tables, for a replay and an audit."""
    topic, other, chance, folder = topics.create(2), topics.create(), random.Random(83), tmp_path / "a"
    topics.write(topic, [any_record(chance) for _ in range(200)])
    topics.write(topic, [Record(value=b"aborted")], transactional_id=f"delta-{topic}").abort_transaction()
    assert archive(spark, topics, topic, folder, file_format="delta").messages_in_all == 200
    topics.write(topic, [any_record(chance) for _ in range(100)])
    assert archive(spark, topics, topic, folder).messages_in_all == 300
    assert archive(spark, topics, topic, folder).batches == 0
    archived, held = read_archive(spark, folder, raw=True), messages(spark, topic, bootstrap=topics.bootstrap, raw=True)
    assert archived.dtypes == held.dtypes
    assert comparable(archived) == comparable(held)
    assert places(folder) == [(record.partition(), record.offset()) for record in topics.read(topic)]
    assert read_archived_events(spark, folder).count() == 0
    assert replay(spark, folder, other, bootstrap=topics.bootstrap, dry_run=True).sent == 300
    assert audit(spark, topic, bootstrap=topics.bootstrap, archive=str(folder)).messages == 300


def test_of_many_queues_small_commits_are_compacted_queue_by_queue(spark: SparkSession, tmp_path: Path) -> None:
    """SPARK-10, SPARK-16: a compaction of one removes no file of another."""
    planted, day = (
        PlantedArchive(tmp_path, "queues:toys.*", "delta"),
        datetime.datetime(2026, 11, 1, tzinfo=datetime.UTC),
    )
    for number in range(BATCHES_MAX + 1):
        queue = "toys.cars" if number else "toys.dolls"
        span = Span(queue, {0: number}, {0: number + 1}, {}, queue)
        planted.add(MESSAGES, [message(queue, number, "u", day)], [span])
    folder = planted.table(MESSAGES)
    assert folder.to_compact() is None
    planted.add(MESSAGES, [message("toys.cars", 99, "u", day)], [Span("toys.cars", {0: 99}, {0: 100}, {}, "toys.cars")])
    fragments = folder.to_compact()
    assert fragments is not None
    rewrite(spark, folder, fragments, RowShape(MESSAGES_SCHEMA, MESSAGE_KEY, (DESTINATION,)))
    assert (folder.to_compact(), len(folder.files())) == (None, 2)
    rows = pa.table(table(tmp_path).to_pyarrow_table(columns=["destination", "offset"])).to_pylist()
    found = sorted((row["destination"], row["offset"]) for row in rows)
    assert found == [*(("queue:toys.cars", each) for each in (*range(1, BATCHES_MAX + 1), 99)), ("queue:toys.dolls", 0)]
    assert read_archive(spark, tmp_path).where("destination = 'queue:toys.dolls'").count() == 1


def test_small_commits_are_compacted_and_what_is_aborted_is_a_batch_too(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    """SPARK-10: one commit a batch, and readers of an older version go on with it."""
    topic = topics.create()
    for number in range(BATCHES_MAX + 1):
        topics.write(topic, [Record(value=b"%d" % number)])
        done = archive(spark, topics, topic, tmp_path, file_format="delta")
        assert done.compactions == (1 if number == BATCHES_MAX else 0)
    assert len(table(tmp_path).file_uris()) == 1
    before = DeltaTable(tmp_path / "messages", version=BATCHES_MAX + 1)
    assert len(before.file_uris()) == pa.table(before.to_pyarrow_table()).num_rows == BATCHES_MAX + 1
    topics.write(topic, [Record(value=b"aborted")], transactional_id=f"delta-{topic}").abort_transaction()
    assert archive(spark, topics, topic, tmp_path).messages == 0
    assert archive(spark, topics, topic, tmp_path).batches == 0
    assert places(tmp_path) == [(0, number) for number in range(BATCHES_MAX + 1)]
    assert read_archive(spark, tmp_path).count() == BATCHES_MAX + 1


SCHEMA = {"type": "struct", "fields": [{"name": "offset", "type": "long", "nullable": True, "metadata": {}}]}


def publish(folder: DeltaFolder, first: int, last: int) -> None:
    """A batch with these offsets."""
    day = folder.staged() / f"day={datetime.date(2026, 11, 27)}"
    day.mkdir(parents=True)
    parquet.write_table(pa.table({"offset": list(range(first, last))}), day / f"part-{first}.parquet")
    folder.publish(rows=last - first, spans=[Span("id", {0: first}, {0: last}, {})])


def test_a_batch_whose_commit_was_never_made_is_written_anew_and_counts_once(tmp_path: Path) -> None:
    """SPARK-10: everything of it was there but the commit, when the job was killed."""
    folder = DeltaFolder(tmp_path, "messages", "an-id", json.dumps(SCHEMA), ["day"])
    publish(folder, 0, 5)
    publish(folder, 5, 9)
    [*_, newest] = sorted((folder.path / LOG).glob("*.json"))
    newest.unlink()
    again = DeltaFolder(tmp_path, "messages", "an-id", json.dumps(SCHEMA), ["day"])
    assert positions(again)["id"].end == {0: 5}
    publish(again, 5, 7)
    publish(again, 7, 12)
    assert sorted(DeltaTable(folder.path).to_pyarrow_table()["offset"].to_pylist()) == [*range(12)]
    assert (DeltaTable(folder.path).transaction_version("an-id"), again.manifests()[0].rows) == (2, 12)


def test_what_is_missing_of_a_delta_table_is_one_line(tmp_path: Path) -> None:
    """SPARK-21."""
    folder = DeltaFolder(tmp_path, "messages", "an-id", json.dumps(SCHEMA), ["day"])
    publish(folder, 0, 5)
    [file] = folder.files()
    file.rename(tmp_path / "elsewhere")
    with pytest.raises(ArchiveError, match=r"file day=2026-11-27/part-0.parquet is missing: restore it"):
        folder.files()
    (folder.path / LOG).rename(tmp_path / LOG)
    with pytest.raises(ArchiveError, match=r"its _delta_log is missing: restore it"):
        folder.manifests()
    (folder.path / LOG).mkdir()
    with pytest.raises(ArchiveError, match=r"its _delta_log is missing: restore it"):
        publish(folder, 5, 7)
    (folder.path / LOG / f"{0:020}.json").write_text("{")
    with pytest.raises(ArchiveError, match=r"its _delta_log cannot be read \(") as raised:
        publish(folder, 5, 7)
    assert "\n" not in str(raised.value)


def test_a_table_that_a_full_disk_kept_from_being_made_is_made_later(tmp_path: Path) -> None:
    """SPARK-21: nothing was lost with a log that has never had a commit."""
    folder = DeltaFolder(tmp_path, "messages", "an-id", json.dumps(SCHEMA), ["day"])
    (folder.path / LOG).mkdir(parents=True)
    (folder.path / LOG / f"{0:020}.json#1").touch()
    assert (folder.manifests(), folder.files()) == ([], [])
    publish(folder, 0, 5)
    assert positions(folder)["id"].end == {0: 5}


def test_a_format_that_the_archive_has_not_is_one_line(
    topics: Topics, tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = topics.create()
    for mine, other in (("parquet", "delta"), ("delta", "parquet")):
        archive(spark, topics, topic, tmp_path / mine, file_format=mine)
        command = ["archive", topic, "--to", str(tmp_path / mine), "--bootstrap", topics.bootstrap, "--format"]
        assert main([*command, other]) == 1
        assert re.fullmatch(rf".*is of format {mine}, and not {other}: name .*\n", capsys.readouterr().err)
        assert main([*command, "orc"]) == 1
        assert capsys.readouterr().err.endswith("--format orc: an archive is of format parquet, delta or iceberg\n")


def test_without_its_package_one_line_says_what_to_install(topics: Topics, tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['deltalake'] = None; from jbm_spark.cli.job_command import main; "
        f"sys.exit(main(['archive', {topics.create()!r}, '--to', {str(tmp_path / 'a')!r}, '--format', 'delta', "
        f"'--bootstrap', {topics.bootstrap!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(r".*deltalake is not installed: pip install deltalake pyarrow\n", done.stderr)
    assert not (tmp_path / "a").exists()


@pytest.mark.timeout(1500)  # Spark starts three times
def test_a_delta_archive_after_two_kills_is_equal_to_the_topic(topics: Topics, tmp_path: Path) -> None:
    """SPARK-10: killed in the midst of writing the first batch, 12,000 a partition, and another one."""
    topic, folder, chance = topics.create(3), tmp_path / "a", random.Random(3)
    staged, log = folder / "_staging" / "messages", folder / "messages" / LOG

    def send(count: int) -> None:
        topics.write(topic, [Record(key=b"u%d" % (each % 60), value=b"%d" % each) for each in range(count)])
        aborted = topics.write(topic, [Record(value=b"aborted")] * 20, transactional_id=f"delta-kills-{topic}")
        aborted.abort_transaction()

    send(36_000)
    for number in range(2):
        with archiving(topics, topic, folder, "--format", "delta") as process:

            def is_writing(process: subprocess.Popen[str] = process) -> bool:
                assert process.poll() is None, "the job ended by itself"
                return any(staged.rglob("*.parquet"))

            if number:  # let a batch be published first
                before = len([*log.glob("*.json")])
                send(2_000)  # the kill before may have come behind the last commit
                wait_until(lambda: len([*log.glob("*.json")]) != before, about="a commit", timeout_s=300)  # noqa: B023
                send(2_000)
            wait_until(is_writing, about="a batch that is being written", timeout_s=300)
            threading.Event().wait(chance.random() / 2)
    expected = [(each.partition(), each.offset()) for each in topics.read(topic)]
    with archiving(topics, topic, folder) as process:
        wait_until(lambda: (folder / "messages" / LOG).is_dir() and len(places(folder)) >= len(expected),
                   about="everything archived", timeout_s=300)  # fmt: skip
        process.terminate()
        out, _ = process.communicate(timeout=300)
        assert process.returncode == 0
        assert json.loads(out)["messages_in_all"] == len(expected)
    assert places(folder) == expected
