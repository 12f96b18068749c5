"""Whose turn it is, whose share is used up, and how long a wrong password waits: by numbers alone."""

from __future__ import annotations

import pytest

from jbm_kafka.amqp.failure_delays import FORGOTTEN_S, KEPT, MOST_S, FailureDelays
from jbm_kafka.amqp.made_lately import HOUR_S, MadeLately
from jbm_kafka.amqp.shares import Shares, Whose, address_of, whose_client
from jbm_kafka.amqp.turns import Turns

HERE, THERE = Whose("address", "10.0.0.1"), Whose("address", "10.0.0.2")
ALICE, BOB = Whose("user", "alice"), Whose("user", "bob")


def test_one_address_has_its_turns_and_others_have_theirs_beside_it() -> None:
    """Of AMQP-10."""
    turns: Turns[str] = Turns(most=3, most_each=2, line_max=100)
    for number in range(50):
        turns.arrive("hostile", f"h{number}")
    assert turns.begin() == ["h0", "h1"]
    turns.arrive("innocent", "i0")
    assert turns.begin() == ["i0"]
    assert turns.begin() == []
    turns.end("innocent")
    turns.arrive("innocent", "i1")
    turns.end("hostile")
    assert turns.begin() == ["h2", "i1"]
    turns.arrive("innocent", "i2")
    turns.end("hostile")
    turns.end("hostile")
    assert turns.begin() == ["h3", "i2"], "they take turns, however long the lines are"


def test_where_the_line_is_full_the_longest_one_loses_its_first() -> None:
    """Of AMQP-10."""
    turns: Turns[str] = Turns(most=1, most_each=1, line_max=3)
    assert [turns.arrive("hostile", f"h{number}") for number in range(3)] == [None] * 3
    assert turns.arrive("innocent", "i") == "h0"
    turns.withdraw("innocent", "gone")
    turns.withdraw("hostile", "h0")
    turns.withdraw("hostile", "h1")
    assert turns.begin() == ["h2"]
    turns.end("hostile")
    assert (turns.begin(), turns.waiting) == (["i"], 0)


def test_a_place_that_is_held_back_has_a_turn_less_and_nobody_else() -> None:
    """Of AMQP-10."""
    turns: Turns[str] = Turns(most=2, most_each=1, line_max=9)
    turns.hold("hostile")
    turns.arrive("hostile", "h")
    turns.arrive("innocent", "i")
    assert turns.begin() == ["i"]
    turns.release("hostile")
    assert turns.begin() == ["h"]


def test_a_user_and_an_address_have_shares_of_their_own() -> None:
    """Of AMQP-10."""
    shares = Shares(5, 2, 3)
    assert [shares.take(ALICE) for _ in range(3)] == [None, None, "2 of user 'alice'"]
    assert [shares.take(HERE) for _ in range(3)] == [None, None, None]
    assert shares.take(BOB) == "5 of all clients"
    shares.give_back(ALICE)
    assert (shares.take(THERE), shares.taken) == (None, 5)


@pytest.mark.parametrize(
    ("peer", "name"),
    [
        (("10.0.0.1", 5), "10.0.0.1"),
        (("::ffff:10.0.0.1", 5, 0, 0), "10.0.0.1"),
        (("2001:db8:1:2:3:4:5:6", 5, 0, 0), "2001:db8:1:2::/64"),
        (("fe80::1%eth0", 5, 0, 2), "fe80::/64"),
        (("a socket", 5), "a socket"),
        (None, ""),
    ],
)
def test_who_has_one_address_of_ipv6_has_all_of_its_network(peer: object, name: str) -> None:
    assert address_of(peer) == Whose("address", name)


def test_who_is_anonymous_counts_by_address_and_others_by_user() -> None:
    """Of AMQP-10."""
    assert (whose_client("anonymous", HERE), whose_client("alice", HERE)) == (HERE, ALICE)


def test_a_wrong_password_waits_longer_each_time_and_never_longer_than_five_seconds() -> None:
    """Of AMQP-10: by user, wherever the guesses come from, and by address, whomever they are of."""
    delays = FailureDelays()
    assert [delays.failed(0, HERE, ALICE) for _ in range(3)] == [0.1, 0.2, 0.4]
    assert delays.failed(0, THERE, ALICE) == 0.8
    assert delays.failed(0, HERE, BOB) == 0.8
    assert max(delays.failed(0, HERE, ALICE) for _ in range(2_000)) == MOST_S
    assert delays.failed(FORGOTTEN_S, HERE, ALICE) == 0.1, "after a minute without one it begins anew"


def test_names_without_end_take_no_memory_without_end() -> None:
    """Of AMQP-10."""
    delays = FailureDelays()
    for number in range(KEPT + 10):
        delays.failed(0, Whose("user", str(number)))
    assert len(delays._failed) == KEPT
    assert delays.failed(0, Whose("user", "0")) == 0.1


def test_who_has_made_too_many_topics_makes_more_an_hour_later_and_others_at_once() -> None:
    """Of AMQP-10."""
    made = MadeLately(2)
    assert [made.take(at_s, ALICE) for at_s in (0, 10, 20)] == [True, True, False]
    assert made.take(20, BOB)
    assert [made.take(HOUR_S + at_s, ALICE) for at_s in (0, 5, 10)] == [True, False, True]
    assert made.take(9 * HOUR_S, HERE)
    assert list(made._made) == [HERE], "of who makes none any more nothing is kept"
