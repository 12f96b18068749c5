"""Whose a checkpoint is, and of which topics: also of one that was made anew under its name. Mostly without Spark."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jbm_spark.checkpoint_record import RECORD_FILE, LocalNote, Note, claim
from jbm_spark.errors import CheckpointError, QueryError
from jbm_spark.hadoop_files import HadoopFiles, HadoopNote

TODAY = {"orders": "id-1"}


def claimed(note: Note, ids: dict[str, str], *, sources: tuple[str, ...] = ("orders",)) -> dict[str, str]:
    return dict(claim(note, "cp", sources=sources, ids=ids, target="invoices"))


def test_a_source_made_anew_is_named_with_both_ids(tmp_path: Path) -> None:
    """SPARK-1: it was read from the old topic's offsets on, and what lay before was skipped without a word."""
    note = LocalNote(tmp_path)
    assert claimed(note, TODAY) == claimed(note, TODAY) == TODAY
    told = (
        r"^topic orders was made anew: the checkpoint is of the one with the id id-1, and now it is id-2; .*checkpoint$"
    )
    for _ in range(2):
        with pytest.raises(QueryError, match=told):
            claimed(note, {"orders": "id-2"})
    assert claimed(note, {}) == TODAY  # nobody could look


def test_a_checkpoint_of_an_earlier_version_takes_the_ids_of_today_once_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    note = LocalNote(tmp_path)
    note.write(json.dumps({"from": ["orders"], "to": "invoices"}))
    with caplog.at_level("WARNING"):
        assert claimed(note, TODAY) == claimed(note, TODAY) == TODAY
    assert caplog.text.count("from now on it is that of orders with the id id-1") == 1
    with pytest.raises(QueryError, match=r"id-1.* id-2"):
        claimed(note, {"orders": "id-2"})
    assert json.loads((tmp_path / RECORD_FILE).read_text()) == {"from": ["orders"], "to": "invoices", "ids": TODAY}


def test_a_note_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    (tmp_path / RECORD_FILE).write_text("{")
    with pytest.raises(CheckpointError, match=r"its file jbm\.json cannot be used"):
        claimed(LocalNote(tmp_path), TODAY)


def test_a_checkpoint_on_spark_s_file_systems_has_the_note_too(spark: SparkSession, tmp_path: Path) -> None:
    """It had none, for there is no lock: another query's was taken, and so was a topic made anew."""
    place = f"file://{tmp_path}/new/checkpoint"
    note = HadoopNote(HadoopFiles(spark, place), f"{place}/{RECORD_FILE}")
    assert note.read() is None
    assert claimed(note, TODAY) == claimed(note, TODAY) == TODAY
    with pytest.raises(QueryError, match=r"id-1.* id-2"):
        claimed(note, {"orders": "id-2"})
    with pytest.raises(CheckpointError, match="is that of a query from orders to invoices"):
        claimed(note, TODAY, sources=("others",))
