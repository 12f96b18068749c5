"""The admin client that asks the coordinators of groups, made anew when one does not answer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from jbm_kafka.kafka.questions import Deadline
from jbm_kafka.kafka.translated_errors import UNREACHABLE, cause

_T = TypeVar("_T")

GIVEN_UP_BY_US = 3600.0
"""The `request_timeout` of what a coordinator is asked, in seconds: the maximum. The caller waits less."""


class CoordinatorClient:
    """Asked again after a try without an answer, it asks with a new client.

    librdkafka 2.16 remembers which broker coordinates a group, and does not reach it any more once that was away: each
    question about the group is over its time, for as long as the client lives, while all others are answered.

    And it ends the process ("eonce->refcnt > 0", its issue 4605) where a request was over its own time before the
    coordinator was found, as while a broker is away. So no request's own time is ever over: we stop waiting for its
    future, and it ends with the client.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        """Nothing is made before something is asked."""
        self._settings = settings
        self._lock = threading.Lock()
        self._client: AdminClient | None = None

    def ask(self, request: Callable[[AdminClient, Deadline], _T], deadline: Deadline) -> _T:
        """Return what `request` returns, which asks the client with GIVEN_UP_BY_US and waits until the given deadline.

        Raises:
            KafkaException: it was not answered.
        """
        client = self._current()
        try:
            return request(client, Deadline(deadline.next_try_s(), grace_s=0))
        except KafkaException as error:
            client.poll(0)  # what it has to say of its connections
            if cause(error).code() in UNREACHABLE:
                self._forget(client)
            raise

    def close(self) -> None:
        """Let the client go; what is asked later has a new one."""
        with self._lock:
            self._client = None

    def _current(self) -> AdminClient:
        with self._lock:
            if self._client is None:
                self._client = AdminClient(dict(self._settings))
            return self._client

    def _forget(self, client: AdminClient) -> None:
        with self._lock:
            if self._client is client:
                self._client = None
