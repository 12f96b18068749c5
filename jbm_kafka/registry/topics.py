"""The Kafka topics of destinations: looked up, checked, created with their changelogs, remembered."""

from __future__ import annotations

import logging
import threading
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace

from jbm_kafka.codec.record_size import TRUSTED_COMPRESSION
from jbm_kafka.core.channel.unit_places import UnitPlaces
from jbm_kafka.core.destination import Destination, Topic, colliding_name, with_namespace
from jbm_kafka.core.jms_errors import InvalidDestinationError, JMSError, JMSSecurityError, OrderError
from jbm_kafka.core.temporary_name import TEMPORARY_TOPIC
from jbm_kafka.ports import AccessRefused, KafkaAdmin, KafkaClientError, Outgoing, TopicDescription
from jbm_kafka.ports.provider import TopicInfo
from jbm_kafka.registry.own_topics import (
    OwnTopics,
    branches_topic,
    commands_topic,
    events_topic,
    registry_topic,
    size_of,
)
from jbm_kafka.registry.registry import Registry
from jbm_kafka.registry.topic_configs import (
    DEFAULT_MAX_MESSAGE_BYTES,
    DESTINATION_CONFIG,
    KEPT_CONFIG,
    SYSTEM_PARTITIONS,
    TEMPORARY_CONFIG,
)

log = logging.getLogger(__name__)


class TopicGone(InvalidDestinationError):
    """The topic of a destination that was there before is gone."""


@dataclass(frozen=True, slots=True)
class TopicsFound:
    """The cluster's answer about the topics that this process knows, or knew."""

    found: Sequence[TopicInfo]
    """The known ones, as they are now."""
    present: frozenset[str]
    missing: frozenset[str]
    changelogs: Mapping[str, str] = field(default_factory=dict)
    """The Kafka ids of their changelogs, by topic, as far as they are looked after here."""


class Topics:
    """The topics of destinations in use; what is known stays until `refresh` or `forget`. Any thread may call it."""

    def __init__(
        self, admin: KafkaAdmin, *, namespace: str, registry: Registry | None = None, is_in_memory: bool = False
    ) -> None:
        """`is_in_memory`: no command of the terminal reaches it, so none is advised."""
        self._admin = admin
        self._own = OwnTopics(admin, namespace)
        self._is_in_memory = is_in_memory
        self._registry = registry
        self._places = None if registry is None else registry.places
        self._namespace = namespace
        self.events_topic = events_topic(namespace)
        self.branches_topic = branches_topic(namespace)
        """Where checkpoints tell what they did."""
        self.commands_topic = commands_topic(namespace)
        """Where administrators ask, and owners answer."""
        self.registry_topic = registry_topic(namespace)
        """Where a checkpoint without channels leaves its marker."""
        self._known: dict[str, TopicInfo] = {}
        self._destinations: dict[str, Destination] = {}
        """The known destinations by name."""
        self._forgotten: dict[str, TopicInfo] = {}
        """The last knowledge of topics that a send found gone; `known` tells it until more is."""
        self._lock = threading.Lock()
        self._paused: frozenset[str] = frozenset()
        """Names of the known where nothing may be sent now: asked for every message, so it is computed at each look."""
        self._temporary: TopicInfo | None = None

    def known(self, name: str) -> TopicInfo | None:
        """Return what was found earlier, without asking the cluster."""
        return self._known.get(name) or self._forgotten.get(name)

    def destination(self, name: str) -> Destination | None:
        """The queue or topic of this name, if it is known."""
        return self._destinations.get(name)

    def names(self) -> list[str]:
        """Return the names of the destinations that are known."""
        return list(self._destinations)

    def present(self, name: str) -> TopicInfo | None:
        """As `known`, but nothing of a topic that a send found gone. Copies go there also while sending is paused."""
        return self._known.get(name)

    def usable(self, name: str) -> TopicInfo | None:
        """As `known`, but nothing of a topic that a send found gone, that refused one, or where sending is paused.

        Nothing at all when what is known was read too long ago.
        """
        if name in self._paused or (self._places is not None and self._places.is_stale):
            return None
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
        self._own.ensure_system_topics()

    def is_there(self, destination: Destination) -> bool:
        """Somebody has made it. Asked of the cluster, unless it is known."""
        topic = destination.kafka_topic(self._namespace)
        return destination.name in self._known or topic in self._admin.describe([topic])

    def partitions_of(self, destination: Destination) -> int:
        """Ask the cluster; nothing is made for a queue.

        Raises:
            InvalidDestinationError: there is no such topic, or the name is of the other kind.
        """
        topic = destination.kafka_topic(self._namespace)
        found = self._admin.describe([topic]).get(topic)
        if found is None:
            raise self._missing(destination)
        self._check_kind(destination, found)
        return found.partitions

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
        self.renew()
        info = self._known.get(destination.name)
        if info is not None and info.max_message_bytes >= message_bytes_min:
            if destination.kind != self._destinations[destination.name].kind:
                raise _other_kind(destination)
            return info
        with self._lock:
            found = self._describe(destination)
            if found is None:
                if not create:
                    raise self._missing(destination, because=NOT_MADE)
                self._create(destination, partitions, message_bytes_min)
                found = self._describe(destination)
            if found is None:
                raise JMSError(f"{destination}: its topic was created and is not to be seen; try again")
            if size_of(found) < message_bytes_min:
                found = self._own.enlarged(found, message_bytes_min, is_ours=_is_ours(found))
            return self._accept(destination, found)

    def temporary(self, *, create: bool = False) -> TopicInfo:
        """The topic of all temporary destinations.

        Raises:
            InvalidDestinationError: it does not exist, and so nobody has a temporary destination.
            KafkaClientError: no answer, or it cannot be made.
        """
        found = self._temporary
        if found is None:
            name = with_namespace(TEMPORARY_TOPIC, self._namespace)
            topic = self._admin.describe([name], with_config=True).get(name)
            if topic is None and create:
                self._admin.create_topic(name, partitions=SYSTEM_PARTITIONS, config=TEMPORARY_CONFIG)
                topic = self._admin.describe([name], with_config=True).get(name)
            if topic is None:
                raise InvalidDestinationError(
                    f"there is no Kafka topic {name}: no process has a temporary destination in this cluster and "
                    f"namespace, or somebody deleted it",
                    destination=name,
                )
            found = self._temporary = _info(topic)
        return found

    def forget_temporary(self) -> None:
        """A send found its topic gone."""
        self._temporary = None

    def refresh(self, destination: Destination) -> TopicInfo:
        """Ask the cluster again, and create missing changelog partitions.

        Raises:
            TopicGone: it is not there any more.
            InvalidDestinationError: it cannot be a destination any more.
        """
        found = self._describe(destination)
        if found is None:
            self.forget(destination.name)  # and no further: its receivers wait, and a line says when it is back
            raise TopicGone(f"{destination}: its Kafka topic was deleted", destination=destination.name)
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

    def look(self) -> TopicsFound:
        """Ask the cluster again for everything that is known. A topic that is gone stays known: a send tells.

        What is ours is put right; what cannot be is logged once.

        Raises:
            KafkaClientError: no answer.
        """
        if self._registry is not None:
            self._registry.refresh()
        known, forgotten = dict(self._known), dict(self._forgotten)
        self.follow_pauses()
        names = [info.topic for info in (*known.values(), *forgotten.values())]
        found = self._admin.describe(names)
        changelogs = self._own.look([each for name, each in self._destinations.items() if self._is_there(name, found)])
        infos = []
        for name, info in known.items():
            now = found.get(info.topic)
            if now is None:
                continue
            recorded = 0 if self._registry is None else self._registry.recorded(name, now.topic_id)
            is_same = (now.topic_id, now.partitions) == (info.topic_id, info.partitions)
            places = None if self._places is None else self._places.of(name, now.topic_id)
            if not is_same or recorded != info.recorded_partitions or places != info.places:
                try:
                    info = self.refresh(self._destinations[name])
                except JMSError as error:  # gone again, or it cannot be a destination any more
                    log.warning("%s", error)
                    continue
            infos.append(info)
        return TopicsFound(infos, frozenset(found), frozenset(names).difference(found), changelogs)

    def _is_there(self, name: str, found: Container[str]) -> bool:
        info = self.known(name)
        return info is not None and info.topic in found

    def renew(self) -> None:
        """Read the registry, when what was read of it is too old to go by.

        Raises:
            KafkaClientError: no answer.
        """
        if self._places is not None and self._places.is_stale:
            self._places.renew()
            self.follow_places()

    def follow_places(self) -> bool:
        """Go by what the registry said last of where units are. True: a topic has to be looked at for it."""
        if self._places is None:
            return False
        has_grown = False
        for name, info in list(self._known.items()):
            places = self._places.of(name, info.topic_id)
            if places is None or places == info.places:
                continue
            if places.partitions > info.partitions:
                has_grown = True
                continue
            with self._lock:
                if self._known.get(name) is info:
                    self._take(name, replace(info, places=places, recorded_partitions=places.partitions))
        return has_grown

    def place(self, name: str, unit: bytes) -> int:
        """Where the next message of a known destination's unit goes, recorded first where it must be.

        Raises:
            OrderError: it cannot be recorded, and nothing may be sent.
        """
        info = self.known(name)
        assert info is not None, name
        assert self._places is not None, name
        partition = self._places.claimed(name, info.topic_id, unit)
        self.follow_places()
        return partition

    def place_all(self, records: Sequence[Outgoing]) -> None:
        """Have records, which were routed when they were sent, go where their units are now.

        Raises:
            KafkaClientError: that cannot be read or recorded now.
        """
        moved = [record for record in records if record.key and record.topic in self.moved]
        if not moved or self._places is None:
            return
        for record in moved:
            info = self.known(record.topic)
            if info is not None and record.key:
                self._places.want_if_moving(record.topic, info.topic_id, record.key)
        self._places.claim_wanted()
        for record in moved:
            try:
                record.partition = self.place(record.topic, record.key or b"")
            except OrderError as error:
                raise KafkaClientError(str(error)) from None

    def route_anew(self, records: Sequence[Outgoing]) -> None:
        """Have records, which were routed long ago and maybe by another process, go where their units are now.

        Raises:
            KafkaClientError: that cannot be read or recorded now.
        """
        names = {record.topic for record in records if record.key}
        if self._places is None or self._registry is None or not names:
            return
        self._registry.refresh()
        found = self._admin.describe(sorted(names))
        for record in records:
            topic = found.get(record.topic)
            if record.key and topic is not None and self._places.of(record.topic, topic.topic_id) is not None:
                try:
                    record.partition = self._places.claimed(record.topic, topic.topic_id, record.key)
                except OrderError as error:
                    raise KafkaClientError(str(error)) from None

    @property
    def moved(self) -> frozenset[str]:
        """Topics of which what was routed earlier and is sent later is looked at again; see Places."""
        return frozenset() if self._places is None else self._places.moved

    def follow_pauses(self) -> None:
        """Go by what the registry said last of where nothing may be sent."""
        paused = frozenset(name for name in list(self._known) if self._is_paused(name))
        if paused != self._paused:
            self._paused = paused

    def check_sendable(self, destination: Destination) -> None:
        """Return when messages may be sent to a destination that is known.

        Raises:
            IllegalStateError: sending is paused.
        """
        if self._registry is not None:
            self._registry.pauses.check_sendable(destination)

    def _is_paused(self, name: str) -> bool:
        return self._registry is not None and self._registry.pauses.of(name).production is not None

    def _accept(self, destination: Destination, found: TopicDescription) -> TopicInfo:
        if "compact" in found.config.get("cleanup.policy", "delete"):
            raise InvalidDestinationError(
                f"{destination}: its Kafka topic is compacted, which deletes messages that were not received; "
                f"a destination needs cleanup.policy=delete",
                destination=destination.name,
            )
        self._check_kind(destination, found)
        self._own.ensure_changelog(destination, found)
        info = self._with_places(destination.name, found)
        self._note_maker(destination, found)
        self._destinations[destination.name] = destination
        if self._is_paused(destination.name):
            self._paused |= {destination.name}
        self._take(destination.name, info)
        return self._known[destination.name]

    def _note_maker(self, destination: Destination, found: TopicDescription) -> None:
        """Record a topic as made by us where that is missing: its maker may have died, or lost Kafka, before it did.

        It is told by the configuration, which has a value that no broker and no version before the record gave.
        """
        registry, name = self._registry, destination.name
        is_ours = DESTINATION_CONFIG.items() <= found.config.items()
        if registry is None or not is_ours or registry.is_made_by_us(name, found.topic_id):
            return
        if registry.is_adopted(name, found.topic_id):  # a copy has its source's configuration (decision 98)
            return
        try:
            registry.note_made(name, found.topic_id)
        except KafkaClientError as error:  # whoever looks next does it; until then nothing is deleted, which is no harm
            log.info("%s: that jbm-kafka made its topic is recorded another time: %s", destination, error)

    def _with_places(self, name: str, found: TopicDescription) -> TopicInfo:
        if self._registry is None or self._places is None:
            return _info(found)
        recorded = self._registry.ensure(name, found.topic_id, found.partitions)
        if recorded != found.partitions:  # perhaps that is being admitted since the registry was read
            self._registry.refresh()
        places = self._places.of(name, found.topic_id)
        return _info(found, recorded if places is None else places.partitions, places)

    def _take(self, name: str, info: TopicInfo) -> None:
        before = self.known(name)
        if self._places is not None and before is not None and before.places != info.places:
            self._places.note_moved(info.topic)
        if self._known.get(name) != info:  # the same one stays: what is derived from it stays good
            self._known[name] = info

    def _check_kind(self, destination: Destination, found: TopicDescription) -> None:
        """A name is a queue or a topic, in one namespace; its first user decides."""
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

    def _missing(self, destination: Destination, because: str = "") -> InvalidDestinationError:
        """The error for a destination that does not exist and must not be made, with what makes it."""
        kind = "topic" if isinstance(destination, Topic) else "queue"
        make = f"make it with Admin.create_{kind}({destination.name!r}), or by sending to it with auto_create=True"
        create = make if self._is_in_memory else _create(destination)
        return InvalidDestinationError(
            f"{destination}: there is no Kafka topic {destination.name!r}; {create}{because}",
            destination=destination.name,
        )

    def _describe(self, destination: Destination) -> TopicDescription | None:
        topic = destination.kafka_topic(self._namespace)
        return self._admin.describe([topic], with_config=True).get(topic)

    def _create(self, destination: Destination, partitions: int, message_bytes_min: int) -> None:
        """Make its topic; somebody else may be quicker."""
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


NOT_MADE = (
    ". Its first use does not create it: this connection, or another one that this process has open to the same "
    "cluster, was made with auto_create=False, as those of an Admin are"
)
"""Connections of a process share a sidecar: one that does not set auto_create takes what the first one set."""


def _other_kind(destination: Destination) -> InvalidDestinationError:
    is_topic = isinstance(destination, Topic)
    its, wanted = ("queue", "topic") if is_topic else ("topic", "queue")
    return InvalidDestinationError(
        f"{destination}: {destination.name!r} is a {its}, and a name is either; use create_{its}({destination.name!r}) "
        f"or another name for the {wanted}",
        destination=destination.name,
        kind=its,
    )


def _create(destination: Destination) -> str:
    option = " --topic" if isinstance(destination, Topic) else ""
    return f"create it with: jbm-kafka create {destination.name}{option}"


def gone(topic: str, *, about: str) -> InvalidDestinationError:
    """Return what is said when a destination's topic was there and is not any more."""
    return InvalidDestinationError(
        f"{about}: its Kafka topic {topic!r} was deleted, or created again with fewer partitions; nothing was sent. "
        f"Send again, which creates it unless auto_create is False, or create it first (jbm-kafka create {topic}, or "
        f"Admin.create_queue)",
        destination=topic,
    )


def gone_while_received(destination: Destination, topic: str, *, about: str) -> InvalidDestinationError:
    """The error for receivers of a destination whose topic is not there any more."""
    option, kind = (" --topic", "topic") if isinstance(destination, Topic) else ("", "queue")
    return InvalidDestinationError(
        f"{about}: its Kafka topic {topic!r} was deleted, and what it held is gone. Make a consumer again, which "
        f"creates it unless auto_create is False, or create it first (jbm-kafka create {destination.name}{option}, or "
        f"Admin.create_{kind})",
        destination=destination.name,
    )


def _info(found: TopicDescription, recorded_partitions: int = 0, places: UnitPlaces | None = None) -> TopicInfo:
    is_log_append_time = found.config.get("message.timestamp.type") == "LogAppendTime"
    keeps_compression = found.config.get("compression.type", "producer") in ("producer", *TRUSTED_COMPRESSION)
    return TopicInfo(
        found.name,
        found.topic_id,
        found.partitions,
        size_of(found),
        is_log_append_time,
        keeps_compression,
        recorded_partitions,
        places,
    )


def _is_ours(found: TopicDescription) -> bool:
    """It has the configuration that we give and no broker's defaults do: we created it, or somebody in our place."""
    return all(found.config.get(name) == value for name, value in KEPT_CONFIG.items())
