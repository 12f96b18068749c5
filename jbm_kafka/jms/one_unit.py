"""Receives one unit of order, past whatever else a queue hands over: what `receive --unit` does.

It gets the first message of each other unit too, keeps it unseen, and gives it back at the end as if it had never been
handed over. Until then nobody else gets these; who needs that for work needs a selector.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Self

from jbm_kafka.core.destination import Queue
from jbm_kafka.core.errors import ResourceAllocationError
from jbm_kafka.core.settlement import GivenBack
from jbm_kafka.jms.messages import Message
from jbm_kafka.jms.modes import AcknowledgeMode
from jbm_kafka.jms.session import Session
from jbm_kafka.ports.deliveries import Delivery

PASSED_MAX = 100_000
"""So many others are kept at most; each is about 1 KiB."""
LOOK_S = 0.5
"""How often it looks whether a partition is asked for by others. With the second that a receive may be late it is less
than a rebalance waits for what is in hand; after that what is kept of it would be taken, and count as an attempt."""


class OneUnit:
    """A consumer of one unit. The session is an INDIVIDUAL one: that hands over one message of a unit at a time."""

    def __init__(self, session: Session, queue: Queue, unit: str) -> None:
        assert session.acknowledge_mode is AcknowledgeMode.INDIVIDUAL, session.acknowledge_mode
        self._session = session
        self._consumer = session.create_consumer(queue)
        self._unit = unit.encode()
        self._passed: list[Delivery] = []
        self._look_at = 0.0

    def receive(self, timeout_s: float) -> Message | None:
        """The unit's next message; None when for so many seconds none of any unit came.

        Raises:
            ResourceAllocationError: too many others come before it.
        """
        with self._session.core.in_use():
            deadline = time.monotonic() + timeout_s
            while True:
                left_s = max(deadline - time.monotonic(), 0.0)
                delivery = self._consumer.next_delivery(min(left_s, LOOK_S))
                if delivery is None or time.monotonic() >= self._look_at:
                    self._let_go()
                if delivery is None and left_s <= LOOK_S:
                    return None
                if delivery is not None and delivery.reference.unit == self._unit:
                    return self._consumer.inbox.present(delivery)
                if delivery is not None:
                    self._pass(delivery)
                    deadline = time.monotonic() + timeout_s

    def close(self) -> None:
        """Give the others back; before the session closes."""
        passed, self._passed = self._passed, []
        self._give_back(passed)

    def _pass(self, delivery: Delivery) -> None:
        self._passed.append(delivery)
        if len(self._passed) > PASSED_MAX:
            raise ResourceAllocationError(
                f"{self._consumer.destination}: {PASSED_MAX} messages of other units, or of none, come before one of "
                f"unit {self._unit.decode()!r}; receive those first"
            )

    def _let_go(self) -> None:
        """Of a partition that others are about to get nothing is kept."""
        self._look_at = time.monotonic() + LOOK_S
        going = [delivery for delivery in self._passed if delivery.lease.channel.is_closing]
        if going:
            self._passed = [delivery for delivery in self._passed if not delivery.lease.channel.is_closing]
            self._give_back(going)

    def _give_back(self, rows: Sequence[Delivery]) -> None:
        present = [
            (delivery, GivenBack(delivery.offset, counted=False)) for delivery in rows if not delivery.lease.is_revoked
        ]
        if present:
            self._consumer.link.give_back(present)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
