"""Which of many like events have a word of their own."""

from jbm_kafka.core.log_rate_limit import Burst, LogRateLimit


def made() -> LogRateLimit[str]:
    return LogRateLimit(interval_ms=5_000, each_max=3)


def test_ten_thousand_at_once_are_three_words_and_a_count() -> None:
    """They were ten thousand lines of a log."""
    bursts = made()
    assert sum(bursts.note("orders", 100) for _ in range(10_000)) == 3
    assert bursts.due(5_099) == []
    assert bursts.due(5_100) == [Burst("orders", 9_997, 5_000)]


def test_a_burst_that_goes_on_is_counted_and_no_more_told_one_by_one() -> None:
    bursts = made()
    for _ in range(10):
        bursts.note("orders", 0)
    assert bursts.due(5_000) == [Burst("orders", 7, 5_000)]
    assert not bursts.note("orders", 6_000)
    assert bursts.due(11_000) == [Burst("orders", 1, 6_000)]


def test_after_a_quiet_interval_events_are_told_one_by_one_again() -> None:
    bursts = made()
    for _ in range(10):
        bursts.note("orders", 0)
    bursts.due(5_000)
    assert bursts.due(10_000) == []
    assert bursts.note("orders", 10_001)


def test_a_few_in_an_interval_are_no_burst() -> None:
    bursts = made()
    for at_ms in range(0, 60_000, 2_000):
        assert bursts.note("orders", at_ms)
        assert bursts.due(at_ms + 1_000) == []


def test_each_key_has_its_own_count() -> None:
    bursts = made()
    for _ in range(5):
        bursts.note("orders", 0)
    assert bursts.note("parcels", 0)
    assert bursts.due(5_000) == [Burst("orders", 2, 5_000)]


def test_what_was_counted_is_told_at_the_end() -> None:
    bursts = made()
    for _ in range(5):
        bursts.note("orders", 1_000)
    bursts.note("parcels", 1_000)
    assert bursts.end(1_500) == [Burst("orders", 2, 500)]
    assert bursts.end(1_500) == []
    assert bursts.due(9_000) == []


def test_whether_a_burst_goes_on_is_known() -> None:
    bursts: LogRateLimit[str] = LogRateLimit(interval_ms=10, each_max=1)
    assert "a" not in bursts
    bursts.note("a", 0)
    assert "a" in bursts
    bursts.due(10)
    assert "a" not in bursts, "an interval went by without one"


def test_a_trouble_that_lasts_has_one_line_an_interval_which_counts_the_others() -> None:
    bursts: LogRateLimit[str] = LogRateLimit(interval_ms=60_000, each_max=1)
    assert [bursts.next_line("disk", second * 1_000) for second in (0, 1, 59)] == [0, None, None]
    assert bursts.next_line("other", 59_000) == 0
    assert [bursts.next_line("disk", second * 1_000) for second in (60, 61, 300)] == [2, None, 1]
