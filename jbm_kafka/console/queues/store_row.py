"""The store beside a sender that the configuration names, read from its folder, whoever has it open."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel

from jbm_kafka.console.frame.console import Console
from jbm_kafka.core.jms_errors import JMSError


class StoreRow(BaseModel):
    """A store, as `jbm-kafka store show` counts it."""

    folder: str
    fault: str = ""
    """Why nothing else is known of it, as where no sender has made it yet; empty: it was read."""
    waiting: int | None = None
    """Entries that wait; a transaction is one."""
    oldest_at_ms: int | None = None
    dead_letters: int | None = None
    lost: int | None = None
    """Sends that the disk did not have any more after the machine had stopped."""
    process: str = ""
    """The process that has it open and forwards it; empty: none."""


def look_at_store(console: Console) -> StoreRow | None:
    """Returns the store of the configuration; None: it names none."""
    folder = console.settings.store
    return None if folder is None else _read(folder)


def _read(folder: Path) -> StoreRow:
    from jbm_kafka.store_and_forward.send_store import look_into  # RocksDB, for those who store

    try:
        found = look_into(folder, 0)
    except JMSError as error:
        return StoreRow(folder=str(folder), fault=str(error))
    counts = found.counts
    return StoreRow(
        folder=str(folder),
        waiting=counts.waiting,
        oldest_at_ms=counts.oldest_at_ms or None,
        dead_letters=counts.set_aside,
        lost=counts.lost,
        process=found.holder,
    )
