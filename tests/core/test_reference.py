"""References: what they are compared and ordered by."""

from dataclasses import dataclass

import pytest

from jbm_kafka.core.channel.reference import Reference


@dataclass(frozen=True)
class Other:
    """Has an offset and a unit, and is no reference."""

    offset: int = 7
    unit: bytes = b"joe"


def test_references_with_the_same_values_are_one() -> None:
    assert Reference(7, b"joe", 4, 1, 2, None, b"text") == Reference(7, b"joe", 4, 1, 2, None, b"text")
    assert len({Reference(7, b"joe"), Reference(7, b"joe"), Reference(8, b"joe")}) == 2
    assert Reference(7, b"joe") != Other()


@pytest.mark.parametrize(
    "other",
    [
        Reference(8, b"joe"),
        Reference(7, b"jim"),
        Reference(7, b"joe", priority=5),
        Reference(7, b"joe", expiration_ms=1),
        Reference(7, b"joe", delivery_time_ms=1),
        Reference(7, b"joe", record="r"),
        Reference(7, b"joe", body_kind=b"text"),
    ],
)
def test_each_value_makes_a_difference(other: Reference) -> None:
    assert Reference(7, b"joe") != other


def test_references_are_ordered_as_the_log_is_whatever_their_priority() -> None:
    """What goes back to its unit takes the place that the log gave it."""
    late, early = Reference(9, b"a", priority=9), Reference(3, b"z", priority=0)
    assert sorted([late, early]) == [early, late]


def test_without_a_unit_a_message_waits_at_a_gate_of_its_own() -> None:
    assert Reference(7, None).gate_key == 7
    assert Reference(7, b"joe").gate_key == b"joe"


def test_a_reference_tells_its_values() -> None:
    assert repr(Reference(7, b"joe")) == "Reference(7, b'joe', 4, 0, 0, None, None)"
