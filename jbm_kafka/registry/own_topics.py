"""The Kafka topics that are ours alone, and changelogs: made, and put right when somebody changes them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from jbm_kafka.core.destination import Destination, with_namespace
from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.ports import AccessRefused, KafkaAdmin, KafkaClientError, TopicDescription, Unreachable
from jbm_kafka.registry.topic_configs import (
    CHANGELOG_CONFIG,
    COMMANDS_CONFIG,
    DEFAULT_MAX_MESSAGE_BYTES,
    EVENTS_CONFIG,
    MARGIN_BYTES,
    REGISTRY_CONFIG,
    SYSTEM_PARTITIONS,
)

log = logging.getLogger(__name__)


def events_topic(namespace: str) -> str:
    """Where checkpoints tell what they did."""
    return with_namespace("jbm.events", namespace)


def registry_topic(namespace: str) -> str:
    """Where a checkpoint without channels leaves its marker."""
    return with_namespace("jbm.registry", namespace)


def commands_topic(namespace: str) -> str:
    """Where administrators ask, and owners answer."""
    return with_namespace("jbm.commands", namespace)


def branches_topic(namespace: str) -> str:
    """Return what is known of branches of transactions of several systems."""
    return with_namespace("jbm.branches", namespace)


def bridges_topic(namespace: str) -> str:
    """What bridges have taken on from elsewhere."""
    return with_namespace("jbm.bridges", namespace)


def ledger_topic(namespace: str) -> str:
    """Where all Spark queries of the namespace record what they have written."""
    return with_namespace("jbm.spark-batches", namespace)


def ensure_commands_topic(admin: KafkaAdmin, name: str) -> None:
    """Make the topic of commands where it is missing; who finds it there needs no right to make topics.

    Raises:
        KafkaClientError: it is missing and cannot be made, or no answer.
    """
    if not admin.describe([name]):
        admin.create_topic(name, partitions=1, config=COMMANDS_CONFIG)


class OwnTopics:
    """Makes and mends the topics that jbm-kafka owns. Any thread may call it."""

    def __init__(self, admin: KafkaAdmin, namespace: str) -> None:
        self._admin = admin
        self._namespace = namespace
        self._has_system_topics = False
        """They were asked for: a process that only sends needs none."""
        self._logged: set[str] = set()
        """Faults that cannot be mended, each logged once: topics that are too small, faults of our own ones."""
        self._large: set[str] = set()
        """Topics of ours whose segments are large and cannot be changed."""

    def ensure_system_topics(self) -> None:
        """Create what every installation needs; put right what is not as it must be. `look` does so again.

        Raises:
            JMSError: it cannot be put right; the text names the remedy.
        """
        self._has_system_topics = True
        wanted = {
            events_topic(self._namespace): (SYSTEM_PARTITIONS, EVENTS_CONFIG),
            registry_topic(self._namespace): (1, REGISTRY_CONFIG),
            commands_topic(self._namespace): (1, COMMANDS_CONFIG),
        }
        found = self._admin.describe(list(wanted), with_config=True)
        for name, (partitions, config) in wanted.items():
            topic = found.get(name)
            if topic is None:
                self._create_ours(name, partitions, config)
                continue
            if topic.partitions < partitions:
                _repair(
                    f"topic {name} has {topic.partitions} partitions and needs {partitions}",
                    lambda name=name, count=partitions: self._admin.add_partitions(name, count),  # type: ignore[misc]
                )
            self._ensure_policy(topic, config)

    def _create_ours(self, name: str, partitions: int, config: Mapping[str, str]) -> None:
        try:
            self._admin.create_topic(name, partitions=partitions, config=config)
        except AccessRefused:
            if name != commands_topic(self._namespace):
                raise
            log.debug("topic %s is not there, and may not be made here; the first administrator's command does", name)

    def _ensure_policy(self, found: TopicDescription, config: Mapping[str, str]) -> None:
        """Give a topic of ours its cleanup policy back, with the retention that goes with it, and small segments."""
        self._make_segments_small(found, config)
        policy, wanted = found.config.get("cleanup.policy", "delete"), config["cleanup.policy"]
        if policy == wanted:
            return
        changes = {name: config[name] for name in ("cleanup.policy", "retention.ms") if name in config}
        _repair(
            f"topic {found.name} has cleanup.policy={policy} and needs {wanted}",
            lambda: self._admin.alter_config(found.name, changes),
        )

    def _make_segments_small(self, found: TopicDescription, config: Mapping[str, str]) -> None:
        """Older versions made larger ones, and every start reads what is not compacted: all but closed segments."""
        changes = {name: config[name] for name in ("segment.bytes", "min.cleanable.dirty.ratio") if name in config}
        wanted = int(changes.get("segment.bytes", 0))
        if int(found.config.get("segment.bytes", 0)) <= wanted or not wanted or found.name in self._large:
            return
        try:
            self._admin.alter_config(found.name, changes)
        except KafkaClientError as error:
            self._large.add(found.name)
            log.info("topic %s keeps its large segments, so that a start reads more: %s", found.name, error)

    def look(self, destinations: Iterable[Destination]) -> Mapping[str, str]:
        """Put right what is not as it must be, if it was asked for; what cannot be is logged once.

        `destinations`: whose topics are there. Returns the Kafka ids of their changelogs, by topic.
        """
        if not self._has_system_topics:
            return {}
        ids: dict[str, str] = {}
        try:
            self.ensure_system_topics()
            changelogs = {each.changelog_topic(self._namespace): each for each in destinations}
            found = dict(self._admin.describe(list(changelogs), with_config=True))
            for name in changelogs.keys() - found.keys():
                found |= self._made_again(name, changelogs[name])
            for name, changelog in found.items():
                ids[name] = changelog.topic_id
                self._ensure_policy(changelog, CHANGELOG_CONFIG)
        except JMSError as error:
            if str(error) not in self._logged:
                self._logged.add(str(error))
                log.warning("%s", error)
        return ids

    def _made_again(self, name: str, destination: Destination) -> Mapping[str, TopicDescription]:
        """The changelog that somebody deleted; nothing when the topic itself is gone, too."""
        topic = destination.kafka_topic(self._namespace)
        found = self._admin.describe([topic], with_config=True).get(topic)
        if found is None:
            return {}
        self.ensure_changelog(destination, found)
        return self._admin.describe([name], with_config=True)

    def ensure_changelog(self, destination: Destination, found: TopicDescription) -> None:
        """Have the changelog of a destination with this topic, with as many partitions and room for its messages."""
        name = destination.changelog_topic(self._namespace)
        size = size_of(found) + MARGIN_BYTES
        existing = self._admin.describe([name], with_config=True).get(name)
        if existing is None:
            config = {**CHANGELOG_CONFIG, "max.message.bytes": str(size)}
            self._admin.create_topic(name, partitions=found.partitions, config=config)
            return
        if existing.partitions < found.partitions:
            self._admin.add_partitions(name, found.partitions)
        self._ensure_policy(existing, CHANGELOG_CONFIG)
        if size_of(existing) < size:
            self.enlarged(existing, size, is_ours=True)

    def enlarged(self, found: TopicDescription, size: int, *, is_ours: bool) -> TopicDescription:
        """The topic, changed to take messages of `size` if that can be; logged once if it cannot."""
        fault = "jbm-kafka did not create it"
        if is_ours:
            try:
                self._admin.alter_config(found.name, {"max.message.bytes": str(size)})
            except KafkaClientError as error:
                fault = str(error)
            else:
                return replace(found, config={**found.config, "max.message.bytes": str(size)})
        if found.name not in self._logged:
            self._logged.add(found.name)
            log.warning(
                "topic %s takes messages of %d bytes and should take %d, and that is not changed here: %s. What is "
                "larger cannot be copied there whole; set its max.message.bytes with Kafka's tools",
                found.name,
                size_of(found),
                size,
                fault,
            )
        return found


def _repair(fault: str, repair: Callable[[], None]) -> None:
    """Put a topic of our own right, and say so.

    Raises:
        JMSError: Kafka does not allow it.
    """
    try:
        repair()
    except Unreachable:
        raise
    except KafkaClientError as error:
        raise JMSError(f"{fault}; it cannot be put right from here ({error}): do so with Kafka's tools") from None
    log.warning("%s; put right", fault)


def size_of(found: TopicDescription) -> int:
    """Return what a batch for the topic may take, in bytes."""
    return int(found.config.get("max.message.bytes", DEFAULT_MAX_MESSAGE_BYTES))
