"""Goal: channels and stores say what they can hold, refuse the rest, and keep to the contract's interfaces."""

from __future__ import annotations

import pytest

from jbm_kafka import contract
from jbm_kafka.contract import Channel, CoreMessage, Filter, MessageReference, MessageState, Receiver, Routable
from jbm_kafka.core.channel import states
from jbm_kafka.core.jms_errors import IllegalStateError, RoutableNotAcceptedError, UnknownMessageError
from jbm_kafka.local import LocalTransactionManager, MemoryMessageStore, MemoryPersistenceManager, QueueChannel
from tests.local.parts import Bench, BrokenError, Hand, Text

NEW = MessageState.NEW


def test_everything_is_what_the_contract_calls_it() -> None:
    bench = Bench()
    bench.receiver()
    bench.send("m")
    bench.queue.deliver()
    assert contract.MessageState is states.MessageState
    for routable in (Text("x"), bench.store.store(Text("x")), *bench.queue.browse(), *bench.queue.state.references()):
        assert isinstance(routable, Routable)
    assert isinstance(bench.queue, Channel)
    assert isinstance(bench.queue, Receiver)
    assert isinstance(bench.queue, Filter)
    assert isinstance(bench.store.retrieve("m"), CoreMessage)
    assert isinstance(bench.store.store(Text("y")), MessageReference)
    channel: Channel = bench.queue
    state: contract.ChannelState = bench.queue.state
    store: contract.MessageStore = bench.store
    transactions: contract.TransactionManager = bench.transactions
    persistence: contract.PersistenceManager = bench.persistence
    assert (channel.receiver_id, store.store_id, transactions.current) == ("q", "store", None)
    assert state.nacks("m") == {"r1"}
    assert persistence.is_reliable


@pytest.mark.parametrize("with_manager", [True, False])
@pytest.mark.parametrize("with_store", [True, False])
def test_a_channel_is_reliable_iff_its_persistence_manager_and_its_store_are(
    with_manager: bool, with_store: bool
) -> None:
    """STATE-11: and takes reliable messages iff it is."""
    store = MemoryMessageStore("s", persistence_manager=MemoryPersistenceManager())
    if not with_store:
        store.persistence_manager = None
    manager = MemoryPersistenceManager() if with_manager else None
    queue = QueueChannel("q", message_store=store, persistence_manager=manager)
    assert store.is_reliable == with_store
    assert queue.is_reliable == queue.state.is_reliable == queue.accept(Text("m", is_reliable=True))
    assert queue.is_reliable == (with_manager and with_store)
    assert queue.handle(Text("n"))
    if queue.is_reliable:
        assert queue.handle(Text("m", is_reliable=True))
        return
    with pytest.raises(RoutableNotAcceptedError, match="reliable"):
        queue.handle(Text("m", is_reliable=True))
    assert [each.message_id for each in queue.browse()] == ["n"]
    with pytest.raises(UnknownMessageError):
        store.retrieve("m")


def test_a_store_that_keeps_nothing_over_a_restart_said_that_it_is_reliable_and_transactional() -> None:
    """STORE-1: made without a persistence manager; and what is stored in a transaction stays when that rolls back."""
    store = MemoryMessageStore("s")
    store.transaction_manager = manager = LocalTransactionManager()
    assert (store.persistence_manager, store.is_reliable, store.is_transactional) == (None, False, False)
    with pytest.raises(IllegalStateError, match="is reliable and store 's' is not"):
        store.store(Text("m", is_reliable=True))
    manager.begin()
    store.store(Text("n"))
    manager.rollback()
    assert store.retrieve("n").body == Text("n").body


def test_a_channel_is_transactional_iff_it_has_a_transaction_manager() -> None:
    """STATE-11"""
    queue = QueueChannel("q", message_store=MemoryMessageStore("s", persistence_manager=MemoryPersistenceManager()))
    assert (queue.is_transactional, queue.message_store.is_transactional) == (False, False)
    queue.transaction_manager = LocalTransactionManager()
    assert queue.is_transactional


def test_managers_can_be_changed_and_change_what_the_channel_is() -> None:
    """STATE-11"""
    queue = QueueChannel("q", message_store=MemoryMessageStore("s", persistence_manager=MemoryPersistenceManager()))
    assert not queue.is_reliable
    queue.persistence_manager = MemoryPersistenceManager()
    assert queue.is_reliable
    queue.message_store = MemoryMessageStore("t", persistence_manager=MemoryPersistenceManager())
    assert queue.message_store.store_id == "t"


def test_a_repeated_id_is_refused_and_changes_nothing() -> None:
    """Of STATE-1: while it is held, in whatever state."""
    bench = Bench()
    receiver = bench.receiver()
    bench.send("m")
    for _ in range(2):
        assert not bench.queue.accept(Text("m"))
        with pytest.raises(RoutableNotAcceptedError, match="'m'"):
            bench.queue.handle(Text("m", body="another"))
        bench.queue.deliver()
    assert receiver.ids == ["m"]
    assert [each.body for each in bench.queue.browse()] == ["text"]
    bench.queue.acknowledge("m", "r1")
    with pytest.raises(UnknownMessageError):
        bench.store.retrieve("m")
    bench.send("m")


def test_a_channel_holds_references_and_the_store_the_bodies() -> None:
    """STATE-12"""
    bench = Bench()
    bench.send("m")
    (reference,) = bench.queue.state.references()
    assert not isinstance(reference, CoreMessage)
    assert reference.store_id == "store"
    assert bench.store.retrieve("m").body == "text"


def test_a_reference_is_as_good_as_the_message_when_its_store_has_it() -> None:
    """STATE-12"""
    bench = Bench()
    reference = bench.store.store(Text("m", is_reliable=True))
    assert bench.queue.handle(reference)
    receiver = bench.receiver(answer=True)
    assert bench.queue.deliver()
    assert receiver.ids == ["m"]
    bench.store.remove("m")
    with pytest.raises(RoutableNotAcceptedError, match="does not have it"):
        bench.queue.handle(reference)
    with pytest.raises(RoutableNotAcceptedError, match="store"):
        bench.queue.handle(
            MemoryMessageStore("elsewhere", persistence_manager=MemoryPersistenceManager()).store(Text("n"))
        )


def test_one_store_serves_several_channels() -> None:
    """Of STORE-1: a body stays until the last of them is done with it."""
    store = MemoryMessageStore("s", persistence_manager=MemoryPersistenceManager())
    queues = [QueueChannel(name, message_store=store) for name in ("p", "q")]
    text = Text("m")
    for queue in queues:
        queue.handle(text)
        queue.add_receiver(Hand("r1", answer=True))
    assert queues[0].deliver()
    assert store.retrieve("m") is text
    assert queues[1].deliver()
    with pytest.raises(UnknownMessageError):
        store.retrieve("m")


def test_a_store_refuses_what_it_cannot_keep() -> None:
    """Of STORE-1: a reliable message without reliable storage, and two messages of one id."""
    store = MemoryMessageStore("s", persistence_manager=MemoryPersistenceManager())
    store.store(Text("m"))
    with pytest.raises(IllegalStateError, match="another message"):
        store.store(Text("m", body="another"))
    store.persistence_manager = None
    with pytest.raises(IllegalStateError, match="reliable"):
        store.store(Text("n", is_reliable=True))
    with pytest.raises(UnknownMessageError):
        store.remove("n")


def test_a_first_delivery_hands_over_the_message_and_a_later_one_says_so() -> None:
    """STATE-5: what receivers get says what was sent, with the flag of this channel."""
    bench = Bench()
    receiver = bench.receiver()
    text = Text("m", is_reliable=True, redelivered=True, headers={"a": 1})
    bench.queue.handle(text)
    bench.queue.deliver()
    bench.queue.redeliver(receiver)
    assert receiver.flags == [False, True], "what another channel did does not count here"
    assert [(each.message_id, each.headers) for each in receiver.got] == [("m", {"a": 1})] * 2
    assert [getattr(each, "body", None) for each in receiver.got] == ["text", "text"]


def test_a_channel_can_be_the_receiver_of_another() -> None:
    """STATE-10: what it refuses stays where it was; what it takes it takes as its own."""
    store = MemoryMessageStore("s", persistence_manager=MemoryPersistenceManager())
    source, target = (QueueChannel(name, message_store=store) for name in ("source", "target"))
    source.add_receiver(target)
    target.handle(Text("m"))
    source.handle(Text("m"))
    assert [each.message_id for each in source.get_messages(NEW)] == ["m"]
    receiver = Hand("r1", answer=True)
    target.add_receiver(receiver)
    target.deliver()
    assert source.deliver()
    assert target.browse() == []
    source.handle(Text("n"))
    assert (receiver.ids, receiver.flags) == (["m", "m", "n"], [False, False, False])


def test_a_synchronous_queue_returns_the_receiver_s_answer_and_stores_nothing() -> None:
    """STATE-13"""
    store = MemoryMessageStore("s", persistence_manager=MemoryPersistenceManager())
    queue = QueueChannel("q", message_store=store, synchronous=True)
    assert queue.is_synchronous
    assert not queue.handle(Text("m")), "nobody is there"
    receiver = Hand("r1", answer=True)
    queue.add_receiver(receiver)
    assert queue.handle(Text("m"))
    receiver.answer = False
    assert not queue.handle(Text("n"))
    receiver.answer = RoutableNotAcceptedError("no")
    assert not queue.handle(Text("o"))
    assert receiver.ids == ["m", "n", "o"]
    assert queue.browse() == []
    with pytest.raises(UnknownMessageError):
        store.retrieve("n")
    assert queue.deliver()


def test_a_synchronous_queue_asks_the_next_receiver_when_one_refuses() -> None:
    """STATE-13"""
    queue = QueueChannel(
        "q",
        message_store=MemoryMessageStore("s", persistence_manager=MemoryPersistenceManager()),
        synchronous=True,
        clock_ms=lambda: 1_000,
    )
    hands = [Hand("r1", RoutableNotAcceptedError("no")), Hand("r2", True)]
    for hand in hands:
        queue.add_receiver(hand)
    assert queue.accept(Text("m"))
    assert queue.handle(Text("m"))
    assert not queue.handle(Text("late", expiration_ms=1_000))
    assert [hand.ids for hand in hands] == [["m"], ["m"]]


def test_a_synchronous_queue_refuses_what_would_have_to_wait_for_a_commit() -> None:
    """STATE-11, STATE-13: it holds nothing."""
    manager = LocalTransactionManager()
    queue = QueueChannel(
        "q",
        message_store=MemoryMessageStore("s", persistence_manager=MemoryPersistenceManager()),
        transaction_manager=manager,
        synchronous=True,
    )
    queue.add_receiver(Hand("r1", True))
    with manager.transaction():
        assert not queue.accept(Text("m"))
        with pytest.raises(RoutableNotAcceptedError, match="transaction"):
            queue.handle(Text("m"))
    assert queue.handle(Text("m"))


def test_an_asynchronous_queue_stores_and_acknowledges() -> None:
    """STATE-13: and offers at once; what the receiver does is nothing to the sender."""
    bench = Bench()
    assert not bench.queue.is_synchronous
    receiver = bench.receiver(answer=True)
    bench.send("m")
    assert receiver.ids == ["m"]
    assert bench.queue.browse() == []
    for answer in (RoutableNotAcceptedError("no"), BrokenError()):
        receiver.answer = answer
        bench.send("n")
        assert [each.message_id for each in bench.queue.get_messages(NEW)] == ["n"]
        bench.queue.state.remove("n")


def test_switching_says_whether_it_switched() -> None:
    """STATE-13: not when it is so already, nor while messages are held."""
    bench = Bench()
    assert not bench.queue.set_synchronous(False)
    bench.send("m")
    assert not bench.queue.set_synchronous(True)
    assert not bench.queue.is_synchronous
    bench.receiver(answer=True)
    bench.queue.deliver()
    assert bench.queue.set_synchronous(True)
    assert bench.queue.is_synchronous
    assert not bench.queue.set_synchronous(True)
    assert bench.queue.set_synchronous(False)
