"""The group workers of one process, by consumer group: who knows a group's name reaches its worker here."""

from __future__ import annotations

from functools import partial

from jbm_kafka.codec.command_records import Command
from jbm_kafka.core.destination import Destination
from jbm_kafka.core.jms_errors import IllegalStateError
from jbm_kafka.ports.provider import TopicInfo
from jbm_kafka.sidecar.lane.group_worker import GroupWorker
from jbm_kafka.sidecar.lane.lost_changelogs import note_changelog
from jbm_kafka.sidecar.lane.missing_topics import MissingTopics
from jbm_kafka.sidecar.lane.shutdown import STOP_TIMEOUT_S
from jbm_kafka.sidecar.operator_departures import Reply
from jbm_kafka.sidecar.topics import Look


class GroupWorkers:
    """Any thread; one that has ended stays until another takes its place."""

    def __init__(self) -> None:
        self._by_group: dict[str, GroupWorker] = {}
        self._missing = MissingTopics()

    def add(self, group_worker: GroupWorker) -> None:
        """Be the one of its group."""
        self._by_group[group_worker.data.group.group_id] = group_worker

    def of(self, group_id: str) -> GroupWorker | None:
        """That of the group, if there ever was one."""
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
            group_worker.join(STOP_TIMEOUT_S)

    def end_all_of(self, destination: Destination) -> None:
        """Stop and forget those of a destination that ends."""
        for group_worker in self.all():
            if group_worker.data.group.destination == destination:
                self.stop(group_worker.data.group.group_id)
                self._by_group.pop(group_worker.data.group.group_id, None)

    def refuse(self, group_id: str, error: IllegalStateError) -> None:
        """End it with this error for all who receive there."""
        if (group_worker := self.of(group_id)) is not None:
            group_worker.refuse(error)

    def command(self, command: Command, reply: Reply) -> None:
        """Have an operator's command carried out, if its group is served here."""
        if (group_worker := self.of(command.group)) is not None and group_worker.is_alive:
            group_worker.command(command, reply)

    def looked(self, look: Look) -> None:
        """Topics may be others than they were, or be gone."""
        for info in look.found:
            self._notify_topic(info)
        for group_worker in self.all():
            changelog_id = look.changelogs.get(group_worker.data.group.changelog_topic)
            if changelog_id is not None and not group_worker.data.group.is_temporary:
                group_worker.post(partial(note_changelog, group_worker.data, changelog_id))
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
            if group.topic == info.topic:
                group_worker.post(
                    partial(group_worker.assignment.topic_is, group.log_id(info.topic_id), info.partitions)
                )
