"""A persistence manager in memory, reliable for the life of the process."""

from __future__ import annotations

import threading
from collections.abc import Mapping


class MemoryPersistenceManager:
    """Records that outlive the objects that wrote them, but not the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owners: dict[str, dict[str, bytes]] = {}

    def __repr__(self) -> str:
        with self._lock:
            return f"<MemoryPersistenceManager {sum(map(len, self._owners.values()))} records>"

    @property
    def is_reliable(self) -> bool:
        """True: within the process it is what a disk is beyond."""
        return True

    def write(self, owner_id: str, records: Mapping[str, bytes | None], /) -> None:
        """Keep the records of one owner, all or none; None for a value removes the record."""
        self.write_all({owner_id: records})

    def write_all(self, records: Mapping[str, Mapping[str, bytes | None]], /) -> None:
        """Keep the records of several owners, all or none."""
        with self._lock:
            for owner_id, rows in records.items():
                owned = self._owners.setdefault(owner_id, {})
                for key, value in rows.items():
                    if value is None:
                        owned.pop(key, None)
                    else:
                        owned[key] = value

    def read(self, owner_id: str, /) -> Mapping[str, bytes]:
        """All records of an owner, by key."""
        with self._lock:
            return dict(self._owners.get(owner_id, {}))

    def read_one(self, owner_id: str, key: str, /) -> bytes | None:
        """One record of an owner; None when it is not there."""
        with self._lock:
            return self._owners.get(owner_id, {}).get(key)
