"""How old a journal may be to be used."""

JOURNAL_AGE_MS_MAX = 3 * 24 * 3600 * 1000
"""Older state is not used: the changelog keeps a deletion's mark for 7 days (`delete.retention.ms`) from its writing
on, and a value that was deleted while we were away must not come back."""
CLOCK_SKEW_MS_MAX = 3600 * 1000
"""A stamp further ahead than this says that one of the two clocks was wrong; the age is then not known."""


def is_fresh(stamped_at_ms: int, now_ms: int) -> bool:
    """True when state written at `stamped_at_ms` may still be used."""
    return -CLOCK_SKEW_MS_MAX <= now_ms - stamped_at_ms <= JOURNAL_AGE_MS_MAX
