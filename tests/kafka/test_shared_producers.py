"""Producers that connections share: what is overdue fails for its own connection alone, and order holds through it."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from jbm_kafka.kafka import ConfluentKafka
from jbm_kafka.ports import Kafka, KafkaClientError, Outgoing, RecordSender, Unreachable
from jbm_kafka.providers.plain_sends import PlainSends
from tests.kafka.world import WAIT_S, World, values
from tests.support.interrupts import interrupted_at, places
from tests.support.waiting import wait_until

TIMEOUT_MS = 3_000
MiB = 2**20
NOWHERE = "127.0.0.1:9"
Told = queue.Queue[KafkaClientError | None]


def topic_of(kafka: Kafka, name: str, partitions: int) -> str:
    kafka.admin().create_topic(name, partitions=partitions, config={})
    return name


def confirmed(sender: RecordSender, topic: str, number: int, partition: int = 0) -> None:
    told = Told()
    sender.send(record(topic, number, partition), told.put)
    assert told.get(timeout=WAIT_S) is None


def record(topic: str, number: int, partition: int = 0) -> Outgoing:
    return Outgoing(topic, partition, b"joe", str(number).encode())


def send_in_turn(sender: RecordSender, topic: str, numbers: Sequence[int], told: Told) -> None:
    for number in numbers:
        sender.send(record(topic, number), told.put)


def read(kafka: Kafka, topic: str) -> list[int]:
    end = kafka.admin().end_positions(topic, [0], stable=True)[0]
    return values(kafka.log_reader().read(topic, {0: (0, end)}, timeout_s=WAIT_S))


def test_an_overdue_send_fails_its_own_connections_later_ones_alone(own_world: World, kafka_name: str) -> None:
    """SEND-4: another connection's sends to the same partition have their own time, and keep their order."""
    kafka = own_world.kafka(send_timeout_ms=TIMEOUT_MS)
    topic = topic_of(kafka, kafka_name, 2)
    mine, others = kafka.sender(), kafka.sender()
    confirmed(mine, topic, 0)
    confirmed(others, topic, 1_000)
    failed, theirs, again = Told(), Told(), Told()
    with own_world.cut_off():
        mine.send(record(topic, 1), failed.put)
        threading.Event().wait(TIMEOUT_MS / 2_000)  # time must pass between the two
        mine.send(record(topic, 2), failed.put)
        for number in (1_001, 1_002):
            others.send(record(topic, number), theirs.put)
        failures = [failed.get(timeout=WAIT_S) for _ in range(2)]
        behind = [
            threading.Thread(target=send_in_turn, args=(mine, topic, (101, 102), again)),
            threading.Thread(target=send_in_turn, args=(others, topic, (1_003,), theirs)),
        ]
        for each in behind:  # they may have to wait until what failed is out of the way
            each.start()
    for each in behind:
        each.join()
    assert [type(each) for each in failures] == [Unreachable] * 2
    assert [again.get(timeout=WAIT_S) for _ in range(2)] == [None] * 2
    assert [theirs.get(timeout=WAIT_S) for _ in range(3)] == [None] * 3
    assert mine.flush(0)
    mine.close(WAIT_S)
    others.close(WAIT_S)
    found = read(kafka, topic)
    # What failed may have been written all the same; then in order, and before what was sent again.
    assert [number for number in found if number < 1_000 and number not in (1, 2)] == [0, 101, 102]
    assert [number for number in found if number < 1_000] == sorted(number for number in found if number < 1_000)
    assert [number for number in found if number >= 1_000] == [1_000, 1_001, 1_002, 1_003]


def test_a_connection_that_closes_gives_up_its_own_sends_alone(own_world: World, kafka_name: str) -> None:
    kafka = own_world.kafka()
    topic = topic_of(kafka, kafka_name, 1)
    mine, others = kafka.sender(), kafka.sender()
    confirmed(mine, topic, 0)
    confirmed(others, topic, 1)
    failed, theirs = Told(), Told()
    with own_world.cut_off():
        mine.send(record(topic, 2), failed.put)
        others.send(record(topic, 3), theirs.put)
        assert not mine.flush(0)
        mine.close(0)
        assert isinstance(failed.get(timeout=WAIT_S), Unreachable)
    assert theirs.get(timeout=WAIT_S) is None
    assert others.flush(0)
    others.close(WAIT_S)
    assert [number for number in read(kafka, topic) if number != 2] == [0, 1, 3]


def test_a_flush_waits_for_its_own_connections_sends_alone(own_world: World, kafka_name: str) -> None:
    kafka = own_world.kafka()
    topic = topic_of(kafka, kafka_name, 1)
    mine, others = kafka.sender(), kafka.sender()
    confirmed(mine, topic, 0)
    with own_world.cut_off():
        others.send(record(topic, 1), None)
        assert mine.flush(0)
        assert not others.flush(0)
    for sender in (mine, others):
        sender.close(WAIT_S)
    assert read(kafka, topic) == [0, 1]


def test_many_connections_have_no_more_threads_than_one(bootstrap: str, kafka_name: str) -> None:
    """They had nine each. The last one that closes ends all."""
    kafka = ConfluentKafka(bootstrap)
    topic = topic_of(kafka, kafka_name, 4)
    senders: list[RecordSender] = []

    def add() -> int:
        for linger_ms in (0, 4):
            senders.append(kafka.sender(linger_ms=linger_ms))
            for partition in range(4):
                confirmed(senders[-1], topic, 0, partition)
        return len(list(Path("/proc/self/task").iterdir()))

    before = add()
    after = [add() for _ in range(10)][-1]
    assert after <= before + 2, "librdkafka's own may come and go"
    assert sum(thread.name == "jbm-sender" for thread in threading.enumerate()) == 2
    for sender in senders:
        sender.close(WAIT_S)
    assert not any(thread.name == "jbm-sender" for thread in threading.enumerate())


def test_ctrl_c_while_a_producer_is_made_leaves_none_behind() -> None:
    """Its thread hung, or served for ever a connection that had never got it."""
    finished: list[int] = []
    for place in places(finished):
        sends = PlainSends(lambda linger_ms: ConfluentKafka(NOWHERE).sender(linger_ms=linger_ms))
        with suppress(KeyboardInterrupt):
            with interrupted_at(place):
                sends.prepare()
            finished.append(place)
        sends.close(0)
    assert len(finished) < place, "there are places to interrupt"
    wait_until(
        lambda: not any(thread.name == "jbm-sender" for thread in threading.enumerate()),
        about="a producer is left",
        timeout_s=WAIT_S,
    )


def test_a_partition_that_takes_nothing_leaves_room_for_other_connections() -> None:
    kafka = ConfluentKafka(NOWHERE, memory_bytes=MiB)
    stuck, other = kafka.sender(), kafka.sender()
    large = Outgoing("orders", 0, None, bytes(100_000))
    taken = 0
    while stuck.try_send(large, None):
        taken += 1
        assert taken <= 10
    assert taken, "a line that is empty takes what fits into the room"
    assert stuck.try_send(Outgoing("orders", 1, None, b""), None)
    assert other.try_send(large, None)
    stuck.close(0)
    other.close(0)


def test_what_failed_is_taken_out_of_the_shared_producer_while_others_go_on_sending() -> None:
    """SEND-4: else a broker that comes back an hour later would write it. There was no moment without others' sends."""
    kafka = ConfluentKafka(NOWHERE, send_timeout_ms=TIMEOUT_MS)
    told = Told()
    sender, *others = [kafka.sender() for _ in range(3)]
    sender.send(record("orders", 1), told.put)
    line = sender._lines["orders", 0]
    begin_s, was_abandoned = time.monotonic(), False
    while not (was_abandoned and not line.abandoned) and time.monotonic() < begin_s + WAIT_S:
        for number, other in enumerate(others, 1):
            if time.monotonic() > begin_s + number * TIMEOUT_MS / 3_000:  # each has another time until its own end
                other.try_send(record("orders", 0), None)
        was_abandoned = was_abandoned or line.abandoned > 0
        threading.Event().wait(0.02)
    assert was_abandoned
    assert not line.abandoned
    assert isinstance(told.get(timeout=WAIT_S), Unreachable)
    for each in (sender, *others):
        each.close(0)


def test_one_that_is_purged_takes_the_later_ones_along_and_each_is_told_once() -> None:
    """SEND-4: librdkafka may purge after `purge` has returned; what was sent later was written, and passed it."""
    sender, told = ConfluentKafka(NOWHERE).sender(), Told()
    for number in range(3):
        sender.send(record("orders", number), told.put)
    sender._shared.producer.purge()
    assert sender.flush(WAIT_S)
    failures = [str(told.get(timeout=WAIT_S)) for _ in range(3)]
    assert ["one that was given up" in failure for failure in failures] == [False, True, True]
    sender.close(WAIT_S)
    assert told.empty()
