"""Records of `jbm.registry` about readers that must not be overtaken: key `reader|<kind>|<name>`, value Avro."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from jbm_kafka.codec.schemas import codec
from jbm_kafka.core.jms_errors import CorruptRecordError, NewerRecordError

_READER = b"reader|"
SPARK_KIND = "spark"
LETTER_KIND = "letter"
PRIVATE_KIND = "private"
LOAD, REPLAY = "load-", "replay-"
"""How names of jobs begin that are registered at the queue that they send to, and read back what they have sent."""


@dataclass(frozen=True, slots=True)
class RegisteredReader:
    """A streaming query, an archive job or the private subscriptions of a process, and how far it has read a topic."""

    kind: str
    """`spark`; `private`: the private subscriptions of a process; or `letter`: originals of dead letters that went
    without their bodies."""
    name: str
    """Its own, one for each topic that it reads."""
    topic: str
    """The Kafka topic."""
    topic_id: str
    """The id of the topic; the record says nothing of one with another id."""
    positions: Mapping[int, int]
    """The first offset that it may still read, by partition."""
    at_ms: int
    """When it said so, ms since the epoch."""
    lease_until_ms: int
    """From then on it is forgotten, ms since the epoch."""

    def counts(self, now_ms: int) -> bool:
        """Return True if what it has not read must be kept."""
        return now_ms < self.lease_until_ms

    @property
    def is_query(self) -> bool:
        """Return True if it reads on and on, as queries and archives of Spark do."""
        return self.kind == SPARK_KIND and not self.name.startswith((LOAD, REPLAY))

    def unread(self, topic_id: str, begins: Mapping[int, int], ends: Mapping[int, int]) -> dict[int, tuple[int, int]]:
        """Return what it has not read of a topic with this id, by partition; of one that was made anew that is all."""
        read = self.positions if topic_id == self.topic_id else {}
        found = {p: (max(read.get(p, 0), begins.get(p, 0)), end) for p, end in ends.items()}
        return {p: (begin, end) for p, (begin, end) in found.items() if begin < end}


def reader_key(kind: str, name: str) -> bytes:
    """Return the key of the reader's record."""
    return _READER + f"{kind}|{name}".encode()


def encode_reader(reader: RegisteredReader) -> bytes:
    """The value."""
    return codec("Reader").encode(
        {
            "topic": reader.topic,
            "topic_id": reader.topic_id,
            "positions": {str(partition): offset for partition, offset in reader.positions.items()},
            "at_ms": reader.at_ms,
            "lease_until_ms": reader.lease_until_ms,
        }
    )


def decode_reader(key: bytes, value: bytes) -> RegisteredReader:
    """Return what key and value say.

    Raises:
        CorruptRecordError, NewerRecordError: they cannot be read here.
    """
    kind, _, name = key.removeprefix(_READER).decode(errors="replace").partition("|")
    fields = codec("Reader").decode(value)
    try:
        fields["positions"] = {int(partition): offset for partition, offset in fields["positions"].items()}
    except ValueError as error:
        raise CorruptRecordError(f"Reader {name}: {error}") from None
    return RegisteredReader(kind, name, **fields)


def readers_in(values: Mapping[bytes, bytes]) -> Iterator[tuple[bytes, RegisteredReader | None]]:
    """The key of each reader's record, with what it says; None: that cannot be read here, and nobody knows."""
    for key, value in values.items():
        if key.startswith(_READER):
            try:
                yield key, decode_reader(key, value)
            except (CorruptRecordError, NewerRecordError):
                yield key, None
