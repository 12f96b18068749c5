"""A consumer gives up joining only when its process was there all the while."""

from jbm_kafka.jms.base.join_time import STILL_S, JoinTime

LIMIT_S = 90.0


class Hands:
    """Of a clock that the test sets."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def advance(self, seconds: float) -> None:
        self.now_s += seconds


def sleep(joining: JoinTime, hands: Hands, seconds: float) -> None:
    joining.begin_sleep()
    hands.advance(seconds)
    joining.end_sleep()


def test_a_worker_that_was_frozen_in_create_consumer_gets_another_chance() -> None:
    """It raised at once when it was continued, and named a coordinator that was up."""
    hands = Hands()
    joining = JoinTime(LIMIT_S, clock=lambda: hands.now_s)
    sleep(joining, hands, 2 * LIMIT_S)
    assert not joining.is_over
    hands.advance(LIMIT_S - 1)
    assert not joining.is_over
    hands.advance(2)
    assert joining.is_over


def test_a_busy_machine_prolongs_no_joining() -> None:
    hands = Hands()
    joining = JoinTime(LIMIT_S, clock=lambda: hands.now_s)
    while hands.now_s <= 1_000 + LIMIT_S:
        assert not joining.is_over
        sleep(joining, hands, STILL_S)
    assert joining.is_over
