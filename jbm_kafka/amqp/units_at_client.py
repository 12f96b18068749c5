"""The part of each unit that a client has. One that says so has any number (UnitsTogether); else it has one message
unsettled.

What a client in a transacted session has of each unit: one message unsettled, and any number in its transactions.

More would come back out of order. A client that rolls back says what it did not look at yet one by one, and late: until
then it has a message that must not go to anybody after the one before it. So what was rolled back waits for that.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

from jbm_kafka.core.channel.settlement import Modified
from jbm_kafka.core.receiving.going_back import Fences
from jbm_kafka.core.receiving.hand import Hand
from jbm_kafka.ports.deliveries import Delivery

Rows = list[tuple[Delivery, Modified]]


class UnitsTogether:
    """A client's session has any number of a unit, and knows which go back with an earlier one; on the event loop."""

    one_per_unit = False
    keeps_later = False
    """The client has nothing of a unit behind one that goes back."""
    waiting = 0
    """How many are here and not sent."""

    def __init__(self, session_id: str) -> None:
        """`session_id`: as the channels know the receivers; "": as no other."""
        self.session_id = session_id
        self.lock = threading.RLock()
        """The lock of all its receivers' links, as is the hand."""
        self.hand = Hand()
        self.members: list[Any] = []
        """The receivers of one of the client's sessions that have units in common."""
        self.returning: list[Any] = []
        """Given back by outcomes that came together."""
        self.going_back = Fences()
        """The units of other sidecars."""

    def take(self) -> Delivery | None:
        """One that was kept and may be sent now."""
        return None

    def is_kept(self, delivery: Delivery) -> bool:
        """It must not be sent yet, and is kept."""
        return False

    def sent(self, delivery: Delivery) -> None:
        """The client has it."""

    def settled(self, delivery: Delivery) -> None:
        """The client is done with it, or has it in a transaction: the next one may be sent."""

    def is_void(self, delivery: Delivery) -> bool:
        """Return True when what the client says of it does not count: one before it was rolled back."""
        return False

    def returned(self, delivery: Delivery, row: Modified) -> Rows:
        """The client gave back the one that it had; returns all that goes back with it, in order."""
        return [(delivery, row)]

    def rolled_back(self, delivery: Delivery, row: Modified) -> Rows:
        """A transaction that had it was rolled back; returns what goes back now."""
        return [(delivery, row)]

    def take_all(self) -> Rows:
        """All that is kept here, when the receiver closes."""
        return []


class UnitsAtClient(UnitsTogether):
    """One message of a unit is with the client, and what comes after it is kept here. Of one receiver."""

    keeps_later = True

    def __init__(self, is_transacted: bool) -> None:
        """`is_transacted`: several of a unit may be there, in transactions."""
        super().__init__("")
        self.one_per_unit = not is_transacted
        self._unsettled: set[tuple[int, bytes]] = set()
        self._behind: dict[tuple[int, bytes], deque[Delivery]] = {}
        """The messages behind the one that the client has."""
        self._rolled_back: dict[tuple[int, bytes], Rows] = {}
        """The messages that go back when the client has said something of the one that it has behind them."""
        self._next: deque[Delivery] = deque()

    def take(self) -> Delivery | None:
        if not self._next:
            return None
        self.waiting -= 1
        return self._next.popleft()

    def is_kept(self, delivery: Delivery) -> bool:
        place = delivery.unit_place
        if place is None or place not in self._unsettled:
            return False
        self._behind.setdefault(place, deque()).append(delivery)
        self.waiting += 1
        return True

    def sent(self, delivery: Delivery) -> None:
        if delivery.unit_place is not None:
            self._unsettled.add(delivery.unit_place)

    def is_void(self, delivery: Delivery) -> bool:
        return delivery.unit_place in self._rolled_back

    def settled(self, delivery: Delivery) -> None:
        place = delivery.unit_place
        if place is None:
            return
        self._unsettled.discard(place)
        behind = self._behind.get(place)
        if behind:
            self._next.append(behind.popleft())
            self._unsettled.add(place)
        if not behind:
            self._behind.pop(place, None)

    def returned(self, delivery: Delivery, row: Modified) -> Rows:
        place = delivery.unit_place
        if place is None:
            return [(delivery, row)]
        self._unsettled.discard(place)
        behind = self._behind.pop(place, deque())
        self.waiting -= len(behind)
        return [*self._rolled_back.pop(place, []), (delivery, row), *map(_unread, behind)]

    def rolled_back(self, delivery: Delivery, row: Modified) -> Rows:
        place = delivery.unit_place
        if place is None:
            return [(delivery, row)]
        mine = next((each for each in self._next if each.unit_place == place), None)
        if mine is not None:  # the next one is on its way to the client, but not sent
            self._next.remove(mine)
            self.waiting -= 1
            return [(delivery, row), *self.returned(mine, _unread(mine)[1])]
        if place in self._unsettled:
            self._rolled_back.setdefault(place, []).append((delivery, row))
            return []
        return [(delivery, row)]

    def take_all(self) -> Rows:
        rows = [row for rows in self._rolled_back.values() for row in rows]
        rows += map(_unread, self._next)
        rows += [_unread(each) for behind in self._behind.values() for each in behind]
        self._rolled_back, self._behind, self.waiting = {}, {}, 0
        self._next.clear()
        return rows


def _unread(delivery: Delivery) -> tuple[Delivery, Modified]:
    return delivery, Modified(delivery.offset, counted=False)
