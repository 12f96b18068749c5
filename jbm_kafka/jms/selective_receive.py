"""Receives what is wanted of a queue and passes over the rest: `receive --unit`, and dead letters that are sent again.

It gets everything that is in front of what it wants too, keeps that unseen, and gives it back at the end as if it had
never been handed over. Until then nobody else gets these; an application that works like that should use a selector.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from jbm_kafka.core.channel.settlement import Modified
from jbm_kafka.core.closed_at_end import ClosedAtEnd
from jbm_kafka.core.destination import Queue
from jbm_kafka.core.jms_errors import (
    JMSError,
    ResourceAllocationError,
    TransactionInDoubtError,
    TransactionRolledBackError,
)
from jbm_kafka.jms.messages.message import Message
from jbm_kafka.jms.session import Session
from jbm_kafka.ports.completion import Completion
from jbm_kafka.ports.deliveries import Delivery, PartitionLease
from jbm_kafka.ports.kafka import Outgoing
from jbm_kafka.ports.unit_of_work import Received, UnitOfWork

PASSED_MAX = 100_000
"""So many others are kept at most; each is about 1 KiB."""
LOOK_S = 0.5
"""How often it looks whether a partition is asked for by others. With the second that a receive may be late it is less
than a rebalance waits for what is in hand; after that what is kept of it would be taken, and count as an attempt."""
DURABLE_TIMEOUT_S = 60.0
"""How long a transaction is waited for."""


class SelectiveReceive(ClosedAtEnd):
    """A consumer of what is wanted. Whoever calls is in a call of the session, but for `close`."""

    def __init__(self, session: Session, queue: Queue, wants: Callable[[Delivery], bool], *, wanted: str) -> None:
        """`wanted` names it, for people."""
        self._core = session._core
        self._queue = queue
        self._connection = session._core.connection
        self._consumer = session.create_consumer(queue)
        self._wants = wants
        self._wanted = wanted
        self._passed: dict[Delivery, None] = {}
        self._taken: dict[Delivery, None] = {}
        """Wanted, and neither settled nor presented yet."""
        self._look_at = 0.0

    def in_use(self) -> AbstractContextManager[object]:
        """Whatever is called within is a call of the session: no other thread may be in one."""
        return self._core.in_use()

    def partitions(self, timeout_s: float) -> frozenset[int]:
        """Return those of the queue that this process has."""
        return frozenset(self._connection.provider.end_positions(self._queue, timeout_s))

    def next_wanted(self, timeout_s: float) -> Delivery | None:
        """Return the next that is wanted; None when for so many seconds nothing came, wanted or not.

        Raises:
            ResourceAllocationError: too many others come before it.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            left_s = max(deadline - time.monotonic(), 0.0)
            delivery = self._consumer._next_delivery(min(left_s, LOOK_S))
            if delivery is None or time.monotonic() >= self._look_at:
                self._let_go()
            if delivery is None and left_s <= LOOK_S:
                return None
            if delivery is not None and self._wants(delivery):
                self._taken[delivery] = None
                return delivery
            if delivery is not None:
                self.pass_over(delivery)
                deadline = time.monotonic() + timeout_s

    def pass_over(self, delivery: Delivery) -> None:
        """Keep it until the end, and give it back then."""
        self._taken.pop(delivery, None)
        self._passed[delivery] = None
        if len(self._passed) > PASSED_MAX:
            raise ResourceAllocationError(
                f"{self._consumer.destination}: {PASSED_MAX} other messages come before {self._wanted}; "
                f"receive those first"
            )

    def rest(self, for_s: float, *, is_over: Callable[[], bool]) -> None:
        """Take nothing for so long, or until it is over."""
        deadline = time.monotonic() + for_s
        while (left_s := deadline - time.monotonic()) > 0 and not is_over():
            time.sleep(min(left_s, LOOK_S))
            self._let_go()

    def present(self, delivery: Delivery) -> Message:
        """Hand one to the application: the session's acknowledge mode says what ends it."""
        presented = self._consumer._inbox.present(delivery)  # one that cannot be is kept, and goes back at the end
        self._taken.pop(delivery, None)
        return presented

    def replace(self, about: str, taken: Sequence[Delivery], sends: Sequence[Outgoing]) -> None:
        """Settle what was taken and send these, in one transaction: both are done, or neither.

        Raises:
            TransactionRolledBackError: neither was; what was taken is on its way back, uncounted.
            TransactionInDoubtError: nobody knows.
        """
        work = UnitOfWork(about, sends, self._received(taken), Completion())
        try:
            self._connection.provider.submit(work)
        except JMSError as error:
            self._give_back(self._taken, taken)
            raise TransactionRolledBackError(f"{about}: rolled back: {error}") from None
        try:
            self._connection.wait_for(work.done, DURABLE_TIMEOUT_S, about=about)
        except TransactionRolledBackError:
            self._give_back(self._taken, taken)
            raise
        except JMSError as error:
            raise TransactionInDoubtError(str(error)) from None
        for delivery in taken:
            del self._taken[delivery]

    def close(self) -> None:
        """Give back what is not settled; before the session closes. What a commit holds that is under way stays."""
        self._give_back(self._taken, list(self._taken))
        self._give_back(self._passed, list(self._passed))

    def _received(self, taken: Sequence[Delivery]) -> list[Received]:
        by_lease: dict[PartitionLease, list[int]] = defaultdict(list)
        for delivery in taken:
            by_lease[delivery.lease].append(delivery.offset)
        return [Received(self._consumer._link, lease, offsets) for lease, offsets in by_lease.items()]

    def _let_go(self) -> None:
        """Keep nothing of a partition that others are about to get."""
        self._look_at = time.monotonic() + LOOK_S
        going = [delivery for delivery in self._passed if delivery.lease.channel.is_closing]
        self._give_back(self._passed, going)

    def _give_back(self, held: dict[Delivery, None], deliveries: Sequence[Delivery]) -> None:
        """Return these as if they had never been handed over."""
        for delivery in deliveries:
            del held[delivery]
        present = [
            (delivery, Modified(delivery.offset, counted=False))
            for delivery in deliveries
            if not delivery.lease.is_revoked
        ]
        if present:
            self._consumer._link.give_back(present)
