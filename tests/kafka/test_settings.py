"""What a user may tell librdkafka, what is refused, and that trouble is told once, in our words, in the right place."""

import gc
import logging
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Producer

from jbm_kafka.core.jms_errors import IllegalStateError, InvalidSettingError
from jbm_kafka.devbroker import LocalBroker
from jbm_kafka.devbroker.ports import free_port
from jbm_kafka.kafka import ConfluentKafka
from jbm_kafka.kafka.counted_lines import INTERVAL_MS, CountedLines
from jbm_kafka.kafka.outage_lines import ANSWERED_LATELY_S, OUTAGE_SILENCE_S, OutageLines, outage_at
from jbm_kafka.kafka.profiles import sender_settings
from jbm_kafka.kafka.settings import CONTROLLED, ClientLog, common_settings
from jbm_kafka.ports import GroupFenced, Kafka, KafkaClientError, Outgoing, Unreachable
from jbm_kafka.ports.installation import RECORD_TIMEOUT_MS
from tests.conftest import MakeTopic
from tests.kafka.world import WAIT_S, Listener, consume_some, consume_until, member, send_all
from tests.support.broker import local_broker
from tests.support.waiting import wait_until


@pytest.mark.parametrize("name", sorted(CONTROLLED))
def test_a_setting_that_is_ours_is_refused_by_name_and_with_the_reason(name: str) -> None:
    with pytest.raises(InvalidSettingError, match=f"'{name}': {CONTROLLED[name]}".replace("(", r"\(")) as caught:
        ConfluentKafka("localhost:9092", {name: "x"})
    assert isinstance(caught.value, ValueError)
    assert caught.value.names == [name]


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"no.such.setting": 1}, 'No such configuration property: "no.such.setting"'),
        ({"socket.timeout.ms": "soon"}, 'Invalid value for configuration property "socket.timeout.ms"'),
        ({"client.id": None}, "'client.id': None is not a value"),
        ({7: "seven"}, "7: its name is a str"),
    ],
)
def test_a_wrong_setting_is_named_on_one_line(settings: dict[str, object], told: str) -> None:
    with pytest.raises(InvalidSettingError) as caught:
        ConfluentKafka("localhost:9092", settings)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_wrong_setting_was_told_by_librdkafkas_second_name_and_without_its_value() -> None:
    with pytest.raises(InvalidSettingError) as caught:
        ConfluentKafka("localhost:9092", {"linger.ms": "fast"})
    told = """client setting 'linger.ms' is 'fast': Invalid value for configuration property "linger.ms" """
    assert str(caught.value).startswith(told)


@pytest.mark.parametrize("name", ["linger.ms", "queue.buffering.max.ms"])
def test_records_gathered_longer_than_one_may_take_to_be_written_are_refused_at_once(name: str) -> None:
    """Else no producer of transactions could be made: the first commit is waited for for a minute, then in doubt."""
    with pytest.raises(InvalidSettingError, match=rf"'{name}' is 3000: .*; use less than 3000"):
        ConfluentKafka("localhost:9092", {name: RECORD_TIMEOUT_MS})
    ConfluentKafka("localhost:9092", {name: RECORD_TIMEOUT_MS - 1})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, text) for name in ("linger.ms", "queue.buffering.max.ms") for text in ("5ms", "nan", "5_0")),
        *(("socket.timeout.ms", text) for text in ("10s", "100.5", "100e3", "0x10")),
        ("batch.size", "64k"),
        ("compression.level", "5%"),
    ],
)
def test_a_unit_behind_a_number_was_a_bug_of_ours_or_left_out_in_silence(name: str, value: str) -> None:
    """librdkafka takes "10s" for ten milliseconds."""
    with pytest.raises(InvalidSettingError, match=rf"^client setting '{name}' is '{value}': it is a ") as caught:
        ConfluentKafka("localhost:9092", {name: value})
    assert (caught.value.names, caught.value.value) == ([name], value)


@pytest.mark.parametrize(("name", "value"), [("linger.ms", " 0.5 "), ("linger.ms", "1e1"), ("batch.size", 65536.0)])
def test_numbers_are_taken_as_python_and_people_write_them(name: str, value: object) -> None:
    ConfluentKafka("localhost:9092", {name: value})


def test_readers_that_join_no_group_take_any_interval_of_polls(nowhere: str) -> None:
    """They have librdkafka's own session timeout of 45 s, and could not be made with less than that."""
    kafka = ConfluentKafka(nowhere, {"max.poll.interval.ms": 10_000}, admin_timeout_s=0.1)
    kafka.log_reader().close()
    kafka.tail_reader().close()
    with pytest.raises(Unreachable):
        kafka.admin().committed("group", "orders", [0])


def test_other_settings_are_the_users(bootstrap: str) -> None:
    settings = {"client.id": "mine", "linger.ms": 7, "fetch.wait.max.ms": 11, "socket.nagle.disable": False}
    kafka = ConfluentKafka(bootstrap, settings)
    sender = kafka.sender()
    sender.close(WAIT_S)
    assert kafka.admin().topic_names() is not None


@pytest.fixture
def nowhere() -> str:
    """An address where nothing listens."""
    return f"127.0.0.1:{free_port()}"


@pytest.mark.parametrize(
    "question",
    [
        lambda kafka: kafka.admin().describe(["orders"]),
        lambda kafka: kafka.admin().topic_names(),
        lambda kafka: kafka.admin().create_topic("orders", partitions=1, config={}),
        lambda kafka: kafka.admin().end_positions("orders", [0], stable=True),
        lambda kafka: kafka.admin().committed("group", "orders", [0]),
        lambda kafka: kafka.admin().group_members("group"),
        lambda kafka: kafka.admin().cluster_id(),
        lambda kafka: kafka.transactional_producer("id", transaction_timeout_ms=10_000).initialise(0.5),
        lambda kafka: kafka.transactional_producer("id", transaction_timeout_ms=10_000).initialise(
            0.5, known_topic="orders"
        ),
        lambda kafka: kafka.log_reader().read("orders", {0: (0, 1)}, timeout_s=0.5),
    ],
    ids=[
        "describe",
        "names",
        "create",
        "ends",
        "committed",
        "members",
        "cluster",
        "initialise",
        "initialise beside a topic",
        "read",
    ],
)
def test_an_unreachable_broker_is_named_within_the_time(nowhere: str, question: Callable[[Kafka], object]) -> None:
    with pytest.raises(Unreachable, match=nowhere) as caught:
        question(ConfluentKafka(nowhere, admin_timeout_s=0.5))
    assert "\n" not in str(caught.value)


def test_sends_to_an_unreachable_broker_fail_in_time(nowhere: str) -> None:
    sender = ConfluentKafka(nowhere, send_timeout_ms=500).sender()
    errors: list[KafkaClientError | None] = []
    sender.send(Outgoing("orders", 0, None, b""), errors.append)
    assert sender.flush(WAIT_S)
    sender.close(WAIT_S)
    assert isinstance(errors[0], Unreachable)
    assert nowhere in str(errors[0])


def test_a_member_of_an_unreachable_group_waits_and_can_leave(nowhere: str) -> None:
    consumer = member(ConfluentKafka(nowhere), "group", "orders")
    assert not consumer.consume(1, 0.2)
    assert not consumer.joined()
    with pytest.raises(GroupFenced):
        consumer.group_metadata()
    consumer.close()


def test_positions_of_a_broker_that_does_not_answer_are_unknown(dedicated_broker: Callable[[], LocalBroker]) -> None:
    broker = dedicated_broker()
    kafka = ConfluentKafka(broker.bootstrap, admin_timeout_s=1)
    admin = kafka.admin()
    admin.create_topic("orders", partitions=1, config={})
    assert admin.end_positions("orders", [0], stable=True) == {0: 0}

    broker.pause()
    try:
        with pytest.raises(Unreachable):
            admin.end_positions("orders", [0], stable=True)
    finally:
        broker.resume()


def test_what_comes_later_does_not_wait_for_the_end_of_others_large_batches(
    bootstrap: str, make_topic: MakeTopic, kafka_name: str
) -> None:
    """Each nearly as large as all shares of a fetch together, and the receiver is slow."""
    kafka, topic = ConfluentKafka(bootstrap), make_topic(partitions=8)
    bulk = ConfluentKafka(bootstrap, {"batch.size": 1_000_000})
    send_all(bulk, [Outgoing(topic, 0, None, os.urandom(100)) for _ in range(200_000)])
    consumer = member(kafka, kafka_name, topic, Listener(dict.fromkeys(range(8), 0)), partitions=8)
    for _ in range(20_000):
        consume_some(consumer, 1)
    others = set(range(1, 8))
    send_all(bulk, [Outgoing(topic, partition, None, os.urandom(200)) for partition in others for _ in range(250)])
    for _ in range(150_000):  # the end of the first partition is behind that
        if not others:
            break
        others -= {record.partition() for record in consume_some(consumer, 1)}
    assert not others
    consumer.close()


def test_sends_close_together_fit_into_a_topic_of_64_kib(bootstrap: str, make_topic: MakeTopic) -> None:
    """Brokers compare a batch as a whole."""
    topic = make_topic(config={"max.message.bytes": "65536"})
    send_all(ConfluentKafka(bootstrap), [Outgoing(topic, 0, None, os.urandom(200)) for _ in range(20_000)])


def test_a_member_dropped_without_close_leaves_its_group_and_hangs_nobody(
    bootstrap: str, make_topic: MakeTopic, kafka_name: str
) -> None:
    """librdkafka's own destructor would wait for ever for a rebalance callback that nobody serves."""
    kafka, topic = ConfluentKafka(bootstrap), make_topic(partitions=4)
    listener = Listener()

    def join_both() -> None:
        first = member(kafka, kafka_name, topic, listener)
        consume_until(lambda: len(first.assignment()) == 4, first)
        second = member(kafka, kafka_name, topic)
        consume_until(lambda: len(second.assignment()) > 0, first, second)

    join_both()
    told = list(listener.told)
    gc.collect()
    assert kafka.admin().group_members(kafka_name) == 0
    assert listener.told == told


_TROUBLE = """
import sys
from jbm_kafka.kafka import ConfluentKafka
from jbm_kafka.ports import KafkaClientError, Outgoing
kafka = ConfluentKafka(sys.argv[1], send_timeout_ms=300)
sender = kafka.sender()
sender.send(Outgoing("orders", 0, None, b""), None)
try:
    kafka.transactional_producer("id", transaction_timeout_ms=10_000).initialise(0.5)
except KafkaClientError:
    pass
sender.close(5)
"""


def test_librdkafka_writes_nothing_on_the_terminal(nowhere: str) -> None:
    done = subprocess.run([sys.executable, "-c", _TROUBLE, nowhere], capture_output=True, timeout=30, check=True)
    assert (done.stdout, done.stderr) == (b"", b"")


def test_librdkafkas_lines_are_in_our_log(nowhere: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="jbm_kafka.kafka")
    producer = ConfluentKafka(nowhere).transactional_producer("id", transaction_timeout_ms=10_000)
    for _ in range(20):  # its thread tells when it gets to it, on a busy machine not within the first half second
        with pytest.raises(Unreachable):
            producer.initialise(0.5)
        if any("keeps trying" in record.message and nowhere in record.message for record in caplog.records):
            return
    raise AssertionError(f"no line of librdkafka's among {[record.message for record in caplog.records]}")


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ("TXNERR [c] [thrd:main]: Failed to commit offsets to transaction: Specified group generation id is not valid",
         logging.INFO),
        ("SESSTMOUT [c] [thrd:main]: Consumer group session timed out (in join-state steady)", logging.INFO),
        ("REQTMOUT [c] [thrd:x]: host:9092/1: Timed out 0 in-flight, 1 retry-queued requests", logging.INFO),
        ("ADDOFFSETS [c] [thrd:main]: Failed to add offsets to transaction: Local: Timed out", logging.INFO),
        ("GETPID [c] [thrd:main]: Failed to acquire transactional PID: retrying", logging.INFO),
        ("METADATAUPDATE [c] [thrd:main]: Partition orders(x)[11]: new leader-1 not found in cache", logging.INFO),
        ("FAIL [c] [thrd:x]: host:9092/1: Connect failed", logging.DEBUG),
        ("MAXPOLL [c] [thrd:main]: Application maximum poll interval exceeded", logging.WARNING),
    ],
)  # fmt: skip
def test_an_ordinary_deploy_or_outage_has_no_warnings_of_librdkafkas(
    caplog: pytest.LogCaptureFixture, line: str, level: int
) -> None:
    """They came at WARNING, beside the line of ours that says what follows and what to do."""
    caplog.set_level(logging.DEBUG, logger="jbm_kafka.kafka")
    ClientLog().log(logging.ERROR, line)
    assert [(record.levelno, record.message) for record in caplog.records] == [(level, line)]


@pytest.mark.parametrize(
    "line",
    [
        "FATAL [c] [thrd:main]: Fatal error: Local: Fatal error: This instance has been fenced by a newer instance",
        "ADDPARTS [c] [thrd:main]: Failed to add partitions: Broker: Producer attempted an operation with an old epoch",
        "TXNERR [c] [thrd:main]: Current transaction failed in state InTransaction: Failed to add partitions",
    ],
)
def test_a_producer_fenced_by_another_that_changes_the_registry_too_is_no_news(
    caplog: pytest.LogCaptureFixture, line: str
) -> None:
    """Three workers that started at once warned of a fatal error, and nothing was wrong."""
    caplog.set_level(logging.DEBUG, logger="jbm_kafka.kafka")
    ClientLog(is_contended=True).log(logging.CRITICAL, line)
    ClientLog().log(logging.CRITICAL, line)
    # Where it is news a line of ours tells it, and what to do (TwinLines).
    assert [record.levelno for record in caplog.records] == [logging.DEBUG, logging.INFO]


def test_two_workers_with_one_transactional_id_filled_the_log_with_fatal_errors(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="jbm_kafka.kafka")
    log = ClientLog(CountedLines(lambda: 0))
    fatal = "FATAL [c#producer-%d] [thrd:main]: Fatal error: Local: This instance has been fenced by a newer instance"
    for number in range(50):
        log.log(logging.CRITICAL, fatal, number)
    assert caplog.messages == [fatal % 0]


def test_a_restart_of_a_broker_was_two_hundred_lines_of_librdkafkas(caplog: pytest.LogCaptureFixture) -> None:
    """Each client said ten times a second that it has no coordinator yet, and of each partition that none leads it."""
    caplog.set_level(logging.INFO, logger="jbm_kafka.kafka")
    now_ms = 5_000
    counted = CountedLines(lambda: now_ms)
    one, other = ClientLog(counted), ClientLog(counted, is_contended=True)
    pid = "GETPID [jbm-kafka#producer-%d] [thrd:main]: Failed to acquire transactional PID: Not coordinator: retrying"
    leader = "METADATAUPDATE [c] [thrd:main]: Partition orders(x)[%d]: new leader-1 not found in cache"
    for number in range(50):
        one.log(logging.INFO, pid, number)
        one.log(logging.WARNING, leader, number)
        one.log(logging.DEBUG, "REQTMOUT [c] [thrd:x]: a request")
        other.log(logging.INFO, pid, number)
        now_ms += 20
    assert caplog.messages == [pid % 0, leader % 0]
    now_ms += INTERVAL_MS
    for _ in range(2):
        counted.tell_due()
    assert caplog.messages[2:] == [
        "GETPID: 49 more such lines within 31.0 s",
        "METADATAUPDATE: 49 more such lines within 31.0 s",
    ]
    one.log(logging.WARNING, "TXNERR [c] [thrd:main]: Current transaction failed")
    one.log(logging.WARNING, "TXNERR [c] [thrd:main]: Current transaction failed")
    assert len(caplog.messages) == 6, "what may say something else each time has a line each time"


def test_a_client_that_saw_an_outage_does_not_tell_of_it_when_it_is_over(caplog: pytest.LogCaptureFixture) -> None:
    """`no Kafka broker answers` came a millisecond after `Kafka answers again`, and was the last word for ever."""
    caplog.set_level(logging.INFO, logger="jbm_kafka.kafka")
    now_s = 100.0
    lines = OutageLines(lambda: now_s)
    lines.answered()
    lines.silent()
    lines.answered()
    lines.down("of a client that was idle meanwhile")
    assert caplog.messages == []
    now_s += OUTAGE_SILENCE_S
    for _ in range(3):
        lines.down("all are down")
    lines.answered()
    lines.down("of a client that was idle meanwhile")
    lines.answered()
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("INFO", "no Kafka broker answers; clients keep trying (all are down)"),
        ("INFO", "a Kafka broker answers again"),
    ]


def test_a_client_whose_idle_connections_a_broker_closed_said_that_no_broker_answers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Brokers do so after ten minutes, and who was used next, as to read a changelog anew, told of an outage."""
    caplog.set_level(logging.DEBUG, logger="jbm_kafka.kafka")
    with local_broker(tmp_path, {"connections.max.idle.ms": "1000"}) as broker:
        admin = ConfluentKafka(broker.bootstrap).admin()
        idle = Producer(common_settings(broker.bootstrap, {}))
        idle.list_topics(timeout=WAIT_S)

        def is_alone() -> bool:
            admin.check_answered(WAIT_S)
            idle.poll(0)
            return "brokers are down" in caplog.text

        wait_until(is_alone, about="a client without a connection", timeout_s=WAIT_S)
        admin.check_answered(WAIT_S)
        idle.close()
        admin.close()
    assert [row.message for row in caplog.records if row.levelno > logging.DEBUG] == []


def test_what_a_client_says_while_questions_are_answered_is_told_when_the_next_one_is_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An outage begins so: the last answer is half a second old."""
    caplog.set_level(logging.INFO, logger="jbm_kafka.kafka")
    now_s = 100.0
    lines = OutageLines(lambda: now_s)
    lines.answered()
    lines.down("1/1 brokers are down")
    lines.answered()
    lines.silent()
    lines.answered()
    assert caplog.messages == []
    now_s += OUTAGE_SILENCE_S
    lines.answered()
    lines.down("1/1 brokers are down")
    assert caplog.messages == []
    now_s += 1.0
    lines.silent()
    lines.silent()
    lines.answered()
    assert caplog.messages == [
        "no Kafka broker answers; clients keep trying (1/1 brokers are down)",
        "a Kafka broker answers again",
    ]


def test_an_outage_that_two_clients_tell_of_has_one_line(caplog: pytest.LogCaptureFixture) -> None:
    """It had two within a second: what the first had said was kept back, and told as well."""
    caplog.set_level(logging.INFO, logger="jbm_kafka.kafka")
    now_s = 100.0
    lines = OutageLines(lambda: now_s)
    lines.answered()
    lines.down("0/2 brokers are down")
    now_s += ANSWERED_LATELY_S
    lines.down("1/1 brokers are down")
    now_s += 1.0
    lines.silent()
    assert caplog.messages == ["no Kafka broker answers; clients keep trying (1/1 brokers are down)"]


def test_another_cluster_that_answers_ends_no_outage(caplog: pytest.LogCaptureFixture) -> None:
    """In a process with two, the end of an outage was told every half minute while it lasted."""
    caplog.set_level(logging.INFO, logger="jbm_kafka.kafka")
    here, there = (
        common_settings(bootstrap, {})["error_cb"] for bootstrap in ("here.invalid:9092", "there.invalid:9092")
    )
    for tell in (here, there):
        tell(KafkaError(KafkaError._ALL_BROKERS_DOWN))
    outage_at("there.invalid:9092").answered()
    assert [record.message.partition(";")[0] for record in caplog.records] == [
        "no Kafka broker answers",
        "no Kafka broker answers",
        "a Kafka broker answers again",
    ]
    outage_at("there.invalid:9092").answered()
    outage_at("here.invalid:9092").answered()
    assert [record.message for record in caplog.records[3:]] == ["a Kafka broker answers again"]


def test_a_question_about_no_partition_ends_no_outage(caplog: pytest.LogCaptureFixture) -> None:
    """A process that had lost its partitions said that a broker answers again, ten seconds into every outage."""
    caplog.set_level(logging.INFO, logger="jbm_kafka.kafka")
    nobody = "nobody.invalid:9092"
    common_settings(nobody, {})["error_cb"](KafkaError(KafkaError._ALL_BROKERS_DOWN))
    admin = ConfluentKafka(nobody).admin()
    assert (admin.end_positions("t", [], stable=True), admin.end_positions("t", [], stable=False)) == ({}, {})
    admin.close()
    assert [record.message.partition(";")[0] for record in caplog.records] == ["no Kafka broker answers"]


def _in_fork(kafka: ConfluentKafka, answers: "multiprocessing.SimpleQueue[str]") -> None:
    told = []
    for make in (kafka.sender, kafka.admin, kafka.log_reader, lambda: ConfluentKafka("localhost:9092")):
        try:
            make()
        except IllegalStateError as error:
            told.append(str(error))
    answers.put("\n".join(told))


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_fork_of_a_process_with_clients_is_refused_its_own() -> None:
    """It hung at their close, or died of SIGSEGV."""
    kafka = ConfluentKafka("localhost:9092")
    kafka.admin()
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()
    child = context.Process(target=_in_fork, args=(kafka, answers))
    child.start()
    lines = answers.get().splitlines()
    child.join(WAIT_S)
    assert len(lines) == 4
    assert all(str(os.getpid()) in line and "fork before the first connection" in line for line in lines)


def test_plain_sends_wait_for_all_replicas_and_are_written_once() -> None:
    """Of SEND-1: with acks=1 a send that was reported could be lost with one broker, and a retry could double it."""
    settings = sender_settings(2**20)
    assert (settings["acks"], settings["enable.idempotence"]) == ("all", True)


@pytest.mark.parametrize("name", ["message.timeout.ms", "delivery.timeout.ms"])
def test_the_time_of_a_send_is_told_to_be_fixed(name: str) -> None:
    """It named an argument that no user has."""
    with pytest.raises(InvalidSettingError, match="it is fixed: a send that is not confirmed within 30 s is given up"):
        ConfluentKafka("localhost:9092", {name: 1_000})
