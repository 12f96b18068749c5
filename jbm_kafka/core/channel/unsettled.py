"""The offsets a channel has not settled: a roaring bitmap per block of 65,536 offsets.

What is fetched and not settled is here; everything else between the watermark and the head is settled, gaps left by
transaction markers and compaction included, so nothing ever waits for an offset that holds no message.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from pyroaring import BitMap

BLOCK_BITS: Final = 16
BLOCK_SIZE: Final = 1 << BLOCK_BITS
_MASK: Final = BLOCK_SIZE - 1


class UnsettledOffsets:
    """A set of offsets with a cheap minimum and cheap batches; one bitmap per block, empty blocks removed."""

    __slots__ = ("_blocks", "_count")

    def __init__(self) -> None:
        self._blocks: dict[int, BitMap] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, offset: int) -> bool:
        block = self._blocks.get(offset >> BLOCK_BITS)
        return block is not None and (offset & _MASK) in block

    def __iter__(self) -> Iterator[int]:
        for number in sorted(self._blocks):
            base = number << BLOCK_BITS
            for relative in self._blocks[number]:
                yield base + relative

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UnsettledOffsets) and self._blocks == other._blocks

    def __hash__(self) -> int:
        raise TypeError("UnsettledOffsets is mutable and cannot be hashed")

    def add(self, offsets: Sequence[int]) -> None:
        """These are unsettled; ascending order."""
        for number, relative in _by_block(offsets):
            block = self._blocks.get(number)
            if block is None:
                block = self._blocks[number] = BitMap()
            before = len(block)
            block.update(relative)
            self._count += len(block) - before

    def add_range(self, begin: int, end: int) -> None:
        """Every offset is unsettled in [begin, end)."""
        for number in range(begin >> BLOCK_BITS, ((end - 1) >> BLOCK_BITS) + 1 if end > begin else 0):
            base = number << BLOCK_BITS
            block = self._blocks.setdefault(number, BitMap())
            before = len(block)
            block.add_range(max(begin - base, 0), min(end - base, BLOCK_SIZE))
            self._count += len(block) - before

    def discard(self, offsets: Sequence[int]) -> set[int]:
        """These are settled; what was so before is passed over. Returns the numbers of the blocks they lie in."""
        touched: set[int] = set()
        for number, gone in _by_block(offsets):
            touched.add(number)
            self._remove(number, gone)
        return touched

    def discard_bitmap(self, number: int, settled: BitMap) -> None:
        """Settle these offsets of a block (relative to the block's start)."""
        self._remove(number, settled)

    def _remove(self, number: int, gone: BitMap) -> None:
        block = self._blocks.get(number)
        if block is None:
            return
        before = len(block)
        block -= gone
        self._count += len(block) - before
        if block:
            self._blocks[number] = block
        else:
            del self._blocks[number]

    def first(self, default: int) -> int:
        """The lowest unsettled offset, or `default` when all are settled."""
        if not self._blocks:
            return default
        number = min(self._blocks)
        return int((number << BLOCK_BITS) + self._blocks[number].min())

    def within(self, begin: int, end: int) -> list[int]:
        """The unsettled offsets in [begin, end), ascending."""
        found: list[int] = []
        for number in sorted(self._blocks):
            base = number << BLOCK_BITS
            if base >= end or base + BLOCK_SIZE <= begin:
                continue
            wanted = BitMap()
            wanted.add_range(max(begin - base, 0), min(end - base, BLOCK_SIZE))
            found.extend(base + relative for relative in self._blocks[number] & wanted)
        return found

    def settled_in(self, number: int, begin: int, end: int, also: Iterable[int] = ()) -> BitMap:
        """Return what is settled of one block within [begin, end), relative to its start; `also` counts as settled."""
        base = number << BLOCK_BITS
        settled = BitMap()
        low, high = max(begin - base, 0), min(end - base, BLOCK_SIZE)
        if high > low:
            settled.add_range(low, high)
            unsettled = self._blocks.get(number)
            if unsettled is not None:
                settled -= unsettled - BitMap([o - base for o in also if o >> BLOCK_BITS == number])
        return settled

    def first_without(self, default: int, also: Iterable[int], parked: UnsettledOffsets) -> int:
        """The lowest unsettled offset that is neither in `also` nor parked, or `default`."""
        gone: dict[int, list[int]] = {}
        for offset in also:
            gone.setdefault(offset >> BLOCK_BITS, []).append(offset & _MASK)
        for number in sorted(self._blocks):
            rest = self._blocks[number]
            if number in gone:
                rest = rest - BitMap(gone[number])
            if number in parked._blocks:
                rest = rest - parked._blocks[number]
            if rest:
                return int((number << BLOCK_BITS) + rest.min())
        return default

    def without(self, parked: UnsettledOffsets) -> Iterator[int]:
        """Yield what is not parked, ascending."""
        for number in sorted(self._blocks):
            rest = self._blocks[number]
            if number in parked._blocks:
                rest = rest - parked._blocks[number]
            base = number << BLOCK_BITS
            for relative in rest:
                yield base + relative


def _is_run(offsets: Sequence[int]) -> bool:
    """Each follows the one before. So it mostly is: what one receiver was handed it settles in the order of the log."""
    if not offsets or offsets[-1] - offsets[0] + 1 != len(offsets):
        return False
    expected = offsets[0]
    for offset in offsets:
        if offset != expected:
            return False
        expected += 1
    return True


def _by_block(offsets: Sequence[int]) -> Iterator[tuple[int, BitMap]]:
    """Offsets relative to their blocks; a run is not looked at one by one."""
    if _is_run(offsets):
        begin, end = offsets[0], offsets[-1] + 1
        for number in range(begin >> BLOCK_BITS, ((end - 1) >> BLOCK_BITS) + 1):
            base = number << BLOCK_BITS
            run = BitMap()
            run.add_range(max(begin - base, 0), min(end - base, BLOCK_SIZE))
            yield number, run
        return
    split: dict[int, list[int]] = {}
    for offset in offsets:
        split.setdefault(offset >> BLOCK_BITS, []).append(offset & _MASK)
    for number, relative in split.items():
        yield number, BitMap(relative)
