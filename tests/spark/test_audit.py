"""The audit finds each fault that is planted, tells it from what only looks like one, and finds none in honest work."""

import json
import random
import re
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from jbm_kafka import AddressSettings, ConnectionFactory, Queue
from jbm_kafka.admin import Admin
from jbm_kafka.core.channel.entries import MessageEvent, MessageFate
from jbm_kafka.errors import ConnectionFailedError
from jbm_kafka.ports import KafkaAdmin
from jbm_spark.archiving.archive_folder import locked_archive
from jbm_spark.cli.job_command import main
from jbm_spark.errors import SparkJobError
from jbm_spark.jobs import archive
from jbm_spark.jobs.audit import FAULTS, AuditResult, run
from jbm_spark.jobs.audit.audit_inputs import AuditSource, kept_from_ms
from jbm_spark.jobs.audit.audit_inputs import audited as audited_queue
from jbm_spark.jobs.audit.audit_page import page
from jbm_spark.jobs.audit.run_audit import CLOCK_SKEW_MS, FINDINGS_MAX, audited_of, one_line_failures
from tests.spark.conftest import Topics
from tests.spark.planted import SENT_MS, Planted, given, returned
from tests.support.chaos_topics import read_committed
from tests.support.handler_crew import HandlerCrew
from tests.support.handler_process import ATTEMPTS_MAX, HandlerTask
from tests.support.other_receivers import other_receivers
from tests.support.topics import create_topic

pytestmark = pytest.mark.thorough

PARTITIONS = 8
UNITS: list[str | None] = [None] * 40
for offset, unit in {3: "r", 4: "r", 17: "h", 18: "h", 20: "g", 21: "g", 23: "x", 24: "x", 27: "p", 28: "p"}.items():
    UNITS[offset] = unit
FOUND = {
    ("lost", 1),
    ("duplicated", 2),
    ("reordered", 4),
    ("reordered", 18),
    ("reordered", 21),
    ("early redelivery", 5),
    ("early redelivery", 19),
    ("too many attempts", 6),
    ("delivery after acknowledgement", 7),
    ("delivery after acknowledgement", 26),
    ("dead letter twice", 8),
    ("dead letter missing", 9),
}


@pytest.fixture
def planted(bootstrap: str) -> Planted:
    return Planted(bootstrap, f"aud-{uuid.uuid4().hex[:12]}")


def plant(world: Planted) -> None:
    """All faults, and beside each what looks like it."""
    late, soon = 50_000, 20_000
    world.send(UNITS, {19: {"JMSDeliveryTime": SENT_MS + 90_000}, 23: {"JMSExpiration": SENT_MS + 1}})
    world.settle(below=17, also=[18, 19, 20, 21, 22, 24, 25, 26, 27, 28, 29, 30])
    skipped = "offsets 15 to 16, as far as they were not settled: the group's offset was reset"
    target = str(world.dead_letters)
    world.checkpoint(
        1, soon,
        acknowledged=[0, 2, 4, 7, 10, 18, 22, 24, 25, 26, 28],
        messages=[
            returned(5, attempts=1, due=60_000),
            returned(25, attempts=1, due=15_000),
            returned(6, attempts=3, limit=3),
            returned(10, attempts=1),
            world.died(8), world.died(9), world.died(30),
            world.ended(MessageFate.EXPIRED, 11, target=None), world.ended(MessageFate.REMOVED, 12),
            world.ended(MessageFate.DUPLICATE, 13), world.ended(MessageFate.MOVED, 14, target="queue:elsewhere"),
            MessageEvent(MessageFate.SKIPPED, 15, None, 0, None, skipped),
        ],
        given=[given(21, 1_000), given(20, 9_000), given(25, 16_000, attempt=2), given(22, 1_000, mode="PRE")],
    )  # fmt: skip
    world.checkpoint(
        2, late,
        acknowledged=[2, 3, 5, 6, 19, 20, 21, 27, 29],
        messages=[returned(26, attempts=1), world.ended(MessageFate.EXPIRED, 16, target=target)],
        given=[given(5, 30_000, attempt=2), given(7, 40_000), given(22, 40_000, mode="PRE"),
               given(27, 100, mode="NO"), given(28, 100, mode="NO"), given(29, 49_000)],
    )  # fmt: skip
    for offset in (8, 8, 16, 30):
        world.letter(offset)


def found_in(result: AuditResult) -> set[tuple[str, int]]:
    return {(each.fault, each.offset) for each in result.findings}


def audited(spark: SparkSession, world: Planted, **more: object) -> AuditResult:
    return run(spark, world.queue, bootstrap=world.bootstrap, namespace=world.namespace, **more)  # type: ignore[arg-type]


def test_each_planted_fault_is_found_and_nothing_else(spark: SparkSession, planted: Planted) -> None:
    """AUDIT-1: also what looks like a fault and is none: skipped, expired, moved, removed, acknowledged early."""
    plant(planted)
    result = audited(spark, planted)
    assert found_in(result) == FOUND
    assert {fault for fault, count in result.faults.items() if count} == set(FAULTS)
    assert result.has_violations
    lost = next(each for each in result.findings if each.fault == "lost")
    assert (lost.message_id, lost.partition) == ("ID:1", 0)
    assert lost.command == f"jbm-kafka explain {planted.queue.name} --id ID:1 --namespace {planted.namespace}"
    assert "2 copies" in next(each.what for each in result.findings if each.fault == "dead letter twice")
    assert audited(spark, planted, since_ms=SENT_MS + 1).messages == 0


class CutMeanwhile:
    """The brokers, where messages are deleted so many times as soon as an audit knows where it is to begin."""

    def __init__(self, admin: KafkaAdmin, cuts: Iterable[Callable[[], None]]) -> None:
        self._admin, self._cuts = admin, iter(cuts)

    def positions_since(self, topic: str, partitions: Sequence[int], since_ms: int) -> Mapping[int, int]:
        """They are gone when the caller has them."""
        found = self._admin.positions_since(topic, partitions, since_ms)
        next(self._cuts, lambda: None)()
        return found

    def __getattr__(self, name: str) -> object:
        return getattr(self._admin, name)


@pytest.mark.parametrize("cuts", [1, 5])
def test_an_audit_reads_again_what_is_truncated_before_it_was_read(
    spark: SparkSession, planted: Planted, cuts: int
) -> None:
    """AUDIT-2: it failed. What is there then is audited, and nothing else; it ends if it is cut each time."""
    plant(planted)
    each = [partial(planted.delete_messages, before) for before in range(3, 3 + cuts)]
    reach: dict[str, Any] = {"bootstrap": planted.bootstrap, "namespace": planted.namespace, "archive": None,
                             "kafka": None}  # fmt: skip
    with audited_queue(planted.queue, subscription=None, client_id="", **reach) as (admin, group):
        cut = cast(KafkaAdmin, CutMeanwhile(admin, each))
        source = AuditSource(spark=spark, admin=cut, since_ms=SENT_MS, options=None, **reach)
        if cuts > 1:
            with pytest.raises(SparkJobError, match="messages that were not read yet are gone"), one_line_failures():
                audited_of(source, [group], CLOCK_SKEW_MS, FINDINGS_MAX)
            return
        [result] = audited_of(source, [group], CLOCK_SKEW_MS, FINDINGS_MAX).values()
    assert result.messages == len(UNITS) - 3
    assert found_in(result) == {each for each in FOUND if each[1] >= 3}


def test_a_partition_of_more_units_than_a_task_holds_is_audited_all_the_same(
    spark: SparkSession, planted: Planted
) -> None:
    """AUDIT-1: Spark sorts it then, and finds what is found in the order of the log."""
    plant(planted)
    where: dict[str, Any] = {"bootstrap": planted.bootstrap, "namespace": planted.namespace, "archive": None,
                             "kafka": None}  # fmt: skip
    with audited_queue(planted.queue, subscription=None, client_id="", **where) as (admin, group):
        source = AuditSource(spark=spark, admin=admin, since_ms=0, options=None, **where)
        few, many = (audited_of(source, [group], 1_000, 1_000, units_max=units) for units in (1, 1_000))
    assert few == many
    assert found_in(few[group.group_id]) == FOUND


def test_a_queue_from_which_nobody_has_received_is_audited(spark: SparkSession, planted: Planted) -> None:
    """AUDIT-1: of its messages nothing is known, and the audit failed: "Can't zip RDDs"."""
    planted.send([None, "u", "u"], {})
    result = audited(spark, planted)
    assert (result.messages, result.fates, result.has_violations) == (3, 0, False)


def test_what_became_of_a_queue_before_it_was_made_anew_is_no_fault_of_the_new_one(
    spark: SparkSession, planted: Planted, topics: Topics
) -> None:
    """AUDIT-1: its messages have the same offsets. All faults of the new one are found beside them."""
    plant(planted)
    topics.delete(planted.queue.name)
    planted.make_topic()
    assert found_in(audited(spark, planted)) == set()
    plant(planted)
    assert found_in(audited(spark, planted)) == FOUND


@pytest.mark.slow
def test_what_older_versions_recorded_proves_nothing_and_is_no_loss(spark: SparkSession, planted: Planted) -> None:
    """AUDIT-2: their events do not tell the topic's id."""
    planted.send([None] * 4, {})
    planted.settle(below=3, also=[])
    real, planted.topic_id = planted.topic_id, None  # type: ignore[assignment]
    planted.checkpoint(1, 10, acknowledged=[0, 1])
    planted.checkpoint(2, 20, acknowledged=[0])
    planted.topic_id = real
    result = audited(spark, planted)
    assert found_in(result) == {("lost", 2)}
    assert result.unproven["of events of older versions, which do not tell the topic's id"] == 2


def test_events_that_kafka_has_deleted_are_told_by_an_archive(
    spark: SparkSession, planted: Planted, tmp_path: Path
) -> None:
    """AUDIT-2: without it nobody knows, and nothing is found; messages that are gone are audited, too."""
    planted.send([None] * 3, {})
    planted.settle(below=3, also=[])
    planted.checkpoint(1, -10, messages=[returned(1, attempts=1)])
    planted.checkpoint(2, 10, acknowledged=[0, 2])
    planted.checkpoint(3, 20, acknowledged=[0])
    archive.run(spark, planted.queue, tmp_path / "kept", bootstrap=planted.bootstrap, namespace=planted.namespace)
    planted.delete_events()
    alone = audited(spark, planted)
    assert found_in(alone) == set()
    assert alone.unproven["settled before the oldest event that is kept"] == 3
    assert found_in(audited(spark, planted, archive=str(tmp_path / "kept"))) == {("duplicated", 0), ("lost", 1)}
    with pytest.raises(SparkJobError, match="no-such"):
        audited(spark, planted, archive=str(tmp_path / "no-such"))


@pytest.mark.slow
def test_letters_that_were_truncated_are_not_missing(spark: SparkSession, planted: Planted, topics: Topics) -> None:
    """AUDIT-2: of two partitions one was cut, and the other still has an older letter. A copy that must be there is
    missed all the same."""
    topics.grow(planted.dead_letters.name, 2)
    planted.send([None] * 6, {})
    planted.settle(below=6, also=[])
    planted.checkpoint(1, 10_000, messages=[planted.died(each) for each in (0, 1, 2, 3)])
    planted.checkpoint(2, 90_000, messages=[planted.died(each) for each in (4, 5)])
    for offset, partition, at in [(0, 0, 10_000), (1, 1, 10_000), (2, 1, 10_100), (3, 1, 60_000), (5, 1, 90_000)]:
        planted.letter(offset, partition=partition, at=at)
    planted.delete_letters(1, 2)
    result = audited(spark, planted)
    assert found_in(result) == {("dead letter missing", 4)}
    assert result.unproven["copied to an address whose topic is gone, or has lost what it had then"] == 4


@pytest.mark.slow
def test_a_letter_that_was_moved_out_and_back_is_not_there_twice(spark: SparkSession, planted: Planted) -> None:
    """AUDIT-1: nor is one of which nobody knows; a second copy of one that was not moved is."""
    planted.send([None] * 2, {})
    planted.settle(below=2, also=[])
    planted.checkpoint(1, 10_000, messages=[planted.died(0), planted.died(1)])
    for offset in (0, 0, 1, 1):
        planted.letter(offset, at=20_000)
    planted.moved_letter(0, 30_000)
    assert found_in(audited(spark, planted)) == {("dead letter twice", 1)}
    told = "dead letters with several copies, older than the events that tell of moves"
    planted.delete_events()
    planted.checkpoint(2, 40_000, messages=[planted.died(0), planted.died(1)])
    result = audited(spark, planted)
    assert (found_in(result), result.unproven[told]) == (set(), 2)


@pytest.mark.parametrize(
    ("oldest", "begins", "since"),
    [
        ({0: 50, 1: 70}, {0: 0, 1: 0}, -(2**63)),
        ({0: 50, 1: 70}, {0: 0, 1: 9}, 70),
        ({0: 50, 1: 70}, {0: 4, 1: 9}, 70),
        ({0: 50}, {0: 0, 1: 9}, 2**63 - 1),
    ],
)
def test_a_log_is_whole_since_the_latest_cut_of_its_partitions(
    oldest: dict[int, int], begins: dict[int, int], since: int
) -> None:
    """AUDIT-2: the oldest record of all partitions said nothing of a partition that was cut."""
    assert kept_from_ms(oldest, begins) == since


@pytest.mark.slow
def test_an_archive_of_another_queue_is_no_proof(spark: SparkSession, planted: Planted, tmp_path: Path) -> None:
    """AUDIT-2: it has nothing of this one, and the audit found nothing."""
    with locked_archive(tmp_path, destination="queue:another", cluster_id="any"):
        pass
    with pytest.raises(SparkJobError, match="is that of queue:another, and this audit is of"):
        audited(spark, planted, archive=str(tmp_path))


@dataclass
class Plan:
    """Messages of all kinds, decided by chance, and what must become of them."""

    count: int
    done: set[int] = field(default_factory=set)
    """Those that are surely done; what expires at once may be or not."""
    letters: set[int] = field(default_factory=set)
    twice: int = 0

    def send(self, bootstrap: str, queue: Queue) -> None:
        """Everything, while others work."""
        chance, units = random.Random(7), self.count // 100
        settings = {queue.name: AddressSettings(partitions=PARTITIONS)}
        with ConnectionFactory(bootstrap, address_settings=settings).create_sender() as sender:
            for number in range(self.count):
                body: dict[str, object] = {"number": number}
                how: dict[str, Any] = {"unit_of_order": f"unit-{number % units}" if number % 50 else None}
                how["priority"] = chance.choice([0, 4, 4, 4, 9])
                luck, times = chance.random(), 1
                if luck < 0.03:
                    body["fails"] = 1
                elif luck < 0.032:
                    body["fails"] = ATTEMPTS_MAX  # poison
                    self.letters.add(number)
                elif luck < 0.034:
                    body["is_given_up"] = True
                    self.letters.add(number)
                elif luck < 0.044:
                    how["time_to_live_ms"] = 1
                elif luck < 0.054:
                    how["time_to_live_ms"] = 3_600_000
                elif luck < 0.059:
                    how |= {"delivery_delay_ms": 1_000, "unit_of_order": f"late-{number % 7}"}
                elif luck < 0.069:
                    how["duplicate_id"] = f"id-{number}"
                    times = 2
                self.twice += times - 1
                if number not in self.letters and how.get("time_to_live_ms") != 1:
                    self.done.add(number)
                for _ in range(times):
                    sender.send(queue, json.dumps(body), on_completion=lambda *_: None, **how)


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize(("count", "kills"), [(1_500, 4), pytest.param(200_000, 30, marks=pytest.mark.slow)])
def test_honest_work_with_kills_has_no_fault(
    spark: SparkSession, bootstrap: str, kafka_name: str, tmp_path: Path, count: int, kills: int
) -> None:
    """AUDIT-1, AUDIT-2: failures, poison, rejects, delays, expiry, duplicates, priorities, transactions, kills; XA, an
    AMQP client whose server is killed, PRE and NO; units are on hold, and released."""
    queue, copies, plan = Queue(kafka_name), f"{kafka_name}.copies", Plan(count)
    task = HandlerTask(name="", bootstrap=bootstrap, queue=kafka_name, folder=str(tmp_path / "crew"))
    with Admin(bootstrap) as admin:
        for name, partitions in ((kafka_name, PARTITIONS), (task.dead_letters, 1), (copies, 4)):
            create_topic(bootstrap, name, partitions=partitions, config={"retention.ms": "-1"})
        admin.set_address_settings(kafka_name, AddressSettings(record_deliveries=True, on_dead_letter="hold"))
        crew = HandlerCrew([task, replace(task, copies_to=copies), task], seed=7, messages_a_kill=count // kills // 2)

        def is_done() -> bool:
            others.check()
            with suppress(ConnectionFailedError):  # a transaction is open that a killed process has left
                return not sending.is_alive() and admin.counts(queue).held == 0
            return False

        with crew, other_receivers(task, kill_each=count // kills // 20) as others:
            sending = threading.Thread(target=plan.send, args=(bootstrap, queue))
            sending.start()
            crew.kill_until(is_done, limit_s=3_000)
            sending.join()
            crew.stop()
        result = run(spark, queue, bootstrap=bootstrap)
        by_kind = {kind: len(numbers) for kind, numbers in others.done.items()}
        print(count, "messages,", plan.twice, "twice,", len(crew.killed), "+", others.kills, "kills;", by_kind, "done,",
              others.released, "released;", result.text())  # fmt: skip
        assert result.messages == count + plan.twice
        assert not result.has_violations, result.text()
        assert crew.killed
        assert others.kills
        assert others.released
        assert all(by_kind.values()), by_kind
        told = result.unproven["acknowledged, and not recorded when they were given to whom"]
        assert told < result.messages / 4  # the last before each kill
        done = [*crew.done().values(), *others.done.values()]
        assert plan.done <= {number for numbers in done for number in numbers}
        assert crew.done_again() == []
        assert sorted(_numbers(bootstrap, task.dead_letters)) == sorted(plan.letters - others.done_early)
        assert len(copied := _numbers(bootstrap, copies)) == len(set(copied))
        for name in (kafka_name, task.dead_letters, copies):
            admin.delete_destination(Queue(name), force=True)
        admin.unset_address_settings(kafka_name)


def _numbers(bootstrap: str, topic: str) -> list[int]:
    return [json.loads(record.value() or b"")["number"] for record in read_committed(bootstrap, topic)]


class _Text(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_command_tells_in_each_form_and_by_its_exit_code(
    planted: Planted, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a process of its own session; what users named is text on the page."""
    evil = "<script>alert(1)</script>"
    planted.send([evil, evil], {})
    planted.settle(below=0, also=[1])
    planted.checkpoint(1, 10, acknowledged=[1])
    html = tmp_path / "audit.html"
    arguments = ["audit", planted.queue.name, "--bootstrap", planted.bootstrap, "--namespace", planted.namespace]
    assert main([*arguments, "--json", "--html", str(html)]) == 3
    told = capsys.readouterr().out
    assert told.count("\n") == 1
    assert json.loads(told)["faults"]["reordered"] == 1
    parsed = _Text()
    parsed.feed(html.read_text())
    assert evil in parsed.text
    assert not {"script", "link", "img"} & set(parsed.tags)
    nobody = ["--master", "spark://127.0.0.1:1"]  # no Spark is asked for what is not there
    assert main([*arguments[:1], "no-such-queue", *arguments[2:], *nobody]) == 1
    assert re.search(r"no-such-queue.*\n$", capsys.readouterr().err)
    assert main([*arguments, "--since", "yesterday"]) == 2
    assert "--since" in capsys.readouterr().err
    nowhere = tmp_path / "none" / "audit.html"
    assert main([*arguments, "--html", str(nowhere)]) == 1
    assert str(nowhere) in capsys.readouterr().err


def test_a_page_of_nothing_says_so() -> None:
    result = AuditResult("queue:q", 2, 2, dict.fromkeys(FAULTS, 0), (), {})
    assert not result.has_violations
    assert "Nothing found" in page(result, at="now")
    assert "nothing found" in result.text()
