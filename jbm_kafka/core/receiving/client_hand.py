"""The hand of a client that has one message of a unit at a time, and says of each what became of it.

A client that rolls a transaction back still has the next message of the unit, and says only later, one by one, that it
did not look at that. So what was rolled back waits until then: else the one that the client has would go to somebody
after the one before it.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from jbm_kafka.core.receiving.hand import Hand

Back = TypeVar("Back")
"""A message on its way back, with what its receiver says of it."""


class ClientHand(Hand, Generic[Back]):
    """What goes back of a unit goes back in order, and after what its client still has of it. The hand's lock guards
    it."""

    def __init__(self, *, is_one_by_one: bool) -> None:
        """False: the client takes any number of a unit; nothing waits then."""
        super().__init__(is_one_by_one=is_one_by_one)
        self._waiting: dict[Hashable, list[Back]] = {}

    def is_void(self, unit: Hashable) -> bool:
        """Return True when what the client says of the one that it has does not count: one before it goes back."""
        return unit in self._waiting

    def give_one_back(self, unit: Hashable, back: Back) -> list[Back]:
        """The client gave back the one that it had; returns all that goes back with it, in order."""
        self.let_go(unit)
        return [*self._waiting.pop(unit, ()), back]

    def roll_back(self, unit: Hashable, back: Back) -> list[Back]:
        """A transaction that had it was rolled back; returns what goes back now: nothing while the client has one."""
        if unit not in self.busy:
            return [back]
        self._waiting.setdefault(unit, []).append(back)
        return []

    def end(self) -> list[Back]:
        """The client has nothing any more but in transactions; returns what waited for that."""
        rows = [row for rows in self._waiting.values() for row in rows]
        self._waiting.clear()
        self.busy.clear()
        return rows
