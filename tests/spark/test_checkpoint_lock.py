"""Two queries on one checkpoint: the second is refused, until the first has ended, however it did."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from jbm_spark.checkpoint_lock import CheckpointLock, check_file_system, local_folder, plain_is_local
from jbm_spark.checkpoint_record import check_folder
from jbm_spark.errors import CheckpointError
from jbm_spark.messages import message_stream, write_stream
from tests.spark.conftest import Topics
from tests.spark.records import Record

pytestmark = pytest.mark.thorough

HOLDER = """
import sys
from pathlib import Path
from jbm_spark.checkpoint_lock import CheckpointLock
CheckpointLock(Path(sys.argv[1])).acquire()
print("held", flush=True)
sys.stdin.read()
"""
END_S = 300


def test_a_checkpoint_is_free_again_when_its_process_was_killed(tmp_path: Path) -> None:
    """SPARK-4: kill -9 leaves nothing behind that somebody had to remove."""
    folder = tmp_path / "checkpoint"
    command = [sys.executable, "-c", HOLDER, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(CheckpointError, match=rf"in use by a query of process {holder.pid}: "):
            CheckpointLock(folder).acquire()
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        lock = CheckpointLock(folder)
        lock.acquire()
        lock.close()


def test_a_checkpoint_that_is_a_file_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").touch()
    with pytest.raises(CheckpointError, match=r"checkpoint .*: (Not a directory|File exists); name a folder"):
        CheckpointLock(tmp_path / "checkpoint").acquire()


def test_a_folder_of_something_else_is_no_checkpoint_and_nothing_is_left_in_it(tmp_path: Path) -> None:
    """Spark's files came to lie between photos and tables."""
    (tmp_path / "orders.csv").touch()
    told = f"checkpoint {tmp_path} is a folder with other files, such as orders.csv, and no checkpoint: name a new"
    with pytest.raises(CheckpointError, match=f"^{told}"):
        check_folder(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["orders.csv"]


@pytest.mark.parametrize(
    "names",
    [
        [],
        [".gitkeep"],
        ["jbm.lock"],
        ["jbm.lock", "jbm.json"],
        ["jbm.lock", "jbm.json", "notes.txt"],
        ["metadata", "offsets", "commits"],
    ],
)
def test_a_folder_that_is_new_or_a_checkpoint_is_taken(tmp_path: Path, names: list[str]) -> None:
    """Also Spark's own without our note, of an earlier version."""
    check_folder(tmp_path / "not made yet")
    for name in names:
        (tmp_path / name).touch()
    check_folder(tmp_path)


@pytest.mark.parametrize("scheme", ["abfss", "gs", "S3A"])
def test_a_file_system_that_the_session_has_not_is_one_line_before_the_query_starts(
    spark: SparkSession, scheme: str
) -> None:
    """It was a ClassNotFoundException in a Java trace."""
    told = f"^checkpoint {scheme}://b/c: no file system for {scheme}: in this session; make the session with its jar"
    with pytest.raises(CheckpointError, match=told) as raised:
        check_file_system(spark, f"{scheme}://b/c")
    assert "\n" not in str(raised.value)


def test_a_file_system_that_spark_has_is_not_looked_for(spark: SparkSession) -> None:
    check_file_system(spark, "hdfs://nowhere:1/c")


@pytest.mark.parametrize(
    ("checkpoint", "folder"),
    [
        ("/tmp/a b", "/tmp/a b"),
        ("file:/tmp/a", "/tmp/a"),
        ("file:///tmp/a", "/tmp/a"),
        ("FILE:///tmp/a:b", "/tmp/a:b"),
        ("cp/2026-01-01T00:00", str(Path("cp/2026-01-01T00:00").absolute())),
        ("s3a://bucket/a", None),
        ("hdfs:///a", None),
    ],
)
def test_a_folder_of_this_machine_is_known_by_its_scheme(checkpoint: str, folder: str | None) -> None:
    found = local_folder(checkpoint, plain_is_local=True)
    assert (None if found is None else str(found)) == folder


def test_a_plain_path_is_where_the_session_looks_for_it(spark: SparkSession) -> None:
    assert plain_is_local(spark)
    assert local_folder("checkpoints/a", plain_is_local=False) is None


def test_a_second_query_on_a_checkpoint_is_refused_and_one_after_it_is_not(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    """SPARK-4: two queries would give the same ids to other messages."""
    source, queue = topics.create(), topics.create()

    def start(**trigger: object) -> StreamingQuery:
        frame = message_stream(spark, source, bootstrap=topics.bootstrap)
        place = f"file://{tmp_path}/checkpoint"
        return write_stream(frame, queue, bootstrap=topics.bootstrap, checkpoint=place, trigger=trigger or None)

    topics.write(source, [Record()])
    first = start(processingTime="1 second")
    try:
        with pytest.raises(CheckpointError, match="in use by a query of this process: stop that one first") as told:
            start()
        assert "\n" not in str(told.value)
        assert first.isActive
    finally:
        first.stop()
    for _ in range(2):  # after one that was stopped, and one that ended by itself
        query = start()
        assert query.awaitTermination(END_S), "the query did not end"
    assert [record.value() for record in topics.read(queue)] == [b"body"]
