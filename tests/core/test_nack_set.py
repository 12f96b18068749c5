"""Who owes an acknowledgement, in whatever order deliveries and acknowledgements arrive."""

import pytest

from jbm_kafka.core.nack_set import NackSet
from jbm_kafka.errors import UnknownMessageError


def test_a_message_is_settled_when_the_last_receiver_acknowledged() -> None:
    """Of STATE-4: the set holds the receivers that still owe; it is settled when empty."""
    owed = NackSet().offered("r1").offered("r2")
    assert owed.owing == {"r1", "r2"}
    assert not owed.acknowledged("r1").is_settled
    assert owed.acknowledged("r1").acknowledged("r2").is_settled


def test_an_early_acknowledgement_cancels_the_owed_one() -> None:
    """STATE-6: the acknowledgement that comes before its delivery is recorded is kept."""
    early = NackSet().acknowledged("r1")
    assert not early.is_settled
    assert early.early == {"r1"}
    assert early.offered("r1").is_settled


def test_an_early_acknowledgement_of_one_receiver_cancels_no_other() -> None:
    """STATE-6."""
    after = NackSet().acknowledged("r1").offered("r2").offered("r1")
    assert after == NackSet(frozenset({"r2"}))


def test_a_second_early_acknowledgement_is_refused_and_changes_nothing() -> None:
    early = NackSet().acknowledged("r1")
    with pytest.raises(UnknownMessageError) as caught:
        early.acknowledged("r1")
    assert caught.value.receiver_id == "r1"
    assert early == NackSet(early=frozenset({"r1"}))


def test_who_returns_a_message_owes_nothing() -> None:
    assert NackSet().offered("r1").returned("r1").is_settled
    assert NackSet().acknowledged("r1").returned("r1").is_settled
    assert NackSet().offered("r1").offered("r2").returned("r1").owing == {"r2"}
