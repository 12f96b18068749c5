"""An archive of Parquet files that has lost some: it is told, and nothing begins anew. Without Spark and Kafka."""

import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from jbm_spark.archiving.archive_folder import DELTA, MESSAGES, PARQUET, POSITIONS, locked_archive
from jbm_spark.archiving.archive_tables import archive_table, archived_table
from jbm_spark.archiving.manifest import MANIFEST_FILE, Span
from jbm_spark.archiving.table_folder import TableFolder
from jbm_spark.errors import ArchiveError


def add(archive: Path, number: int) -> None:
    """As the job does."""
    with locked_archive(archive, destination="queue:orders", cluster_id="c"):
        table = messages(archive)
        table.manifests()
        staged = table.staged() / "day=2026-11-30"
        assert isinstance(staged, Path)
        staged.mkdir(parents=True)
        parquet.write_table(pa.table({"offset": [number]}), staged / f"part-{number}.parquet")
        table.publish(rows=1, spans=[Span("id", {0: number}, {0: number + 1}, {}, "orders")])


def messages(archive: Path) -> TableFolder:
    return archived_table(archive, MESSAGES)


def made(archive: Path, batches: int) -> None:
    for number in range(batches):
        add(archive, number)


def uses(archive: Path) -> list[Callable[[], object]]:
    return [lambda: messages(archive).files(), lambda: add(archive, 9)]


@pytest.mark.parametrize(
    ("lost", "told"),
    [
        ("segment=*", "batches 0 to 2 are missing: restore what is lost, or begin another archive$"),
        ("segment=*/batch=00000002-*", "batch 2 is missing: restore what is lost, or begin another archive$"),
        ("segment=*/batch=00000000-*", "batch 0 is missing, and batch=00000001-00000001 is there: restore it$"),
        ("", "batches 0 to 2 are missing: restore what is lost"),
    ],
)
def test_where_batches_were_removed_nothing_begins_anew(tmp_path: Path, lost: str, told: str) -> None:
    """SPARK-21: a run went on with what Kafka had yet, and readers found nothing, in silence."""
    made(tmp_path, 3)
    for place in [*(tmp_path / MESSAGES).glob(lost)] if lost else [tmp_path / MESSAGES]:
        shutil.rmtree(place)
    for use in uses(tmp_path):
        with pytest.raises(ArchiveError, match=told):
            use()


def test_a_batch_whose_files_are_others_is_told_to_readers(tmp_path: Path) -> None:
    """SPARK-21: a rule that removes old files left the manifest, and an audit or a replay found less."""
    made(tmp_path, 2)
    [lost, _] = sorted((tmp_path / MESSAGES).rglob("*.parquet"))
    kept = lost.read_bytes()
    lost.unlink()
    told = r"files of segment=000000/batch=00000000-00000000 have 0 bytes, and [0-9]+ were written: some are missing"
    with pytest.raises(ArchiveError, match=told):
        messages(tmp_path).files()
    lost.write_bytes(kept)
    messages(tmp_path).files()
    lost.with_name("part-of-another.parquet").write_bytes(kept)
    with pytest.raises(ArchiveError, match="or others were added; restore them"):
        messages(tmp_path).files()


def test_a_file_that_cannot_be_looked_at_is_told_in_a_line(tmp_path: Path) -> None:
    """SPARK-21: on NFS a file that a compaction replaced is stale for a moment; that ended a reader with a trace."""
    made(tmp_path, 1)
    [file] = (tmp_path / MESSAGES).rglob("*.parquet")
    file.unlink()
    file.symlink_to(file.name)
    with pytest.raises(ArchiveError, match=r"Too many levels of symbolic links; see that it can be read$"):
        messages(tmp_path).files()


@pytest.mark.parametrize("file_format", [PARQUET, DELTA])
def test_a_queue_may_be_named_as_a_file_is(tmp_path: Path, file_format: str) -> None:
    """Of SPARK-16: its folder was taken for a file; a Delta table failed, and a batch had the size that a disk gives
    folders, so that a copy on another one was refused."""
    schema = '{"type":"struct","fields":[{"name":"offset","type":"long","nullable":true,"metadata":{}}]}'
    with locked_archive(tmp_path, destination="queues:#", cluster_id="c", file_format=file_format) as whose:
        table = archive_table(tmp_path, MESSAGES, whose, schema)
        staged = table.staged() / "destination=queue%3Aorders.parquet" / "day=2026-11-30"
        assert isinstance(staged, Path)
        staged.mkdir(parents=True)
        parquet.write_table(pa.table({"offset": [0]}), staged / "part-0.parquet")
        size = (staged / "part-0.parquet").stat().st_size
        table.publish(rows=1, spans=[Span("id", {0: 0}, {0: 1}, {}, "orders.parquet")])
    assert [each.data_bytes for each in messages(tmp_path).manifests()] == [size]
    assert len(messages(tmp_path).files()) == 1
    # As older versions noted it.
    for noted in (tmp_path / MESSAGES).rglob(MANIFEST_FILE):
        noted.write_text(noted.read_text().replace(f'"data_bytes": {size}', f'"data_bytes": {size + 4096}'))
    assert len(messages(tmp_path).files()) == 1


def test_who_is_killed_before_the_batch_is_noted_goes_on(tmp_path: Path) -> None:
    """SPARK-21: so do archives of older versions, which noted nothing; what comes next is noted."""
    made(tmp_path, 2)
    noted = tmp_path / POSITIONS / f"{MESSAGES}.json"
    for before in ('{"batches": 1}', None):
        if before is None:
            noted.unlink()
        else:
            noted.write_text(before)
        messages(tmp_path).files()
    add(tmp_path, 2)
    shutil.rmtree(tmp_path / MESSAGES)
    with pytest.raises(ArchiveError, match="batches 0 to 2 are missing"):
        messages(tmp_path).files()
    noted.write_text("{")
    with pytest.raises(ArchiveError, match=r"messages.json cannot be used \(.*restore it, or remove it if no batch"):
        messages(tmp_path).files()


def compact(archive: Path) -> None:
    with locked_archive(archive, destination="queue:orders", cluster_id="c"):
        table = messages(archive)
        fragments = table.to_compact()
        assert fragments is not None
        staged = table.staged() / "day=2026-11-30"
        assert isinstance(staged, Path)
        staged.mkdir(parents=True)
        parquet.write_table(pa.table({"offset": range(fragments.rows)}), staged / "part-of-all.parquet")
        table.replace(fragments)


def test_a_reader_beside_a_job_that_writes_misses_nothing(tmp_path: Path) -> None:
    """SPARK-21: what is published or compacted between two looks of a reader is not lost."""
    made(tmp_path, 1)

    def write() -> None:
        for number in range(1, 60):
            add(tmp_path, number)
            if number % 10 == 9:
                compact(tmp_path)

    with ThreadPoolExecutor(1) as threads:
        writes = threads.submit(write)
        looks = 0
        while not writes.done():
            messages(tmp_path).files()
            looks += 1
        writes.result()
    assert looks > 10
    assert messages(tmp_path).manifests()[-1].last == 59
