"""Records of `jbm.registry` about where units are: `destination|`, `moving|` and `path|` (decision 41)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache

from jbm_kafka.codec.destination_record import (
    DestinationRecord,
    decode_destination,
    destination_key,
    encode_destination,
)
from jbm_kafka.codec.schemas import codec
from jbm_kafka.core.channel.unit_places import Path, UnitPlaces

PATH = b"path|"


def moving_key(name: str) -> bytes:
    """Return the key of the record that partitions of the destination are being admitted."""
    return f"moving|{name}".encode()


def path_key(name: str, unit: bytes) -> bytes:
    """Return the key of the record of one unit's path."""
    return PATH + name.encode() + b"|" + unit


def without_unit(key: bytes) -> bytes:
    """The key of a record about a destination's units, for the log: which unit it is nobody may read there."""
    if not key.startswith(PATH):
        return key
    name, separator, _ = key.removeprefix(PATH).partition(b"|")
    return PATH + name + separator


def paths_in(values: Mapping[bytes, bytes]) -> Iterator[tuple[str, bytes, bytes]]:
    """Destination, unit and value of every path."""
    for key, value in values.items():
        if key.startswith(PATH):
            name, _, unit = key.removeprefix(PATH).partition(b"|")
            yield name.decode(errors="replace"), unit, value


def paths_of(values: Mapping[bytes, bytes], name: str) -> dict[bytes, bytes]:
    """The values of a destination's paths, by unit."""
    begin = path_key(name, b"")
    return {key.removeprefix(begin): value for key, value in values.items() if key.startswith(begin)}


def places_in(
    values: Mapping[bytes, bytes], name: str, topic_id: str, paths: Mapping[bytes, bytes] | None = None
) -> UnitPlaces | None:
    """Return what is recorded of the destination's units; None: nothing of this topic. `paths`, if they are at hand.

    Raises:
        CorruptRecordError, NewerRecordError: a record cannot be read here.
    """
    key = destination_key(name)
    value = values.get(key)
    found = None if value is None else decode_destination(key, value)
    if found is None or found[1].topic_id != topic_id:
        return None
    value = values.get(moving_key(name))
    moving = None if value is None else codec("Admission").decode(value)
    read = paths_of(values, name) if paths is None else paths
    decoded = ((unit, *_path_of(path)) for unit, path in read.items())
    return UnitPlaces(
        found[1].partitions,
        moving["partitions"] if moving is not None and moving["topic_id"] == topic_id else 0,
        moving["mark"] if moving is not None and moving["topic_id"] == topic_id else "",
        {unit: path for unit, about, path in decoded if about == topic_id},
    )


@lru_cache(maxsize=4_096)  # many units, and of each topic as many values as partitions
def _path_of(value: bytes) -> tuple[str, Path]:
    fields = codec("UnitPath").decode(value)
    return fields["topic_id"], Path(fields["partition"], fields["ending"])


def is_place_readable(key: bytes, value: bytes) -> bool:
    """Return True if a record about a destination's units can be read here; of other kinds, too.

    Raises:
        CorruptRecordError, NewerRecordError: it cannot.
    """
    if key.startswith(PATH):
        _path_of(value)
    elif key.startswith(b"moving|"):
        codec("Admission").decode(value)
    else:
        decode_destination(key, value)
    return True


def place_changes(name: str, topic_id: str, before: UnitPlaces, after: UnitPlaces) -> dict[bytes, bytes | None]:
    """Return what makes one of the other, in this order: a reader of the count has read the paths that go with it."""
    changes: dict[bytes, bytes | None] = {
        path_key(name, unit): None for unit in before.paths if unit not in after.paths
    }
    for unit, path in after.paths.items():
        if before.paths.get(unit) != path:
            fields = {"topic_id": topic_id, "partition": path.partition, "ending": path.ending}
            changes[path_key(name, unit)] = codec("UnitPath").encode(fields)
    if before.partitions != after.partitions:
        key, value = encode_destination(name, DestinationRecord(topic_id, after.partitions))
        changes[key] = value
    if (before.next_partitions, before.admission) != (after.next_partitions, after.admission):
        fields = {"topic_id": topic_id, "partitions": after.next_partitions, "mark": after.admission}
        changes[moving_key(name)] = codec("Admission").encode(fields) if after.next_partitions else None
    return changes
