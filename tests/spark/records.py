"""Records as tests write them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One Kafka record, with bytes where Kafka has bytes."""

    key: bytes | None = None
    value: bytes | None = b"body"
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int = 1_700_000_000_000
