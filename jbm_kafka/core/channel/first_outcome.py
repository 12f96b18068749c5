"""The first outcome of a unit says what becomes of all that goes back with it (UNIT-3, REDELIVER-1).

The outcomes of a long unit reach the AMQP server in several reads. At the first it takes the whole unit back, for
nobody may get a later message before an earlier one; it cannot wait to hear what the application saw of the rest. So
the first outcome says it. Server and client number messages differently, and a sidecar that forwards differs from
both, so what is said goes by position: the n-th of those behind.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import NamedTuple

from jbm_kafka.core.channel.settlement import Modified


class SaidBehind(NamedTuple):
    """How far the messages behind one in its unit were seen, and what of that counts."""

    alike: int = 0
    """So many, directly behind it, have its outcome."""
    seen: int = 0
    """So many, behind those, the application had too, and it was no attempt. It has received nothing behind them."""


NOTHING_SAID = SaidBehind()


def said_behind(later: Sequence[Modified]) -> SaidBehind:
    """Return what the outcome before these says of them, which are all that go back with it, in the unit's order.

    A session gives all that it names the same outcome, and what it names was received before what it does not name,
    which in turn was received before what is unread.
    """
    alike = next((place for place, row in enumerate(later) if not row.counted), len(later))
    seen = next((place for place in range(len(later), alike, -1) if later[place - 1].was_seen), alike)
    return SaidBehind(alike, seen - alike)


def outcomes(rows: Iterable[Modified], unit_of: Callable[[int], Hashable]) -> list[tuple[Modified, SaidBehind]]:
    """Return the outcomes that a session says of all that goes back at once, each unit's in its order.

    `unit_of` tells the unit of an offset; None: none. The later ones of a unit say nothing of those behind them: who
    hears the first knows.
    """
    units: dict[Hashable, list[Modified]] = {}
    for row in sorted(rows):
        unit = unit_of(row.offset)
        units.setdefault((row.offset,) if unit is None else unit, []).append(row)
    said: list[tuple[Modified, SaidBehind]] = []
    for first, *later in units.values():
        said.append((first, said_behind(later)))
        said += [(row, NOTHING_SAID) for row in later]
    return said


def rows_behind(first: Modified, said: SaidBehind, offsets: Sequence[int]) -> list[Modified]:
    """Return how the messages behind `first` go back, which are at these offsets, in the unit's order.

    What nothing was said of was never received: it was on its way, or unread.
    """
    end = said.alike + said.seen
    return [
        first._replace(offset=offset) if place < said.alike else Modified(offset, counted=False, was_seen=place < end)
        for place, offset in enumerate(offsets)
    ]
