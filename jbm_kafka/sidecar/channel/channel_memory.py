"""How much memory one channel takes, estimated from the latest bodies read. The owner thread's."""

from __future__ import annotations

from collections.abc import Sequence

from jbm_kafka.core.channel_state import ChannelState
from jbm_kafka.core.unit_of_order import Gate
from jbm_kafka.sidecar.channel import tuning as numbers


class ChannelMemory:
    """What it takes, and whether its partition is paused for that."""

    __slots__ = ("_state", "is_paused", "mean_body_bytes")

    def __init__(self, state: ChannelState) -> None:
        self._state = state
        self.is_paused = False
        self.mean_body_bytes = 0
        """Rough size of a body here, from the latest fetch."""

    @property
    def message_bytes(self) -> int:
        """What one message costs."""
        return numbers.RECORD_OVERHEAD_BYTES + self.mean_body_bytes

    @property
    def alone_bytes(self) -> int:
        """What a message costs that waits alone at a gate."""
        return numbers.GATE_BYTES + numbers.LINE_BYTES + self.message_bytes

    def gates_bytes(self, gates: Sequence[Gate]) -> int:
        """What leaves memory with these gates."""
        alone = sum([len(gate.waiting) for gate in gates])
        return len(gates) * numbers.GATE_BYTES + alone * (numbers.LINE_BYTES + self.message_bytes)

    @property
    def waiting_bytes(self) -> int:
        """What cannot be handed over, and what is remembered of it."""
        gates, redeliveries = self._state.gates, self._state.redeliveries
        in_line = min(len(gates.by_key), gates.waiting_count)
        return (
            len(gates.by_key) * numbers.GATE_BYTES
            + redeliveries.values_count * numbers.REDELIVERY_BYTES
            + redeliveries.rows_count * numbers.REDELIVERY_ROW_BYTES
            + redeliveries.blocks_count * numbers.REDELIVERY_BLOCK_BYTES
            + in_line * numbers.LINE_BYTES
            + gates.waiting_count * self.message_bytes
        )
