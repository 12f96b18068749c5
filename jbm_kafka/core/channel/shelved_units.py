"""Which units are shelved: their gates have left memory, with all that waits at them.

A unit costs some eight bytes here: a mark by a hash of its name, and how many of its messages wait, written down bit by
bit under the offset of its first. So a name is not found here for certain. `may_have` says no, which is true, or maybe,
and then the held store says whether the unit is really there.
"""

from __future__ import annotations

from typing import Final, NamedTuple
from zlib import crc32

from pyroaring import BitMap

from jbm_kafka.core.channel.unsettled import UnsettledOffsets

MARK_BITS: Final = 30
"""Beside a million shelved units one other of a thousand is mistaken for one of them. With more bits the marks lie
wider apart and take more memory; with all 32 it would be twice as much."""


class UnitHead(NamedTuple):
    """A unit, known by its first message."""

    offset: int
    unit: bytes


class ShelvedUnits:
    """Part of `ColdIndex`: only `apply` changes it. Hashes are the same in every run, so that a seed repeats."""

    __slots__ = ("_counts", "_marks", "_shared", "_shift", "count")

    def __init__(self, mark_bits: int = MARK_BITS) -> None:
        self._shift = 32 - mark_bits
        self._marks = BitMap()
        self._shared: dict[int, int] = {}
        """Marks that stand for several units: how many more than one."""
        self._counts: list[UnsettledOffsets] = []
        """The n-th has the first offsets of the units of whose number of messages the n-th bit is set."""
        self.count = 0
        """How many units are shelved."""

    def may_have(self, unit: bytes) -> bool:
        """False: it is not shelved. True: look into the held store."""
        return self.count > 0 and crc32(unit) >> self._shift in self._marks

    def add(self, head: UnitHead, messages: int) -> None:
        """The unit is shelved with so many messages."""
        self.count += 1
        mark = crc32(head.unit) >> self._shift
        if mark in self._marks:
            self._shared[mark] = self._shared.get(mark, 0) + 1
        else:
            self._marks.add(mark)
        for place in range(messages.bit_length()):
            if place == len(self._counts):
                self._counts.append(UnsettledOffsets())
            if messages >> place & 1:
                self._counts[place].add([head.offset])

    def take(self, head: UnitHead) -> int:
        """The unit is not shelved any more; returns how many messages it has."""
        self.count -= 1
        mark = crc32(head.unit) >> self._shift
        others = self._shared.pop(mark, 0)
        if not others:
            self._marks.remove(mark)
        elif others > 1:
            self._shared[mark] = others - 1
        messages = 0
        for place, offsets in enumerate(self._counts):
            if head.offset in offsets:
                messages |= 1 << place
                offsets.discard([head.offset])
        return messages
