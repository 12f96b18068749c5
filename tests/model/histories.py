"""What Hypothesis draws from: sessions, messages, times, and parts of lists."""

from __future__ import annotations

from hypothesis import strategies as st

CLIENTS = ("client-1", "client-2")
"""May hold several messages of a unit."""
INDIVIDUALS = ("individual-1", "individual-2")
"""May hold one message of a unit."""
SESSIONS = (*CLIENTS, *INDIVIDUALS)

sessions = st.sampled_from(SESSIONS)
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
)
"""Unit, priority, expiration, delivery time, and the gap in the log before it."""
plain_drafts = st.tuples(
    st.sampled_from([None, b"a", b"a", b"b"]), st.just(4), st.just(0), st.just(0), st.sampled_from([0, 0, 0, 2])
)
plain_batches = st.lists(plain_drafts, min_size=1, max_size=6)
"""Nothing special about any: they stay among the arrivals until a session asks."""
mixed_batches = st.lists(plain_drafts | drafts, min_size=1, max_size=6)
own_delays = st.sampled_from([None, None, 0, 25, 400])


def some(items: list[int], mask: int) -> list[int]:
    return [item for place, item in enumerate(items) if mask >> (place % 8) & 1]
