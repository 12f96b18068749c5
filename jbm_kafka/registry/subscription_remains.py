"""Deletes what Kafka keeps of a subscription that has ended: a consumer group with offsets, and keys in a changelog."""

from __future__ import annotations

import logging

from jbm_kafka.core.channel.companion_group import companion_of
from jbm_kafka.core.destination import Topic
from jbm_kafka.ports import Clock, Kafka, KafkaAdmin, KafkaClientError, Outgoing
from jbm_kafka.ports.steps import Workers
from jbm_kafka.store.changelog_reader import ChangelogScope, read_changelogs
from jbm_kafka.store.no_journal import NoJournal

log = logging.getLogger(__name__)

EMPTY_TIMEOUT_MS = 15_000
"""For the members of an ended subscription's group to leave: their last checkpoint, and the group's own time."""
READ_TIMEOUT_S = 60.0
LOOK_S = 0.05


class SubscriptionRemains:
    """Removes what Kafka keeps of subscriptions that have ended. Any thread may call it."""

    def __init__(self, kafka: Kafka, admin: KafkaAdmin, *, namespace: str, workers: Workers, clock: Clock) -> None:
        self._kafka = kafka
        self._admin = admin
        self._namespace = namespace
        self._workers = workers
        self._clock = clock

    def drop_offsets(self, group: str) -> None:
        """Delete the offsets of a subscription that had the name before. Nobody needs them, and they would mislead."""
        try:
            self._admin.delete_groups([group, companion_of(group)])
        except KafkaClientError as error:
            log.info("group %s: its old offsets stay: %s", group, error)

    def drop_group(self, group: str) -> bool:
        """Wait until it is empty, and delete it; False: it is not empty in time, so its members may write still."""
        deadline_ms = self._clock.monotonic_ms() + EMPTY_TIMEOUT_MS
        while self._admin.group_members(group) > 0:
            if self._clock.monotonic_ms() > deadline_ms:
                log.warning(
                    "group %s has members still, %d s after its subscription has ended; it is removed another time",
                    group,
                    EMPTY_TIMEOUT_MS // 1000,
                )
                return False
            self._workers.pause(LOOK_S)
        self._admin.delete_groups([group, companion_of(group)])
        return True

    def tombstones(self, group: str, topic: Topic) -> list[Outgoing]:
        """Return what deletes everything that the topic's changelog has of the group."""
        changelog = topic.changelog_topic(self._namespace)
        described = self._admin.describe([changelog]).get(changelog)
        if described is None:
            return []
        scope = ChangelogScope(
            group=group, topic=topic.kafka_topic(self._namespace), topic_id="", changelog_topic=changelog
        )
        reader = self._kafka.log_reader()
        try:
            found = read_changelogs(
                scope,
                list(range(described.partitions)),
                admin=self._admin,
                reader=reader,
                journal=NoJournal(),
                timeout_s=READ_TIMEOUT_S,
            )
        finally:
            reader.close()
        return [
            Outgoing(changelog, partition, key, None)
            for partition, contents in found.items()
            for key in contents.values
        ]
