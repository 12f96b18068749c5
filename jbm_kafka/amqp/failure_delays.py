"""How long who gave a wrong password waits to hear of it: who guesses has few guesses, and nobody is locked out."""

from __future__ import annotations

from collections import OrderedDict

from jbm_kafka.amqp.shares import Whose

FIRST_S = 0.1
MOST_S = 5.0
FORGOTTEN_S = 60.0
"""After so long without another one it begins anew."""
KEPT = 10_000
"""So many users and addresses are remembered; whoever failed least lately is forgotten first."""


class FailureDelays:
    """Remembers failures by user and by address. A right password asks nothing here, and so never waits."""

    def __init__(self) -> None:
        self._failed: OrderedDict[Whose, tuple[int, float]] = OrderedDict()
        """How often, and when last."""

    def failed(self, now_s: float, *of: Whose) -> float:
        """Note a failure of each of these; so many seconds its answer waits, twice as long as the one before."""
        most = 0
        for each in of:
            count, at_s = self._failed.pop(each, (0, now_s))
            count = 1 if now_s - at_s >= FORGOTTEN_S else count + 1
            self._failed[each] = count, now_s
            most = max(most, count)
        while len(self._failed) > KEPT:
            self._failed.popitem(last=False)
        return min(FIRST_S * 2.0 ** min(most - 1, 30), MOST_S)
