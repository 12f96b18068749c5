"""The temporary destinations of one connection, which alone receives from them and deletes them (TEMP-1)."""

from __future__ import annotations

import itertools
import os
import threading
from collections import Counter
from functools import partial

from jbm_kafka.core.destination import Destination, TemporaryQueue, TemporaryTopic, deleted_by
from jbm_kafka.core.jms_errors import IllegalStateError, InvalidDestinationError
from jbm_kafka.ports.provider import Provider, Temporary


class OwnTemporaries:
    """Any thread."""

    def __init__(self, provider: Provider, connection_id: str) -> None:
        self._provider = provider
        self._connection_id = connection_id
        self._numbers = itertools.count(1)
        self._receivers: Counter[Destination] = Counter()
        """Consumers of each, those included of which something is unacknowledged still."""
        self._present: set[TemporaryQueue | TemporaryTopic] = set()
        self._lock = threading.Lock()
        self._process = os.getpid()

    def create(self, kind: type[Temporary]) -> Temporary:
        """Make a new one, of which this connection alone receives.

        Raises:
            JMSError: the cluster does not allow it, or does not answer.
        """
        made = self._provider.create_temporary(kind, self._connection_id, next(self._numbers))
        deleted_by(made, partial(self.delete, made))
        with self._lock:
            self._present.add(made)
        return made

    def check(self, destination: Destination) -> None:
        """Raises InvalidDestinationError: it is not this connection's, or was deleted."""
        if destination not in self._present:
            mine = f"-{self._connection_id}." in destination.name
            why = "it was deleted" if mine else "another connection made it, and only that one may receive from it"
            raise InvalidDestinationError(
                f"{destination}: {why}; make one with create_temporary_{_word(destination)}()",
                destination=destination.name,
            )

    def use(self, destination: Destination) -> None:
        """Note that a consumer begins to receive, until `left`.

        Raises:
            InvalidDestinationError: as of `check`.
        """
        with self._lock:
            self.check(destination)
            self._receivers[destination] += 1

    def left(self, destination: Destination) -> None:
        """Note that a consumer was closed, and that nothing it received is unacknowledged."""
        with self._lock:
            self._receivers[destination] -= 1

    def close(self) -> None:
        """End all of them with the connection, of which nothing receives any more."""
        with self._lock:
            present, self._present = self._present, set()
        for destination in present:
            self._provider.delete_temporary(destination)

    def delete(self, destination: TemporaryQueue | TemporaryTopic) -> None:
        """End the destination, unless it has ended.

        Raises:
            IllegalStateError: it has a consumer, or the process is another one.
        """
        if os.getpid() != self._process:
            raise IllegalStateError(f"{destination}: it belongs to the parent process, and fork made this one")
        with self._lock:
            if destination not in self._present:
                return
            if self._receivers[destination] > 0:
                raise IllegalStateError(
                    f"{destination}: it has a consumer, or messages of one that was closed are unacknowledged; close "
                    f"that, and acknowledge, recover or roll back, before delete()",
                    destination=destination.name,
                )
            self._present.remove(destination)
            del self._receivers[destination]
        self._provider.delete_temporary(destination)


def _word(destination: Destination) -> str:
    return "queue" if isinstance(destination, TemporaryQueue) else "topic"
