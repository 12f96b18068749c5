"""Senders stamp by the wall clock; the channel's own time does not go back with it."""

from __future__ import annotations

from jbm_kafka.core.channel.changes import TimePassed
from jbm_kafka.core.channel.reference import Reference
from jbm_kafka.core.channel.settlement import Modified
from tests.core.channel_parts import START_MS, Channel, message

SET_BACK_MS = 600
HOUR_MS = 3_600_000


def channel_set_back() -> Channel:
    channel = Channel()
    pass_to(channel, START_MS, SET_BACK_MS)
    return channel


def pass_to(channel: Channel, now_ms: int, set_back_ms: int) -> None:
    channel.now_ms = now_ms
    channel.state.apply(TimePassed(now_ms, set_back_ms))


def test_a_message_expires_by_the_clock_that_stamped_it() -> None:
    """SEND-5: the rest of its time to live is as long as if nobody had set the clock."""
    channel = channel_set_back()
    channel.fetch(message(0, expires=401), message(1, priority=5, expires=401), message(2, expires=400))
    assert channel.got("s") == [1, 0]
    channel.give_back("s", Modified(0, counted=False))
    pass_to(channel, START_MS + 1, SET_BACK_MS)
    assert not channel.got("t")


def test_a_delivery_delay_ends_by_the_clock_that_stamped_it() -> None:
    """SEND-6, of UNIT-4: not before its time, and not long after while the two clocks meet again."""
    channel = channel_set_back()
    channel.fetch(message(0, b"joe", delivery=500), message(1, b"joe"), message(2, delivery=400))
    assert channel.got("s") == [2]
    looks = 0
    for wall_ms in range(400, 500):
        now_ms = START_MS + (wall_ms - 400) // 2
        pass_to(channel, now_ms, now_ms - wall_ms)
        looks += bool(channel.got("s"))
    assert not looks
    pass_to(channel, START_MS + 50, START_MS + 50 - 500)
    assert channel.got("s") == [0, 1]


def test_a_delay_listed_before_the_clock_went_back_is_looked_at_again() -> None:
    """SEND-6."""
    channel = Channel(message(0, delivery=START_MS + 10))
    pass_to(channel, START_MS + 20, 100)
    assert not channel.got("s")
    pass_to(channel, START_MS + 200, 0)
    assert channel.got("s") == [0]


def test_a_delay_looked_at_while_the_clock_was_set_back_for_seconds_ends_in_its_time() -> None:
    """SEND-6: not half an hour late, once the clock is right again."""
    channel = Channel(message(0, b"joe", delivery=START_MS + 10_000), message(1, b"joe"))
    pass_to(channel, START_MS + 1, HOUR_MS)
    channel.fetch(message(2, delivery=START_MS + 20_000))
    assert not channel.got("s")
    pass_to(channel, START_MS + 9_000, 0)
    assert not channel.got("s")
    pass_to(channel, START_MS + 10_000, 0)
    assert channel.got("s") == [0, 1]
    pass_to(channel, START_MS + 20_000, 0)
    assert channel.got("s") == [2]


def test_a_redelivery_delay_does_not_notice_a_clock_set_back() -> None:
    """REDELIVER-2."""
    channel = Channel(message(0))
    assert channel.got("s") == [0]
    channel.give_back("s", Modified(0, counted=True, delay_ms=50))
    pass_to(channel, START_MS + 49, SET_BACK_MS)
    assert not channel.got("s")
    pass_to(channel, START_MS + 50, SET_BACK_MS)
    assert channel.got("s") == [0]


def delayed(offset: int, unit: bytes | None, *, delivery: int, delay: int) -> Reference:
    return Reference(offset, unit, delivery_time_ms=delivery, delivery_delay_ms=delay)


def test_a_sender_whose_clock_was_an_hour_ahead_does_not_block_its_unit_for_it() -> None:
    """Of SEND-6: it waits its delay from when it was read, by a clock that is right."""
    channel = Channel(delayed(0, b"joe", delivery=START_MS + HOUR_MS + 50, delay=50), message(1, b"joe"))
    pass_to(channel, START_MS + 49, 0)
    assert not channel.got("s")
    pass_to(channel, START_MS + 50, 0)
    assert channel.got("s") == [0, 1]


def test_a_unit_read_before_the_clock_went_back_an_hour_does_not_wait_for_it() -> None:
    """Of SEND-6: nor does one that the same clock stamped while it was ahead."""
    channel = Channel(delayed(0, b"joe", delivery=START_MS + 20_000, delay=20_000))
    pass_to(channel, START_MS + 1, HOUR_MS)
    channel.fetch(delayed(2, b"jim", delivery=START_MS + 20_000, delay=20_000))
    pass_to(channel, START_MS + 19_999, HOUR_MS)
    assert not channel.got("s")
    pass_to(channel, START_MS + 20_001, HOUR_MS)
    assert channel.got("s") == [0, 2]
