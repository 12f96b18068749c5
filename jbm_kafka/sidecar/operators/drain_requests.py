"""Operators' requests that this process drains: it receives no more, and ends when its handlers have (decision 122)."""

from __future__ import annotations

import logging
import os
import platform
import threading
from collections.abc import Callable

from jbm_kafka.codec.command_records import Answer, Command
from jbm_kafka.sidecar.operators.operator_departures import Reply

log = logging.getLogger(__name__)

Drain = Callable[[], bool]
"""Begins to drain, and returns at once; False: whoever runs it has to end it."""


class DrainRequests:
    """Who drains here when it is asked for. Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._drains: dict[object, Drain] = {}

    def add(self, drain: Drain) -> Callable[[], None]:
        """Call it when somebody asks, until what is returned is called."""
        key = object()
        with self._lock:
            self._drains[key] = drain

        def end() -> None:
            with self._lock:
                self._drains.pop(key, None)

        return end

    def carry_out(self, command: Command, reply: Reply) -> None:
        """Drain if it is asked of this process; of another one's nothing is said."""
        asked = command.arguments.get("host"), command.arguments.get("id")
        if asked != (platform.node(), os.getpid()):
            return
        with self._lock:
            drains = list(self._drains.values())
        begun = [drain() for drain in drains]
        if any(begun):
            log.warning("an operator asked this process to drain: it receives no more, and ends")
            reply(Answer(command.id, command.partition, {"drains": True}))
        else:
            why = "it runs no `jbm-kafka run`, `bridge` or Worker.run() that could end: end it as it was started"
            reply(Answer(command.id, command.partition, error=why))
