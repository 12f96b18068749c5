"""The memory that messages take whose rest has not come: who keeps too many of them loses one, and nobody else does."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable
from typing import Generic, TypeVar

from jbm_kafka.amqp.shares import Whose

T = TypeVar("T", bound=Hashable)


class Unfinished(Generic[T]):
    """How many bytes of parts each has by each of his links."""

    def __init__(self, most: int, most_each: int) -> None:
        self.most, self.most_each = most, most_each
        self.bytes = 0
        self._links: defaultdict[Whose, dict[T, int]] = defaultdict(dict)

    def add(self, whose: Whose, link: T, size: int) -> tuple[T, str] | None:
        """So many bytes more came by a link. Returns the one to be ended for it, and the limit that was reached.

        Beyond what each may have it is this link; beyond what all may, the largest of whoever has most.
        """
        links = self._links[whose]
        links[link] = links.get(link, 0) + size
        self.bytes += size
        if sum(links.values()) > self.most_each:
            return link, f"{self.most_each} bytes of {whose}"
        if self.bytes > self.most:
            largest = max(self._links.values(), key=lambda each: sum(each.values()))
            return max(largest, key=lambda each: largest[each]), f"{self.most} bytes of all clients"
        return None

    def drop(self, whose: Whose, link: T) -> None:
        """Count the link's parts no more: its message is complete, or the link has ended."""
        links = self._links.get(whose)
        if links is not None:
            self.bytes -= links.pop(link, 0)
            if not links:
                del self._links[whose]
