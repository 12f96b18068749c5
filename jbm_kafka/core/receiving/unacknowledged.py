"""What the application of a session has received and nobody has settled: decision 102.

The hands of all queues of a session share one, for CLIENT acknowledges in the order of the session, DUPS_OK counts over
all its queues, and a transaction spans them. A message stands in one place, in the order in which it came there, with
the link that it came by. The session's lock guards all of it. As in `hand`, what decides changes nothing, and `apply`
makes a move and asserts where it begins.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Final, Generic, Protocol, TypeVar

from jbm_kafka.core.receiving.going_back import behind
from jbm_kafka.core.receiving.hand import AWAY, HandMove, Stands


class Ordered(Protocol):
    """A message, as far as its unit goes."""

    @property
    def place_in_unit(self) -> tuple[Hashable, int]:
        """Its unit, told apart from those of other channels, and an order in it; None as unit: it stands alone."""


T = TypeVar("T", bound=Ordered)
L = TypeVar("L")
SEEN: Final = 8
"""The application has it, and nothing was said of it."""
LAZY: Final = 16
"""The application is done with it, and the channel hears that later (DUPS_OK)."""
IN_TRANSACTION: Final = 32
"""A commit or a branch that is on its way has it; also when nobody knows how that ended."""
UNDECIDED: Final = 64
"""It came in a branch and is no part of it, for it ends with the session: what becomes of the branch becomes of it."""

HAND_OVER: Final = HandMove("hand over", AWAY, SEEN)
UNDO: Final = HandMove("undo the hand-over", SEEN, AWAY)
"""The application did not get it after all."""
ACCEPT: Final = HandMove("accept", SEEN, AWAY)
ACCEPT_LAZILY: Final = HandMove("accept lazily", SEEN, LAZY)
ACCEPT_MANY: Final = HandMove("accept many", LAZY, AWAY)
TAKE_PART: Final = HandMove("take part", SEEN | UNDECIDED, IN_TRANSACTION)
"""Undecided is still what came in an earlier branch of which nobody knows how it ended."""
COMMIT: Final = HandMove("commit", IN_TRANSACTION, AWAY)
"""Or pass to a branch, which is another holder."""
AWAIT: Final = HandMove("await the decision", IN_TRANSACTION, UNDECIDED)
DECIDE: Final = HandMove("decide", UNDECIDED, AWAY)
GIVE_BACK: Final = HandMove("give back", SEEN | LAZY | IN_TRANSACTION | UNDECIDED, AWAY)


class Unacknowledged(Generic[T, L]):
    """What one session's application holds, by where it stands; its acknowledge strategy makes the moves."""

    def __init__(self) -> None:
        self.seen: Final[dict[T, L]] = {}
        self.lazy: Final[dict[T, L]] = {}
        self.in_transaction: Final[dict[T, L]] = {}
        self.undecided: Final[dict[T, L]] = {}
        self._places: Final[dict[Stands, dict[T, L]]] = {
            SEEN: self.seen,
            LAZY: self.lazy,
            IN_TRANSACTION: self.in_transaction,
            UNDECIDED: self.undecided,
        }

    # -- decide --------------------------------------------------------------------------------------------------------

    def first(self) -> T | None:
        """Return the first that nothing was said of, or None: where only one is with the application, that one."""
        for item in self.seen:
            return item
        return None

    def at(self, stands: Stands) -> dict[T, L]:
        """Return all that stands there."""
        found: dict[T, L] = {}
        for its, place in self._places.items():
            if its & stands:
                found.update(place)
        return found

    def count(self, link: L) -> int:
        """Return how many of the link are unacknowledged; what a transaction has is no more, its end is waited for."""
        places = (self.seen, self.lazy, self.undecided)
        # A copy: whoever counts may not hold the lock that whoever receives needs none of.
        return sum(list(place.values()).count(link) for place in places if place)

    def one(self, item: T) -> dict[T, L]:
        """Return it; nothing when something was said of it."""
        return {item: self.seen[item]} if item in self.seen else {}

    def through(self, last: T) -> dict[T, L]:
        """Return all up to and including `last` (ACK-2); nothing when something was said of that."""
        found: dict[T, L] = {}
        for item, link in self.seen.items() if last in self.seen else ():
            found[item] = link
            if item is last:
                break
        return found

    def unit_from(self, first: T) -> dict[T, L]:
        """Return `first` and all behind it in its unit (UNIT-3); nothing when something was said of that."""
        if first not in self.seen:
            return {}
        later = behind([first.place_in_unit], ((item, item.place_in_unit) for item in self.seen))
        return {item: self.seen[item] for item in (first, *later)}

    # -- apply ---------------------------------------------------------------------------------------------------------

    def hand_over(self, item: T, link: L) -> None:
        """HAND_OVER of one: for each message, so it goes the shortest way, as do the next three."""
        self.seen[item] = link

    def accept(self, item: T) -> L:
        """ACCEPT of one, or UNDO; returns the link that it came by."""
        return self.seen.pop(item)

    def accept_only(self) -> T | None:
        """ACCEPT of what is seen, where that is one at most; returns it, or None."""
        return self.seen.popitem()[0] if self.seen else None

    def accept_lazily(self, item: T) -> None:
        """ACCEPT_LAZILY of one; in this order: where Ctrl-C comes in between it is twice, and not lost."""
        self.lazy[item] = self.seen[item]
        del self.seen[item]

    def apply(self, move: HandMove, rows: Mapping[T, L]) -> None:
        """Make one move. The caller has decided that it is legal; what is not is a bug and asserts."""
        if not rows:
            return
        if move.ends != AWAY:
            self._places[move.ends].update(rows)
        left = 0 if move.begins != AWAY else len(rows)
        for stands, place in self._places.items():  # last: where Ctrl-C comes in between they are twice, and not lost
            if move.begins & stands:
                for item in rows:
                    if item in place:
                        del place[item]
                        left += 1
        assert left >= len(rows), (move, left, rows)
