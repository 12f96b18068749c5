"""A program that ends with a connection open: the sends that it did not wait for are waited for now, a little.

Else they end with the process, and nobody hears of it: no callback, no line, exit code 0.
"""

from __future__ import annotations

import atexit
import logging
import time
import weakref
from collections.abc import Callable
from typing import Protocol

from jbm_kafka.core.jms_errors import JMSError

log = logging.getLogger("jbm_kafka.connections")

AT_EXIT_S = 5.0
"""The time for all connections together: more than a broker takes, and no more than a person waits for a program to
end."""


class Sending(Protocol):
    """An open connection as it is asked here."""

    @property
    def is_over(self) -> bool:
        """It was closed, or belongs to another process."""

    @property
    def connection_id(self) -> str: ...
    @property
    def unreported(self) -> int:
        """How many sends have a callback that has not run."""

    def flush(self, timeout_s: float) -> None: ...


_open: weakref.WeakSet[Sending] = weakref.WeakSet()


def watch(connection: Sending) -> None:
    """Wait for its sends when the program ends, if it is open then."""
    _open.add(connection)


def wait_for_sends(connections: list[Sending], *, now_s: Callable[[], float]) -> None:
    """Wait until all of theirs are confirmed, and tell of those that are not in time."""
    ends_at_s = now_s() + AT_EXIT_S
    for connection in connections:
        if connection.is_over:
            continue
        try:
            connection.flush(max(ends_at_s - now_s(), 0.0))
        except JMSError:
            log.warning(
                "the program ends, and connection %s has sends that Kafka has not confirmed%s: they may be lost; close "
                "it before, or flush its producers, which raise what went wrong",
                connection.connection_id,
                f", {connection.unreported} of them with on_completion" if connection.unreported else "",
            )


@atexit.register
def _wait() -> None:
    wait_for_sends(list(_open), now_s=time.monotonic)
