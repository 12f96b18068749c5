"""A message of a link, which may come in several transfers."""

from __future__ import annotations

from typing import Any


class MessageParts:
    """The parts of the message that a link is receiving; on the loop."""

    def __init__(self, link: Any, bytes_max: int | None = None) -> None:
        """`bytes_max`: the size of a message at most; None: the other side is trusted."""
        self._link = link
        self._bytes_max = bytes_max
        self._parts: list[bytes] = []
        self._bytes = 0

    def whole(self, delivery: Any) -> bytes | None:
        """Take what has come, and return the message when that is all of it; one that was aborted is settled.

        Of one that `is_too_large` nothing is kept, nor of what comes behind it.
        """
        if delivery.aborted:
            self._drop()
            delivery.settle()
            return None
        while delivery.pending and (part := self._link.recv(delivery.pending)):
            self._bytes += len(part)
            if self.is_too_large:
                self._parts.clear()
            else:
                self._parts.append(part)
        if delivery.partial or self.is_too_large:
            return None
        data = b"".join(self._parts)
        self._drop()
        self._link.advance()
        return data

    @property
    def is_too_large(self) -> bool:
        """The message is larger than one may be: its link is to end."""
        return self._bytes_max is not None and self._bytes > self._bytes_max

    def _drop(self) -> None:
        self._parts.clear()
        self._bytes = 0
