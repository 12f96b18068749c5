"""The sends of an open session transaction: nobody sees them before it commits (ACK-7)."""

from __future__ import annotations

from typing import Generic, TypeVar

from jbm_kafka.core.jms_errors import ResourceAllocationError

T = TypeVar("T")


class OpenSends(Generic[T]):
    """Buffered in memory within a byte budget."""

    __slots__ = ("_budget_bytes", "_bytes", "_expires_at_ms", "_records")

    def __init__(self, *, budget_bytes: int) -> None:
        self._budget_bytes = budget_bytes
        self._records: list[T] = []
        self._bytes = 0
        self._expires_at_ms = 0

    def __len__(self) -> int:
        return len(self._records)

    @property
    def expires_at_ms(self) -> int:
        """When the first of them expires; 0: none ever does."""
        return self._expires_at_ms

    def add(self, record: T, size_bytes: int, expires_at_ms: int = 0) -> None:
        """Keep one record for the commit; `expires_at_ms` as in its message, 0: never.

        Raises:
            ResourceAllocationError: the transaction would outgrow its budget; nothing was added.
        """
        if self._bytes + size_bytes > self._budget_bytes:
            raise ResourceAllocationError(
                f"the open transaction holds {len(self._records)} sends of {self._bytes} bytes; one more of "
                f"{size_bytes} bytes exceeds the budget of {self._budget_bytes}: commit more often",
                budget_bytes=self._budget_bytes,
                size_bytes=self._bytes + size_bytes,
            )
        self._records.append(record)
        self._bytes += size_bytes
        if expires_at_ms and not 0 < self._expires_at_ms <= expires_at_ms:
            self._expires_at_ms = expires_at_ms

    def take_all(self) -> list[T]:
        """Everything, in the order sent; nothing is left."""
        records, self._records, self._bytes, self._expires_at_ms = self._records, [], 0, 0
        return records
