"""Which Kafka topics an installation needs, and what is to be done for those that are not as they are asked for."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from jbm_kafka.core.destination import Destination, colliding_name, with_namespace
from jbm_kafka.core.temporary_name import TEMPORARY_TOPIC
from jbm_kafka.ports import TopicDescription
from jbm_kafka.registry.own_topics import (
    branches_topic,
    bridges_topic,
    commands_topic,
    events_topic,
    ledger_topic,
    registry_topic,
    size_of,
)
from jbm_kafka.registry.topic_configs import (
    CHANGELOG_CONFIG,
    COMMANDS_CONFIG,
    DEFAULT_MAX_MESSAGE_BYTES,
    DESTINATION_CONFIG,
    EVENTS_CONFIG,
    LEDGER_CONFIG,
    MARGIN_BYTES,
    REGISTRY_CONFIG,
    SYSTEM_PARTITIONS,
    TEMPORARY_CONFIG,
)

MIN_ISR = "min.insync.replicas"
MAX_BYTES = "max.message.bytes"


@dataclass(frozen=True, slots=True)
class TopicWish:
    """The topics that are asked for."""

    namespace: str
    destinations: Mapping[Destination, int | None]
    """With their partitions; None: as `partitions`, or as many as there are."""
    letters: Collection[Destination]
    """The dead-letter and expiry addresses."""
    partitions: int
    """The number for topics that are made."""
    events_partitions: int = SYSTEM_PARTITIONS
    max_message_bytes: int | None = None
    """The limit of the destinations' topics; None: the broker's default, or as it is."""
    replication: int | None = None
    """None: the brokers' default, or as it is."""
    min_isr: int | None = None
    """The same."""


@dataclass(slots=True)
class TopicStep:
    """One topic, and what is to be done."""

    topic: str
    role: str
    """In the installation: `queue:orders`, `changelog of queue:orders`, `registry`."""
    is_destination: bool
    """It holds messages: its partitions are its users'."""
    partitions: int
    """So many it has then."""
    config: dict[str, str] = field(default_factory=dict)
    """The configuration of one that is made."""
    is_new: bool = False
    adds_partitions: bool = False
    changes: dict[str, str] = field(default_factory=dict)
    """The changes of one that is there."""
    fault: str = ""
    """Why nothing can be done; nothing of the whole is done then."""
    note: str = ""
    """In what it differs, and that cannot be changed here."""


def steps_to(wish: TopicWish, found: Mapping[str, TopicDescription], names: Collection[str]) -> list[TopicStep]:
    """A step for each topic that the installation needs, in the order in which they are made.

    `found`: those of `topics_of` that are there, with their configuration; `names`: of all topics of the cluster.
    """
    steps = list(_wanted(wish, found))
    together = {*names, *(step.topic for step in steps)}
    return [_compared(step, wish, found.get(step.topic), together) for step in steps]


def topics_of(wish: TopicWish) -> list[str]:
    """The names of all."""
    return [step.topic for step in _wanted(wish, {})]


def _wanted(wish: TopicWish, found: Mapping[str, TopicDescription]) -> Iterator[TopicStep]:
    namespace = wish.namespace
    ours: Mapping[str, tuple[str, int, Mapping[str, str]]] = {
        "registry": (registry_topic(namespace), 1, REGISTRY_CONFIG),
        "events": (events_topic(namespace), wish.events_partitions, EVENTS_CONFIG),
        "commands": (commands_topic(namespace), 1, COMMANDS_CONFIG),
        "temporary destinations": (with_namespace(TEMPORARY_TOPIC, namespace), SYSTEM_PARTITIONS, TEMPORARY_CONFIG),
        "branches of transactions": (branches_topic(namespace), 1, REGISTRY_CONFIG),
        "what bridges have taken on": (bridges_topic(namespace), 1, REGISTRY_CONFIG),
        "what Spark has written": (ledger_topic(namespace), 1, LEDGER_CONFIG),
    }
    for role, (name, partitions, config) in ours.items():
        yield TopicStep(name, role, False, partitions, dict(config))
    largest = 0
    for destination, asked in wish.destinations.items():
        if destination not in wish.letters:
            topic, changelog = _pair(wish, destination, asked, wish.max_message_bytes or 0, found)
            largest = max(largest, int(changelog.config[MAX_BYTES]) - MARGIN_BYTES)
            yield topic
            yield changelog
    for destination in wish.letters:  # a letter has its message whole, and why it is one
        asked = wish.destinations.get(destination)
        yield from _pair(wish, destination, asked, largest + MARGIN_BYTES if largest else 0, found)


def _pair(
    wish: TopicWish, destination: Destination, asked: int | None, size: int, found: Mapping[str, TopicDescription]
) -> tuple[TopicStep, TopicStep]:
    """The topic of a destination, with room for messages of `size` (0: the default), and its changelog."""
    name = destination.kafka_topic(wish.namespace)
    there = found.get(name)
    partitions = asked or (wish.partitions if there is None else there.partitions)
    topic = TopicStep(name, str(destination), True, partitions, dict(DESTINATION_CONFIG))
    if size:
        topic.config[MAX_BYTES] = str(size)
    room = max(size or DEFAULT_MAX_MESSAGE_BYTES, 0 if there is None else size_of(there)) + MARGIN_BYTES
    config = {**CHANGELOG_CONFIG, MAX_BYTES: str(room)}
    changelog = destination.changelog_topic(wish.namespace)
    return topic, TopicStep(changelog, f"changelog of {destination}", False, partitions, config)


def _compared(step: TopicStep, wish: TopicWish, found: TopicDescription | None, names: Collection[str]) -> TopicStep:
    """The step, with what is to be done for a topic that is there so, or is not."""
    if wish.min_isr is not None:
        step.config[MIN_ISR] = str(wish.min_isr)
    if found is None:
        step.is_new = True
        other = colliding_name(step.topic, names)
        if other is not None:
            step.fault = f"Kafka cannot hold it beside the topic {other}: names that differ only in '.' and '_' collide"
        return step
    if step.is_destination and "compact" in found.config.get("cleanup.policy", ""):
        step.fault = "it is compacted, which deletes messages that were not received: make it anew, or name another"
    elif found.partitions < step.partitions and step.is_destination:
        remedy = f"jbm-kafka admit-partitions {step.topic} --partitions {step.partitions}"
        step.fault = f"it has {found.partitions} partitions, not {step.partitions}; to have more, in order: {remedy}"
    elif found.partitions < step.partitions:
        step.adds_partitions = True
    elif found.partitions > step.partitions:
        if step.is_destination:
            step.fault = f"it has {found.partitions} partitions, not {step.partitions}, and Kafka takes none away"
        step.partitions = found.partitions
    if int(step.config.get(MAX_BYTES, 0)) > size_of(found):
        step.changes[MAX_BYTES] = step.config[MAX_BYTES]
    if wish.min_isr is not None and found.config.get(MIN_ISR) != str(wish.min_isr):
        step.changes[MIN_ISR] = str(wish.min_isr)
    if wish.replication is not None and found.replicas != wish.replication:
        step.note = (
            f"replication is {found.replicas}, not {wish.replication}: kafka-reassign-partitions.sh changes that"
        )
    return step
