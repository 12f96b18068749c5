"""What a consumer's side is told beside messages: when it next waits, or at once on the group worker's thread."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from jbm_kafka.ports.wake_up import Sleepers


def _ignore(error: Exception) -> None:
    """What a link tells before anybody listens."""


def _nobody() -> None:
    """Who is told that a link has left, where nobody asked."""


class Notices:
    """Of one link."""

    def __init__(self, filled: Sleepers) -> None:
        self._filled = filled
        self.failure: Exception | None = None
        """Why the group worker cannot serve the link any more; raised to the receiver."""
        self.pending: deque[Exception] = deque()
        """What the receiver must know of a part that cannot be served; each is raised once, then it goes on."""
        self.is_open = False
        """Its consumer was made: where its topic is gone it waits, and is not refused."""
        self.has_heard_of_pause = False
        """It was said that nothing comes because its destination is paused; the group worker's."""
        self.on_left: Callable[[], None] = _nobody
        """Told once, when nothing of it is unacknowledged any more and its group worker serves it no longer."""
        self.on_trouble: Callable[[Exception], None] = _ignore
        """Told, on the group worker's thread, when acknowledgements could not be recorded."""
        self.on_turn: Callable[[int], None] | None = None
        """Told the monotonic time, on the group worker's thread, in each of its turns."""

    def note(self, error: Exception) -> None:
        """Tell the receiver, when it next has to wait, that something will not come; the rest does."""
        with self._filled.lock:
            self.pending.append(error)
            self._filled.notify_all()

    def fail(self, error: Exception) -> None:
        """Tell the receiver that nothing will come any more."""
        with self._filled.lock:
            self.failure = error
            self._filled.notify_all()

    def take_failure(self) -> Exception | None:
        """Why nothing comes; told once."""
        failure = self.failure
        if failure is not None:  # else it is left alone: the group worker may fail just now
            self.failure = None
        return failure

    def notify(self, error: Exception) -> None:
        """Acknowledgements could not be recorded; on the group worker's thread."""
        self.on_trouble(error)

    def left(self) -> None:
        """The link has left its group worker for good."""
        told, self.on_left = self.on_left, _nobody
        told()
