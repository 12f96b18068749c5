"""One connection's sends outside of transactions."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from jbm_kafka.ports import KafkaClientError, Outgoing, Sender, SendReport


class PlainSends:
    """Two senders: one for sends whose callers wait, one for all others. Each is made when it is needed. Any thread.

    A sender reports in the order sent, so behind 20,000 sends with callbacks of one session another session's `send`
    waited half a second, whatever it sent (decision 16).
    """

    def __init__(self, make: Callable[[], Sender]) -> None:
        self._make = make
        self._senders: dict[bool, Sender] = {}
        """By whether their sends are waited for."""
        self._spare: Sender | None = None
        """Made for the first send, of either kind."""
        self._is_closed = False
        self._lock = threading.Lock()

    def prepare(self) -> None:
        """Have a sender. A new client of Kafka's needs a while to be given its producer id."""
        with self._lock:
            if not self._senders and self._spare is None and not self._is_closed:
                self._spare = self._make()

    def send(self, record: Outgoing, report: SendReport | None, *, is_waited_for: bool) -> None:
        """Send by one of the two.

        Raises:
            KafkaClientError: nothing was sent.
        """
        (self._senders.get(is_waited_for) or self._begin(is_waited_for, record)).send(record, report)

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

    def _begin(self, is_waited_for: bool, record: Outgoing) -> Sender:
        with self._lock:
            if self._is_closed:
                raise KafkaClientError(f"send to {record.topic}: the connection is closed")
            found = self._senders.get(is_waited_for)
            if found is None:
                found, self._spare = self._spare or self._make(), None
                self._senders[is_waited_for] = found
            return found

    def _all(self) -> list[Sender]:
        with self._lock:
            return [*self._senders.values(), *([self._spare] if self._spare is not None else [])]
