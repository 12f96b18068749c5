"""The Kafka topics of destinations: looked up, checked, created with their changelogs, remembered."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace

from jbm_kafka.codec.record_size import TRUSTED_COMPRESSION
from jbm_kafka.core.destination import Destination, Queue, Topic, colliding_name, with_namespace
from jbm_kafka.core.errors import InvalidDestinationError, JMSError, JMSSecurityError
from jbm_kafka.ports import AccessRefused, KafkaAdmin, KafkaClientError, TopicDescription, Unreachable
from jbm_kafka.ports.provider import TopicInfo
from jbm_kafka.sidecar.registry import Registry

log = logging.getLogger(__name__)

MARGIN_BYTES = 128 * 1024
"""Room for what we add to a record, above what its source takes (docs/topics.md)."""
DEFAULT_MAX_MESSAGE_BYTES = 1_048_588
"""The broker's default."""

DESTINATION_CONFIG: Mapping[str, str] = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
CHANGELOG_CONFIG: Mapping[str, str] = {
    "cleanup.policy": "compact",
    "segment.bytes": str(32 * 2**20),
    "min.cleanable.dirty.ratio": "0.1",
    "delete.retention.ms": str(7 * 24 * 3_600_000),
    "retention.ms": "-1",
}
EVENTS_CONFIG: Mapping[str, str] = {"cleanup.policy": "delete", "retention.ms": str(7 * 24 * 3_600_000)}
REGISTRY_CONFIG: Mapping[str, str] = {"cleanup.policy": "compact"}
SYSTEM_PARTITIONS = 16


class Topics:
    """Any thread; what is known is kept until `refresh` or `forget`."""

    def __init__(self, admin: KafkaAdmin, *, namespace: str, registry: Registry | None = None) -> None:
        self._admin = admin
        self._registry = registry
        self._namespace = namespace
        self._known: dict[str, TopicInfo] = {}
        self._destinations: dict[str, Destination] = {}
        """Of what is known, by name."""
        self._forgotten: dict[str, TopicInfo] = {}
        """What was known of topics that a send found gone; `known` tells it until more is."""
        self._lock = threading.Lock()
        self._has_system_topics = False
        """They were asked for: a process that only sends needs none."""
        self._told: set[str] = set()
        """What cannot be changed, each told once: topics that are too small, faults of our own ones."""

    @property
    def events_topic(self) -> str:
        """Where checkpoints tell what they did."""
        return with_namespace("jbm.events", self._namespace)

    @property
    def registry_topic(self) -> str:
        """Where a checkpoint without channels leaves its marker."""
        return with_namespace("jbm.registry", self._namespace)

    def known(self, name: str) -> TopicInfo | None:
        """What was found earlier, without asking the cluster."""
        return self._known.get(name) or self._forgotten.get(name)

    def destination(self, name: str) -> Destination | None:
        """The queue or topic of this name, if it is known."""
        return self._destinations.get(name)

    def usable(self, name: str) -> TopicInfo | None:
        """As `known`, but nothing of a topic that a send found gone, or that refused one."""
        return self._known.get(name)

    def forget(self, topic: str) -> None:
        """A send found it gone: `ensure` asks the cluster again, and creates it where it may."""
        info = self._known.pop(topic, None)
        if info is not None:
            self._forgotten[topic] = info

    def ensure_system_topics(self) -> None:
        """Create what every installation needs; put right what is not as it must be. `look` does so again.

        Raises:
            JMSError: it cannot be put right; the text names the remedy.
        """
        self._has_system_topics = True
        wanted = {
            self.events_topic: (SYSTEM_PARTITIONS, EVENTS_CONFIG),
            self.registry_topic: (1, REGISTRY_CONFIG),
        }
        found = self._admin.describe(list(wanted), with_config=True)
        for name, (partitions, config) in wanted.items():
            topic = found.get(name)
            if topic is None:
                self._admin.create_topic(name, partitions=partitions, config=config)
                continue
            if topic.partitions < partitions:
                _repair(
                    f"topic {name} has {topic.partitions} partitions and needs {partitions}",
                    lambda name=name, count=partitions: self._admin.add_partitions(name, count),  # type: ignore[misc]
                )
            self._ensure_policy(topic, config)

    def _ensure_policy(self, found: TopicDescription, config: Mapping[str, str]) -> None:
        """Give a topic of ours its cleanup policy back, with the retention that goes with it."""
        policy, wanted = found.config.get("cleanup.policy", "delete"), config["cleanup.policy"]
        if policy == wanted:
            return
        changes = {name: config[name] for name in ("cleanup.policy", "retention.ms") if name in config}
        _repair(
            f"topic {found.name} has cleanup.policy={policy} and needs {wanted}",
            lambda: self._admin.alter_config(found.name, changes),
        )

    def check_exists(self, destination: Destination) -> None:
        """Ask the cluster; nothing is made for a queue.

        Raises:
            InvalidDestinationError: there is no such topic, or the name is of the other kind.
        """
        topic = destination.kafka_topic(self._namespace)
        found = self._admin.describe([topic]).get(topic)
        if found is None:
            raise _missing(destination)
        self._check_kind(destination, found)

    def ensure(
        self, destination: Destination, *, create: bool, partitions: int, message_bytes_min: int = 0
    ) -> TopicInfo:
        """The destination's topic, created with `partitions` when missing and `create`; its changelog beside it.

        A topic of ours that takes fewer than `message_bytes_min` is changed to take them; another one is left as it is,
        with one warning.

        Raises:
            InvalidDestinationError: it is missing, or cannot be a destination; the text names cause and remedy.
        """
        if destination.is_temporary:
            destination.kafka_topic(self._namespace)  # raises; a queue may be known by the same name
        info = self._known.get(destination.name)
        if info is not None and info.max_message_bytes >= message_bytes_min:
            if destination.kind != self._destinations[destination.name].kind:
                raise _other_kind(destination)
            return info
        with self._lock:
            found = self._describe(destination)
            if found is None:
                if not create:
                    raise _missing(destination)
                self._create(destination, partitions, message_bytes_min)
                found = self._describe(destination)
            if found is None:
                raise JMSError(f"{destination}: its topic was created and is not to be seen; try again")
            if _size(found) < message_bytes_min:
                found = self._enlarged(found, message_bytes_min, is_ours=_is_ours(found))
            return self._accept(destination, found)

    def refresh(self, destination: Destination) -> TopicInfo:
        """Ask the cluster again, and create missing changelog partitions.

        Raises:
            InvalidDestinationError: the topic is gone.
        """
        found = self._describe(destination)
        if found is None:
            self._known.pop(destination.name, None)
            raise InvalidDestinationError(f"{destination}: its Kafka topic was deleted", destination=destination.name)
        with self._lock:
            return self._accept(destination, found)

    def close(self) -> None:
        """Let the registry's reader go; what is known stays so."""
        if self._registry is not None:
            self._registry.close()

    def check_answered(self, timeout_s: float) -> None:
        """Return when the cluster answers.

        Raises:
            KafkaClientError: it does not within `timeout_s`, or refuses.
        """
        self._admin.check_answered(timeout_s)

    def look(self) -> list[TopicInfo]:
        """Ask the cluster again for everything that is known. A topic that is gone stays known: a send tells.

        What is ours is put right; what cannot be is told once.

        Raises:
            KafkaClientError: no answer.
        """
        self._look_at_ours()
        if self._registry is not None:
            self._registry.refresh()
        known = dict(self._known)
        found = self._admin.describe([info.topic for info in known.values()])
        infos = []
        for name, info in known.items():
            now = found.get(info.topic)
            if now is None:
                continue
            recorded = 0 if self._registry is None else self._registry.recorded(name, now.topic_id)
            is_same = (now.topic_id, now.partitions) == (info.topic_id, info.partitions)
            if not is_same or recorded != info.recorded_partitions:
                try:
                    info = self.refresh(self._destinations[name])
                except JMSError as error:  # gone again, or it cannot be a destination any more
                    log.warning("%s", error)
                    continue
            infos.append(info)
        return infos

    def _look_at_ours(self) -> None:
        if not self._has_system_topics:
            return
        changelogs = [each.changelog_topic(self._namespace) for each in list(self._destinations.values())]
        try:
            self.ensure_system_topics()
            for found in self._admin.describe(changelogs, with_config=True).values():
                self._ensure_policy(found, CHANGELOG_CONFIG)
        except JMSError as error:
            if str(error) not in self._told:
                self._told.add(str(error))
                log.warning("%s", error)

    def _accept(self, destination: Destination, found: TopicDescription) -> TopicInfo:
        if "compact" in found.config.get("cleanup.policy", "delete"):
            raise InvalidDestinationError(
                f"{destination}: its Kafka topic is compacted, which deletes messages that were not received; "
                f"a destination needs cleanup.policy=delete",
                destination=destination.name,
            )
        self._check_kind(destination, found)
        self._ensure_changelog(destination, found)
        is_log_append_time = found.config.get("message.timestamp.type") == "LogAppendTime"
        keeps_compression = found.config.get("compression.type", "producer") in ("producer", *TRUSTED_COMPRESSION)
        recorded = 0
        if self._registry is not None:
            recorded = self._registry.ensure(destination.name, found.topic_id, found.partitions)
        info = TopicInfo(
            found.name, found.topic_id, found.partitions, _size(found), is_log_append_time, keeps_compression, recorded
        )
        self._destinations[destination.name] = destination
        if self._known.get(destination.name) != info:  # the same one stays: what is derived from it stays good
            self._known[destination.name] = info
        return self._known[destination.name]

    def _check_kind(self, destination: Destination, found: TopicDescription) -> None:
        """A name is a queue or a topic, in one namespace; who uses it first decides."""
        if self._registry is None:
            return
        if isinstance(destination, Topic):
            if not self._registry.ensure_topic(destination.name, found.topic_id):
                raise _other_kind(destination)
            return
        if self._registry.recorded(destination.name, found.topic_id) is None:
            self._registry.refresh()
        if self._registry.is_topic(destination.name, found.topic_id):
            raise _other_kind(destination)

    def _describe(self, destination: Destination) -> TopicDescription | None:
        topic = destination.kafka_topic(self._namespace)
        return self._admin.describe([topic], with_config=True).get(topic)

    def _create(self, destination: Destination, partitions: int, message_bytes_min: int) -> None:
        topic = destination.kafka_topic(self._namespace)
        other = colliding_name(topic, self._admin.topic_names())
        if other is not None:
            raise InvalidDestinationError(
                f"{destination}: Kafka cannot hold it beside the topic {other!r}: names that differ only in '.' and "
                f"'_' collide; choose another name",
                destination=destination.name,
                existing=other,
            )
        config = dict(DESTINATION_CONFIG)
        if message_bytes_min:
            config["max.message.bytes"] = str(max(message_bytes_min, DEFAULT_MAX_MESSAGE_BYTES))
        try:
            self._admin.create_topic(topic, partitions=partitions, config=config)
        except AccessRefused as error:
            raise JMSSecurityError(f"{destination}: {error}", destination=destination.name) from None
        except KafkaClientError as error:
            raise InvalidDestinationError(
                f"{destination}: its topic cannot be created: {error}", destination=destination.name
            ) from None

    def _ensure_changelog(self, destination: Destination, found: TopicDescription) -> None:
        name = destination.changelog_topic(self._namespace)
        size = _size(found) + MARGIN_BYTES
        existing = self._admin.describe([name], with_config=True).get(name)
        if existing is None:
            config = {**CHANGELOG_CONFIG, "max.message.bytes": str(size)}
            self._admin.create_topic(name, partitions=found.partitions, config=config)
            return
        if existing.partitions < found.partitions:
            self._admin.add_partitions(name, found.partitions)
        self._ensure_policy(existing, CHANGELOG_CONFIG)
        if _size(existing) < size:
            self._enlarged(existing, size, is_ours=True)

    def _enlarged(self, found: TopicDescription, size: int, *, is_ours: bool) -> TopicDescription:
        """The topic, changed to take messages of `size` if that can be; told once if it cannot."""
        fault = "jbm-kafka did not create it"
        if is_ours:
            try:
                self._admin.alter_config(found.name, {"max.message.bytes": str(size)})
            except KafkaClientError as error:
                fault = str(error)
            else:
                return replace(found, config={**found.config, "max.message.bytes": str(size)})
        if found.name not in self._told:
            self._told.add(found.name)
            log.warning(
                "topic %s takes messages of %d bytes and should take %d, and that is not changed here: %s. What is "
                "larger cannot be copied there whole; set its max.message.bytes with Kafka's tools",
                found.name,
                _size(found),
                size,
                fault,
            )
        return found


def _other_kind(destination: Destination) -> InvalidDestinationError:
    is_topic = isinstance(destination, Topic)
    its, wanted = ("queue", "topic") if is_topic else ("topic", "queue")
    return InvalidDestinationError(
        f"{destination}: {destination.name!r} is a {its}, and a name is either; use create_{its}({destination.name!r}) "
        f"or another name for the {wanted}",
        destination=destination.name,
    )


def _missing(destination: Destination) -> InvalidDestinationError:
    return InvalidDestinationError(
        f"{destination}: there is no Kafka topic {destination.name!r}; create it with: jbm-kafka create "
        f"{destination.name}, or in Python with auto_create=True by the first send or receive",
        destination=destination.name,
    )


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


def gone(topic: str, *, about: str) -> InvalidDestinationError:
    """What is said when a destination's topic was there and is not any more."""
    return InvalidDestinationError(
        f"{about}: its Kafka topic {topic!r} was deleted, or created again with fewer partitions; nothing was sent. "
        f"Create it (jbm-kafka create {topic}), or send again with auto_create=True",
        destination=topic,
    )


def _size(found: TopicDescription) -> int:
    return int(found.config.get("max.message.bytes", DEFAULT_MAX_MESSAGE_BYTES))


def _is_ours(found: TopicDescription) -> bool:
    """It has the configuration that we give and no broker's defaults do: we created it, or somebody in our place."""
    return all(found.config.get(name) == value for name, value in DESTINATION_CONFIG.items())


def dead_letter_queue(address: str) -> Queue:
    """A dead-letter or expiry address is a queue."""
    return Queue(address)
