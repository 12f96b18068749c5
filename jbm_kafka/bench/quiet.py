"""Waits until the machine does nothing else, so that no client is measured beside what the one before left behind.

A share consumer's broker goes on writing for seconds after its client has gone: measured right behind it, on two cores,
the same client took a quarter longer.
"""

from __future__ import annotations

import time
from pathlib import Path

_STAT = Path("/proc/stat")
QUIET_SHARE = 0.1
"""The share of all processors that may be in use; a broker and a desktop need less at rest."""
LOOK_S = 0.5


class QuietMachine:
    """Waits before each client. After a wait in vain the next one is half as long: a machine that others use all the
    time costs a run about twice the patience, not as much before each client.
    """

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s

    def wait(self) -> float:
        """As `wait_until_quiet`."""
        share = wait_until_quiet(self._patience_s)
        if share > QUIET_SHARE:
            self._patience_s /= 2
        return share


def wait_until_quiet(patience_s: float) -> float:
    """The share of the machine's processor time that was in use in the last half second before it returned.

    It waits so long at most, and for one look at least. Where there is no /proc/stat it returns at once, with -1.
    """
    if not _STAT.exists():
        return -1.0
    deadline = time.monotonic() + patience_s
    while True:
        before = _ticks()
        time.sleep(LOOK_S)
        busy, total = (now - then for now, then in zip(_ticks(), before, strict=True))
        share = busy / total if total else 0.0
        if share <= QUIET_SHARE or time.monotonic() > deadline:
            return share


def _ticks() -> tuple[int, int]:
    """Busy and all clock ticks of all processors since the start, from the first line of /proc/stat."""
    user, nice, system, idle, waiting, *rest = (int(word) for word in _STAT.read_text().split("\n", 1)[0].split()[1:9])
    busy = user + nice + system + sum(rest)
    return busy, busy + idle + waiting
