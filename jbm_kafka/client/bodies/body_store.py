"""The calls of a place for large bodies: four, which an application may implement over anything it has."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol, runtime_checkable


class StoredBody(NamedTuple):
    """One body in a store."""

    name: str
    size_bytes: int


@runtime_checkable
class BodyStore(Protocol):
    """Keeps bodies by name. Any thread; what a call raises is told as a LargeBodyError with its text.

    Names have letters, digits, `-` and one `/`. A name is written once, and never with another body.
    """

    def put(self, name: str, body: bytes) -> None:
        """Keep the body; it is durable when this returns, and nobody ever reads a part of it."""

    def get(self, name: str) -> bytes | None:
        """Return the body, or None if there is none of this name."""

    def list(self) -> Iterable[StoredBody]:
        """Return all that is kept."""

    def remove(self, name: str) -> None:
        """Keep it no more; one that is gone already is no error."""
