"""What a receiver asks for: decision 102.

What is asked for and not there is what its session wants less what it was granted: a grant takes its number out of the
credit in the same step in which it is in the buffer, so that nobody asks for it twice. Unread, in hand and asked for
are never more than the prefetch (`room`), and only one of a session's links to a queue has unread messages or asks.
"""

from __future__ import annotations


def room(prefetch: int, *, unread: int, in_hand: int) -> int:
    """Return how many more may be asked for; what waits for earlier ones of its unit to go back has its place, too."""
    return max(prefetch - unread - in_hand, 0)


class Demand:
    """Of one link. The session's lock guards what is asked; the group worker looks at the rest without it."""

    def __init__(self) -> None:
        self.credit = 0
        """How many more the session would take now; what is granted counts until it is in the buffer or announced."""
        self.is_asking_alone = False
        """The group worker was asked to serve it after its siblings' unread messages went back, and has not yet."""
        self.is_waiting = False
        """A receive waits, or a listener is set: the link counts as started however long nothing comes."""
        self.receives = 0
        """How often the application asked for a message; the group worker looks whether it changes."""
        self.has_listener = False
        """A listener is set: its session's thread asks, again and again."""
        self.is_in_listener = False
        """A message was taken for the listener, which has not returned: it waits for nothing until then."""
        self._receives_seen, self._active_at_ms = -1, 0
        self._asked_at_ms = 0

    @property
    def is_called(self) -> bool:
        """A receive waits, or one began since `is_recent` was asked."""
        return self.is_waiting or self.receives != self._receives_seen

    def is_recent(self, now_ms: int, idle_ms: int) -> bool:
        """A receive or listener waits or was there within `idle_ms` (monotonic times)."""
        self._look(now_ms)
        if self.is_waiting:
            self._active_at_ms = now_ms
        return now_ms - self._active_at_ms <= idle_ms

    def asked_ms_ago(self, now_ms: int) -> int:
        """How long ago the application asked last, or since the link is there: as exact as it was looked at."""
        self._look(now_ms)
        return now_ms - self._asked_at_ms

    def _look(self, now_ms: int) -> None:
        if self.receives != self._receives_seen:
            self._receives_seen = self.receives
            self._active_at_ms = self._asked_at_ms = now_ms

    def granted(self, count: int) -> None:
        """So many of what was asked for are in the buffer, or announced."""
        self.credit = max(self.credit - count, 0)

    def end_wait(self, *, withdraw: bool) -> None:
        """A receive that waited ends; idleness counts from now. What it got too late stays for the next call."""
        self.is_waiting = False
        self.receives += 1
        if withdraw:
            self.credit = 0
