"""How often a bridge tries again, and how often it says that it has to."""

from __future__ import annotations

import logging
import threading

import pytest

from jbm_kafka.bridge.bridge_counts import LaneCounts
from jbm_kafka.bridge.lane import BACKOFF_MOST_S, CALM_MS, LOOK_S, BridgeLane
from jbm_kafka.bridge.pumps import Pump, StandsBy
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


class OneIsRefused:
    """Implements `Pump`: others arrive, and then one is refused, round by round; in the last round it arrives, too."""

    def __init__(self, lane: BridgeLane, now_ms: list[int], rounds: int) -> None:
        self._lane, self._now_ms, self._rounds = lane, now_ms, rounds
        self._steps = 0
        self.troubles: list[str | None] = []
        """What the lane said before each step but the first of a round."""

    def step(self) -> int:
        self._steps += 1
        if self._steps > 1:
            self.troubles.append(self._lane.trouble)
        if self._rounds and self._steps == 2:
            raise ConnectionFailedError("full")
        if self._steps == 3:
            self._now_ms[0] += CALM_MS
        if self._steps == 5:
            self._lane.ask_to_end()
        return 1

    def close(self) -> None:
        self._rounds, self._steps = self._rounds - 1, 0


def test_while_one_is_refused_it_is_not_said_to_go_on_because_others_do(caplog: pytest.LogCaptureFixture) -> None:
    """BRIDGE-8: the log said in turn, round by round, that it goes on and that nothing does."""
    caplog.set_level(logging.INFO)
    now_ms = [0]
    lane = BridgeLane("across", lambda _: pump, lambda: now_ms[0])
    pump = OneIsRefused(lane, now_ms, rounds=3)
    lane.start()
    assert lane.join(10.0)
    assert pump.troubles == [None, "full", "full", "full", "full", None, None]
    assert [record.message for record in caplog.records] == [
        "bridge across: nothing goes on, and it is tried again: full",
        "bridge across goes on",
    ]


class NowAndThen:
    """Implements `Pump`: it goes on for a while, and then fails."""

    def __init__(self, now_ms: list[int]) -> None:
        self._now_ms = now_ms
        self._has_failed = False

    def step(self) -> int:
        self._now_ms[0] += CALM_MS
        self._has_failed = not self._has_failed
        if not self._has_failed:
            raise ConnectionFailedError("slow")
        return 1

    def close(self) -> None: ...


def test_what_fails_and_goes_on_again_and_again_is_told_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    """BRIDGE-8: a pair of lines."""
    caplog.set_level(logging.INFO)
    now_ms = [0]
    lane = BridgeLane("across", lambda _: NowAndThen(now_ms), lambda: now_ms[0])
    lane._ends = Ends()
    lane.start()
    assert lane.join(10.0)
    assert now_ms[0] == 2 * TRIES * CALM_MS == 84_000
    assert [record.message.partition(",")[0] for record in caplog.records] == [
        "bridge across: nothing goes on",
        "bridge across goes on",
    ] * 2


class ClosesBadly:
    """Implements `Pump`: it fails, and then to be closed fails, too."""

    def step(self) -> int:
        raise ConnectionFailedError("the disk of the target is full")

    def close(self) -> None:
        raise ConnectionFailedError("the session is closed already")


def test_it_is_said_why_it_failed_and_not_how_closing_did() -> None:
    """BRIDGE-8: the reason was that of closing."""
    lane = BridgeLane("across", lambda _: ClosesBadly(), lambda: 0)
    lane._ends = Ends()
    lane.start()
    assert lane.join(10.0)
    assert lane.trouble == "the disk of the target is full"
    assert lane.counts.failures == TRIES


class StandsLong:
    """Implements `Pump`: it stands by for a while, and then fails."""

    def __init__(self, now_ms: list[int]) -> None:
        self._now_ms = now_ms

    def step(self) -> int:
        if self._now_ms[0] % 60_000 == 0:
            self._now_ms[0] += int(BACKOFF_MOST_S * 1_000)
            raise StandsBy("another process runs it")
        self._now_ms[0] += int(BACKOFF_MOST_S * 1_000)
        raise ConnectionFailedError("a broker was restarted")

    def close(self) -> None: ...


def test_after_long_without_a_failure_it_is_tried_again_soon() -> None:
    """BRIDGE-8, BRIDGE-9: one that stood by for days did not for half a minute, for it had failed at the beginning."""
    ends, now_ms = Ends(), [0]
    lane = BridgeLane("across", lambda _: StandsLong(now_ms), lambda: now_ms[0])
    lane._ends = ends
    lane.start()
    assert lane.join(10.0)
    assert ends.waits_s == [LOOK_S, 0.1] * (TRIES // 2)


def test_a_side_that_is_found_away_only_after_long_is_tried_later_each_time() -> None:
    """BRIDGE-9, BRIDGE-8: a server that let it in and was silent then was asked again at once, for ever, and another
    process that looks each second never found the bridge free."""
    ends, now_ms = Ends(), [0]

    def make(counts: LaneCounts) -> Pump:
        now_ms[0] += int(BACKOFF_MOST_S * 1_000)
        raise ConnectionFailedError("did not open the connection in 30 s")

    lane = BridgeLane("across", make, lambda: now_ms[0])
    lane._ends = ends
    lane.start()
    assert lane.join(10.0)
    assert ends.waits_s[:6] == [0.1 * 2**tries for tries in range(6)]
