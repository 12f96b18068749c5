"""Threads that receive from one consumer and handle what they got: any number of messages at once, of a unit one."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from jbm_kafka.core.destination import Destination
from jbm_kafka.core.jms_errors import InvalidTypeError, JMSError, may_pass
from jbm_kafka.jms.base.error_lines import tell_error

log = logging.getLogger(__name__)

RECEIVE_AGAIN_S = 1.0
"""After a receive that failed, as of a queue that was deleted."""


Work = TypeVar("Work")
"""A message, or several."""
Got = TypeVar("Got", covariant=True)
AtAnEnd = Callable[[Exception], object]
"""Told why nothing is handled any more, on the thread that found it."""


def _nobody(error: Exception) -> None:
    """`HandlerThreads.run` raises it."""


def _nothing() -> None:
    """A thread has nothing of its own to clean up."""


class Receiving(Protocol[Got]):
    """A consumer."""

    @property
    def destination(self) -> Destination:
        """The destination that is handled."""

    @property
    def is_closed(self) -> bool:
        """It gets nothing more."""

    def receive(self) -> Got | None:
        """The next message; None when it was closed meanwhile."""

    def close(self) -> None:
        """Receive no more."""


class HandlerThreads(Generic[Work]):
    """The threads of one consumer. Whichever is free receives, and handles what it got itself.

    They end when the consumer is closed, each behind the handler that it runs; or by an error that trying again cannot
    mend, which `failed` hears.
    """

    def __init__(
        self,
        consumer: Receiving[Work],
        handle: Callable[[Work], None],
        count: int,
        name: str,
        failed: AtAnEnd = _nobody,
        at_end: Callable[[], object] = _nothing,
    ) -> None:
        """`handle` raises InvalidTypeError where a call of the handler runs nothing. Each thread calls `at_end`."""
        self._consumer = consumer
        self._handle = handle
        self._failed = failed
        self._at_end = at_end
        self._failure: JMSError | None = None
        self._receiving = threading.Lock()
        self._closed = threading.Event()
        self._threads = [
            threading.Thread(target=self._serve, name=f"jbm-handler-{name}-{number}", daemon=True)
            for number in range(count)
        ]

    def start(self) -> None:
        """Begin to receive."""
        for thread in self._threads:
            thread.start()

    def run(self) -> None:
        """Be one of the threads until the consumer is closed; what ends the process ends the others, too.

        Raises:
            JMSError: what trying again cannot mend.
        """
        self.start()
        try:
            while (message := self._next()) is not None:
                self._handle(message)
        except BaseException:
            self.close()
            raise
        for thread in self._threads:
            thread.join()
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """Receive no more."""
        self._closed.set()
        self._consumer.close()

    def fail(self, error: JMSError) -> None:
        """Receive no more, for this reason."""
        is_first, self._failure = self._failure is None, self._failure or error
        self.close()
        if is_first:
            self._failed(error)

    def join(self, deadline_s: float) -> int:
        """Wait for the handlers that run, until then by the monotonic clock; how many still do."""
        for thread in self._threads:
            thread.join(max(0.0, deadline_s - time.monotonic()))
        return sum(thread.is_alive() for thread in self._threads)

    def _serve(self) -> None:
        try:
            self._handle_all()
        finally:
            self._at_end()

    def _handle_all(self) -> None:
        while (message := self._next()) is not None:
            try:
                self._handle(message)
            except InvalidTypeError as error:
                self.fail(error)
            except Exception as error:
                tell_error(log, logging.ERROR, "a handler thread goes on", error=error)
            except BaseException:
                continue  # sys.exit() of a handler: a failed attempt, as of a listener

    def _next(self) -> Work | None:
        """None: the consumer is closed."""
        while True:
            with self._receiving:
                if self._consumer.is_closed or self._closed.is_set():
                    return None
                try:
                    return self._consumer.receive()
                except JMSError as error:
                    if self._consumer.is_closed:
                        return None
                    if not may_pass(error):
                        failure = error
                        break
                    log.warning("%s: receiving failed, and is tried again: %s", self._consumer.destination, error)
            self._closed.wait(RECEIVE_AGAIN_S)
        self.fail(failure)
        return None
