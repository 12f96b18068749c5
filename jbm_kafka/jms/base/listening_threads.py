"""The threads that call the listeners of one connection: closing waits for them, and they work on meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import get_ident


class ListeningThreads:
    """Any thread; each notes itself."""

    def __init__(self) -> None:
        self._threads: set[int] = set()

    @property
    def is_current(self) -> bool:
        """The caller is one of them."""
        return get_ident() in self._threads

    @contextmanager
    def noted(self) -> Iterator[None]:
        """The calling thread is one inside the block."""
        self._threads.add(get_ident())
        try:
            yield
        finally:
            self._threads.discard(get_ident())
