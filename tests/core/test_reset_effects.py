"""Goal: what resets of a group's offsets do to messages, and how they are undone, in one text for all partitions."""

from __future__ import annotations

import pytest

from jbm_kafka.core.channel.entries import Position
from jbm_kafka.core.channel.reset_effects import effects_of, offsets_before, undo_of
from jbm_kafka.core.channel.start_position import Facts, Reset, reset_of
from jbm_kafka.ports import CommittedOffset

UNDO = "To undo it stop the workers and set the offset of partition 2 to 50"
ONCE = "; not once that has come: it would come again"


def recorded(offered: int) -> Position:
    return Position("T", "jbm.f.0:1", 50, 50, offered, 5)


def reset_to(target: int, position: Position | None, begin: int = 0) -> Reset | None:
    return reset_of(Facts("T", position, CommittedOffset(target, ""), 0, 100, begin))


@pytest.mark.parametrize(
    ("position", "target", "begin", "effect", "undo"),
    [
        (recorded(70), 20, 0, "again comes what was delivered of partition 2 from 20 on", UNDO + ONCE),
        (recorded(70), 50, 0, "again comes what was delivered of partition 2 from 50 on", ""),
        (recorded(70), 80, 0, "never comes what was not settled of partition 2 from 50 to 79", UNDO),
        (
            recorded(70),
            60,
            0,
            "again comes what was delivered of partition 2 from 60 on; "
            "never comes what was not settled of partition 2 from 50 to 59",
            UNDO,
        ),
        (recorded(50), 50, 0, "", ""),
        (None, 30, 0, "never comes what was not settled of partition 2 from 0 to 29", ""),
        (None, 30, 30, "", ""),
        (None, 0, 0, "", ""),
    ],
)
def test_what_a_reset_does_is_told_with_how_it_is_undone(
    position: Position | None, target: int, begin: int, effect: str, undo: str
) -> None:
    """Of LOG-2: nothing is said of a reset that changes nothing."""
    reset = reset_to(target, position, begin)
    resets = {} if reset is None else {2: reset}
    assert (effects_of(resets), undo_of(resets)) == (effect, undo)


def test_what_is_the_same_of_several_partitions_is_said_once() -> None:
    """Of LOG-2: a worker had eight lines for eight partitions."""
    back, forward = reset_to(20, recorded(70)), reset_to(80, recorded(50))
    assert back is not None
    assert forward is not None
    resets = {7: forward, 0: back, 1: back, 3: back}
    assert effects_of(resets) == (
        "again comes what was delivered of partitions 0-1, 3 from 20 on; "
        "never comes what was not settled of partition 7 from 50 to 79"
    )
    assert offsets_before(resets) == {0: 50, 1: 50, 3: 50, 7: 50}
    assert undo_of(resets) == f"To undo it stop the workers and set the offset of partitions 0-1, 3, 7 to 50{ONCE}"
