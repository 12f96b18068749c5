"""The topics of dead-letter and expiry addresses, looked up again after one refused a copy or was deleted."""

from __future__ import annotations

import threading
from collections.abc import Callable

from jbm_kafka.core.errors import JMSError
from jbm_kafka.ports.provider import TopicInfo
from jbm_kafka.sidecar.steps import GO_ON, Steps, Workers
from jbm_kafka.sidecar.topics import Topics


class Targets:
    """Any thread asks, none waits: Kafka is asked by a worker, and copies are tried again until it has answered."""

    def __init__(self, *, topics: Topics, ensure: Callable[[str, int], TopicInfo], workers: Workers) -> None:
        self._topics = topics
        self._ensure = ensure
        """Makes an address usable, with room for messages of so many bytes, or raises JMSError."""
        self._workers = workers
        self._lock = threading.Lock()
        self._asked: set[str] = set()
        """Addresses that a worker is asking about."""
        self._troubles: dict[str, JMSError] = {}
        """Why an address could not be used when it was looked at last."""

    def topic_of(self, address: str) -> TopicInfo:
        """Where its copies go.

        Raises:
            JMSError: that is not known now, or it cannot be written to; try again a little later.
        """
        found = self._topics.usable(address)
        if found is not None:
            return found
        with self._lock:
            is_new = address not in self._asked
            self._asked.add(address)
            trouble = self._troubles.get(address)
        if is_new:
            self._workers.start(f"jbm-target-{address}", self._look(address))
        raise trouble or JMSError(f"its Kafka topic {address!r} is looked up again", destination=address)

    def _look(self, address: str) -> Steps:
        yield GO_ON
        trouble: JMSError | None = None
        before = self._topics.known(address)
        try:
            self._ensure(address, 0 if before is None else before.max_message_bytes)
        except JMSError as error:
            trouble = error
        with self._lock:
            self._asked.discard(address)
            if trouble is None:
                self._troubles.pop(address, None)
            else:
                self._troubles[address] = trouble
