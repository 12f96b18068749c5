"""Each finding of the doctor, made in a world in memory, or said by its plain values where no world can show it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace

import pytest

from jbm_kafka import Connection, ConnectionFactory, Queue, Topic
from jbm_kafka.admin import Admin, Ailment, Finding
from jbm_kafka.admin.doctor.ailments import findings_of
from jbm_kafka.admin.doctor.looked import Looked, LookedProcess, LookedTopic, TopicRole
from jbm_kafka.cli.doctor_command import FOUND
from jbm_kafka.cli.main import main
from jbm_kafka.codec.changelog import encode_entry
from jbm_kafka.core.channel.entries import Parked
from jbm_kafka.core.open_files import FILES_OF_PROCESS, too_few_files
from jbm_kafka.errors import InvalidSettingError
from jbm_kafka.memory.memory_cluster import MemoryCluster
from jbm_kafka.memory.memory_kafka import MemoryKafka
from jbm_kafka.ports import Outgoing
from jbm_kafka.providers.in_memory import use_world
from tests.support.few_files import files_at_most
from tests.support.manual_clock import ManualClock

QUEUE = Queue("orders")
CHANGELOG = "orders.jbm-changelog"
WAIT_S = 20.0


class Ward:
    """A world in memory with a queue that was used, and its administrator."""

    def __init__(self, url: str, connection: Connection, admin: Admin, cluster: MemoryCluster) -> None:
        self.url, self.connection, self.admin, self.cluster = url, connection, admin, cluster

    def found(self, kind: Ailment) -> list[Finding]:
        return [each for each in self.admin.doctor(timeout_s=WAIT_S).findings if each.kind is kind]

    def set(self, topic: str, **config: str) -> None:
        changes = {name.replace("_", "."): value for name, value in config.items()}
        MemoryKafka(self.cluster).admin().alter_config(topic, changes)


@pytest.fixture
def ward(kafka_name: str) -> Iterator[Ward]:
    url = f"memory://{kafka_name}"
    with ConnectionFactory(url).create_connection() as connection, Admin(url) as admin:
        admin.create_queue(QUEUE, partitions=1)
        session = connection.create_session()
        session.create_producer(QUEUE).send("hello")
        with session.create_consumer(QUEUE) as consumer:
            assert consumer.receive(timeout=WAIT_S) is not None
        session.close()
        world = use_world(kafka_name)
        try:
            yield Ward(url, connection, admin, world.cluster)
        finally:
            world.let_go()


def test_of_an_installation_as_it_should_be_nothing_is_found(ward: Ward) -> None:
    """And who receives is asked."""
    with ward.connection.create_session() as session, session.create_consumer(QUEUE) as consumer:
        assert consumer.receive(timeout=0.2) is None
        found = ward.admin.doctor(timeout_s=WAIT_S)
    assert found.findings == ()
    assert found.is_healthy
    assert (found.brokers, len(found.members), found.parked) == (1, 1, {})


def test_where_nobody_used_anything_yet_nothing_is_missing(kafka_name: str) -> None:
    with Admin(f"memory://{kafka_name}") as admin:
        assert admin.doctor().is_healthy


def test_where_programs_only_send_nothing_is_missing(kafka_name: str) -> None:
    """Events and commands come with the first that receives; it was told that they are not there."""
    url = f"memory://{kafka_name}"
    with ConnectionFactory(url).create_connection() as connection, Admin(url) as admin:
        with connection.create_session() as session:
            session.create_producer(QUEUE).send("hello")
        assert admin.doctor().findings == ()


def test_topics_on_too_few_brokers_are_told(ward: Ward) -> None:
    ward.cluster.faults.brokers = 3
    (found,) = ward.found(Ailment.REPLICATION)
    assert {"orders", CHANGELOG, "jbm.registry", "jbm.events"} <= set(found.about)
    assert "it is on 1 of 3 brokers" in found.text
    ward.cluster.faults.replication = 3, 2
    (found,) = ward.found(Ailment.REPLICATION)
    assert "only 2 of its 3 replicas" in found.text
    ward.cluster.faults.replication = 3, 3
    assert ward.found(Ailment.REPLICATION) == []


def test_a_min_isr_that_loses_or_that_stops_is_told(ward: Ward) -> None:
    ward.cluster.faults.brokers, ward.cluster.faults.replication = 3, (3, 3)
    for name in list(ward.cluster.topics):
        ward.set(name, min_insync_replicas="2")
    assert ward.found(Ailment.MIN_ISR) == []
    ward.set("orders", min_insync_replicas="1")
    (found,) = ward.found(Ailment.MIN_ISR)
    assert (found.about, "what one broker alone has confirmed is lost" in found.text) == (("orders",), True)
    assert found.remedy.endswith("--add-config min.insync.replicas=2")
    ward.set("orders", min_insync_replicas="3")
    (found,) = ward.found(Ailment.MIN_ISR)
    assert "while a broker is away nothing is written" in found.text


def test_a_retention_that_deletes_messages_unread_is_told(ward: Ward) -> None:
    ward.set("orders", retention_ms="604800000")
    (found,) = ward.found(Ailment.RETENTION)
    assert (found.about, found.text) == (("orders",), "retention.ms is 604800000: Kafka deletes messages unread")
    assert found.remedy.endswith("--entity-name NAME --add-config retention.ms=-1")


def test_a_compacted_queue_and_a_changelog_that_is_not_are_told(ward: Ward) -> None:
    ward.connection.close()  # or it would put its changelog right
    ward.set("orders", cleanup_policy="compact")
    ward.set(CHANGELOG, cleanup_policy="delete")
    found = {each.about[0]: each.text for each in ward.found(Ailment.COMPACTION)}
    assert "later messages of a unit replace earlier ones" in found["orders"]
    assert "cleanup.policy is delete and must be compact" in found[CHANGELOG]


def test_a_topic_of_which_no_maker_is_recorded_is_told_until_somebody_says_what_becomes_of_it(ward: Ward) -> None:
    ward.cluster.create_topic("theirs", 1, {"retention.ms": "-1"})
    with ward.connection.create_session() as session:
        session.create_producer(Queue("theirs")).send("hello")
        session.create_consumer(Queue("theirs"))
        (found,) = ward.found(Ailment.MAKER)  # while it receives: one that leaves may be asked in vain
        assert (found.about, found.text.partition(":")[0]) == (("theirs",), "others made it")
        assert main(["settings", "set", "theirs", "truncate=never", "--bootstrap", ward.url]) == 0
        assert ward.found(Ailment.MAKER) == []


def test_a_changelog_that_was_deleted_is_told_and_that_what_was_parked_is_not_known(ward: Ward) -> None:
    ward.connection.close()
    ward.cluster.delete_topic(CHANGELOG)
    (found,) = ward.found(Ailment.MISSING)
    assert (found.about, found.text) == ((CHANGELOG,), "the changelog of queue:orders is not there")
    (found,) = ward.found(Ailment.PARKED)
    assert "it is not known how many parked messages" in found.text


def test_parked_messages_are_counted_and_told_where_one_broker_alone_has_them(ward: Ward) -> None:
    group = QUEUE.group_id("")
    for offset in range(3):
        key, value = encode_entry(group, Parked(offset, b"joe", b"body", (), 1, 1))
        with ward.cluster.changed:
            ward.cluster.append(Outgoing(CHANGELOG, 0, key, value), None)
    assert ward.found(Ailment.PARKED) == []
    assert ward.admin.doctor().parked == {group: 3}
    ward.cluster.faults.brokers = 3
    (found,) = ward.found(Ailment.PARKED)
    assert (found.about, found.text.partition(" in ")[0]) == ((group,), "3 parked messages have their only copy")


def test_rights_that_a_role_needs_and_who_asks_lacks_are_told(ward: Ward) -> None:
    ward.cluster.faults.operations_denied = {
        "orders": frozenset({"DESCRIBE_CONFIGS"}),
        "jbm.events": frozenset({"WRITE", "DESCRIBE_CONFIGS"}),
    }
    assert ward.found(Ailment.RIGHTS) == []
    found = {each.about: each for each in ward.admin.doctor(role="worker").findings}
    assert set(found) == {("orders",), ("jbm.events",)}
    assert found["jbm.events",].text == (
        "these credentials may not DescribeConfigs, Write on this topic, which a worker needs"
    )
    assert (
        found["orders",].remedy
        == "kafka-acls.sh --add --allow-principal User:… --topic NAME --operation DescribeConfigs"
    )
    ward.cluster.faults.operations_denied = {QUEUE.group_id(""): frozenset({"DESCRIBE"})}
    (each,) = ward.found(Ailment.RIGHTS)
    assert "on this group, which who only looks needs" in each.text
    with pytest.raises(InvalidSettingError, match="it is 'look', 'producer', 'worker'"):
        ward.admin.doctor(role="king")  # type: ignore[arg-type]


def test_a_clock_that_is_not_ours_is_told_and_by_how_much_at_least(ward: Ward) -> None:
    with ward.connection.create_session() as session, session.create_consumer(QUEUE) as consumer:
        assert consumer.receive(timeout=0.2) is None
        core = ward.admin._core
        behind = ManualClock(now_ms=time.time_ns() // 1_000_000 - 3_600_000)
        core.cluster = replace(core.cluster, clock=behind)
        (found,) = ward.found(Ailment.CLOCK)
    assert found.text.startswith("its clock is 3")
    assert "ahead of this one" in found.text


def test_a_process_of_another_version_is_told() -> None:
    processes = [LookedProcess(name="a", version="0.2.0"), LookedProcess(name="b", version="0.1.0")]
    older = LookedProcess(name="c", version="")
    found = findings_of(Looked(version="0.2.0", processes=[*processes, older]))
    assert [(each.about, each.kind) for each in found] == [(("b",), Ailment.VERSION), (("c",), Ailment.VERSION)]
    assert "an older version" in found[1].text


def test_a_process_that_has_partitions_and_does_not_answer_is_told(ward: Ward) -> None:
    ward.admin.create_queue("mute", partitions=1)
    silent = MemoryKafka(ward.cluster).group_consumer(
        group=Queue("mute").group_id(""), topic="mute", partitions=1, listener=_Takes(), session_timeout_ms=60_000,
        rebalance_timeout_ms=60_000, memory_bytes=1 << 20)  # fmt: skip
    with closing(silent):
        while not silent.assignment():
            silent.consume(1, 0.01)
        found = [each for each in ward.admin.doctor(timeout_s=0.3).findings if each.kind is Ailment.SILENT]
    assert [each.text for each in found] == ["it has partitions and does not answer"]


def test_a_process_that_leaves_its_group_while_it_is_asked_is_not_silent(ward: Ward) -> None:
    """Its consumer is closed, and it rests: it had the partitions still when the doctor looked who has them."""
    ward.admin.create_queue("mute", partitions=1)
    kafka = MemoryKafka(ward.cluster)
    resting = kafka.group_consumer(
        group=Queue("mute").group_id(""), topic="mute", partitions=1, listener=_Takes(), session_timeout_ms=60_000,
        rebalance_timeout_ms=60_000, memory_bytes=1 << 20)  # fmt: skip
    with closing(resting), ThreadPoolExecutor(1) as threads:
        while not resting.assignment():
            resting.consume(1, 0.01)
        begin = kafka.admin().end_positions("jbm.commands", [0], stable=True)[0]
        report = threads.submit(ward.admin.doctor, timeout_s=1.0)
        while kafka.admin().end_positions("jbm.commands", [0], stable=True)[0] == begin:
            assert not report.done()
        resting.close()
        assert [each.text for each in report.result().findings if each.kind is Ailment.SILENT] == []


def test_a_subscription_that_nobody_uses_and_that_keeps_the_log_is_told(ward: Ward) -> None:
    with ward.connection.create_session() as session:
        session.create_shared_durable_consumer(Topic("prices"), "report").close()
        assert ward.found(Ailment.UNUSED) == []
        session.create_producer(Topic("prices")).send("12")
    (found,) = ward.found(Ailment.UNUSED)
    assert "up to 1 records of topic:prices are kept" in found.text
    assert found.remedy.endswith("jbm-kafka subscriptions delete report")


def test_a_limit_of_open_files_that_is_too_small_is_told(ward: Ward) -> None:
    with (
        files_at_most(FILES_OF_PROCESS),
        ward.connection.create_session() as session,
        session.create_consumer(QUEUE) as consumer,
    ):
        assert consumer.receive(timeout=0.2) is None
        (found,) = ward.found(Ailment.FILES)
    assert found.text == f"this process may have {FILES_OF_PROCESS} files open, and 1 queues may take 140"
    assert found.remedy.startswith("raise the limit (ulimit -n 140")
    assert too_few_files(-1, 1 << 30, "") == ""


def test_the_command_shows_a_table_with_remedies_and_its_exit_code_says_that_something_was_found(
    ward: Ward, capsys: pytest.CaptureFixture[str]
) -> None:
    with ward.connection.create_session() as session, session.create_consumer(QUEUE) as consumer:
        assert consumer.receive(timeout=0.2) is None
        assert main(["doctor", "--bootstrap", ward.url]) == 0
        assert capsys.readouterr().out.startswith("nothing found: 1 brokers, ")
        ward.set("orders", retention_ms="1000")
        assert main(["doctor", "--bootstrap", ward.url]) == FOUND
        said = capsys.readouterr().out
        assert said.startswith("1 found: 1 brokers, ")
        assert "\nretention orders: kafka-configs.sh --alter" in said
        assert main(["doctor", "--json", "--bootstrap", ward.url]) == FOUND
        told = json.loads(capsys.readouterr().out)
        assert [(each["kind"], each["about"]) for each in told["findings"]] == [("retention", ["orders"])]


def test_findings_of_many_topics_that_say_the_same_are_one() -> None:
    topics = [LookedTopic(name=f"q{n}", role=TopicRole.DESTINATION, replicas=1) for n in range(9)]
    (found,) = findings_of(Looked(version="", brokers=3, topics=topics))
    assert found.about == tuple(f"q{n}" for n in range(9))


class _Takes:
    """Takes partitions, and answers nobody."""

    def on_assigned(self, partitions: Sequence[int]) -> Mapping[int, int]:
        return dict.fromkeys(partitions, 0)

    def on_revoked(self, partitions: Sequence[int]) -> None: ...

    def on_lost(self, partitions: Sequence[int]) -> None: ...
