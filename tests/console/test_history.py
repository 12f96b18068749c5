"""An hour of each queue, in as little memory as it needs."""

from __future__ import annotations

from jbm_kafka.console.frame.history import KEPT_MS, History
from jbm_kafka.core.channel.backlog import Backlog, Backlogs
from jbm_kafka.core.channel.held_in_order import HeldKind

KEY = ("orders", "")
STEP_MS = 5_000


def backlogs(at_ms: int, *, written: int, held: int, name: str = "orders") -> Backlogs:
    backlog = Backlog(
        destination=name, held=held, is_counted=True, counts={HeldKind.DELIVERABLE: held}, oldest_at_ms={},
        oldest_held_at_ms=None, uncommitted=0, log_records=0, parked=0, receivers=0, is_receiving_paused=False,
        is_sending_paused=False, written=written,
    )  # fmt: skip
    return Backlogs(looked_at_ms=at_ms, backlogs=(backlog,), prepared=0, oldest_prepared_at_ms=None, unreadable=())


def test_what_is_idle_for_an_hour_is_two_moments() -> None:
    history = History()
    for step in range(1_000):
        history.take(backlogs(step * STEP_MS, written=7, held=3))
    assert [each.at_ms for each in history.moments(KEY)] == [0, 999 * STEP_MS]
    assert history.rate(KEY)[1:] == (0.0, 0.0)


def test_an_hour_is_kept_and_no_more() -> None:
    history = History()
    for step in range(2_000):
        history.take(backlogs(step * STEP_MS, written=step, held=step))
    moments = history.moments(KEY)
    assert moments[-1].at_ms - moments[1].at_ms < KEPT_MS
    assert KEPT_MS - STEP_MS <= moments[-1].at_ms - moments[0].at_ms <= KEPT_MS + STEP_MS


def test_rates_are_of_what_came_and_what_was_settled() -> None:
    history = History()
    for step in range(13):
        history.take(backlogs(step * STEP_MS, written=10 * step, held=5 * step))
    assert history.rate(KEY)[1:] == (2.0, 1.0)
    assert {(each.incoming, each.outgoing) for each in history.rates(KEY, 720)} == {(2.0, 1.0)}


def test_a_topic_that_was_made_anew_is_no_traffic() -> None:
    history = History()
    history.take(backlogs(0, written=1_000, held=0))
    history.take(backlogs(STEP_MS, written=0, held=0))
    assert history.rate(KEY)[1:] == (0.0, 0.0)


def test_what_was_deleted_is_forgotten() -> None:
    history = History()
    history.take(backlogs(0, written=1, held=1))
    history.take(backlogs(STEP_MS, written=1, held=1, name="another"))
    assert not history.moments(KEY)
    assert history.rates(KEY, 60) == ()
