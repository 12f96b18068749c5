"""The open stores of this process: connections that name one folder share it, counted; the last one closes it."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from jbm_kafka.core.jms_errors import InvalidSettingError
from jbm_kafka.ports.clock import Clock
from jbm_kafka.ports.fenced_sends import ProviderOfBatches
from jbm_kafka.ports.installation import Installation
from jbm_kafka.store_and_forward.send_store import SendStore
from jbm_kafka.store_and_forward.store_forwarder import StoreForwarder
from jbm_kafka.store_and_forward.store_limits import StoreSettings

log = logging.getLogger("jbm_kafka.store_and_forward")

FORWARD_AT_CLOSE_S = 60.0
"""Closing waits so long while Kafka takes what is stored, and not at all while it does not."""
STOP_S = 4.0
"""For the batch under way. One that takes longer goes on; whoever opens the store next fences it."""


@dataclass(slots=True, eq=False)
class OpenStore:
    """A store with its forwarder, and its users counted."""

    settings: StoreSettings
    installation: Installation
    """Where it forwards to, with the settings of its first user."""
    store: SendStore
    forwarder: StoreForwarder
    users: int = 1

    def release(self) -> None:
        """Count one user less; the last one closes the store."""
        with _turn(self.settings):
            self.users -= 1
            if self.users:
                return
            del _open[self.settings.folder]
            with ExitStack() as ending:  # all of it, also when Ctrl-C ends a wait
                ending.callback(self.store.close)
                ending.callback(self.forwarder.stop, STOP_S)
                self.forwarder.wait_forwarded(FORWARD_AT_CLOSE_S)
        if waiting := self.store.counts().waiting:
            log.warning(
                "%s: %d entries wait in the store, and are forwarded by its next user, or by: jbm-kafka store forward "
                "%s (%s)",
                *(
                    self.store.path,
                    waiting,
                    self.store.path,
                    "; ".join(self.forwarder.troubles()) or "no time was left",
                ),
            )


_open: dict[str, OpenStore] = {}
_turns: dict[str, threading.RLock] = {}
"""Held while a folder's store is opened or closed, which may take long: others' do not wait for it."""
_turns_lock = threading.Lock()


def opened_store(
    settings: StoreSettings, installation: Installation, connect: Callable[[], ProviderOfBatches], clock: Clock
) -> OpenStore:
    """Returns the store of a folder, opened and forwarding unless it is already; its user releases it.

    Raises:
        InvalidSettingError: it is open in this process with other settings, or for another cluster.
        IllegalStateError, ResourceAllocationError: it cannot be opened; the text says why.
    """
    settings = replace(settings, folder=os.path.realpath(settings.folder))  # however it is written, and from wherever
    with _turn(settings):
        found = _open.get(settings.folder)
        if found is not None:
            if found.settings != settings or not _shares(found.installation, installation):
                raise InvalidSettingError(
                    f"store_and_forward={settings.folder!r} is open in this process with other settings, of its own or "
                    f"of the factory, or for another cluster, namespace or state_dir: give the same, or another folder",
                    setting="store_and_forward",
                    value=settings.folder,
                )
            found.users += 1
            return found
        store = SendStore.open(
            Path(settings.folder),
            namespace=installation.config.namespace,
            limits=settings.limits,
            fsync=settings.fsync,
            clock=clock,
        )
        forwarder = StoreForwarder(store, connect, clock)
        forwarder.start()
        opened = _open[settings.folder] = OpenStore(settings, installation, store, forwarder)
        return opened


def _shares(running: Installation, wanted: Installation) -> bool:
    """One forwards for all, with its credentials; what was asked for by name would be left in silence."""
    return (running.key, running.client_settings) == (wanted.key, wanted.client_settings) and all(
        getattr(running.config, name) == getattr(wanted.config, name) for name in wanted.given
    )


def _turn(settings: StoreSettings) -> threading.RLock:
    with _turns_lock:
        return _turns.setdefault(settings.folder, threading.RLock())


def _after_fork() -> None:
    """Forget all stores in a forked child, and let go of their locks: the parent has them."""
    global _turns_lock  # noqa: PLW0603 - another thread may have held it
    _turns_lock = threading.Lock()
    _turns.clear()
    for opened in _open.values():
        opened.store.forget_lock()
    _open.clear()


os.register_at_fork(after_in_child=_after_fork)
