"""The last hour of queues: what they held and how much came and went, as the process has seen it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from jbm_kafka.core.channel.backlog import Backlog, Backlogs
from jbm_kafka.core.channel.held_in_order import HeldKind

KEPT_MS = 60 * 60 * 1_000
RATE_MS = 60_000
"""A rate is that of so long a time."""
Key = tuple[str, str]
"""A destination, and its subscription or an empty text."""


class Moment(NamedTuple):
    """A queue or subscription when it was looked at."""

    at_ms: int
    written: int
    """Records that its topic ever had."""
    held: int
    ready: int
    delayed: int
    blocked: int
    prepared: int
    on_hold: int
    oldest_at_ms: int | None

    @property
    def gone(self) -> int:
        """Records that are settled, from the same beginning."""
        return self.written - self.held


def moment_of(backlog: Backlog, at_ms: int) -> Moment:
    """Return what of it is kept."""
    counts = backlog.counts
    return Moment(
        at_ms,
        backlog.written,
        backlog.held,
        counts.get(HeldKind.DELIVERABLE, 0),
        counts.get(HeldKind.DELAYED, 0),
        counts.get(HeldKind.BLOCKED, 0),
        counts.get(HeldKind.IN_HAND, 0),
        counts.get(HeldKind.ON_HOLD, 0),
        backlog.oldest_held_at_ms,
    )


class FlowRate(NamedTuple):
    """Messages a second."""

    at_ms: int
    """The end of the step."""
    incoming: float
    outgoing: float


class History:
    """An hour of each queue and subscription. Any thread.

    While nothing changes only the first and the last moment are kept: what is idle costs nothing.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._moments: dict[Key, deque[Moment]] = {}

    def take(self, found: Backlogs) -> None:
        """Keep what was found now, and let go what is older than an hour."""
        oldest_ms = found.looked_at_ms - KEPT_MS
        with self._lock:
            present = {(each.destination, each.subscription): each for each in found.backlogs}
            for gone in self._moments.keys() - present.keys():
                del self._moments[gone]
            for key, backlog in present.items():
                moments = self._moments.setdefault(key, deque())
                now = moment_of(backlog, found.looked_at_ms)
                if len(moments) > 1 and moments[-1][1:] == moments[-2][1:] == now[1:]:
                    moments.pop()
                moments.append(now)
                while len(moments) > 1 and moments[1].at_ms <= oldest_ms:
                    moments.popleft()

    def moments(self, key: Key) -> Sequence[Moment]:
        """Return the moments of one, the oldest first."""
        with self._lock:
            return tuple(self._moments.get(key, ()))

    def rate(self, key: Key) -> FlowRate:
        """Return the rate of the last minute; 0 where it was not looked for so long."""
        moments = self.moments(key)
        if not moments:
            return FlowRate(0, 0.0, 0.0)
        last = moments[-1]
        before = [each for each in moments if each.at_ms >= last.at_ms - RATE_MS]
        first = before[0] if len(before) > 1 else moments[-2] if len(moments) > 1 else last
        return rate_between(first, last)

    def rates(self, key: Key, steps: int) -> Sequence[FlowRate]:
        """The last hour in so many steps of the same length; a step that nobody looked in has no rate."""
        moments = self.moments(key)
        if len(moments) < 2:
            return ()
        step_ms = KEPT_MS // steps
        begin_ms = moments[-1].at_ms - KEPT_MS
        last_of: dict[int, Moment] = {}
        for each in moments:
            last_of[max(-(-(each.at_ms - begin_ms) // step_ms), 0)] = each
        known = sorted(last_of.items())
        rates = []
        for (since, before), (at, now) in pairwise(known):
            found = rate_between(before, now)
            steps_told = (since + 1, at) if at > since + 1 else (at,)  # of a gap its begin and its end
            rates += [found._replace(at_ms=begin_ms + step * step_ms) for step in steps_told]
        return rates


def rate_between(first: Moment, last: Moment) -> FlowRate:
    """Return the rate between two moments. A topic that was made anew, or offsets set back, are no traffic."""
    seconds = (last.at_ms - first.at_ms) / 1_000
    if seconds <= 0:
        return FlowRate(last.at_ms, 0.0, 0.0)
    came, went = last.written - first.written, last.gone - first.gone
    return FlowRate(last.at_ms, max(came, 0) / seconds, max(went, 0) / seconds)
