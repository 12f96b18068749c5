"""Goal: a checkpoint's name is told from everything an operator's tool writes, and never comes twice."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jbm_kafka.core.channel.checkpoint_id import CheckpointId, first_checkpoint_id, parse_checkpoint_id


@given(st.from_regex(r"(ns-1\.)?jbm\.[a-z0-9]{1,8}\.[0-9]", fullmatch=True), st.integers(0, 10**18))
def test_what_was_written_is_read_back(transactional_id: str, number: int) -> None:
    made = CheckpointId(transactional_id, number)
    assert parse_checkpoint_id(str(made)) == made
    assert str(made) == f"{transactional_id}:{number}"


@pytest.mark.parametrize(
    "text", ["", "reset by bob at 12:30", "jbm:42", "jbm.a.0", "jbm.a.0:", "jbm.a.0:x", "jbm.a.0:01", "jbm.a.0:-1",
             "jbm.a.0:1 ", "jbm.a.0:1\n", "other.a.0:1", "jbm.a.0:١"],
)  # fmt: skip
def test_what_an_operators_tool_writes_is_no_checkpoint_id(text: str) -> None:
    """Of LOG-2: it is a reset."""
    assert parse_checkpoint_id(text) is None


def test_the_numbers_of_a_restarted_sidecar_are_above_its_past() -> None:
    last = first_checkpoint_id("jbm.a.0", now_ms=1_700_000_000_000)
    for _ in range(999):
        last = last.following()
    assert first_checkpoint_id("jbm.a.0", now_ms=1_700_000_000_001).number > last.number


def test_an_id_that_could_not_be_read_back_is_not_made() -> None:
    with pytest.raises(AssertionError):
        CheckpointId("mine", 1)
