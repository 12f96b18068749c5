"""Counts subscriptions, and what of their topics each of them still needs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from jbm_kafka.codec.reader_record import RegisteredReader
from jbm_kafka.codec.registry_records import SubscriptionRecord, owner_of, subscriptions_in
from jbm_kafka.core.destination import Topic
from jbm_kafka.core.jms_errors import IllegalStateError, InvalidDestinationError
from jbm_kafka.core.subscription import SubscriptionKind
from jbm_kafka.core.summary import summary
from jbm_kafka.ports import KafkaAdmin, TopicDescription
from jbm_kafka.registry.readers import private_readers
from jbm_kafka.registry.registry_log import RegistryLog


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionCounts:
    """One subscription at one moment."""

    topic: Topic
    """Whose subscription it is."""
    name: str
    """As it was made; the private ones that a process has are one row, whose name is the process's reader."""
    client_id: str
    """Empty: none."""
    kind: str
    """`durable`, `shared-durable`, `shared` or `private`."""
    no_local: bool
    """It does not have what its own connection sends."""
    selector: str
    """Which messages it has, in its normal form; empty: every one."""
    group: str
    """Kafka's own tools show the subscription under this consumer group; empty: private ones have none."""
    members: int
    """Processes that receive from it now."""
    created_ms: int
    """When it was made, ms since the epoch; of private ones when their process told last how far they are."""
    pins: Mapping[int, int]
    """The offset of the oldest message that it has not settled, by partition: from there on the log must be kept."""
    held_at_most: int
    """Records from there on: what waits, and a few that are settled or are marks of transactions."""
    owner: str = ""
    """The AMQP user whose it is; empty: nobody's."""

    def __repr__(self) -> str:
        return summary(
            self,
            self.topic,
            name=self.name,
            client_id=self.client_id,
            kind=self.kind,
            no_local=self.no_local,
            selector=self.selector,
            members=self.members,
            owner=self.owner,
            held_at_most=self.held_at_most,
        )


def subscription_counts(
    registry: RegistryLog, admin: KafkaAdmin, namespace: str, topic: Topic | None, *, now_ms: int
) -> list[SubscriptionCounts]:
    """Return those of the topic, or all, by topic and group. Those that are ending do not count.

    Raises:
        KafkaClientError: no answer.
    """
    registry.refresh()
    records = [record for _, record in subscriptions_in(registry.values()) if not record.is_ending]
    wanted = [record for record in records if topic is None or record.subscription.topic == topic]
    readers = [
        reader
        for reader in private_readers(registry.values(), now_ms)
        if topic is None or reader.topic == topic.kafka_topic(namespace)
    ]
    names = {record.subscription.topic.kafka_topic(namespace) for record in wanted}
    described = admin.describe(sorted(names | {reader.topic for reader in readers}))
    found = [
        replace(
            _counts(record, admin, namespace, described[record.subscription.topic.kafka_topic(namespace)]),
            owner=owner_of(registry.values(), record.subscription.group_id(namespace), record.incarnation),
        )
        for record in wanted
        if record.subscription.topic.kafka_topic(namespace) in described
    ]
    found += [_private(reader, admin, described[reader.topic]) for reader in readers if reader.topic in described]
    return sorted(found, key=lambda each: (each.topic.name, each.group, each.name))


def _private(reader: RegisteredReader, admin: KafkaAdmin, topic: TopicDescription) -> SubscriptionCounts:
    places = list(range(topic.partitions))
    log_begins, ends = admin.begin_positions(topic.name, places), admin.end_positions(topic.name, places, stable=True)
    known = reader.positions if reader.topic_id == topic.topic_id else {}
    pins = {place: max(known.get(place, 0), log_begins[place]) for place in places}
    return SubscriptionCounts(
        topic=Topic(topic.name),
        name=reader.name,
        client_id="",
        kind=SubscriptionKind.PRIVATE.value,
        no_local=False,
        selector="",
        group="",
        members=1,
        created_ms=reader.at_ms,
        pins=pins,
        held_at_most=sum(max(ends[place] - pins[place], 0) for place in places),
    )


def _counts(
    record: SubscriptionRecord, admin: KafkaAdmin, namespace: str, topic: TopicDescription
) -> SubscriptionCounts:
    subscription = record.subscription
    group, places = subscription.group_id(namespace), list(range(topic.partitions))
    begins = dict(enumerate(record.begins)) if record.topic_id == topic.topic_id else {}
    log_begins = admin.begin_positions(topic.name, places)
    committed = admin.committed(group, topic.name, places)
    ends = admin.end_positions(topic.name, places, stable=True)
    pins = {
        place: max(committed[place].position if place in committed else begins.get(place, 0), log_begins[place])
        for place in places
    }
    return SubscriptionCounts(
        topic=subscription.topic,
        name=subscription.name,
        client_id=subscription.client_id,
        kind=subscription.kind.value,
        no_local=subscription.no_local,
        selector=subscription.selector,
        group=group,
        members=admin.group_members(group),
        created_ms=record.created_ms,
        pins=pins,
        held_at_most=sum(max(ends[place] - pins[place], 0) for place in places),
    )


def to_be_ended(found: Iterable[SubscriptionCounts], name: str, client_id: str) -> SubscriptionCounts:
    """The durable subscription of this name, which nobody receives from.

    Raises:
        InvalidDestinationError: it does not exist.
        IllegalStateError: processes receive from it.
    """
    meant = durable_of(found, name, client_id)
    if meant.members:
        raise IllegalStateError(
            f"the subscription {name!r} of {meant.topic} is in use: {meant.members} processes receive from it "
            f"(consumer group {meant.group}); stop them first",
            name=name,
            members=meant.members,
        )
    return meant


def durable_of(found: Iterable[SubscriptionCounts], name: str, client_id: str) -> SubscriptionCounts:
    """The durable subscription of this name, of that client id.

    Raises:
        InvalidDestinationError: it does not exist.
    """
    durable = [each for each in found if each.kind in ("durable", "shared-durable")]
    for each in durable:
        if (each.name, each.client_id) == (name, client_id):
            return each
    others = [each.client_id for each in durable if each.name == name]
    ids = ", ".join(repr(each) if each else "none" for each in others)
    hint = (
        f"one of this name has client id {ids}"
        if others
        else "Admin.subscriptions() has all, and jbm-kafka subscriptions list shows them"
    )
    fault = f"there is no durable subscription {name!r} with client id {client_id!r}"
    if not client_id:
        fault = f"there is no durable subscription {name!r}"
        if others:
            fault = f"durable subscription {name!r}: give the client id that it belongs to"
    raise InvalidDestinationError(f"{fault}: {hint}", name=name, client_id=client_id)
