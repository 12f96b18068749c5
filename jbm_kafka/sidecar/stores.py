"""What a sidecar keeps on this machine: the journal of its changelogs and the held messages, in one state folder."""

from __future__ import annotations

from pathlib import Path

from jbm_kafka.ports import Clock, HeldStore, Journal
from jbm_kafka.store.folder import StateFolder


class Stores:
    """An open state folder with both stores in it."""

    def __init__(self, folder: StateFolder, *, clock: Clock) -> None:
        self._folder = folder
        self.journal: Journal = folder.journal(clock=clock)
        self.held: HeldStore = folder.held_store()
        self.transactional_id = folder.transactional_id(0)

    @classmethod
    def open(cls, path: Path | None, *, cluster_id: str, namespace: str, clock: Clock) -> Stores:
        """Open or make the folder; None: a temporary one.

        Raises:
            IllegalStateError, ResourceAllocationError: it cannot be used; the text says why and what to do.
        """
        return cls(StateFolder.open(path, cluster_id=cluster_id, namespace=namespace), clock=clock)

    def close(self) -> None:
        """Close both stores and let the folder go."""
        self.held.close()
        self.journal.close()
        self._folder.close()
