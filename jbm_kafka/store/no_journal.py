"""A journal that keeps nothing, for those that only read changelogs."""

from __future__ import annotations

from collections.abc import Mapping


class NoJournal:
    """Implements `ports.storage.Journal`: reading a changelog needs no local state and must leave none."""

    trouble = ""

    def load(self, channel: str) -> tuple[int, Mapping[bytes, bytes]]:
        return 0, {}

    def write(self, batches: Mapping[str, tuple[int, Mapping[bytes, bytes | None]]]) -> None:
        return None

    def entries(self, channel: str) -> Mapping[bytes, bytes]:
        return {}

    def discard(self, channel: str) -> None:
        return None

    def close(self) -> None:
        return None
