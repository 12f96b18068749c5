"""The calls that are made when a plain send has ended."""

from __future__ import annotations

import threading
from collections.abc import Callable

from mypy_extensions import mypyc_attr

from jbm_kafka.core.destination import Destination
from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.jms.messages.message import Message
from jbm_kafka.jms.sends.send_order import SendOrder
from jbm_kafka.ports import KafkaClientError
from jbm_kafka.ports.wake_up import WakeUp

CompletionListener = Callable[[Message, JMSError | None], object]
"""Called with a message that was sent and the error of its send, None when Kafka has it."""
SendError = Callable[[KafkaClientError, Destination], JMSError]
"""Says to the caller of a send what it failed with."""


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


@mypyc_attr(acyclic=True)  # nothing that it holds knows it: one thing less for the garbage collector to visit
class CallbackReport:
    """The report of one send, and the callback that gets it; a closure would be six objects."""

    __slots__ = ("_destination", "_make_error", "_order", "_wake", "error", "is_reported", "listener", "message")

    def __init__(
        self,
        message: Message,
        listener: CompletionListener,
        wake: WakeUp,
        order: SendOrder,
        make_error: SendError,
        destination: Destination,
    ) -> None:
        """`wake` is set when the callback may run."""
        self.message = message
        self.listener = listener
        self.is_reported = False
        self.error: JMSError | None = None
        self._wake = wake
        self._order = order
        self._make_error = make_error
        self._destination = destination  # here, for the message may be sent on elsewhere before it is reported

    def __call__(self, trouble: KafkaClientError | None) -> None:
        self._order.confirm(trouble)
        if trouble is not None:
            self.error = self._make_error(trouble, self._destination)
        self.is_reported = True  # after its error, for now the callback may run
        if not self._wake.is_set():
            self._wake.set()
