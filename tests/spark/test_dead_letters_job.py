"""The dead-letter report on real topics: its figures, and its command line."""

import json
import os
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from jbm_kafka.version import version
from jbm_spark.cli.job_command import main
from jbm_spark.jobs.dead_letters import EXAMPLES_MAX, queue_content, run
from jbm_spark.messages import messages
from tests.spark.conftest import Topics
from tests.spark.records import Record

pytestmark = pytest.mark.thorough

REASON = "max-delivery-attempts"


def letter(number: int, *, reason: str = REASON, destination: str = "queue:orders", attempts: int = 3) -> Record:
    """A dead letter as REDELIVER-4 describes it."""
    return Record(
        key=f"unit-{number % 2}".encode(),
        timestamp_ms=1_700_000_000_000 + number,
        headers=(
            ("JMSMessageID", f"ID:p:{number}".encode()),
            ("jms.string._JBM_DEAD_LETTER_REASON", reason.encode()),
            ("jms.string._JBM_ORIG_DESTINATION", destination.encode()),
            ("jms.string._JBM_ORIG_MESSAGE_ID", f"ID:p:{number}".encode()),
            ("jms.int._JBM_DELIVERY_COUNT", str(attempts).encode()),
        ),
    )


@pytest.fixture(scope="module")
def dead_letters(topics: Topics) -> str:
    """Five of one group, one of another, one aborted, one foreign with a count that is no number."""
    topic = topics.create()
    topics.write(topic, [letter(number, attempts=number) for number in range(1, 6)])
    topics.write(topic, [letter(7, reason="undecodable", destination="topic:news", attempts=1)])
    topics.write(topic, [letter(8)], transactional_id=f"{topic}-aborted").abort_transaction()
    topics.write(topic, [Record(headers=(("_JBM_DELIVERY_COUNT", b"many"),))])
    return topic


def test_dead_letters_are_counted_by_reason_and_origin(spark: SparkSession, topics: Topics, dead_letters: str) -> None:
    report = run(spark, dead_letters, bootstrap=topics.bootstrap)
    first, *others = report.groups
    assert report.count == 7
    assert (first.reason, first.destination, first.count, first.attempts_max) == (REASON, "queue:orders", 5, 5)
    assert (first.first_at_ms, first.last_at_ms) == (1_700_000_000_001, 1_700_000_000_005)
    assert first.example_ids == ("ID:p:1", "ID:p:2", "ID:p:3")
    assert len(first.example_ids) == EXAMPLES_MAX
    assert first.example_units == ("unit-1", "unit-0")
    told = {(group.reason, group.destination, group.count, group.attempts_max) for group in others}
    assert told == {("undecodable", "topic:news", 1, 1), (None, None, 1, None)}


def test_dead_letters_are_counted_by_error_and_by_age(spark: SparkSession, topics: Topics) -> None:
    topic, hour_ms = topics.create(), 3_600_000
    now_ms = int(time.time() * 1000)
    died = [
        ("ValueError: 'many'", 1), ("ValueError: 'few'", 2 * hour_ms), ("jms.TimeOut", 30 * hour_ms),
        ("no words for it", 200 * hour_ms), (None, 201 * hour_ms),
    ]  # fmt: skip
    topics.write(topic, [
        replace(letter(number), timestamp_ms=now_ms - ago_ms, headers=(
            *letter(number).headers, *([("jms.string._JBM_LAST_ERROR", text.encode())] if text else [])
        )) for number, (text, ago_ms) in enumerate(died)
    ])  # fmt: skip
    report = run(spark, topic, bootstrap=topics.bootstrap)
    assert [(each.error, each.destination, each.count, each.example, each.example_id) for each in report.errors] == [
        ("ValueError", "queue:orders", 2, "ValueError: 'many'", "ID:p:0"),
        ("jms.TimeOut", "queue:orders", 1, "jms.TimeOut", "ID:p:2"),
        ("no words for it", "queue:orders", 1, "no words for it", "ID:p:3"),
    ]
    assert report.ages == (
        ("less than an hour ago", 1), ("less than a day ago", 1), ("less than a week ago", 1), ("earlier", 2)
    )  # fmt: skip


def test_an_empty_dead_letter_topic_has_no_groups(spark: SparkSession, topics: Topics) -> None:
    report = run(spark, topics.create(), bootstrap=topics.bootstrap)
    assert (report.count, report.groups, report.errors, report.ages) == (0, (), (), ())


def test_a_queue_is_counted_by_body_kind_and_unit(spark: SparkSession, topics: Topics) -> None:
    queue = topics.create(3)
    text = (("JBMBody", b"text"),)
    topics.write(queue, [Record(key=b"u%d" % (n % 3), headers=text) for n in range(7)] + [Record(), Record(value=None)])
    content = queue_content(queue, messages(spark, queue, bootstrap=topics.bootstrap), top=2)
    assert (content.count, content.unit_count) == (9, 3)
    assert content.by_body_kind == (("text", 7), ("bytes", 1), ("none", 1))
    assert content.largest_units == (("u0", 3), ("u1", 2))


def test_the_command_prints_one_json_line_and_nothing_else(topics: Topics, dead_letters: str) -> None:
    command = [sys.executable, "-m", "jbm_spark.cli", "dead-letters", "--from", dead_letters, "--json"]
    environment = os.environ | {"JBM_BOOTSTRAP": topics.bootstrap}
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n") == 1
    assert json.loads(done.stdout)["count"] == 7


def test_a_missing_topic_is_one_line_and_exit_1(topics: Topics, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dead-letters", "--bootstrap", topics.bootstrap, "--from", "no-such-topic"]) == 1
    told = capsys.readouterr().err
    assert "'no-such-topic'" in told
    assert told.count("\n") == 1


def test_the_dead_letter_queue_is_named_as_in_jbm_kafka_and_by_its_old_option(
    topics: Topics, capsys: pytest.CaptureFixture[str]
) -> None:
    for option in ("--from", "--dead-letters"):
        assert main(["dead-letters", "--bootstrap", topics.bootstrap, option, "no-such-topic"]) == 1
        assert "'no-such-topic'" in capsys.readouterr().err
    assert main(["dead-letters", "--help"]) == 0
    told = capsys.readouterr().out
    assert "--from DEST" in told
    assert "--dead-letters" not in told


def test_an_unreachable_broker_is_one_line_and_exit_1(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["dead-letters", "--bootstrap", "127.0.0.1:1"]) == 1
    told = capfd.readouterr().err
    assert "read queue:DLQ: nobody answers at 127.0.0.1:1: Connection refused; start the broker" in told
    assert told.count("\n") == 1


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (["--top", "0"], "--top"),
        (["--bootstrap", "localhost"], "host:port"),
        (["--kafka-property", "enable.idempotence=false"], "enable.idempotence"),
        (["--from", "a b"], "not allowed"),
        (["--dead-letters", "a b"], "not allowed"),
        (["--nosuch"], "--nosuch"),
    ],
)
def test_wrong_usage_is_named_and_exit_2(wrong: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dead-letters", *wrong]) == 2
    assert told in capsys.readouterr().err


def test_the_command_has_a_version_and_lists_its_jobs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"jbm-spark {version()}\n"
    assert main(["--help"]) == 0
    assert "dead-letters" in capsys.readouterr().out
