"""A record on its way to Kafka. Compiled, for each message sent makes one, and a named tuple is made by Python code."""

from __future__ import annotations

from collections.abc import Sequence

from mypy_extensions import mypyc_attr

Headers = Sequence[tuple[str, bytes | None]]
"""Record headers in the order they stand in the record; names may repeat, values may be None."""


@mypyc_attr(acyclic=True)  # it holds values only: one thing less for the garbage collector to visit
class Outgoing:
    """One record to produce. Not changed once it is made."""

    __slots__ = ("batch_bytes_max", "headers", "key", "partition", "timestamp_ms", "topic", "value")

    def __init__(
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers = (),
        timestamp_ms: int | None = None,
        batch_bytes_max: int = 0,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.key = key
        self.value = value
        self.headers = headers
        self.timestamp_ms = timestamp_ms
        """Record time; None lets the client stamp it."""
        self.batch_bytes_max = batch_bytes_max
        """The size of a batch that the topic takes (its `max.message.bytes`); 0: not known, and assumed to be
        plenty."""

    def __repr__(self) -> str:
        size = "no value" if self.value is None else f"{len(self.value)} bytes"
        return f"<Outgoing {self.topic}[{self.partition}] key {self.key!r}, {size}>"
