"""`jbm-spark load`: the rows of a file as messages."""

import json
import shutil
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from jbm_kafka.admin import Admin
from jbm_spark.cli.job_command import main
from jbm_spark.errors import ColumnsIgnoredWarning, FrameRefusedError, SparkJobError
from jbm_spark.jobs.load import Loaded, run
from jbm_spark.messages import messages
from tests.spark.conftest import Topics
from tests.spark.killed import job, kill_in_the_midst
from tests.spark.records import Record, headers

pytestmark = pytest.mark.thorough

JSON = """
{"body_text": "one", "unit_of_order": "u", "properties": {"qty": 5, "paid": true}, "priority": 9}
{"body_text": "two", "unit_of_order": "u", "properties": {"qty": "six"}}
"""


class Load:
    """Loads files to new queues, with a state of its own."""

    def __init__(self, spark: SparkSession, topics: Topics, folder: Path) -> None:
        self._spark, self._topics, self.folder = spark, topics, folder

    def __call__(self, file: str | Path, queue: str, **options: Any) -> Loaded:
        state = self.folder / "state"
        return run(self._spark, self.folder / file, queue, bootstrap=self._topics.bootstrap, state=state, **options)

    def file(self, name: str, content: str | bytes) -> Path:
        """Written to the folder."""
        path = self.folder / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def bodies(self, name: str, content: str | bytes, **options: Any) -> list[bytes | None]:
        """What is in a new queue afterwards."""
        queue = self._topics.create()
        self(self.file(name, content), queue, **options)
        return [record.value() for record in self._topics.read(queue)]


@pytest.fixture
def load(spark: SparkSession, topics: Topics, tmp_path: Path) -> Load:
    return Load(spark, topics, tmp_path)


def test_a_row_is_a_message_with_the_types_of_its_own_properties(load: Load, topics: Topics) -> None:
    """1 became '1' because another row had 'x'."""
    queue = topics.create(2)
    load.file("orders.json", JSON)
    assert load("orders.json", queue).sent == 2
    first, second = topics.read(queue)
    assert [(each.key(), each.value()) for each in (first, second)] == [(b"u", b"one"), (b"u", b"two")]
    assert headers(first)["JMSPriority"] == b"9"
    assert (headers(first)["jms.int.qty"], headers(first)["jms.boolean.paid"]) == (b"5", b"true")
    assert headers(second)["jms.string.qty"] == b"six"
    assert "jms.boolean.paid" not in headers(second)


def test_a_csv_file_is_read_by_rfc_4180(load: Load, topics: Topics) -> None:
    """Bodies kept their doubled quotes, and a line break within quotes made two rows."""
    content = 'unit_of_order,body_text\r\nu,"say ""hi"""\r\nu,"{""a"": 1}"\r\nu,"two\r\nlines, one row"\r\nu,\r\n'
    assert load.bodies("orders.csv", content) == [b'say "hi"', b'{"a": 1}', b"two\r\nlines, one row", b""]


def test_texts_of_a_csv_file_stay_texts_whatever_they_look_like(load: Load, topics: Topics) -> None:
    """It was refused: "unit_of_order is int: it must be a string"."""
    queue = topics.create()
    load.file("orders.csv", "unit_of_order,body_text,priority\n4711,1,9\n007,2,\n1.10,true,0\n")
    load("orders.csv", queue)
    assert [record.key() for record in topics.read(queue)] == [b"4711", b"007", b"1.10"]


def test_the_file_that_is_named_is_read_and_a_pattern_only_when_asked_for(load: Load, topics: Topics) -> None:
    """`orders[1].json` sent the messages of orders1.json, with exit code 0."""
    load.file("orders1.json", '{"body_text": "another file"}')
    assert load.bodies("orders[1].json", '{"body_text": "named with brackets"}') == [b"named with brackets"]
    load.file("orders2.json", '{"body_text": "the second"}')
    queue = topics.create()
    load("orders[0-9].json", queue, is_glob=True)
    assert [record.value() for record in topics.read(queue)] == [b"another file", b"the second"]


def test_each_line_of_a_text_is_a_message(load: Load) -> None:
    assert load.bodies("lines.txt", "one\n\ntwo\r\n") == [b"one", b"", b"two"]


def test_rows_of_parquet_keep_their_types_and_a_bad_one_is_rejected(
    spark: SparkSession, load: Load, topics: Topics
) -> None:
    queue, rejects = topics.create(), load.folder / "rejects.jsonl"
    rows = [("a", bytearray(b"\x00"), 4, (5,)), ("a", bytearray(b"\x01"), 77, (6,)), (None, None, None, (None,))]
    schema = "unit_of_order string, body_bytes binary, priority int, properties struct<qty:short>"
    spark.createDataFrame(rows, schema).coalesce(1).write.parquet(str(load.folder / "orders[x].parquet"))
    done = load("orders[x].parquet", queue, rejects=rejects, file_format="parquet")
    assert (done.rows, done.sent, done.rejected) == (3, 2, 1)
    assert [(record.key(), record.value()) for record in topics.read(queue)] == [(b"a", b"\x00"), (None, None)]
    assert headers(topics.read(queue)[0])["jms.short.qty"] == b"5"
    [rejected] = map(json.loads, rejects.read_text().splitlines())
    assert (rejected["line"], rejected["reason"]) == (2, "priority is 77: it is an int from 0 to 9")
    assert rejected["file"].startswith(f"{load.folder}/orders[x].parquet/part-")


def test_what_was_read_from_a_queue_is_loaded_as_it_was(spark: SparkSession, load: Load, topics: Topics) -> None:
    """An archive's rows have the column `kafka`, which knows the types."""
    first, second = topics.create(), topics.create()
    load.file("orders.json", JSON)
    load("orders.json", first)
    rows = messages(spark, first, bootstrap=topics.bootstrap, raw=True)
    rows.coalesce(1).write.parquet(str(load.folder / "archive.parquet"))
    load("archive.parquet", second)
    kept = [(record.key(), record.value(), headers(record)) for record in topics.read(first)]
    assert [(record.key(), record.value(), headers(record)) for record in topics.read(second)] == kept


BAD_CSV = b"""\xef\xbb\xbfunit_of_order,body_text,priority
u,good,9
u,"a
b",77

u,short
u,caf\xe9,
"",no unit,
u,"x"y,1
u,"never,1
u,lost,
"""
BAD_JSON = b"""{"body_text": "good"}
[1]
{"body_text": 5}
{"text": "misspelt"}
{"body_text": "a", "properties": {"a b": 1}}
{"body_text": "a", "properties": {"a": [1]}}
{"body_text": "a", "unit_of_order": ""}
{"body_text": "a", "reply_to": "orders"}
{"body_text": "a", "expiration": "tomorrow"}
{"body_text": "\\ud800"}
{"body_text": "a", "priority": true, "more": 1}
{"body_text": "a", "body_kind": "map"}
{"body_text": "%s"}
""" % (b"x" * 2_000_000)


@pytest.mark.parametrize(
    ("name", "content", "sent", "told"),
    [
        (
            "bad.csv", BAD_CSV, [b"good", b"no unit"],
            {3: "priority is 77: ", 6: "it has 2 fields", 7: "it is not UTF-8", 9: "it is no CSV: ", 10: "a quote is"},
        ),
        (
            "bad.json", BAD_JSON, [b"good"],
            {2: "it is not a JSON object", 3: "body_text is 5: it is a text", 4: "it has no body_text; its columns are",
             5: "property name 'a b'", 6: "property a is [1]", 7: "unit_of_order is ''", 8: "reply_to: 'orders' is",
             9: "expiration is 'tomorrow'", 10: "body_text is '\\ud800'", 11: "priority is True",
             12: "body_kind is 'map'", 13: "its message takes up to "},
        ),
        ("bad.txt", b"good\ncaf\xe9\n", [b"good"], {2: "it is not UTF-8"}),
    ],
)  # fmt: skip
def test_rows_that_are_no_message_go_to_the_rejects_with_line_and_reason(
    load: Load, topics: Topics, name: str, content: bytes, sent: list[bytes], told: dict[int, str]
) -> None:
    """LOAD-1: the others are sent."""
    queue, rejects = topics.create(), load.folder / "rejects"
    rejects.mkdir()
    file = load.file(name, content)
    with pytest.raises(SparkJobError, match=rf"^{file}, line {min(told)}: .*; nothing was sent") as raised:
        load(name, queue)
    assert "\n" not in str(raised.value)
    assert topics.read(queue) == []
    done = load(name, queue, rejects=rejects)
    assert (done.sent, done.rejected, done.has_violations) == (len(sent), len(told), True)
    assert [record.value() for record in topics.read(queue)] == sent
    assert done.rejects == str(rejects / f"{done.job}.rejects.jsonl")
    found = [json.loads(line) for line in Path(done.rejects).read_text().splitlines()]
    assert [row["line"] for row in found] == list(told)
    assert [row["reason"][: len(reason)] for row, reason in zip(found, told.values(), strict=True)] == [*told.values()]
    assert all(row["file"] == str(file) for row in found)
    assert found[0]["row"] in content.decode(errors="replace")


@pytest.mark.parametrize(
    ("name", "content"),
    [("orders.csv", "unit_of_order,body_text\n"), ("orders.json", "\n \n"), ("folder", "body_text\r\n")],
)
def test_files_without_rows_are_loaded_as_none(load: Load, topics: Topics, name: str, content: str) -> None:
    """LOAD-1: it was "Unable to infer schema for Parquet"."""
    if name == "folder":
        (load.folder / name).mkdir()
        for number in range(2):
            load.file(f"{name}/{number}.csv", content)
    else:
        load.file(name, content)
    queue = topics.create()
    for _ in range(2):
        done = load(name, queue, file_format="csv" if name == "folder" else None)
        assert (done.rows, done.sent, done.has_violations) == (0, 0, False)


def test_columns_that_no_message_has_are_told(load: Load, topics: Topics) -> None:
    load.file("orders.json", '{"body_text": "a", "colour": "red"}\n{"body_text": "b", "size": 1}\n')
    with pytest.warns(ColumnsIgnoredWarning, match=r"no message has such a column: colour, size; "):
        load("orders.json", topics.create())


@pytest.mark.parametrize(
    ("content", "order_by", "told"),
    [
        ("text,unit_of_order\na,u\n", [], "no body among its columns (text, unit_of_order)"),
        ("body_text,body_text\na,u\n", [], "line 1: it names body_text twice"),
        ("body_text\na\n", ["seq"], "order_by: no column 'seq' is there; there are body_text"),
    ],
)
def test_a_csv_file_of_other_columns_is_refused(
    load: Load, topics: Topics, content: str, order_by: list[str], told: str
) -> None:
    load.file("orders.csv", content)
    with pytest.raises(FrameRefusedError) as raised:
        load("orders.csv", topics.create(), order_by=order_by)
    assert told in str(raised.value)


def _text(content: bytes | None) -> str:
    assert content is not None
    return content.decode()


def test_many_blocks_and_batches_keep_each_unit_in_the_order_of_its_file(load: Load, topics: Topics) -> None:
    """LOAD-1: some rows are larger than a block, and some have line breaks."""
    queue = topics.create(3)
    rows = [(f"u{n % 7}", f"{n}\n" + "x" * (150_000 if n % 5_000 == 0 else n % 90)) for n in range(12_000)]
    files = [("1.csv", rows[:5_000]), ("2.csv", rows[5_000:])]
    (load.folder / "orders").mkdir()
    for name, part in files:
        load.file(f"orders/{name}", "unit_of_order,body_text\n" + "".join(f'{unit},"{body}"\n' for unit, body in part))
    told: list[str] = []
    assert load("orders", queue, file_format="csv", tell=told.append).sent == 12_000
    assert (len(told) > 1, told[-1]) == (True, "12000 of 12000 sent")
    found: dict[str, list[str]] = {}
    for record in topics.read(queue):
        found.setdefault(_text(record.key()), []).append(_text(record.value()))
    assert found == {unit: [body for at, body in rows if at == unit] for unit in found}
    assert len(found) == 7


def test_a_unit_is_sent_in_the_order_of_a_column_numbers_by_value(load: Load) -> None:
    content = "unit_of_order,body_text,seq\nu,c,10\nu,a,9\nu,b,9.5\n"
    assert load.bodies("orders.csv", content, order_by=["seq"]) == [b"a", b"b", b"c"]


def test_a_second_run_of_a_job_sends_nothing_and_its_name_stands_for_its_files(load: Load, topics: Topics) -> None:
    """LOAD-1: with another job all are sent again."""
    queue = topics.create()
    load.file("orders.json", JSON)
    assert load("orders.json", queue, is_dry_run=True).sent == 2
    assert topics.read(queue) == []
    first = load("orders.json", queue, job="May")
    assert (first.job, first.rows, first.sent, first.sent_before) == ("May", 2, 2, 0)
    second = load("orders.json", queue, job="May")
    assert (second.rows, second.sent, second.sent_before) == (2, 0, 2)
    assert len(topics.read(queue)) == 2
    load.file("orders.json", JSON.replace("one", "1"))
    with pytest.raises(SparkJobError, match="the job 'May' has sent other files"):
        load("orders.json", queue, job="May")
    assert load("orders.json", queue).sent == 2
    assert len({headers(record)["JMSMessageID"] for record in topics.read(queue)}) == 4


def test_a_job_without_its_state_asks_the_log_of_the_queue(load: Load, topics: Topics) -> None:
    """LOAD-1: it remembered in the home folder alone, and from another machine sent all again. Rows with ids of their
    own are known, too; another job sends all again."""
    first, queue = topics.create(2), topics.create(2)
    rows = [f"u{n % 3},{n},{'mine' if n % 4 else ''}" for n in range(20)]
    load.file("orders.csv", "unit_of_order,body_text,message_id\n" + "\n".join(rows) + "\n")
    load("orders.csv", first, job="May")
    # As a run that was killed left the queue: of each partition a beginning.
    sent = [record for record in topics.read(first) if int(record.value() or b"") < 11]
    for record in sent:
        kept = tuple((name, value or b"") for name, value in headers(record).items())
        topics.write(queue, [Record(key=record.key(), value=record.value() or b"", headers=kept)])
    dry = load("orders.csv", queue, job="May", is_dry_run=True)
    assert (dry.sent, dry.sent_before) == (9, 11)
    for now, before in ((9, 11), (0, 20)):
        shutil.rmtree(load.folder / "state", ignore_errors=True)
        done = load("orders.csv", queue, job="May")
        assert (done.rows, done.sent, done.sent_before) == (20, now, before)
    assert sorted(int(record.value() or b"") for record in topics.read(queue)) == [*range(20)]
    with Admin(topics.bootstrap) as admin:
        [reader] = [each for each in admin.readers() if each.topic == queue]
        assert (reader.name, sum(reader.positions.values())) == (f"load-May/{queue}", 11)
        admin.end_reader(reader.name)
    assert load("orders.csv", queue, job="June").sent == 20


def test_a_rate_is_kept(load: Load, topics: Topics) -> None:
    """By the brokers' clock: ten messages at five a second take more than a second."""
    queue = topics.create()
    load.file("lines.txt", "".join(f"{n}\n" for n in range(10)))
    load("lines.txt", queue, rate=5)
    times = [record.timestamp()[1] for record in topics.read(queue)]
    assert times == sorted(times)
    assert times[5] - times[0] >= 900


@pytest.mark.parametrize("has_state", [True, False])
def test_what_a_load_sent_behind_another_s_open_transaction_is_not_sent_again(
    load: Load, topics: Topics, has_state: bool
) -> None:
    """LOAD-1: it could not be seen, neither of the batch that was under way nor by a run without the state."""
    rows, queue, others = 6_000, topics.create(), list[Producer]()
    load.file("orders.json", "".join(json.dumps({"body_text": f"{number}"}) + "\n" for number in range(rows)))

    class Killed(Exception):
        pass

    def kill(line: str) -> None:
        if others:
            raise Killed
        others.append(topics.write(queue, [Record(value=b"open")], transactional_id=f"open-{queue}"))

    with pytest.raises(Killed):
        load("orders.json", queue, tell=kill)
    [record] = (load.folder / "state").rglob("load.json")
    told = json.loads(record.read_text())
    record.write_text(json.dumps({**told, "below": 5_000}))  # as it was before the batch was known to be sent
    if not has_state:
        shutil.rmtree(load.folder / "state")
    with ThreadPoolExecutor(1) as threads:
        again = threads.submit(load, "orders.json", queue)
        with pytest.raises(TimeoutError):
            again.result(3.0)
        others[0].abort_transaction()
        done = again.result(120.0)
    assert done.sent + done.sent_before == rows
    assert len({record.value() for record in topics.read(queue)}) == len(topics.read(queue)) == rows


def test_a_load_that_was_killed_goes_on_and_sends_nothing_twice(load: Load, topics: Topics) -> None:
    """LOAD-1: SIGKILL in the midst of a batch that is not the first; with Spark's own JVM."""
    rows, queue = 24_000, topics.create(2)
    file = load.file("orders.json", "".join(
        json.dumps({"body_text": f"{n}", "unit_of_order": f"u{n % 50}"}) + "\n" for n in range(rows)
    ))  # fmt: skip
    command = job(topics, "load", str(file), queue, "--state", str(load.folder / "state"))
    kill_in_the_midst(command, topics, queue, records=11_000)
    done = load("orders.json", queue)
    assert (done.rows, done.sent + done.sent_before) == (rows, rows)
    found = topics.read(queue)
    assert Counter(record.value() for record in found) == Counter(b"%d" % n for n in range(rows))
    units: dict[str, list[int]] = {}
    for record in found:
        units.setdefault(_text(record.key()), []).append(int(_text(record.value())))
    assert all(numbers == sorted(numbers) for numbers in units.values())


@pytest.mark.slow
def test_the_command_sends_and_counts_and_its_second_run_sends_nothing(topics: Topics, tmp_path: Path) -> None:
    file = tmp_path / "orders.json"
    file.write_text(JSON.replace('"priority": 9', '"colour": "red"'))
    queue = topics.create()
    found = []
    for _ in range(2):
        command = [sys.executable, "-m", "jbm_spark.cli", "load", str(file), queue, "--json"]
        command += ["--bootstrap", topics.bootstrap, "--state", str(tmp_path / "state")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
        assert done.returncode == 0, done.stderr
        found.append((json.loads(done.stdout), done.stderr))
    (first, warned), (second, silent) = found
    assert warned.startswith("jbm-spark: warning: not written, for no message has such a column: colour; ")
    assert (warned.count("\n"), silent) == (1, "")
    assert (first["sent"], second["sent"], second["sent_before"], second["rows"]) == (2, 0, 2, 2)
    assert len(topics.read(queue)) == 2


def test_a_person_is_told_at_once_that_spark_starts_and_what_was_rejected(topics: Topics, tmp_path: Path) -> None:
    """Nothing was seen for minutes on a busy machine. A program, with --json, is told nothing else."""
    file, queue, rejects = tmp_path / "orders.csv", topics.create(), tmp_path / "rejects"
    file.write_text("body_text,unit_of_order,priority\none,u,9\ntwo,u,77\n")
    command = [sys.executable, "-m", "jbm_spark.cli", "load", str(file), queue, "--bootstrap", topics.bootstrap]
    command += ["--rejects", str(rejects), "--state", str(tmp_path / "state")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    assert (done.returncode, done.stdout) == (3, f"1 message sent to queue:{queue}; rejected: 1, see {rejects}\n"), done
    assert done.stderr.splitlines() == [
        "jbm-spark: Spark starts; this takes seconds, on a busy machine minutes", "jbm-spark: 1 of 1 sent",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["empty.csv", "empty.json", "empty.txt", "empty.parquet"])
def test_an_empty_file_is_told_before_spark_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """It was "the frame has no body among its columns (none)", after half a minute."""
    file = tmp_path / name
    file.touch()
    assert main(["load", str(file), "orders", "--bootstrap", "127.0.0.1:1"]) == 1
    assert capsys.readouterr().err == (
        f"jbm-spark: {file}: the file is empty; a row of it is a message "
        "(jbm-kafka docs spark-load names the columns)\n"
    )


def test_a_folder_without_files_and_a_compressed_file_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / ".hidden").touch()
    assert main(["load", str(tmp_path), "orders", "--format", "csv", "--bootstrap", "127.0.0.1:1"]) == 1
    assert capsys.readouterr().err == f"jbm-spark: {tmp_path}: the folder has no files\n"
    file = tmp_path / "a.json.gz"
    file.write_bytes(b"x")
    assert main(["load", str(file), "orders", "--format", "json", "--bootstrap", "127.0.0.1:1"]) == 1
    assert capsys.readouterr().err == f"jbm-spark: {file} is compressed: decompress it first\n"


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
