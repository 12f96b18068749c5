"""A member that is stopped past its session timeout between reading its metadata and writing with it.

A generator, so that one process can play it; with a broker it is a process of its own that can really be stopped:
`python -m tests.kafka.frozen_member BOOTSTRAP TOPIC GROUP`, a line on standard input lets it go on.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence

from jbm_kafka.kafka import ConfluentKafka
from jbm_kafka.ports import CommittedOffset, Kafka, KafkaClientError, Outgoing


class _Listener:
    def __init__(self) -> None:
        self.has_lost = False

    def on_assigned(self, partitions: Sequence[int]) -> Mapping[int, int]:
        return dict.fromkeys(partitions, 0)

    def on_revoked(self, partitions: Sequence[int]) -> None:
        pass

    def on_lost(self, partitions: Sequence[int]) -> None:
        self.has_lost = True


def frozen_member(kafka: Kafka, topic: str, group: str) -> Iterator[str]:
    """Yields "ready" once it owns everything and has frozen its metadata; then what became of its transaction."""
    listener = _Listener()
    consumer = kafka.group_consumer(
        group=group,
        topic=topic,
        partitions=1,
        listener=listener,
        session_timeout_ms=2_000,
        rebalance_timeout_ms=300_000,
        memory_bytes=2**20,
    )
    producer = kafka.transactional_producer(f"{group}-frozen", transaction_timeout_ms=30_000)
    producer.initialise(20)
    while not consumer.assignment():
        consumer.consume(1, 0.1)
    metadata = consumer.group_metadata()
    yield "ready"
    producer.begin()
    producer.produce(Outgoing(topic, 0, b"key", b"-13"))
    try:
        producer.send_offsets(metadata, group, topic, {0: CommittedOffset(1, "of the dead")})
        producer.commit(20)
        answer = "committed"
    except KafkaClientError as error:
        answer = type(error).__name__
        producer.abort(20)
    while not listener.has_lost:
        consumer.consume(1, 0.1)
    consumer.close()
    producer.close()
    yield f"{answer}, then lost"


if __name__ == "__main__":
    bootstrap, topic_name, group_name = sys.argv[1:]
    life = frozen_member(ConfluentKafka(bootstrap), topic_name, group_name)
    print(next(life), flush=True)
    sys.stdin.readline()
    print(next(life), flush=True)
