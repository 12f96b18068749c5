"""Kinds of holder: who keeps a process in its group, whom a rebalance waits for, and whose messages come again."""

from jbm_kafka.core.channel.holders import (
    HolderKind,
    branch_holder,
    branch_of,
    is_waited_for,
    keeps_membership,
    kind_of,
    returning,
    with_receivers,
)
from jbm_kafka.core.channel.reference import DEPARTING, Reference

SESSION, BRANCH = "c1/1", branch_holder("0f")
HANDS = {holder: {n: Reference(n, None)} for n, holder in enumerate((SESSION, DEPARTING, BRANCH))}


def test_a_holder_is_told_by_its_name() -> None:
    assert [kind_of(holder) for holder in HANDS] == [HolderKind.SESSION, HolderKind.DEPARTURE, HolderKind.BRANCH]
    assert [branch_of(holder) for holder in HANDS] == [None, None, "0f"]


def test_what_departs_is_with_no_receiver_and_only_a_session_gives_back_what_is_lost() -> None:
    assert [holder for holder, _ in with_receivers(HANDS)] == [SESSION, BRANCH]
    assert [holder for holder, _ in returning(HANDS)] == [SESSION]


def test_a_branch_keeps_neither_membership_nor_a_rebalance_waiting() -> None:
    for holder in (SESSION, DEPARTING):
        assert is_waited_for({holder: HANDS[holder]})
        assert keeps_membership({holder: HANDS[holder]})
    assert not is_waited_for({BRANCH: HANDS[BRANCH], SESSION: {}})
    assert not keeps_membership({BRANCH: HANDS[BRANCH], SESSION: {}})
