"""How a message is presented to the application: its delivery count, and whether it may have been seen before."""

from __future__ import annotations

from typing import Final

from jbm_kafka.core.channel.channel_state import ChannelState
from jbm_kafka.core.channel.redelivery_states import SENT_NOW


class DeliveryCount:
    """One hand-over. A plain class, which compiled is a struct (decision 10); nobody changes one."""

    __slots__ = ("attempts", "delivery_count", "redelivered")

    def __init__(self, attempts: int, delivery_count: int, redelivered: bool) -> None:
        self.attempts = attempts
        """Counted hand-overs before this one."""
        self.delivery_count = delivery_count
        """With this one; at least 2 when `redelivered`."""
        self.redelivered = redelivered

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeliveryCount) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash(self._values())

    def __repr__(self) -> str:
        return f"DeliveryCount{self._values()}"

    def _values(self) -> tuple[int, int, bool]:
        return self.attempts, self.delivery_count, self.redelivered


FIRST_DELIVERY: Final = DeliveryCount(0, 1, False)


def delivery_count_of(state: ChannelState, offset: int) -> DeliveryCount:
    """The delivery count and redelivered flag of a message about to be handed over (REDELIVER-1, REDELIVER-7)."""
    redelivery = state.redeliveries.get(offset)
    attempts = 0 if redelivery is None else redelivery.attempts
    redelivered = (redelivery is not None and redelivery.reason != SENT_NOW) or offset < state.redelivered_below
    if not redelivered:
        return FIRST_DELIVERY
    return DeliveryCount(attempts, max(attempts + 1, 2), True)
