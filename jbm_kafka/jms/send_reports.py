"""What is called when a plain send has ended."""

from __future__ import annotations

import threading

from jbm_kafka.core.destination import Destination
from jbm_kafka.jms.completions import Completions, Pending
from jbm_kafka.jms.send_order import SendOrder
from jbm_kafka.ports import KafkaClientError
from jbm_kafka.ports.provider import Provider


class WaitedReport:
    """One send's report, waited for by its sender."""

    __slots__ = ("_done", "_order", "_trouble")

    def __init__(self, order: SendOrder) -> None:
        self._order = order
        # A lock is a quarter of the cost of an Event, which matters once per send.
        self._done = threading.Lock()
        self._done.acquire()
        self._trouble: KafkaClientError | None = None

    def __call__(self, trouble: KafkaClientError | None) -> None:
        self._trouble = trouble
        self._order.confirm(trouble)
        self._done.release()

    def wait(self) -> None:
        """Raises what the send failed with."""
        self._done.acquire()
        if self._trouble is not None:
            raise self._trouble


class CallbackReport:
    """The report of one send with a callback; a closure would be six objects for the garbage collector to visit."""

    __slots__ = ("_completions", "_destination", "_order", "_pending", "_provider")

    def __init__(
        self,
        completions: Completions,
        pending: Pending,
        provider: Provider,
        destination: Destination,
        order: SendOrder,
    ) -> None:
        self._completions = completions
        self._pending = pending
        self._provider = provider
        self._destination = destination  # here, for the message may be sent on elsewhere before it is reported
        self._order = order

    def __call__(self, trouble: KafkaClientError | None) -> None:
        self._order.confirm(trouble)
        error: Exception | None = None
        if trouble is not None:
            error = self._provider.send_error(trouble, self._destination)
        self._completions.report(self._pending, error)
