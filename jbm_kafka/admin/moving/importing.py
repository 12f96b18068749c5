"""Puts what a file has behind what a queue or topic holds, each message with its past, once (decision 97)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from jbm_kafka.admin.cluster.admin_core import AdminCore
from jbm_kafka.admin.moving.channel_writer import ChannelWriter
from jbm_kafka.admin.moving.export_file import check_export, read_export
from jbm_kafka.admin.moving.sole_members import sole_members
from jbm_kafka.codec.dead_letter import identified_headers
from jbm_kafka.codec.exported_rows import (
    ExportedChannel,
    ExportedDestination,
    ExportedHolder,
    ExportedMessage,
    ExportedPartition,
)
from jbm_kafka.codec.registry_records import (
    SubscriptionRecord,
    decode_subscription,
    encode_owner,
    encode_subscription,
    owner_key,
    subscription_key,
)
from jbm_kafka.core.channel.entries import Entry, SeenId
from jbm_kafka.core.channel.restoring import Restored
from jbm_kafka.core.channel.unit_places import Path as UnitPath
from jbm_kafka.core.channel.unit_places import UnitPlaces
from jbm_kafka.core.destination import Queue, Topic
from jbm_kafka.core.jms_errors import IllegalStateError, InvalidDestinationError
from jbm_kafka.core.subscription import Subscription, SubscriptionKind
from jbm_kafka.ports import Outgoing
from jbm_kafka.ports.provider import TopicInfo
from jbm_kafka.registry.channel_group import ChannelGroup
from jbm_kafka.registry.other_namespaces import namespaces_among
from jbm_kafka.registry.registry_log import Changes, Values
from jbm_kafka.registry.subscriptions import begun
from jbm_kafka.registry.topic_configs import DEFAULT_MAX_MESSAGE_BYTES
from jbm_kafka.registry.topics import Topics

SLICE_MESSAGES = 1_000
SLICE_BYTES = 4 * 2**20
RECORD_OVERHEAD_BYTES = 1_024
"""Room for what a batch and our headers add to a record."""


@dataclass(frozen=True, slots=True)
class ImportReport:
    """The outcome for a file's messages."""

    destination: Queue | Topic
    """Where they are."""
    messages: int
    """So many were written now."""
    present: int
    """So many were there already, by an import of the same file before."""
    subscriptions: tuple[str, ...]
    """The durable subscriptions that the topic has now, by their full names; empty for a queue."""


def import_file(core: AdminCore, path: Path, to: Queue | Topic | str | None) -> ImportReport:
    """Put what the file has into its destination, or into `to`; see `Admin.import_messages`."""
    checked = check_export(path)
    head = checked.head
    named = head.name if to is None else to
    target = (Queue if head.kind == Queue.kind else Topic)(named) if isinstance(named, str) else named
    if target.kind != head.kind:
        raise InvalidDestinationError(
            f"{path}: it is of the {head.kind} {head.name!r}, and {target} is a {target.kind}; name a {head.kind}",
            destination=target.name,
        )
    info = _destination(core, target, head, checked.largest)
    groups, names = _groups(core, target, head, info)
    written = 0
    with (
        sole_members(core.kafka, core.admin, groups) as members,
        closing(core.kafka.log_reader()) as reader,
        ChannelWriter(core, groups, members, info, f"jbm.import.{head.export_id}", reader) as writer,
    ):
        for slice_ in _slices(path):
            written += _write(writer, slice_, checked.identified)
    return ImportReport(target, written, checked.messages - written, names)


# -- where it goes -----------------------------------------------------------------------------------------------------


def _destination(core: AdminCore, target: Queue | Topic, head: ExportedDestination, largest: int) -> TopicInfo:
    """Its topic, made now if it is not there."""
    core.registry.refresh()
    found = core.catalog.described(target)
    if found is not None:
        _check_other(core, target, head, found.topic_id, found.partitions)
    topics = Topics(core.admin, namespace=core.namespace, registry=core.registry)
    needed = largest + RECORD_OVERHEAD_BYTES
    needed = needed if needed > DEFAULT_MAX_MESSAGE_BYTES else 0  # else what the brokers' default says
    info = topics.ensure(target, create=True, partitions=head.partitions, message_bytes_min=needed)
    if info.partitions != head.partitions:  # made by others meanwhile
        raise _other_partitions(target, info.partitions, head)
    places = core.registry.places.of(target.name, info.topic_id)
    wanted = UnitPlaces(head.unit_partitions, paths={unit: UnitPath(p) for unit, p in head.paths})
    if places != wanted:
        if any(core.admin.end_positions(info.topic, range(info.partitions), stable=False).values()):
            raise InvalidDestinationError(
                f"{target} has units in other partitions than the file (more were admitted, here or there): import it "
                f"into a name that is not there yet",
                destination=target.name,
            )
        core.registry.places.change(target.name, info.topic_id, lambda _: wanted)
    return info


def _check_other(
    core: AdminCore, target: Queue | Topic, head: ExportedDestination, topic_id: str, partitions: int
) -> None:
    """A topic that is there: it is another one, and nobody else's."""
    if topic_id == head.topic_id:
        raise InvalidDestinationError(
            f"{target} is where the file is from, and its messages are in its log: import it under another name, and "
            f"move from there what is to come back",
            destination=target.name,
        )
    if partitions != head.partitions:
        raise _other_partitions(target, partitions, head)
    if isinstance(target, Queue):
        others = sorted(set(namespaces_among(target, core.admin.groups())) - {core.namespace})
        if others:
            raise InvalidDestinationError(
                f"{target}: others receive from its topic in {' and '.join(repr(each) for each in others)} (a "
                f"namespace), and would get what is imported: import it under another name",
                destination=target.name,
            )


def _other_partitions(target: Queue | Topic, partitions: int, head: ExportedDestination) -> InvalidDestinationError:
    return InvalidDestinationError(
        f"{target} has {partitions} partitions, and in the file they are {head.partitions}: import it into a name that "
        f"is not there yet, or make it with so many",
        destination=target.name,
        partitions=partitions,
    )


def _groups(
    core: AdminCore, target: Queue | Topic, head: ExportedDestination, info: TopicInfo
) -> tuple[list[ChannelGroup], tuple[str, ...]]:
    """Return those that hold the messages, in the order of the file's holders; of a topic its subscriptions are
    made."""
    if isinstance(target, Queue):
        return [ChannelGroup.of_queue(target, namespace=core.namespace, partitions=info.partitions)], ()
    records = [_subscribed(core, target, each, head, info) for each in head.holders]
    mine = {each.subscription for each in records}
    others = [each.subscription.full_name for each in core.catalog.records_of(target) if each.subscription not in mine]
    if others:
        raise IllegalStateError(
            f"{target} has subscriptions that the file does not have ({', '.join(sorted(others))}), which would "
            f"get its messages, too: end them, or import it under another name",
            destination=target.name,
        )
    groups = [
        ChannelGroup.of_subscription(each.subscription, each, namespace=core.namespace, partitions=info.partitions)
        for each in records
    ]
    return groups, tuple(each.subscription.full_name for each in records)


def _subscribed(
    core: AdminCore, topic: Topic, holder: ExportedHolder, head: ExportedDestination, info: TopicInfo
) -> SubscriptionRecord:
    """The subscription, made now unless this file's import made it before."""
    wanted = Subscription(
        topic, SubscriptionKind(holder.kind), holder.name, holder.client_id, holder.no_local, selector=holder.selector
    )
    group = wanted.group_id(core.namespace)
    made: list[SubscriptionRecord] = []

    def claim(values: Values) -> Changes:
        value = values.get(subscription_key(group))
        found = None if value is None else decode_subscription(value)
        if found is not None and (found.incarnation, found.topic_id) == (head.export_id, info.topic_id):
            made[:] = [found]
            return {}
        if found is not None and not found.is_ending:
            raise IllegalStateError(
                f"{wanted} is there already, and is another one than that of the file: end it (jbm-kafka subscriptions "
                f"delete), or import the file under another name",
                destination=topic.name,
                name=wanted.name,
            )
        made[:] = [begun(wanted, info, head.export_id, core.admin, core.cluster.clock.now_ms())]
        owner = {owner_key(group): encode_owner(head.export_id, holder.owner)} if holder.owner else {}
        return {subscription_key(group): encode_subscription(made[0]), **owner}

    core.registry.log.update(claim)
    return made[0]


# -- what goes there ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Slice:
    """Messages of one partition that are written together."""

    head: ExportedPartition
    first: int
    """The place of its first message in the partition's part of the file."""
    messages: Sequence[ExportedMessage]


def _slices(path: Path) -> Iterator[Slice]:
    """All that the file has, in its order. A partition that only remembers ids is a slice without messages."""
    head: ExportedPartition | None = None
    first = size = 0
    kept: list[ExportedMessage] = []
    for row in read_export(path):
        is_full = len(kept) >= SLICE_MESSAGES or size >= SLICE_BYTES
        if head is not None and kept and (is_full or not isinstance(row, ExportedMessage)):
            yield Slice(head, first, kept)
            first, size, kept = first + len(kept), 0, []
        if isinstance(row, ExportedMessage):
            kept.append(row)
            size += len(row.value or b"")
            continue
        if head is not None and not first and any(channel.ids for channel in head.channels):
            yield Slice(head, 0, ())
        head, first = row if isinstance(row, ExportedPartition) else None, 0


def _write(writer: ChannelWriter, slice_: Slice, identified: Collection[tuple[int, int, int]]) -> int:
    """Write what of it was not written before; how many messages that was."""
    partition = slice_.head.partition
    done = writer.done(partition)
    left = slice_.messages[max((done or 0) - slice_.first, 0) :]
    if not left and done is not None:
        return 0
    channels = slice_.head.channels
    known: dict[int, tuple[SeenId, ...]] = {}
    if done is None and any(channel.ids for channel in channels):
        # No message will ever be there, and so each that has one of these ids repeats it. A message that is held must
        # not: its own place is remembered with it.
        nowhere = writer.nowhere(partition)
        known = {
            each.holder: tuple(
                replace(row, offset=nowhere)
                for row in each.ids
                if (each.holder, partition, row.offset) not in identified
            )
            for each in channels
        }

    def entries(offsets: Sequence[int], checkpoint_id: str) -> list[Sequence[Entry]]:
        placed = list(zip(left, offsets, strict=True))
        return [
            writer.channel(each.holder, partition).put(
                [_restored(each, message, offset) for message, offset in placed],
                (*known.get(each.holder, ()), *_moved_ids(each, placed)),
                checkpoint_id,
            )
            for each in channels
        ]

    records = [_record(writer.info, partition, message) for message in left]
    writer.write(partition, records, entries, done=slice_.first + len(slice_.messages))
    return len(left)


def _restored(channel: ExportedChannel, message: ExportedMessage, offset: int) -> Restored:
    state = next((each for each in message.states if each.holder == channel.holder), None)
    if state is None:
        return Restored(offset, is_held=False, is_read=message.offset < channel.fetched)
    return Restored(
        offset,
        is_held=True,
        is_read=state.is_read,
        is_seen=state.is_seen,
        attempts=state.attempts,
        due_at_ms=state.due_at_ms,
        delay_ms=state.delay_ms,
        unit=message.key or None,
        reason=state.reason,
    )


def _moved_ids(channel: ExportedChannel, placed: Sequence[tuple[ExportedMessage, int]]) -> list[SeenId]:
    """The ids for which messages count that this channel holds: they count where these are now."""
    now = {
        message.offset: offset
        for message, offset in placed
        if any(each.holder == channel.holder and each.is_read for each in message.states)
    }
    return [replace(row, offset=now[row.offset]) for row in channel.ids if row.offset in now] if now else []


def _record(info: TopicInfo, partition: int, message: ExportedMessage) -> Outgoing:
    """The record as it was, and it tells its id and its time of sending, for its place is another one."""
    has_time = message.timestamp_type and message.timestamp_ms > 0
    headers = identified_headers(message.headers, message.message_id, message.timestamp_ms if has_time else 0)
    at_ms = message.timestamp_ms if has_time else None
    return Outgoing(info.topic, partition, message.key, message.value, headers, at_ms, info.max_message_bytes)
