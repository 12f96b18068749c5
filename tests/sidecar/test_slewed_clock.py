"""A machine's clock that is set ends no delay early and prolongs none by as much."""

from jbm_kafka.sidecar.channel.slewed_clock import SlewedClock
from tests.support.manual_clock import ManualClock


def test_it_is_the_wall_clock_while_nobody_sets_that() -> None:
    wall = ManualClock(now_ms=1_000)
    slewed = SlewedClock(wall)
    wall.advance(7)
    assert slewed.now_ms() == wall.now_ms() == 1_007
    assert slewed.monotonic_ms() == wall.monotonic_ms()


def test_a_clock_set_back_goes_on_at_half_its_speed_until_they_meet() -> None:
    """REDELIVER-2: a delay is neither cut short nor made longer by what the clock lost."""
    wall = ManualClock(now_ms=100_000)
    slewed = SlewedClock(wall)
    wall.jump(-60_000)
    assert slewed.now_ms() == 100_000
    assert slewed.set_back_ms == 60_000
    wall.advance(10_000)
    assert slewed.now_ms() == 105_000
    assert slewed.set_back_ms == 55_000
    wall.advance(110_000)
    assert slewed.now_ms() == wall.now_ms() == 160_000
    assert slewed.set_back_ms == 0


def test_asking_every_millisecond_loses_no_time() -> None:
    wall = ManualClock(now_ms=100_000)
    slewed = SlewedClock(wall)
    wall.jump(-60_000)
    for _ in range(10_001):
        wall.advance(1)
        slewed.now_ms()
    assert slewed.now_ms() == 105_000


def test_a_clock_that_stands_still_is_followed_however_much_time_goes_by() -> None:
    wall = ManualClock(now_ms=100_000)
    slewed = SlewedClock(wall)
    wall.advance(10_000)
    wall.jump(-10_000)
    assert slewed.now_ms() == 100_000
    assert slewed.set_back_ms == 0
    wall.jump(5_000)
    assert slewed.now_ms() == 105_000


def test_a_clock_set_forward_is_followed_at_once() -> None:
    wall = ManualClock(now_ms=100_000)
    slewed = SlewedClock(wall)
    wall.jump(5_000)
    assert slewed.now_ms() == 105_000
