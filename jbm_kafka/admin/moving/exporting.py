"""Writes the contents of a queue or topic as the rows of a file. It only looks: the exported messages stay where they
are."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from jbm_kafka.admin.cluster.admin_core import AdminCore
from jbm_kafka.admin.moving.export_file import write_export
from jbm_kafka.browsing.takeover import Takeover
from jbm_kafka.codec.exported_rows import (
    QUEUE_KIND,
    ExportedChannel,
    ExportedDestination,
    ExportedEnd,
    ExportedHolder,
    ExportedMessage,
    ExportedPartition,
    ExportedRow,
)
from jbm_kafka.codec.identity import message_id_of
from jbm_kafka.codec.registry_records import SubscriptionRecord, owner_of
from jbm_kafka.core.destination import Queue, Topic
from jbm_kafka.core.jms_errors import IllegalStateError, InvalidDestinationError
from jbm_kafka.ports import TopicDescription


@dataclass(frozen=True, slots=True)
class ExportReport:
    """The messages that were written into a file."""

    destination: Queue | Topic
    """The destination that was exported."""
    file: str
    """Where."""
    messages: int
    """So many the file has."""
    subscriptions: tuple[str, ...]
    """The durable subscriptions that the file has, by their full names; empty for a queue."""
    uncommitted: int
    """Records that nobody can read before a Kafka transaction ends. They are not in the file."""
    members: int
    """Processes that receive now: what they settle from now on is in the file all the same."""


def export(core: AdminCore, destination: Queue | Topic, path: Path) -> ExportReport:
    """Write what it holds; see `Admin.export_messages`."""
    topic = core.catalog.described(destination)
    if topic is None:
        raise core.catalog.missing(destination)
    records: Sequence[SubscriptionRecord] = ()
    if isinstance(destination, Topic):
        found = core.catalog.records_of(destination)
        records = [each for each in found if each.subscription.is_durable and each.topic_id == topic.topic_id]
    groups = [core.group(each) for each in records] if isinstance(destination, Topic) else [core.group(destination)]
    count = 0

    def rows(look: Takeover) -> Iterator[ExportedRow]:
        nonlocal count
        yield _head(core, destination, topic, records)
        for partition in range(topic.partitions):
            remembered = look.remembered(partition)
            channels = (ExportedChannel(place, fetched, ids) for place, (fetched, ids) in enumerate(remembered))
            yield ExportedPartition(partition, tuple(channels))
            for record, states in look.held(partition):
                count += 1
                offset, headers, (kind, at_ms) = cast(int, record.offset()), record.headers() or (), record.timestamp()
                yield ExportedMessage(
                    partition,
                    offset,
                    record.key(),
                    record.value(),
                    headers,
                    kind,
                    at_ms,
                    message_id_of(headers, topic.name, partition, offset),
                    states,
                )
        yield ExportedEnd(count)

    with closing(core.kafka.log_reader()) as reader:
        look = Takeover(groups, topic, core.admin, reader)
        if look.branches:
            raise IllegalStateError(
                f"export {destination}: {len(look.branches)} prepared branches of transactions hold messages of it, "
                f"and nobody knows yet what becomes of them: jbm-kafka prepared list shows them; their transaction "
                f"manager ends them, or jbm-kafka prepared resolve",
                destination=destination.name,
            )
        write_export(path, rows(look))
    members = sum(core.admin.group_members(group.group_id) for group in groups)
    names = tuple(each.subscription.full_name for each in records)
    return ExportReport(destination, str(path), count, names, look.uncommitted, members)


def _head(
    core: AdminCore, destination: Queue | Topic, topic: TopicDescription, records: Sequence[SubscriptionRecord]
) -> ExportedDestination:
    core.registry.refresh()
    places = core.registry.places.of(destination.name, topic.topic_id)
    if places is not None and places.next_partitions:
        raise InvalidDestinationError(
            f"export {destination}: an admission of {places.next_partitions} partitions has begun and not ended, so "
            f"units are on their way: end it first, with jbm-kafka admit-partitions {destination.name}",
            destination=destination.name,
        )
    values = core.registry.log.values()
    return ExportedDestination(
        export_id=secrets.token_hex(8),
        made_at_ms=core.cluster.clock.now_ms(),
        cluster_id=core.admin.cluster_id(),
        namespace=core.namespace,
        kind=destination.kind,
        name=destination.name,
        topic_id=topic.topic_id,
        partitions=topic.partitions,
        unit_partitions=topic.partitions if places is None else places.partitions,
        paths=() if places is None else tuple((unit, path.partition) for unit, path in places.paths.items()),
        holders=tuple(_holder(each, owner_of(values, core.group(each).group_id, each.incarnation)) for each in records)
        or (() if isinstance(destination, Topic) else (ExportedHolder(QUEUE_KIND),)),
    )


def _holder(record: SubscriptionRecord, owner: str) -> ExportedHolder:
    its = record.subscription
    return ExportedHolder(its.kind.value, its.client_id, its.name, its.selector, its.no_local, owner)
