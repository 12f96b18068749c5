"""What Hypothesis draws from: sessions, messages, times, and parts of lists."""

from __future__ import annotations

from typing import TypeVar

from hypothesis import strategies as st

T = TypeVar("T")

CLIENTS = ("client-1", "client-2")
"""May hold several messages of a unit."""
INDIVIDUALS = ("individual-1", "individual-2")
"""May hold one message of a unit."""
COLOURS = (0, 0, 1, 2)
SESSIONS = (*CLIENTS, *INDIVIDUALS)

sessions = st.sampled_from(SESSIONS)
selectors = st.sampled_from([None, None, frozenset({0}), frozenset({1}), frozenset({0, 1}), frozenset({3})])
"""The colours that a selector chooses; None: there is none. Nothing has the last one's."""
picks = st.integers(min_value=0, max_value=7)
"""Which of those there are."""
subsets = st.sampled_from([255, 255]) | st.integers(min_value=0, max_value=255)
"""Which of a short list: bit n takes every item whose place is n modulo 8."""
times = st.sampled_from([0, 0, 0, 0, -50, 30, 50])
"""When a message expires or may be delivered, from now on; 0: never, or at once."""
drafts = st.tuples(
    st.sampled_from([None, None, b"a", b"a", b"b"]),
    st.sampled_from([4, 4, 4, 4, 0, 9]),
    times,
    times,
    st.sampled_from([0, 0, 0, 0, 1, 5, 40_000]),
    st.sampled_from(COLOURS),
)
"""Unit, priority, expiration, delivery time, the gap in the log before it, and the colour."""
plain_drafts = st.tuples(
    st.sampled_from([None, b"a", b"a", b"b"]),
    st.just(4),
    st.just(0),
    st.just(0),
    st.sampled_from([0, 0, 0, 2]),
    st.sampled_from(COLOURS),
)
plain_batches = st.lists(plain_drafts, min_size=1, max_size=6)
"""Nothing special about any: they stay among the arrivals until a session asks."""
mixed_batches = st.lists(plain_drafts | drafts, min_size=1, max_size=6)
own_delays = st.sampled_from([None, None, 0, 25, 400])


def some(items: list[T], mask: int) -> list[T]:
    return [item for place, item in enumerate(items) if mask >> (place % 8) & 1]
