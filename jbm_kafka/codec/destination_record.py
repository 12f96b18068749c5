"""Records of `jbm.registry`: key `<kind>|<name>`, value Avro."""

from dataclasses import dataclass

from jbm_kafka.codec.schemas import codec

_KIND = "destination"


@dataclass(frozen=True, slots=True)
class DestinationRecord:
    """The record of one destination."""

    topic_id: str
    """The id of the topic it is about."""
    partitions: int
    """Units are routed by this number of partitions."""


def destination_key(name: str) -> bytes:
    """Return the key of the destination's record."""
    return f"{_KIND}|{name}".encode()


def encode_destination(name: str, record: DestinationRecord) -> tuple[bytes, bytes]:
    """Key and value."""
    fields = {"topic_id": record.topic_id, "partitions": record.partitions}
    return destination_key(name), codec("Destination").encode(fields)


def decode_destination(key: bytes | None, value: bytes) -> tuple[str, DestinationRecord] | None:
    """The destination's name and its record; None for a record of another kind.

    Raises:
        CorruptRecordError, NewerRecordError: the value cannot be read here.
    """
    kind, _, name = (key or b"").decode(errors="replace").partition("|")
    return (name, DestinationRecord(**codec("Destination").decode(value))) if kind == _KIND else None
