"""Goal: a queue tries to deliver a message when it comes, and by a commit; nobody waits, and nothing repeats."""

from __future__ import annotations

import threading

from jbm_kafka.contract import MessageState, Routable, TransactionResource
from jbm_kafka.core.jms_errors import RoutableNotAcceptedError, TransactionInDoubtError
from jbm_kafka.local import LocalTransactionManager, MemoryMessageStore, QueueChannel
from tests.local.parts import Bench, Hand, Text

NEW, DELIVERED = MessageState.NEW, MessageState.DELIVERED


def test_a_message_that_comes_is_offered_before_its_sender_goes_on() -> None:
    """STATE-13: and owed by who took it."""
    bench = Bench()
    receivers = [bench.receiver("r1"), bench.receiver("r2")]
    bench.send("m", "n", "o")
    assert [receiver.ids for receiver in receivers] == [["m", "o"], ["n"]]
    assert bench.queue.state.nacks("m") == {"r1"}
    assert not bench.queue.has_messages(NEW)


def test_what_waited_for_a_receiver_goes_first() -> None:
    """ORDER-1, STATE-13: adding one offers nothing, the next message offers all of them in order."""
    bench = Bench()
    bench.send("a", "b")
    receiver = bench.receiver()
    assert receiver.ids == []
    bench.send("c")
    assert receiver.ids == ["a", "b", "c"]


def test_a_message_that_was_refused_lost_its_place_to_what_came_after_it() -> None:
    """STATE-10, ORDER-1: a full receiver that has room again, or another one, gets it before later ones."""
    bench = Bench()
    first = bench.receiver("r1", RoutableNotAcceptedError("full"))
    bench.send("a", "b")
    assert first.ids == ["a", "a", "b"]
    first.answer = True
    bench.send("c")
    assert first.ids[3:] == ["a", "b", "c"]
    first.answer = RoutableNotAcceptedError("full")
    bench.send("d")
    second = bench.receiver("r2")
    bench.send("e")
    assert second.ids == ["d", "e"]


def test_a_message_behind_an_expired_one_was_not_offered_when_another_unit_s_had_expired_too() -> None:
    """STATE-13: the more urgent one was found, and both left; nobody looked behind the other."""
    bench = Bench()
    bench.send("a1", unit="a", expiration_ms=2_000)
    bench.send("urgent", priority=5, expiration_ms=2_000)
    receiver = bench.receiver()
    bench.clock.now_ms = 2_000
    bench.send("a2", unit="a")
    assert receiver.ids == ["a2"]


def test_what_came_back_is_not_offered_on_the_channel_s_own_initiative() -> None:
    """STATE-5, STATE-13"""
    bench = Bench()
    first = bench.receiver("r1")
    bench.send("m")
    bench.send("u1", unit="u")
    bench.queue.remove_receiver("r1")
    second = bench.receiver("r2")
    bench.send("n")
    bench.send("u2", unit="u")
    assert (first.ids, second.ids) == (["m", "u1"], ["n"])
    assert bench.queue.deliver()
    assert second.ids == ["n", "m", "u1", "u2"]


def test_what_an_acknowledgement_freed_goes_with_the_next_message() -> None:
    """STATE-13, UNIT-5"""
    bench = Bench()
    first = bench.receiver("r1")
    bench.send("u1", unit="u")
    first.wants = lambda routable: False
    second = bench.receiver("r2")
    bench.send("u2", unit="u")
    bench.queue.acknowledge("u1", "r1")
    assert second.ids == []
    bench.send("m")
    assert second.ids == ["u2", "m"]


def test_a_commit_offers_what_was_sent_in_it_and_what_waited_behind_that() -> None:
    """STATE-2, STATE-13, of UNIT-4"""
    bench = Bench()
    receiver = bench.receiver(answer=True)
    bench.transactions.begin()
    bench.send("u1", "u2", unit="u")
    other = threading.Thread(target=bench.send, args=("u3",), kwargs={"unit": "u"})
    other.start()
    other.join()
    assert receiver.ids == []
    bench.transactions.commit()
    assert receiver.ids == ["u1", "u2", "u3"]
    assert bench.queue.browse() == []


def test_a_rollback_offers_nothing_and_frees_the_unit_for_the_next_message() -> None:
    """STATE-2, STATE-13"""
    bench = Bench()
    receiver = bench.receiver(answer=True)
    bench.transactions.begin()
    bench.send("u1", unit="u")
    other = threading.Thread(target=bench.send, args=("u2",), kwargs={"unit": "u"})
    other.start()
    other.join()
    bench.transactions.rollback()
    assert receiver.ids == []
    bench.send("m")
    assert receiver.ids == ["u2", "m"]


def test_receivers_see_the_whole_transaction_when_they_are_offered_a_part_of_it() -> None:
    """STATE-2, STATE-13: every channel has committed before the first offers."""
    bench = Bench()
    other = QueueChannel("other", message_store=bench.store, transaction_manager=bench.transactions)
    receiver = bench.receiver()
    seen: list[bool] = []
    receiver.meanwhile = lambda routable: seen.append(other.has_messages(NEW))
    with bench.transactions.transaction():
        bench.send("m")
        other.handle(Text("n"))
    assert seen == [True]


class Unwilling:
    """A resource that does not commit."""

    def commit_transaction(self, transaction_id: str, /) -> None:
        raise OSError("disk full")

    def rollback_transaction(self, transaction_id: str, /) -> None:
        """Nothing to undo."""


def test_what_committed_is_offered_although_another_resource_did_not() -> None:
    """STATE-13: it is in doubt as a whole, and here it is not."""
    bench = Bench()
    receiver = bench.receiver()
    bench.transactions.begin()
    bench.send("m")
    resource: TransactionResource = Unwilling()
    bench.transactions.enlist(resource)
    try:
        bench.transactions.commit()
    except TransactionInDoubtError:
        assert receiver.ids == ["m"]
    else:
        raise AssertionError("it is in doubt")


def test_an_open_transaction_of_the_sender_does_not_become_the_receivers() -> None:
    """STATE-7, STATE-13: another channel offers nothing meanwhile, and at its commit outside of it."""
    bench = Bench()
    receiver = bench.receiver(answer=True)
    with bench.transactions.transaction():
        bench.send("m")
        assert receiver.ids == []
    assert bench.queue.state.state_of("m") is None


def test_what_a_receiver_sends_into_its_own_channel_waits_for_the_next_time() -> None:
    """STATE-13: it is not called while it is busy, and a message that begets another does not go on for ever."""
    bench = Bench()
    receiver = bench.receiver(answer=True)
    depth: list[int] = []

    def send_another(routable: Routable) -> None:
        depth.append(1)
        assert len(depth) == 1
        bench.send(routable.message_id + "'")
        depth.pop()

    receiver.meanwhile = send_another
    bench.send("m")
    assert receiver.ids == ["m"]
    bench.send("n")
    assert receiver.ids == ["m", "m'", "n"]


def test_a_sender_does_not_wait_for_another_s_receiver_and_its_message_goes_all_the_same() -> None:
    """STATE-13: the thread that is offering goes on with it."""
    bench = Bench()
    receiver = bench.receiver(answer=True)
    is_busy, may_end = threading.Event(), threading.Event()

    def work(routable: Routable) -> None:
        if routable.message_id == "slow":
            is_busy.set()
            assert may_end.wait(20)

    receiver.meanwhile = work
    first = threading.Thread(target=bench.send, args=("slow",))
    first.start()
    assert is_busy.wait(20)
    bench.send("m")
    assert receiver.ids == ["slow"]
    may_end.set()
    first.join(20)
    assert receiver.ids == ["slow", "m"]


def test_a_receiver_that_sends_into_its_own_channel_does_not_forget_another_sender() -> None:
    """STATE-13: who asked for the next pass meanwhile gets it."""
    bench = Bench()
    receiver = bench.receiver(answer=True)

    def work(routable: Routable) -> None:
        if routable.message_id == "slow":
            other = threading.Thread(target=bench.send, args=("m",))
            other.start()
            other.join(20)
            bench.send("n")

    receiver.meanwhile = work
    bench.send("slow")
    assert receiver.ids == ["slow", "m", "n"]


def test_two_channels_whose_receivers_send_to_each_other_do_not_wait_for_each_other() -> None:
    """STATE-13"""
    store = MemoryMessageStore("s")
    queues = [QueueChannel(name, message_store=store) for name in ("p", "q")]
    both = threading.Barrier(2)
    for place, queue in enumerate(queues):
        receiver = Hand(f"r{place}", answer=True)

        def answer(routable: Routable, other: QueueChannel = queues[1 - place]) -> None:
            if routable.message_id.startswith("ask"):
                both.wait(20)
                other.handle(Text(f"answer to {routable.message_id}"))

        receiver.meanwhile = answer
        queue.add_receiver(receiver)
    senders = [threading.Thread(target=queue.handle, args=(Text(f"ask {queue.name}"),)) for queue in queues]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join(20)
        assert not sender.is_alive()
    assert [queue.browse() for queue in queues] == [[], []]


def test_many_senders_at_once_leave_nothing_lying() -> None:
    """ORDER-1, STATE-13: whoever has the pass looks again before it leaves."""
    queue = QueueChannel("q", message_store=MemoryMessageStore("s"), transaction_manager=LocalTransactionManager())
    receiver = Hand("r1", answer=True)
    queue.add_receiver(receiver)
    begin = threading.Barrier(4)

    def send(sender: int) -> None:
        begin.wait(20)
        for number in range(200):
            queue.handle(Text(f"{sender}.{number}"))

    threads = [threading.Thread(target=send, args=(sender,)) for sender in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(receiver.ids) == 800
    for sender in range(4):
        mine = [name for name in receiver.ids if name.startswith(f"{sender}.")]
        assert mine == [f"{sender}.{number}" for number in range(200)]
    assert queue.browse() == []
