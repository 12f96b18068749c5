"""Errors that are alike have one kind."""

import pytest

from jbm_kafka.core.failure_kind import failure_kind


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ("ValueError: no customer 17", "ValueError: no customer …"),
        ("KeyError: 'joe' of order 0x1f", "KeyError: … of order …"),
        ("OSError: ID:ab12 at 5f3c2a10-88aa-4c0b is gone", "OSError: … at … is gone"),
        ("KeyError: 'joe'", "KeyError: 'joe'"),
    ],
)
def test_numbers_ids_and_quoted_values_do_not_tell_errors_apart(error: str, kind: str) -> None:
    """And one of which nothing but its class would be left is of a kind of its own."""
    assert failure_kind(error) == kind
