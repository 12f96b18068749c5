"""Goal: attempts count, delays wait, and what is given up or expired goes where it should, once."""

from __future__ import annotations

import pytest

from jbm_kafka.contract import MessageState, Routable
from jbm_kafka.core.jms_errors import InvalidSettingError, RoutableNotAcceptedError, UnknownMessageError
from jbm_kafka.core.settings.address_settings import AddressSettings, ResolvedSettings
from jbm_kafka.local import MemoryMessageStore, MemoryPersistenceManager, QueueChannel
from jbm_kafka.local.channel_messages import LocalMessage
from tests.local.parts import Bench, BrokenError, Clock, Hand, Text

NEW = MessageState.NEW


def fail(bench: Bench, receiver: Hand) -> None:
    """Deliver, and ask for it again."""
    bench.queue.deliver()
    bench.queue.redeliver(receiver)


def test_a_message_is_handed_over_as_often_as_the_settings_say_and_then_removed() -> None:
    """REDELIVER-1, REDELIVER-3: without a dead-letter channel it is removed, body and all."""
    bench = Bench(AddressSettings(max_delivery_attempts=3))
    receiver = bench.receiver()
    bench.send("m")
    bench.queue.deliver()
    assert [bench.queue.redeliver(receiver) for _ in range(3)] == [False, False, True]
    assert receiver.flags == [False, True, True]
    assert bench.queue.browse() == []
    assert bench.persistence.read("q") == {}
    with pytest.raises(UnknownMessageError):
        bench.store.retrieve("m")


def test_a_loss_counts_as_an_attempt_and_waits_no_delay() -> None:
    """REDELIVER-1"""
    bench = Bench(AddressSettings(max_delivery_attempts=2, redelivery_delay_ms=10_000))
    bench.send("m")
    for name in ("r1", "r2"):
        receiver = bench.receiver(name)
        assert bench.queue.deliver()
        assert receiver.ids == ["m"]
        bench.queue.remove_receiver(name)
    assert bench.queue.browse() == []


def test_each_wait_is_longer_than_the_one_before_up_to_the_cap() -> None:
    """REDELIVER-2"""
    settings = AddressSettings(
        redelivery_delay_ms=100, redelivery_delay_multiplier=3, max_redelivery_delay_ms=500, max_delivery_attempts=-1
    )
    bench = Bench(settings)
    receiver = bench.receiver()
    bench.send("m")
    for wait_ms in (100, 300, 500, 500):
        fail(bench, receiver)
        bench.clock.now_ms += wait_ms - 1
        assert not bench.queue.deliver()
        bench.clock.now_ms += 1
        assert bench.queue.deliver()
    assert len(receiver.got) == 5


def test_a_dead_letter_keeps_what_the_message_had_and_tells_where_it_was() -> None:
    """REDELIVER-3, of REDELIVER-4 and UNIT-15: its expiry is dropped, its count restarts, its unit stays."""
    bench = Bench(AddressSettings(max_delivery_attempts=1), with_dead_letters=True)
    dead_letters = bench.dead_letters
    assert dead_letters is not None
    receiver = bench.receiver()
    text = Text("m", body="poison", priority=7, expiration_ms=9_000, unit_of_order="u", headers={"region": "EU"})
    bench.queue.handle(text)
    bench.queue.deliver()
    assert bench.queue.redeliver(receiver)
    (copy,) = dead_letters.browse()
    assert (copy.body, copy.priority, copy.expiration_ms, copy.unit_of_order) == ("poison", 7, 0, "u")
    assert not copy.redelivered
    assert copy.headers == {
        "region": "EU",
        "_JBM_ORIG_DESTINATION": "queue:q",
        "_JBM_ORIG_MESSAGE_ID": "m",
        "_JBM_DELIVERY_COUNT": 1,
        "_JBM_DEAD_LETTER_REASON": "max-delivery-attempts",
    }
    assert bench.queue.browse() == []


def test_a_dead_letter_lets_its_unit_go_on_to_the_same_receiver() -> None:
    """Of UNIT-16: the others come back counted, and are offered again."""
    bench = Bench(AddressSettings(max_delivery_attempts=2), with_dead_letters=True)
    receiver = bench.receiver()
    bench.send("a1", unit="a")
    fail(bench, receiver)
    bench.send("a2", "a3", unit="a")
    bench.queue.deliver()
    receiver.got = []
    assert not bench.queue.redeliver(receiver)
    assert (receiver.ids, receiver.flags) == (["a2", "a3"], [True, True])
    assert bench.dead_letters is not None
    assert [each.headers["_JBM_ORIG_MESSAGE_ID"] for each in bench.dead_letters.browse()] == ["a1"]


def test_messages_of_one_unit_given_up_together_all_leave_in_order() -> None:
    """REDELIVER-3, of UNIT-15"""
    bench = Bench(AddressSettings(max_delivery_attempts=1), with_dead_letters=True)
    bench.receiver()
    bench.send("a1", "a2", "a3", unit="a")
    bench.queue.deliver()
    bench.queue.remove_receiver("r1")
    assert bench.queue.browse() == []
    assert bench.dead_letters is not None
    left = [each.headers["_JBM_ORIG_MESSAGE_ID"] for each in bench.dead_letters.browse()]
    assert left == ["a1", "a2", "a3"]


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


@pytest.mark.parametrize("how", ["rollback", "crash"])
def test_a_dead_letter_overtook_an_earlier_one_of_its_unit_that_had_waited_for_a_transaction(how: str) -> None:
    """REDELIVER-3, of UNIT-15: the later one was acknowledged in it, and its receiver lost."""
    bench = Bench(AddressSettings(max_delivery_attempts=1), with_dead_letters=True)
    bench.receiver()
    bench.send("a1", "a2", unit="a")
    bench.transactions.begin()
    bench.queue.acknowledge("a2", "r1")
    bench.queue.remove_receiver("r1")
    assert [each.message_id for each in bench.queue.browse()] == ["a1", "a2"]
    if how == "rollback":
        bench.transactions.rollback()
    else:
        bench.queue = bench.open()
    assert bench.queue.browse() == []
    assert bench.dead_letters is not None
    left = [each.headers["_JBM_ORIG_MESSAGE_ID"] for each in bench.dead_letters.browse()]
    assert left == ["a1", "a2"]


def test_a_unit_may_be_held_by_its_dead_head() -> None:
    """Of UNIT-16"""
    bench = Bench(AddressSettings(max_delivery_attempts=1, on_dead_letter="hold"), with_dead_letters=True)
    receiver = bench.receiver()
    bench.send("a1", "a2", unit="a")
    fail(bench, receiver)
    bench.clock.now_ms += 10**12
    receiver.got = []
    assert not bench.queue.deliver()
    assert receiver.ids == []
    assert len(bench.queue.browse()) == 2


def test_a_dead_letter_that_nobody_takes_is_kept_and_tried_again_and_never_handed_over() -> None:
    """REDELIVER-3: a message is not lost because its dead-letter channel is broken, and its unit waits."""
    target = Hand("DLQ", BrokenError())
    clock = Clock()
    queue = QueueChannel(
        "q",
        message_store=MemoryMessageStore("s", persistence_manager=MemoryPersistenceManager()),
        settings=AddressSettings(max_delivery_attempts=1),
        clock_ms=clock,
        dead_letter_channel=target,
    )
    receiver = Hand("r1")
    queue.add_receiver(receiver)
    queue.handle(Text("a1", unit_of_order="a"))
    receiver.wants = lambda routable: routable.message_id == "a1"
    queue.handle(Text("a2", unit_of_order="a"))
    queue.redeliver(receiver)
    assert not queue.deliver()
    assert queue.state.state_of("a1") is NEW
    assert receiver.ids == ["a1"]
    target.answer, target.got, receiver.wants = True, [], lambda routable: True
    assert queue.deliver()
    assert [each.headers["_JBM_ORIG_MESSAGE_ID"] for each in target.got] == ["a1"]
    assert receiver.ids == ["a1", "a2"]


def test_a_dead_letter_stays_when_the_transaction_it_came_from_is_rolled_back() -> None:
    """REDELIVER-5: it has left the queue, so it must be in the other."""
    bench = Bench(AddressSettings(max_delivery_attempts=1), with_dead_letters=True)
    receiver = bench.receiver()
    bench.send("m")
    bench.queue.deliver()
    bench.transactions.begin()
    bench.queue.redeliver(receiver)
    bench.transactions.rollback()
    assert bench.queue.browse() == []
    assert bench.dead_letters is not None
    assert bench.dead_letters.has_messages(NEW)


def test_an_address_without_a_channel_is_refused_by_name() -> None:
    store = MemoryMessageStore("s", persistence_manager=MemoryPersistenceManager())
    with pytest.raises(InvalidSettingError, match="dead_letter_address is 'DLQ'"):
        QueueChannel("q", message_store=store, settings=AddressSettings(dead_letter_address="DLQ"))
    with pytest.raises(InvalidSettingError, match="expiry_address is 'E'"):
        QueueChannel("q", message_store=store, settings=ResolvedSettings(expiry_address="E"))


def test_what_expires_is_never_handed_over() -> None:
    """SEND-5"""
    bench = Bench()
    bench.send("a1", unit="a", expiration_ms=2_000)
    bench.send("a2", unit="a")
    bench.send("m", expiration_ms=2_001)
    bench.clock.now_ms = 2_000
    receiver = bench.receiver()
    assert bench.queue.deliver()
    assert receiver.ids == ["a2", "m"]


def test_what_expires_behind_an_unfinished_one_holds_back_nothing_from_its_receiver() -> None:
    """SEND-5, UNIT-3: it owes the first, and gets the third."""
    bench = Bench()
    receiver = bench.receiver()
    bench.send("a1", unit="a")
    receiver.wants = lambda routable: routable.message_id != "a2"
    bench.send("a2", unit="a", expiration_ms=2_000)
    bench.send("a3", unit="a")
    assert receiver.ids == ["a1"]
    bench.clock.now_ms = 2_000
    assert bench.queue.deliver()
    assert receiver.ids == ["a1", "a3"]


def test_expire_returns_the_ids_in_arrival_order_and_leaves_what_is_in_hand() -> None:
    """SEND-5, of STATE-4: in hand a message expires only when it comes back."""
    bench = Bench()
    receiver = bench.receiver()
    bench.send("in hand", expiration_ms=2_000)
    receiver.wants = lambda routable: routable.message_id == "in hand"
    bench.send("urgent", expiration_ms=2_000, priority=1)
    bench.send("later", expiration_ms=3_000)
    bench.send("never")
    bench.send("also", expiration_ms=1_500, priority=9)
    assert bench.queue.expire(1_499) == []
    assert bench.queue.expire(2_000) == ["urgent", "also"]
    assert bench.queue.expire(2_000) == []
    assert bench.queue.state.nacks("in hand") == {"r1"}
    bench.clock.now_ms = 2_000
    bench.queue.redeliver(receiver)
    assert receiver.ids == ["in hand"]
    assert bench.queue.state.state_of("in hand") is None


def test_a_message_that_expired_in_the_hand_of_a_lost_receiver_is_gone_at_once() -> None:
    """Of STATE-4"""
    bench = Bench()
    bench.receiver()
    bench.send("m", expiration_ms=2_000)
    bench.queue.deliver()
    bench.clock.now_ms = 2_000
    bench.queue.remove_receiver("r1")
    assert bench.queue.browse() == []


def test_an_acknowledgement_before_the_message_comes_back_wins_over_its_expiry() -> None:
    """Of STATE-4"""
    bench = Bench()
    bench.receiver()
    bench.send("m", expiration_ms=2_000)
    bench.queue.deliver()
    bench.clock.now_ms = 5_000
    assert bench.queue.expire(5_000) == []
    bench.queue.acknowledge("m", "r1")
    assert bench.queue.state.state_of("m") is None


def test_a_message_that_expires_while_it_is_being_offered_stays_with_its_receiver() -> None:
    """Of STATE-4"""
    bench = Bench()
    bench.send("m", "n", expiration_ms=2_000)
    receiver = bench.receiver()
    expired: list[list[str]] = []

    def wait(_: Routable) -> None:
        bench.clock.now_ms = 3_000
        expired.append(bench.queue.expire(3_000))

    receiver.meanwhile = wait
    assert bench.queue.deliver()
    assert (expired, receiver.ids) == ([["n"]], ["m"])
    assert bench.queue.state.nacks("m") == {"r1"}


def test_an_expired_message_goes_to_the_expiry_channel_with_the_time_it_was_found() -> None:
    """SEND-5: when that does not take it, it stays, and is not handed over."""
    store = MemoryMessageStore("s", persistence_manager=MemoryPersistenceManager())
    expiry = Hand("ExpiryQueue", RoutableNotAcceptedError("full"))
    queue = QueueChannel("q", message_store=store, clock_ms=Clock(), expiry_channel=expiry)
    busy, receiver = Hand("r0"), Hand("r1")
    queue.add_receiver(busy)
    queue.handle(Text("in hand", expiration_ms=1_500))
    queue.deliver()
    queue.remove_receiver("r0")
    queue.redeliver(busy)
    queue.handle(Text("m", expiration_ms=500, body="late"))
    assert queue.expire(700) == []
    queue.add_receiver(receiver)
    assert not queue.deliver()
    expiry.answer, expiry.got = True, []
    assert queue.expire(2_000) == ["m"]
    (copy,) = expiry.got
    assert isinstance(copy, LocalMessage)
    assert (copy.body, copy.expiration_ms, copy.headers["_JBM_ACTUAL_EXPIRY"]) == ("late", 0, 2_000)
    assert receiver.got == []
