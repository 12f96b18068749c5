"""Why what is on hold failed the last time."""

import pytest

from jbm_kafka.sidecar.channel import owned_channel
from jbm_kafka.sidecar.channel.owned_channel import HoldFailures


def test_the_error_of_an_earlier_hold_is_not_told_of_one_that_says_none() -> None:
    """Of UNIT-16: after a release with `again` an operator would read what he has mended already."""
    failures = HoldFailures()
    failures.note(7, "KeyError: 'joe'")
    assert failures.last_of(7) == failures.take(7) == "KeyError: 'joe'"
    assert failures.last_of(7) is None
    failures.note(7, "KeyError: 'jane'")
    failures.note(7, None)
    assert failures.last_of(7) is None


def test_of_more_errors_than_are_kept_the_oldest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owned_channel, "FAILURES_MAX", 2)
    failures = HoldFailures()
    for offset, text in ((7, "a"), (8, "b"), (7, "c"), (9, "d")):
        failures.note(offset, text)
    assert [failures.last_of(offset) for offset in (7, 8, 9)] == ["c", None, "d"]
