"""Archives on an object store: Delta and Iceberg tables at `s3a://`, where nothing is renamed and nobody locks."""

import json
import random
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyarrow import parquet
from pyiceberg.table import StaticTable
from pyspark.sql import SparkSession

from jbm_spark.archiving import delta_log, erase, erasures, read_archive
from jbm_spark.archiving.archive_files import RowShape, rewrite
from jbm_spark.archiving.archive_folder import EVENTS, MESSAGES, archive_path, locked_archive
from jbm_spark.archiving.archive_rows import MESSAGE_KEY, MESSAGES_SCHEMA
from jbm_spark.archiving.archive_tables import archive_table
from jbm_spark.archiving.delta_folder import LOG
from jbm_spark.archiving.hadoop_path import HadoopPath
from jbm_spark.archiving.lake_folder import LakeFolder
from jbm_spark.archiving.manifest import Span
from jbm_spark.archiving.table_folder import BATCHES_MAX, positions
from jbm_spark.errors import ArchiveError
from jbm_spark.jars import fetch_extra
from jbm_spark.jobs.archive import run
from jbm_spark.jobs.audit import run as audit
from jbm_spark.jobs.replay import run as replay
from jbm_spark.messages import messages
from tests.spark.any_record import any_record
from tests.spark.archive_process import archiving
from tests.spark.conftest import Topics
from tests.spark.object_store import BUCKET, SECRET, ObjectStore, object_store
from tests.spark.planted_archive import PlantedArchive, event, message, topic_id
from tests.spark.records import Record
from tests.spark.test_archive_job import comparable
from tests.support.waiting import wait_until

pytestmark = pytest.mark.thorough
of_both = pytest.mark.parametrize("file_format", ["delta", "iceberg"])


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    fetch_extra("s3")
    with object_store() as made:
        yield made


@pytest.fixture
def place(spark: SparkSession, store: ObjectStore) -> Iterator[str]:
    """A place of its own on the store, which the session reaches."""
    for name, value in store.settings.items():
        spark.conf.set(name, value)
    yield f"s3a://{BUCKET}/{uuid4().hex}"
    for name in store.settings:
        spark.conf.unset(name)


def prefix(place: str, name: str = "") -> str:
    return f"{place.rpartition('/')[2]}/{name}"


def table_seen(store: ObjectStore, place: str, file_format: str, name: str = MESSAGES) -> pa.Table:
    """The messages, or the events, as another reader of such tables finds them."""
    options = {"endpoint_url": store.endpoint, "allow_http": "true", "aws_access_key_id": "key",
               "aws_secret_access_key": SECRET, "aws_region": "us-east-1"}  # fmt: skip
    if file_format == "delta":
        return pa.table(DeltaTable(f"{place}/{name}", storage_options=options).to_pyarrow_table())
    properties = {"s3.endpoint": store.endpoint, "s3.access-key-id": "key", "s3.secret-access-key": SECRET,
                  "s3.region": "us-east-1"}  # fmt: skip
    return StaticTable.from_metadata(f"{place}/{name}", properties).scan().to_arrow()


def offsets_seen(store: ObjectStore, place: str, file_format: str) -> list[tuple[int, int]]:
    """Partition and offset of each row of the messages, as another reader of such tables finds them."""
    rows = table_seen(store, place, file_format).select(["partition", "offset", "day", "timestamp"]).to_pylist()
    assert all(row["day"] == row["timestamp"].date() for row in rows)
    return sorted((row["partition"], row["offset"]) for row in rows)


@of_both
def test_an_archive_on_an_object_store_does_all_that_one_on_a_disk_does(
    spark: SparkSession, topics: Topics, store: ObjectStore, place: str, file_format: str,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """SPARK-19: each record to the byte, for Spark and for others; a replay, an audit, an erasure of all traces."""
    topic, other, chance = topics.create(2), topics.create(), random.Random(125)
    topics.write(topic, [any_record(chance) for _ in range(40)])
    bootstrap = topics.bootstrap
    assert run(spark, topic, place, file_format=file_format, bootstrap=bootstrap).messages_in_all == 40
    topics.write(topic, [any_record(chance) for _ in range(20)])
    topics.write(topic, [Record(key=b"joe-4711", value=b"of joe")])
    assert run(spark, topic, place, bootstrap=bootstrap).messages_in_all == 61
    assert run(spark, topic, place, bootstrap=bootstrap).batches == 0
    archived, held = read_archive(spark, place, raw=True), messages(spark, topic, raw=True, bootstrap=bootstrap)
    assert archived.dtypes == held.dtypes
    assert comparable(archived) == comparable(held)
    in_topic = [(record.partition(), record.offset()) for record in topics.read(topic)]
    assert offsets_seen(store, place, file_format) == in_topic
    assert replay(spark, place, other, dry_run=True, bootstrap=bootstrap).sent == 61
    assert audit(spark, topic, archive=place, bootstrap=bootstrap).messages == 61
    assert erase(spark, place, unit="joe-4711").messages == 1
    assert [each.rows for each in erasures(place)] == [1]
    assert read_archive(spark, place).count() == len(offsets_seen(store, place, file_format)) == 60
    assert not any(b"joe-4711" in each for each in store.objects(prefix(place)).values())
    assert run(spark, topic, place, bootstrap=bootstrap).batches == 0
    assert SECRET not in "".join(capfd.readouterr())


@of_both
def test_the_files_of_a_day_and_a_queue_alone_are_read(spark: SparkSession, place: str, file_format: str) -> None:
    """SPARK-19: tables are partitioned by `destination` and `day`, and `read_archive` knows both. An event that nobody
    can read is about no queue, for other readers, too."""
    days = [datetime(2026, 11, day, 12, tzinfo=UTC) for day in (1, 2)]
    planted = PlantedArchive(archive_path(place), "queues:toys.*", file_format)
    for number, queue in enumerate(("toys.cars", "toys.dolls")):
        span = Span(topic_id(queue), {0: 0}, {0: 2}, {}, queue)
        planted.add(MESSAGES, [message(queue, each, f"u{number}", day) for each, day in enumerate(days)], [span])
    frame = read_archive(spark, place)
    assert {"day", "topic_id", "destination"}.isdisjoint(frame.columns)
    cars = frame.where("destination = 'queue:toys.cars' and day = '2026-11-02'")
    assert [(row.topic_id, str(row.day)) for row in cars.select("topic_id", "day").collect()] == [
        (topic_id("toys.cars"), "2026-11-02")
    ]
    assert re.search(r"PartitionFilters: \[[^\]]*destination[^\]]*day", str(cars._jdf.queryExecution().executedPlan()))
    assert erase(spark, place, unit="u1", older_than_days=1, queue="toys.dolls").messages == 2
    assert {row.unit_of_order for row in read_archive(spark, place).collect()} == {"u0"}
    store = ObjectStore(spark.conf.get("fs.s3a.endpoint") or "")
    assert len(offsets_seen(store, place, file_format)) == 2
    told = [event("toys.cars", 0, 0, days[0], number=0), {**event("", 0, 0, days[0], number=1), "topic": None}]
    planted.add(EVENTS, told, [Span("e", {0: 0}, {0: 2}, {}, "jbm.events")])
    destinations = table_seen(store, place, file_format, EVENTS)["destination"].to_pylist()
    assert sorted(destinations, key=str) == [None, "queue:toys.cars"]
    assert erase(spark, place, older_than_days=1).events == 2
    assert table_seen(store, place, file_format, EVENTS).num_rows == 0


@contextmanager
def folder_of(place: str, file_format: str) -> Iterator[LakeFolder]:
    with locked_archive(archive_path(place), destination="queue:a", cluster_id="c", file_format=file_format) as whose:
        schema = {"type": "struct", "fields": [{"name": "offset", "type": "long", "nullable": True, "metadata": {}}]}
        table = archive_table(archive_path(place), "messages", whose, json.dumps(schema))
        assert isinstance(table, LakeFolder)
        yield table


def stage(folder: LakeFolder, first: int, last: int) -> None:
    """Write these offsets."""
    made = pa.BufferOutputStream()
    parquet.write_table(pa.table({"offset": list(range(first, last))}), made)
    (folder.staged() / "day=2026-11-27" / f"part-{first}.parquet").write_bytes(made.getvalue().to_pybytes())


def publish(folder: LakeFolder, first: int, last: int) -> None:
    folder.manifests()
    stage(folder, first, last)
    folder.publish(rows=last - first, spans=[Span("id", {0: first}, {0: last}, {})])


@of_both
def test_of_two_jobs_that_go_on_from_one_state_one_is_refused(
    spark: SparkSession, place: str, file_format: str
) -> None:
    """SPARK-19: nothing of the other is published, and the first one's rows stay once."""
    with folder_of(place, file_format) as mine, folder_of(place, file_format) as theirs:
        publish(mine, 0, 5)
        theirs.manifests()
        stage(theirs, 5, 9)
        publish(mine, 5, 9)
        with pytest.raises(
            ArchiveError, match=r"another job has published meanwhile, and nothing of this one: let one"
        ):
            theirs.publish(rows=4, spans=[Span("id", {0: 5}, {0: 9}, {})])
        assert not [*theirs._staged.all_files()]  # an erasure meanwhile does not know of it
        # The other one's commit comes between our last look and ours.
        theirs.manifests()
        stage(theirs, 9, 12)
        publish(mine, 9, 11)
        with pytest.raises(FileExistsError):
            theirs._log.commit(theirs._staged_files(), [], position=7, is_change=True)
        # What is staged may be removed as soon as the position is a later one.
        [(fragments, _)] = theirs.holding({theirs.files()[0]: 1})
        stage(theirs, 0, 5)
        publish(mine, 11, 12)
        with pytest.raises(ArchiveError, match="another job has published meanwhile"):
            theirs.replace(fragments)
        with pytest.raises(ArchiveError, match="another job has published meanwhile"):
            theirs.holding({theirs.path / "compacted-meanwhile.parquet": 1})
        # An erasure removes what a killed job left, though its last commit was before that.
        theirs.manifests()
        stage(theirs, 12, 15)

        def is_removed() -> bool:
            mine.remove_replaced()
            return not [*theirs._staged.all_files()]

        # The times of a store may be whole seconds.
        wait_until(is_removed, about="the removal of what nobody can publish", timeout_s=60)
        with pytest.raises(ArchiveError, match="another job has published meanwhile"):
            theirs.publish(rows=3, spans=[Span("id", {0: 12}, {0: 15}, {})])
        assert positions(mine)["id"].end == positions(theirs)["id"].end == {0: 12}
        assert spark.read.parquet(*map(str, mine.files())).count() == 12


@of_both
def test_small_commits_are_compacted_on_the_store_too(
    spark: SparkSession, place: str, file_format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SPARK-19: and a reader of a Delta table needs the commits since the last checkpoint alone."""
    monkeypatch.setattr(delta_log, "CHECKPOINT_EVERY", 4)
    planted = PlantedArchive(archive_path(place), "queue:toys", file_format)
    for number in range(BATCHES_MAX + 1):
        row = message("toys", number, "u", datetime(2026, 11, 1, tzinfo=UTC))
        planted.add(MESSAGES, [row], [Span("toys", {0: number}, {0: number + 1}, {})])
    table = planted.table(MESSAGES)
    fragments = table.to_compact()
    assert fragments is not None
    rewrite(spark, table, fragments, RowShape(MESSAGES_SCHEMA, MESSAGE_KEY))
    assert (table.to_compact(), len(table.files())) == (None, 1)
    offsets = [row.offset for row in read_archive(spark, place).select("kafka.offset").collect()]
    assert offsets == [*range(BATCHES_MAX + 1)]
    checkpoints = [path for path in (archive_path(place) / "messages" / LOG).iterdir() if "checkpoint" in path.name]
    assert bool(checkpoints) == (file_format == "delta")


@of_both
def test_a_lost_log_is_told_and_nothing_begins_anew(spark: SparkSession, place: str, file_format: str) -> None:
    """SPARK-21: an empty archive would be read, and all be archived once more."""
    with folder_of(place, file_format) as folder:
        publish(folder, 0, 5)
    (HadoopPath(place) / "messages" / (LOG if file_format == "delta" else "metadata")).remove()
    for use in (LakeFolder.manifests, LakeFolder.files, LakeFolder.staged, LakeFolder.to_compact):
        with (
            folder_of(place, file_format) as folder,
            pytest.raises(ArchiveError, match=r"its log .* is missing: restore it"),
        ):
            use(folder)


def test_plain_files_and_places_of_others_are_refused_in_one_line(
    spark: SparkSession, topics: Topics, place: str, store: ObjectStore
) -> None:
    """SPARK-19: a rename file by file would show halves."""
    topic = topics.create()
    for given in (None, "parquet"):
        with pytest.raises(
            ArchiveError, match=r"renaming a folder in one step, .* give --format delta or --format ice"
        ):
            run(spark, topic, place, bootstrap=topics.bootstrap, file_format=given)
    assert store.objects(prefix(place)) == {}
    with pytest.raises(ArchiveError, match=r"or at s3a://, abfs://, abfss://, hdfs://, as in s3a://bucket/orders$"):
        run(spark, topic, "s3://lake/x", bootstrap=topics.bootstrap, file_format="delta")
    (HadoopPath(place) / "notes.txt").write_text("mine")
    with pytest.raises(ArchiveError, match=r"is no archive and has other files, such as notes.txt: name a new folder"):
        run(spark, topic, place, bootstrap=topics.bootstrap, file_format="delta")
    with pytest.raises(ArchiveError, match=r"no file system for abfss: build the session with its jar"):
        read_archive(spark, "abfss://lake@account.dfs.core.windows.net/x")


@pytest.mark.slow
@of_both
@pytest.mark.timeout(1500)  # Spark starts twice
def test_an_archive_on_an_object_store_after_a_kill_is_equal_to_the_topic(
    topics: Topics, store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file_format: str
) -> None:
    """SPARK-19: killed in the midst of writing a batch; credentials come from Spark's own configuration."""
    place = f"s3a://{BUCKET}/{uuid4().hex}"
    lines = [f"spark.hadoop.{name} {value}\n" for name, value in store.settings.items()]
    (tmp_path / "spark-defaults.conf").write_text("".join(lines), encoding="utf-8")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    topic = topics.create(3)
    topics.write(topic, [Record(key=b"u%d" % (each % 60), value=b"%d" % each) for each in range(30_000)])

    def written() -> int:
        pages = store.client().list_objects_v2(Bucket=BUCKET, Prefix=prefix(place, "messages/batch="))
        return len(pages.get("Contents", ()))

    with archiving(topics, topic, place, "--format", file_format) as process:

        def is_writing(process: subprocess.Popen[str] = process) -> bool:
            assert process.poll() is None, "the job ended by itself"
            return written() > 0

        wait_until(is_writing, about="a batch that is being written", timeout_s=300)
    expected = [(each.partition(), each.offset()) for each in topics.read(topic)]
    with archiving(topics, topic, place, "--format", file_format) as process:
        wait_until(lambda: published(store, place, file_format) >= len(expected), about="everything archived",
                   timeout_s=300)  # fmt: skip
        process.terminate()
        out, _ = process.communicate(timeout=300)
        assert process.returncode == 0
        assert json.loads(out)["messages_in_all"] == len(expected)
    assert offsets_seen(store, place, file_format) == expected


def published(store: ObjectStore, place: str, file_format: str) -> int:
    """The rows that a reader finds; none before there is a table."""
    first = "_delta_log/00000000000000000001.json" if file_format == "delta" else "metadata/v2.metadata.json"
    log = store.client().list_objects_v2(Bucket=BUCKET, Prefix=prefix(place, f"messages/{first}"))
    return len(offsets_seen(store, place, file_format)) if log.get("Contents") else 0
