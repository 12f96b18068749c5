"""Goal: a topic channel offers each message to all its receivers, and keeps it until each of them acknowledged."""

from __future__ import annotations

import pytest

from jbm_kafka.contract import Channel, ChannelState, MessageState, Receiver, Routable
from jbm_kafka.core.jms_errors import (
    IllegalStateError,
    RoutableNotAcceptedError,
    UnknownMessageError,
)
from jbm_kafka.local import (
    MemoryMessageStore,
    TopicChannel,
)
from tests.local.parts import BrokenError, Hand, Text
from tests.local.topic_parts import TopicBench

NOT_COMMITTED, NEW, DELIVERED = MessageState.NOT_COMMITTED, MessageState.NEW, MessageState.DELIVERED


def test_a_topic_is_what_the_contract_calls_a_channel() -> None:
    channel: Channel = TopicBench().topic
    state: ChannelState = TopicBench().topic.state
    assert isinstance(channel, Channel)
    assert isinstance(channel, Receiver)
    assert (channel.receiver_id, channel.is_reliable, channel.is_transactional) == ("t", True, True)
    assert not channel.is_storing_undeliverable_messages
    assert state.is_reliable
    assert repr(channel) == "TopicChannel('t')"


def test_a_message_is_offered_to_all_and_leaves_with_the_last_acknowledgement(bench: TopicBench) -> None:
    """STATE-4: the NACK set has as many members as took it."""
    hands = [bench.receiver(f"r{number}") for number in range(3)]
    bench.send("m")
    assert [hand.ids for hand in hands] == [["m"], ["m"], ["m"]]
    assert bench.topic.state.nacks("m") == {"r0", "r1", "r2"}
    for number, left in enumerate([{"r1", "r2"}, {"r2"}]):
        bench.topic.acknowledge("m", f"r{number}")
        assert bench.topic.state.state_of("m") is DELIVERED
        assert bench.topic.state.nacks("m") == left
        assert [each.body for each in bench.topic.browse()] == ["text"]
    bench.topic.acknowledge("m", "r2")
    assert bench.topic.state.state_of("m") is None
    bench.nothing_is_left()


def test_who_acknowledges_at_once_is_not_in_the_nack_set(bench: TopicBench) -> None:
    """STATE-4: and a message that all acknowledge at once leaves at once."""
    bench.receiver("r1", answer=True)
    slow = bench.receiver("r2")
    bench.send("m")
    assert bench.topic.state.nacks("m") == {"r2"}
    slow.answer = True
    bench.send("n")
    assert [each.message_id for each in bench.topic.browse()] == ["m"]
    bench.topic.acknowledge("m", "r2")
    bench.nothing_is_left()


@pytest.mark.parametrize("answer", [RoutableNotAcceptedError("no"), BrokenError()])
def test_what_nobody_takes_is_discarded_and_the_sender_acknowledged(bench: TopicBench, answer: Exception) -> None:
    """STATE-8: also without a receiver."""
    bench.send("m")
    refusing = bench.receiver("r1", answer)
    bench.send("n")
    assert refusing.ids == ["n"]
    refusing.wants = lambda routable: False
    bench.send("o")
    assert refusing.ids == ["n"]
    bench.nothing_is_left()
    taking = bench.receiver("r2")
    bench.send("p")
    assert bench.topic.state.nacks("p") == {"r2"}
    assert taking.ids == ["p"]


def test_a_new_receiver_gets_what_comes_from_then_on(bench: TopicBench) -> None:
    """STATE-4, STATE-8"""
    bench.receiver("r1")
    bench.send("m")
    late = bench.receiver("r2")
    bench.send("n")
    assert late.ids == ["n"]
    assert bench.topic.state.nacks("m") == {"r1"}
    assert bench.topic.deliver()
    assert late.ids == ["n"]
    with pytest.raises(IllegalStateError, match="another receiver"):
        bench.topic.add_receiver(Hand("r2"))
    assert len(bench.topic.receivers) == 2


def test_only_who_has_a_message_acknowledges_it_and_once(bench: TopicBench) -> None:
    """STATE-6"""
    bench.receiver("r1")
    bench.receiver("r2")
    bench.send("m")
    bench.topic.acknowledge("m", "r1")
    for message_id, receiver_id in (("m", "r1"), ("m", "r9"), ("n", "r2")):
        with pytest.raises(UnknownMessageError):
            bench.topic.acknowledge(message_id, receiver_id)
    assert bench.topic.state.nacks("m") == {"r2"}


@pytest.mark.parametrize("answer", [False, True, BrokenError(), RoutableNotAcceptedError("no")])
def test_a_receiver_may_acknowledge_before_its_delivery_is_recorded(
    bench: TopicBench, answer: bool | Exception
) -> None:
    """STATE-6: NEW becomes DELIVERED, the owed acknowledgement is cancelled, and the others are offered it still."""
    first, second = bench.receiver("r1", answer), bench.receiver("r2")
    seen: list[MessageState | None] = []

    def acknowledge(_: Routable) -> None:
        seen.append(bench.topic.state.state_of("m"))
        bench.topic.acknowledge("m", "r1")
        seen.append(bench.topic.state.state_of("m"))
        with pytest.raises(UnknownMessageError):
            bench.topic.acknowledge("m", "r1")

    first.meanwhile = acknowledge
    bench.send("m")
    assert seen == [NEW, DELIVERED]
    assert (first.ids, second.ids) == (["m"], ["m"])
    assert bench.topic.state.nacks("m") == {"r2"}
    bench.topic.acknowledge("m", "r2")
    bench.nothing_is_left()


def test_an_acknowledgement_long_before_the_delivery_is_kept(bench: TopicBench) -> None:
    """STATE-6: that receiver is not handed the message any more, the others are."""
    reference = bench.store.store(Text("m", is_reliable=True))
    bench.topic.state.add(reference)
    bench.topic.acknowledge("m", "r1")
    assert bench.topic.state.state_of("m") is DELIVERED
    first, second = bench.receiver("r1"), bench.receiver("r2", answer=True)
    assert bench.topic.deliver()
    assert (first.ids, second.ids) == ([], ["m"])
    bench.nothing_is_left()


def test_redelivery_goes_to_who_asks_with_the_flag_and_to_nobody_else(bench: TopicBench) -> None:
    """STATE-5, STATE-9"""
    first, second = bench.receiver("r1"), bench.receiver("r2")
    bench.send("a", "b")
    bench.topic.acknowledge("a", "r2")
    first.got, second.got = [], []
    assert not bench.topic.redeliver(first)
    assert (first.ids, first.flags, second.ids) == (["a", "b"], [True, True], [])
    first.answer = True
    assert bench.topic.redeliver(first)
    assert bench.topic.redeliver(first), "nothing is owed"
    assert first.ids == ["a", "b", "a", "b"]
    assert bench.topic.state.nacks("b") == {"r2"}
    assert bench.topic.state.state_of("a") is None


@pytest.mark.parametrize("answer", [RoutableNotAcceptedError("no"), BrokenError()])
def test_a_refused_redelivery_stays_owed_and_holds_its_unit(bench: TopicBench, answer: Exception) -> None:
    """STATE-10, of UNIT-2"""
    receiver = bench.receiver("r1")
    bench.send("u1", "u2", unit="u")
    bench.send("m", "n")
    receiver.answer, receiver.got = answer, []
    assert not bench.topic.redeliver(receiver)
    assert receiver.ids == ["u1", "m", "n"]
    assert bench.topic.state.nacks("u1") == {"r1"}


def test_a_receiver_that_acknowledges_while_it_is_offered_a_message_again_has_done_so(bench: TopicBench) -> None:
    """STATE-6"""
    receiver = bench.receiver("r1")
    bench.send("m")
    receiver.answer = True
    receiver.meanwhile = lambda routable: bench.topic.acknowledge("m", "r1")
    assert bench.topic.redeliver(receiver)
    bench.nothing_is_left()


def test_a_disconnected_receiver_of_a_topic_could_not_ask_again(bench: TopicBench) -> None:
    """STATE-5, STATE-9: its share went with it, also when it left while it was being offered the message."""
    first = bench.receiver("r1")
    leaving = bench.receiver("r2")
    leaving.meanwhile = lambda routable: bench.topic.remove_receiver("r2")
    bench.send("m")
    for name in ("r1", "nobody"):
        bench.topic.remove_receiver(name)
    assert bench.topic.state.nacks("m") == {"r1", "r2"}
    bench.send("n")
    assert not bench.topic.redeliver(first)
    assert (first.ids, first.flags) == (["m", "m"], [False, True])
    bench.topic.acknowledge("m", "r1")
    assert bench.topic.redeliver(first)
    bench.topic.acknowledge("m", "r2")
    bench.nothing_is_left()


def test_what_has_expired_is_offered_to_nobody(bench: TopicBench) -> None:
    """SEND-5, STATE-4: in hand it expires when it comes back, for each receiver."""
    first, second = bench.receiver("r1"), bench.receiver("r2")
    bench.send("late", expiration_ms=bench.clock.now_ms)
    assert first.ids == []
    bench.send("m", expiration_ms=2_000)
    bench.clock.now_ms = 2_000
    assert bench.topic.expire(2_000) == []
    assert bench.topic.redeliver(first)
    assert bench.topic.state.nacks("m") == {"r2"}
    bench.topic.acknowledge("m", "r2")
    bench.send("n", expiration_ms=3_000)
    bench.clock.now_ms = 3_000
    assert bench.topic.redeliver(first)
    assert bench.topic.redeliver(second)
    assert (first.ids, second.ids) == (["m", "n"], ["m", "n"])
    bench.nothing_is_left()


def test_what_was_acknowledged_early_and_then_expired_is_handed_to_nobody(bench: TopicBench) -> None:
    """SEND-5, STATE-6"""
    bench.topic.state.add(bench.store.store(Text("m", is_reliable=True, expiration_ms=2_000)))
    bench.topic.acknowledge("m", "r1")
    receiver = bench.receiver("r2")
    bench.clock.now_ms = 2_000
    assert bench.topic.deliver()
    assert receiver.ids == []
    bench.nothing_is_left()


def test_a_synchronous_topic_answers_for_all_its_receivers_and_stores_nothing() -> None:
    """STATE-13"""
    store = MemoryMessageStore("s")
    topic = TopicChannel("t", message_store=store, synchronous=True, clock_ms=lambda: 1_000)
    assert topic.is_synchronous
    assert topic.handle(Text("m")), "STATE-8: nobody is there"
    hands = [Hand("r1", True), Hand("r2", True)]
    for hand in hands:
        topic.add_receiver(hand)
    assert topic.accept(Text("n"))
    assert topic.handle(Text("n"))
    for answer in (False, RoutableNotAcceptedError("no"), BrokenError()):
        hands[0].answer = answer
        assert not topic.handle(Text("o"))
    assert hands[1].ids == ["n", "o", "o", "o"]
    assert not topic.handle(Text("late", expiration_ms=1_000))
    assert topic.browse() == []
    with pytest.raises(UnknownMessageError):
        store.retrieve("o")


def test_the_contract_s_update_and_remove_work_on_a_topic_s_state(bench: TopicBench) -> None:
    """STATE-4, STATE-6"""
    state = bench.topic.state
    for name in ("m", "n"):
        state.add(bench.store.store(Text(name, is_reliable=True)))
    state.update("m", "r1", False)
    state.update("m", "r2", False)
    assert state.nacks("m") == {"r1", "r2"}
    assert [each.message_id for each in state.references(DELIVERED)] == ["m"]
    state.update("m", "r1", True)
    state.update("m", "r2", True)
    assert (state.state_of("m"), state.nacks("m"), state.transaction_of("m")) == (None, frozenset(), None)
    state.update("n", "r1", True)
    state.update("n", "r1", False)
    assert state.references() == []
    state.add(bench.store.store(Text("o", is_reliable=True)))
    state.remove("o")
    with pytest.raises(UnknownMessageError):
        state.remove("o")
    bench.nothing_is_left()


def test_a_message_without_its_body_is_told_and_passed_over(
    bench: TopicBench, caplog: pytest.LogCaptureFixture
) -> None:
    """STATE-12"""
    receiver = bench.receiver("r1")
    bench.send("m")
    bench.topic.state.add(bench.store.store(Text("n", is_reliable=True)))
    bench.store.remove("m")
    bench.store.remove("n")
    assert not bench.topic.redeliver(receiver)
    assert not bench.topic.deliver()
    assert receiver.ids == ["m"]
    assert "lost its body" in caplog.text
    bench.topic = bench.open()
    assert bench.topic.state.references() == []
    assert "is recorded, but store" in caplog.text


def test_a_topic_closed_by_a_receiver_ends_the_pass(bench: TopicBench) -> None:
    closing, other = bench.receiver("r1"), bench.receiver("r2")
    closing.meanwhile = lambda routable: bench.topic.close()
    bench.send("m")
    assert (closing.ids, other.ids) == (["m"], [])
    bench.topic = bench.open()
    assert bench.topic.state.state_of("m") is NEW, "its end was not recorded"
