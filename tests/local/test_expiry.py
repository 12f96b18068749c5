"""Goal: what has expired is handed to nobody, and what is in hand expires when it comes back."""

from __future__ import annotations

from jbm_kafka.contract import Routable
from tests.local.parts import Bench


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
