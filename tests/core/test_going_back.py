"""What goes back takes its unit along, and what was seen keeps that it was: the rule, and what is said of it."""

from __future__ import annotations

import pytest

from jbm_kafka.core.channel.first_outcome import NOTHING_SAID, SaidBehind, rows_behind, said_behind
from jbm_kafka.core.channel.settlement import Modified, uncounted
from jbm_kafka.core.receiving.going_back import behind

ALIKE, SEEN, UNREAD = (
    Modified(0, counted=True, delay_ms=7, last_error="why"),
    Modified(0, counted=False, was_seen=True),
    Modified(0, counted=False),
)


def test_all_that_is_behind_the_first_of_a_unit_goes_with_it_and_nothing_else() -> None:
    """UNIT-3: in the order held; the first of a unit counts, whichever is named first."""
    held = [("joe", 1), ("ann", 2), ("joe", 3), ("joe", 4), (None, 5), ("ann", 6)]
    found = behind([("joe", 3), ("joe", 1), (None, 2), ("eve", 0)], [(each, each) for each in held])
    assert found == [("joe", 3), ("joe", 4)]


def test_of_what_came_by_a_later_lease_all_is_behind_what_came_by_an_earlier_one() -> None:
    """UNIT-3: offsets recur where a partition moves away and back."""
    held = [((0, 7), ("joe", (0, 7))), ((1, 6), ("joe", (1, 6))), ((1, 7), ("joe", (1, 7)))]
    assert behind([("joe", (0, 7))], held) == [(1, 6), (1, 7)]
    assert behind([("joe", (1, 6))], held) == [(1, 7)]


def test_what_has_no_unit_takes_nothing_along_and_is_not_looked_for() -> None:
    """UNIT-3."""
    held = iter([(1, (None, 1)), (2, (None, 2))])
    assert behind([(None, 1)], held) == []
    assert len(list(held)) == 2


def test_what_was_seen_is_marked_unless_nothing_was() -> None:
    """REDELIVER-1."""
    assert [row.was_seen for row in uncounted([1, 2], unread=[2])] == [True, False]
    assert [row.was_seen for row in uncounted([1, 2], unread=None)] == [False, False]


@pytest.mark.parametrize(
    ("later", "said"),
    [
        ([], NOTHING_SAID),
        ([UNREAD, UNREAD], NOTHING_SAID),
        ([ALIKE, ALIKE], SaidBehind(2, 0)),
        ([ALIKE, SEEN, SEEN, UNREAD], SaidBehind(1, 2)),
        ([SEEN, UNREAD], SaidBehind(0, 1)),
    ],
)
def test_what_the_first_outcome_says_of_those_behind_it_is_how_they_go_back(
    later: list[Modified], said: SaidBehind
) -> None:
    """REDELIVER-1, UNIT-3: the side that hears it has other numbers, and may have sent more than the other received."""
    assert said_behind(later) == said
    told = rows_behind(ALIKE._replace(offset=9), said, range(10, 10 + len(later) + 1))
    assert told == [row._replace(offset=10 + place) for place, row in enumerate([*later, UNREAD])]


def test_what_is_between_two_that_were_seen_was_seen() -> None:
    """REDELIVER-1: where it is not to be known, it comes marked."""
    assert said_behind([SEEN, UNREAD, SEEN]) == SaidBehind(0, 3)
