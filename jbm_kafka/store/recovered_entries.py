"""Changelog values as entries, cut to what a channel may still believe. Pure."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace

from pyroaring import BitMap

from jbm_kafka.codec.changelog import decode_entry
from jbm_kafka.core.channel.entries import (
    BLOCK_BITS,
    BLOCK_OFFSETS,
    Attempted,
    Duplicates,
    Entry,
    Failure,
    FailureGone,
    Held,
    HeldGone,
    OffsetRange,
    Parked,
    ParkedGone,
    Position,
    Prepared,
    Settled,
)
from jbm_kafka.core.jms_errors import CorruptRecordError, NewerRecordError


@dataclass(frozen=True, slots=True)
class DecodedChangelog:
    """One channel's changelog, read."""

    position: Position | None
    others: Mapping[bytes, Entry]
    """All entries but the position, by changelog key."""
    corrupt: Mapping[bytes, CorruptRecordError]
    """Damaged entries, by changelog key."""
    newer: Mapping[bytes, NewerRecordError]
    """Entries that only a newer version can read, by changelog key."""


def decode_values(values: Mapping[bytes, bytes]) -> DecodedChangelog:
    """The entries; a value that cannot be read is set aside and spoils no other."""
    position: Position | None = None
    others: dict[bytes, Entry] = {}
    corrupt: dict[bytes, CorruptRecordError] = {}
    newer: dict[bytes, NewerRecordError] = {}
    for key, value in values.items():
        try:
            _, entry = decode_entry(key, value)
        except NewerRecordError as error:
            newer[key] = error
            continue
        except CorruptRecordError as error:
            corrupt[key] = error
            continue
        if isinstance(entry, Position):
            position = entry
        else:
            others[key] = entry
    return DecodedChangelog(position, others, corrupt, newer)


def cut_entry(entry: Entry, *, begin: int, end: int, parked: Container[int] = ()) -> Entry | None:
    """The entry as far as it is about offsets in [begin, end), or about what is parked below; None when it is not."""
    match entry:
        case Held(offset=offset) | Failure(offset=offset):
            return entry if begin <= offset < end or offset in parked else None
        case Parked(offset=offset):
            return entry if offset < end else None
        case Attempted(block, bitmap) if bitmap is not None and (block + 1) << BLOCK_BITS <= begin:
            base = block << BLOCK_BITS
            within = BitMap(relative for relative in BitMap.deserialize(bitmap) if base + relative in parked)
            return replace(entry, bitmap=within.serialize()) if within else None
        case Settled(block, bitmap) | Attempted(block, bitmap):
            first = block << BLOCK_BITS
            if bitmap is None or first + BLOCK_OFFSETS <= begin or first >= end:
                return None
            if first + BLOCK_OFFSETS <= end:
                return entry  # bits below the watermark mean nothing, they may stay
            below_end = BitMap.deserialize(bitmap)
            below_end.remove_range(end - first, BLOCK_OFFSETS)
            return replace(entry, bitmap=below_end.serialize())
        case Prepared(offsets=offsets):
            kept = tuple(o for o in offsets or () if begin <= o < end or o in parked)
            return replace(entry, offsets=kept) if kept else None
        case Duplicates(rows=rows):
            left = tuple(row for row in rows or () if row.offset < end)  # below the begin they still count
            return replace(entry, rows=left) if left else None
        case HeldGone() | FailureGone() | ParkedGone() | Position():
            return None


def end_of(entry: Entry) -> int:
    """One past the highest offset that the entry speaks of; 0 when of none."""
    match entry:
        case Held(offset=offset) | Parked(offset=offset):
            return offset + 1
        case Settled(block, bitmap) | Attempted(block, bitmap):
            offsets = BitMap.deserialize(bitmap) if bitmap is not None else BitMap()
            return (block << BLOCK_BITS) + offsets.max() + 1 if offsets else 0
        case Prepared(offsets=offsets):
            return max(offsets or (), default=-1) + 1
        case Duplicates(rows=rows):
            return max((row.offset + 1 for row in rows or ()), default=0)
        case HeldGone() | Failure() | FailureGone() | ParkedGone() | Position():
            return 0


def unsettled_within(entries: Iterable[Entry], offsets: OffsetRange) -> int:
    """How many of the offsets are lost: no entry says that they are settled, or keeps their record. Kafka's own
    records, which are no messages, are among them."""
    count = offsets.last - offsets.first + 1
    for entry in entries:
        if isinstance(entry, Parked):
            count -= offsets.first <= entry.offset <= offsets.last
        if isinstance(entry, Settled) and entry.bitmap is not None:
            base = entry.block << BLOCK_BITS
            first, end = max(offsets.first - base, 0), min(offsets.last + 1 - base, BLOCK_OFFSETS)
            if first < end:
                count -= BitMap.deserialize(entry.bitmap).range_cardinality(first, end)
    return count


_ORDER = (Position, Settled, Parked, ParkedGone, Attempted, Held, HeldGone, Failure, FailureGone, Prepared, Duplicates)


def entry_order(entry: Entry) -> tuple[int, int]:
    """Sorts entries as they are to be applied: what is settled first, for nothing is remembered of that."""
    place = _ORDER.index(type(entry))
    match entry:
        case Held(offset=index) | HeldGone(offset=index) | Parked(offset=index) | ParkedGone(offset=index):
            return place, index
        case Failure(offset=index) | FailureGone(offset=index):
            return place, index
        case Settled(block=index) | Attempted(block=index):
            return place, index
        case Duplicates(bucket=index):
            return place, index
        case Position() | Prepared():
            return place, 0
