"""What anybody can read from the simulated brokers: committed records as they become so, and changelogs on paper.

The paper changelog is folded here once more, from the meaning of the entries and not with the product's state: it
is what the product is compared with.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pyroaring import BitMap

from jbm_kafka.codec.changelog import decode_entry, group_of
from jbm_kafka.core.channel.entries import (
    BLOCK_BITS,
    Attempted,
    Entry,
    Held,
    HeldGone,
    Parked,
    ParkedGone,
    Position,
    Prepared,
    Settled,
)
from jbm_kafka.memory.memory_log import MemoryRecord, PartitionLog, TransactionOutcome


@dataclass(slots=True)
class LogView:
    """The committed records of one partition, each told once: when it is decided, not when readers may see it."""

    log: PartitionLog
    _next: int = 0
    _undecided: list[int] = field(default_factory=list)

    def news(self) -> list[MemoryRecord]:
        """What was committed since the last call, in offset order."""
        if self._next == self.log.end and not self._undecided:
            return []
        found: list[MemoryRecord] = []
        still: list[int] = []
        for offset in [*self._undecided, *range(self._next, self.log.end)]:
            record, outcome = self.log.entry(offset)
            if outcome is TransactionOutcome.OPEN:
                still.append(offset)
            elif outcome is TransactionOutcome.COMMITTED and record is not None:
                found.append(record)
        self._next, self._undecided = self.log.end, still
        return found


@dataclass(slots=True)
class PaperChangelog:
    """What one channel's committed changelog says now."""

    group: str
    position: Position | None = None
    settled: dict[int, BitMap] = field(default_factory=dict)
    held: dict[int, Held] = field(default_factory=dict)
    attempted: dict[int, BitMap] = field(default_factory=dict)
    prepared: dict[str, frozenset[int]] = field(default_factory=dict)
    """What each branch has."""
    parked: set[int] = field(default_factory=set)
    """What is not settled, whatever the watermark says."""
    begin: int = 0
    """Of a subscription: where it begins. What stands before it is never there."""
    incarnation: str = ""
    """Of a subscription: what another of the name wrote, up to the first position of this one, means nothing."""
    version: int = 0
    """Grows with every record."""

    def take(self, record: MemoryRecord) -> Entry | None:
        """Fold one more record that is this group's; its entry, None of a position that is deleted."""
        self.version += 1
        if record.value() is None and record.key() == f"{self.group}|position|0".encode():
            self.position = None
            return None
        _, entry = decode_entry(record.key(), record.value())
        match entry:
            case Position():
                self.position = entry
            case Settled(block, bitmap):
                _put(self.settled, block, bitmap)
            case Attempted(block, bitmap):
                _put(self.attempted, block, bitmap)
            case Held():
                self.held[entry.offset] = entry
            case HeldGone(offset):
                self.held.pop(offset, None)
            case Parked():
                self.parked.add(entry.offset)
            case ParkedGone(offset):
                self.parked.discard(offset)
            case Prepared(branch, offsets) if offsets is not None:
                self.prepared[branch] = frozenset(offsets)
            case Prepared(branch):
                self.prepared.pop(branch, None)
        return entry

    def is_mine(self, record: MemoryRecord) -> bool:
        """It is this group's."""
        return group_of(record.key()) == self.group

    def counts(self, record: MemoryRecord) -> bool:
        """It is not of another subscription that had the name."""
        if not self.incarnation or self.position is not None:
            return True
        if record.key() != f"{self.group}|position|0".encode() or record.value() is None:
            return False
        _, entry = decode_entry(record.key(), record.value())
        return isinstance(entry, Position) and entry.topic_id.endswith(f"/{self.incarnation}")

    @property
    def watermark(self) -> int:
        """Every offset below is settled, or parked."""
        return self.begin if self.position is None else self.position.watermark

    @property
    def offered(self) -> int:
        """Every offset from here on was never handed over."""
        return self.begin if self.position is None else self.position.offered

    def is_settled(self, offset: int) -> bool:
        """Nobody will ever get it again."""
        is_above = (offset & (1 << BLOCK_BITS) - 1) in self.settled.get(offset >> BLOCK_BITS, BitMap())
        return offset not in self.parked and (offset < self.watermark or is_above)

    def was_attempted(self, offset: int) -> bool:
        """Recorded as handed over, with no end of that known."""
        return (offset & (1 << BLOCK_BITS) - 1) in self.attempted.get(offset >> BLOCK_BITS, BitMap())

    def attempts(self, offset: int) -> int:
        """Attempts that the next owner must know of."""
        held = self.held.get(offset)
        return (0 if held is None else held.attempts) + self.was_attempted(offset)


def _put(blocks: dict[int, BitMap], block: int, bitmap: bytes | None) -> None:
    if bitmap is None:
        blocks.pop(block, None)
    else:
        blocks[block] = BitMap.deserialize(bitmap)
