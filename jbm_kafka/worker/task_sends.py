"""The connection by which a program sends its tasks: the worker's own while it runs, else one that is made for it."""

from __future__ import annotations

import threading
from collections.abc import Callable

from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.sender import Sender


class TaskSends:
    """The sends of one worker's tasks. Any thread."""

    def __init__(self, running: Callable[[], Connection | None], make: Callable[[], Connection]) -> None:
        """`running`: the worker's connection, if it runs; `make`: another."""
        self._running = running
        self._make = make
        self._own: Connection | None = None
        self._sender: tuple[Connection, Sender] | None = None
        self._lock = threading.Lock()

    def sender(self) -> tuple[Connection, Sender]:
        """A sender, and its connection, which is started.

        Raises:
            JMSError: as of `create_connection`.
        """
        with self._lock:
            connection = self._running() or self._own
            if connection is None or connection.is_closed:
                connection = self._own = self._make()
                connection.start()
            if self._sender is None or self._sender[0] is not connection:
                self._sender = connection, connection.create_sender()
            return self._sender

    def close(self) -> None:
        """Let go of the connection that was made, if one was. A later send makes another."""
        with self._lock:
            own, self._own, self._sender = self._own, None, None
        if own is not None:
            own.close()
