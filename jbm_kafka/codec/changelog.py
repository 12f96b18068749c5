"""Entries of a channel's changelog as Kafka records: the key `<group>|<kind>|<index>`, the value Avro, null deletes."""

from collections.abc import Callable
from typing import Any

from pyroaring import BitMap

from jbm_kafka.codec.schemas import codec
from jbm_kafka.core.channel.companion_group import failures_of, owner_of
from jbm_kafka.core.channel.entries import (
    BLOCK_BITS,
    BLOCK_OFFSETS,
    PARKED,
    PREPARED,
    UNIT_BYTES_MAX,
    Attempted,
    Duplicates,
    Entry,
    Failure,
    FailureGone,
    Held,
    HeldGone,
    Parked,
    ParkedGone,
    Position,
    Prepared,
    SeenId,
    Settled,
)
from jbm_kafka.core.jms_errors import CorruptRecordError, NewerRecordError

_SEPARATOR = "|"
FAILURE = "failure"


def encode_entry(group: str, entry: Entry) -> tuple[bytes, bytes | None]:
    """Key and value of the entry's record. A group's name has no `|`: what users named is percent-encoded in it."""
    assert _SEPARATOR not in group, group
    match entry:
        case Position(topic_id, checkpoint_id, watermark, fetched, offered, truncated):
            fields = {
                "topic_id": topic_id,
                "checkpoint_id": checkpoint_id,
                "watermark": watermark,
                "fetched": fetched,
                "offered": offered,
                "truncated": truncated,
            }
            return _key(group, "position", 0), codec("Position").encode(fields)
        case Held(offset, attempts, due_at_ms, delay_ms, unit, reason):
            fields = {
                "attempts": attempts,
                "due_at_ms": due_at_ms,
                "delay_ms": delay_ms,
                "unit": None if unit is not None and len(unit) > UNIT_BYTES_MAX else unit,
                "reason": reason,
            }
            return _key(group, "held", offset), codec("Held").encode(fields)
        case HeldGone(offset):
            return _key(group, "held", offset), None
        case Failure(offset, text):
            return _key(failures_of(group), FAILURE, offset), codec("Failure").encode({"text": text})
        case FailureGone(offset):
            return _key(failures_of(group), FAILURE, offset), None
        case Parked(offset, key, value, headers, timestamp_type, timestamp_ms):
            fields = {
                "key": key,
                "value": value,
                "headers": [{"name": name, "value": content} for name, content in headers],
                "timestamp_type": timestamp_type,
                "timestamp_ms": timestamp_ms,
            }
            return _key(group, PARKED, offset), codec("Parked").encode(fields)
        case ParkedGone(offset):
            return _key(group, PARKED, offset), None
        case Settled(block, bitmap):
            return _key(group, "settled", block), _bitmap_value("Settled", bitmap)
        case Attempted(block, bitmap):
            return _key(group, "attempted", block), _bitmap_value("Attempted", bitmap)
        case Prepared(branch, offsets):
            of_branch = f"{group}|{PREPARED}|{branch}".encode()
            return of_branch, None if offsets is None else codec("Prepared").encode({"blocks": _blocks(offsets)})
        case Duplicates(bucket, rows):
            return _key(group, "duplicates", bucket), None if rows is None else _seen_ids(rows)


def decode_entry(key: bytes | None, value: bytes | None) -> tuple[str, Entry]:
    """The group and the entry of a record.

    Raises:
        CorruptRecordError: `encode_entry` of this or an older version did not make the record.
        NewerRecordError: its kind or its schema is not known here.
    """
    group, kind, index = _split(key)
    if kind == PREPARED:
        return group, _read_prepared(key, index, value)
    reader = _READERS.get(kind)
    if reader is None:  # before a look at the index: those of a newer kind may be no numbers
        raise NewerRecordError(f"key {key!r}: kind {kind!r} is not known; a newer version's?")
    return group, reader(_number(key, index), value)


def group_of(key: bytes | None) -> str:
    """The group of a record, without decoding its value: several groups share a changelog.

    Raises:
        CorruptRecordError: the key is not of a changelog.
    """
    return _split(key)[0]


def _key(group: str, kind: str, index: int) -> bytes:
    assert index >= 0, index
    return f"{group}|{kind}|{index}".encode()


def _split(key: bytes | None) -> tuple[str, str, str]:
    try:
        group, kind, index = (key or b"").decode().split(_SEPARATOR, 2)
    except ValueError:
        raise CorruptRecordError(f"key {key!r} is not <group>|<kind>|<index>") from None
    if not group:
        raise CorruptRecordError(f"key {key!r} is not <group>|<kind>|<index>")
    return owner_of(group) if kind == FAILURE else group, kind, index


def branch_of_key(key: bytes) -> str | None:
    """The id of the branch whose entry has this key; None: it is another entry's."""
    _, kind, index = [*key.decode(errors="replace").split(_SEPARATOR, 2), "", ""][:3]
    return index if kind == PREPARED else None


def _number(key: bytes | None, index: str) -> int:
    if not (index.isascii() and index.isdigit() and len(index) < 20):
        raise CorruptRecordError(f"key {key!r} is not <group>|<kind>|<index>")
    return int(index)


def _bitmap_value(name: str, bitmap: bytes | None) -> bytes | None:
    return None if bitmap is None else codec(name).encode({"bitmap": bitmap})


def _read_position(index: int, value: bytes | None) -> Entry:
    if value is None or index != 0:
        raise CorruptRecordError(f"position {index} without a value" if index == 0 else f"a position of index {index}")
    fields = _not_negative("Position", codec("Position").decode(value))
    return Position(**fields)


def _read_held(index: int, value: bytes | None) -> Entry:
    if value is None:
        return HeldGone(index)
    return Held(offset=index, **_not_negative("Held", codec("Held").decode(value)))


def _read_failure(index: int, value: bytes | None) -> Entry:
    return FailureGone(index) if value is None else Failure(index, **codec("Failure").decode(value))


def _read_parked(index: int, value: bytes | None) -> Entry:
    if value is None:
        return ParkedGone(index)
    fields = codec("Parked").decode(value)
    headers = tuple((header["name"], header["value"]) for header in fields.pop("headers"))
    return Parked(offset=index, headers=headers, **_not_negative("Parked", fields))


def _read_settled(index: int, value: bytes | None) -> Entry:
    return Settled(index, None if value is None else _checked_bitmap("Settled", value))


def _read_attempted(index: int, value: bytes | None) -> Entry:
    return Attempted(index, None if value is None else _checked_bitmap("Attempted", value))


def _seen_ids(rows: tuple[SeenId, ...]) -> bytes:
    ids = [{"digest": row.digest, "offset": row.offset, "sent_at_ms": row.sent_at_ms} for row in rows]
    return codec("Duplicates").encode({"ids": ids})


def _read_duplicates(index: int, value: bytes | None) -> Entry:
    if value is None:
        return Duplicates(index, None)
    rows = codec("Duplicates").decode(value)["ids"]
    return Duplicates(index, tuple(SeenId(**_not_negative("Duplicates", row)) for row in rows))


def _blocks(offsets: tuple[int, ...]) -> list[dict[str, Any]]:
    blocks: dict[int, BitMap] = {}
    for offset in offsets:
        blocks.setdefault(offset >> BLOCK_BITS, BitMap()).add(offset & (BLOCK_OFFSETS - 1))
    return [{"block": block, "bitmap": bitmap.serialize()} for block, bitmap in sorted(blocks.items())]


def _read_prepared(key: bytes | None, branch: str, value: bytes | None) -> Entry:
    if not branch or branch.strip("0123456789abcdef"):
        raise CorruptRecordError(f"key {key!r} is not <group>|prepared|<branch in hex>")
    if value is None:
        return Prepared(branch, None)
    offsets: list[int] = []
    for row in codec("Prepared").decode(value)["blocks"]:
        base = _not_negative("Prepared", row)["block"] << BLOCK_BITS
        offsets += [base + relative for relative in _bitmap_of("Prepared", row["bitmap"])]
    return Prepared(branch, tuple(offsets))


_READERS: dict[str, Callable[[int, bytes | None], Entry]] = {
    "position": _read_position,
    "settled": _read_settled,
    "attempted": _read_attempted,
    "held": _read_held,
    FAILURE: _read_failure,
    PARKED: _read_parked,
    "duplicates": _read_duplicates,
}
KINDS = frozenset(_READERS) | {PREPARED}
"""The kinds of entries that this version reads."""


def _not_negative(name: str, fields: dict[str, Any]) -> dict[str, Any]:
    for field, value in fields.items():
        if isinstance(value, int) and value < 0:
            raise CorruptRecordError(f"{name}: {field} is {value}")
    return fields


def _checked_bitmap(name: str, value: bytes) -> bytes:
    bitmap: bytes = codec(name).decode(value)["bitmap"]
    _bitmap_of(name, bitmap)
    return bitmap


def _bitmap_of(name: str, bitmap: bytes) -> BitMap:
    try:
        offsets = BitMap.deserialize(bitmap)
    except (ValueError, IndexError) as fault:
        raise CorruptRecordError(f"{name}: {len(bitmap)} bytes that are no roaring bitmap") from fault
    if offsets and offsets.max() >= BLOCK_OFFSETS:
        raise CorruptRecordError(f"{name}: relative offset {offsets.max()} is beyond its block")
    return offsets
