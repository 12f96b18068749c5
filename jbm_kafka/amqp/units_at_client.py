"""The part of each unit that a client has. One that says so has any number; any other has one message unsettled, and
any number in its transactions. The rest waits in the buffers of its links, where its hand leaves it.

More would come back out of order. A client that rolls back says what it did not look at yet one by one, and late: until
then it has a message that must not go to anybody after the one before it. So what was rolled back waits for that.
"""

from __future__ import annotations

import threading
from typing import Any

from jbm_kafka.core.channel.settlement import Modified
from jbm_kafka.core.receiving.going_back import Fences
from jbm_kafka.core.receiving.hand import Hand
from jbm_kafka.ports.deliveries import Delivery

Rows = list[tuple[Delivery, Modified]]


class UnitsAtClient:
    """Of the receivers of one of a client's sessions, or of one that has units for itself; on the event loop."""

    def __init__(self, session_id: str = "", *, is_one_by_one: bool, is_transacted: bool = True) -> None:
        """`session_id`: as the channels know the receivers; "": as no other. `is_transacted`: in it, or maybe."""
        self.session_id = session_id
        self.keeps_later = is_one_by_one
        """The client has nothing of a unit behind one that goes back."""
        self.one_per_unit = is_one_by_one and not is_transacted
        self.lock = threading.RLock()
        """The lock of all its receivers' links, as is the hand."""
        self.hand = Hand(is_one_by_one=is_one_by_one)
        self.members: list[Any] = []
        """The receivers of one of the client's sessions that have units in common."""
        self.returning: list[Any] = []
        """Given back by outcomes that came together."""
        self.going_back = Fences()
        """The units of other sidecars."""
        self._rolled_back: dict[tuple[int, bytes] | None, Rows] = {}
        """The messages that go back when the client has said something of the one that it has behind them."""

    def settled(self, delivery: Delivery) -> None:
        """The client is done with it, or has it in a transaction: the next one may be sent."""
        self.hand.let_go(delivery.unit_place)

    def is_void(self, delivery: Delivery) -> bool:
        """Return True when what the client says of it does not count: one before it was rolled back."""
        return delivery.unit_place in self._rolled_back

    def returned(self, delivery: Delivery, row: Modified) -> Rows:
        """The client gave back the one that it had; returns all that goes back with it, in order."""
        self.hand.let_go(delivery.unit_place)
        return [*self._rolled_back.pop(delivery.unit_place, ()), (delivery, row)]

    def rolled_back(self, delivery: Delivery, row: Modified) -> Rows:
        """A transaction that had it was rolled back; returns what goes back now."""
        if delivery.unit_place not in self.hand.busy:
            return [(delivery, row)]
        self._rolled_back.setdefault(delivery.unit_place, []).append((delivery, row))
        return []

    def close(self) -> Rows:
        """The client has nothing of its receiver any more but in transactions; returns what waited for that."""
        rows = [row for rows in self._rolled_back.values() for row in rows]
        self._rolled_back.clear()
        self.hand.busy.clear()
        return rows
