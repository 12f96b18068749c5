"""What the receivers of a client's session have in common: the hand, its lock, and what goes back."""

from __future__ import annotations

import threading
from typing import Any

from jbm_kafka.core.channel.settlement import Modified
from jbm_kafka.core.receiving.client_hand import ClientHand
from jbm_kafka.core.receiving.going_back import Fences
from jbm_kafka.ports.deliveries import Delivery

Row = tuple[Delivery, Modified]


class SessionUnits:
    """Of the receivers of one of a client's sessions, or of one that has units for itself; on the event loop."""

    def __init__(self, session_id: str = "", *, is_one_by_one: bool, is_transacted: bool = True) -> None:
        """`session_id`: as the channels know the receivers; "": as no other. `is_transacted`: in it, or maybe."""
        self.session_id = session_id
        self.keeps_later = is_one_by_one
        """The client has nothing of a unit behind one that goes back."""
        self.one_per_unit = is_one_by_one and not is_transacted
        self.lock = threading.RLock()
        """The lock of all its receivers' links, as is the hand."""
        self.hand = ClientHand[Row](is_one_by_one=is_one_by_one)
        self.members: list[Any] = []
        """The receivers of one of the client's sessions that have units in common."""
        self.returning: list[Any] = []
        """Given back by outcomes that came together."""
        self.going_back = Fences()
        """The units of other sidecars."""
