"""Records that librdkafka cannot read, told by it as an error between others: what is behind them must wait."""

import logging
from collections.abc import Sequence
from typing import Any

import pytest
from confluent_kafka import KafkaError, Message, TopicPartition

from jbm_kafka.kafka import group_consumer, log_reader
from jbm_kafka.kafka.group_consumer import ConfluentGroupConsumer
from jbm_kafka.kafka.log_reader import ConfluentLogReader
from jbm_kafka.ports import PartitionGone, PartitionUnreadable
from tests.kafka.world import Listener, offsets

SETTINGS: dict[str, Any] = {"error_cb": lambda _: None, "logger": logging.getLogger(__name__)}


class Client:
    """In place of librdkafka's consumer, whose messages are given; a broker would have to be damaged on its disk."""

    def __init__(self, settings: object) -> None:
        self.batches: list[list[Message]] = []
        self.paused: list[int] = []

    def list_topics(self, topic: str, timeout: float) -> None:
        return None

    def assign(self, places: object) -> None:
        return None

    def unassign(self) -> None:
        return None

    def subscribe(self, topics: Sequence[str], **callbacks: Any) -> None:
        callbacks["on_assign"](self, [TopicPartition(topics[0], partition) for partition in (0, 1)])

    def incremental_assign(self, places: object) -> None:
        return None

    def pause(self, places: Sequence[TopicPartition]) -> None:
        self.paused += [place.partition for place in places]

    def resume(self, places: Sequence[TopicPartition]) -> None:
        self.paused = [partition for partition in self.paused if partition not in [p.partition for p in places]]

    def get_watermark_offsets(self, place: object, timeout: float) -> None:
        return None

    def poll(self, timeout: float) -> Message | None:
        return self.batches[0].pop(0) if self.batches else None

    def consume(self, count: int, timeout: float) -> list[Message]:
        return self.batches.pop(0)

    def close(self) -> None:
        return None


def record(partition: int, offset: int, code: int | None = None) -> Message:
    error = None if code is None else KafkaError(code)
    return Message(topic="t", partition=partition, offset=offset, error=error)


@pytest.mark.parametrize("code", [KafkaError._BAD_MSG, KafkaError._BAD_COMPRESSION, KafkaError._NOT_IMPLEMENTED])
def test_a_damaged_record_is_no_gap_that_is_settled(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """MSG-2: what could not be read counted as an offset without a message; the watermark went past it."""
    monkeypatch.setattr(group_consumer, "Consumer", Client)
    listener = Listener({0: 0, 1: 0})
    consumer = ConfluentGroupConsumer(SETTINGS, group="g", topic="t", listener=listener, bootstrap="b")
    client: Any = consumer._consumer
    client.batches = [[record(0, 4), record(0, 5, code), record(0, 9), record(1, 3)], [record(0, 10), record(1, 4)]]
    with pytest.raises(PartitionUnreadable, match=r"t\[0\] offset 5: .* kafka-delete-records") as raised:
        consumer.consume(10, 0)
    assert raised.value.partition == 0
    consumer.resume([0, 1])
    assert client.paused == [0], "nothing but a new assignment starts it again"
    found = consumer.consume(2, 0)
    assert offsets(found) == [4, 3], "what is before it is handed over, and other partitions go on"
    assert offsets(consumer.consume(10, 0)) == [4]
    consumer.close()


@pytest.mark.parametrize("code", [KafkaError._BAD_MSG, KafkaError._BAD_COMPRESSION, KafkaError._NOT_IMPLEMENTED])
def test_a_reader_by_position_leaves_out_no_damaged_record(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """MSG-2: a recovery read on behind them, and so did not know what was settled and held."""
    monkeypatch.setattr(log_reader, "Consumer", Client)
    reader = ConfluentLogReader({}, bootstrap="b")
    client: Any = reader._consumer(True)
    client.batches = [[record(0, 4), record(0, 5, code), record(0, 9)], [], [record(0, 10)]]
    with pytest.raises(PartitionUnreadable, match=r"t\[0\] offset 5: .* kafka-delete-records") as raised:
        reader.read("t", {0: (4, 11)}, timeout_s=1.0)
    assert raised.value.partition == 0


def test_an_error_that_passes_leaves_no_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    """MSG-2: every error told between records counted as where its partition ends, and what came later was not read."""
    monkeypatch.setattr(log_reader, "Consumer", Client)
    reader = ConfluentLogReader({}, bootstrap="b")
    client: Any = reader._consumer(True)
    client.batches = [[record(0, 4), record(0, 6, KafkaError._TRANSPORT)], [record(0, 5)]]
    assert offsets(reader.read("t", {0: (4, 6)}, timeout_s=1.0)) == [4, 5]
    monkeypatch.setattr(group_consumer, "Consumer", Client)
    consumer = ConfluentGroupConsumer(SETTINGS, group="g", topic="t", listener=Listener({0: 0, 1: 0}), bootstrap="b")
    client = consumer._consumer
    client.batches = [[record(0, 4), record(0, 6, KafkaError._TRANSPORT)], [record(0, 5)]]
    assert offsets([*consumer.consume(10, 0), *consumer.consume(10, 0)]) == [4, 5]
    assert consumer.ends_reached() == {}


def test_a_partition_that_a_topic_made_anew_has_no_more_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of LOG-4: it counted as an unknown topic, which ended the group worker of the partitions there are."""
    monkeypatch.setattr(group_consumer, "Consumer", Client)
    consumer = ConfluentGroupConsumer(SETTINGS, group="g", topic="t", listener=Listener({0: 0, 1: 0}), bootstrap="b")
    client: Any = consumer._consumer
    client.batches = [[record(0, 4), record(1, -1001, KafkaError._UNKNOWN_PARTITION)], []]
    with pytest.raises(PartitionGone, match=r"t\[1\]: the topic was made anew with fewer partitions") as raised:
        consumer.consume(10, 0)
    assert raised.value.partition == 1
    assert offsets(consumer.consume(1, 0)) == [4]
    consumer.close()
