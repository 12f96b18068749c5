"""A machine whose clock is set back while its sidecar runs."""

from __future__ import annotations

from jbm_kafka.memory.memory_kafka import MemoryCluster
from tests.sidecar.stepped import SteppedSidecar
from tests.simulation.machine import MachineClock
from tests.support.manual_clock import ManualClock

HOUR_MS = 3_600_000


def test_what_is_sent_after_the_clock_was_set_back_neither_expires_unseen_nor_comes_early() -> None:
    """SEND-5, SEND-6: producers stamp by the clock as it is now."""
    base = ManualClock()
    wall = MachineClock(base)
    one = SteppedSidecar("one", MemoryCluster(base, waits=False), wall=wall)
    link = one.attach("s")
    one.run_for(200)
    wall.jump(-HOUR_MS)
    soon = b"%d" % (wall.now_ms() + 60_000)
    one.send("delayed", headers=[("JMSDeliveryTime", soon)])
    one.send("short-lived", headers=[("JMSExpiration", soon)])
    assert one.receive(link, 1) == [1]
    link.settlement.leases[0].acknowledge(1)
    link.demand.credit = 1
    one.run_for(50_000)
    assert not link.buffer
    one.run_for(12_000)
    assert [delivery.offset for delivery in link.buffer.ready] == [0]
    one.crash()
