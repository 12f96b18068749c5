"""What Kafka's own client finds in the topics: the judge of a failure test reads nothing else of ours."""

import io
import itertools
import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import fastavro
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]
from fastavro.schema import fingerprint, to_parsing_canonical_form

from jbm_kafka.core.murmur2 import partition_for
from tests.support.topics import ADMIN_TIMEOUT_S, admin_client
from tests.support.waiting import wait_until

SCHEMAS = Path(__file__).resolve().parents[2] / "schemas"
SINGLE_OBJECT_BYTES = 10
NOT_READY = (
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.OFFSET_NOT_AVAILABLE,
)
"""What a broker says of a partition shortly after its start."""
LATEST = OffsetSpec.latest()  # type: ignore[no-untyped-call]


def end_offsets(bootstrap: str, topic: str) -> Mapping[int, int]:
    """The stable end of each partition."""
    admin = admin_client(bootstrap)
    partitions = admin.list_topics(topic, timeout=ADMIN_TIMEOUT_S).topics[topic].partitions
    asked = {TopicPartition(topic, p): LATEST for p in partitions}
    ends = wait_until(
        lambda: _ends(admin, asked, IsolationLevel.READ_COMMITTED), about=f"ends of {topic}", timeout_s=ADMIN_TIMEOUT_S
    )
    return {partition: end for (_, partition), end in ends.items()}


def all_ends(bootstrap: str, *, stable: bool) -> Mapping[tuple[str, int], int]:
    """The end of each partition of each topic, Kafka's own included; empty while the broker is not ready to tell."""
    admin = admin_client(bootstrap)
    topics = admin.list_topics(timeout=ADMIN_TIMEOUT_S).topics
    asked = {TopicPartition(name, p): LATEST for name, topic in topics.items() for p in topic.partitions}
    level = IsolationLevel.READ_COMMITTED if stable else IsolationLevel.READ_UNCOMMITTED
    return _ends(admin, asked, level)


def _ends(
    admin: AdminClient, asked: Mapping[TopicPartition, OffsetSpec], level: IsolationLevel
) -> Mapping[tuple[str, int], int]:
    """By topic and partition; empty while the broker is not ready to tell."""
    futures = admin.list_offsets(dict(asked), isolation_level=level, request_timeout=ADMIN_TIMEOUT_S)
    try:
        return {(place.topic, place.partition): f.result(ADMIN_TIMEOUT_S).offset for place, f in futures.items()}
    except KafkaException as error:
        if error.args[0].code() not in NOT_READY:
            raise
        return {}


class OpenTransactions:
    """Looks for open transactions on one partition, fast enough to see one that lasts for moments."""

    def __init__(self, bootstrap: str, topic: str, partition: int = 0) -> None:
        self._admin = admin_client(bootstrap)
        self._place = TopicPartition(topic, partition)

    def is_there_one(self) -> bool:
        """Something is written that is neither committed nor aborted."""
        stable, written = (self._end(level) for level in IsolationLevel)
        return bool(stable.result(ADMIN_TIMEOUT_S).offset != written.result(ADMIN_TIMEOUT_S).offset)

    def _end(self, level: IsolationLevel) -> Any:
        asked = {self._place: LATEST}
        return self._admin.list_offsets(asked, isolation_level=level, request_timeout=ADMIN_TIMEOUT_S)[self._place]


def read_committed(bootstrap: str, topic: str) -> list[Message]:
    """Everything committed up to the stable end, by partition and offset."""
    ends = end_offsets(bootstrap, topic)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "chaos-judge",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 50,
        }
    )
    found: list[Message] = []
    try:
        positions = {p: _begin(consumer, topic, p) for p in ends}
        consumer.assign([TopicPartition(topic, p, position) for p, position in positions.items()])
        # Markers have offsets and are no messages: the position tells when the end is reached.
        while any(positions[p] < end for p, end in ends.items()):
            found += [message for message in consumer.consume(1000, 0.1) if _is_good(message)]
            for place in consumer.position([TopicPartition(topic, p) for p in ends]):
                positions[place.partition] = max(positions[place.partition], place.offset)
    finally:
        consumer.close()
    return sorted(found, key=lambda message: (message.partition(), message.offset()))


def _begin(consumer: Consumer, topic: str, partition: int) -> int:
    low, _ = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=ADMIN_TIMEOUT_S)
    return int(low)


def _is_good(message: Message) -> bool:
    error = message.error()
    assert error is None, error
    return True


def bodies(messages: Sequence[Message]) -> list[tuple[str, int]]:
    """(unit, number) of each."""
    rows = [json.loads(message.value() or b"") for message in messages]
    return [(row["unit"], row["number"]) for row in rows]


def group_of(queue: str) -> str:
    """The queue's consumer group; or the group itself, where that is given."""
    if queue.startswith("jbm."):
        return queue
    return f"jbm.queue.{escaped(queue)}"


def escaped(name: str) -> str:
    """A name of ASCII as it stands in that of a group."""
    return "".join(c if c.isalnum() else f"%{ord(c):02X}" for c in name)


def committed_offsets(bootstrap: str, queue: str, admin: AdminClient | None = None) -> Mapping[int, int]:
    """Of the queue's group."""
    admin = admin or admin_client(bootstrap)
    asked = [ConsumerGroupTopicPartitions(group_of(queue))]
    [future] = admin.list_consumer_group_offsets(asked).values()
    return {place.partition: place.offset for place in future.result(ADMIN_TIMEOUT_S).topic_partitions}


def lag_of(bootstrap: str, topic: str, group: str | None = None) -> int:
    """How many messages lie between the group's committed offsets, of a queue's without one, and the topic's ends.

    A consumer asks, which joins nothing: where a coordinator has just moved, `list_consumer_group_offsets` ends the
    process (librdkafka's issue 5040).
    """
    ends = end_offsets(bootstrap, topic)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group_of(group or topic), "log_level": 0})
    try:
        places = consumer.committed([TopicPartition(topic, p) for p in ends], timeout=ADMIN_TIMEOUT_S)
    finally:
        consumer.close()
    return sum(ends[place.partition] - max(place.offset, 0) for place in places)


def channel_events(bootstrap: str, queue: str) -> list[dict[str, Any]]:
    """What every committed checkpoint says it did to the queue, decoded by Avro alone."""
    found = read_committed(bootstrap, "jbm.events")
    return [_decode("ChannelEvents", message) for message in found if message.key() == group_of(queue).encode()]


def checkpoint_writers(bootstrap: str, queue: str) -> list[str]:
    """The transactional ids that wrote the changelog's positions, oldest first by partition."""
    found = read_committed(bootstrap, f"{queue}.jbm-changelog")
    positions = [m for m in found if m.value() is not None and (m.key() or b"").split(b"|")[1] == b"position"]
    return [_decode("Position", message)["checkpoint_id"].rpartition(":")[0] for message in positions]


def _decode(name: str, message: Message) -> dict[str, Any]:
    """By the schema whose fingerprint stands in front: an older version may have written it."""
    value = message.value() or b""
    row = fastavro.schemaless_reader(io.BytesIO(value[SINGLE_OBJECT_BYTES:]), _schemas(name)[value[2:10]], None)
    assert isinstance(row, dict)
    return row


@cache
def _schemas(name: str) -> Mapping[bytes, Any]:
    """Today's schema of the record and the released ones, by fingerprint."""
    files = [SCHEMAS / f"{name}.avsc", *(SCHEMAS / "released").glob(f"{name}.*.avsc")]
    texts = [json.loads(file.read_text()) for file in files]
    return {
        bytes.fromhex(fingerprint(to_parsing_canonical_form(text), "CRC-64-AVRO")): fastavro.parse_schema(text)
        for text in texts
    }


def unit_of(partition: int, partitions: int) -> str:
    """A unit that its hash puts into the partition, of so many."""
    names = (f"u{number}" for number in itertools.count())
    return next(name for name in names if partition_for(name.encode(), partitions) == partition)


def send_to_each(bootstrap: str, topic: str, text: str, *, partitions: int) -> None:
    """One message to each partition, always of the same unit there."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for partition in range(partitions):
        unit = unit_of(partition, partitions)
        producer.produce(topic, value=text, key=unit, partition=partition, headers=[("JBMBody", b"text")])
    assert producer.flush(30) == 0


def group_members(bootstrap: str, queue: str) -> Mapping[str, int]:
    """Members of the queue's group, also those who wait to join: how many partitions each has."""
    admin = admin_client(bootstrap)  # named, because its futures never end when nobody holds the client
    [future] = admin.describe_consumer_groups([group_of(queue)]).values()
    found = future.result(ADMIN_TIMEOUT_S)
    return {m.member_id: len(m.assignment.topic_partitions) for m in found.members if m.member_id}


def send_texts(bootstrap: str, topic: str, texts: Sequence[str], *, unit: str | None = None) -> None:
    """To partition 0, in order."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for text in texts:
        producer.produce(topic, value=text, key=unit, partition=0, headers=[("JBMBody", b"text")])
    assert producer.flush(30) == 0
