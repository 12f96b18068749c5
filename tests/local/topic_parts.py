"""A topic channel as an application would make it."""

from __future__ import annotations

from jbm_kafka.local import (
    LocalTransactionManager,
    MemoryMessageStore,
    MemoryPersistenceManager,
    RocksPersistenceManager,
    TopicChannel,
)
from tests.local.parts import Clock, Hand, Text


class TopicBench:
    """A topic with everything it can stand on."""

    def __init__(self, persistence: MemoryPersistenceManager | RocksPersistenceManager | None = None) -> None:
        self.clock = Clock()
        self.persistence = persistence or MemoryPersistenceManager()
        self.transactions = LocalTransactionManager()
        self.topic = self.open()

    def open(self) -> TopicChannel:
        """Another channel of the same name over the same records, and a store that reads them, as after a crash."""
        self.store = MemoryMessageStore("bodies", persistence_manager=self.persistence)
        return TopicChannel(
            "t",
            message_store=self.store,
            persistence_manager=self.persistence,
            transaction_manager=self.transactions,
            clock_ms=self.clock,
        )

    def send(self, *names: str, unit: str | None = None, priority: int = 4, expiration_ms: int = 0) -> None:
        """Reliable messages of these ids."""
        for name in names:
            assert self.topic.handle(
                Text(name, is_reliable=True, unit_of_order=unit, priority=priority, expiration_ms=expiration_ms)
            )

    def receiver(self, receiver_id: str, answer: bool | Exception = False) -> Hand:
        """A receiver of the topic."""
        hand = Hand(receiver_id, answer)
        self.topic.add_receiver(hand)
        return hand

    def nothing_is_left(self) -> None:
        """Neither messages nor records nor bodies."""
        assert self.topic.state.references() == []
        assert dict(self.persistence.read("t")) == dict(self.persistence.read("bodies")) == {}
