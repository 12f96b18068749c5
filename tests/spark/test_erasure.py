"""`jbm-spark erase`: what is meant is in no file any more, and all else is as it was, at every moment.

Method: archives are written by hand, without Kafka. A call is stopped where it tells that a part is ready or done.
"""

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jbm_kafka.core.channel.log_id import incarnation_of, log_id
from jbm_kafka.memory.memory_cluster import MemoryCluster
from jbm_kafka.memory.memory_kafka import MemoryKafka
from jbm_spark.archiving import data_folder, erase, erasures, read_archive, read_archived_events
from jbm_spark.archiving.archive_files import RowShape
from jbm_spark.archiving.archive_rows import MESSAGE_KEY, MESSAGES_SCHEMA
from jbm_spark.archiving.archiver import TopicArchiver
from jbm_spark.archiving.erasure import digest, without_values
from jbm_spark.archiving.manifest import Erasure, Manifest, Span, compacted, read_manifest
from jbm_spark.archiving.table_folder import BATCHES_MAX, positions
from jbm_spark.cli.job_command import main
from jbm_spark.errors import ArchiveError, OptionRefusedError
from tests.spark.planted_archive import PlantedArchive, Row, event, message, topic_id
from tests.support.manual_clock import ManualClock

DAY = datetime(2026, 11, 1, 12, tzinfo=UTC)
UNITS = 5


class Stopped(Exception):
    """A kill, where a test plants it."""


def span(topic: str, begin: int, end: int) -> Span:
    """Of one partition."""
    return Span(topic_id(topic), {0: begin}, {0: end}, {}, topic)


def offsets(rows: Sequence[Row]) -> list[int]:
    return sorted(row["offset"] for row in rows)


def in_archive(spark: SparkSession, folder: Path) -> list[int]:
    return sorted(row[0] for row in read_archive(spark, folder).select("kafka.offset").collect())


@pytest.fixture(params=["parquet", "delta"])
def archive(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> PlantedArchive:
    """Of 30 messages of five units, in three parts; message 35 is not archived yet."""
    planted = PlantedArchive(tmp_path / "an archive", "queue:q", request.param)
    with monkeypatch.context() as patched:
        patched.setattr(data_folder, "SEGMENT_BYTES", 0)
        for begin in (0, 10, 20):
            rows = [
                message("q", each, f"unit-{each % UNITS}", DAY + timedelta(begin)) for each in range(begin, begin + 10)
            ]
            planted.add("messages", rows, [span("q", begin, begin + 10)])
    of_subscription = log_id(topic_id("q"), incarnation_of(0.3))
    told = [
        event("q", 0, 19, DAY, number=0), event("q", 1, 1, DAY, number=1, unit="unit-1"),
        event("q", 21, 21, DAY, number=2), event("q", 2, 2, DAY, number=3, unit="unit-2"),
        event("q", 35, 35, DAY, number=4), event("q", 36, 36, DAY, number=5, unit="unit-1"),
        {**event("q", 11, 11, DAY, number=6, unit="unit-1"), "topic_id": None},
        {**event("q", 16, 16, DAY, number=7), "topic_id": of_subscription},
    ]  # fmt: skip
    planted.add("events", told, [Span("e", {0: 0}, {0: 8}, {}, "jbm.events")])
    return planted


def test_what_is_erased_is_in_no_file_wherever_a_call_was_stopped(spark: SparkSession, archive: PlantedArchive) -> None:
    """SPARK-17: at each step the archive can be read, and has each other message once; a compaction goes on."""
    folder, gone = archive.folder, {each for each in range(30) if each % UNITS == 1}
    others = sorted({*range(30)} - gone)
    before = positions(archive.table("messages"))
    assert (counted := erase(spark, folder, unit="unit-1", dry_run=True)).is_dry_run
    assert (counted.messages, counted.events, counted.messages_left) == (6, 5, 24)
    assert in_archive(spark, folder) == [*range(30)]
    seen: list[str] = []
    found = [*range(30)]
    for steps in (2, 5, 2, 9):
        left = steps

        def stop(line: str) -> None:
            nonlocal left
            left -= 1
            if not left:
                raise Stopped(line)

        try:
            last = erase(spark, folder, unit="unit-1", by="ann", tell=stop)
            break
        except Stopped as stopped:
            seen.append(str(stopped))
        before_it, found = found, in_archive(spark, folder)
        assert {*others} <= {*found} <= {*before_it}
        assert len({*found}) == len(found)
    steps_told = [re.sub(", [^:]*", "", line) for line in seen]
    assert steps_told == ["messages: 2 rows erased", "events: 5 rows are left out", "events: 5 rows erased"]
    assert (last.messages, last.events) == (0, 0)
    assert offsets(archive.left()) == in_archive(spark, folder) == others
    events = sorted((row["offset"], row["reason"]) for row in archive.left("events"))
    assert events == [(0, None), (2, "KeyError: unit-2"), (35, None)]
    assert read_archived_events(spark, folder).count() == 3
    assert not any(b"unit-1" in path.read_bytes() for path in folder.rglob("*") if path.is_file())
    assert positions(archive.table("messages")) == before
    told = erasures(folder)
    what = f"unit {digest(json.loads((folder / '_archive.json').read_text())['archive_id'], 'unit-1')}"
    assert [(each.by, each.what, each.rows) for each in told] == [("ann", what, 2)] * 3 + [("ann", what, 5)]
    for each in range(30, 30 + BATCHES_MAX):
        archive.add("messages", [message("q", each, "u1", DAY + timedelta(20))], [span("q", each, each + 1)])
    admin = MemoryKafka(MemoryCluster(ManualClock())).admin()
    table, shape = archive.table("messages"), RowShape(MESSAGES_SCHEMA, MESSAGE_KEY)
    assert TopicArchiver(spark, admin, table, shape, lambda _: read_archive(spark, folder)).compact()
    assert in_archive(spark, folder) == [*others, *range(30, 30 + BATCHES_MAX)]
    assert erasures(folder) == told


@pytest.mark.parametrize("file_format", ["parquet", "delta"])
def test_of_many_queues_one_s_old_messages_are_erased_by_a_condition(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], file_format: str
) -> None:
    """SPARK-17: and the record has the form of the condition alone. An event that nobody can read is about no queue."""
    archive, old = PlantedArchive(tmp_path / "a", "queues:*", file_format), DAY.replace(year=2020)
    rows = [message(topic, each, f"u{each}", old if each < 6 else datetime.now(UTC)) for topic in ("q", "r")
            for each in range(8)]  # fmt: skip
    archive.add("messages", rows, [span("q", 0, 8), span("r", 0, 8)])
    told = [event(topic, 0, 3, old, number=number) for number, topic in enumerate("qr")]
    told.append({**event("q", 0, 0, old, number=2), "topic": None, "fate": None})
    archive.add("events", told, [Span("e", {0: 0}, {0: 3}, {}, "jbm.events")])
    where = "properties['for'] IN ('u1', 'u7') or kafka.offset = 2"
    asked = ["erase", str(archive.folder), "--where", where, "--older-than", "30"]
    for wrong, line in (
        ([*asked, "--queue", "q", "--unit", "u"], "name a unit or a condition, not both"),
        (asked[:2], "say what is meant"),
        (["erase", str(tmp_path / "b"), "--unit", "u"], "is no archive"),
    ):
        assert main([*wrong, "--yes"]) == 1
        assert line in capsys.readouterr().err
    with pytest.raises(OptionRefusedError, match="where is 'colour = 1': it is an SQL expression"):
        erase(spark, archive.folder, where="colour = 1")
    with pytest.raises(ArchiveError, match=r"is that of queues:\*, and has nothing of queue a.b"):
        erase(spark, archive.folder, unit="u", queue="a.b")
    assert main([*asked, "--queue", "q", "--yes", "--json"]) == 0
    done = json.loads(capsys.readouterr().out)
    assert (done["messages"], done["events"], done["messages_left"]) == (2, 0, 14)
    assert {(row["topic"], row["offset"]) for row in rows} - {
        (row["topic"], row["offset"]) for row in archive.left()
    } == {("q", 1), ("q", 2)}
    [record] = erasures(archive.folder)
    assert record.what.startswith("where properties[?] IN (?, ?) or kafka.offset = ? (sha256:")
    assert record.what.endswith("Z, of queue:q")
    assert erase(spark, archive.folder, older_than_days=30).events == 3
    assert (offsets(archive.left()), archive.left("events")) == ([6, 6, 7, 7], [])
    assert read_archive(spark, archive.folder).count() == 4


def test_a_record_has_no_value_of_a_condition() -> None:
    """SPARK-17: neither texts, however they are quoted, nor numbers, nor remarks."""
    where = """`it's 5` = 'O''Neil' and name = "a\\"b" -- Joe
        or id in (4711, 1.5e3, x2) /* of
        Joe */ and u = r'c\\d'"""
    assert without_values(where) == "`it's 5` = ? and name = ? ? or id in (?, ?, x2) ? and u = r?"
    assert digest("a", "u") != digest("b", "u")
    for odd in ("a = r'C:\\' and b = 'Joe'", "a = 1 /* x /* y */ Joe */", "a = 1 -- x \\\nJoe"):
        assert "Joe" not in without_values(odd)


def test_what_was_erased_is_part_of_a_batch_s_manifest(tmp_path: Path) -> None:
    """SPARK-17: batches that are compacted keep it, and the counts are those of the rows that are left."""
    first = compacted([Manifest(0, 0, 5, 1, [span("q", 0, 5)])], data_bytes=1, erasure=Erasure(1, "ann", "unit x", 2))
    both = compacted([first, Manifest(1, 1, 4, 1, [span("q", 5, 9)])], data_bytes=2, erasure=Erasure(2, "bob", "y", 1))
    both.write(tmp_path)
    assert read_manifest(tmp_path) == both
    assert (both.rows, [each.rows for each in both.erased]) == (6, [2, 1])
    fields = json.loads((tmp_path / "_manifest.json").read_text())
    del fields["erased"]  # as before
    (tmp_path / "_manifest.json").write_text(json.dumps(fields))
    assert read_manifest(tmp_path).erased == []
