"""Goal: a message is in the state its channel says, whatever its receivers do."""

from __future__ import annotations

import threading

import pytest

from jbm_kafka.contract import MessageState
from jbm_kafka.core.jms_errors import IllegalStateError, RoutableNotAcceptedError, UnknownMessageError
from tests.local.parts import Bench, BrokenError, Hand

NEW, DELIVERED = MessageState.NEW, MessageState.DELIVERED


def test_what_no_receiver_is_there_for_stays_new() -> None:
    """STATE-3, of STATE-8: a queue stores what it cannot deliver."""
    bench = Bench()
    bench.send("m")
    assert bench.queue.is_storing_undeliverable_messages
    assert not bench.queue.deliver()
    assert bench.queue.has_messages(NEW)
    assert not bench.queue.has_messages(DELIVERED)


def test_what_no_receiver_accepts_stays_new_and_is_not_handed_over() -> None:
    """STATE-3"""
    bench = Bench()
    receiver = bench.receiver()
    receiver.wants = lambda routable: routable.message_id == "n"
    bench.send("m", "n")
    assert not bench.queue.deliver()
    assert receiver.ids == ["n"]
    assert bench.queue.state.state_of("m") is NEW


def test_a_broken_receiver_leaves_the_message_new_and_uncounted() -> None:
    """STATE-3: it is as good as no receiver, however often it is tried."""
    bench = Bench()
    receiver = bench.receiver(answer=BrokenError())
    bench.send("m")
    for _ in range(20):
        assert not bench.queue.deliver()
    assert bench.queue.state.state_of("m") is NEW
    receiver.answer, receiver.got = False, []
    assert bench.queue.deliver()
    assert receiver.flags == [False]


def test_a_receiver_that_breaks_in_accept_is_broken_too() -> None:
    """STATE-3"""
    bench = Bench()
    broken, sound = bench.receiver("r1"), bench.receiver("r2")

    def fail(_: object) -> bool:
        raise BrokenError

    broken.wants = fail
    bench.send("m")
    assert bench.queue.deliver()
    assert (broken.ids, sound.ids) == ([], ["m"])


def test_a_message_is_in_one_hand_and_leaves_with_its_acknowledgement() -> None:
    """Of STATE-4: a queue offers to one receiver at a time; the NACK set has one member at most."""
    bench = Bench()
    hands = [bench.receiver("r1"), bench.receiver("r2")]
    bench.send("m")
    assert bench.queue.deliver()
    assert [hand.ids for hand in hands] == [["m"], []]
    assert bench.queue.state.nacks("m") == {"r1"}
    assert [each.message_id for each in bench.queue.get_messages(DELIVERED)] == ["m"]
    bench.queue.acknowledge("m", "r1")
    assert bench.queue.state.state_of("m") is None
    assert not bench.queue.has_messages(DELIVERED)


def test_a_receiver_that_answers_true_has_acknowledged() -> None:
    """Of STATE-4"""
    bench = Bench()
    receiver = bench.receiver(answer=True)
    bench.send("m", "n")
    assert bench.queue.deliver()
    assert receiver.ids == ["m", "n"]
    assert bench.queue.browse() == []


@pytest.mark.parametrize("who", ["r1", "r2", "nobody"])
def test_an_acknowledgement_of_what_the_channel_does_not_hold_changes_nothing(who: str) -> None:
    """STATE-6"""
    bench = Bench()
    bench.send("m")
    with pytest.raises(UnknownMessageError):
        bench.queue.acknowledge("other", who)
    assert bench.queue.state.state_of("m") is NEW


def test_nobody_acknowledges_what_is_in_another_hand() -> None:
    """STATE-6: a late acknowledgement does not settle what somebody else is working on."""
    bench = Bench()
    bench.receiver("r1")
    bench.send("m")
    bench.queue.deliver()
    with pytest.raises(UnknownMessageError):
        bench.queue.acknowledge("m", "r2")
    assert bench.queue.state.nacks("m") == {"r1"}


def test_a_message_acknowledged_twice_is_unknown_the_second_time() -> None:
    """STATE-6"""
    bench = Bench()
    bench.receiver("r1")
    bench.send("m")
    bench.queue.deliver()
    bench.queue.acknowledge("m", "r1")
    with pytest.raises(UnknownMessageError):
        bench.queue.acknowledge("m", "r1")


@pytest.mark.parametrize("answer", [False, True, BrokenError(), RoutableNotAcceptedError("no")])
def test_a_receiver_may_acknowledge_inside_its_own_handle(answer: bool | Exception) -> None:
    """STATE-6: the early acknowledgement moves NEW to DELIVERED, and cancels the owed one; nothing it does then undoes
    that."""
    bench = Bench()
    receiver = bench.receiver(answer=answer)
    seen: list[tuple[MessageState | None, frozenset[str]]] = []

    def acknowledge(_: object) -> None:
        seen.append((bench.queue.state.state_of("m"), bench.queue.state.nacks("m")))
        bench.queue.acknowledge("m", "r1")
        seen.append((bench.queue.state.state_of("m"), bench.queue.state.nacks("m")))

    receiver.meanwhile = acknowledge
    bench.send("m")
    assert bench.queue.deliver()
    assert seen == [(NEW, frozenset()), (DELIVERED, frozenset())]
    assert bench.queue.state.state_of("m") is None
    assert receiver.ids == ["m"]


def test_a_receiver_may_acknowledge_from_another_thread_before_it_returns() -> None:
    """STATE-6: the race itself; the channel holds no lock while a receiver has the message."""
    bench = Bench()
    receiver = bench.receiver()

    def acknowledge(_: object) -> None:
        other = threading.Thread(target=bench.queue.acknowledge, args=("m", "r1"))
        other.start()
        other.join(timeout=10)
        assert not other.is_alive(), "the channel kept its lock while the receiver had the message"

    receiver.meanwhile = acknowledge
    bench.send("m")
    assert bench.queue.deliver()
    assert bench.queue.browse() == []


def test_an_acknowledgement_long_before_the_delivery_is_kept_and_settles_it() -> None:
    """STATE-6: nobody is handed the message any more."""
    bench = Bench()
    bench.send("m")
    bench.queue.acknowledge("m", "r1")
    receivers = [bench.receiver("r1"), bench.receiver("r2")]
    assert bench.queue.state.state_of("m") is DELIVERED
    assert bench.queue.state.nacks("m") == frozenset()
    with pytest.raises(UnknownMessageError):
        bench.queue.acknowledge("m", "r1")
    assert bench.queue.deliver()
    assert bench.queue.state.state_of("m") is None
    assert [each.got for each in receivers] == [[], []]


def test_the_contract_s_update_takes_both_orders() -> None:
    """STATE-6: not positive records the delivery, positive the acknowledgement, whichever comes first."""
    bench = Bench()
    bench.send("m", "n")
    state = bench.queue.state
    state.update("m", "r1", False)
    assert state.nacks("m") == {"r1"}
    state.update("m", "r1", True)
    state.update("n", "r1", True)
    state.update("n", "r1", False)
    assert list(state.references()) == []


def test_a_state_that_a_move_does_not_fit_refuses_it() -> None:
    """Of STATE-1: refused, and nothing changed."""
    bench = Bench()
    with bench.transactions.transaction():
        bench.send("m")
        with pytest.raises(IllegalStateError):
            bench.queue.acknowledge("m", "r1")
        with pytest.raises(IllegalStateError):
            bench.queue.state.update("m", "r1", False)
        with pytest.raises(IllegalStateError):
            bench.queue.state.remove("m")
        assert bench.queue.state.state_of("m") is MessageState.NOT_COMMITTED
    bench.queue.state.update("m", "r1", False)
    with pytest.raises(IllegalStateError):
        bench.queue.state.update("m", "r2", False)
    assert bench.queue.state.nacks("m") == {"r1"}


def test_removing_takes_a_message_from_whoever_has_it() -> None:
    """Of STATE-1"""
    bench = Bench()
    bench.receiver()
    bench.send("m")
    bench.queue.deliver()
    bench.send("n")
    for name in ("m", "n"):
        bench.queue.state.remove(name)
        with pytest.raises(UnknownMessageError):
            bench.queue.state.remove(name)
    assert not bench.queue.has_messages(NEW)
    assert not bench.queue.has_messages(DELIVERED)


def test_a_refusal_in_handle_is_as_if_the_message_had_never_been_offered() -> None:
    """STATE-10: state, count and order are unchanged, and the next receiver is asked."""
    bench = Bench()
    bench.send("m", "n", unit="u")
    refusing, other = bench.receiver("r1", RoutableNotAcceptedError("no")), Hand("r2")
    assert not bench.queue.deliver()
    assert refusing.ids == ["m"], "n must not overtake m"
    assert [reference.redelivered for reference in bench.queue.state.references(NEW)] == [False, False]
    bench.queue.add_receiver(other)
    assert bench.queue.deliver()
    assert (other.ids, other.flags) == (["m", "n"], [False, False])


def test_acceptance_is_only_advice() -> None:
    """STATE-10: what accept wants, handle may still refuse."""
    bench = Bench()
    receiver = bench.receiver(answer=RoutableNotAcceptedError("changed my mind"))
    bench.send("m")
    assert receiver.accept(bench.queue.browse()[0])
    assert not bench.queue.deliver()
    assert bench.queue.state.state_of("m") is NEW


def test_who_acknowledges_a_message_and_then_breaks_has_acknowledged_it() -> None:
    """STATE-6, of STATE-3: at once, and nobody else is offered it."""
    bench = Bench()
    hands = [bench.receiver("r1"), bench.receiver("r2")]
    for hand in hands:
        hand.answer = BrokenError()
        hand.meanwhile = lambda _, by=hand.receiver_id: bench.queue.acknowledge("m", by)  # type: ignore[misc]
    bench.send("m")
    assert [each for hand in hands for each in hand.ids] == ["m"]
    assert bench.queue.browse() == []
