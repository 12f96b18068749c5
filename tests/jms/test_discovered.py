"""What a stranger could not find by `help()`, `dir()`, `repr()` and a type checker."""

from __future__ import annotations

import inspect

import pytest

from jbm_kafka import Message, TextMessage

HEADERS = [name for name, member in inspect.getmembers(Message) if isinstance(member, property) and name != "body"]


@pytest.mark.parametrize("name", HEADERS)
def test_help_of_a_header_told_of_operator_attrgetter(name: str) -> None:
    """Each has one line of its own, which tells what it is and its unit."""
    told = inspect.getdoc(getattr(TextMessage, name)) or ""
    assert "attrgetter" not in told
    assert told.endswith(".")
    assert "\n" not in told
    if name in ("timestamp", "expiration", "delivery_time"):
        assert "milliseconds since 1970; 0" in told
