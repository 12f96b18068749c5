"""Goal: a new channel of the same name goes on where the last one ended, however that ended."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from jbm_kafka.contract import MessageState
from jbm_kafka.core.jms_errors import CorruptRecordError, UnknownMessageError
from jbm_kafka.local import MemoryMessageStore, MemoryPersistenceManager, QueueChannel, TopicChannel
from tests.local.parts import Bench, Clock, Hand, Text

NEW = MessageState.NEW


def test_new_and_delivered_messages_come_back_in_order_and_only_the_delivered_are_flagged() -> None:
    """STATE-5, STATE-11, REDELIVER-1: counts survive; the crash was the loss of the receiver."""
    bench = Bench()
    receiver = bench.receiver()
    receiver.wants = lambda routable: routable.message_id in "bc"
    bench.send("a", "b", "c", "d")
    bench.queue.deliver()
    bench.queue.acknowledge("c", "r1")
    bench.queue = bench.open()
    assert [each.message_id for each in bench.queue.get_messages(NEW)] == ["a", "b", "d"]
    second = bench.receiver("r2", answer=True)
    assert bench.queue.deliver()
    assert (second.ids, second.flags) == (["a", "b", "d"], [False, True, False])


def test_a_recovered_receiver_is_offered_what_it_owed() -> None:
    """STATE-9: it is disconnected, until it asks."""
    bench = Bench()
    receiver = bench.receiver()
    bench.send("m")
    receiver.wants = lambda routable: routable.message_id == "m"
    bench.send("n")
    bench.queue = bench.open()
    receiver.got = []
    assert not bench.queue.redeliver(receiver)
    assert (receiver.ids, receiver.flags) == (["m"], [True])


def test_an_early_acknowledgement_is_not_lost_by_a_crash() -> None:
    """STATE-6"""
    bench = Bench()
    bench.send("m", "n")
    bench.queue.acknowledge("m", "r1")
    bench.queue = bench.open()
    assert [each.message_id for each in bench.queue.browse()] == ["n"]


def test_a_crash_forgot_a_hand_over_of_a_message_behind_one_that_had_come_back() -> None:
    """REDELIVER-1, of STATE-7: the open transaction had kept it in the lost receiver's hand."""
    bench = Bench()
    bench.receiver()
    bench.send("a1", "a2", unit="a")
    bench.transactions.begin()
    bench.queue.acknowledge("a2", "r1")
    bench.queue.remove_receiver("r1")
    bench.queue = bench.open()
    assert [(each.message_id, each.redelivered) for each in bench.queue.browse()] == [("a1", True), ("a2", True)]


def test_an_open_transaction_is_rolled_back_by_a_crash() -> None:
    """STATE-2, STATE-7"""
    bench = Bench()
    bench.receiver()
    bench.send("m")
    bench.queue.deliver()
    bench.transactions.begin()
    bench.send("n")
    bench.queue.acknowledge("m", "r1")
    bench.queue = bench.open()
    assert [each.message_id for each in bench.queue.browse()] == ["m"]


def test_a_committed_transaction_survives_whole() -> None:
    """STATE-2, STATE-7"""
    bench = Bench()
    bench.receiver()
    bench.send("m")
    bench.queue.deliver()
    with bench.transactions.transaction():
        bench.send("n", "o")
        bench.queue.acknowledge("m", "r1")
    bench.queue = bench.open()
    assert [each.message_id for each in bench.queue.browse()] == ["n", "o"]


def test_what_is_not_reliable_does_not_survive_and_leaves_no_body() -> None:
    """STATE-11, of STORE-1"""
    bench = Bench()
    bench.queue.handle(Text("passing"))
    bench.send("lasting")
    bench.queue.close()
    bench.queue = bench.open()
    assert [each.message_id for each in bench.queue.browse()] == ["lasting"]
    with pytest.raises(UnknownMessageError):
        bench.store.retrieve("passing")


def test_a_channel_without_persistence_leaves_nothing_behind_when_it_closes() -> None:
    """STATE-12"""
    store = MemoryMessageStore("s", persistence_manager=MemoryPersistenceManager())
    queue = QueueChannel("q", message_store=store)
    receiver = Hand("r1")
    queue.add_receiver(receiver)
    queue.handle(Text("m"))
    queue.deliver()
    queue.handle(Text("n"))
    queue.close()
    for name in ("m", "n"):
        with pytest.raises(UnknownMessageError):
            store.retrieve(name)


def test_nothing_is_left_of_what_is_settled() -> None:
    """STATE-12: neither a record nor a body."""
    bench = Bench()
    bench.receiver(answer=True)
    bench.send("m", "n", unit="u")
    assert bench.queue.deliver()
    assert bench.persistence.read("q") == {}
    with pytest.raises(UnknownMessageError):
        bench.store.retrieve("m")


class Failing(MemoryPersistenceManager):
    """Fails to write while it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.is_failing = False

    def write(self, owner_id: str, records: Mapping[str, bytes | None], /) -> None:
        if self.is_failing:
            raise OSError("disk full")
        super().write(owner_id, records)


def failing_queue() -> tuple[QueueChannel, Failing, MemoryMessageStore]:
    manager, store = Failing(), MemoryMessageStore("s", persistence_manager=MemoryPersistenceManager())
    return QueueChannel("q", message_store=store, persistence_manager=manager, clock_ms=Clock()), manager, store


def test_a_message_that_cannot_be_recorded_is_not_taken() -> None:
    """STATE-11"""
    queue, manager, store = failing_queue()
    manager.is_failing = True
    with pytest.raises(OSError, match="disk full"):
        queue.handle(Text("m", is_reliable=True))
    assert queue.browse() == []
    with pytest.raises(UnknownMessageError):
        store.retrieve("m")
    manager.is_failing = False
    assert queue.handle(Text("m", is_reliable=True))


def test_an_acknowledgement_that_cannot_be_recorded_changes_nothing() -> None:
    """STATE-6, STATE-11"""
    queue, manager, _ = failing_queue()
    queue.add_receiver(Hand("r1"))
    queue.handle(Text("m", is_reliable=True))
    queue.deliver()
    manager.is_failing = True
    with pytest.raises(OSError, match="disk full"):
        queue.acknowledge("m", "r1")
    assert queue.state.nacks("m") == {"r1"}
    manager.is_failing = False
    queue.acknowledge("m", "r1")
    assert queue.browse() == []


@pytest.mark.parametrize(
    ("kind", "of", "place"), [(QueueChannel, "message", "offset"), (TopicChannel, "topic", "place")]
)
def test_a_damaged_record_is_named(kind: type[QueueChannel | TopicChannel], of: str, place: str) -> None:
    manager, store = MemoryPersistenceManager(), MemoryMessageStore("s", persistence_manager=MemoryPersistenceManager())
    for damaged, told in (("{", rf"{of}\|0"), (f'{{"{place}": 7, "message_id": "m"}}', "7")):
        manager.write("c", {f"{of}|0": damaged.encode()})
        with pytest.raises(CorruptRecordError, match=told):
            kind("c", message_store=store, persistence_manager=manager)
