"""The sends of an open session transaction: nobody sees them before it commits (ACK-7)."""

from __future__ import annotations

from typing import Generic, TypeVar

from jbm_kafka.core.errors import ResourceAllocationError

T = TypeVar("T")


class Outbox(Generic[T]):
    """Buffered in memory within a byte budget."""

    __slots__ = ("_budget_bytes", "_bytes", "_records")

    def __init__(self, *, budget_bytes: int) -> None:
        self._budget_bytes = budget_bytes
        self._records: list[T] = []
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._records)

    def add(self, record: T, size_bytes: int) -> None:
        """Keep one record for the commit.

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

    def take_all(self) -> list[T]:
        """Everything, in the order sent; the outbox is empty."""
        records, self._records, self._bytes = self._records, [], 0
        return records
