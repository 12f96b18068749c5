"""Goal: of each unit a receiver gets the next message, whatever it gives back while more is on its way (UNIT-3).

Method: an owner sends the messages of two units over a wire; a receiver drops what its fences say, gives back any that
it has with all behind it, and hears the answers. Seeds decide whose turn it is. Paper knows the next of each unit. Then
the fences are broken, one rule at a time, and a seed that shows it must be found.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import count
from random import Random

import pytest

from jbm_kafka.core.receiving.going_back import Fences

UNITS = ("joe", "ann")
OF_EACH = 6
SEEDS = range(300)
ACTS = 80


class Wire:
    """Owner and receiver of one link, and what is on its way between them; a delivery is known by its tag."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._tags, self._arrivals = count(), count()
        self.next = dict.fromkeys(UNITS, 0)
        """Of the owner: what it sends next."""
        self._sent: dict[int, tuple[str, int]] = {}
        """Of the owner: unit and number of what the receiver has, by tag."""
        self.to_receiver: deque[tuple[int, str, int | None]] = deque()
        """Messages, and answers, which have no number."""
        self.to_owner: deque[tuple[int, str]] = deque()
        """The tags of what goes back."""
        self.fences = Fences()
        self.held: dict[int, tuple[str, int, int]] = {}
        """Of the receiver: unit, arrival and number by tag."""
        self._answers: dict[int, tuple[str, int]] = {}
        """Of the receiver: unit and arrival of what goes back."""
        self.due = dict.fromkeys(UNITS, 0)
        """On paper: the number that comes next of each unit."""

    def acts(self, *, may_give_back: bool) -> list[Callable[[], None]]:
        found = [self._send] if any(number < OF_EACH for number in self.next.values()) else []
        found += [self._arrive] if self.to_receiver else []
        found += [self._hear] if self.to_owner else []
        return found + ([self._give_back] if may_give_back and self.held else [])

    def _send(self) -> None:
        unit = self._chance.choice([unit for unit in UNITS if self.next[unit] < OF_EACH])
        tag, number = next(self._tags), self.next[unit]
        self.next[unit] += 1
        self._sent[tag] = unit, number
        self.to_receiver.append((tag, unit, number))

    def _hear(self) -> None:
        """It takes back all behind the first of a unit, and answers each."""
        tag, unit = self.to_owner.popleft()
        if tag in self._sent:
            first = self._sent[tag][1]
            self._sent = {each: row for each, row in self._sent.items() if row[0] != unit or row[1] < first}
            self.next[unit] = first
        self.to_receiver.append((tag, unit, None))

    def _arrive(self) -> None:
        tag, unit, number = self.to_receiver.popleft()
        if number is None:
            self.fences.end(*self._answers.pop(tag))
        elif unit not in self.fences:
            assert number == self.due[unit], f"UNIT-3: {number} comes of {unit}, and {self.due[unit]} is due"
            self.due[unit] += 1
            self.held[tag] = unit, next(self._arrivals), number

    def _give_back(self) -> None:
        tag = self._chance.choice(list(self.held))
        unit, first, number = self.held[tag]
        back = {each: row for each, row in self.held.items() if row[0] == unit and row[1] >= first}
        for each, (_, arrival, _) in back.items():
            if not self.fences.covers(unit, arrival):
                self.fences.begin(unit, arrival)
            self._answers[each] = unit, arrival
            self.to_owner.append((each, unit))
            del self.held[each]
        self.due[unit] = number


def play(seed: int) -> None:
    wire = Wire(Random(seed))
    chance = Random(seed)
    acts = wire.acts(may_give_back=True)
    for left in range(ACTS, -ACTS * OF_EACH, -1):
        chance.choice(acts)()
        acts = wire.acts(may_give_back=left > 0)
        if not acts:
            break
    assert len(wire.held) == OF_EACH * len(UNITS), "all comes in the end"
    assert not wire.fences


def play_all() -> None:
    for seed in SEEDS:
        play(seed)


def test_whatever_goes_back_the_next_of_its_unit_comes() -> None:
    """UNIT-3."""
    play_all()


def _the_first_of_all_covers(self: Fences, unit: str, order: int) -> bool:
    return unit in self


def _one_answer_is_enough(self: Fences, unit: str, order: int) -> bool:
    return self._firsts.pop(unit, None) is not None


@pytest.mark.parametrize(
    ("method", "broken"),
    [
        ("covers", lambda self, unit, order: False),
        ("covers", _the_first_of_all_covers),
        ("begin", lambda self, unit, order: None),
        ("end", _one_answer_is_enough),
        ("end", lambda self, unit, order: False),
    ],
)
def test_a_broken_fence_is_found(method: str, broken: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """UNIT-3."""
    monkeypatch.setattr(Fences, method, broken)
    with pytest.raises(AssertionError):
        play_all()
