"""How many dead letters each destination has, wherever they lie."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from jbm_kafka.admin import Admin
from jbm_kafka.codec.dead_letter import Origin
from jbm_kafka.core.channel.backlog import Backlogs
from jbm_kafka.core.destination import Queue

COUNTED_MAX = 2_000
"""Letters of one queue that are read for it; of more nobody knows whose they are."""


class LetterCounts:
    """Reads a dead-letter queue again when what it holds has changed. One thread changes it, any reads."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._seen: dict[str, tuple[int, int]] = {}
        """The number that a dead-letter queue held and how much was ever written when it was read, by its name."""
        self._of: dict[str, Counter[tuple[str, str]]] = {}
        self.by_origin: Counter[tuple[str, str]] = Counter()
        """The numbers by the destination that letters left, and its subscription or an empty text."""
        self.is_whole = True
        """All letters were read."""

    def look(self, found: Backlogs, queues: Collection[str]) -> None:
        """Read what has changed.

        Raises:
            JMSError: it cannot be read; what was known stays.
        """
        held = {
            each.destination: each for each in found.backlogs if each.destination in queues and not each.subscription
        }
        for gone in self._of.keys() - held.keys():
            del self._of[gone], self._seen[gone]
        for name, backlog in held.items():
            mark = backlog.held, backlog.written
            if self._seen.get(name) == mark:
                continue
            counts: Counter[tuple[str, str]] = Counter()
            if 0 < backlog.held <= COUNTED_MAX:
                letters = self._admin.dead_letters(Queue(name))
                counts.update(_left(letter.origin) for letter, _ in letters if letter.origin.destination is not None)
            self._of[name], self._seen[name] = counts, mark
        self.is_whole = all(each.held <= COUNTED_MAX for each in held.values())
        self.by_origin = sum(self._of.values(), Counter[tuple[str, str]]())


def _left(origin: Origin) -> tuple[str, str]:
    return (origin.destination or "").partition(":")[2], origin.subscription or ""
