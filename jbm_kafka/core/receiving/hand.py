"""What a session has in hand of one queue between the channel and its application: decision 102.

A `Hand` is the session's; each of its links to the queue, closed and later ones too, has a `Buffer` in it. To the
channel they are one receiver: what any of them gives back, any other may have been granted the next of. The moves are
the machine: `next_one` and its like decide and change nothing, `apply` makes a move and asserts where it begins. A
message shows its unit and no more of its place; the order is that of the grants. The session's lock guards all of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Final, Generic, NamedTuple, Protocol, TypeVar


class Placed(Protocol):
    """A message, as its hand sees it."""

    @property
    def unit_place(self) -> Hashable:
        """Its unit, told apart from those of other channels; None: it stands alone."""


class Carrier(Protocol):
    """The group worker, or its like, that carries out what a session says."""

    @property
    def is_running(self) -> bool:
        """False after it ended."""

    @property
    def is_alive(self) -> bool:
        """It still carries out what it was told, also while it ends."""


T = TypeVar("T", bound=Placed)
Stands = int
"""Where messages stand that a link was granted: a bit for each place, since compiled a number costs nothing."""
AWAY: Final = 0
"""With the channel or the application: in no buffer."""
ANNOUNCED: Final = 1
"""It comes when its hand-over is durable."""
UNREAD: Final = 2
"""A receive finds it."""
KEPT: Final = 4
"""It cannot go back, and its link is stopped or paused: no receive finds it."""
HERE: Final = ANNOUNCED | UNREAD | KEPT
RETURNING: Final = ANNOUNCED | UNREAD
"""What stands there may be taken back, where nothing is acknowledged before it is taken."""


class HandMove(NamedTuple):
    """What happens to messages: where they stand before it, and after."""

    name: str
    begins: Stands
    ends: Stands


ANNOUNCE: Final = HandMove("announce", AWAY, ANNOUNCED)
ARRIVE: Final = HandMove("arrive", ANNOUNCED, AWAY)
"""Its hand-over is durable: it is granted next, or refused."""
GRANT: Final = HandMove("grant", AWAY, UNREAD)
KEEP: Final = HandMove("keep", UNREAD, KEPT)
SHOW: Final = HandMove("show", KEPT, UNREAD)
"""It comes before all that is unread."""
TAKE: Final = HandMove("take", UNREAD, AWAY)
PUT_BACK: Final = HandMove("put back", AWAY, UNREAD)
"""The last one taken is the next one again."""
TAKE_BACK: Final = HandMove("take back", RETURNING, AWAY)
DROP: Final = HandMove("drop", HERE, AWAY)
"""Nobody gets it: it was acknowledged, and its consumer is closed."""


class Hand:
    """The units of a queue of which a session takes nothing now: something of them is on its way back, or with it."""

    def __init__(self, *, is_one_by_one: bool = False) -> None:
        """`is_one_by_one`: the application has one of a unit, and gets the next after it said something of that."""
        self.is_one_by_one: Final = is_one_by_one
        self.busy: set[Hashable] = set()
        """Units of which it has one, in such a hand."""
        self.fenced: set[Hashable] = set()
        """Units of which something went back since nothing was on its way: what buffers have of them is stale."""
        self._returns: dict[object, tuple[Carrier | None, bool]] = {}
        """Not carried out: who has to, and whether the application never had some of it."""

    def give_back(self, units: Iterable[Hashable], said: object, carrier: Carrier | None, *, has_unread: bool) -> None:
        """Messages of these units are on their way back, until `returned` of the same `said`."""
        self.fenced.update(unit for unit in units if unit is not None)
        self._returns[said] = carrier, has_unread

    def returned(self, said: object) -> None:
        """It was carried out, and what was behind it in its units is out of the buffers."""
        self._returns.pop(said, None)

    def took(self, unit: Hashable) -> None:
        """The application has one of the unit."""
        if self.is_one_by_one and unit is not None:
            self.busy.add(unit)

    def let_go(self, unit: Hashable) -> None:
        """It has said something of that, or did not get it after all: the next one may be taken."""
        self.busy.discard(unit)

    def awaits_unread(self, carrier: Carrier | None) -> bool:
        """The carrier has not heard yet of first deliveries that must come before all that it would grant (ORDER-1)."""
        return any(has_unread and its is carrier for its, has_unread in self._returns.values())

    def is_free(self) -> bool:
        """Nothing is on its way back. A carrier that has ended took its messages out of the buffers before."""
        if not self.fenced:
            return True
        if any(its is None or its.is_running or its.is_alive for its, _ in self._returns.values()):
            return False
        self._returns.clear()
        self.fenced.clear()
        return True


class Buffer(Generic[T]):
    """What one link of a hand was granted and its application has not taken. Its length is what a receive finds."""

    def __init__(self, hand: Hand, returning: Stands = RETURNING) -> None:
        """`returning`: what stands there may be taken back."""
        self.hand = hand
        self._returning = returning
        self.ready: deque[T] = deque()
        """UNREAD, in the order of taking, as is `kept`."""
        self.kept: deque[T] = deque()
        self.coming: list[list[T]] = []
        """ANNOUNCED: whoever announced a list looks there for what is left of it."""
        self.taken: T | None = None
        """The last one: where Ctrl-C comes before whoever took it has it, this still does."""
        self.asked: T | None = None
        """What is taken next, where that must be recorded first (REDELIVER-7); it stays here until it is."""
        self.is_recorded = False
        """It is durable that the application gets `asked`."""
        self.is_kept_back = False
        """What cannot go back is kept, for its queue is paused; the group worker's."""
        self._rank: Callable[[Iterable[T]], list[T]] | None = None
        """Orders `ready`: something of it has another priority than the default, or had."""

    def __len__(self) -> int:
        return len(self.ready)

    @property
    def awaits_more(self) -> bool:
        """Something was announced that has not arrived."""
        return any(self.coming)

    @property
    def has_takeable(self) -> bool:
        """Something may be taken as soon as nothing is on its way back."""
        busy = self.hand.busy
        return any(item.unit_place not in busy for item in self.ready)

    @property
    def has_asked(self) -> bool:
        """`asked` is here."""
        return self.asked is not None and self.asked in self.ready

    @property
    def awaits_record(self) -> bool:
        """`asked` is here, and not recorded yet."""
        return self.has_asked and not self.is_recorded

    # -- decide --------------------------------------------------------------------------------------------------------

    def next_one(self) -> T | None:
        """Return what may be taken next, or None."""
        return self._first_free(self.ready)

    def next_to_record(self) -> T | None:
        """Return as `next_one`, but `asked` as long as it is here."""
        return self._first_free([self.asked] if self.asked is not None and self.has_asked else self.ready)

    def at(self, stands: Stands) -> list[T]:
        """Return all that stands there."""
        found: list[T] = [*self.ready] if stands & UNREAD else []
        if stands & KEPT:
            found += self.kept
        if stands & ANNOUNCED:
            found += [item for batch in self.coming for item in batch]
        return found

    def returnable(self) -> list[T]:
        """Return all that may be taken back."""
        return self.at(self._returning)

    def acknowledged(self) -> list[T]:
        """Return all that may not."""
        return self.at(HERE & ~self._returning)

    def _first_free(self, items: Iterable[T]) -> T | None:
        busy, fenced = self.hand.busy, set() if self.hand.is_free() else self.hand.fenced
        return next((each for each in items if not (each.unit_place in busy or each.unit_place in fenced)), None)

    # -- apply ---------------------------------------------------------------------------------------------------------

    def take_next(self) -> T | None:
        """Take the next one, or None: for each message, so it goes the shortest way."""
        ready, hand = self.ready, self.hand
        if hand.is_one_by_one or (hand.fenced and not hand.is_free()):
            item = self._first_free(ready)
            if item is not None:
                self.take(item)
            return item
        if not ready:
            return None
        self.taken = ready[0]  # first: where Ctrl-C comes in between it is here twice, and is not put back twice
        return ready.popleft()

    def take(self, item: T) -> None:
        """TAKE of one."""
        self.taken = item
        self.ready.remove(item)
        self.hand.took(item.unit_place)

    def apply(self, move: HandMove, items: Sequence[T], rank: Callable[[Iterable[T]], list[T]] | None = None) -> None:
        """Make one move. The caller has decided that it is legal; what is not is a bug and asserts.

        `rank` orders what is unread: some have another priority than the default, and may come before the others.
        """
        ends = move.ends
        if ends == ANNOUNCED:
            assert isinstance(items, list), items
            self.coming.append(items)
        elif ends == KEPT:
            self.kept.extend(items)
        elif move is GRANT:
            self._grant(items, rank)
        elif ends == UNREAD:
            self.ready.extendleft(reversed(items))
        if move.begins != AWAY:  # last: where Ctrl-C comes in between they are here twice, and not lost
            left = self._leave(move, items)
            assert left == len(items), (move, left, items)

    def ask_to_record(self, item: T) -> None:
        """It is taken when that is recorded."""
        self.asked, self.is_recorded = item, False

    def recorded(self, item: T) -> None:
        """It is durable that the application gets it; of no meaning where another was asked for since."""
        self.is_recorded = self.is_recorded or self.asked is item

    def _grant(self, items: Sequence[T], rank: Callable[[Iterable[T]], list[T]] | None) -> None:
        is_behind = bool(self.ready)
        self._rank = rank or (self._rank if is_behind else None)
        self.ready.extend(items)
        if self._rank is not None and is_behind:
            self.ready = deque(self._rank(self.ready))

    def _leave(self, move: HandMove, items: Sequence[T]) -> int:
        """Take them from where they stand; returns how many did."""
        before, gone = self._count(), set(items)
        if move.begins & UNREAD:
            self.ready = deque(item for item in self.ready if item not in gone)
        if move.begins & KEPT:
            self.kept = deque(item for item in self.kept if item not in gone)
        if move is ARRIVE:  # whoever announced the list goes on with it
            self.coming = [batch for batch in self.coming if batch is not items]
        elif move.begins & ANNOUNCED:
            for batch in self.coming:
                batch[:] = [item for item in batch if item not in gone]
        return before - self._count()

    def _count(self) -> int:
        return len(self.ready) + len(self.kept) + sum(map(len, self.coming))
