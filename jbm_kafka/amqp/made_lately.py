"""How many topics clients make: in an hour so many of each user, or of one address of anonymous clients."""

from __future__ import annotations

from collections import deque

from jbm_kafka.amqp.shares import Whose

HOUR_S = 3_600.0


class MadeLately:
    """Remembers when each made his latest."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._made: dict[Whose, deque[float]] = {}

    def take(self, now_s: float, whose: Whose) -> bool:
        """One more is about to be made, unless it is one too many."""
        for each, times in list(self._made.items()):
            while times and now_s - times[0] >= HOUR_S:
                times.popleft()
            if not times:
                del self._made[each]
        times = self._made.setdefault(whose, deque())
        if len(times) >= self.most:
            return False
        times.append(now_s)
        return True
