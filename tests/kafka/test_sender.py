"""Contract: plain sends are confirmed one by one, in order per partition, and a failure leaves no gap."""

import math
import os
import threading
import time

import pytest

from jbm_kafka.ports import Kafka, KafkaClientError, Outgoing, RecordTooLarge, UnknownTopic, Unreachable
from tests.kafka.world import WAIT_S, World, numbered, values

LONE_S = 0.001
"""As long as a sender would wait for company."""


def test_every_send_is_reported_once_on_another_thread_in_order_per_partition(kafka: Kafka, wide_topic: str) -> None:
    """SEND-9: reports never come on the caller's thread."""
    sender = kafka.sender()
    reported: list[tuple[int, object]] = []
    threads: set[threading.Thread] = set()

    def report(number: int, error: KafkaClientError | None) -> None:
        reported.append((number, error))
        threads.add(threading.current_thread())

    for number in range(200):
        record = Outgoing(wide_topic, number % 4, None, b"")
        sender.send(record, lambda error, number=number: report(number, error))  # type: ignore[misc]
    assert sender.flush(WAIT_S)
    assert sorted(reported) == [(number, None) for number in range(200)]
    for partition in range(4):
        assert [number for number, _ in reported if number % 4 == partition] == list(range(partition, 200, 4))
    assert threading.current_thread() not in threads
    sender.close(WAIT_S)


def test_a_send_nobody_waits_for_is_written_too(kafka: Kafka, topic: str) -> None:
    sender = kafka.sender()
    for record in numbered(topic, range(10)):
        sender.send(record, None)
    sender.close(WAIT_S)
    assert values(kafka.log_reader().read(topic, {0: (0, 10)}, timeout_s=WAIT_S)) == list(range(10))


def test_a_record_too_large_fails_alone(kafka: Kafka, kafka_name: str, topic: str) -> None:
    small = f"{kafka_name}-small"
    kafka.admin().create_topic(small, partitions=1, config={"max.message.bytes": "2000"})
    sender = kafka.sender()
    errors: dict[str, object] = {}
    sender.send(Outgoing(small, 0, None, os.urandom(5_000)), lambda error: errors.update(large=error))
    assert sender.flush(WAIT_S)
    sender.send(Outgoing(small, 0, None, b"small"), lambda error: errors.update(small=error))
    assert sender.flush(WAIT_S)
    sender.close(WAIT_S)
    assert isinstance(errors["large"], RecordTooLarge)
    assert small in str(errors["large"])
    assert errors["small"] is None


def test_a_send_to_a_missing_topic_is_told(kafka: Kafka, kafka_name: str) -> None:
    sender = kafka.sender()
    errors: list[object] = []
    sender.send(Outgoing(f"{kafka_name}-missing", 0, None, b""), errors.append)
    assert sender.flush(WAIT_S)
    sender.close(WAIT_S)
    assert [type(error) for error in errors] == [UnknownTopic]


def test_a_closed_sender_sends_no_more(kafka: Kafka, topic: str) -> None:
    sender = kafka.sender()
    assert sender.flush(0)
    sender.close(WAIT_S)
    with pytest.raises(KafkaClientError, match="closed"):
        sender.send(numbered(topic, [1])[0], None)


def test_a_report_that_raises_costs_no_other_report(kafka: Kafka, topic: str) -> None:
    sender = kafka.sender()
    errors: list[object] = []

    def broken(error: KafkaClientError | None) -> None:
        raise RuntimeError("a bug in somebody's callback")

    first, second, third = numbered(topic, range(3))
    sender.send(first, errors.append)
    sender.send(second, broken)
    sender.send(third, errors.append)
    assert sender.flush(WAIT_S)
    sender.close(WAIT_S)
    assert errors == [None, None]


def test_when_a_send_times_out_all_queued_ones_fail_and_later_ones_go_on(own_world: World, kafka_name: str) -> None:
    """SEND-4: nothing later overtakes a send that failed."""
    kafka = own_world.kafka(send_timeout_ms=2_000)
    kafka.admin().create_topic(kafka_name, partitions=2, config={})
    sender = kafka.sender()
    before: list[object] = []
    sender.send(Outgoing(kafka_name, 0, None, b"0"), before.append)
    assert sender.flush(WAIT_S)
    errors: list[object] = []
    with own_world.cut_off():
        for number in range(1, 51):
            sender.send(Outgoing(kafka_name, number % 2, None, str(number).encode()), errors.append)
        assert sender.flush(WAIT_S)
    assert before == [None]
    assert [type(error) for error in errors] == [Unreachable] * 50
    after: list[object] = []
    sender.send(Outgoing(kafka_name, 0, None, b"100"), after.append)
    assert sender.flush(WAIT_S)
    sender.close(WAIT_S)
    assert after == [None]
    end = kafka.admin().end_positions(kafka_name, [0], stable=True)[0]
    found = values(kafka.log_reader().read(kafka_name, {0: (0, end)}, timeout_s=WAIT_S))
    # What had been handed to the network may have been written all the same; then in order, and before what followed.
    assert found == sorted(found)
    assert found[0] == 0
    assert found[-1] == 100


def test_a_lone_send_does_not_wait_for_others_to_fill_its_batch(kafka: Kafka, topic: str) -> None:
    """SEND-1: it took 1.5 to 1.9 ms, of which it waited one for company; the quickest of many tells, on any machine.

    On a busy one it may take many more until one is not held up; of those that wait for company none ever is quick.
    """
    sender = kafka.sender()
    quickest_s = math.inf
    deadline = time.monotonic() + WAIT_S
    while quickest_s >= LONE_S and time.monotonic() < deadline:
        begin = time.perf_counter()
        reported = threading.Event()
        sender.send(numbered(topic, [0])[0], lambda _, reported=reported: reported.set())  # type: ignore[misc]
        assert reported.wait(WAIT_S)
        quickest_s = min(quickest_s, time.perf_counter() - begin)
    sender.close(WAIT_S)
    assert quickest_s < LONE_S


def test_the_first_send_does_not_wait_for_a_timer_of_librdkafka(kafka: Kafka, topic: str) -> None:
    """SEND-1: it waited 0.5 to 1 s for its producer's id, unless chance spared it; now 0.03 s. Of eight only three have
    to show it, for a machine may be busy.
    """
    took_s: list[float] = []
    for record in numbered(topic, range(8)):
        sender = kafka.sender()
        begin = time.perf_counter()
        reported = threading.Event()
        sender.send(record, lambda _, reported=reported: reported.set())  # type: ignore[misc]
        assert reported.wait(WAIT_S)
        took_s.append(time.perf_counter() - begin)
        sender.close(WAIT_S)
    assert sorted(took_s)[2] < 0.45, took_s
