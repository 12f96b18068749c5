"""Records as tests write them."""

from dataclasses import dataclass

from confluent_kafka import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One Kafka record, with bytes where Kafka has bytes."""

    key: bytes | None = None
    value: bytes | None = b"body"
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int = 1_700_000_000_000


def headers(record: Message) -> dict[str, bytes | None]:
    """The headers of a record that has each name once."""
    found: dict[str, bytes | None] = {}
    for header in record.headers() or []:
        value = header[1]
        found[str(header[0])] = value.encode() if isinstance(value, str) else value
    return found
