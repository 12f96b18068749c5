"""The messages of one partition that receivers have in hand, and how an answer of its owner carries them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from jbm_kafka.core.channel.channel_state import ChannelState
from jbm_kafka.core.channel.holders import with_receivers
from jbm_kafka.core.channel.reference import DEPARTING

OFFSETS_MAX = 100_000
"""Offsets in one answer, the lowest: as a record it stays below what a topic takes."""


class UnacknowledgedOffsets(NamedTuple):
    """The messages of one partition that are not with the channel now, by offset."""

    delivered: frozenset[int] = frozenset()
    """With receivers."""
    leaving: frozenset[int] = frozenset()
    """On its way to another queue, or to its end."""


NOTHING = UnacknowledgedOffsets()


def hand_of(state: ChannelState) -> UnacknowledgedOffsets:
    """Return what of this channel is in hand. Owner thread only."""
    delivered = [offset for _, hand in with_receivers(state.in_hand) for offset in hand]
    return UnacknowledgedOffsets(frozenset(delivered), frozenset(state.in_hand.get(DEPARTING, ())))


def to_answer(hand: UnacknowledgedOffsets) -> Mapping[str, Any]:
    """The fields of the answer that says so."""
    return {"delivered": _runs(hand.delivered), "leaving": _runs(hand.leaving)}


def from_answer(answer: Mapping[str, Any]) -> UnacknowledgedOffsets:
    """Return what these fields of an answer say."""
    return UnacknowledgedOffsets(_offsets(answer.get("delivered", ())), _offsets(answer.get("leaving", ())))


def _runs(offsets: Iterable[int]) -> list[int]:
    """Ascending runs, as how many offsets lie before each and how many it has, in turn."""
    found: list[int] = []
    end = 0
    for offset in sorted(offsets)[:OFFSETS_MAX]:
        if found and offset == end:
            found[-1] += 1
        else:
            found += (offset - end, 1)
        end = offset + 1
    return found


def _offsets(runs: Sequence[int]) -> frozenset[int]:
    found: set[int] = set()
    position = 0
    for gap, length in zip(runs[::2], runs[1::2], strict=False):
        position += gap
        found.update(range(position, position + length))
        position += length
    return frozenset(found)
