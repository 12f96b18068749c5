"""A persistence manager that cannot write for a while: nothing stands still for good, and nobody else is told."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from jbm_kafka.contract import MessageState
from jbm_kafka.local import (
    LocalTransactionManager,
    MemoryMessageStore,
    MemoryPersistenceManager,
    QueueChannel,
    TopicChannel,
)
from tests.local.parts import Hand, Text


class FailsLater(MemoryPersistenceManager):
    """Its disk is full after so many writes; None: never."""

    def __init__(self) -> None:
        super().__init__()
        self.writes_left: int | None = None

    def write(self, owner_id: str, records: Mapping[str, bytes | None], /) -> None:
        self._count()
        super().write(owner_id, records)

    def write_all(self, records: Mapping[str, Mapping[str, bytes | None]], /) -> None:
        self._count()
        super().write_all(records)

    def _count(self) -> None:
        if self.writes_left is not None:
            if not self.writes_left:
                raise OSError("disk full")
            self.writes_left -= 1


def parts() -> tuple[FailsLater, MemoryMessageStore]:
    manager = FailsLater()
    return manager, MemoryMessageStore("bodies", persistence_manager=manager)


def a_topic() -> tuple[FailsLater, TopicChannel]:
    manager, store = parts()
    return manager, TopicChannel("t", message_store=store, persistence_manager=manager)


def test_a_topic_kept_what_expired_in_a_hand_for_ever_when_that_could_not_be_written() -> None:
    """STATE-4, STATE-8: it stood as NEW, was offered to nobody and never discarded."""
    now_ms = [1]
    manager, store = parts()
    topic = TopicChannel("t", message_store=store, persistence_manager=manager, clock_ms=lambda: now_ms[0])
    hand = Hand("r")
    topic.add_receiver(hand)
    assert topic.handle(Text("1", is_reliable=True, expiration_ms=5))
    now_ms[0] = 5
    manager.writes_left = 0
    with pytest.raises(OSError, match="disk full"):
        topic.redeliver(hand)
    assert (topic.state.state_of("1"), topic.state.nacks("1")) == (MessageState.DELIVERED, frozenset({"r"}))
    manager.writes_left = None
    assert topic.redeliver(hand)
    assert topic.state.state_of("1") is None
    assert dict(manager.read("t")) == dict(manager.read("bodies")) == {}


@pytest.mark.parametrize("wants", [True, False], ids=["acknowledged", "refused"])
def test_what_nobody_owes_leaves_a_topic_when_it_can_be_written_again(wants: bool) -> None:
    """STATE-8: of all that was offered nothing waits for somebody who will never come."""
    manager, topic = a_topic()
    hand = Hand("r", True)
    hand.wants = lambda routable: wants
    topic.add_receiver(hand)
    manager.writes_left = 1
    assert topic.handle(Text("1", is_reliable=True))
    assert topic.state.state_of("1") is not None
    manager.writes_left = None
    assert topic.deliver()
    assert topic.redeliver(hand)
    assert topic.state.state_of("1") is None
    assert dict(manager.read("t")) == dict(manager.read("bodies")) == {}


@pytest.mark.parametrize("kind", [QueueChannel, TopicChannel])
def test_a_sender_was_told_that_a_delivery_could_not_be_recorded(
    kind: type[QueueChannel | TopicChannel], caplog: pytest.LogCaptureFixture
) -> None:
    """STATE-13: its message is stored, and who sends it again has it refused."""
    manager, store = parts()
    channel = kind("c", message_store=store, persistence_manager=manager)
    hand = Hand("r")
    channel.add_receiver(hand)
    manager.writes_left = 1
    assert channel.handle(Text("1", is_reliable=True))
    assert hand.ids == ["1"]
    told = [record for record in caplog.records if record.levelname == "ERROR"]
    assert [record.getMessage().partition(":")[0] for record in told] == ["c"]
    manager.writes_left = None
    assert channel.state.nacks("1") == {"r"}
    channel.acknowledge("1", "r")
    assert dict(manager.read("c")) == dict(manager.read("bodies")) == {}


@pytest.mark.parametrize("kind", [QueueChannel, TopicChannel])
def test_a_commit_was_told_that_a_delivery_could_not_be_recorded(kind: type[QueueChannel | TopicChannel]) -> None:
    """STATE-2: what was sent in it is committed by then."""
    manager, store = parts()
    transactions = LocalTransactionManager()
    channel = kind("c", message_store=store, persistence_manager=manager, transaction_manager=transactions)
    hand = Hand("r")
    channel.add_receiver(hand)
    with transactions.transaction():
        channel.handle(Text("1", is_reliable=True))
        manager.writes_left = 1
    assert (hand.ids, channel.state.nacks("1")) == (["1"], frozenset({"r"}))


def test_a_pass_that_failed_is_taken_up_by_the_next_message() -> None:
    """STATE-13: who was not offered because of another's message is offered with the next."""
    manager, store = parts()
    queue = QueueChannel("q", message_store=store, persistence_manager=manager)
    for name in ("1", "2"):
        queue.handle(Text(name, is_reliable=True))
    hand = Hand("r")
    queue.add_receiver(hand)
    manager.writes_left = 1
    queue.handle(Text("3", is_reliable=True))
    assert hand.ids == ["1"]
    manager.writes_left = None
    queue.handle(Text("4", is_reliable=True))
    assert hand.ids == ["1", "2", "3", "4"]


def test_a_queue_could_not_be_opened_again_when_a_loss_had_not_been_written() -> None:
    """STATE-5: the records named two receivers for one unit, and the next channel of that name ended at the second."""
    manager, store = parts()
    queue = QueueChannel("q", message_store=store, persistence_manager=manager)
    queue.add_receiver(Hand("first"))
    for name in ("1", "2"):
        queue.handle(Text(name, is_reliable=True, unit_of_order="u"))
    manager.writes_left = 0
    with pytest.raises(OSError, match="disk full"):
        queue.remove_receiver("first")
    second = Hand("second")
    queue.add_receiver(second)
    manager.writes_left = 1
    with pytest.raises(OSError, match="disk full"):
        queue.deliver()
    assert second.ids == ["1", "2"]
    manager.writes_left = None
    again, third = QueueChannel("q", message_store=store, persistence_manager=manager), Hand("third", True)
    again.add_receiver(third)
    assert again.deliver()
    assert (third.ids, third.flags) == (["1", "2"], [True, True])
    assert dict(manager.read("q")) == dict(manager.read("bodies")) == {}
