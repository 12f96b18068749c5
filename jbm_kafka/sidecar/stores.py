"""What a sidecar keeps on this machine: the journal of its changelogs and the held messages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jbm_kafka.ports import HeldStore, Journal


@dataclass(frozen=True, slots=True)
class Stores:
    """Both stores, and who uses them."""

    journal: Journal
    held: HeldStore
    transactional_id: str
    """Of the sidecar's first producer; those of the others are made of it."""
    let_go: Callable[[], None]
    """Frees the folder, when both are closed."""
    has_past: bool = True
    """An earlier process may have used the folder, and its transactional id."""

    def close(self) -> None:
        """Close both stores and let the folder go."""
        self.held.close()
        self.journal.close()
        self.let_go()
