"""How many messages one receiver is assigned at a time.

Few for a slow application, so that others find work; many for a fast one, so that it never waits. It starts with one
and doubles while a batch is gone within a fraction of the target, up to the prefetch.
"""

from __future__ import annotations

from typing import Final

TARGET_MS: Final = 40
"""How much work a receiver should have before it."""


class Credit:
    """The size of the next assignment of one receiver. Times are monotonic milliseconds."""

    __slots__ = ("_asked_at_ms", "_prefetch", "size")

    def __init__(self, prefetch: int) -> None:
        assert prefetch >= 1, prefetch
        self._prefetch = prefetch
        self._asked_at_ms: int | None = None
        self.size = 1
        """Messages to ask for next."""

    def next_size(self, now_ms: int) -> int:
        """The size to ask for now that the last assignment is about to run out."""
        if self._asked_at_ms is not None:
            took_ms = now_ms - self._asked_at_ms
            if took_ms < TARGET_MS:
                self.size = min(self.size * 2, self._prefetch)
            elif took_ms > 2 * TARGET_MS:
                self.size = max(self.size // 2, 1)
        self._asked_at_ms = now_ms
        return self.size
