"""An operator's actions on messages on hold and their units: pure decisions (UNIT-16)."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from jbm_kafka.core.channel import changes as c
from jbm_kafka.core.channel.channel_state import ChannelState
from jbm_kafka.core.channel.departure import OUT_OF_ATTEMPTS, RELEASED, Departure
from jbm_kafka.core.channel.redelivery_states import RETURNED
from jbm_kafka.core.channel.settlement import HELD_FOR_OPERATOR


class ReleasedDepartures(NamedTuple):
    """Released messages that may leave now."""

    change: c.Offered
    departures: list[Departure]
    """In DEPARTING's hand once the change is applied."""


def decide_released(state: ChannelState, offsets: Collection[int], *, again: bool) -> c.Released:
    """Let go of those that are kept for an operator; nothing happens to the others.

    `again`: they are tried anew, with all their attempts. Else each leaves as one that is out of attempts does, as soon
    as it is the first of its unit: `decide_leaving` says which can.
    """
    kept = {
        offset: redelivery
        for offset in sorted(offsets)
        if (redelivery := state.redeliveries.get(offset)) is not None and redelivery.reason == HELD_FOR_OPERATOR
    }
    return c.Released(
        messages=[
            c.ReturnedMessage(offset, 0, 0, 0, RETURNED)
            if again
            else c.ReturnedMessage(offset, redelivery.attempts, 0, 0, RELEASED)
            for offset, redelivery in kept.items()
        ]
    )


def decide_leaving(state: ChannelState, offsets: Collection[int]) -> ReleasedDepartures:
    """Return those of the released that are the first of their unit, in memory, and in nobody's hand."""
    heads: list[c.HeadTaken] = []
    departures: list[Departure] = []
    for _, _, key in state.gates.free:
        head = state.gates.by_key[key].waiting[0]
        if head.offset in offsets and is_released(state, head.offset):
            heads.append(c.HeadTaken(key=key, count=1, leaving=True))
            departures.append(Departure(head, state.redeliveries[head.offset].attempts, OUT_OF_ATTEMPTS))
    change = c.Offered(session="", heads=heads, examined=0, fresh=(), expired=(), blocked=())
    return ReleasedDepartures(change, departures)


def is_released(state: ChannelState, offset: int) -> bool:
    """An operator has let it go, and it has not left yet."""
    redelivery = state.redeliveries.get(offset)
    return redelivery is not None and redelivery.reason == RELEASED
