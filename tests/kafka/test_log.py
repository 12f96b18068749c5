"""Contract: what is written is read, in order, each transaction whole or not at all, and gaps are nothing special."""

import pytest

from jbm_kafka.ports import Kafka, Outgoing, Unreachable
from tests.kafka.world import WAIT_S, World, numbered, offsets, producer, send_all, values


def test_a_record_is_read_as_it_was_written(kafka: Kafka, topic: str) -> None:
    headers = [("repeated", b"1"), ("nothing", None), ("repeated", b"2"), ("empty", b"")]
    send_all(kafka, [Outgoing(topic, 0, b"key", b"value", headers, 1_600_000_000_123)])
    [record] = kafka.log_reader().read(topic, {0: (0, 1)}, timeout_s=WAIT_S)
    assert (record.topic(), record.partition(), record.offset()) == (topic, 0, 0)
    assert (record.key(), record.value()) == (b"key", b"value")
    assert list(record.headers() or ()) == headers
    assert record.timestamp() == (1, 1_600_000_000_123)


def test_null_keys_null_values_and_no_headers_stay_what_they_are(kafka: Kafka, topic: str) -> None:
    send_all(kafka, [Outgoing(topic, 0, None, None), Outgoing(topic, 0, b"", b"")])
    first, second = kafka.log_reader().read(topic, {0: (0, 2)}, timeout_s=WAIT_S)
    assert (first.key(), first.value(), first.headers()) == (None, None, None)
    assert (second.key(), second.value()) == (b"", b"")


def test_records_of_a_partition_are_read_in_the_order_sent(kafka: Kafka, wide_topic: str) -> None:
    sent = [Outgoing(wide_topic, number % 4, None, str(number).encode()) for number in range(400)]
    send_all(kafka, sent)
    ranges = dict.fromkeys(range(4), (0, 100))
    records = kafka.log_reader().read(wide_topic, ranges, timeout_s=WAIT_S)
    for partition in range(4):
        found = values([record for record in records if record.partition() == partition])
        assert found == list(range(partition, 400, 4))


def test_a_committed_transaction_is_visible_and_its_marker_takes_an_offset(kafka: Kafka, topic: str) -> None:
    transaction = producer(kafka)
    for numbers, position in (([1, 2], 2), ([3], 4)):
        transaction.begin()
        for record in numbered(topic, numbers):
            transaction.produce(record)
        assert transaction.commit(WAIT_S) == {(topic, 0): position}
    admin = kafka.admin()
    assert admin.end_positions(topic, [0], stable=True) == {0: 5}
    records = kafka.log_reader().read(topic, {0: (0, 5)}, timeout_s=WAIT_S)
    assert values(records) == [1, 2, 3]
    assert offsets(records) == [0, 1, 3]
    transaction.close()


def test_an_aborted_transaction_is_seen_only_by_who_asks_for_it(kafka: Kafka, topic: str) -> None:
    transaction = producer(kafka)
    transaction.begin()
    transaction.produce(numbered(topic, [1])[0])
    _wait_written(kafka, topic, 1)
    transaction.abort(WAIT_S)
    send_all(kafka, numbered(topic, [2]))
    reader = kafka.log_reader()
    end = kafka.admin().end_positions(topic, [0], stable=True)[0]
    assert end == 3
    assert values(reader.read(topic, {0: (0, end)}, timeout_s=WAIT_S)) == [2]
    assert values(reader.read(topic, {0: (0, end)}, timeout_s=WAIT_S, committed_only=False)) == [1, 2]
    transaction.close()


def test_a_range_that_ends_in_a_marker_or_an_aborted_record_is_read_to_its_end(kafka: Kafka, topic: str) -> None:
    transaction = producer(kafka)
    transaction.begin()
    transaction.produce(numbered(topic, [1])[0])
    _wait_written(kafka, topic, 1)
    transaction.abort(WAIT_S)
    assert not kafka.log_reader().read(topic, {0: (0, 2)}, timeout_s=WAIT_S)
    transaction.close()


def test_an_open_transaction_holds_readers_back_until_it_ends(kafka: Kafka, topic: str) -> None:
    transaction = producer(kafka)
    transaction.begin()
    transaction.produce(numbered(topic, [1])[0])
    _wait_written(kafka, topic, 1)
    send_all(kafka, numbered(topic, [2]))
    admin, reader = kafka.admin(), kafka.log_reader()
    assert admin.end_positions(topic, [0], stable=True) == {0: 0}
    assert admin.end_positions(topic, [0], stable=False) == {0: 2}
    with pytest.raises(Unreachable, match=r"did not reach 2"):
        reader.read(topic, {0: (0, 2)}, timeout_s=0.3)
    transaction.commit(WAIT_S)
    assert values(reader.read(topic, {0: (0, 2)}, timeout_s=WAIT_S)) == [1, 2]
    transaction.close()


def test_reading_below_the_begin_of_the_log_begins_there(world: World, kafka: Kafka, topic: str) -> None:
    send_all(kafka, numbered(topic, range(10)))
    world.delete_before(topic, 0, 4)
    assert kafka.admin().begin_positions(topic, [0]) == {0: 4}
    assert values(kafka.log_reader().read(topic, {0: (2, 8)}, timeout_s=WAIT_S)) == [4, 5, 6, 7]


def test_one_reader_reads_again_and_elsewhere(kafka: Kafka, wide_topic: str) -> None:
    for partition in range(4):
        send_all(kafka, numbered(wide_topic, range(partition + 1), partition))
    reader = kafka.log_reader()
    assert len(reader.read(wide_topic, {0: (0, 1), 3: (0, 4)}, timeout_s=WAIT_S)) == 5
    assert values(reader.read(wide_topic, {3: (1, 3), 2: (2, 2)}, timeout_s=WAIT_S)) == [1, 2]
    assert values(reader.read(wide_topic, {0: (0, 1)}, timeout_s=WAIT_S)) == [0]
    reader.close()


def _wait_written(kafka: Kafka, topic: str, count: int) -> None:
    """A transaction's records are written in the background; wait for them."""
    kafka.log_reader().read(topic, {0: (0, count)}, timeout_s=WAIT_S, committed_only=False)
