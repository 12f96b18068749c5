"""Which messages are parked: their records move into the changelog, and neither watermark nor log waits (LOG-8).

A message that is held for long, whatever the cause, keeps all that is settled behind it in the log, and a new owner
reads that. Where few messages hold up many, it costs less to write the few once more. Pure.
"""

from __future__ import annotations

from collections.abc import Container
from itertools import islice
from typing import Final

from jbm_kafka.core.channel.durable_state import DurableState

SETTLED_FOR_EACH: Final = 10
"""So many settled messages the watermark passes, at least, for each one that is parked."""
LOOKED_AT_MAX: Final = 20_000
"""The watermark passes no more of them in one look."""
PARKED_BYTES_MAX: Final = 16 << 20
"""The limit of one channel. A new owner has all of them in memory for a moment, and the next owner after it, too."""


def parkable(durable: DurableState, *, below: int, count_max: int, never: Container[int] = ()) -> list[int]:
    """The offsets that are to be parked now, ascending: the lowest that hold the watermark, where that pays.

    Args:
        below: what is younger may be settled soon, so it is not parked; an offset.
        count_max: so many at most; the rest follows in later looks.
        never: what cannot be parked, and so holds the watermark.
    """
    if sum(durable.parked_bytes.values()) >= PARKED_BYTES_MAX:
        return []
    lowest = list(islice(durable.unsettled.without(durable.parked), LOOKED_AT_MAX))
    following = [*lowest[1:], durable.end_position] if len(lowest) < LOOKED_AT_MAX else lowest[1:]
    paying = 0
    for count, (offset, watermark) in enumerate(zip(lowest, following, strict=False), 1):
        if offset >= below or offset in never:
            break
        if watermark - lowest[0] >= (SETTLED_FOR_EACH + 1) * count:
            paying = count
    return lowest[: min(paying, count_max)]
