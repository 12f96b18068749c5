"""A queue whose records a test writes itself: its messages, and what a worker at fault would have recorded of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from confluent_kafka import OFFSET_END, Producer, TopicPartition
from pyroaring import BitMap

from jbm_kafka.codec.changelog import encode_entry
from jbm_kafka.codec.dead_letter import dead_letter_headers
from jbm_kafka.codec.events import encode_events
from jbm_kafka.core.channel.entries import (
    ChannelEvents,
    DeliveryRun,
    MessageEvent,
    MessageFate,
    OffsetRange,
    Position,
    Settled,
)
from jbm_kafka.core.destination import Queue
from jbm_kafka.core.murmur2 import partition_for
from jbm_kafka.registry.own_topics import events_topic
from jbm_kafka.registry.topic_configs import SYSTEM_PARTITIONS
from jbm_spark.topic_check import topic_ids
from tests.support.topics import admin_client, create_topic

SENT_MS = 1_700_000_000_000


@dataclass
class Planted:
    """One partition of a queue in a namespace of its own. Instants are ms behind `sent_ms`."""

    bootstrap: str
    namespace: str
    name: str | None = None
    """Of one more queue in a namespace that has one; None: the first."""
    sent_ms: int = SENT_MS
    queue: Queue = field(init=False)
    dead_letters: Queue = field(init=False)
    topic_id: str = ""
    """As the records tell it; the topic's own."""

    def __post_init__(self) -> None:
        self.queue, self.dead_letters = Queue(self.name or f"{self.namespace}-q"), Queue(f"{self.namespace}-dlq")
        if self.name is None:
            create_topic(self.bootstrap, events_topic(self.namespace), partitions=SYSTEM_PARTITIONS,
                         config={"retention.ms": "-1"})  # fmt: skip
            create_topic(self.bootstrap, self.dead_letters.name, config={"retention.ms": "-1"})
        create_topic(self.bootstrap, self.queue.changelog_topic(self.namespace), config={"retention.ms": "-1"})
        self.make_topic()

    def make_topic(self) -> None:
        """The topic of the messages."""
        create_topic(self.bootstrap, self.queue.name, config={"retention.ms": "-1"})
        [self.topic_id] = topic_ids([self.queue.name], about="look", bootstrap=self.bootstrap).values()

    def send(
        self, units: Sequence[str | None], headers: Mapping[int, Mapping[str, int]], at: Mapping[int, int] | None = None
    ) -> None:
        """A message for each unit; `headers` by offset, and when it was sent, if later than the others."""
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for offset, unit in enumerate(units):
            sent_ms = self.sent_ms + (at or {}).get(offset, 0)
            told = [(name, b"%d" % value) for name, value in headers.get(offset, {}).items()]
            producer.produce(self.queue.name, key=None if unit is None else unit.encode(), value=b"body",
                             headers=[("JMSMessageID", b"ID:%d" % offset), *told], timestamp=sent_ms)  # fmt: skip
        assert producer.flush(60) == 0

    def settle(self, *, below: int, also: Sequence[int]) -> None:
        """In the changelog."""
        group = self.queue.group_id(self.namespace)
        position = Position(self.topic_id, "jbm.x:9", below, 1_000, 1_000, 0)
        entries = [encode_entry(group, each) for each in (position, Settled(0, bytes(BitMap(also).serialize())))]
        self._write(self.queue.changelog_topic(self.namespace), entries)

    def checkpoint(
        self, number: int, at: int, *, acknowledged: Sequence[int] = (), messages: Sequence[MessageEvent] = (),
        given: Sequence[DeliveryRun] = (),
    ) -> None:  # fmt: skip
        """Its record in jbm.events."""
        told = ChannelEvents(
            group=self.queue.group_id(self.namespace),
            topic=self.queue.name,
            partition=0,
            checkpoint_id=f"jbm.x:{number}",
            at_ms=self.sent_ms + at,
            acknowledged=tuple(OffsetRange(each, each) for each in acknowledged),
            messages=tuple(messages),
            topic_id=self.topic_id,
            deliveries=tuple(given),
        )
        self._write_events(told)

    def letter(self, offset: int, *, partition: int = 0, at: int | None = None) -> None:
        """A dead letter; `at`: when its record was written."""
        headers = dead_letter_headers(
            [], destination=self.queue, message_id=f"ID:{offset}", partition=0, offset=offset, delivery_count=3,
            reason="max-delivery-attempts", topic_id=self.topic_id,
        )  # fmt: skip
        producer = Producer({"bootstrap.servers": self.bootstrap})
        written_ms = 0 if at is None else self.sent_ms + at
        producer.produce(self.dead_letters.name, b"body", None, partition, headers=[*headers], timestamp=written_ms)
        assert producer.flush(60) == 0

    def moved_letter(self, offset: int, at: int) -> None:
        """What is told of a dead letter that an operator moved away; `offset` is its own."""
        [topic_id] = topic_ids([self.dead_letters.name], about="look", bootstrap=self.bootstrap).values()
        moved = self.ended(MessageFate.MOVED, offset, target="queue:elsewhere")
        told = ChannelEvents(
            self.dead_letters.group_id(self.namespace), self.dead_letters.name, 0, "jbm.y:1", self.sent_ms + at, (),
            (moved,), topic_id,
        )  # fmt: skip
        self._write_events(told)

    def delete_events(self) -> None:
        """As Kafka does after seven days."""
        for partition in range(SYSTEM_PARTITIONS):
            self._delete(events_topic(self.namespace), partition, OFFSET_END)

    def delete_letters(self, partition: int, before: int) -> None:
        """As truncation does when they were received."""
        self._delete(self.dead_letters.name, partition, before)

    def delete_messages(self, before: int) -> None:
        """As truncation does when they are settled."""
        self._delete(self.queue.name, 0, before)

    def _delete(self, topic: str, partition: int, before: int) -> None:
        admin = admin_client(self.bootstrap)  # named, because its futures fail as soon as nobody holds the client
        for future in admin.delete_records([TopicPartition(topic, partition, before)]).values():
            future.result(60)

    def ended(self, fate: MessageFate, offset: int, *, target: str | None = None, reason: str = "") -> MessageEvent:
        """What is told of a message that left."""
        return MessageEvent(fate, offset, None, 3, target, reason)

    def died(self, offset: int) -> MessageEvent:
        """What is told of one that was given up, with a copy."""
        return self.ended(MessageFate.DEAD_LETTERED, offset, target=str(self.dead_letters), reason="max")

    def _write_events(self, told: ChannelEvents) -> None:
        key, value = encode_events(told)
        self._write(events_topic(self.namespace), [(key, value)], partition_for(key, SYSTEM_PARTITIONS))

    def _write(self, topic: str, records: Sequence[tuple[bytes, bytes | None]], partition: int = 0) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for key, value in records:
            producer.produce(topic, key=key, value=value, partition=partition)
        assert producer.flush(60) == 0


def returned(offset: int, *, attempts: int, due: int = 0, limit: int = 10) -> MessageEvent:
    """What is told of a message that came back."""
    due_at_ms = SENT_MS + due if due else 0
    return MessageEvent(MessageFate.RETURNED, offset, None, attempts, None, "returned", SENT_MS, due_at_ms, due, limit,
                        "continue")  # fmt: skip


def given(offset: int, at: int, *, attempt: int = 1, mode: str = "AUTO") -> DeliveryRun:
    """What is told of a message that an application got."""
    return DeliveryRun(offset, 1, attempt, "s-1", mode, SENT_MS + at)
