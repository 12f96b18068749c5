"""A queue whose records a test writes itself: its messages, and what a worker at fault would have recorded of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from confluent_kafka import OFFSET_END, Producer, TopicPartition
from pyroaring import BitMap

from jbm_kafka.codec.changelog import encode_entry
from jbm_kafka.codec.dead_letter import dead_letter_headers
from jbm_kafka.codec.events import encode_events
from jbm_kafka.core.destination import Queue
from jbm_kafka.core.entries import ChannelEvents, DeliveryRun, MessageEvent, MessageFate, OffsetRange, Position, Settled
from jbm_kafka.registry.own_topics import events_topic
from jbm_spark.topic_check import topic_ids
from tests.support.topics import admin_client, create_topic

SENT_MS = 1_700_000_000_000


@dataclass
class Planted:
    """One partition of a queue in a namespace of its own. Instants are ms behind `SENT_MS`."""

    bootstrap: str
    namespace: str
    queue: Queue = field(init=False)
    dead_letters: Queue = field(init=False)
    topic_id: str = ""
    """As the records tell it; the topic's own."""

    def __post_init__(self) -> None:
        self.queue, self.dead_letters = Queue(f"{self.namespace}-q"), Queue(f"{self.namespace}-dlq")
        for name in (events_topic(self.namespace), self.queue.changelog_topic(self.namespace), self.dead_letters.name):
            create_topic(self.bootstrap, name, config={"retention.ms": "-1"})
        self.make_topic()

    def make_topic(self) -> None:
        """The topic of the messages."""
        create_topic(self.bootstrap, self.queue.name, config={"retention.ms": "-1"})
        [self.topic_id] = topic_ids([self.queue.name], about="look", bootstrap=self.bootstrap).values()

    def send(self, units: Sequence[str | None], headers: Mapping[int, Mapping[str, int]]) -> None:
        """A message for each unit; `headers` by offset."""
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for offset, unit in enumerate(units):
            told = [(name, b"%d" % value) for name, value in headers.get(offset, {}).items()]
            producer.produce(self.queue.name, key=None if unit is None else unit.encode(), value=b"body",
                             headers=[("JMSMessageID", b"ID:%d" % offset), *told], timestamp=SENT_MS)  # fmt: skip
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
            at_ms=SENT_MS + at,
            acknowledged=tuple(OffsetRange(each, each) for each in acknowledged),
            messages=tuple(messages),
            topic_id=self.topic_id,
            deliveries=tuple(given),
        )
        self._write(events_topic(self.namespace), [encode_events(told)])

    def letter(self, offset: int) -> None:
        """A dead letter."""
        headers = dead_letter_headers(
            [], destination=self.queue, message_id=f"ID:{offset}", partition=0, offset=offset, delivery_count=3,
            reason="max-delivery-attempts", topic_id=self.topic_id,
        )  # fmt: skip
        producer = Producer({"bootstrap.servers": self.bootstrap})
        producer.produce(self.dead_letters.name, value=b"body", headers=[*headers])
        assert producer.flush(60) == 0

    def delete_events(self) -> None:
        """As Kafka does after seven days."""
        everything = TopicPartition(events_topic(self.namespace), 0, OFFSET_END)
        admin = admin_client(self.bootstrap)  # named, because its futures fail as soon as nobody holds the client
        for future in admin.delete_records([everything]).values():
            future.result(60)

    def ended(self, fate: MessageFate, offset: int, *, target: str | None = None, reason: str = "") -> MessageEvent:
        """What is told of a message that left."""
        return MessageEvent(fate, offset, None, 3, target, reason)

    def died(self, offset: int) -> MessageEvent:
        """What is told of one that was given up, with a copy."""
        return self.ended(MessageFate.DEAD_LETTERED, offset, target=str(self.dead_letters), reason="max")

    def _write(self, topic: str, records: Sequence[tuple[bytes, bytes | None]]) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for key, value in records:
            producer.produce(topic, key=key, value=value)
        assert producer.flush(60) == 0


def returned(offset: int, *, attempts: int, due: int = 0, limit: int = 10) -> MessageEvent:
    """What is told of a message that came back."""
    due_at_ms = SENT_MS + due if due else 0
    return MessageEvent(MessageFate.RETURNED, offset, None, attempts, None, "returned", SENT_MS, due_at_ms, due, limit,
                        "continue")  # fmt: skip


def given(offset: int, at: int, *, attempt: int = 1, mode: str = "AUTO") -> DeliveryRun:
    """What is told of a message that an application got."""
    return DeliveryRun(offset, 1, attempt, "s-1", mode, SENT_MS + at)
