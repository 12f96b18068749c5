"""One connection's sends outside of transactions."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from jbm_kafka.ports import KafkaClientError, Outgoing, RecordSender, SendReport
from jbm_kafka.ports.shielded_call import shielded

GATHER_MS = 4
"""For sends that nobody waits for. Each alone would be a request of its own, and at 5,000 a second the broker is busy
with those: p99 of send to receive was 22 to 51 ms instead of 11 to 18. More would be more than p50 may be."""


class PlainSends:
    """Two senders: one for sends whose callers wait, one for all others. Each is made when it is needed. Any thread.

    A sender reports in the order sent, so behind 20,000 sends with callbacks of one session another session's `send`
    waited half a second, whatever it sent (decision 16).
    """

    def __init__(self, make: Callable[[int], RecordSender]) -> None:
        """`make` gets for how long, in ms, records may wait for others to go with."""
        self._make = make
        self._senders: dict[bool, RecordSender] = {}
        """The senders: True has the one whose sends are waited for."""
        self._is_closed = False
        self._lock = threading.Lock()

    def prepare(self) -> None:
        """Have a sender for sends that are waited for. A new client needs a while to get its producer id."""
        if not self._senders:
            shielded(lambda: self._ensure(True))

    def send(self, record: Outgoing, report: SendReport | None, *, is_waited_for: bool) -> None:
        """Send by one of the two.

        Raises:
            KafkaClientError: nothing was sent.
        """
        (self._senders.get(is_waited_for) or self._begin(is_waited_for, record)).send(record, report)

    def try_send(self, record: Outgoing, report: SendReport | None, *, is_waited_for: bool) -> bool:
        """As `send`, but never waits: False when there is no room now, and nothing was sent."""
        return (self._senders.get(is_waited_for) or self._begin(is_waited_for, record)).try_send(record, report)

    def flush(self, timeout_s: float) -> bool:
        """True when every send was reported."""
        deadline = time.monotonic() + timeout_s
        return all(sender.flush(max(0.0, deadline - time.monotonic())) for sender in self._all())

    def close(self, timeout_s: float) -> None:
        """Flush, and send no more."""
        with self._lock:
            self._is_closed = True
        deadline = time.monotonic() + timeout_s
        for sender in self._all():
            sender.close(max(0.0, deadline - time.monotonic()))

    def _begin(self, is_waited_for: bool, record: Outgoing) -> RecordSender:
        found = shielded(lambda: self._ensure(is_waited_for))
        if found is None:
            raise KafkaClientError(f"send to {record.topic}: the connection is closed")
        return found

    def _ensure(self, is_waited_for: bool) -> RecordSender | None:
        """Return the sender; None: it was closed. Shielded, for it starts threads, and what joins a producer leaves."""
        with self._lock:
            if self._is_closed:
                return None
            found = self._senders.get(is_waited_for)
            if found is None:
                found = self._senders[is_waited_for] = self._make(0 if is_waited_for else GATHER_MS)
            return found

    def _all(self) -> list[RecordSender]:
        with self._lock:
            return list(self._senders.values())
