"""What a sidecar keeps on this machine: the journal of its changelogs and the held messages, in one state folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from jbm_kafka.ports import Clock, HeldStore, Journal
from jbm_kafka.store.folder import StateFolder


@dataclass(frozen=True, slots=True)
class Stores:
    """An open state folder with both stores in it."""

    journal: Journal
    held: HeldStore
    transactional_id: str
    """Of the sidecar's first producer; those of the others are made of it."""
    let_go: Callable[[], None]
    """Frees the folder, when both are closed."""
    has_past: bool = True
    """An earlier process may have used the folder, and its transactional id."""

    @classmethod
    def open(cls, path: Path | None, *, cluster_id: str, namespace: str, clock: Clock) -> Stores:
        """Open or make the folder; None: a temporary one.

        Raises:
            IllegalStateError, ResourceAllocationError: it cannot be used; the text says why and what to do.
        """
        folder = StateFolder.open(path, cluster_id=cluster_id, namespace=namespace)
        return cls(
            folder.journal(clock=clock),
            folder.held_store(),
            folder.transactional_id(0),
            folder.close,
            has_past=not folder.is_temporary,
        )

    def close(self) -> None:
        """Close both stores and let the folder go."""
        self.held.close()
        self.journal.close()
        self.let_go()
