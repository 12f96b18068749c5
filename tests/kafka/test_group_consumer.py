"""Contract: a member reads from the positions its listener gives, and only while and where it is told to."""

import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence

import pytest

from jbm_kafka.ports import GroupFenced, Kafka, KafkaClientError, Outgoing, PositionOutOfRange, UnknownTopic
from tests.kafka.world import (
    Listener,
    World,
    consume_nothing,
    consume_records,
    consume_some,
    consume_until,
    member,
    numbered,
    offsets,
    producer,
    send_all,
    values,
)


def test_a_member_reads_from_the_positions_its_listener_gives(kafka: Kafka, wide_topic: str, kafka_name: str) -> None:
    for partition in range(4):
        send_all(kafka, numbered(wide_topic, range(10 * partition, 10 * partition + 10), partition))
    consumer = member(kafka, kafka_name, wide_topic, Listener({0: 7, 1: 10, 2: 0, 3: 9}))
    records = consume_records(consumer, 14)
    found = {p: values([r for r in records if r.partition() == p]) for p in range(4)}
    assert found == {0: [7, 8, 9], 1: [], 2: list(range(20, 30)), 3: [39]}
    consume_nothing(consumer)
    consumer.close()


def test_a_partition_without_a_position_waits_for_its_seek(kafka: Kafka, wide_topic: str, kafka_name: str) -> None:
    for partition in range(4):
        send_all(kafka, numbered(wide_topic, [partition], partition))
    consumer = member(kafka, kafka_name, wide_topic, Listener({2: 0}))
    assert values(consume_records(consumer, 1)) == [2]
    consume_nothing(consumer)
    consumer.resume([0, 1])  # nothing to resume: they have not been started
    consume_nothing(consumer)
    consumer.seek(3, 0)
    assert values(consume_records(consumer, 1)) == [3]
    consumer.pause([1])
    consumer.seek(1, 0)
    consume_nothing(consumer)
    consumer.resume([1])
    assert values(consume_records(consumer, 1)) == [1]
    consumer.close()


@pytest.mark.parametrize("way", ["seek", "resume"])
def test_a_started_partition_is_read_at_once(kafka: Kafka, topic: str, kafka_name: str, way: str) -> None:
    send_all(kafka, numbered(topic, range(5)))
    consumer = member(kafka, kafka_name, topic, Listener({} if way == "seek" else {0: 5}))
    consume_until(lambda: bool(consumer.assignment()), consumer)

    def seconds_to_read() -> float:
        if way == "resume":
            consumer.pause([0])
            send_all(kafka, numbered(topic, [5]))
        consume_nothing(consumer)
        begin = time.monotonic()
        if way == "seek":
            consumer.seek(0, 4)
        else:
            consumer.resume([0])
        consume_records(consumer, 1)
        return time.monotonic() - begin

    took_s = [seconds_to_read() for _ in range(4)]
    assert min(took_s) < 0.5, took_s  # it was a second before librdkafka's thread was woken
    consumer.close()


def test_a_member_does_not_stand_still_while_its_partitions_are_resumed(
    kafka: Kafka, wide_topic: str, kafka_name: str
) -> None:
    """It waited up to 50 ms for each, behind the fetch that waits for messages: 0.4 s when 8 partitions started.

    Of ten only three have to show it, for a machine may be busy.
    """
    consumer = member(kafka, kafka_name, wide_topic, Listener(dict.fromkeys(range(4), 0)))
    consume_until(lambda: len(consumer.assignment()) == 4, consumer)
    took_s: list[float] = []
    for _ in range(10):
        consumer.pause([3])
        consume_nothing(consumer, 0.1)
        begin = time.perf_counter()
        consumer.resume([3])
        took_s.append(time.perf_counter() - begin)
    consumer.close()
    assert sorted(took_s)[2] < 0.01, took_s


def test_a_seek_right_after_the_assignment_is_honoured(kafka: Kafka, topic: str, kafka_name: str) -> None:
    send_all(kafka, numbered(topic, range(5)))
    consumer = member(kafka, kafka_name, topic, Listener({}))
    while not consumer.assignment():
        consumer.consume(1, 0.01)
    consumer.seek(0, 3)
    assert offsets(consume_records(consumer, 2)) == [3, 4]
    consumer.close()


def test_pause_resume_and_seek_lose_and_repeat_nothing(kafka: Kafka, topic: str, kafka_name: str) -> None:
    send_all(kafka, numbered(topic, range(100)))
    consumer = member(kafka, kafka_name, topic)
    assert values(consume_records(consumer, 10)) == list(range(10))
    consumer.pause([0])
    consume_nothing(consumer)
    consumer.resume([0])
    assert values(consume_records(consumer, 30)) == list(range(10, 40))
    consumer.seek(0, 5)
    assert values(consume_records(consumer, 95)) == list(range(5, 100))
    consumer.pause([0])
    consumer.seek(0, 98)
    consume_nothing(consumer)
    consumer.resume([0])
    assert values(consume_records(consumer, 2)) == [98, 99]
    consumer.close()


def test_a_seek_to_a_partition_of_somebody_else_is_refused(kafka: Kafka, topic: str, kafka_name: str) -> None:
    consumer = member(kafka, kafka_name, topic)
    with pytest.raises(KafkaClientError, match="not assigned"):
        consumer.seek(0, 0)
    consumer.close()


def test_gaps_in_the_offsets_are_passed_over(kafka: Kafka, topic: str, kafka_name: str) -> None:
    transaction = producer(kafka)
    for number, is_kept in ((1, True), (2, False), (3, True)):
        transaction.begin()
        transaction.produce(numbered(topic, [number])[0])
        if is_kept:
            transaction.commit(20)
        else:
            end = kafka.admin().end_positions(topic, [0], stable=True)[0]
            kafka.log_reader().read(topic, {0: (end, end + 1)}, timeout_s=20, committed_only=False)
            transaction.abort(20)
    consumer = member(kafka, kafka_name, topic)
    records = consume_records(consumer, 2)
    assert (values(records), offsets(records)) == ([1, 3], [0, 4])
    consumer.close()
    transaction.close()


def test_a_position_below_the_log_is_told_and_waits_for_a_seek(
    world: World, kafka: Kafka, wide_topic: str, kafka_name: str
) -> None:
    send_all(kafka, numbered(wide_topic, range(10)))
    world.delete_before(wide_topic, 0, 4)
    consumer = member(kafka, kafka_name, wide_topic, Listener({0: 2, 1: 0}))
    with pytest.raises(PositionOutOfRange, match=r"\[0\]: position 2 is outside the log") as caught:
        consume_until(lambda: False, consumer)
    assert caught.value.partition == 0
    consume_nothing(consumer)
    send_all(kafka, numbered(wide_topic, [77], 1))
    assert values(consume_records(consumer, 1)) == [77]  # others go on
    consumer.seek(0, 4)
    assert values(consume_records(consumer, 6)) == list(range(4, 10))
    consumer.seek(0, 8)  # an ordinary seek works again
    assert values(consume_records(consumer, 2)) == [8, 9]
    consumer.close()


def test_a_position_above_the_log_is_told(kafka: Kafka, topic: str, kafka_name: str) -> None:
    send_all(kafka, numbered(topic, range(10)))
    consumer = member(kafka, kafka_name, topic, Listener({0: 11}))
    with pytest.raises(PositionOutOfRange):
        consume_until(lambda: False, consumer)
    consumer.close()


def test_a_missing_topic_is_told(kafka: Kafka, kafka_name: str) -> None:
    consumer = member(kafka, kafka_name, f"{kafka_name}-missing")
    with pytest.raises(UnknownTopic, match="missing"):
        consume_until(lambda: False, consumer)
    consumer.close()


def test_consume_returns_with_the_first_record_and_keeps_to_its_limit(
    kafka: Kafka, topic: str, kafka_name: str
) -> None:
    consumer = member(kafka, kafka_name, topic)
    consume_until(lambda: bool(consumer.assignment()), consumer)
    send_all(kafka, numbered(topic, range(5)))
    began = time.monotonic()
    batches = [offsets(consume_some(consumer, count_max)) for count_max in (1, 2)]
    assert batches in ([[0], [1]], [[0], [1, 2]])
    assert len(consume_records(consumer, 4 - len(batches[1]))) == 4 - len(batches[1])
    assert time.monotonic() - began < 10
    consumer.close()


@pytest.mark.parametrize(("rounds", "each"), [(10, 250), (1, 12_000)])
def test_no_partition_waits_for_the_end_of_another(kafka: Kafka, kafka_name: str, rounds: int, each: int) -> None:
    """However much there is of the others, more than fits into one fetch, in small batches or the largest we send."""
    partitions = range(8)
    kafka.admin().create_topic(kafka_name, partitions=len(partitions), config={})
    for _ in range(rounds):  # of bytes that do not become fewer
        bodies = [(partition, os.urandom(200)) for partition in partitions for _ in range(each)]
        send_all(kafka, [Outgoing(kafka_name, partition, None, body) for partition, body in bodies])
    starts = dict.fromkeys(partitions, 0)
    consumer = member(kafka, kafka_name, kafka_name, Listener(starts), partitions=len(partitions))
    heard: Counter[int | None] = Counter()
    while heard.total() < len(partitions) * rounds * each // 2 - 1_000:
        heard.update(record.partition() for record in consume_some(consumer, 500))
    assert heard.keys() == set(partitions)
    consumer.close()


def test_headers_come_as_they_were_written(kafka: Kafka, topic: str, kafka_name: str) -> None:
    headers = [("h", None), ("h", b"\xff\x00"), ("", b"nameless")]
    send_all(kafka, [Outgoing(topic, 0, None, b"", headers)])
    consumer = member(kafka, kafka_name, topic)
    assert list(consume_records(consumer, 1)[0].headers() or ()) == headers
    consumer.close()


def test_the_end_reached_is_the_stable_one_and_past_markers(kafka: Kafka, topic: str, kafka_name: str) -> None:
    transaction = producer(kafka)
    transaction.begin()
    transaction.produce(numbered(topic, [0])[0])
    transaction.commit(20)
    transaction.begin()
    transaction.produce(numbered(topic, [1])[0])
    kafka.log_reader().read(topic, {0: (2, 3)}, timeout_s=20, committed_only=False)
    consumer = member(kafka, kafka_name, topic)
    assert consumer.ends_reached() == {}
    assert values(consume_until(lambda: consumer.ends_reached() == {0: 2}, consumer)) == [0]
    transaction.commit(20)
    assert values(consume_until(lambda: consumer.ends_reached() == {0: 4}, consumer)) == [1]
    consumer.seek(0, 2)
    assert consumer.ends_reached() == {}
    assert values(consume_until(lambda: consumer.ends_reached() == {0: 4}, consumer)) == [1]
    consumer.close()
    transaction.close()


class _Raising(Listener):
    """Raises in the callbacks named."""

    def __init__(self, *names: str) -> None:
        super().__init__()
        self._names = names

    def on_assigned(self, partitions: Sequence[int]) -> Mapping[int, int]:
        super().on_assigned(partitions)
        if "assigned" in self._names:
            raise RuntimeError("cannot take them")
        return dict.fromkeys(partitions, 0)

    def on_revoked(self, partitions: Sequence[int]) -> None:
        super().on_revoked(partitions)
        if "revoked" in self._names:
            raise RuntimeError("cannot give them up")


def test_what_on_assigned_raises_comes_out_of_consume_and_the_partitions_wait(
    kafka: Kafka, topic: str, kafka_name: str
) -> None:
    send_all(kafka, numbered(topic, [1]))
    consumer = member(kafka, kafka_name, topic, _Raising("assigned"))
    with pytest.raises(RuntimeError, match="cannot take them"):
        consume_until(lambda: False, consumer)
    assert consumer.assignment() == {0}
    consume_nothing(consumer)
    consumer.seek(0, 0)
    assert values(consume_records(consumer, 1)) == [1]
    consumer.close()


def test_what_on_revoked_raises_comes_out_of_close_and_the_member_has_left(
    kafka: Kafka, topic: str, kafka_name: str
) -> None:
    consumer = member(kafka, kafka_name, topic, _Raising("revoked"))
    consume_until(lambda: bool(consumer.assignment()), consumer)
    with pytest.raises(RuntimeError, match="cannot give them up"):
        consumer.close()
    assert consumer.assignment() == frozenset()
    assert kafka.admin().group_members(kafka_name) == 0


def test_who_is_no_member_has_no_metadata(kafka: Kafka, topic: str, kafka_name: str) -> None:
    consumer = member(kafka, kafka_name, topic)
    with pytest.raises(GroupFenced, match=kafka_name):
        consumer.group_metadata()
    assert not consumer.joined()
    consumer.close()
