"""The memory of messages that came back and are not settled.

What a checkpoint has still to write is kept as values. Once the changelog has it, 21 bytes a message are kept: rows by
offset, in blocks. Only the unit is not among them. No rule asks for it, and the log and the changelog have it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from struct import Struct
from typing import Final

ROWS_BITS: Final = 12
"""Offsets of one block of rows: so few that a row is put between others in microseconds, and so many that a block of
which every hundredth message came back costs less than its rows."""
_MASK: Final = (1 << ROWS_BITS) - 1
_ROW: Final = Struct("<QQHB")
"""Due time, delay, attempts, and which reason it is."""
_ROW_BYTES: Final = _ROW.size
RETURNED: Final = "returned"
"""The reason of one that came back and waits for its next attempt."""
SENT_NOW: Final = "sent-now"
"""The reason of one that an operator let go before its time, and that nobody has had yet."""
RETURNED_NOW: Final = "returned-now"
"""The reason of one that came back and was let go so, before or since: its sender's delay holds it back no more."""
LET_GO: Final = frozenset({SENT_NOW, RETURNED_NOW})
_ATTEMPTS_MAX: Final = 0xFFFF
_REASONS_MAX: Final = 0x100
"""More of either, or of times, is no row; there are some five reasons, and a changelog may have been written to by
others."""
_TIMES_MAX: Final = 1 << 63


@dataclass(frozen=True, slots=True)
class RedeliveryState:
    """The memory of a message that was handed over before."""

    attempts: int
    due_at_ms: int
    delay_ms: int
    unit: bytes | None
    """For readers of the changelog; None also where that has it already."""
    reason: str

    @property
    def waits_for_sender(self) -> bool:
        """The delivery delay holds it back, too: no operator has let it go."""
        return self.reason not in LET_GO


class _Rows:
    """The rows of one block, ascending."""

    __slots__ = ("places", "rows")

    def __init__(self) -> None:
        self.places = array("H")
        """Offsets relative to the block's start."""
        self.rows = bytearray()

    def find(self, place: int) -> int:
        """Which row it is; -1: none."""
        index = bisect_left(self.places, place)
        return index if index < len(self.places) and self.places[index] == place else -1

    def put(self, place: int, row: bytes) -> None:
        """One that is not there."""
        index = bisect_left(self.places, place)
        begin = index * _ROW_BYTES
        self.places.insert(index, place)
        self.rows[begin:begin] = row

    def drop(self, place: int) -> bool:
        index = self.find(place)
        if index < 0:
            return False
        del self.places[index]
        del self.rows[index * _ROW_BYTES : (index + 1) * _ROW_BYTES]
        return True


class RedeliveryStates:
    """The states by offset. Part of `DurableState`: only `apply` changes it."""

    __slots__ = ("_blocks", "_reasons", "_to_write", "rows_count")

    def __init__(self) -> None:
        self._to_write: dict[int, RedeliveryState] = {}
        """The states that the changelog does not have yet, or may lack again; and the few that are no rows."""
        self._blocks: dict[int, _Rows] = {}
        self._reasons: list[str] = []
        self.rows_count = 0
        """How many are kept as rows."""

    def __len__(self) -> int:
        return len(self._to_write) + self.rows_count

    def __contains__(self, offset: int) -> bool:
        if offset in self._to_write:
            return True
        block = self._blocks.get(offset >> ROWS_BITS)
        return block is not None and block.find(offset & _MASK) >= 0

    def __iter__(self) -> Iterator[int]:
        """Yield those that are to be written first, then the others in the order of the log."""
        yield from list(self._to_write)
        for number in sorted(self._blocks):
            base = number << ROWS_BITS
            for place in list(self._blocks[number].places):
                yield base + place

    def __getitem__(self, offset: int) -> RedeliveryState:
        found = self.get(offset)
        if found is None:
            raise KeyError(offset)
        return found

    def get(self, offset: int) -> RedeliveryState | None:
        """None: it never came back."""
        found = self._to_write.get(offset)
        if found is not None:
            return found
        block = self._blocks.get(offset >> ROWS_BITS)
        index = -1 if block is None else block.find(offset & _MASK)
        if block is None or index < 0:
            return None
        due_at_ms, delay_ms, attempts, reason = _ROW.unpack_from(block.rows, index * _ROW_BYTES)
        return RedeliveryState(attempts, due_at_ms, delay_ms, None, self._reasons[reason])

    def items(self) -> Iterator[tuple[int, RedeliveryState]]:
        """Yield each offset with its state, those that are to be written first, as `iter` does."""
        for offset in self:
            yield offset, self[offset]

    @property
    def values_count(self) -> int:
        """How many are kept as values."""
        return len(self._to_write)

    @property
    def blocks_count(self) -> int:
        """How many blocks of rows there are."""
        return len(self._blocks)

    def remember(self, offset: int, state: RedeliveryState) -> None:
        """This is to be written of it."""
        if self._blocks:
            self._drop_row(offset)
        self._to_write[offset] = state

    def note_written(self, offsets: Iterable[int]) -> None:
        """The changelog has what was to be written of these, as far as anything was."""
        for offset in offsets:
            state = self._to_write.get(offset)
            row = None if state is None else self._row_of(state)
            if row is None:
                continue
            del self._to_write[offset]
            block = self._blocks.get(offset >> ROWS_BITS)
            if block is None:
                block = self._blocks[offset >> ROWS_BITS] = _Rows()
            block.put(offset & _MASK, row)
            self.rows_count += 1

    def forget(self, offset: int) -> bool:
        """False: it never came back."""
        was_row = self._drop_row(offset) if self._blocks else False
        return self._to_write.pop(offset, None) is not None or was_row

    def _row_of(self, state: RedeliveryState) -> bytes | None:
        if state.attempts > _ATTEMPTS_MAX or max(state.due_at_ms, state.delay_ms) > _TIMES_MAX:
            return None
        if state.reason not in self._reasons:
            if len(self._reasons) == _REASONS_MAX:
                return None
            self._reasons.append(state.reason)
        return _ROW.pack(state.due_at_ms, state.delay_ms, state.attempts, self._reasons.index(state.reason))

    def _drop_row(self, offset: int) -> bool:
        number = offset >> ROWS_BITS
        block = self._blocks.get(number)
        if block is None or not block.drop(offset & _MASK):
            return False
        self.rows_count -= 1
        if not block.places:
            del self._blocks[number]
        return True
