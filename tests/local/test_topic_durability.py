"""Goal: a topic channel does what transactions say at their commit, and goes on after a restart."""

from __future__ import annotations

import pytest

from jbm_kafka.contract import MessageState
from jbm_kafka.core.jms_errors import (
    IllegalStateError,
    UnknownMessageError,
)
from jbm_kafka.local import LocalTransactionManager, MemoryMessageStore, MemoryPersistenceManager, QueueChannel
from tests.local.parts import Hand, Text
from tests.local.topic_parts import TopicBench

NOT_COMMITTED, DELIVERED = MessageState.NOT_COMMITTED, MessageState.DELIVERED


def test_a_commit_offers_to_all_and_a_rollback_to_nobody(bench: TopicBench) -> None:
    """STATE-2, STATE-7, STATE-13"""
    hands = [bench.receiver("r1"), bench.receiver("r2")]
    transaction_id = bench.transactions.begin()
    bench.send("m")
    assert bench.topic.state.transaction_of("m") == transaction_id
    assert bench.topic.has_messages(NOT_COMMITTED)
    assert (bench.topic.browse(), bench.topic.deliver()) == ([], True)
    with pytest.raises(IllegalStateError, match="not_committed"):
        bench.topic.acknowledge("m", "r1")
    with pytest.raises(IllegalStateError, match="not_committed"):
        bench.topic.state.update("m", "r1", False)
    with pytest.raises(IllegalStateError, match="not_committed"):
        bench.topic.state.remove("m")
    bench.transactions.rollback()
    bench.nothing_is_left()
    with bench.transactions.transaction():
        bench.send("n")
        assert [hand.ids for hand in hands] == [[], []]
    assert [hand.ids for hand in hands] == [["n"], ["n"]]


def test_acknowledgements_in_a_transaction_count_at_its_commit(bench: TopicBench) -> None:
    """STATE-7: of each receiver for itself."""
    first = bench.receiver("r1")
    bench.receiver("r2")
    bench.send("m", "n")
    for commits in (False, True):
        bench.transactions.begin()
        bench.topic.acknowledge("m", "r1")
        with pytest.raises(UnknownMessageError):
            bench.topic.acknowledge("m", "r1")
        assert not bench.topic.redeliver(first)
        assert bench.topic.state.nacks("m") == {"r1", "r2"}
        bench.transactions.commit() if commits else bench.transactions.rollback()
        assert bench.topic.state.nacks("m") == ({"r2"} if commits else {"r1", "r2"})
    with bench.transactions.transaction():
        bench.topic.acknowledge("m", "r2")
        bench.topic.acknowledge("n", "r1")
        bench.topic.acknowledge("n", "r2")
    bench.nothing_is_left()


def test_answering_true_in_a_transaction_is_an_acknowledgement_in_it(bench: TopicBench) -> None:
    """STATE-7: and an early one too."""
    bench.topic.state.add(bench.store.store(Text("m", is_reliable=True)))
    bench.receiver("r1", answer=True)
    bench.transactions.begin()
    bench.topic.acknowledge("m", "r2")
    assert bench.topic.deliver()
    assert bench.topic.state.nacks("m") == {"r1"}
    bench.transactions.commit()
    bench.nothing_is_left()


def test_a_receiver_that_leaves_with_its_acknowledgement_in_doubt_owes_after_a_rollback_only(bench: TopicBench) -> None:
    """STATE-5, STATE-7"""
    for commits in (True, False):
        bench.receiver("r1")
        bench.send("m")
        bench.transactions.begin()
        bench.topic.acknowledge("m", "r1")
        bench.topic.remove_receiver("r1")
        bench.transactions.commit() if commits else bench.transactions.rollback()
        assert bench.topic.state.nacks("m") == (frozenset() if commits else {"r1"})
        if not commits:
            bench.topic.acknowledge("m", "r1")
        bench.nothing_is_left()


def test_a_foreign_manager_commits_it_alone(bench: TopicBench) -> None:
    """STATE-2"""
    receiver = bench.receiver("r1")
    transaction_id = bench.transactions.begin()
    bench.send("m")
    bench.topic.state.commit_transaction(transaction_id)
    bench.transactions.commit()
    assert receiver.ids == ["m"]
    assert bench.topic.state.nacks("m") == {"r1"}


def test_after_a_restart_each_receiver_asks_for_what_it_owes(bench: TopicBench) -> None:
    """STATE-9, STATE-11, STORE-1: under its id, and bodies come back too."""
    bench.receiver("r1")
    bench.receiver("r2")
    bench.send("m", "n")
    bench.topic.acknowledge("m", "r1")
    bench.topic.handle(Text("passing"))
    bench.topic = bench.open()
    assert [bench.topic.state.nacks(name) for name in ("m", "n")] == [{"r2"}, {"r1", "r2"}]
    assert bench.topic.state.state_of("passing") is None
    assert bench.topic.has_messages(DELIVERED)
    for name, ids in (("r1", ["n"]), ("r2", ["m", "n"])):
        receiver = Hand(name, answer=True)
        assert bench.topic.redeliver(receiver)
        assert (receiver.ids, receiver.flags) == (ids, [True] * len(ids))
        assert [each.is_reliable for each in receiver.got] == [True] * len(ids)
    bench.nothing_is_left()


def test_what_nobody_was_offered_before_a_crash_is_offered_after_it(bench: TopicBench) -> None:
    """STATE-11: flagged, for the crash may have come in between; an open transaction is rolled back."""
    bench.topic.state.add(bench.store.store(Text("m", is_reliable=True)))
    bench.transactions.begin()
    bench.send("n")
    bench.transactions = LocalTransactionManager()
    bench.topic = bench.open()
    receiver = bench.receiver("r1", answer=True)
    assert [each.redelivered for each in bench.topic.state.references()] == [True]
    assert bench.topic.deliver()
    assert (receiver.ids, receiver.flags) == (["m"], [True])
    bench.nothing_is_left()


def test_one_store_serves_a_topic_and_the_queues_behind_it(bench: TopicBench) -> None:
    """STORE-1, STATE-8: a queue that is a receiver of a topic is a durable subscription."""
    queues = [
        QueueChannel(name, message_store=bench.store, persistence_manager=bench.persistence) for name in ("p", "q")
    ]
    for queue in queues:
        bench.topic.add_receiver(queue)
    bench.send("m")
    assert bench.topic.browse() == []
    assert [[each.body for each in queue.browse()] for queue in queues] == [["text"], ["text"]]
    bench.topic.remove_receiver("p")
    bench.send("n")
    assert [[each.message_id for each in queue.browse()] for queue in queues] == [["m"], ["m", "n"]]
    for queue in queues:
        queue.add_receiver(Hand("r", answer=True))
        assert queue.deliver()
    bench.nothing_is_left()


def test_what_version_0_2_0_wrote_is_read() -> None:
    """STATE-11: of a queue and a topic, byte by byte as that version recorded it."""
    persistence, key = MemoryPersistenceManager(), f"{3:019d}"
    store = MemoryMessageStore("bodies", persistence_manager=persistence)
    for _ in "tq":
        store.store(Text("m", is_reliable=True))
    persistence.write("t", {f"topic|{key}": b'{"place": 3, "message_id": "m", "owing": ["r1", "r2"]}'})
    of_queue = (
        b'{"offset": 3, "message_id": "m", "attempts": 1, "due_at_ms": 0, "delay_ms": 0, "reason": "returned", '
        b'"receiver_id": "r1", "is_acknowledged": false}'
    )
    persistence.write("q", {f"message|{key}": of_queue})
    assert TopicBench(persistence).topic.state.nacks("m") == {"r1", "r2"}
    queue = QueueChannel("q", message_store=store, persistence_manager=persistence)
    assert [(each.message_id, each.redelivered) for each in queue.browse()] == [("m", True)]
    assert queue.state.core.redeliveries[3].attempts == 2, "the restart was the loss of r1"


def test_a_transaction_commits_though_what_it_acknowledged_was_removed_meanwhile(bench: TopicBench) -> None:
    """STATE-7"""
    bench.receiver("r1")
    bench.receiver("r2")
    bench.send("m", "n", "o")
    bench.transactions.begin()
    for name in "mno":
        bench.topic.acknowledge(name, "r1")
    bench.topic.state.remove("m")
    bench.transactions.commit()
    assert [bench.topic.state.nacks(name) for name in "mno"] == [set(), {"r2"}, {"r2"}]
