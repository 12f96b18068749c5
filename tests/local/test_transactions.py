"""Goal: what is done in a transaction happens at its commit, or not at all."""

from __future__ import annotations

import contextvars
import threading
from contextlib import suppress

import pytest

from jbm_kafka.contract import MessageState, TransactionResource
from jbm_kafka.core.jms_errors import (
    IllegalStateError,
    TransactionInDoubtError,
    TransactionInProgressError,
    TransactionRolledBackError,
    UnknownMessageError,
)
from jbm_kafka.local import LocalTransactionManager, MemoryMessageStore, QueueChannel
from tests.local.parts import Bench, Text

NOT_COMMITTED, NEW, DELIVERED = MessageState.NOT_COMMITTED, MessageState.NEW, MessageState.DELIVERED


def test_what_is_sent_in_a_transaction_is_neither_delivered_nor_browsed_before_its_commit() -> None:
    """STATE-2: it holds the transaction's id, and the commit makes it NEW."""
    bench = Bench()
    transaction_id = bench.transactions.begin()
    bench.send("m")
    assert bench.queue.state.transaction_of("m") == transaction_id
    assert [each.message_id for each in bench.queue.get_messages(NOT_COMMITTED)] == ["m"]
    receiver = bench.receiver()
    assert bench.queue.deliver()
    assert (receiver.ids, bench.queue.browse()) == ([], [])
    receiver.wants = lambda routable: False
    bench.transactions.commit()
    assert bench.queue.state.transaction_of("m") is None
    assert bench.queue.has_messages(NEW)
    assert not bench.queue.has_messages(NOT_COMMITTED)
    receiver.wants = lambda routable: True
    assert bench.queue.deliver()
    assert receiver.ids == ["m"]


def test_a_rollback_removes_what_was_sent_and_its_body() -> None:
    """STATE-2, STATE-12"""
    bench = Bench()
    bench.transactions.begin()
    bench.send("m")
    bench.transactions.rollback()
    assert bench.queue.state.state_of("m") is None
    with pytest.raises(UnknownMessageError):
        bench.store.retrieve("m")
    bench.send("m")
    assert bench.queue.has_messages(NEW)


def test_an_expiry_noticed_at_commit_rolls_everything_back() -> None:
    """STATE-2: also on the channels that could have committed."""
    bench = Bench()
    other = QueueChannel("other", message_store=bench.store, transaction_manager=bench.transactions)
    bench.transactions.begin()
    other.handle(Text("n"))
    bench.send("m", expiration_ms=2_000)
    bench.clock.now_ms = 2_000
    with pytest.raises(TransactionRolledBackError, match="expired"):
        bench.transactions.commit()
    assert bench.transactions.current is None
    assert other.state.state_of("n") is None
    assert bench.queue.state.state_of("m") is None


def test_an_expiry_noticed_before_the_commit_dooms_the_transaction() -> None:
    """STATE-2: whatever the clock says later."""
    bench = Bench()
    bench.transactions.begin()
    bench.send("m", expiration_ms=2_000)
    assert bench.queue.expire(2_000) == [], "it did not expire as a message; its transaction will not commit"
    with pytest.raises(TransactionRolledBackError):
        bench.transactions.commit()
    assert bench.queue.state.state_of("m") is None


def test_an_acknowledgement_in_a_transaction_counts_at_commit() -> None:
    """STATE-7: recorded at once, so that it cannot be given twice; effective at commit."""
    bench = Bench()
    receiver = bench.receiver()
    bench.send("m")
    bench.queue.deliver()
    with bench.transactions.transaction():
        bench.queue.acknowledge("m", "r1")
        with pytest.raises(UnknownMessageError):
            bench.queue.acknowledge("m", "r1")
        assert bench.queue.state.nacks("m") == {"r1"}
        assert not bench.queue.redeliver(receiver), "it is owed until the commit"
        assert receiver.ids == ["m"], "but not offered again"
    assert bench.queue.state.state_of("m") is None


def test_an_acknowledgement_in_a_transaction_is_discarded_by_its_rollback() -> None:
    """STATE-7"""
    bench = Bench()
    receiver = bench.receiver()
    bench.send("m")
    bench.queue.deliver()
    bench.transactions.begin()
    bench.queue.acknowledge("m", "r1")
    bench.transactions.rollback()
    assert bench.queue.state.nacks("m") == {"r1"}
    receiver.answer = True
    assert bench.queue.redeliver(receiver)
    assert receiver.flags == [False, True]


def test_answering_true_within_a_transaction_is_an_acknowledgement_in_it() -> None:
    """STATE-7"""
    bench = Bench()
    bench.send("m")
    receiver = bench.receiver(answer=True)
    bench.transactions.begin()
    assert bench.queue.deliver()
    assert bench.queue.state.state_of("m") is DELIVERED
    bench.transactions.rollback()
    bench.transactions.begin()
    assert not bench.queue.redeliver(receiver)
    bench.transactions.commit()
    assert bench.queue.state.state_of("m") is None
    assert receiver.flags == [False, True]


def test_an_early_acknowledgement_in_a_transaction_waits_for_the_commit() -> None:
    """STATE-6, STATE-7: and nobody else is offered the message meanwhile."""
    bench = Bench()
    bench.send("m")
    receiver = bench.receiver("r1")
    bench.transactions.begin()
    bench.queue.acknowledge("m", "r2")
    assert not bench.queue.deliver()
    bench.transactions.rollback()
    assert bench.queue.deliver()
    assert receiver.ids == ["m"]


def test_a_commit_forgot_an_early_acknowledgement_when_another_had_got_the_beginning_of_the_unit() -> None:
    """STATE-6, STATE-7: the other one was given the message, too."""
    bench = Bench()
    bench.send("first", "acknowledged", "last", unit="u")
    with bench.transactions.transaction():
        bench.queue.acknowledge("acknowledged", "r9")
        other = bench.receiver("r1")
        bench.queue.deliver()
        assert other.ids == ["first"]
    assert bench.queue.state.state_of("acknowledged") is None
    bench.queue.acknowledge("first", "r1")
    bench.queue.deliver()
    assert other.ids == ["first", "last"]
    assert bench.open().state.state_of("acknowledged") is None


def test_a_receiver_may_acknowledge_in_a_transaction_of_its_own_inside_handle() -> None:
    """STATE-6, STATE-7: committed before the delivery is recorded, it still settles it."""
    bench = Bench()
    receiver = bench.receiver()

    def work(_: object) -> None:
        with bench.transactions.transaction():
            bench.queue.acknowledge("m", "r1")

    receiver.meanwhile = work
    bench.send("m")
    assert bench.queue.deliver()
    assert bench.queue.browse() == []


def test_a_receiver_that_is_asked_again_acknowledges_in_the_transaction_and_says_so_too() -> None:
    """STATE-7, of STATE-9: its answer is the same acknowledgement once more, and `redeliver` was refused for it."""
    bench = Bench()
    bench.send("m")
    receiver = bench.receiver()
    assert bench.queue.deliver()
    receiver.answer, receiver.meanwhile = True, lambda _: bench.queue.acknowledge("m", "r1")
    bench.transactions.begin()
    assert not bench.queue.redeliver(receiver), "it is owed until the commit"
    bench.transactions.commit()
    assert bench.queue.browse() == []


@pytest.mark.parametrize("commits", [True, False])
def test_a_receiver_lost_with_its_acknowledgement_in_doubt_owes_after_a_rollback_only(commits: bool) -> None:
    """STATE-5, STATE-7"""
    bench = Bench()
    bench.receiver("r1")
    bench.send("m")
    bench.queue.deliver()
    bench.transactions.begin()
    bench.queue.acknowledge("m", "r1")
    bench.queue.remove_receiver("r1")
    assert bench.queue.state.state_of("m") is DELIVERED
    if commits:
        bench.transactions.commit()
        assert bench.queue.state.state_of("m") is None
    else:
        bench.transactions.rollback()
        other = bench.receiver("r2")
        assert bench.queue.deliver()
        assert (other.ids, other.flags) == (["m"], [True])


def test_a_rollback_counted_only_the_first_of_a_unit_that_a_lost_receiver_had_acknowledged() -> None:
    """REDELIVER-1, of STATE-7: the second went back beside it, as if nobody had been handed it."""
    bench = Bench()
    bench.receiver()
    bench.send("a1", "a2", unit="a")
    bench.transactions.begin()
    bench.queue.acknowledge("a1", "r1")
    bench.queue.acknowledge("a2", "r1")
    bench.queue.remove_receiver("r1")
    bench.transactions.rollback()
    assert [(each.message_id, each.redelivered) for each in bench.queue.browse()] == [("a1", True), ("a2", True)]


def test_what_is_acknowledged_in_doubt_stays_when_an_earlier_one_of_its_unit_is_lost() -> None:
    """STATE-7, UNIT-2: and nobody else gets the unit before the transaction ends."""
    bench = Bench()
    bench.receiver("r1")
    bench.send("a1", "a2", unit="a")
    bench.queue.deliver()
    bench.transactions.begin()
    bench.queue.acknowledge("a2", "r1")
    bench.queue.remove_receiver("r1")
    assert (bench.queue.state.state_of("a1"), bench.queue.state.state_of("a2")) == (NEW, DELIVERED)
    other = bench.receiver("r2")
    assert not bench.queue.deliver()
    bench.transactions.commit()
    assert bench.queue.state.state_of("a2") is None
    assert bench.queue.deliver()
    assert other.ids == ["a1"]


def test_a_channel_closed_in_a_transaction_rolls_it_back() -> None:
    """STATE-2"""
    bench = Bench()
    bench.transactions.begin()
    bench.send("m")
    bench.queue.close()
    with pytest.raises(TransactionRolledBackError, match="closed"):
        bench.transactions.commit()
    with pytest.raises(UnknownMessageError):
        bench.store.retrieve("m")


def test_a_channel_without_the_manager_takes_no_part_in_its_transactions() -> None:
    """STATE-11: it says so, and what is done with it holds at once."""
    manager = LocalTransactionManager()
    queue = QueueChannel("plain", message_store=MemoryMessageStore("s"))
    assert not queue.is_transactional
    manager.begin()
    queue.handle(Text("m"))
    manager.rollback()
    assert [message.message_id for message in queue.get_messages(NEW)] == ["m"]


def test_each_thread_and_context_has_its_own_transaction() -> None:
    manager = LocalTransactionManager()
    transaction_id = manager.begin()
    seen: list[str | None] = []
    other = threading.Thread(target=lambda: seen.append(manager.current))
    other.start()
    other.join()
    copied = contextvars.copy_context()
    seen.append(copied.run(lambda: manager.current))
    manager.commit()
    seen.append(copied.run(lambda: manager.current))
    assert seen == [None, transaction_id, None]


def test_transactions_do_not_nest_and_end_once() -> None:
    manager = LocalTransactionManager()
    with pytest.raises(IllegalStateError):
        manager.commit()
    with pytest.raises(IllegalStateError):
        manager.rollback()
    with pytest.raises(IllegalStateError):
        manager.enlist(Resource([]))
    manager.begin()
    with pytest.raises(TransactionInProgressError):
        manager.begin()
    manager.rollback()
    assert manager.current is None


class Resource:
    """A resource of the application's own."""

    def __init__(self, told: list[str], name: str = "a", error: Exception | None = None) -> None:
        self.told, self.name, self.error = told, name, error

    def commit_transaction(self, transaction_id: str, /) -> None:
        if self.error is not None:
            raise self.error
        self.told.append(f"{self.name} committed")

    def rollback_transaction(self, transaction_id: str, /) -> None:
        self.told.append(f"{self.name} rolled back")


def test_a_block_commits_at_its_end_and_rolls_back_when_it_raises() -> None:
    told: list[str] = []
    manager, resource = LocalTransactionManager(), Resource(told)
    with manager.transaction() as transaction_id:
        assert manager.current == transaction_id
        manager.enlist(resource)
        manager.enlist(resource)
    with suppress(KeyError), manager.transaction():
        manager.enlist(resource)
        raise KeyError
    with manager.transaction():
        manager.enlist(resource)
        manager.rollback()
    assert told == ["a committed", "a rolled back", "a rolled back"]


def test_a_resource_that_cannot_commit_rolls_back_the_others() -> None:
    told: list[str] = []
    manager = LocalTransactionManager()
    manager.begin()
    manager.enlist(Resource(told, "a", OSError("disk full")))
    manager.enlist(Resource(told, "b"))
    with pytest.raises(TransactionRolledBackError, match="disk full"):
        manager.commit()
    assert told == ["a rolled back", "b rolled back"]


def test_a_resource_that_fails_after_another_committed_leaves_it_in_doubt() -> None:
    told: list[str] = []
    manager = LocalTransactionManager()
    manager.begin()
    manager.enlist(Resource(told, "a"))
    manager.enlist(Resource(told, "b", OSError("disk full")))
    with pytest.raises(TransactionInDoubtError, match="1 of 2"):
        manager.commit()
    assert told == ["a committed", "b rolled back"]


class OnePhase(LocalTransactionManager):
    """A manager of the application's own, which asks nobody before it commits."""

    def enlist(self, resource: TransactionResource, /) -> None:
        super().enlist(Unprepared(resource))


class Unprepared:
    """A resource, without the question whether it can commit."""

    def __init__(self, resource: TransactionResource) -> None:
        self._resource = resource

    def commit_transaction(self, transaction_id: str, /) -> None:
        self._resource.commit_transaction(transaction_id)

    def rollback_transaction(self, transaction_id: str, /) -> None:
        self._resource.rollback_transaction(transaction_id)


def test_an_expiry_is_noticed_under_any_transaction_manager() -> None:
    """STATE-2: the commit itself refuses, and has undone its part."""
    queue = QueueChannel(
        "q", message_store=MemoryMessageStore("s"), transaction_manager=OnePhase(), clock_ms=lambda: 1_000
    )
    assert queue.transaction_manager is not None
    queue.transaction_manager.begin()
    queue.handle(Text("m", expiration_ms=1_000))
    with pytest.raises(TransactionRolledBackError, match="expired"):
        queue.transaction_manager.commit()
    assert queue.state.references() == []


def test_a_receiver_s_transaction_spans_two_queues() -> None:
    """STATE-7, ACK-7: consumed here and sent there, both or neither."""
    bench = Bench()
    target = QueueChannel("target", message_store=bench.store, transaction_manager=bench.transactions)
    receiver = bench.receiver()
    bench.send("m")
    bench.queue.deliver()
    bench.transactions.begin()
    bench.queue.acknowledge("m", "r1")
    target.handle(Text("m2"))
    bench.transactions.rollback()
    assert not target.has_messages(NEW)
    assert bench.queue.state.nacks("m") == {"r1"}
    with bench.transactions.transaction():
        bench.queue.acknowledge("m", "r1")
        target.handle(Text("m2"))
    assert target.has_messages(NEW)
    assert bench.queue.redeliver(receiver)
    assert bench.queue.browse() == []
