"""Why the last attempt of what is on hold failed, for the operator who decides what becomes of it. Owner thread only.

It is in memory alone: text of an application does not belong into every changelog record (decision 23). So it is gone
with the process that counted the attempt, and when the partition moves.
"""

from __future__ import annotations

FAILURES_MAX = 10_000
"""So many of a channel at most, of 200 characters each; of more the latest."""


class HoldFailures:
    """Of one channel."""

    __slots__ = ("_by_offset",)

    def __init__(self) -> None:
        self._by_offset: dict[int, str] = {}

    def note(self, offset: int, failure: str | None) -> None:
        """The message has gone on hold; None: nobody said why."""
        self.take(offset)
        if failure is None:
            return
        if len(self._by_offset) >= FAILURES_MAX:
            del self._by_offset[next(iter(self._by_offset))]
        self._by_offset[offset] = failure

    def last_of(self, offset: int) -> str | None:
        """None: it is not known."""
        return self._by_offset.get(offset)

    def take(self, offset: int) -> str | None:
        """As `last_of`; it is forgotten, for the message is on hold no more."""
        return self._by_offset.pop(offset, None)
