"""Tells of settings that somebody gives the topics in use, and that lose messages: within a minute, and once.

What is ours alone is put right where topics are looked at; a destination is its owner's, who may mean it.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from jbm_kafka.ports import Clock, KafkaAdmin, KafkaClientError, TopicDescription
from jbm_kafka.registry.topic_faults import TopicFault, cleanup_fault, copies_fault, retention_fault
from jbm_kafka.registry.topics import TopicsFound

log = logging.getLogger(__name__)

LOOK_MS = 30_000
"""Each look asks a broker for the configuration of every topic in use."""
NAMED_MAX = 5


class TopicSettings:
    """The configurations that were told of one process's topics. One thread."""

    def __init__(self, admin: KafkaAdmin, clock: Clock) -> None:
        self._admin = admin
        self._clock = clock
        self._looked_at_ms: int | None = None
        self._looked_at: frozenset[str] = frozenset()
        self._told: frozenset[tuple[str, TopicFault]] = frozenset()
        self._single: frozenset[str] = frozenset()
        """Topics of which it was told that one broker has them."""

    def look(self, found: TopicsFound) -> None:
        """Log what is wrong, unless it was logged. Where there is no answer, it is asked again after a while."""
        topics = frozenset(info.topic for info in found.found)
        now_ms = self._clock.monotonic_ms()
        is_due = self._looked_at_ms is None or now_ms - self._looked_at_ms >= LOOK_MS
        if not is_due and topics <= self._looked_at:
            return
        self._looked_at_ms, self._looked_at = now_ms, topics
        try:
            self._tell(topics, found.changelogs)
        except KafkaClientError as error:  # looks at topics log what lasts
            log.debug("the settings of topics cannot be looked at: %s; it is tried again", error)

    def _tell(self, topics: Collection[str], changelogs: Collection[str]) -> None:
        brokers = self._admin.brokers()
        described = self._admin.describe(sorted({*topics, *changelogs}), with_config=True)
        told = self._told
        self._told = frozenset(
            (name, fault) for name in topics if name in described for fault in _faults(described[name])
        )
        for name, fault in sorted(self._told - told, key=lambda each: each[0]):
            log.warning("topic %s: %s; %s", name, fault.text, fault.remedy.replace("NAME", name))
        if brokers == 1:  # or the others are away: that mends nothing, and is not told again behind it
            return
        single = frozenset(name for name, each in described.items() if each.replicas == 1)
        names, self._single = sorted(single - self._single), single
        if names and (copies := copies_fault(1, brokers)):
            more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
            several = ", ".join(names[:NAMED_MAX]) + more
            log.warning("replication factor 1 of topic %s: %s; %s", several, copies.text, copies.remedy)


def _faults(found: TopicDescription) -> list[TopicFault]:
    both = cleanup_fault(found.config, is_compacted=False), retention_fault(found.config)
    return [each for each in both if each is not None]
