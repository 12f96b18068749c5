"""Goal: a rate is never exceeded, by one process or by all that divide it, and is used where there is work.

Method: a model that knows starts only: Hypothesis moves partitions between processes and has them start whenever they
may. All starts of all processes are in one list of times, and any window of the rate's period is counted.
"""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jbm_kafka.core.jms_errors import InvalidSettingError, InvalidTypeError
from jbm_kafka.core.rate import WAKE_MS, Rate, Share, Starts, checked_rate

SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("100/s", Rate(100, SECOND)),
        (" 6 / min ", Rate(6, MINUTE)),
        ("1/h", Rate(1, HOUR)),
        ("1000000/s", Rate(1_000_000, SECOND)),
    ],
)
def test_a_rate_is_a_count_and_a_time(text: str, rate: Rate) -> None:
    assert checked_rate("rate", text) == rate
    assert checked_rate("rate", str(rate)) == rate
    assert checked_rate("rate", None) is None


@pytest.mark.parametrize("text", ["100", "0/s", "1000001/s", "1/d", "1.5/s", "-1/s", ""])
def test_what_is_no_rate_is_refused_with_the_remedy(text: str) -> None:
    with pytest.raises(InvalidSettingError, match=r"rate_total is .* as in '100/s'"):
        checked_rate("rate_total", text)


def test_a_number_is_no_rate() -> None:
    with pytest.raises(InvalidTypeError, match="rate is 100: "):
        checked_rate("rate", 100)


@pytest.mark.parametrize(
    ("rate", "partitions", "share"),
    [
        (Rate(1, SECOND), 1, Share(1, 1_000)),
        (Rate(100, SECOND), 1, Share(5, 50)),
        (Rate(7, SECOND), 1, Share(1, 143)),
        (Rate(100, SECOND), 4, Share(1, 40)),
        (Rate(100, SECOND), 12, Share(1, 125)),
        (Rate(1, SECOND), 12, Share(1, 12_000)),
        (Rate(5, SECOND), 12, Share(1, 3_000)),
        (Rate(1_000_000, SECOND), 1, Share(50_000, 50)),
    ],
)
def test_a_share_is_rounded_down(rate: Rate, partitions: int, share: Share) -> None:
    assert rate.share(partitions) == share


@given(st.integers(1, 2_000), st.sampled_from([SECOND, MINUTE, HOUR]), st.integers(1, 64))
def test_all_shares_together_are_the_rate_at_most_and_most_of_it_where_it_is_large(
    count: int, period_ms: int, partitions: int
) -> None:
    share = Rate(count, period_ms).share(partitions)
    periods = -(-partitions // count)
    in_window = share.slots * -(-periods * period_ms // share.interval_ms)
    assert partitions * in_window <= periods * count
    assert share.slots == 1 or share.interval_ms >= WAKE_MS / 2
    if count >= 40 * partitions and period_ms == SECOND:
        assert partitions * share.slots * SECOND / share.interval_ms >= 0.85 * count


def most_in_a_window(times: list[int], window_ms: int) -> int:
    times = sorted(times)
    return max((sum(begin <= each < begin + window_ms for each in times) for begin in times), default=0)


Step = tuple[int, int, int]
"""Milliseconds pass; a partition goes to a process, or with 0 to none."""


@given(
    st.sampled_from([Rate(1, SECOND), Rate(3, SECOND), Rate(10, SECOND), Rate(100, SECOND)]),
    st.integers(1, 5),
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 4), st.integers(0, 3)), max_size=60),
)
def test_all_processes_together_never_start_more_than_the_rate(rate: Rate, partitions: int, steps: list[Step]) -> None:
    """HANDLER-3: whoever has a partition, and however it moves."""
    owner = dict.fromkeys(range(partitions), 1)
    processes = {number: Starts(rate, is_divided=True) for number in (1, 2, 3)}
    now_ms, times = 0, list[int]()
    for passes_ms, partition, process in steps:
        for _ in range(passes_ms):
            now_ms += 1
            for number, starts in processes.items():
                starts.hold([each for each in owner if owner[each] == number], partitions, now_ms)
                while starts.start(now_ms):
                    times.append(now_ms)
        owner[partition % partitions] = process
    periods = -(-partitions // rate.count)
    assert most_in_a_window(times, periods * rate.period_ms) <= periods * rate.count


@given(st.integers(1, 300), st.lists(st.integers(0, 90), max_size=200))
def test_one_process_never_starts_more_than_the_rate(count: int, passes_ms: list[int]) -> None:
    """HANDLER-3: in any second."""
    starts, now_ms, times = Starts(Rate(count, SECOND)), 0, list[int]()
    for passes in passes_ms:
        now_ms += passes
        while starts.start(now_ms):
            times.append(now_ms)
    assert most_in_a_window(times, SECOND) <= count
    assert times or not passes_ms, "the first needs no waiting"


def test_one_that_keeps_up_has_the_whole_rate() -> None:
    starts = Starts(Rate(100, SECOND))
    assert sum(starts.start(now_ms) for now_ms in range(10_000) for _ in range(10)) == 1_000


def test_a_partition_that_moves_is_not_used_twice() -> None:
    """The last owner may have used it when it lost it."""
    one, other, rate = Starts(Rate(1, SECOND), is_divided=True), Starts(Rate(1, SECOND), is_divided=True), SECOND
    one.hold([0], 1, 0)
    assert one.start(rate)
    other.hold([0], 1, rate)
    assert not other.start(2 * rate - 1)
    assert other.start(2 * rate)


def test_what_is_free_when_is_told() -> None:
    starts = Starts(Rate(10, SECOND), is_divided=True)
    assert starts.free_in_ms(0) is None
    assert not starts.start(0)
    starts.hold([3], 4, 0)
    assert starts.free_in_ms(0) == 500
    assert starts.free_in_ms(500) == 0
    assert starts.free_in_ms(500, but=1) == 500
    assert starts.start(500)
    starts.hold([3], 4, 700)
    assert starts.free_in_ms(700) == 300, "what it has already begins no new interval"
    starts.hold([3], 8, 700)
    assert starts.free_in_ms(700) == 800, "with more partitions each has less"
    starts.hold([], 8, 700)
    assert starts.free_in_ms(700) is None


def test_starts_are_even() -> None:
    starts, rate = Starts(Rate(20, SECOND)), SECOND
    times = [now_ms for now_ms in range(rate) if starts.start(now_ms)]
    assert {later - earlier for earlier, later in pairwise(times)} == {50}
