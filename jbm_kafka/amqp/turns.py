"""In which turn they are served that come: so many at once, so many of one place, and places one after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class Turns(Generic[T]):
    """Who has his turn, and who stands in line for one. A place with a long line has its turns among the others'."""

    def __init__(self, most: int, most_each: int, line_max: int) -> None:
        """So many have their turn at once, in all and of one place; `line_max`: so many may stand in line."""
        self._most, self._most_each, self._line_max = most, most_each, line_max
        self._busy = 0
        self._having: Counter[Hashable] = Counter()
        self._held: Counter[Hashable] = Counter()
        self._line: dict[Hashable, dict[T, None]] = {}
        """The line at each place, the one whose turn is next first; in each who came first."""
        self.waiting = 0

    def arrive(self, place: Hashable, one: T) -> T | None:
        """Put one in the line of its place. Ask `begin` next for those whose turn it is.

        Returns the one that had to leave because the lines were full, the first of the longest, or None.
        """
        lost = None
        if self.waiting >= self._line_max:
            longest = max(self._line, key=lambda each: len(self._line[each]))
            lost = next(iter(self._line[longest]))
            self.withdraw(longest, lost)
        self._line.setdefault(place, {})[one] = None
        self.waiting += 1
        return lost

    def withdraw(self, place: Hashable, one: T) -> None:
        """Leave the line; nothing happens when it has left already."""
        line = self._line.get(place, {})
        if one in line:
            del line[one]
            self.waiting -= 1
            if not line:
                del self._line[place]

    def begin(self) -> list[T]:
        """Return those whose turn it is from now on, until `end`."""
        found: list[T] = []
        while self._busy < self._most:
            place = next((each for each in self._line if self._has_room(each)), None)
            if place is None:
                break
            line = self._line.pop(place)
            one = next(iter(line))
            del line[one]
            if line:
                self._line[place] = line
            self.waiting -= 1
            self._having[place] += 1
            self._busy += 1
            found.append(one)
        return found

    def _has_room(self, place: Hashable) -> bool:
        return self._having.get(place, 0) + self._held.get(place, 0) < self._most_each

    def end(self, place: Hashable) -> None:
        """One of the place has had its turn."""
        self._busy -= 1
        _take_off(self._having, place)

    def hold(self, place: Hashable) -> None:
        """Let the place have one turn less, until `release`."""
        self._held[place] += 1

    def release(self, place: Hashable) -> None:
        """Let it have that again."""
        _take_off(self._held, place)


def _take_off(counter: Counter[Hashable], place: Hashable) -> None:
    counter[place] -= 1
    if not counter[place]:
        del counter[place]
