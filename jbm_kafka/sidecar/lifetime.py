"""When a sidecar may be used: in the process that made it, until it is closed. It begins with its first use."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from jbm_kafka.core.jms_errors import IllegalStateError


class Lifetime:
    """That of one sidecar. Any thread."""

    def __init__(self, begin: Callable[[], None]) -> None:
        """`begin` is called once, by the first use; when it raises, the next use tries again."""
        self._begin = begin
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._has_begun = False
        self._has_ended = False

    def check(self) -> None:
        """Return when it may be used.

        Raises:
            IllegalStateError: this is another process, or it was closed.
        """
        if os.getpid() != self._process:
            raise IllegalStateError(
                f"this connection belongs to process {self._process}: fork before the first connection",
                process=self._process,
            )
        if self._has_ended:
            raise IllegalStateError("the sidecar is closed")

    def begin(self) -> None:
        """It has begun when this returns; who comes meanwhile waits for that."""
        with self._lock:
            if not self._has_begun:
                self._begin()
                self._has_begun = True

    def end(self) -> bool:
        """Be used no more; False: it had ended before."""
        with self._lock:
            has_ended, self._has_ended = self._has_ended, True
        return not has_ended
