"""The ground that a sidecar runs on, and for how long: Kafka, a clock, threads, chance, its stores, and its lifetime.

A message in flight is about ten container objects, thousands are in flight, and none of them is garbage in a cycle.
With Python's default threshold of the garbage collector they outlive the young generations, and full collections look
at the whole process every few thousand messages: a sixth of all processor time (decision 9).
"""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass

from jbm_kafka.core.jms_errors import IllegalStateError
from jbm_kafka.ports import HeldStore, Journal, Kafka, KafkaAdmin
from jbm_kafka.ports.installation import SidecarConfig
from jbm_kafka.ports.steps import Workers
from jbm_kafka.sidecar.channel.slewed_clock import SlewedClock

PYTHON_DEFAULT = (700, 10, 10)
YOUNG_OBJECTS = 20_000
"""Objects made before the youngest generation is looked at: what 2,000 messages need."""


@dataclass(frozen=True, slots=True)
class Runtime:
    """The same for every part of one sidecar."""

    kafka: Kafka
    admin: KafkaAdmin
    """One client for all questions to the cluster."""
    clock: SlewedClock
    config: SidecarConfig
    workers: Workers
    chance: Callable[[], float]
    """From 0 to 1."""


@dataclass(frozen=True, slots=True)
class Stores:
    """The journal of changelogs and the held messages of this machine, and the folder they are in."""

    journal: Journal
    held: HeldStore
    transactional_id: str
    """The id of the sidecar's first producer; the ids of the others are made of it."""
    let_go: Callable[[], None]
    """Frees the folder, when both are closed."""
    has_past: bool = True
    """An earlier process may have used the folder, and its transactional id."""

    def close(self) -> None:
        """Close both stores and let the folder go."""
        self.held.close()
        self.journal.close()
        self.let_go()


class Lifetime:
    """When a sidecar may be used: in the process that made it, from its first use until it is closed. Any thread."""

    def __init__(self, begin: Callable[[], None]) -> None:
        """`begin` is called once, by the first use; when it raises, the next use tries again."""
        self._begin = begin
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._has_begun = False
        self._has_ended = False

    def check(self) -> None:
        """Return when it may be used.

        Raises:
            IllegalStateError: this is another process, or it was closed.
        """
        if os.getpid() != self._process:
            raise IllegalStateError(
                f"this connection belongs to process {self._process}: fork before the first connection",
                process=self._process,
            )
        if self._has_ended:
            raise IllegalStateError("the sidecar is closed")

    def begin(self) -> None:
        """It has begun when this returns; calls that come meanwhile wait for that."""
        with self._lock:
            if not self._has_begun:
                self._begin()
                self._has_begun = True

    def end(self) -> bool:
        """Be used no more; False: it had ended before."""
        with self._lock:
            has_ended, self._has_ended = self._has_ended, True
        return not has_ended


def give_messages_time_to_die() -> None:
    """Raise the first threshold, unless the application has set thresholds of its own or switched collection off."""
    if gc.isenabled() and gc.get_threshold() == PYTHON_DEFAULT:
        gc.set_threshold(YOUNG_OBJECTS, *PYTHON_DEFAULT[1:])
