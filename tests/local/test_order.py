"""Goal: a unit's messages go one after the other, whatever else happens."""

from __future__ import annotations

import threading

import pytest

from jbm_kafka.contract import MessageState
from jbm_kafka.core.jms_errors import UnknownMessageError
from jbm_kafka.local.channel_messages import LocalMessage
from tests.local.parts import Bench, Text


def test_messages_without_a_unit_reach_a_receiver_in_the_order_sent() -> None:
    """ORDER-1"""
    bench = Bench()
    receiver = bench.receiver(answer=True)
    names = [f"m{n}" for n in range(50)]
    bench.send(*names)
    assert bench.queue.deliver()
    assert receiver.ids == names


def test_a_unit_is_in_one_hand_at_a_time_while_others_work_on_other_units() -> None:
    """UNIT-2, UNIT-3: later messages of the unit go to the same receiver, in order, and to no other."""
    bench = Bench()
    hands = [bench.receiver("r1"), bench.receiver("r2")]
    bench.send("a1", "a2", "a3", unit="a")
    bench.send("b1", "b2", unit="b")
    assert bench.queue.deliver()
    assert [hand.ids for hand in hands] == [["a1", "a2", "a3"], ["b1", "b2"]]


def test_a_unit_goes_to_anybody_once_its_messages_are_finished() -> None:
    """UNIT-5"""
    bench = Bench()
    first = bench.receiver("r1")
    bench.send("a1", unit="a")
    bench.queue.deliver()
    second = bench.receiver("r2")
    first.wants = lambda routable: False
    bench.send("a2", unit="a")
    assert not bench.queue.deliver(), "r1 has a1"
    bench.queue.acknowledge("a1", "r1")
    assert bench.queue.deliver()
    assert second.ids == ["a2"]


def test_lost_messages_of_a_unit_go_on_in_order_elsewhere() -> None:
    """UNIT-1, UNIT-5"""
    bench = Bench()
    first = bench.receiver("r1")
    bench.send("a1", "a2", unit="a")
    first.wants = lambda routable: False
    bench.send("a3", unit="a")
    bench.queue.remove_receiver("r1")
    second = bench.receiver("r2")
    assert bench.queue.deliver()
    assert (second.ids, second.flags) == (["a1", "a2", "a3"], [True, True, False])


def test_an_uncommitted_message_holds_the_later_ones_of_its_unit_and_no_others() -> None:
    """Of UNIT-4: also what is sent outside the transaction, after it."""
    bench = Bench()
    receiver = bench.receiver(answer=True)
    bench.transactions.begin()
    bench.send("a1", unit="a")
    _outside(bench, "a2", unit="a")
    _outside(bench, "b1", unit="b")
    assert not bench.queue.deliver(), "a2 waits"
    assert receiver.ids == ["b1"]
    bench.transactions.commit()
    assert bench.queue.deliver()
    assert receiver.ids == ["b1", "a1", "a2"]


def test_a_rolled_back_message_lets_its_unit_go_on() -> None:
    """Of UNIT-4"""
    bench = Bench()
    receiver = bench.receiver(answer=True)
    bench.transactions.begin()
    bench.send("a1", unit="a")
    _outside(bench, "a2", unit="a")
    bench.transactions.rollback()
    assert bench.queue.deliver()
    assert receiver.ids == ["a2"]


def _outside(bench: Bench, name: str, *, unit: str) -> None:
    """Send as another thread would: outside this one's transaction."""
    other = threading.Thread(target=bench.send, args=(name,), kwargs={"unit": unit})
    other.start()
    other.join()


def test_a_head_nobody_wants_holds_its_unit() -> None:
    """Of UNIT-6"""
    bench = Bench()
    receiver = bench.receiver(answer=True)
    receiver.wants = lambda routable: routable.message_id != "a1"
    bench.send("a1", "a2", unit="a")
    bench.send("b1", unit="b")
    assert not bench.queue.deliver()
    assert receiver.ids == ["b1"]


def test_priority_orders_the_heads_and_never_the_messages_of_a_unit() -> None:
    """SEND-7, of UNIT-6"""
    bench = Bench()
    bench.send("a1", unit="a", priority=1)
    bench.send("a2", unit="a", priority=9)
    bench.send("b1", unit="b", priority=5)
    bench.send("c", priority=8)
    receiver = bench.receiver(answer=True)
    assert bench.queue.deliver()
    assert receiver.ids == ["c", "b1", "a1", "a2"]


def test_routables_sort_by_priority_the_higher_first() -> None:
    """SEND-7"""
    bench = Bench()
    low, high = LocalMessage("low", priority=1), Text("high", priority=8)
    assert high < low
    assert not low < high
    reference = bench.store.store(Text("middle", priority=5))
    assert reference < low
    assert not reference < high
    receiver = bench.receiver()
    bench.send("m", priority=9)
    bench.queue.deliver()
    bench.queue.redeliver(receiver)
    assert receiver.flags == [False, True]
    assert all(shown < high for shown in receiver.got)


def test_an_early_acknowledgement_out_of_turn_leaves_the_rest_in_order() -> None:
    """STATE-6, UNIT-1"""
    bench = Bench()
    bench.send("a1", "a2", "a3", unit="a")
    bench.queue.acknowledge("a2", "r1")
    receiver = bench.receiver("r1", answer=True)
    assert bench.queue.deliver()
    assert receiver.ids == ["a1", "a3"]


def test_an_acknowledgement_of_a_unit_in_another_hand_is_refused() -> None:
    """STATE-6: such a delivery cannot have been."""
    bench = Bench()
    first = bench.receiver("r1")
    bench.send("a1", unit="a")
    first.wants = lambda routable: False
    bench.send("a2", unit="a")
    with pytest.raises(UnknownMessageError):
        bench.queue.acknowledge("a2", "r2")
    assert bench.queue.state.state_of("a2") is MessageState.NEW
