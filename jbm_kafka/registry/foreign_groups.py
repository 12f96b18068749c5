"""Consumer groups that are no channels of ours, and how far each is: what lies behind that is not deleted (LOG-4)."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from jbm_kafka.core.channel.companion_group import is_companion
from jbm_kafka.ports import Clock, GroupKind, KafkaAdmin

LOOK_MS = 60_000
"""Groups are listed no more often: every broker is asked for it."""
_ELSEWHERE = ("jbm.queue.", "jbm.holder.", "jbm.private.", "jbm.shared.")
"""How groups of ours begin that read one topic only, which another name of theirs says."""
_MARK = re.compile(r"(?:[A-Za-z0-9._-]+\.)?jbm\.[A-Za-z0-9._-]+\.mark")
"""The group of a producer's mark, in any namespace."""


def _is_no_reader(name: str) -> bool:
    """Groups of ours whose offsets are no positions."""
    return _MARK.fullmatch(name) is not None or is_companion(name)


class ForeignGroups:
    """One process's knowledge of other groups, a minute old at most. One thread."""

    def __init__(self, admin: KafkaAdmin, clock: Clock, namespace: str) -> None:
        self._admin = admin
        self._clock = clock
        self._prefixes = tuple(f"{namespace}.{each}" if namespace else each for each in _ELSEWHERE)
        self._looked_at_ms: int | None = None
        self._names: list[str] = []
        self._because = ""
        self._committed: dict[tuple[str, str], Mapping[int, int]] = {}

    def why_unknown(self) -> str:
        """Why nobody knows of all groups how far they are; empty: it is known.

        Raises:
            KafkaClientError: no answer.
        """
        now_ms = self._clock.monotonic_ms()
        if self._looked_at_ms is None or now_ms - self._looked_at_ms >= LOOK_MS:
            self._committed.clear()
            self._because = self._look()
            self._looked_at_ms = now_ms
        return self._because

    def _look(self) -> str:
        if not self._admin.sees_all_groups():
            lacking = "no access rule of Kafka's allows Describe on the cluster"
            return f"{lacking}, so groups that still read may not be listed"
        found = self._admin.groups()
        others = sorted(name for name, group in found.items() if group.kind is GroupKind.OTHER)
        self._names = [name for name in found if not (name.startswith(self._prefixes) or _is_no_reader(name))]
        return "" if not others else f"how far the share group {others[0]!r} is cannot be read here"

    def committed(
        self, topic: str, partitions: Sequence[int], ours: Collection[str]
    ) -> Mapping[str, Mapping[int, int]]:
        """Return by group the committed offsets for the topic, without those of `ours`; at the latest look.

        Raises:
            KafkaClientError: no answer.
        """
        found = {}
        for name in self._names:
            if name in ours:
                continue
            key = name, topic
            if key not in self._committed:
                offsets = self._admin.committed(name, topic, partitions)
                self._committed[key] = {partition: each.position for partition, each in offsets.items()}
            if self._committed[key]:
                found[name] = self._committed[key]
        return found
