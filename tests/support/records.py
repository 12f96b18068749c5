"""A Kafka record made by hand, with the methods of `confluent_kafka.Message` that messages use."""

from collections.abc import Sequence

from jbm_kafka.codec.scan import Header


class Record:
    """A record of the topic `orders`, partition 3, offset 17, unless told otherwise."""

    def __init__(
        self,
        *,
        value: bytes | None = b"",
        key: bytes | None = None,
        headers: Sequence[Header] | None = None,
        topic: str = "orders",
        partition: int = 3,
        offset: int = 17,
        timestamp_ms: int = 1_700_000_000_000,
    ) -> None:
        self._value = value
        self._key = key
        self._headers = None if headers is None else list(headers)
        self._place = (topic, partition, offset)
        self._timestamp_ms = timestamp_ms

    def topic(self) -> str:
        return self._place[0]

    def partition(self) -> int:
        return self._place[1]

    def offset(self) -> int:
        return self._place[2]

    def key(self) -> bytes | None:
        return self._key

    def value(self) -> bytes | None:
        return self._value

    def headers(self) -> list[Header] | None:
        return self._headers

    def timestamp(self) -> tuple[int, int]:
        return 1, self._timestamp_ms
