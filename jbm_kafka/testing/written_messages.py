"""The messages sent in a world since its beginning: a log alone does not tell, for settled ones are deleted there."""

from __future__ import annotations

from collections.abc import Iterator

from jbm_kafka.admin.dead_letters.letters import DeadLetter, letter_of
from jbm_kafka.client.bodies.large_bodies import LargeBodies
from jbm_kafka.core.channel.departure import EXPIRED
from jbm_kafka.core.destination import CHANGELOG_SUFFIX, RESERVED_PREFIX, Destination, Queue
from jbm_kafka.jms.messages.message import Message
from jbm_kafka.jms.messages.messages_wire import from_record
from jbm_kafka.memory.memory_cluster import MemoryCluster
from jbm_kafka.memory.memory_log import MemoryRecord, MemoryTransaction, TransactionOutcome


class WrittenMessages:
    """The records of queues and topics, in the order in which they were written. The cluster's lock guards it."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._changed = cluster.changed
        self._rows: list[tuple[MemoryRecord, MemoryTransaction | None]] = []
        cluster.on_append = self._note
        self.bodies: LargeBodies | None = None
        """Where large bodies are; None: nobody said so."""

    def to(self, destination: Destination) -> list[Message]:
        """Return those that were sent there, and committed where that was in a transaction."""
        topic = destination.kafka_topic()
        return [self._message(record, destination) for record in self._committed() if record.topic() == topic]

    def letters(self) -> list[tuple[DeadLetter, Message]]:
        """Return those that became dead letters, whatever the queue of these, with where each was and why it left."""
        letters = ((letter_of(record), record) for record in self._committed())
        return [
            (letter, self._message(record, Queue(record.topic())))
            for letter, record in letters
            if letter.reason not in (None, EXPIRED)
        ]

    def _note(self, record: MemoryRecord, transaction: MemoryTransaction | None) -> None:
        topic = record.topic()
        if not topic.endswith(CHANGELOG_SUFFIX) and RESERVED_PREFIX not in topic:
            self._rows.append((record, transaction))

    def _committed(self) -> Iterator[MemoryRecord]:
        with self._changed:
            rows = list(self._rows)
        for record, transaction in rows:
            if transaction is None or transaction.outcome is TransactionOutcome.COMMITTED:
                yield record

    def _message(self, record: MemoryRecord, destination: Destination) -> Message:
        return from_record(
            record,  # type: ignore[arg-type]
            destination,
            0,
            False,
            None,
            bodies=self.bodies,
            is_browsed=True,
        )
