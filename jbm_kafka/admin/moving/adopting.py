"""A topic that others copied is taken as it is: its receivers begin where the operator says (decision 98)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Literal

from jbm_kafka.admin.cluster.admin_core import AdminCore
from jbm_kafka.admin.cluster.catalog import DEFAULT_PARTITIONS
from jbm_kafka.admin.moving.channel_writer import ChannelWriter
from jbm_kafka.admin.moving.sole_members import sole_members
from jbm_kafka.browsing.browse import READ_TIMEOUT_S
from jbm_kafka.codec.registry_records import (
    SubscriptionRecord,
    decode_subscription,
    encode_subscription,
    subscription_key,
    subscriptions_in,
)
from jbm_kafka.core.channel.entries import Entry, Held, Position
from jbm_kafka.core.destination import Queue, Topic
from jbm_kafka.core.jms_errors import IllegalStateError, InvalidDestinationError, InvalidSettingError
from jbm_kafka.core.wrong_values import wrong_value
from jbm_kafka.ports import LogReader
from jbm_kafka.ports.provider import TopicInfo
from jbm_kafka.registry.channel_group import ChannelGroup
from jbm_kafka.registry.registry_log import Changes, Values
from jbm_kafka.registry.topics import Topics
from jbm_kafka.store.recovered_entries import DecodedChangelog

From = Literal["begin", "end", "held"] | Mapping[int, int]
COMPARED_MAX = 1_000
"""Held messages of a partition whose units are compared with the log."""


@dataclass(frozen=True, slots=True)
class Adoption:
    """How a copied topic was taken."""

    destination: Queue | Topic
    """The destination that was adopted."""
    begins: Mapping[str, Mapping[int, int]]
    """The offset where receivers begin, by subscription, or for a queue by its own name, and by partition."""
    has_held: bool
    """The source's settled messages, attempts, delays and duplicate ids count."""
    records: int
    """From the lowest of these places on, so many records are in the log; some may be settled."""
    is_kept: bool
    """Its log is not truncated by itself: jbm-kafka did not make the topic."""


def adopt(core: AdminCore, destination: Queue | Topic, begin: From) -> Adoption:
    """Take the topic as it is; see `Admin.adopt`."""
    described = core.catalog.described(destination)
    if described is None:
        raise core.catalog.missing(destination)
    core.registry.refresh()
    if not core.registry.is_adopted(destination.name, described.topic_id):
        # First: to take the topic is to know whose it is, and what we made is truncated.
        core.registry.note_adopted(destination.name, described.topic_id)
    topics = Topics(core.admin, namespace=core.namespace, registry=core.registry)
    info = topics.ensure(destination, create=False, partitions=DEFAULT_PARTITIONS)
    places = range(info.partitions)
    bounds = core.admin.begin_positions(info.topic, places), core.admin.end_positions(info.topic, places, stable=True)
    chosen = None if begin == "held" else _chosen(begin, info, *bounds)
    records = _records(core, destination)
    groups = _groups(core, destination, records, info)
    begins: dict[str, dict[int, int]] = {str(_name(group)): {} for group in groups}
    with (
        sole_members(core.kafka, core.admin, groups) as members,
        closing(core.kafka.log_reader()) as reader,
        ChannelWriter(core, groups, members, info, "jbm.adopt", reader) as writer,
    ):
        recorded = {p: [writer.recorded(place, p) for place in range(len(groups))] for p in places}
        received = {p for p, found in recorded.items() if _is_received(writer, groups, found, info)}
        is_whole = all(writer.done(p) is not None for p in places)
        if any(is_whole or writer.done(p) is None for p in received):
            raise _no_copy(destination, groups[0])
        for partition, found in recorded.items():
            if partition not in received:  # else one that was killed did it, and somebody has received since
                positions = [
                    _position(destination, group, its, info, partition, bounds, reader)
                    if chosen is None
                    else _begins_at(group, info, chosen[partition])
                    for group, its in zip(groups, found, strict=True)
                ]

                def entries(
                    _: Sequence[int], checkpoint_id: str, positions: Sequence[Position] = positions
                ) -> list[list[Entry]]:
                    return [[replace(each, checkpoint_id=checkpoint_id)] for each in positions]

                writer.write(partition, (), entries, done=0, is_anew=chosen is not None)
                recorded[partition] = [replace(its, position=each) for its, each in zip(found, positions, strict=True)]
            for group, its in zip(groups, recorded[partition], strict=True):
                assert its.position is not None, group
                begins[_name(group)][partition] = its.position.watermark
    _record_subscriptions(core, records, begins, info)
    lowest = {p: min((each[p] for each in begins.values()), default=bounds[1][p]) for p in places}
    return Adoption(
        destination,
        begins,
        has_held=chosen is None,
        records=sum(max(bounds[1][p] - max(lowest[p], bounds[0][p]), 0) for p in places),
        is_kept=not core.registry.is_made_by_us(destination.name, info.topic_id),
    )


def _chosen(begin: From, info: TopicInfo, begins: Mapping[int, int], ends: Mapping[int, int]) -> Mapping[int, int]:
    if begin == "begin":
        return begins
    if begin == "end":
        return ends
    if not isinstance(begin, Mapping):
        raise wrong_value("begin", begin, "it is 'begin', 'end', 'held', or an offset for each partition, as {0: 12}")
    for partition in range(info.partitions):
        offset = begin.get(partition)
        if offset is None or not begins[partition] <= offset <= ends[partition]:
            raise InvalidSettingError(
                f"begin of partition {partition} is {offset}: the log has {begins[partition]} to {ends[partition]}; "
                f"name an offset of these for each of its {info.partitions} partitions",
                setting="begin",
                value=offset,
            )
    if len(begin) > info.partitions:
        raise wrong_value("begin", begin, f"{info.topic} has {info.partitions} partitions")
    return begin


def _name(group: ChannelGroup) -> str:
    return group.destination.name if group.subscription is None else group.subscription.full_name


def _records(core: AdminCore, destination: Queue | Topic) -> list[SubscriptionRecord]:
    """Durable subscriptions of the topic, of whichever log."""
    core.registry.refresh()
    found = [each for _, each in subscriptions_in(core.registry.log.values()) if not each.is_ending]
    return [each for each in found if each.subscription.topic == destination and each.subscription.is_durable]


def _groups(
    core: AdminCore, destination: Queue | Topic, records: Sequence[SubscriptionRecord], info: TopicInfo
) -> list[ChannelGroup]:
    if isinstance(destination, Queue):
        return [ChannelGroup.of_queue(destination, namespace=core.namespace, partitions=info.partitions)]
    if not records:
        raise InvalidDestinationError(
            f"{destination}: no durable subscription of it is recorded here, and others begin with what is sent from "
            f"then on: there is nothing to adopt; copy {core.registry.log.topic} too, or subscribe, then adopt",
            destination=destination.name,
        )
    return [
        ChannelGroup.of_subscription(each.subscription, each, namespace=core.namespace, partitions=info.partitions)
        for each in records
    ]


def _is_received(
    writer: ChannelWriter, groups: Sequence[ChannelGroup], found: Sequence[DecodedChangelog], info: TopicInfo
) -> bool:
    """A position is about this very topic, and no adoption wrote it."""
    return any(
        its.position is not None
        and its.position.topic_id == group.log_id(info.topic_id)
        and not its.position.checkpoint_id.startswith(f"{writer.transactional_id}:")
        for group, its in zip(groups, found, strict=True)
    )


def _no_copy(destination: Queue | Topic, group: ChannelGroup) -> IllegalStateError:
    return IllegalStateError(
        f"{group}: its changelog is of this very topic, so it is no copy, was adopted, or somebody has received "
        f"from it already; to begin elsewhere reset the offsets of group {group.group_id} with Kafka's tools",
        destination=destination.name,
    )


def _begins_at(group: ChannelGroup, info: TopicInfo, offset: int) -> Position:
    return Position(group.log_id(info.topic_id), "", offset, offset, offset, 0)


def _position(
    destination: Queue | Topic,
    group: ChannelGroup,
    found: DecodedChangelog,
    info: TopicInfo,
    partition: int,
    bounds: tuple[Mapping[int, int], Mapping[int, int]],
    reader: LogReader,
) -> Position:
    """The copied one, of this topic; what it goes with must be in the log at the same offsets."""
    position, begin, end = found.position, bounds[0][partition], bounds[1][partition]
    what = f"{group}: partition {partition}"
    if found.newer or found.corrupt:
        raise _not_equal(
            destination, f"{what}: {len(found.newer) + len(found.corrupt)} records of its changelog cannot be read"
        )
    if position is None:
        if end == begin:
            return _begins_at(group, info, begin)
        raise _not_equal(destination, f"{what} has no position in the changelog {group.changelog_topic}")
    if not begin <= position.watermark <= position.fetched <= end:
        span = f"{position.watermark} to {position.fetched}"
        raise _not_equal(
            destination, f"{what}: its changelog is about offsets {span}, and the log has {begin} to {end}"
        )
    held = [each for each in found.others.values() if isinstance(each, Held) and each.offset >= position.watermark]
    units = {each.offset: each.unit for each in sorted(held, key=lambda each: each.offset)[:COMPARED_MAX] if each.unit}
    if units:
        span_ = min(units), max(units) + 1
        keys = {
            row.offset(): row.key() for row in reader.read(info.topic, {partition: span_}, timeout_s=READ_TIMEOUT_S)
        }
        wrong = [offset for offset, unit in units.items() if keys.get(offset) != unit]
        if wrong:
            raise _not_equal(
                destination, f"{what}: at offset {wrong[0]} the log has another unit than its changelog says"
            )
    return replace(position, topic_id=group.log_id(info.topic_id), truncated=min(position.truncated, begin))


def _not_equal(destination: Queue | Topic, why: str) -> IllegalStateError:
    return IllegalStateError(
        f"{why}: what was held counts only where topic and changelog were copied with equal offsets; name where to "
        f"begin instead: 'begin', 'end' or offsets",
        destination=destination.name,
    )


def _record_subscriptions(
    core: AdminCore,
    records: Sequence[SubscriptionRecord],
    begins: Mapping[str, Mapping[int, int]],
    info: TopicInfo,
) -> None:
    """Have the registry name this topic."""

    def decide(values: Values) -> Changes:
        changes: dict[bytes, bytes | None] = {}
        for each in records:
            key = subscription_key(each.subscription.group_id(core.namespace))
            value = values.get(key)
            now = None if value is None else decode_subscription(value)
            if now is not None and now.incarnation == each.incarnation and now.topic_id != info.topic_id:
                its = begins[each.subscription.full_name]
                places = tuple(its[partition] for partition in range(info.partitions))
                changes[key] = encode_subscription(replace(now, topic_id=info.topic_id, begins=places, holders=()))
        return changes

    if records:
        core.registry.log.update(decide)
