"""Which of the known names is meant."""

import pytest

from jbm_kafka.core.likely_name import likely_name, with_likely_name

KNOWN = ["url", "prefetch", "time_to_live_ms", "unit_of_order", "priority"]


@pytest.mark.parametrize(
    ("written", "likely"),
    [
        ("prefech", "prefetch"),
        ("PREFETCH", "prefetch"),
        ("ttl", "time_to_live_ms"),
        ("bootstrap_servers", "url"),
        ("key", "unit_of_order"),
        ("unit", "unit_of_order"),
        ("time_to_live", "time_to_live_ms"),
        ("something_else", None),
        ("dlq", None),
    ],
)
def test_a_near_name_or_what_other_systems_call_it(written: str, likely: str | None) -> None:
    assert likely_name(written, KNOWN) == likely


def test_without_a_near_name_the_text_is_all() -> None:
    assert with_likely_name("no 'x'", "x", KNOWN) == "no 'x'"
    assert with_likely_name("no 'ttl'", "ttl", KNOWN) == "no 'ttl'; 'time_to_live_ms' is meant, probably"
