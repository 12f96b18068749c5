"""When messages were sent, by a few marks: never too young, and too old by a 32nd of the oldest's age at most."""

from __future__ import annotations

import random

import pytest

from jbm_kafka.core.log_times import APART_MS, MARKS_MAX, PARTS, LogTimes


@pytest.mark.parametrize("seed", range(5))
def test_an_age_is_told_to_a_small_part_of_the_oldest(seed: int) -> None:
    chance, times, sent_ms = random.Random(seed), LogTimes(), list[int]()
    now_ms, held_from, oldest_ms = 1_000_000, 0, 0
    for offset in range(3_000):
        now_ms += chance.choice((0, 5, 900, 3_000, 60_000))
        sent_ms.append(now_ms)
        held_from = offset if chance.random() < 0.002 else held_from
        oldest_ms = max(oldest_ms, now_ms - sent_ms[held_from])
        times.note(offset, now_ms, held_from=held_from)
        assert len(times._offsets) <= MARKS_MAX
        if offset % 50:
            continue
        for held in range(held_from, offset + 1):
            told = times.of(held)
            assert told is not None
            assert 0 <= sent_ms[held] - told <= 2 * max(APART_MS, oldest_ms // PARTS)


def test_a_message_that_waits_for_a_day_is_told_to_be_so_old_while_others_pass() -> None:
    times, hour_ms = LogTimes(), 3_600_000
    for second in range(0, 24 * 3_600, 2):
        times.note(second, second * 1_000, held_from=0)
    assert times.of(0) == 0
    times.note(90_000, 24 * hour_ms, held_from=80_000)
    assert times.of(0) is None, "it is settled, and not remembered any more"
    assert times.of(90_000) == 24 * hour_ms


def test_what_was_not_noted_has_no_time() -> None:
    times = LogTimes()
    assert times.of(7) is None
    times.note(8, 5_000, held_from=0)
    assert (times.of(7), times.of(8), times.of(9)) == (None, 5_000, 5_000)
    times.note(9, 4_000, held_from=0)
    assert times.of(9) == 5_000, "a sender's clock that is behind makes nothing older"
