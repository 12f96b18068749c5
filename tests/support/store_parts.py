"""Records made by hand, for the tests of the store."""

from __future__ import annotations

from jbm_kafka.ports import Headers


class MadeRecord:
    """A `KafkaRecord` with what a test gives it."""

    def __init__(
        self,
        offset: int,
        *,
        topic: str | None = "orders",
        partition: int | None = 0,
        key: bytes | None = b"unit",
        value: bytes | None = b"body",
        headers: Headers | None = (),
        timestamp: tuple[int, int] = (1, 1_700_000_000_000),
    ) -> None:
        self._fields = (topic, partition, offset, key, value, headers, timestamp)

    def topic(self) -> str | None:
        return self._fields[0]

    def partition(self) -> int | None:
        return self._fields[1]

    def offset(self) -> int | None:
        return self._fields[2]

    def key(self) -> bytes | None:
        return self._fields[3]

    def value(self) -> bytes | None:
        return self._fields[4]

    def headers(self) -> Headers | None:
        return self._fields[5]

    def timestamp(self) -> tuple[int, int]:
        return self._fields[6]
