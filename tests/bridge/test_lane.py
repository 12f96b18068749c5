"""How often a bridge tries again, and how often it says that it has to."""

from __future__ import annotations

import threading

import pytest

from jbm_kafka.bridge.bridge_counts import LaneCounts
from jbm_kafka.bridge.lane import BridgeLane
from jbm_kafka.bridge.pumps import Pump
from jbm_kafka.errors import ConnectionFailedError

TRIES = 14
GOES_ON_AT = 12


class Ends(threading.Event):
    """Waits for nothing, and remembers for how long it was to wait; set after so many tries."""

    def __init__(self) -> None:
        super().__init__()
        self.waits_s: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.waits_s.append(timeout)
        if len(self.waits_s) == TRIES:
            self.set()
        return self.is_set()


def test_it_is_tried_again_later_each_time_and_one_line_a_minute_says_so(caplog: pytest.LogCaptureFixture) -> None:
    """BRIDGE-8."""
    ends = Ends()

    def make(counts: LaneCounts) -> Pump:
        if len(ends.waits_s) == GOES_ON_AT:
            counts.arrived += 1
        raise ConnectionFailedError("nobody answers")

    lane = BridgeLane("across", make, lambda: int(sum(ends.waits_s) * 1_000))
    lane._ends = ends
    lane.start()
    assert lane.join(10.0)
    assert ends.waits_s == [*(0.1 * 2**tries for tries in range(9)), 30.0, 30.0, 30.0, 0.1, 0.2]
    assert lane.counts.failures == TRIES
    assert [record.message for record in caplog.records] == [
        "bridge across: nothing goes on, and it is tried again: nobody answers"
    ] * 3
