"""Receives one unit of order, past whatever else a queue hands over: what `receive --unit` does."""

from __future__ import annotations

from jbm_kafka.core.closed_at_end import ClosedAtEnd
from jbm_kafka.core.destination import Queue
from jbm_kafka.jms.base.modes import AcknowledgeMode
from jbm_kafka.jms.messages.message import Message
from jbm_kafka.jms.selective_receive import SelectiveReceive
from jbm_kafka.jms.session import Session


class OneUnit(ClosedAtEnd):
    """A consumer of one unit. The session is an INDIVIDUAL one: that hands over one message of a unit at a time."""

    def __init__(self, session: Session, queue: Queue, unit: str) -> None:
        assert session.acknowledge_mode is AcknowledgeMode.INDIVIDUAL, session.acknowledge_mode
        name = unit.encode()
        self._queue = SelectiveReceive(
            session, queue, lambda delivery: delivery.reference.unit == name, wanted=f"one of unit {unit!r}"
        )

    def receive(self, timeout_s: float) -> Message | None:
        """Return the unit's next message; None when for so many seconds none of any unit came.

        Raises:
            ResourceAllocationError: too many others come before it.
        """
        with self._queue.in_use():
            delivery = self._queue.next_wanted(timeout_s)
            return None if delivery is None else self._queue.present(delivery)

    def close(self) -> None:
        """Give the others back; before the session closes."""
        self._queue.close()
