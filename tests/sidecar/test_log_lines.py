"""What stands in the log of messages that leave, of partitions that come and go, and of a Kafka that is silent."""

from __future__ import annotations

import ast
import logging
from collections.abc import Mapping, Sequence
from typing import Literal

import pytest

from jbm_kafka.core.channel.settlement import Modified
from jbm_kafka.core.destination import Topic
from jbm_kafka.core.settings.address_settings import AddressSettings
from jbm_kafka.memory.memory_admin import MemoryAdmin
from jbm_kafka.memory.memory_consumer import MemoryGroupConsumer
from jbm_kafka.memory.memory_kafka import MemoryCluster
from jbm_kafka.memory.memory_process import Process
from jbm_kafka.ports import GroupFenced, TopicDescription, Unreachable
from jbm_kafka.ports.link import Link
from jbm_kafka.registry.topics import Topics
from jbm_kafka.sidecar.lane.group_workers import MissingTopics
from jbm_kafka.sidecar.log_lines.connection_lines import EndLines
from jbm_kafka.sidecar.log_lines.message_lines import EACH_MAX, MessageLines
from jbm_kafka.sidecar.log_lines.partition_lines import FenceLines, TwinLines
from jbm_kafka.sidecar.topics.topic_watch import PATIENCE_S, PROBE_S, TopicWatch
from tests.house.sources import ROOT
from tests.sidecar.stepped import Start, SteppedSidecar
from tests.simulation.workers import SteppedWorkers
from tests.support.manual_clock import ManualClock

ONCE = AddressSettings(max_delivery_attempts=1)
MESSAGES, PARTITIONS, CONNECTIONS = "jbm_kafka.messages", "jbm_kafka.partitions", "jbm_kafka.connections"


@pytest.fixture(autouse=True)
def all_lines(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "jbm_kafka")


def refuse(process: SteppedSidecar, link: Link, count: int, *, last_error: str | None = None) -> None:
    """Receive so many, and give each back as failed."""
    link.demand.credit = count
    process.run(lambda: len(link.buffer) >= count)
    taken = [delivery for delivery in (link.pop() for _ in range(count)) if delivery is not None]
    link.give_back([(delivery, Modified(delivery.offset, counted=True, last_error=last_error)) for delivery in taken])


def lines(caplog: pytest.LogCaptureFixture, logger: str) -> list[tuple[str, str]]:
    """(level, text) of a logger's lines."""
    return [(row.levelname, row.getMessage()) for row in caplog.records if row.name == logger]


def test_a_message_that_is_given_up_is_in_the_log(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    """Where it went and why was in the dead-letter queue only, and nobody heard that there was something."""
    process = start("one", settings=ONCE)
    link = process.attach("s")
    process.send("a secret", unit=b"joe", headers=[("JMSMessageID", b"ID:c1:5"), ("card", b"4711")])
    refuse(process, link, 1)
    process.run(lambda: bool(lines(caplog, MESSAGES)))
    assert lines(caplog, MESSAGES) == [
        (
            "WARNING",
            "orders[0] offset 0 given up after 1 attempt (max-delivery-attempts) and moved to DLQ; id ID:c1:5",
        )
    ]
    assert not [text for text in caplog.messages if "secret" in text or "4711" in text or "joe" in text]


def test_a_formatter_has_the_fields_of_a_message_and_not_its_unit(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    process = start("one", settings=ONCE)
    link = process.attach("s")
    process.send("x", unit=b"joe", headers=[("JMSMessageID", b"ID:c1:5")])
    refuse(process, link, 1)
    process.run(lambda: bool(lines(caplog, MESSAGES)))
    [record] = [row for row in caplog.records if row.name == MESSAGES]
    plain = vars(logging.makeLogRecord({})).keys() | {"message", "asctime"}
    assert {name: value for name, value in vars(record).items() if name not in plain} == {
        "destination": "orders",
        "partition": 0,
        "offset": 0,
        "message_id": "ID:c1:5",
        "attempt": 1,
        "reason": "max-delivery-attempts",
    }


def test_every_line_that_names_a_place_has_it_in_fields() -> None:
    """A line without them would be missing where people search by offset."""
    calls = [
        call
        for path in sorted((ROOT / "jbm_kafka" / "sidecar").rglob("*.py"))
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
        if any(isinstance(each, ast.Constant) and "offset %d" in str(each.value) for each in call.args)
    ]
    assert len(calls) >= 6
    assert [ast.unparse(call) for call in calls if "extra" not in {each.arg for each in call.keywords}] == []


def test_a_message_that_is_removed_is_in_the_log(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    process = start("one", settings=AddressSettings(max_delivery_attempts=1, dead_letter_address=None))
    link = process.attach("s")
    process.send("x")
    refuse(process, link, 1)
    process.run(lambda: bool(lines(caplog, MESSAGES)))
    [(level, text)] = lines(caplog, MESSAGES)
    assert level == "WARNING"
    assert "given up after 1 attempt (max-delivery-attempts) and removed, for there is no address for it" in text


def test_a_message_that_expired_is_in_the_log(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    process = start("one")
    process.attach("s").demand.credit = 1
    process.send("x", headers=[("JMSExpiration", b"1")])
    process.run(lambda: bool(lines(caplog, MESSAGES)))
    [(level, text)] = lines(caplog, MESSAGES)
    assert (level, text) == ("INFO", "orders[0] offset 0 expired and moved to ExpiryQueue; id ID:kafka:orders:0:0")


def test_a_unit_that_is_held_for_an_operator_is_in_the_log(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    """It waited in silence, for ever."""
    process = start("one", settings=AddressSettings(max_delivery_attempts=2, on_dead_letter="hold"))
    link = process.attach("s")
    process.send("x", unit=b"joe")
    refuse(process, link, 1)
    process.run_for(100)
    assert lines(caplog, MESSAGES) == []
    refuse(process, link, 1)
    process.run(lambda: bool(lines(caplog, MESSAGES)))
    assert lines(caplog, MESSAGES) == [
        (
            "WARNING",
            "orders[0] offset 0 failed 2 times and is on hold with its unit, as on_dead_letter='hold' asks; "
            "id ID:kafka:orders:0:0",
        )
    ]


@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        (
            "continue",
            "given up after 1 attempt (max-delivery-attempts, with LookupError) and moved to DLQ; id ",
        ),
        ("hold", "failed once (with LookupError) and is on hold with its unit, as on_dead_letter='hold' asks; "),
    ],
)
def test_what_failed_last_is_in_the_log_by_its_type_alone(
    start: Start, caplog: pytest.LogCaptureFixture, outcome: Literal["continue", "hold"], told: str
) -> None:
    """Not even the exception's type was told, though it was known. Its text may be what the message holds."""
    process = start("one", settings=AddressSettings(max_delivery_attempts=1, on_dead_letter=outcome))
    link = process.attach("s")
    process.send("x", "y", unit=b"joe")
    refuse(process, link, 1, last_error="LookupError: no card 4711")
    process.run(lambda: bool(lines(caplog, MESSAGES)))
    assert told in lines(caplog, MESSAGES)[0][1]
    assert "4711" not in caplog.text


def test_messages_that_cannot_leave_for_an_address_are_one_line_with_the_remedy_and_then_a_count(
    start: Start, cluster: MemoryCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """Each had a line a second for ever, in a form of its own, and the remedy was one for programmers."""
    process = start("one", settings=AddressSettings(max_delivery_attempts=1, dead_letter_address="letters"))
    link = process.attach("s")
    process.run(lambda: "letters" in cluster.topics)
    process.send("a", "b", headers=[("JMSMessageID", b"ID:c1:5")])
    cluster.delete_topic("letters")
    process.sidecar.destinations.topics.forget("letters")
    process.sidecar.destinations.ensure(Topic("letters"))
    refuse(process, link, 2)
    process.run(lambda: bool(lines(caplog, MESSAGES)))
    assert lines(caplog, MESSAGES) == [
        (
            "WARNING",
            "orders[0] offset 0 cannot leave for letters: 'letters' is a topic, and a name is either; write "
            "dead_letter_address=topic:letters where it is set, or: jbm-kafka settings set 'orders' "
            "dead_letter_address=topic:letters; its unit waits, and it is tried again every 1 s; id ID:c1:5",
        )
    ]
    process.run_for(10_500)
    _, *counts = lines(caplog, MESSAGES)
    assert len(counts) == 2
    for _, text in counts:
        assert text.startswith("orders: messages cannot leave for letters still, tried ")
        assert text.endswith("; their units wait")


def test_a_flood_of_dead_letters_is_a_few_lines_and_a_count(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    """Each had a line, and the log was all about them."""
    process = start("one", settings=ONCE)
    link = process.attach("s")
    process.send(*(f"poison {number}" for number in range(300)))
    for _ in range(30):
        refuse(process, link, 10)
    process.run(lambda: len(lines(caplog, MESSAGES)) == 6)
    *each, (level, text) = lines(caplog, MESSAGES)
    assert [line.split(" given")[0] for _, line in each] == [f"orders[0] offset {number}" for number in range(5)]
    assert level == "WARNING"
    assert text.startswith("orders: 295 more given up (max-delivery-attempts) and moved to DLQ within ")
    process.run_for(20_000)
    assert len(lines(caplog, MESSAGES)) == 6


@pytest.mark.parametrize(
    ("more", "told"),
    [(1, "1 more repeats a duplicate id and is settled"), (2, "2 more repeat a duplicate id and are settled")],
)
def test_a_count_of_several_was_told_as_one(caplog: pytest.LogCaptureFixture, more: int, told: str) -> None:
    """ "2 more was moved", too."""
    caplog.set_level(logging.INFO, MESSAGES)
    told_lines = MessageLines()
    for offset in range(EACH_MAX + more):
        told_lines.repeated("orders", 0, offset, first=0, now_ms=1)
    told_lines.end(1)
    assert told in lines(caplog, MESSAGES)[-1][1]


def test_what_was_counted_is_told_when_the_process_ends(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    process = start("one", settings=ONCE)
    link = process.attach("s")
    process.send(*(f"poison {number}" for number in range(20)))
    refuse(process, link, 20)
    group_worker = process.group_worker
    process.run(lambda: not group_worker.data.channels[0].state.in_hand)
    process.run_for(50)
    link.is_closed = True
    group_worker.detach(link.terms.link_id)
    group_worker.stop()
    process.run(lambda: not group_worker.is_alive)
    assert "orders: 15 more given up" in lines(caplog, MESSAGES)[-1][1]


def test_partitions_that_come_and_go_are_in_the_log(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    """Why a worker got nothing any more, or everything, was not to be seen."""
    one = start("one", partitions=2)
    one.attach("s")
    one.run(lambda: len(one.group_worker.data.channels) == 2)
    assert [text for _, text in lines(caplog, PARTITIONS) if "assigned" in text or "open" in text] == [
        "queue:orders: partitions 0-1 assigned to this process, opening",
        "queue:orders: open, 2 partitions in 0.0 s",
    ]
    caplog.clear()
    two = start("two", partitions=2)
    two.attach("t")
    one.run(lambda: _both(one, two))
    texts = [text for _, text in lines(caplog, PARTITIONS)]
    assert any("revoked" in text for text in texts), texts
    assert any("passed on after" in text for text in texts), texts


def _both(one: SteppedSidecar, two: SteppedSidecar) -> bool:
    for worker in two.workers.ready():
        worker.step()
    return len(one.group_worker.data.channels) == 1 and len(two.group_worker.data.channels) == 1


def test_partitions_that_others_have_already_are_in_the_log_and_what_sessions_lose_with_them(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    """It was a line for each partition, and the session's messages were named to its exception listener only."""
    process = start("one", partitions=2)
    link = process.attach("s")
    process.send("a", "b")
    process.receive(link, 2)
    caplog.clear()
    process.group_worker.assignment.on_lost([0, 1])
    lost, taken = lines(caplog, PARTITIONS)
    assert lost == (
        "WARNING",
        "queue:orders: partitions 0-1 lost, and others may have them: either this process and their group did not hear "
        "of each other for session_timeout_ms=5000, or their topic was deleted (jbm-kafka explain tells whether it is "
        "there); what was not recorded and is there still is delivered again",
    )
    assert taken == (
        "INFO",
        "orders[0]: 2 messages that a session holds are taken from it, offsets 0 to 1; they are delivered again",
    )


def test_partitions_that_were_lost_by_silence_were_said_to_have_no_topic_any_more(
    start: Start, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client had logged SESSTMOUT in the same millisecond."""
    process = start("one", partitions=1)
    process.attach("s")
    process.run(lambda: bool(process.group_worker.data.channels))
    caplog.clear()
    monkeypatch.setattr(MemoryGroupConsumer, "timed_out", lambda consumer: True)
    process.group_worker.assignment.on_lost([0])
    [(_, lost)] = lines(caplog, PARTITIONS)
    assert lost == (
        "queue:orders: partition 0 lost, and others may have them: this process and their group did not hear of each "
        "other for session_timeout_ms=5000; what was not recorded is delivered again"
    )


@pytest.mark.parametrize("is_lost", [True, False])
def test_who_loses_messages_by_a_silent_broker_was_told_to_look_at_revoke_drain_ms(start: Start, is_lost: bool) -> None:
    """That setting is about rebalances, and does nothing where the group takes the process for dead."""
    process = start("one", partitions=1)
    link, told = process.attach("s"), list[Exception]()
    link.notices.on_trouble = told.append
    process.send("a")
    process.receive(link, 1)
    assignment = process.group_worker.assignment
    if is_lost:
        assignment.on_lost([0])
    else:
        assignment.drop(process.group_worker.data.channels[0])
    [error] = told
    assert ("session_timeout_ms: Kafka was silent" in str(error)) is is_lost
    assert ("revoke_drain_ms" in str(error)) is not is_lost


def test_a_process_that_leaves_says_so_once(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    """After they were given up, the same partitions were told to be revoked."""
    process = start("one", partitions=2)
    link = process.attach("s")
    process.run(lambda: len(process.group_worker.data.channels) == 2)
    caplog.clear()
    group_worker = process.group_worker
    link.is_closed = True
    group_worker.detach(link.terms.link_id)
    group_worker.stop()
    process.run(lambda: not group_worker.is_alive)
    [(level, text)] = lines(caplog, PARTITIONS)
    assert level == "INFO"
    assert text.startswith("queue:orders: partitions 0-1 passed on after ")


def test_lost_connections_are_one_line_in_half_a_minute(
    cluster: MemoryCluster, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    """A broker that restarts was not to be seen, unless it was away for long."""
    process = start("one")
    process.attach("s")
    process.run_for(200)
    for _ in range(20):
        cluster.faults.breaks += 1
        process.run_for(100)
    assert lines(caplog, CONNECTIONS) == [
        ("INFO", "queue:orders: a connection to Kafka was lost; the client connects again")
    ]


def test_ends_of_logs_that_are_not_known_are_one_line_and_a_count(
    cluster: MemoryCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """In an outage it was a line every two seconds for each queue."""
    clock = cluster.clock
    assert isinstance(clock, ManualClock)
    ends = EndLines(clock)
    for _ in range(31):
        ends.unknown("queue:orders", Unreachable("no answer"))
        clock.advance(1_000)
    assert lines(caplog, CONNECTIONS) == [
        ("INFO", "queue:orders: the end of the log is not known: no answer"),
        ("INFO", "queue:orders: the end of the log was not known 29 more times within 30.0 s"),
    ]


def test_a_checkpoint_refused_in_a_rebalance_is_no_warning_and_many_in_a_row_are(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fenced = GroupFenced("unknown member", group="jbm.queue.orders")
    fences = FenceLines()
    for at_ms in range(0, 5_100, 100):
        fences.refused("jbm.queue.orders", fenced, at_ms)
    [(first, _), (second, text)] = lines(caplog, PARTITIONS)
    assert (first, second) == ("INFO", "WARNING")
    assert text.startswith("group jbm.queue.orders refused 49 more checkpoints of this process within 5.0 s")


def test_two_workers_with_copies_of_one_state_folder_were_told_by_the_client_library_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Each ended the other's checkpoints, ten lines a second of `fenced by a newer instance`, and nothing said why."""
    twin = TwinLines()
    twin.fenced("jbm.5d.0", 0)
    twin.fenced("jbm.5d.0", 61_000)
    assert caplog.messages == [], "a coordinator does it once, to a transaction that outlasts its timeout"
    for at_ms in range(61_200, 700_000, 200):
        twin.fenced("jbm.5d.0", at_ms)
    [(first, text), again] = lines(caplog, PARTITIONS)
    assert (first, again) == ("WARNING", ("WARNING", text))
    assert text.startswith("another process runs with a copy of this one's state folder, or with the same one on ")
    assert "(transactional id jbm.5d.0)" in text
    assert twin.is_logged(700_000)


def test_a_topic_that_is_gone_while_somebody_receives_from_it_is_told_once_and_once_that_it_is_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Nothing came, and no line said why: in a client of Kafka's nobody hears of it."""
    topics = MissingTopics()
    received, there, nothing = {"orders": "queue:orders"}, frozenset({"orders"}), frozenset[str]()
    topics.looked(received, present=nothing, missing=there)
    assert caplog.messages == [], "a broker that comes back may not know all topics yet"
    topics.looked(received, present=there, missing=nothing)
    for _ in range(4):
        topics.looked(received, present=nothing, missing=there)
    gone = (
        "WARNING",
        "queue:orders: its topic orders does not exist any more, and what it held is gone; who receives from it waits "
        "until it is made again",
    )
    assert lines(caplog, PARTITIONS) == [gone]
    for _ in range(2):
        topics.looked({}, present=there, missing=nothing)
    back = ("WARNING", "queue:orders: its topic orders exists again")
    assert lines(caplog, PARTITIONS) == [gone, back]


def test_a_topic_that_is_deleted_while_its_channels_open_was_told_with_a_traceback(
    cluster: MemoryCluster, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    """`recovery failed`, as of a bug. Its receivers hear why, and the log has the same sentence."""
    process = start("one")
    process.held.add("jbm-recovery-jbm.queue.orders")
    link = process.attach("s")
    process.run(lambda: bool(process.group_worker.data.opening))
    cluster.delete_topic("orders")
    process.held.clear()
    process.run(lambda: link.notices.failure is not None)
    [row] = [row for row in caplog.records if "orders" in row.getMessage() and row.levelno >= logging.WARNING]
    assert row.getMessage() == "queue:orders: its Kafka topic was deleted; its receivers here get the error"
    assert row.exc_info is None
    assert "its Kafka topic 'orders' was deleted" in str(link.notices.failure)


def test_a_topic_that_is_only_sent_to_is_not_told_to_be_gone(caplog: pytest.LogCaptureFixture) -> None:
    """Its sender is, by the next send, which makes it again."""
    topics = MissingTopics()
    for _ in range(3):
        topics.looked({}, present=frozenset(), missing=frozenset({"orders"}))
    assert caplog.messages == []


class SilentAdmin(MemoryAdmin):
    """A cluster that does not answer while it is cut off."""

    is_cut_off = False

    def describe(self, topics: Sequence[str], *, with_config: bool = False) -> Mapping[str, TopicDescription]:
        if self.is_cut_off:
            raise Unreachable("no answer from Kafka at localhost:9092")
        return super().describe(topics, with_config=with_config)

    def check_answered(self, timeout_s: float) -> None:
        if self.is_cut_off:
            raise Unreachable("no answer from Kafka at localhost:9092")


def test_a_kafka_that_is_silent_and_back_is_two_lines(cluster: MemoryCluster, caplog: pytest.LogCaptureFixture) -> None:
    """It was seen at the level of debugging only, and its end not at all."""
    clock = cluster.clock
    assert isinstance(clock, ManualClock)
    admin = SilentAdmin(Process(cluster), timeout_s=1.0)
    workers = SteppedWorkers(clock, lambda _: None)
    watch = TopicWatch(topics=Topics(admin, namespace=""), workers=workers, clock=clock, looked=lambda _: None)
    watch.start()

    def pass_ms(duration_ms: int) -> None:
        for _ in range(duration_ms // 100):
            for worker in workers.ready():
                worker.step()
            clock.advance(100)

    pass_ms(20_000)
    assert lines(caplog, CONNECTIONS) == []
    admin.is_cut_off = True
    pass_ms(1_100)
    assert len(lines(caplog, CONNECTIONS)) == 1, "it came after 10 to 15 s"
    assert PROBE_S + PATIENCE_S <= 4
    pass_ms(12_000)
    admin.is_cut_off = False
    pass_ms(20_000)
    admin.is_cut_off = True
    pass_ms(5_000)
    admin.is_cut_off = False
    pass_ms(5_000)
    assert len(lines(caplog, CONNECTIONS)) == 4, "33 s after the first"
    for _ in range(3):
        admin.is_cut_off = True
        pass_ms(2_000)
        admin.is_cut_off = False
        pass_ms(2_000)
    assert len(lines(caplog, CONNECTIONS)) == 4, "and not each time"
    (lost, why), (back, after), *_ = lines(caplog, CONNECTIONS)
    assert (lost, back) == ("WARNING", "WARNING"), "who logs warnings alone had the loss as the last word"
    assert why.startswith("Kafka does not answer: no answer from Kafka at localhost:9092; it is asked again")
    assert after.startswith("Kafka answers again, after ")


def test_the_page_has_every_logger_that_promises_its_name() -> None:
    """Who sets a level for one must find it there, and it must be one."""
    page = (ROOT / "docs" / "logging.md").read_text()
    for name in (MESSAGES, PARTITIONS, CONNECTIONS, "jbm_kafka.kafka"):
        assert f"`{name}`" in page
        assert logging.getLogger(name).name in logging.root.manager.loggerDict
