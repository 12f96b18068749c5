"""The part of a channel that its changelog remembers. `ChannelState` holds it, and changes it within `apply` only.

`replaying` the entries of all durable freezes gives an equal `DurableState`; that is what recovery does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, assert_never

from pyroaring import BitMap

from jbm_kafka.core.channel import changes as c
from jbm_kafka.core.channel.entries import (
    Attempted,
    Failure,
    FailureGone,
    Held,
    HeldGone,
    Parked,
    ParkedGone,
    Position,
    Prepared,
    Settled,
)
from jbm_kafka.core.channel.redelivery_states import RETURNED, RETURNED_NOW, SENT_NOW, RedeliveryState, RedeliveryStates
from jbm_kafka.core.channel.reference import Reference
from jbm_kafka.core.channel.unsettled import BLOCK_BITS, UnsettledOffsets

FAILURES_MAX: Final = 10_000
"""The number of messages of a channel whose failures are known: memory must not grow with what fails, and to see the
cause nobody needs more."""


class DurableState:
    """Settled offsets, `end_position`, `offered_position`, the past of returned messages; and what of it is dirty."""

    __slots__ = (
        "attempted_before",
        "dirty_blocks",
        "dirty_branches",
        "dirty_held",
        "dirty_parked",
        "end_position",
        "failures",
        "is_dirty",
        "offered_position",
        "parked",
        "parked_bytes",
        "prepared",
        "redelivered_below",
        "redeliveries",
        "truncated",
        "unsettled",
        "written_attempted",
        "written_blocks",
        "written_failures",
        "written_held",
    )

    def __init__(self) -> None:
        self.unsettled = UnsettledOffsets()
        """Known and not settled. After recovery: everything below `end_position` that is not known to be settled."""
        self.end_position = 0
        """Durable head: one past the highest offset ever seen."""
        self.truncated = 0
        """We deleted everything below from the log."""
        self.offered_position = 0
        """Offsets below may be handed over: the changelog says that they may have been."""
        self.redelivered_below = 0
        """Offsets below were possibly handed over by an earlier owner (REDELIVER-7)."""
        self.redeliveries = RedeliveryStates()
        """Unsettled messages with a history, by offset."""
        self.failures: dict[int, str] = {}
        """Why the latest failed attempt of a returned message failed, by offset, as far as it was said."""
        self.attempted_before: set[int] = set()
        """Offsets that an earlier owner recorded as handed over, and that were not settled: one more attempt each."""
        self.prepared: dict[str, frozenset[int]] = {}
        """The messages of each prepared branch; the changelog says so."""
        self.parked = UnsettledOffsets()
        """The unsettled offsets whose records the changelog keeps: they hold neither the watermark nor the log."""
        self.parked_bytes: dict[int, int] = {}
        """How large these records are."""
        self.is_dirty = False
        self.dirty_parked: set[int] = set()
        """Settled, and the changelog still keeps their records."""
        self.dirty_branches: set[str] = set()
        """Ended, and the changelog does not say so yet."""
        self.dirty_blocks: set[int] = set()
        self.dirty_held: set[int] = set()
        self.written_blocks: set[int] = set()
        """Blocks that may have a `settled` entry in the changelog."""
        self.written_held = UnsettledOffsets()
        """Offsets that may have a `held` entry in the changelog."""
        self.written_failures: set[int] = set()
        """Offsets that may have a `failure` entry there. It is written and deleted with the `held` entry."""
        self.written_attempted: dict[int, bytes] = {}
        """The `attempted` entries in the changelog, by block."""

    @property
    def watermark(self) -> int:
        """Every offset below is settled or parked: where a restarted reader must resume."""
        return self.watermark_without(()) if self.parked_bytes else self.unsettled.first(self.end_position)

    def watermark_without(self, also: Iterable[int]) -> int:
        """As the watermark is once these are settled or parked, too."""
        return self.unsettled.first_without(self.end_position, also, self.parked)

    def fetch(self, end: int) -> None:
        """The log was read up to there."""
        if end > self.end_position:
            self.end_position = end
            self.is_dirty = True

    def know(self, references: Sequence[Reference], end: int) -> None:
        """These were read for the first time, in the order of the log and below `end`."""
        if not references:
            return
        first, last = references[0].offset, references[-1].offset
        assert last < end, (last, end)
        if last - first + 1 == len(references):
            self.unsettled.add_range(first, last + 1)
        else:
            self.unsettled.add([reference.offset for reference in references])

    # -- checkpoints -------------------------------------------------------------------------------------------

    def raise_offered(self, change: c.OfferedRaised) -> None:
        self.offered_position = max(self.offered_position, change.offered_position)

    def note_truncated(self, change: c.LogTruncated) -> None:
        before = min(change.before, self.watermark)  # where it was reset meanwhile
        if before > self.truncated:
            self.truncated = before
            self.is_dirty = True

    def mark_frozen(self, change: c.Frozen) -> None:
        self.dirty_blocks -= change.blocks
        self.dirty_held -= change.held
        self.dirty_branches -= change.branches
        self.dirty_parked -= change.unparked
        self.is_dirty = bool(self.dirty_blocks or self.dirty_held or self.dirty_branches or self.dirty_parked)
        self.written_blocks |= change.blocks
        self.written_held.add(sorted(change.held))
        self.written_failures.update(offset for offset in change.held if offset in self.failures)

    def mark_durable(self, change: c.FreezeDurable) -> None:
        self.offered_position = max(self.offered_position, change.offered_position)
        self.written_blocks -= change.blocks_gone
        self.written_held.discard(sorted(change.held_gone))
        self.redeliveries.note_written(change.frozen.held - change.held_gone - self.dirty_held)
        if self.written_failures:
            clean = change.frozen.held - self.dirty_held
            self.written_failures.difference_update(offset for offset in clean if offset not in self.failures)
        for number, bitmap in change.attempted.items():
            if bitmap is None:
                self.written_attempted.pop(number, None)
            else:
                self.written_attempted[number] = bitmap
        for offset, size in change.parked.items():
            self._park(offset, size)

    def mark_failed(self, change: c.FreezeFailed) -> None:
        self.dirty_blocks |= change.frozen.blocks
        self.dirty_held |= change.frozen.held
        self.dirty_branches |= change.frozen.branches
        self.dirty_parked |= change.frozen.unparked
        self.is_dirty = True

    # -- recovery: changelog entries ---------------------------------------------------------------------------

    def recover(
        self,
        entry: Position
        | Settled
        | Attempted
        | Held
        | HeldGone
        | Failure
        | FailureGone
        | Parked
        | ParkedGone
        | Prepared,
        now_ms: int,
    ) -> None:
        """Make one change that was read from the changelog."""
        match entry:
            case Position():
                self._recover_position(entry)
            case Settled():
                self._recover_settled(entry)
            case Attempted():
                self._recover_attempted(entry)
            case Held():
                self._recover_held(entry, now_ms)
            case HeldGone():
                self._recover_held_gone(entry)
            case Failure():
                self._recover_failure(entry)
            case FailureGone(offset=offset):
                self.failures.pop(offset, None)
            case Parked(offset=offset):
                self._recover_parked(offset, entry.size)
            case ParkedGone():
                pass
            case Prepared():
                self._recover_prepared(entry)
            case _:
                assert_never(entry)

    def _recover_position(self, entry: Position) -> None:
        assert not self.end_position, "a position is applied first, and once"
        self.end_position = entry.fetched
        self.truncated = entry.truncated
        self.offered_position = self.redelivered_below = entry.offered
        self.unsettled.add_range(entry.watermark, entry.fetched)

    def _recover_settled(self, entry: Settled) -> None:
        if entry.bitmap is not None:
            self.unsettled.discard_bitmap(entry.block, BitMap.deserialize(entry.bitmap))
            self.written_blocks.add(entry.block)

    def _recover_parked(self, offset: int, size: int) -> None:
        """Comes after the position and the settled ones: below the watermark nothing else is unsettled."""
        if offset < self.watermark:
            self.unsettled.add([offset])
        self._park(offset, size)

    def _park(self, offset: int, size: int) -> None:
        """The changelog keeps its record; what was settled meanwhile is deleted there."""
        if offset in self.unsettled:
            self.parked.add([offset])
            self.parked_bytes[offset] = size
        else:
            self.dirty_parked.add(offset)
            self.is_dirty = True

    def _recover_held(self, entry: Held, time_ms: int) -> None:
        self.written_held.add([entry.offset])
        if entry.offset in self.unsettled:
            # The writer's clock may have been ahead of ours: nobody waits longer than the delay itself.
            due_at_ms = min(entry.due_at_ms, time_ms + entry.delay_ms) if time_ms else entry.due_at_ms
            if due_at_ms != entry.due_at_ms:
                # Recorded anew, or owners that follow each other quickly would each begin the wait again.
                self.dirty_held.add(entry.offset)
                self.is_dirty = True
            attempts = entry.attempts + (entry.offset in self.attempted_before)
            self.redeliveries.remember(
                entry.offset, RedeliveryState(attempts, due_at_ms, entry.delay_ms, entry.unit, entry.reason)
            )
            if entry.offset not in self.dirty_held:
                self.redeliveries.note_written([entry.offset])

    def _recover_attempted(self, entry: Attempted) -> None:
        """Comes before the held entries, and after the settled ones.

        What was in hand counts as an attempt, whatever became of its owner.
        """
        if entry.bitmap is None:
            return
        self.written_attempted[entry.block] = entry.bitmap
        for relative in BitMap.deserialize(entry.bitmap):
            offset = (entry.block << BLOCK_BITS) + relative
            if offset in self.unsettled:
                self.attempted_before.add(offset)
                self.redeliveries.remember(offset, RedeliveryState(1, 0, 0, None, "lost"))
                self.dirty_held.add(offset)
        self.is_dirty = True

    def _recover_held_gone(self, entry: HeldGone) -> None:
        self.redeliveries.forget(entry.offset)

    def _recover_failure(self, entry: Failure) -> None:
        """Comes after the held entries: of another message it means nothing, and the next freeze deletes it."""
        self.written_failures.add(entry.offset)
        if entry.offset in self.redeliveries:
            self.failures[entry.offset] = entry.text
        else:
            self.dirty_held.add(entry.offset)
            self.is_dirty = True

    def _recover_prepared(self, entry: Prepared) -> None:
        """Comes after the settled ones: what the log lost of it is settled."""
        if entry.offsets is not None:
            self.prepared[entry.branch] = frozenset(offset for offset in entry.offsets if offset in self.unsettled)

    # -- leaves ------------------------------------------------------------------------------------------------

    def settle(self, offsets: Sequence[int], *, durable: bool = False) -> None:
        """These are settled; `durable`: the changelog says so already."""
        blocks = self.unsettled.discard(offsets)
        if self.parked_bytes:
            self._unpark([offset for offset in offsets if offset in self.parked_bytes], durable=durable)
        if blocks and not durable:
            self.dirty_blocks |= blocks
            self.is_dirty = True

    def _unpark(self, offsets: Sequence[int], *, durable: bool) -> None:
        for offset in offsets:
            del self.parked_bytes[offset]
        self.parked.discard(offsets)
        if offsets and not durable:
            self.dirty_parked.update(offsets)
            self.is_dirty = True

    def prepare(self, change: c.PassedToBranch) -> None:
        """The changelog says that the branch has these."""
        assert change.branch not in self.prepared, "all that it takes passes at once"
        self.prepared[change.branch] = frozenset(change.offsets)

    def end_branch(self, branch: str) -> None:
        """It has nothing any more."""
        del self.prepared[branch]
        self.dirty_branches.add(branch)
        self.is_dirty = True

    def remember(self, message: c.ReturnedMessage, reference: Reference) -> None:
        before = self.redeliveries.get(message.offset)
        if message.attempts or message.due_at_ms or message.was_seen or before is not None:
            if before is not None and not before.waits_for_sender:
                message = _still_let_go(message, before)
            self._note_failure(message, 0 if before is None else before.attempts)
            self._change_redelivery(message, reference.unit)

    def _note_failure(self, message: c.ReturnedMessage, attempts_before: int) -> None:
        """Only the latest counts: of an attempt that failed without a word the word of an earlier one is not told."""
        if message.failure is not None and (message.offset in self.failures or len(self.failures) < FAILURES_MAX):
            self.failures[message.offset] = message.failure
        elif message.attempts > attempts_before:
            self.failures.pop(message.offset, None)

    def let_go(self, offset: int, unit: bytes | None) -> None:
        before = self.redeliveries.get(offset)
        attempts, reason = (0, SENT_NOW) if before is None else (before.attempts, before.reason)
        if reason != SENT_NOW:
            reason = RETURNED_NOW
        self._change_redelivery(c.ReturnedMessage(offset, attempts, 0, 0, reason), unit)

    def keep(self, change: c.KeptForOperator | c.Released) -> None:
        for message in change.messages:
            self._change_redelivery(message, self.redeliveries[message.offset].unit)

    def _change_redelivery(self, message: c.ReturnedMessage, unit: bytes | None) -> None:
        self.redeliveries.remember(
            message.offset,
            RedeliveryState(message.attempts, message.due_at_ms, message.delay_ms, unit, message.reason),
        )
        self.dirty_held.add(message.offset)
        self.is_dirty = True

    def forget_past(self, offset: int, *, durable: bool = False) -> None:
        self.failures.pop(offset, None)
        if durable:
            self.written_failures.discard(offset)
        if self.redeliveries.forget(offset) and not durable:
            self.dirty_held.add(offset)
            self.is_dirty = True


def _still_let_go(message: c.ReturnedMessage, before: RedeliveryState) -> c.ReturnedMessage:
    """As it comes back: what leaves or is kept for an operator goes by that, the rest waits for no sender's delay."""
    if message.reason not in ("", RETURNED):
        return message
    had_it = message.was_seen or message.attempts > 0
    return replace(message, reason=RETURNED_NOW if had_it else before.reason)
