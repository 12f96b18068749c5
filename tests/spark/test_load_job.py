"""`jbm-spark load`: the rows of a file as messages."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jbm_spark.cli.job_command import main
from jbm_spark.errors import SparkJobError
from jbm_spark.jobs.file_lines import place_of
from jbm_spark.jobs.load_file import rows_of
from jbm_spark.messages import write_messages
from tests.spark.conftest import Topics
from tests.spark.records import headers

pytestmark = pytest.mark.thorough

JSON = """
{"body_text": "one", "unit_of_order": "u", "properties": {"qty": 5, "paid": true}, "priority": 9}
{"body_text": "two", "unit_of_order": "u", "properties": {"qty": 6}}
"""


@pytest.mark.parametrize(
    ("ending", "content"),
    [
        ("json", JSON),
        ("csv", "body_text,unit_of_order,priority\none,u,9\ntwo,u,4\n"),
    ],
)
def test_a_row_is_a_message(spark: SparkSession, topics: Topics, tmp_path: Path, ending: str, content: str) -> None:
    file = tmp_path / f"orders.{ending}"
    file.write_text(content)
    queue = topics.create(2)
    write_messages(rows_of(spark, file, ending), queue, bootstrap=topics.bootstrap)
    found = topics.read(queue)
    assert [(record.key(), record.value()) for record in found] == [(b"u", b"one"), (b"u", b"two")]
    assert headers(found[0])["JMSPriority"] == b"9"
    if ending == "json":
        assert (headers(found[0])["jms.long.qty"], headers(found[0])["jms.boolean.paid"]) == (b"5", b"true")
        assert "jms.boolean.paid" not in headers(found[1])


def test_each_line_of_a_text_is_a_message(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "lines.txt"
    file.write_text("one\ntwo\n")
    assert [row["body_text"] for row in rows_of(spark, file, "text").collect()] == ["one", "two"]


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("bad.json", '{"body_text": "a"}\n\nnot json\n', ", line 3: it is not a JSON object: write one a line, as in"),
        (
            "bad.json",
            "[1, 2]\n",
            r', line 1: it is not a JSON object: write one a line, as in \{"body_text": "hello"\}$',
        ),
        ("bad.parquet", "zzz", " cannot be read as parquet: RuntimeException: .* is not a Parquet file"),
    ],
)
def test_a_file_that_is_not_what_it_should_be_is_named_with_its_line(
    spark: SparkSession, tmp_path: Path, name: str, content: str, told: str
) -> None:
    """It was "Spark failed: JsonParseException: Unrecognized token", with no word of which file."""
    file = tmp_path / name
    file.write_text(content)
    with pytest.raises(SparkJobError, match=rf"^{file}{told}") as raised:
        rows_of(spark, file, file.suffix[1:])
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("name", ["empty.csv", "empty.json", "empty.txt", "empty.parquet"])
def test_an_empty_file_is_told_before_spark_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """It was "the frame has no body among its columns (none)", after half a minute."""
    file = tmp_path / name
    file.touch()
    assert main(["load", str(file), "orders", "--bootstrap", "127.0.0.1:1"]) == 1
    assert capsys.readouterr().err == (
        f"jbm-spark: {file}: the file is empty; a row of it is a message (docs/spark.md names the columns)\n"
    )


def test_a_folder_without_files_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / ".hidden").touch()
    assert main(["load", str(tmp_path), "orders", "--format", "csv", "--bootstrap", "127.0.0.1:1"]) == 1
    assert capsys.readouterr().err == f"jbm-spark: {tmp_path}: the folder has no files\n"


CSV = "body_text,unit_of_order,priority\none,u,9\ntwo,u,77\n"


@pytest.mark.parametrize(
    ("file_format", "content", "fault", "line"),
    [
        ("csv", CSV, "write to queue:orders: priority is '77': it is an int from 0 to 9", 3),
        ("json", JSON, "write to queue:orders: priority is '9': it is an int from 0 to 8", 2),
        ("csv", CSV.replace("77", "high"), "column priority is string: it must be an int, 0 to 9; write", 3),
        ("csv", CSV + "three,u\n", "write to queue:orders: BadRecordException: [MALFORMED_RECORD_IN_PARSING]", 4),
        ("csv", CSV, "the brokers did not answer", None),
        ("csv", CSV, "priority is '5': it is an int from 0 to 9", None),
        ("parquet", CSV, "priority is '77': it is an int from 0 to 9", None),
    ],
)
def test_the_line_of_a_row_that_is_no_message_is_told_where_it_can_be_seen(
    tmp_path: Path, file_format: str, content: str, fault: str, line: int | None
) -> None:
    file = tmp_path / "orders"
    file.write_text(content)
    assert place_of(file, file_format, fault) == (str(file) if line is None else f"{file}, line {line}")


@pytest.mark.slow
def test_the_command_sends_and_counts_and_its_second_run_has_the_same_ids(topics: Topics, tmp_path: Path) -> None:
    file = tmp_path / "orders.json"
    file.write_text(JSON.replace('"priority": 9', '"colour": "red"'))
    queue = topics.create()
    for _ in range(2):
        command = [sys.executable, "-m", "jbm_spark.cli", "load", str(file), queue, "--json"]
        command += ["--bootstrap", topics.bootstrap]
        done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stderr.startswith("jbm-spark: warning: not written, for no message has such a column: colour; ")
        assert done.stderr.count("\n") == 1
        assert json.loads(done.stdout) == {"queue": queue, "rows": 2, "job": "load-orders.json", "is_dry_run": False}
    ids = [headers(record)["JMSMessageID"] for record in topics.read(queue)]
    assert ids[:2] == ids[2:]


def test_a_person_is_told_at_once_that_spark_starts(topics: Topics, tmp_path: Path) -> None:
    """Nothing was seen for minutes on a busy machine. A program, with --json, is told nothing else."""
    file, queue = tmp_path / "orders.csv", topics.create()
    file.write_text(CSV.replace("77", "7"))
    command = [sys.executable, "-m", "jbm_spark.cli", "load", str(file), queue, "--bootstrap", topics.bootstrap]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    assert (done.returncode, done.stdout) == (0, f"2 messages sent to queue:{queue}\n"), done.stderr
    assert done.stderr == "jbm-spark: Spark starts; this takes seconds, on a busy machine minutes\n"


def test_a_queue_or_a_file_that_is_not_there_is_one_line(
    topics: Topics, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["load", "no-such-file.json", "orders"]) == 2
    assert "'no-such-file.json' does not exist" in capsys.readouterr().err
    file = tmp_path / "orders.xml"
    file.write_text("<a/>")
    assert main(["load", str(file), "orders"]) == 1
    assert "--format json|csv|parquet|text" in capsys.readouterr().err
    assert main(["load", str(file), "no-such-queue", "--format", "text", "--bootstrap", topics.bootstrap]) == 1
    told = capsys.readouterr().err
    assert "jbm-kafka create no-such-queue" in told
    assert told.count("\n") == 1
