"""The group workers of one process, by consumer group.

They also hear here what the process's looks at its topics found, which goes to the log and to them. docs/logging.md
lists the lines.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence, Set
from functools import partial

from jbm_kafka.codec.command_records import Command
from jbm_kafka.core.channel.partition_names import named
from jbm_kafka.core.destination import Destination
from jbm_kafka.core.jms_errors import IllegalStateError
from jbm_kafka.ports.completion import Completion
from jbm_kafka.ports.provider import TopicInfo
from jbm_kafka.registry.topics import TopicsFound
from jbm_kafka.sidecar.channel.group_data import GroupData
from jbm_kafka.sidecar.lane.group_worker import GroupWorker
from jbm_kafka.sidecar.lane.shutdown import STOP_TIMEOUT_S
from jbm_kafka.sidecar.operators.operator_departures import Reply

log = logging.getLogger("jbm_kafka.partitions")


class GroupWorkers:
    """Any thread. One that has ended is forgotten when another is added, but for those that failed: a receiver that
    comes back is to know why."""

    def __init__(self) -> None:
        self._by_group: dict[str, GroupWorker] = {}
        self._missing = MissingTopics()

    def add(self, group_worker: GroupWorker) -> None:
        """Register the worker for its group."""
        for group_id, other in list(self._by_group.items()):
            if not other.is_alive and other.failure is None:
                self._by_group.pop(group_id, None)
        self._by_group[group_worker.data.group.group_id] = group_worker

    def of(self, group_id: str) -> GroupWorker | None:
        """That of the group, if there is one; it may have ended."""
        return self._by_group.get(group_id)

    def all(self) -> list[GroupWorker]:
        """As of now."""
        return list(self._by_group.values())

    def count_alive(self) -> int:
        """How many have not ended."""
        return sum(group_worker.is_alive for group_worker in self.all())

    def own_members(self, group_id: str) -> int | None:
        """How many members of the group this process is, none or one; None: it is about to join."""
        group_worker = self.of(group_id)
        if group_worker is None or not group_worker.is_alive:
            return 0
        return 1 if group_worker.has_joined else None

    def stop(self, group_id: str) -> None:
        """End this process's membership in the group, and wait for that."""
        if (group_worker := self.of(group_id)) is not None:
            group_worker.stop()
            if group_worker.join(STOP_TIMEOUT_S) and self.of(group_id) is group_worker:
                del self._by_group[group_id]

    def end_all_of(self, destination: Destination) -> None:
        """Stop those of a destination that ends."""
        for group_worker in self.all():
            if group_worker.data.group.destination == destination:
                self.stop(group_worker.data.group.group_id)

    def refuse(self, group_id: str, error: IllegalStateError) -> None:
        """End it with this error for all who receive there."""
        if (group_worker := self.of(group_id)) is not None:
            group_worker.refuse(error)

    def command(self, command: Command, reply: Reply) -> None:
        """Have an operator's command carried out, if its group is served here."""
        if (group_worker := self.of(command.group)) is not None and group_worker.is_alive:
            group_worker.command(command, reply)

    def look_at_branches(self, done: Completion | None = None) -> None:
        """Prepared branches may be decided. `done` completes when all have looked, one after the other."""
        alive = [group_worker for group_worker in self.all() if group_worker.is_alive]
        for group_worker in alive:
            group_worker.post(group_worker.prepared.look)
        if done is not None:
            _after_all(alive, done)

    def looked(self, look: TopicsFound) -> None:
        """Topics may be others than they were, or be gone."""
        for info in look.found:
            self._notify_topic(info)
        for group_worker in self.all():
            changelog_id = look.changelogs.get(group_worker.data.group.changelog_topic)
            if changelog_id is not None and group_worker.is_alive and group_worker.data.group.is_recorded:
                group_worker.post(partial(_note_changelog, group_worker.data, changelog_id))
            if group_worker.data.group.topic in look.missing:
                if group_worker.served.lacks_topic and group_worker.is_running:  # not at one look alone
                    group_worker.post(group_worker.refuse_unmade)
                group_worker.served.lacks_topic = True
        groups = [group_worker.data.group for group_worker in self.all() if group_worker.is_running]
        received = {group.topic: str(group.destination) for group in groups}
        self._missing.looked(received, present=look.present, missing=look.missing)

    def _notify_topic(self, info: TopicInfo) -> None:
        for group_worker in self.all():
            group = group_worker.data.group
            if group.topic == info.topic and group_worker.is_alive:
                group_worker.post(
                    partial(group_worker.assignment.topic_is, group.log_id(info.topic_id), info.partitions)
                )


def _after_all(alive: Sequence[GroupWorker], done: Completion) -> None:
    for number, group_worker in enumerate(alive):
        if group_worker.is_alive and group_worker.post(partial(_after_all, alive[number + 1 :], done)):
            return
    done.complete()


class MissingTopics:
    """Log lines about topics that are gone while somebody receives from them.

    A consumer whose topic was deleted hears nothing: its client asks for the topic again and again.
    """

    def __init__(self) -> None:
        self._suspected: Set[str] = frozenset()
        """Missing at the latest look. One alone says little: a broker that comes back may not know all yet."""
        self._told: dict[str, str] = {}
        """The destination that a line said is gone, by topic."""

    def looked(self, received: Mapping[str, str], *, present: Set[str], missing: Set[str]) -> None:
        """`received`: topics that somebody here receives from, each with its destination."""
        for topic in sorted(missing & self._suspected & received.keys() - self._told.keys()):
            self._told[topic] = received[topic]
            log.warning(
                "%s: its topic %s does not exist any more, and what it held is gone; who receives from it waits until "
                "it is made again",
                received[topic],
                topic,
            )
        self._suspected = missing
        for topic in sorted(present & self._told.keys()):
            # At the level of the loss: a log of warnings alone shall show that it is over.
            log.warning("%s: its topic %s exists again", self._told.pop(topic), topic)


def _note_changelog(data: GroupData, changelog_id: str) -> None:
    """The cluster says which topic the changelog is now: where it was deleted, what it said is written again.

    On the group's owner thread.
    """
    others = [channel for channel in data.channels.values() if not channel.changelog.topic_is(changelog_id)]
    if others:
        log.warning(
            "%s: its changelog %s was deleted; it is made again, and what is known here of %s is written into it with "
            "the next checkpoints",
            data.group,
            others[0].changelog.topic,
            named([channel.partition for channel in others]),
        )
