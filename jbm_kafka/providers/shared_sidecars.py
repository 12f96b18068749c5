"""The sidecars of this process: connections to the same installation share one, counted; the last one ends it."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Collection
from dataclasses import dataclass

from jbm_kafka.core.jms_errors import InvalidSettingError
from jbm_kafka.ports import Clock, Kafka
from jbm_kafka.ports.installation import Installation
from jbm_kafka.ports.patience import Patience
from jbm_kafka.sidecar.sidecar import Sidecar

Key = tuple[str, str, str | None]


@dataclass(slots=True)
class RunningSidecar:
    """A sidecar with its users counted."""

    installation: Installation
    """The installation of the factory that was first, where several share a sidecar."""
    kafka: Kafka
    clock: Clock
    sidecar: Sidecar
    users: int = 0


class SharedSidecars:
    """The sidecars of one kind of provider, by installation. Any thread."""

    def __init__(self, begin: Callable[[Installation], RunningSidecar]) -> None:
        """`begin` starts a sidecar, or raises JMSError."""
        self._begin = begin
        self._running: dict[Key, RunningSidecar] = {}
        self._turns: dict[Key, threading.Lock] = {}
        """Held while an installation's sidecar begins or ends, which may take long: others' do not wait for it. One for
        each installation that the process ever used."""
        self._turns_lock = threading.Lock()
        _all.add(self)

    def acquire(self, installation: Installation) -> RunningSidecar:
        """The installation's sidecar, started if nobody has it yet.

        Raises:
            JMSError: it cannot be started.
            InvalidSettingError: it runs with other settings than are asked for.
        """
        with self._turn(installation.key):
            found = self._running.get(installation.key)
            if found is None:
                found = self._running[installation.key] = self._begin(installation)
            else:
                _refuse_other_client_settings(installation, found.installation)
                _refuse_other_settings(installation, found.installation)
            found.users += 1
            return found

    def release(self, running: RunningSidecar, patience: Patience) -> None:
        """One user less; the last one closes it, and waits for Kafka so long."""
        with self._turn(running.installation.key):
            running.users -= 1
            if running.users:
                return
            del self._running[running.installation.key]
            running.sidecar.close(patience)

    def keys(self) -> frozenset[Key]:
        """Return what is running now."""
        return frozenset(self._running)

    def all(self) -> Collection[RunningSidecar]:
        """Return those that are running now."""
        return tuple(self._running.values())

    def forked(self) -> None:
        """A child must not use, nor close, what its parent runs, nor wait for its parent's threads."""
        self._running.clear()
        self._turns.clear()
        self._turns_lock = threading.Lock()  # another thread may have held it

    def _turn(self, key: Key) -> threading.Lock:
        with self._turns_lock:
            return self._turns.setdefault(key, threading.Lock())


def _refuse_other_client_settings(wanted: Installation, running: Installation) -> None:
    """Nobody gets a connection made with another's credentials. Values are not shown: some are secrets."""
    mine, theirs = wanted.client_settings, running.client_settings
    names = sorted(name for name in mine.keys() | theirs.keys() if mine.get(name) != theirs.get(name))
    if names:
        raise InvalidSettingError(
            f"kafka settings for {wanted.bootstrap} differ from those of the connection that is open already, which "
            f"this one would share: {', '.join(names)}; use another state_dir or namespace, or close that one first",
            names=names,
            bootstrap=wanted.bootstrap,
        )


def _refuse_other_settings(wanted: Installation, running: Installation) -> None:
    """Refuse settings that were asked for by name and cannot be had; they would be ignored in silence."""
    for name in sorted(wanted.given):
        mine, theirs = getattr(wanted.config, name), getattr(running.config, name)
        if mine != theirs:
            raise InvalidSettingError(
                f"{name} is {mine!r}, and a connection that is open already to {wanted.bootstrap} was made with "
                f"{theirs!r}. In one process connections to one address, with one namespace and state_dir, share "
                f"these settings: leave it out to take those, give the same, use another state_dir or namespace, or "
                f"close that connection first",
                setting=name,
                value=mine,
                running=theirs,
            )


_all: weakref.WeakSet[SharedSidecars] = weakref.WeakSet()


def _after_fork() -> None:
    for sidecars in list(_all):
        sidecars.forked()


os.register_at_fork(after_in_child=_after_fork)
