"""Contract: a tail reader tells what is committed as it comes, from where it was told to, and where it stands."""

import time
from collections.abc import Callable, Sequence

import pytest

from jbm_kafka.ports import Kafka, KafkaRecord, Outgoing, PositionOutOfRange, TailReader, UnknownTopic
from tests.kafka.world import WAIT_S, World, numbered, producer, send_all, values


def poll_until(reader: TailReader, is_so: Callable[[Sequence[KafkaRecord]], bool]) -> list[KafkaRecord]:
    """Let it read until what it read so far is as wanted."""
    records: list[KafkaRecord] = []
    deadline = time.monotonic() + WAIT_S
    while not is_so(records):
        assert time.monotonic() < deadline, f"it never came about: {records}"
        records += reader.poll(100, 0.05)
    return records


def poll_records(reader: TailReader, count: int) -> list[KafkaRecord]:
    return poll_until(reader, lambda records: len(records) >= count)


def test_it_begins_where_it_is_told_and_goes_on_as_records_come(kafka: Kafka, topic: str) -> None:
    send_all(kafka, numbered(topic, [0, 1, 2]))
    reader = kafka.tail_reader()
    reader.assign(topic, {0: 1})
    assert reader.positions() == {0: 1}
    assert values(poll_records(reader, 2)) == [1, 2]
    assert reader.positions() == {0: 3}
    assert not reader.poll(10, 0.1)
    send_all(kafka, numbered(topic, [3]))
    assert values(poll_records(reader, 1)) == [3]
    assert reader.positions() == {0: 4}
    reader.close()


def test_no_more_records_come_than_are_asked_for_and_none_is_left_out(kafka: Kafka, topic: str) -> None:
    send_all(kafka, numbered(topic, range(25)))
    reader = kafka.tail_reader()
    reader.assign(topic, {0: 0})
    found: list[int] = []
    while len(found) < 25:
        records = values(reader.poll(4, WAIT_S))
        assert len(records) <= 4
        found += records
        assert reader.positions() == {0: len(found)}
    assert found == list(range(25))
    reader.close()


def test_what_a_transaction_holds_comes_when_it_is_committed_and_not_at_all_when_aborted(
    kafka: Kafka, topic: str
) -> None:
    reader = kafka.tail_reader()
    reader.assign(topic, {0: 0})
    transaction = producer(kafka)
    for number, end in ((1, transaction.commit), (2, transaction.abort)):
        transaction.begin()
        transaction.produce(numbered(topic, [number])[0])
        kafka.log_reader().read(topic, {0: (0, 2 * number - 1)}, timeout_s=WAIT_S, committed_only=False)
        assert not reader.poll(10, 0.2)
        assert reader.positions() == {0: 2 * number - 2}
        end(WAIT_S)
        position = 2 * number
        records = poll_until(reader, lambda _, position=position: reader.positions() == {0: position})  # type: ignore[misc]
        assert values(records) == ([1] if number == 1 else []), "and the position passes the marker"
    transaction.close()
    reader.close()


def test_a_mark_at_the_end_is_passed_when_its_news_comes_together_with_the_last_record(
    kafka: Kafka, topic: str
) -> None:
    """The position went back to behind the record and stayed there: whoever waited for the end waited for ever."""
    transaction = producer(kafka)
    transaction.begin()
    for record in numbered(topic, range(3)):
        transaction.produce(record)
    transaction.commit(WAIT_S)
    transaction.close()
    reader = kafka.tail_reader()
    reader.assign(topic, {0: 0})
    assert values(reader.poll(1, WAIT_S)) == [0]
    for _ in range(3):  # meanwhile the client hears that the log ends behind the mark
        kafka.log_reader().read(topic, {0: (0, 4)}, timeout_s=WAIT_S)
    assert values(poll_until(reader, lambda _: reader.positions() == {0: 4})) == [1, 2]
    reader.close()


def test_assigning_again_leaves_the_old_places(kafka: Kafka, wide_topic: str) -> None:
    for partition in range(3):
        send_all(kafka, numbered(wide_topic, range(5), partition))
    reader = kafka.tail_reader()
    reader.assign(wide_topic, {0: 0, 1: 0})
    poll_records(reader, 10)
    reader.assign(wide_topic, {1: 3, 2: 4})
    records = poll_records(reader, 3)
    assert sorted((record.partition(), record.offset()) for record in records) == [(1, 3), (1, 4), (2, 4)]
    assert reader.positions() == {1: 5, 2: 5}
    send_all(kafka, numbered(wide_topic, [9], 0))
    assert not reader.poll(10, 0.3)
    reader.close()


def test_a_position_outside_the_log_is_told_and_the_other_partitions_go_on(
    world: World, kafka: Kafka, wide_topic: str
) -> None:
    """Nothing is jumped over in silence: what lay below the start is gone, and somebody must be told."""
    for partition in (0, 1):
        send_all(kafka, numbered(wide_topic, range(5), partition))
    world.delete_before(wide_topic, 0, 3)
    reader = kafka.tail_reader()
    reader.assign(wide_topic, {0: 1, 1: 0, 2: 7})
    told: list[int] = []
    records: list[KafkaRecord] = []
    deadline = time.monotonic() + WAIT_S
    while len(told) < 2 or len(records) < 5:
        assert time.monotonic() < deadline, (told, records)
        try:
            records += reader.poll(100, 0.1)
        except PositionOutOfRange as error:
            told.append(error.partition)
    assert sorted(told) == [0, 2]
    assert {record.partition() for record in records} == {1}
    assert values(records) == [0, 1, 2, 3, 4]
    reader.assign(wide_topic, {0: 3})
    assert values(poll_records(reader, 2)) == [3, 4]
    reader.close()


def test_a_topic_that_is_not_there_is_told(kafka: Kafka, kafka_name: str) -> None:
    reader = kafka.tail_reader()
    reader.assign(f"{kafka_name}-missing", {0: 0})
    with pytest.raises(UnknownTopic, match=f"{kafka_name}-missing"):
        poll_until(reader, lambda _: False)
    reader.close()


def test_headers_keys_and_nulls_come_as_they_were_written(kafka: Kafka, topic: str) -> None:
    headers = [("repeated", b"1"), ("nothing", None), ("repeated", b"2")]
    send_all(kafka, [Outgoing(topic, 0, b"key", None, headers)])
    reader = kafka.tail_reader()
    reader.assign(topic, {0: 0})
    [record] = poll_records(reader, 1)
    assert (record.key(), record.value(), list(record.headers() or ())) == (b"key", None, headers)
    reader.close()
