"""A base for things that a `with` block closes at its end, however it ends."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self


class ClosedAtEnd(ABC):
    """Gives itself to the block."""

    @abstractmethod
    def close(self) -> None:
        """Let go of what it has."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
