"""Goal: deliver, redeliver and browse show exactly what they promise."""

from __future__ import annotations

import pytest

from jbm_kafka.contract import MessageState, Routable
from jbm_kafka.core.jms_errors import IllegalStateError, RoutableNotAcceptedError
from tests.local.parts import Bench, Hand, Text

NEW, DELIVERED = MessageState.NEW, MessageState.DELIVERED


def test_deliver_offers_what_is_there_at_the_call_and_nothing_that_comes_meanwhile() -> None:
    """STATE-9"""
    bench = Bench()
    bench.send("m", "n")
    receiver = bench.receiver(answer=True)
    receiver.meanwhile = lambda routable: bench.send(routable.message_id + "'")
    assert not bench.queue.deliver()
    assert receiver.ids == ["m", "n"]
    receiver.meanwhile = lambda routable: None
    assert bench.queue.deliver()
    assert receiver.ids == ["m", "n", "m'", "n'"]


def test_a_unit_s_message_that_comes_meanwhile_waits_for_the_next_pass() -> None:
    """STATE-9: although it is the next of a unit that goes on in this one."""
    bench = Bench()
    bench.send("m", unit="u")
    receiver = bench.receiver(answer=True)
    receiver.meanwhile = lambda routable: bench.send(routable.message_id + "'", unit="u")
    assert not bench.queue.deliver()
    assert receiver.ids == ["m"]


def test_deliver_touches_nothing_that_is_delivered_or_not_committed() -> None:
    """STATE-9"""
    bench = Bench()
    receiver = bench.receiver()
    bench.send("m")
    assert bench.queue.deliver()
    with bench.transactions.transaction():
        bench.send("n")
        assert bench.queue.deliver(), "what is not committed is not NEW"
        assert receiver.ids == ["m"]


def test_deliver_on_an_empty_channel_leaves_nothing() -> None:
    """STATE-9"""
    assert Bench().queue.deliver()


def test_deliver_inside_a_receiver_changes_nothing() -> None:
    """STATE-9: each message is offered once in a pass."""
    bench = Bench()
    receiver = bench.receiver()
    answers: list[bool] = []
    inside: list[int] = []

    def deliver_again(_: object) -> None:
        inside.append(len(receiver.got) - len(answers))
        answers.append(bench.queue.deliver())

    receiver.meanwhile = deliver_again
    bench.send("m", "n")
    assert bench.queue.deliver()
    assert receiver.ids == ["m", "n"]
    assert answers == [False, False]
    assert inside == [1, 1], "a receiver was called while it was busy"


def test_a_unit_freed_while_delivering_goes_on_in_the_same_pass() -> None:
    """STATE-9: all NEW messages present at the call."""
    bench = Bench()
    first, second = bench.receiver("r1"), Hand("r2")
    bench.send("u1", unit="u")
    bench.queue.deliver()
    bench.queue.add_receiver(second)
    first.wants = lambda routable: False
    second.meanwhile = lambda routable: bench.queue.acknowledge("u1", "r1") if routable.message_id == "m" else None
    bench.send("u2", unit="u")
    bench.send("m")
    assert bench.queue.deliver()
    assert second.ids == ["m", "u2"]


def test_receivers_take_turns() -> None:
    """Of STATE-4: each message goes to one, the next to the next."""
    bench = Bench()
    hands = [bench.receiver(f"r{n}") for n in range(3)]
    bench.send(*"abcdefg")
    bench.queue.deliver()
    assert [hand.ids for hand in hands] == [["a", "d", "g"], ["b", "e"], ["c", "f"]]


def test_the_channel_never_redelivers_by_itself() -> None:
    """STATE-5"""
    bench = Bench()
    receiver = bench.receiver()
    bench.send("m")
    for _ in range(3):
        assert bench.queue.deliver()
    assert receiver.ids == ["m"]


def test_redeliver_offers_what_is_owed_with_the_flag_and_nothing_else() -> None:
    """STATE-9"""
    bench = Bench()
    receiver, other = bench.receiver("r1"), bench.receiver("r2")
    bench.send("a", "b", "c", "d")
    bench.queue.deliver()
    bench.queue.acknowledge("a", "r1")
    receiver.got, other.got = [], []
    receiver.meanwhile = lambda routable: bench.send(routable.message_id + "'")
    assert not bench.queue.redeliver(receiver), "it still owes c"
    assert (receiver.ids, receiver.flags, other.ids) == (["c"], [True], [])
    receiver.answer, receiver.meanwhile = True, lambda routable: None
    assert bench.queue.redeliver(receiver)
    assert receiver.flags == [True, True]
    assert bench.queue.redeliver(receiver), "nothing is owed"
    assert receiver.ids == ["c", "c"]
    assert bench.queue.state.nacks("b") == {"r2"}


def test_a_lost_receiver_s_messages_go_to_another_with_the_flag() -> None:
    """STATE-5: its loss counts as asking."""
    bench = Bench()
    lost = bench.receiver("r1")
    bench.send("m")
    bench.queue.deliver()
    bench.queue.remove_receiver("r1")
    assert bench.queue.state.state_of("m") is NEW
    other = bench.receiver("r2", answer=True)
    assert bench.queue.deliver()
    assert (other.ids, other.flags, lost.ids) == (["m"], [True], ["m"])
    assert bench.queue.redeliver(lost)


def test_a_disconnected_receiver_gets_what_it_owed_and_nobody_took_since() -> None:
    """STATE-9: redeliver serves it without its being registered."""
    bench = Bench()
    lost, other = bench.receiver("r1"), Hand("r2", answer=True)
    bench.send("m", "n")
    bench.queue.deliver()
    bench.queue.remove_receiver("r1")
    other.wants = lambda routable: routable.message_id == "m"
    bench.queue.add_receiver(other)
    bench.queue.deliver()
    lost.got = []
    assert not bench.queue.redeliver(lost)
    assert (lost.ids, lost.flags) == (["n"], [True])
    bench.queue.acknowledge("n", "r1")
    assert bench.queue.redeliver(lost)


def test_a_disconnected_receiver_that_refuses_still_has_it_coming() -> None:
    """STATE-9"""
    bench = Bench()
    lost = bench.receiver("r1")
    bench.send("m")
    bench.queue.deliver()
    bench.queue.remove_receiver("r1")
    lost.answer = RoutableNotAcceptedError("not yet")
    assert not bench.queue.redeliver(lost)
    lost.answer = True
    assert bench.queue.redeliver(lost)


def test_what_is_just_being_offered_is_offered_to_nobody_else() -> None:
    """Of STATE-4: not even to the one that had it before."""
    bench = Bench()
    lost = bench.receiver("r1")
    bench.send("m")
    bench.queue.deliver()
    bench.queue.remove_receiver("r1")
    lost.got = []
    other = bench.receiver("r2")

    def serve_the_lost_one(_: object) -> None:
        bench.queue.redeliver(lost)

    other.meanwhile = serve_the_lost_one
    assert bench.queue.deliver()
    assert (other.ids, lost.ids) == (["m"], [])


def test_a_receiver_removed_while_it_has_the_message_has_lost_it() -> None:
    """STATE-5"""
    bench = Bench()
    receiver = bench.receiver()
    receiver.meanwhile = lambda routable: bench.queue.remove_receiver("r1")
    bench.send("m")
    assert not bench.queue.deliver()
    assert bench.queue.state.state_of("m") is NEW
    assert [reference.redelivered for reference in bench.queue.state.references()] == [True]


def test_removing_a_receiver_that_is_not_there_changes_nothing() -> None:
    bench = Bench()
    bench.queue.remove_receiver("nobody")
    assert bench.queue.receivers == ()


def test_a_second_receiver_of_the_same_id_is_refused_and_the_same_one_is_welcome() -> None:
    bench = Bench()
    receiver = bench.receiver("r1")
    bench.queue.add_receiver(receiver)
    with pytest.raises(IllegalStateError):
        bench.queue.add_receiver(Hand("r1"))
    assert list(bench.queue.receivers) == [receiver]


def test_browsing_shows_new_and_delivered_in_arrival_order_and_consumes_nothing() -> None:
    """STATE-9"""
    bench = Bench()
    receiver = bench.receiver()
    receiver.wants = lambda routable: routable.message_id == "b"
    bench.send("a", "b", "c")
    bench.send("urgent", priority=9)
    bench.queue.deliver()
    with bench.transactions.transaction():
        bench.send("later")
        for _ in range(2):
            assert [message.message_id for message in bench.queue.browse()] == ["a", "b", "c", "urgent"]
    assert bench.queue.browse(Wants("c")) == [Text("c", is_reliable=True)]
    assert bench.queue.get_messages(NEW)[0].body == "text"


class Wants:
    """A filter for one id."""

    def __init__(self, wanted: str) -> None:
        self.wanted = wanted

    def accept(self, routable: Routable, /) -> bool:
        return routable.message_id == self.wanted


def test_a_message_without_its_body_holds_up_nothing_but_its_unit() -> None:
    """STATE-12"""
    bench = Bench()
    bench.send("a1", "a2", unit="a")
    bench.send("m")
    bench.store.remove("a1")
    receiver = bench.receiver(answer=True)
    assert not bench.queue.deliver()
    assert receiver.ids == ["m"]


def test_a_receiver_that_closes_the_channel_ends_the_pass() -> None:
    bench = Bench()
    bench.send("m", "n")
    receiver = bench.receiver(answer=True)
    receiver.meanwhile = lambda routable: bench.queue.close()
    with pytest.raises(IllegalStateError, match="closed"):
        bench.queue.deliver()
    assert receiver.ids == ["m"]
    bench.queue = bench.open()
    assert [message.message_id for message in bench.queue.browse()] == ["n"]


def test_a_closed_channel_does_nothing_but_close_again() -> None:
    bench = Bench()
    bench.queue.close()
    bench.queue.close()
    assert not bench.queue.accept(Text("m"))
    for act in (
        lambda: bench.queue.handle(Text("m")),
        bench.queue.deliver,
        bench.queue.browse,
        lambda: bench.queue.acknowledge("m", "r1"),
        lambda: bench.queue.expire(0),
        lambda: bench.queue.redeliver(Hand()),
        lambda: bench.queue.add_receiver(Hand()),
        lambda: bench.queue.has_messages(NEW),
    ):
        with pytest.raises(IllegalStateError, match="closed"):
            act()
