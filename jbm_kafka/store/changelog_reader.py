"""The latest value of every changelog key of one group, from the local journal and from what Kafka has beyond it.

Promise: with or without a journal the same contents come out. A journal counts only when it is of this very changelog
and not ahead of it; whatever is wrong with it, it is discarded and Kafka is read from the beginning.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from jbm_kafka.codec.changelog import decode_entry
from jbm_kafka.core.channel.companion_group import failures_of
from jbm_kafka.core.channel.entries import Position
from jbm_kafka.core.jms_errors import CorruptRecordError
from jbm_kafka.ports import Journal, KafkaAdmin, KafkaRecord, LogReader, UnknownTopic

log = logging.getLogger(__name__)

MADE_ANEW = "the topic was made anew"
"""Why local state does not count; recovery logs it."""

OFFSETS_PER_READ = 50_000
"""Per partition; bounds the records in memory at one time. It doubles while compaction has left little in it."""
CHANGELOG_ID_KEY = b"changelog-id"
"""In the journal only, beside the entries: the Kafka id of the changelog topic they are from. No entry's key is like
it, they all have a `|`."""


@dataclass(frozen=True, slots=True)
class ChangelogScope:
    """Whose changelog is read."""

    group: str
    topic: str
    """The Kafka topic of the messages."""
    topic_id: str
    """Its Kafka id as of now; of a subscription with the subscription's own behind it (ChannelGroup.log_id)."""
    changelog_topic: str
    begins: Mapping[int, int] = field(default_factory=dict)
    """Where a subscription begins, by partition."""
    is_truncated: bool = False
    """We delete what is settled of the topic (decision 73)."""

    def journal_channel(self, partition: int) -> str:
        """The channel's name in the journal; the live path must write under the same."""
        return f"{self.group}|{self.topic}|{partition}"


@dataclass(slots=True)
class ChangelogContents:
    """One partition's part of the group's state, as raw bytes. Filled by one reader."""

    position: int = 0
    """The changelog position up to which it is complete."""
    values: dict[bytes, bytes] = field(default_factory=dict)
    """Latest value by key; deleted keys are not in it."""
    places: dict[bytes, int] = field(default_factory=dict)
    """The changelog offset of those values that were read now and not from the journal."""
    changes: dict[bytes, bytes | None] = field(default_factory=dict)
    """The changes that the journal lacks."""
    changelog_id: str = ""
    """The Kafka id of the topic it was read from; empty: the topic is missing."""

    def take(self, key: bytes, value: bytes | None, offset: int) -> None:
        """One record of the changelog, in offset order."""
        self.changes[key] = value
        if value is None:
            self.values.pop(key, None)
            self.places.pop(key, None)
        else:
            self.values[key] = value
            self.places[key] = offset


def read_changelogs(
    scope: ChangelogScope,
    partitions: Sequence[int],
    *,
    admin: KafkaAdmin,
    reader: LogReader,
    journal: Journal,
    timeout_s: float,
) -> Mapping[int, ChangelogContents]:
    """The contents by partition, up to the changelog's high watermark as of now. The journal then has them too.

    Raises:
        Unreachable: the end was not reached in `timeout_s` (an open transaction of a dead sidecar may hold it back).
    """
    ends, changelog_id = _ends(scope, partitions, admin)
    faults: dict[str, list[str]] = {}
    contents = {p: _from_journal(scope, p, ends[p], changelog_id, journal, faults) for p in partitions}
    for fault, channels in faults.items():
        log.log(
            logging.DEBUG if fault == MADE_ANEW else logging.INFO,
            "local state of %s%s is not used (%s); it is rebuilt from the changelog",
            channels[0],
            f" and of {len(channels) - 1} more like it" if len(channels) > 1 else "",
            fault,
        )
    _read_on(scope, contents, ends, reader, timeout_s)
    batches: dict[str, tuple[int, Mapping[bytes, bytes | None]]] = {}
    for partition, content in contents.items():
        # At position 0 the journal may have nothing yet; it needs the id before the live path writes to it.
        if changelog_id and (content.changes or content.position < ends[partition] or content.position == 0):
            changes = content.changes | {CHANGELOG_ID_KEY: changelog_id}
            batches[scope.journal_channel(partition)] = (ends[partition], changes)
        content.position, content.changelog_id = ends[partition], changelog_id.decode()
    if batches:
        journal.write(batches)
    return contents


def _ends(scope: ChangelogScope, partitions: Sequence[int], admin: KafkaAdmin) -> tuple[Mapping[int, int], bytes]:
    """The high watermarks, and the changelog topic's id. A partition that is not there has nothing in it."""
    description = admin.describe([scope.changelog_topic]).get(scope.changelog_topic)
    if description is None:
        return dict.fromkeys(partitions, 0), b""
    there = [partition for partition in partitions if partition < description.partitions]
    try:
        ends = admin.end_positions(scope.changelog_topic, there, stable=False) if there else {}
    except UnknownTopic:  # deleted between the two questions
        return dict.fromkeys(partitions, 0), b""
    return {partition: ends.get(partition, 0) for partition in partitions}, description.topic_id.encode()


def _from_journal(
    scope: ChangelogScope,
    partition: int,
    end: int,
    changelog_id: bytes,
    journal: Journal,
    faults: dict[str, list[str]],
) -> ChangelogContents:
    """Return what the journal has; where that does not count any more, nothing, and `faults` has the channel by why."""
    channel = scope.journal_channel(partition)
    position, entries = journal.load(channel)
    if position == 0 and not entries:
        return ChangelogContents()
    values = dict(entries)
    fault = _journal_fault(scope, position, values, end=end, changelog_id=changelog_id)
    if fault:
        faults.setdefault(fault, []).append(channel)
        journal.discard(channel)
        return ChangelogContents()
    del values[CHANGELOG_ID_KEY]
    return ChangelogContents(position=position, values=values)


def _journal_fault(
    scope: ChangelogScope, position: int, values: Mapping[bytes, bytes], *, end: int, changelog_id: bytes
) -> str:
    if values.get(CHANGELOG_ID_KEY) != changelog_id:
        return "it is of a changelog that was deleted"
    if position > end:
        return f"it is at {position}, ahead of the changelog's end {end}"
    position_key = f"{scope.group}|position|0".encode()
    if position_key in values:
        try:
            _, entry = decode_entry(position_key, values[position_key])
        except CorruptRecordError as error:
            return str(error)
        if isinstance(entry, Position) and entry.topic_id != scope.topic_id:
            return MADE_ANEW
    return ""


def _read_on(
    scope: ChangelogScope,
    contents: Mapping[int, ChangelogContents],
    ends: Mapping[int, int],
    reader: LogReader,
    timeout_s: float,
) -> None:
    """Read all partitions side by side, slice by slice, from where the journal ends."""
    positions = {partition: content.position for partition, content in contents.items()}
    prefixes = f"{scope.group}|".encode(), f"{failures_of(scope.group)}|".encode()
    step = OFFSETS_PER_READ
    while True:
        open_ends = {p: (begin, min(begin + step, ends[p])) for p, begin in positions.items() if begin < ends[p]}
        if not open_ends:
            return
        records = reader.read(scope.changelog_topic, open_ends, timeout_s=timeout_s, committed_only=True)
        _fold(scope, contents, prefixes, records)
        positions |= {partition: end for partition, (_, end) in open_ends.items()}
        if len(records) < OFFSETS_PER_READ // 4:
            step *= 2


def _fold(
    scope: ChangelogScope,
    contents: Mapping[int, ChangelogContents],
    prefixes: tuple[bytes, ...],
    records: Iterable[KafkaRecord],
) -> None:
    for record in records:
        key, partition, offset = record.key(), record.partition(), record.offset()
        assert partition is not None, "a fetched record has a place"
        assert offset is not None, "a fetched record has a place"
        if key is not None and key.startswith(prefixes):
            contents[partition].take(key, record.value(), offset)
        elif key is None or key.count(b"|") != 2:
            log.warning(
                "%s[%d] at offset %d: a record with the key %r is no entry of a changelog and is ignored; find out "
                "what writes to this topic, only jbm-kafka may",
                scope.changelog_topic,
                partition,
                offset,
                key,
            )
