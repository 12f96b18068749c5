"""What a session's application has in hand: received and not settled, in the order received."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Hand(Generic[T]):
    """Items by identity, in order. Not thread-safe: the session guards it."""

    __slots__ = ("_items",)

    def __init__(self) -> None:
        self._items: dict[T, None] = {}

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, item: T) -> bool:
        return item in self._items

    def add(self, item: T) -> None:
        """The application received it."""
        self._items[item] = None

    def take(self, item: T) -> bool:
        """It is settled; False when it was not in hand."""
        return self._items.pop(item, 0) is None

    def take_through(self, last: T) -> list[T]:
        """Everything received up to and including `last` (ACK-2); nothing when `last` is not in hand."""
        if last not in self._items:
            return []
        taken: list[T] = []
        for item in self._items:
            taken.append(item)
            if item == last:
                break
        for item in taken:
            del self._items[item]
        return taken

    def take_all(self) -> list[T]:
        """Everything, in the order received."""
        taken = list(self._items)
        self._items.clear()
        return taken

    def take_from(self, first: T, belongs: Callable[[T], bool]) -> list[T]:
        """`first` and every later item that `belongs` with it, in order; nothing when `first` is not in hand."""
        if first not in self._items:
            return []
        items = list(self._items)
        taken = [item for item in items[items.index(first) :] if item == first or belongs(item)]
        for item in taken:
            del self._items[item]
        return taken

    def take_where(self, belongs: Callable[[T], bool]) -> list[T]:
        """Every item that `belongs`."""
        taken = [item for item in self._items if belongs(item)]
        for item in taken:
            del self._items[item]
        return taken

    def count(self, belongs: Callable[[T], bool]) -> int:
        """How many belong."""
        return sum(1 for item in self._items if belongs(item))
