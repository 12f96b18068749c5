"""The contents of one queue or subscription, kept from look to look."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

from jbm_kafka.admin.following.followed_partition import FollowedPartition
from jbm_kafka.browsing.browse import changelog_scope, looked_up
from jbm_kafka.browsing.intake import what_it_has
from jbm_kafka.codec.pause_record import Pause
from jbm_kafka.core.channel.backlog import Backlog, HeldTally
from jbm_kafka.core.channel.redelivery import FOREVER_MS
from jbm_kafka.ports import Journal, KafkaAdmin, LogReader, TopicDescription
from jbm_kafka.registry.channel_group import ChannelGroup

READ_TIMEOUT_S = 10.0
HELD_MAX = 50_000
"""Messages of one queue or subscription that are kept one by one: some 20 MB. Of more only the number is told."""
SLICE = 2_000
"""Offsets of each partition that are read at once: their bodies are in memory for a moment."""
LOOKS_APART = 60
"""After so many steps it is looked anew, whatever the logs say: an operator's reset of offsets writes to neither."""


class Marks(NamedTuple):
    """Where the logs of a group are. While these are the same it holds the same."""

    topic_id: str
    begins: Mapping[int, int]
    ends: Mapping[int, int]
    """The ends of the part that is committed."""
    changelog_id: str
    changelog_ends: Mapping[int, int]


class FollowedGroup:
    """One queue or subscription. One thread."""

    def __init__(self, group: ChannelGroup, journal: Journal) -> None:
        """`journal`: where what was read of the changelog is kept between looks."""
        self.group = group
        self._journal = journal
        self._has = None if group.subscription is None else what_it_has(group.subscription)
        self._partitions: dict[int, FollowedPartition] = {}
        self._marks: Marks | None = None
        self._steps = 0
        self._tally = HeldTally()
        self._is_counted = True
        self._changes_at_ms = 0

    def is_to_be_looked_at(self, marks: Marks) -> bool:
        """Anything may be another than at the last look."""
        self._steps += 1
        known = self._marks
        if known is None or self._steps >= LOOKS_APART:
            return True
        if known._replace(begins=marks.begins) != marks:
            return True
        # What retention, or somebody, deletes below the oldest held message matters to nobody.
        return any(begin > self._partitions[p].log_begin for p, begin in marks.begins.items())

    def look(self, marks: Marks, described: TopicDescription, admin: KafkaAdmin, reader: LogReader) -> None:
        """Read what is new of the changelog and of the log.

        Raises:
            KafkaClientError: it cannot be read; what was known before stays.
        """
        group = self.group
        channels = looked_up(
            changelog_scope(group, described.topic_id),
            described.partitions,
            admin,
            reader,
            READ_TIMEOUT_S,
            journal=self._journal,
            loudest=logging.DEBUG,
        )
        for p, channel in channels.items():
            kept = self._partitions.get(p)
            if kept is None:
                kept = self._partitions[p] = FollowedPartition(group.topic, p, group.subscription, self._has)
            kept.take(channel, described.topic_id, marks.ends[p])
        for p in [p for p in self._partitions if p not in channels]:
            del self._partitions[p]  # the topic was made anew with fewer
        self._is_counted = sum(each.held_at_most() for each in self._partitions.values()) <= HELD_MAX
        wanted = {p: each.missing() if self._is_counted else each.oldest() for p, each in self._partitions.items()}
        self._read(wanted, reader)
        self._marks, self._steps, self._changes_at_ms = marks, 0, 0

    def forget(self) -> None:
        """Read all of it again at the next look."""
        self._marks = None

    def backlog(self, marks: Marks, heads: Mapping[int, int], receivers: int, pause: Pause, now_ms: int) -> Backlog:
        """Return what it holds as of the last look; `heads`: the ends of its logs, open transactions included."""
        if now_ms >= self._changes_at_ms:
            self._tally = HeldTally()
            for each in self._partitions.values():
                self._tally.add(each.messages(), now_ms)
            self._changes_at_ms = self._tally.changes_at_ms if self._is_counted else FOREVER_MS
        tally, parts = self._tally, self._partitions.values()
        counts = tally.counts if self._is_counted else {}
        at_most = sum(each.held_at_most() for each in parts)
        subscription = self.group.subscription
        return Backlog(
            destination=self.group.destination.name,
            subscription="" if subscription is None else subscription.full_name,
            held=sum(counts.values()) if self._is_counted else at_most,
            is_counted=self._is_counted,
            counts=dict(counts),
            oldest_at_ms=dict(tally.oldest_at_ms) if self._is_counted else {},
            oldest_held_at_ms=min(tally.oldest_at_ms.values(), default=None),
            uncommitted=sum(max(head - marks.ends[p], 0) for p, head in heads.items() if p in marks.ends),
            log_records=sum(
                max(marks.ends[p] - max(each.log_begin, marks.begins[p]), 0)
                for p, each in self._partitions.items()
                if p in marks.ends
            ),
            parked=sum(each.parked for each in parts),
            receivers=receivers,
            is_receiving_paused=pause.consumption is not None,
            is_sending_paused=pause.production is not None,
            failing=tally.failing if self._is_counted else 0,
            attempts_max=tally.attempts_max if self._is_counted else 0,
            written=sum(marks.ends.values()),
        )

    def _read(self, wanted: Mapping[int, list[tuple[int, int]]], reader: LogReader) -> None:
        """Slice by slice, of all partitions side by side: one read costs as much for all as for one."""
        slices = {
            p: deque((first, min(first + SLICE, end)) for begin, end in ranges for first in range(begin, end, SLICE))
            for p, ranges in wanted.items()
            if ranges
        }
        while slices:
            now = {p: each.popleft() for p, each in slices.items()}
            found = reader.read(self.group.topic, now, timeout_s=READ_TIMEOUT_S)
            for p, (begin, end) in now.items():
                mine = (record for record in found if record.partition() == p)
                self._partitions[p].read(mine, begin, end)
            slices = {p: each for p, each in slices.items() if each}
