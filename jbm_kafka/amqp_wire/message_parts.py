"""A message of a link, which may come in several transfers."""

from __future__ import annotations

from typing import Any


class MessageParts:
    """The parts of the message that a link is receiving; on the loop."""

    def __init__(self, link: Any) -> None:
        self._link = link
        self._parts: list[bytes] = []

    def whole(self, delivery: Any) -> bytes | None:
        """Take what has come, and return the message when that is all of it; one that was aborted is settled."""
        if delivery.aborted:
            self._parts.clear()
            delivery.settle()
            return None
        while delivery.pending and (part := self._link.recv(delivery.pending)):
            self._parts.append(part)
        if delivery.partial:
            return None
        data = b"".join(self._parts)
        self._parts.clear()
        self._link.advance()
        return data
