"""Follows what all queues and subscriptions of a namespace hold, from topics alone (decision 109).

A step asks for the ends of all logs at once, and looks into those alone whose logs have moved. So what is idle costs
next to nothing, however many there are, and a look reads what is new.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from jbm_kafka.admin.cluster.admin_core import AdminCore
from jbm_kafka.admin.following.followed_group import FollowedGroup, Marks
from jbm_kafka.admin.following.followed_readers import FollowedReaders
from jbm_kafka.codec.branch_records import branches_in
from jbm_kafka.codec.reader_record import readers_in
from jbm_kafka.codec.registry_records import subscriptions_in
from jbm_kafka.core.channel.backlog import Backlog, Backlogs
from jbm_kafka.core.channel.branch import BranchState, PreparedBranch
from jbm_kafka.core.log_rate_limit import LogRateLimit
from jbm_kafka.memory.memory_journal import MemoryJournal
from jbm_kafka.ports import KafkaClientError, LogPlace, TopicDescription
from jbm_kafka.registry.channel_group import ChannelGroup
from jbm_kafka.registry.own_topics import branches_topic
from jbm_kafka.registry.registry_log import RegistryLog

log = logging.getLogger(__name__)

LINE_MS = 60_000
"""The interval of the line about a group that cannot be looked into."""


class BacklogFollower:
    """One cluster and namespace. One thread at a time."""

    def __init__(self, core: AdminCore) -> None:
        """`core` is closed by whoever made it, after this."""
        self._core = core
        self._reader = core.kafka.log_reader()
        self._readers = FollowedReaders(self._reader)
        self._groups: dict[str, FollowedGroup] = {}
        self._known: dict[str, Backlog] = {}
        """The backlog that was told of each group last."""
        self._branches = RegistryLog(core.kafka, core.admin, branches_topic(core.namespace), clock=core.cluster.clock)
        self._lines: LogRateLimit[str] = LogRateLimit(interval_ms=LINE_MS, each_max=1)

    def step(self) -> Backlogs:
        """Look what has changed, and tell all.

        Raises:
            JMSError: the cluster does not answer, or does not let us in; the next step goes on.
        """
        core = self._core
        with core.asking("follow what queues hold"):
            now_ms = core.cluster.clock.now_ms()
            groups = self._present()
            unreadable: list[str] = []
            queries = [each for _, each in readers_in(core.registry.log.values())
                       if each is not None and each.is_query and each.counts(now_ms)]  # fmt: skip
            names = {name for group in groups for name in (group.topic, group.changelog_topic)}
            others = self._others({each.topic for each in queries} - names)
            described = {**core.admin.describe(sorted(names)), **others}
            read = {group.topic for group in groups} | others.keys()
            counts = {name: each.partitions for name, each in described.items()}
            topics = {name: counts[name] for name in read if name in counts}
            begins = core.admin.positions(topics, LogPlace.BEGIN)
            heads = core.admin.positions(topics, LogPlace.END)
            changelogs = {name: counts[name] for name in names - topics.keys() if name in counts}
            # Before the ends: what a checkpoint settles in between must not look as if it waited.
            changelog_ends = core.admin.positions(changelogs, LogPlace.END)
            ends = core.admin.positions(topics, LogPlace.STABLE_END)
            receivers = core.admin.member_counts([group.group_id for group in groups])
            for group in groups:
                marks = _marks(group, described, begins, ends, changelog_ends)
                if marks is None:
                    unreadable.append(group.group_id)
                    continue
                followed = self._groups.get(group.group_id)
                if followed is None or followed.group != group:
                    journal = MemoryJournal(clock=core.cluster.clock)  # its own: what was read goes with the group
                    followed = self._groups[group.group_id] = FollowedGroup(group, journal)
                if followed.is_to_be_looked_at(marks) and not self._looked(followed, marks, described[group.topic]):
                    unreadable.append(group.group_id)
                    continue
                self._known[group.group_id] = followed.backlog(
                    marks,
                    heads.get(group.topic, {}),
                    receivers.get(group.group_id, 0),
                    core.registry.pauses.of(group.destination.name),
                    now_ms,
                )
            self._forget({group.group_id for group in groups})
            branches = self._prepared()
            lags = self._readers.lags(queries, described, begins, ends)
        backlogs = sorted(self._known.values(), key=lambda each: (each.destination, each.subscription))
        return Backlogs(
            looked_at_ms=now_ms,
            backlogs=tuple(backlogs),
            prepared=len(branches),
            oldest_prepared_at_ms=min((each.record.prepared_at_ms for each in branches), default=None),
            unreadable=tuple(sorted(unreadable)),
            queries=lags,
        )

    def close(self) -> None:
        """Let go what was opened here."""
        self._branches.close()
        self._reader.close()

    def _present(self) -> Sequence[ChannelGroup]:
        """The queues and subscriptions that there are; the registry is read on by it."""
        core = self._core
        queues = [ChannelGroup.of_queue(each, namespace=core.namespace) for each in core.catalog.queues()]
        recorded = [each for _, each in subscriptions_in(core.registry.log.values()) if not each.is_ending]
        return [
            *queues,
            *(ChannelGroup.of_subscription(each.subscription, each, namespace=core.namespace) for each in recorded),
        ]

    def _others(self, names: set[str]) -> Mapping[str, TopicDescription]:
        """Describe topics of which there are queries alone; none where that is refused, for no queue hangs on them."""
        try:
            return self._core.admin.describe(sorted(names))
        except KafkaClientError as error:
            more = self._lines.next_line("", self._core.cluster.clock.monotonic_ms())
            if more is not None:
                log.warning("queries of %s are not told: %s", ", ".join(sorted(names)), error)
            return {}

    def _looked(self, followed: FollowedGroup, marks: Marks, described: TopicDescription) -> bool:
        try:
            followed.look(marks, described, self._core.admin, self._reader)
        except KafkaClientError as error:
            followed.forget()
            more = self._lines.next_line(followed.group.group_id, self._core.cluster.clock.monotonic_ms())
            if more is not None:
                log.warning("%s cannot be looked into, and what is told of it is older: %s", followed.group, error)
            return False
        return True

    def _forget(self, present: set[str]) -> None:
        for gone in self._groups.keys() - present:
            del self._groups[gone]
        for gone in self._known.keys() - present:
            del self._known[gone]

    def _prepared(self) -> list[PreparedBranch]:
        self._branches.refresh()
        return [each for each in branches_in(self._branches.values()) if each.record.state is BranchState.PREPARED]


def _marks(
    group: ChannelGroup,
    described: Mapping[str, TopicDescription],
    begins: Mapping[str, Mapping[int, int]],
    ends: Mapping[str, Mapping[int, int]],
    changelog_ends: Mapping[str, Mapping[int, int]],
) -> Marks | None:
    """Where the logs of the group are; None: something of it has no answer now."""
    changelog = described.get(group.changelog_topic)
    if group.topic not in begins or group.topic not in ends or group.topic not in described:
        return None
    if changelog is not None and changelog.partitions and group.changelog_topic not in changelog_ends:
        return None
    return Marks(
        described[group.topic].topic_id,
        begins[group.topic],
        ends[group.topic],
        "" if changelog is None else changelog.topic_id,
        changelog_ends.get(group.changelog_topic, {}),
    )
