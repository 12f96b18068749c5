"""Messages and receivers as an application would write them: nothing from the package but its names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from jbm_kafka.contract import Routable
from jbm_kafka.local import LocalTransactionManager, MemoryMessageStore, MemoryPersistenceManager, QueueChannel


@dataclass(frozen=True)
class Text:
    """A simple message."""

    message_id: str
    body: object = "text"
    is_reliable: bool = False
    priority: int = 4
    expiration_ms: int = 0
    redelivered: bool = False
    unit_of_order: str | None = None
    headers: Mapping[str, object] = field(default_factory=dict)

    def __lt__(self, other: Routable, /) -> bool:
        return self.priority > other.priority


class BrokenError(Exception):
    """What a broken receiver raises."""


class Hand:
    """A receiver that keeps what it gets, and answers as told: True, False, or an error to raise."""

    def __init__(self, receiver_id: str = "r1", answer: bool | Exception = False) -> None:
        self.receiver_id = receiver_id
        self.answer: bool | Exception = answer
        self.got: list[Routable] = []
        self.wants: Callable[[Routable], bool] = lambda routable: True
        self.meanwhile: Callable[[Routable], None] = lambda routable: None
        """Done inside handle, before it answers."""

    @property
    def ids(self) -> list[str]:
        return [each.message_id for each in self.got]

    @property
    def flags(self) -> list[bool]:
        return [each.redelivered for each in self.got]

    def accept(self, routable: Routable, /) -> bool:
        return self.wants(routable)

    def handle(self, routable: Routable, /) -> bool:
        self.got.append(routable)
        self.meanwhile(routable)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now_ms = 1_000

    def __call__(self) -> int:
        return self.now_ms


class Bench:
    """A queue with everything it can stand on."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.store = MemoryMessageStore("store", persistence_manager=MemoryPersistenceManager())
        self.persistence = MemoryPersistenceManager()
        self.transactions = LocalTransactionManager()
        self.queue = self.open()

    def open(self) -> QueueChannel:
        """Another channel of the same name over the same store and records, as after a crash."""
        return QueueChannel(
            "q",
            message_store=self.store,
            persistence_manager=self.persistence,
            transaction_manager=self.transactions,
            clock_ms=self.clock,
        )

    def send(self, *names: str, unit: str | None = None, priority: int = 4, expiration_ms: int = 0) -> None:
        """Reliable messages of these ids."""
        for name in names:
            assert self.queue.handle(
                Text(name, is_reliable=True, unit_of_order=unit, priority=priority, expiration_ms=expiration_ms)
            )

    def receiver(self, receiver_id: str = "r1", answer: bool | Exception = False) -> Hand:
        """A receiver of the queue."""
        hand = Hand(receiver_id, answer)
        self.queue.add_receiver(hand)
        return hand
