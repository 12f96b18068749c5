"""Which of the messages that an operator lets go before their time a channel can let go: pure (SEND-10)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from jbm_kafka.core.channel import changes as c
from jbm_kafka.core.channel.channel_state import ChannelState
from jbm_kafka.core.channel.departure import GIVEN_UP
from jbm_kafka.core.channel.settlement import HELD_FOR_OPERATOR

NOT_TIMED = frozenset({HELD_FOR_OPERATOR, *GIVEN_UP})
"""Reasons of messages that wait for no time: those on hold are released, those given up leave."""


class EarlyGoing(NamedTuple):
    """What becomes of the messages that were named; each offset is in one of them."""

    change: c.LetGo
    in_hand: Sequence[int]
    """Somebody has them, or they are on their way out."""
    unread: Sequence[int]
    """Not read yet."""
    gone: Sequence[int]
    """Settled, or none of those that wait for a time."""


def decide_let_go(state: ChannelState, units: Mapping[int, bytes | None]) -> EarlyGoing:
    """Let go of those of these that are held here; `units`: by offset the unit of each.

    They keep their places, so the order of a unit stays: one that is not the first of its unit goes after that.
    """
    held = {offset for hand in state.in_hand.values() for offset in hand}.union(state.aside)
    let_go: dict[int, bytes | None] = {}
    in_hand: list[int] = []
    unread: list[int] = []
    gone: list[int] = []
    for offset in sorted(units):
        redelivery = state.redeliveries.get(offset)
        if offset in held:
            in_hand.append(offset)
        elif offset >= state.end_position:
            unread.append(offset)
        elif offset not in state.unsettled or (redelivery is not None and redelivery.reason in NOT_TIMED):
            gone.append(offset)
        else:
            let_go[offset] = units[offset]
    return EarlyGoing(c.LetGo(let_go), in_hand, unread, gone)
