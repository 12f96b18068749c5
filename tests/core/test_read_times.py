"""By when a channel had read an offset: never told too early, and of what is young within a second."""

from __future__ import annotations

import random

from jbm_kafka.core.channel.read_times import APART_MS, MARKS_MAX, NEVER_READ, ReadTimes


def test_no_offset_is_told_to_have_been_read_before_it_was() -> None:
    """Of SEND-6."""
    chance, times, read_ms = random.Random(1), ReadTimes(), list[int]()
    now_ms = 0
    for _ in range(1_000):
        now_ms += chance.choice((0, 10, 500, 3_000))
        read_ms += [now_ms] * chance.randrange(3)
        times.note(len(read_ms), now_ms)
        told = [times.of(offset) for offset in range(len(read_ms))]
        assert all(late >= exact for late, exact in zip(told, read_ms, strict=True))
        assert told == sorted(told)
        young = len(read_ms) - 5
        assert all(late - exact <= APART_MS for late, exact in zip(told[young:], read_ms[young:], strict=True))
    assert times.of(len(read_ms)) == NEVER_READ


def test_marks_do_not_grow_without_end() -> None:
    times = ReadTimes()
    for number in range(10_000):
        times.note(number + 1, number * APART_MS)
    assert len(times._positions) <= MARKS_MAX
    assert times.of(0) <= 10_000 * APART_MS
