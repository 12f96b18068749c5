"""What a transactional id wrote last: recorded in the same transaction, and looked up by the id's next producer.

It is recorded in two places. The first is an offset that a consumer group of the id's name commits, which is found in
milliseconds, and which Kafka forgets when nothing was committed for some days (`offsets.retention.minutes`). The second
is a compacted topic, which is read where the offset is missing, and which forgets nothing.
"""

import json
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass

from jbm_kafka.core.destination import with_namespace
from jbm_kafka.kafka import ConfluentKafka
from jbm_kafka.kafka.cluster_admin import ConfluentAdmin
from jbm_kafka.ports import CommittedOffset, Outgoing
from jbm_kafka.registry.topic_configs import REGISTRY_CONFIG
from jbm_spark.errors import WriteError

TRANSACTION_TIMEOUT_MS = 300_000
"""For one sink partition of a batch. So long may a process that was killed, and not started again, hold receivers back.
It is a third of what brokers allow."""
PATIENCE_S = 120.0
"""For brokers that are away, in each step."""
_FENCE_S = 10.0
"""The same for what is good to have, and nobody relies on."""
LEDGER_CONFIG = {**REGISTRY_CONFIG, "segment.bytes": str(4 * 2**20), "min.cleanable.dirty.ratio": "0.1"}
"""Compacted early, for all that is there is read where an offset is missing."""


def ledger_topic(namespace: str) -> str:
    """Where all queries of the namespace record what they have written."""
    return with_namespace("jbm.spark-batches", namespace)


def query_name(query: str, namespace: str) -> str:
    """How a query's transactional ids begin; each is a group and a key of the ledger, too."""
    return with_namespace(f"jbm.spark.{query}", namespace)


def make_ledger(admin: ConfluentAdmin, namespace: str) -> None:
    """Have the topic; a KafkaClientError says why it cannot be made."""
    admin.create_topic(ledger_topic(namespace), partitions=1, config=LEDGER_CONFIG)


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """What one transactional id has written last."""

    number: int
    note: str = ""


class LedgerProducer:
    """The one producer of its transactional id: those before it can write nothing more. One thread."""

    def __init__(self, kafka: ConfluentKafka, name: str, *, ledger: str) -> None:
        """`name` is the transactional id, the group and the key in the ledger. Raises KafkaClientError."""
        self._kafka = kafka
        self._name = name
        self._ledger = ledger
        self._producer = kafka.transactional_producer(
            name, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS, is_contended=True, is_bulk=True
        )
        try:
            self._producer.initialise(PATIENCE_S, known_topic=ledger)
            # Only now: what an older producer committed while it was fenced has its marks by now.
            self.last = self._look_up()
        except BaseException:
            self._producer.close()
            raise

    @staticmethod
    def fence(kafka: ConfluentKafka, name: str, *, ledger: str) -> None:
        """End what producers of the name have open, and them. Raises KafkaClientError."""
        producer = kafka.transactional_producer(
            name, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS, is_contended=True, is_bulk=True
        )
        with closing(producer):
            producer.initialise(_FENCE_S, known_topic=ledger)

    def has_written(self, batch: int) -> bool:
        """Whether the batch was written before.

        Raises:
            WriteError: a later one was, so the batch is another one than that of its number: to leave it out would lose
                its rows.
        """
        last = -1 if self.last is None else self.last.number
        if last > batch:
            raise WriteError(
                f"batch {batch} comes after batch {last} was written: the checkpoint is an older copy, or files of it "
                "were removed; begin with a new checkpoint, and with `starting` at the first that is not written"
            )
        return last == batch

    def write(self, records: Iterable[Outgoing], entry: Callable[[], LedgerEntry]) -> int:
        """All of the records, with the entry as it is after them, or nothing; how many. Raises KafkaClientError."""
        self._producer.begin()
        count = self._producer.produce_all(records)
        done = entry()
        value = json.dumps({"number": done.number, "note": done.note}).encode()
        # The last record: from it to the commit the ledger's other readers wait.
        self._producer.produce(Outgoing(self._ledger, 0, self._name.encode(), value))
        self._producer.send_offsets(None, self._name, self._ledger, {0: CommittedOffset(done.number, done.note)})
        self._producer.commit(PATIENCE_S)
        self.last = done
        return count

    def close(self) -> None:
        """Let go; what is open is aborted."""
        self._producer.close()

    def _look_up(self) -> LedgerEntry | None:
        with closing(self._kafka.admin()) as admin:
            found = admin.committed(self._name, self._ledger, [0], timeout_s=PATIENCE_S).get(0)
            if found is not None:
                return LedgerEntry(found.position, found.metadata)
            begin = admin.begin_positions(self._ledger, [0])[0]
            end = admin.end_positions(self._ledger, [0], stable=False)[0]
        key, last = self._name.encode(), None
        with closing(self._kafka.log_reader()) as reader:
            for record in reader.read(self._ledger, {0: (begin, end)}, timeout_s=TRANSACTION_TIMEOUT_MS / 1000):
                if record.key() == key:
                    last = LedgerEntry(**json.loads(record.value() or b"{}"))
        return last
