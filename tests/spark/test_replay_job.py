"""`jbm-spark replay`: what is meant comes once and in order, however often the job is killed and run again."""

import hashlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from jbm_kafka import AcknowledgeMode, ConnectionFactory
from jbm_kafka.admin import Admin
from jbm_kafka.ports import KafkaClientError, Outgoing
from jbm_spark.batch_ledger import LedgerEntry
from jbm_spark.cli.job_command import main
from jbm_spark.errors import ArchiveError, OptionRefusedError, WriteError
from jbm_spark.jobs import archive
from jbm_spark.jobs.replay import Replayed, run
from jbm_spark.record_transaction import BatchTarget
from tests.spark.conftest import PATIENCE_S, Topics
from tests.spark.records import Record, headers

pytestmark = pytest.mark.thorough

EXPIRED = ("JMSExpiration", b"1700000000500")
SENT_MS = 1_700_000_000_000
OPEN_S = 3.0


def replay(spark: SparkSession, topics: Topics, source: str | Path, to: str, **arguments: Any) -> Replayed:
    return run(spark, source, to, bootstrap=topics.bootstrap, **arguments)


def test_a_replay_sends_what_is_meant_in_order_and_again_what_is_missing(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    """SPARK-11: from an archive, in portions, with one that was killed in the midst of one."""
    source, target = topics.create(3), topics.create(2)
    topics.write(
        source,
        [
            Record(key=b"u%d" % (number % 7), value=b"%d" % number, timestamp_ms=SENT_MS + number,
                   headers=(("JBMBody", b"text"), EXPIRED, ("jms.int.qty", b"%d" % number)))
            for number in range(200)
        ],
    )  # fmt: skip
    archive.run(spark, source, tmp_path, bootstrap=topics.bootstrap)
    span: dict[str, Any] = {"since_ms": SENT_MS + 20, "until_ms": SENT_MS + 180, "where": "properties['qty'] <> '100'"}
    counted = replay(spark, topics, tmp_path, target, dry_run=True, **span)
    assert (counted.sent, counted.already_there, topics.read(target)) == (159, 0, [])

    class Killed(Exception):
        pass

    def kill(_: str) -> None:
        raise Killed

    with pytest.raises(Killed):
        replay(spark, topics, tmp_path, target, rate=10, tell=kill, **span)
    before = len(topics.read(target))
    assert 0 < before < 159
    done = replay(spark, topics, tmp_path, target, **span)
    assert (done.matching, done.already_there, done.sent) == (159, before, 159 - before)
    assert replay(spark, topics, tmp_path, target, **span).sent == 0
    found = topics.read(target)
    assert sorted(int(record.value() or b"") for record in found) == [n for n in range(20, 180) if n != 100]
    for unit in range(7):
        mine = [int(record.value() or b"") for record in found if record.key() == b"u%d" % unit]
        assert mine == sorted(mine)
    told = [headers(record) for record in found]
    assert {each["jms.int.qty"] for each in told} == {record.value() for record in found}
    assert len({each["JBMDuplicateID"] for each in told}) == 159
    assert not any("JMSExpiration" in each for each in told)
    assert replay(spark, topics, tmp_path, target, job="again", **span).sent == 159


def test_a_run_that_stood_still_sends_nothing_when_another_has_taken_over(spark: SparkSession, topics: Topics) -> None:
    """SPARK-22: between two portions, of more than a queue remembers of ids; a task of it that comes late, neither."""
    source, target, count = topics.create(2), topics.create(2), 12_000
    topics.write(source, [Record(key=b"u%d" % (n % 7), value=b"%d" % n) for n in range(count)])
    others: list[Replayed] = []

    def stand_still(_: str) -> None:
        if not others:
            others.append(replay(spark, topics, source, target, job="zombie"))

    with pytest.raises(WriteError, match=r"^write to .*: another process has taken this job over .* sends nothing mor"):
        replay(spark, topics, source, target, job="zombie", rate=1_000, tell=stand_still)
    [other] = others
    assert other.already_there > 0
    assert other.already_there + other.sent == other.matching == count
    query = f"replay-{hashlib.sha256(f'zombie {target}'.encode()).hexdigest()[:24]}"
    first = BatchTarget(topics.bootstrap, {}, "", target, 1_000_000, query, 1 << 32)
    with closing(first.open(first.sink_name(0))) as late, pytest.raises(WriteError, match="comes after batch"):
        late.has_written(first.batch + 1)
    # A task of the second run that was about to commit, when a third one begins that has nothing to send itself.
    with closing(first.open(first.sink_name(0))) as late:
        assert replay(spark, topics, source, target, job="zombie").sent == 0
        with pytest.raises(KafkaClientError):
            late.write([Outgoing(target, 0, None, b"late")], lambda: LedgerEntry((2 << 32) + 9))
    with closing(first.open(first.sink_name(0))) as late, pytest.raises(WriteError, match="comes after batch"):
        late.has_written((2 << 32) + 9)
    found = topics.read(target)
    assert len({record.value() for record in found}) == len(found) == count
    for unit in range(7):
        mine = [int(record.value() or b"") for record in found if record.key() == b"u%d" % unit]
        assert mine == sorted(mine)


def test_what_stands_behind_another_s_open_transaction_is_not_sent_again(spark: SparkSession, topics: Topics) -> None:
    """SPARK-22: what the job had sent could not be seen while somebody else's transaction was open in the target."""
    source, target, count = topics.create(), topics.create(), 6_000
    topics.write(source, [Record(value=b"%d" % number) for number in range(count)])
    others: list[Producer] = []

    def open_one(_: str) -> None:
        if not others:
            others.append(topics.write(target, [Record(value=b"open")], transactional_id=f"open-{target}"))

    assert replay(spark, topics, source, target, rate=1_000, tell=open_one).sent == count
    with ThreadPoolExecutor(1) as threads:
        again = threads.submit(replay, spark, topics, source, target)
        with pytest.raises(TimeoutError):
            again.result(OPEN_S)
        others[0].abort_transaction()
        done = again.result(PATIENCE_S)
    assert (done.already_there, done.sent) == (count, 0)


def test_what_was_received_and_deleted_since_is_not_sent_again(spark: SparkSession, topics: Topics) -> None:
    """SPARK-11: more than a queue remembers of duplicate ids was received twice."""
    source, target = topics.create(), topics.create()
    topics.write(source, [Record(value=b"%d" % number) for number in range(20)])
    assert replay(spark, topics, source, target).sent == 20
    with ConnectionFactory(topics.bootstrap).create_context(AcknowledgeMode.AUTO) as jms:
        consumer = jms.create_consumer(jms.create_queue(target))
        for _ in range(20):
            assert consumer.receive(timeout=PATIENCE_S) is not None
    with Admin(topics.bootstrap) as admin:
        admin.truncate(target)
    again = replay(spark, topics, source, target)
    assert (again.already_there, again.sent) == (20, 0)


def test_times_are_as_far_ahead_as_they_were(spark: SparkSession, topics: Topics) -> None:
    source, target = topics.create(), topics.create()
    topics.write(source, [Record(headers=(EXPIRED,)), Record()])
    replay(spark, topics, source, target, shift_times=True)
    first, second = topics.read(target)
    assert 0 <= int(headers(first)["JMSExpiration"] or b"") - 500 - first.timestamp()[1] + 600_000 <= 600_000
    assert "JMSExpiration" not in headers(second)


def test_what_would_go_back_to_its_source_needs_to_be_meant(spark: SparkSession, topics: Topics) -> None:
    """SPARK-11: and then its own copies are not sent on."""
    source = topics.create()
    topics.write(source, [Record(value=b"1"), Record(value=b"2")])
    with pytest.raises(OptionRefusedError, match="is where these messages came from"):
        replay(spark, topics, source, source)
    for _ in range(2):
        replay(spark, topics, source, source, force=True)
    assert [record.value() for record in topics.read(source)] == [b"1", b"2", b"1", b"2"]


def test_what_cannot_be_is_one_line(
    spark: SparkSession, topics: Topics, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = topics.create(), topics.create()
    with pytest.raises(OptionRefusedError, match=r"where is 'colour = 1': it is an SQL expression .*colour") as raised:
        replay(spark, topics, source, target, where="colour = 1")
    assert "\n" not in str(raised.value)
    with pytest.raises(ArchiveError, match="is no archive"):
        replay(spark, topics, tmp_path, target)
    at = ["--bootstrap", topics.bootstrap]
    assert main(["replay", "--from", str(tmp_path), "--to", target, *at]) == 1
    assert f"{tmp_path} is no archive" in capsys.readouterr().err
    assert main(["replay", "--from", source, "--to", target, "--since", "yesterday", *at]) == 2
    assert "'yesterday': write a day or a time" in capsys.readouterr().err
