"""A handler's gate by itself: what cannot be brought about with a whole worker, or not surely."""

from __future__ import annotations

import asyncio
import threading

import pytest

from jbm_kafka import AcknowledgeMode, Queue
from jbm_kafka.client.connection_counts import HandlerLimitCounts
from jbm_kafka.errors import InvalidSettingError
from jbm_kafka.jms.base.hindrances import Hindrances
from jbm_kafka.ports.provider import HeldPartitions
from jbm_kafka.testing.memory_world import MemoryWorld
from jbm_kafka.worker.gated_receiving import GatedConsumer
from jbm_kafka.worker.gates import HandlerGate, WorkerGates
from jbm_kafka.worker.limits import HandlerLimits, checked_limits
from jbm_kafka.worker.timers import Timers
from tests.support.manual_clock import ManualClock
from tests.support.waiting import wait_until

ORDERS = Queue("orders")
SOON_S = 30.0


class Partitions:
    """A consumer whose process has these."""

    def __init__(self, share: HeldPartitions | None) -> None:
        self.share = share
        self.told = list[str]()

    def pause(self) -> None:
        self.told.append("pause")

    def resume(self) -> None:
        self.told.append("resume")

    def held_partitions(self) -> HeldPartitions | None:
        return self.share


def gate_of(clock: ManualClock, **options: object) -> HandlerGate:
    limits = checked_limits(
        **{"timeout_s": None, "rate": None, "rate_total": None, "pause_on": None, **options}, shares=True
    )
    gates = WorkerGates(None, clock, HandlerLimitCounts(), Hindrances(), lambda: None)
    clock.watch(gates.look)
    return HandlerGate("orders: ship", ORDERS, limits, gates)


def never() -> bool:
    return False


def test_a_partition_that_goes_takes_its_share_along() -> None:
    """HANDLER-3: also that of a message which was received and has not begun."""
    clock = ManualClock()
    gate, consumer = gate_of(clock, rate_total="1/s"), Partitions(HeldPartitions(frozenset({0}), 1))
    gate.add(consumer)
    assert gate.begin_in_ms() == 1_000
    clock.advance(1_000)
    assert gate.reserve(never)
    consumer.share = HeldPartitions(frozenset(), 1)
    assert gate.begin_in_ms() > 0
    assert not gate.wait_begin(lambda: True), "it goes back"
    gate.left_out()
    consumer.share = HeldPartitions(frozenset({0}), 1)
    assert gate.begin_in_ms() == 1_000, "another process may have used it a moment ago"


def test_whoever_waits_to_begin_begins_when_it_may() -> None:
    clock, begun = ManualClock(), threading.Event()
    gate, consumer = gate_of(clock, rate_total="1/s"), Partitions(HeldPartitions(frozenset({0}), 1))
    gate.add(consumer)
    assert gate.begin_in_ms() == 1_000
    clock.advance(1_000)
    assert gate.reserve(never)
    consumer.share = HeldPartitions(frozenset({1}), 2)

    def begin() -> None:
        if gate.wait_begin(never):
            begun.set()

    waiting = threading.Thread(target=begin)
    waiting.start()

    def passes() -> bool:
        clock.advance(100)
        return begun.is_set()

    wait_until(passes, about="the beginning", timeout_s=SOON_S)
    waiting.join(SOON_S)


def test_only_so_many_are_received_as_may_begin() -> None:
    """HANDLER-2: one that is received and has not begun counts."""
    clock = ManualClock()
    gate = gate_of(clock, rate="1/min")
    assert gate.reserve(never)
    assert not gate.reserve(lambda: True)
    gate.left_out()
    assert gate.reserve(never)
    assert gate.begin_in_ms() == 0
    assert not gate.reserve(lambda: True)
    gate.end()
    clock.advance(60_000)
    assert gate.reserve(never)


def test_a_consumer_that_is_made_in_a_pause_pauses() -> None:
    """HANDLER-4."""
    clock = ManualClock()
    gate, first, second = gate_of(clock, pause_on="1 failure for 30 s"), Partitions(None), Partitions(None)
    gate.add(first)
    gate.failed()
    gate.add(second)
    assert first.told == second.told == ["pause"]
    gate.remove(first)
    clock.advance(30_000)
    gate._gates.timers.look()
    assert (first.told, second.told) == (["pause"], ["pause", "resume"])
    gate._gates.timers.end()


def test_where_nobody_knows_partitions_a_total_is_refused() -> None:
    with pytest.raises(InvalidSettingError, match="rate_total is '1/s': by AMQP nobody knows"):
        gate_of(ManualClock(), rate_total="1/s").add(Partitions(None))


def test_without_limits_there_is_no_gate() -> None:
    gates = WorkerGates(None, ManualClock(), HandlerLimitCounts(), Hindrances(), lambda: None)
    assert gates.gate("orders: ship", ORDERS, HandlerLimits(timeout_ms=1)) is None
    assert gates.timed("orders: ship", ORDERS, HandlerLimits(), print, is_async=False) is print


def test_a_timer_that_raises_holds_up_no_other() -> None:
    clock, called = ManualClock(), list[str]()
    timers = Timers(clock)

    def fail() -> None:
        raise ValueError("a fault of ours")

    timers.after(10, fail)
    timers.after(10, lambda: called.append("next"))
    timers.cancel(timers.after(10, lambda: called.append("cancelled")))
    clock.advance(10)
    timers.look()
    assert called == ["next"]
    timers.end()


def test_the_thread_of_timers_calls_what_is_due() -> None:
    clock, called = ManualClock(), threading.Event()
    timers = Timers(clock)
    timers.after(3_600_000, lambda: None)
    timers.after(0, called.set)
    assert called.wait(SOON_S)
    timers.end()


def test_a_coroutine_that_may_not_begin_goes_back_when_its_worker_stops(world: MemoryWorld) -> None:
    """HANDLER-2: as it came."""
    clock, begun = ManualClock(), list[str]()
    gate = gate_of(clock, rate="1/h")
    with world.factory().create_context(AcknowledgeMode.INDIVIDUAL) as jms:
        jms.create_producer().send(ORDERS, "a")
        gated = GatedConsumer(jms.create_consumer(ORDERS), gate)
        message = gated.receive()
        assert message is not None
        assert gate.reserve(lambda: True) is False
        assert gate._own is not None
        assert gate._own.start(0), "as if another had begun in between"

        async def handle() -> None:
            begun.append("a")

        async def stops() -> None:
            running = asyncio.create_task(gated.run(message, handle()))
            asyncio.get_running_loop().call_soon(gated.close)  # behind its first look
            await running

        asyncio.run(stops())
        assert begun == []
        again = jms.create_consumer(ORDERS).receive(SOON_S)
        assert again is not None
        assert (again.delivery_count, again.redelivered) == (1, False)
