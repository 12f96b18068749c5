"""Counts and levels as values: they add up, and nobody loses one."""

import pytest

from jbm_kafka.core.channel.counters import DurationCounter, SourceCounters
from jbm_kafka.core.log_fields import log_fields
from jbm_kafka.core.statistics import BOUNDS_S, DestinationStatistics, Histogram, Statistics, added


@pytest.mark.parametrize(
    ("seconds", "place"), [(0.0, 0), (0.001, 0), (0.0011, 1), (86_400.0, len(BOUNDS_S) - 1), (1e9, len(BOUNDS_S))]
)
def test_a_duration_is_counted_below_the_first_bound_that_it_does_not_pass(seconds: float, place: int) -> None:
    counter = DurationCounter()
    counter.note(seconds)
    told = counter.histogram()
    assert (told.count, told.counts[place], told.sum_s) == (1, 1, seconds)
    counter.note(seconds)
    assert told.count == 1, "of the moment when it was asked for"


def test_histograms_add_up_bound_by_bound() -> None:
    one, two = DurationCounter(), DurationCounter()
    one.note(0.002)
    two.note(0.002)
    two.note(7.0)
    both = one.histogram() + two.histogram()
    assert both.count == 3
    assert both.sum_s == pytest.approx(7.004)
    assert both.counts[BOUNDS_S.index(0.0025)] == 2
    assert Histogram() + Histogram() == Histogram()


def test_a_source_begins_with_nothing() -> None:
    counters = SourceCounters()
    names = ("handed_over", "acknowledged", "returned", "given_up", "expired", "reconnects", "rebalances")
    assert [getattr(counters, name) for name in names] == [0] * len(names)
    assert counters.send_to_acknowledge.histogram().count == 0
    assert not counters.has_ended


def test_rows_of_one_destination_add_up_and_stand_once() -> None:
    orders = DestinationStatistics(destination="orders", acknowledged=3, held=1)
    audit = DestinationStatistics(destination="orders", subscription="audit", held=9)
    counted = Statistics(destinations=(orders, audit))
    rows = added(counted, {name: DestinationStatistics(destination=name, sent=2) for name in ("orders", "mails")})
    assert [(row.destination, row.subscription, row.sent, row.acknowledged, row.held) for row in rows] == [
        ("mails", "", 2, 0, 0),
        ("orders", "", 2, 3, 1),
        ("orders", "audit", 0, 0, 9),
    ]


def test_of_two_rows_the_older_of_their_oldest_counts() -> None:
    one = DestinationStatistics(destination="orders", held=1, oldest_held_s=5.0, oldest_blocked_s=1.0)
    two = DestinationStatistics(destination="orders", held=2, oldest_held_s=3.0, oldest_blocked_s=4.0)
    both = one + two
    assert (both.held, both.oldest_held_s, both.oldest_blocked_s, both.oldest_delayed_s) == (3, 5.0, 4.0, 0.0)


def test_what_was_never_counted_is_a_row_of_zeros() -> None:
    orders = DestinationStatistics(destination="orders", sent=1)
    counted = Statistics(destinations=(orders,))
    assert counted.of("orders") is orders
    assert counted.of("orders", "audit") == DestinationStatistics(destination="orders", subscription="audit")


def test_fields_of_a_line_are_those_that_are_known() -> None:
    assert log_fields("orders", 0, 0, attempt=1) == {"destination": "orders", "partition": 0, "offset": 0, "attempt": 1}
    assert log_fields("orders", message_id="ID:1", reason="expired") == {
        "destination": "orders",
        "message_id": "ID:1",
        "reason": "expired",
    }
