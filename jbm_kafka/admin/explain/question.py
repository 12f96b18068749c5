"""What somebody wants to have explained, and where it is found out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jbm_kafka.admin.explain.held_units import HeldMessageRow
from jbm_kafka.ports import Kafka, KafkaAdmin


@dataclass(frozen=True, slots=True)
class Asked:
    """What somebody wants to have explained; nothing: all of it."""

    unit: str | None = None
    message_id: str | None = None
    older_than_ms: int = 0
    """Only what was sent before so long."""

    @property
    def is_all(self) -> bool:
        """Neither a unit nor a message."""
        return self.unit is None and self.message_id is None

    def wants(self, row: HeldMessageRow) -> bool:
        """Whether it is what was asked about."""
        return not self.is_all and self.unit in (None, row.unit) and self.message_id in (None, row.message_id)


@dataclass(frozen=True, slots=True)
class Sources:
    """Where it is found out."""

    kafka: Kafka
    admin: KafkaAdmin
    namespace: str
    bootstrap: str
    """For people."""
    now_ms: Callable[[], int]
    timeout_s: float
    """For answers of those who receive."""
    tell: Callable[[str], object]
    """Called with a line that says who is waited for, where that takes long."""
