"""Gathers what a checkpoint writes of one channel, from what is dirty, once: pure.

`tentative` offsets are in the hand of a transfer (a session's commit, a dead letter) whose sends share the
checkpoint: the entries say settled, the live state follows when the checkpoint is durable. Replaying the entries of
all durable freezes gives the durable part of the live state.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pyroaring import BitMap

from jbm_kafka.core.channel.changes import FreezeDurable, FreezeFailed, Frozen, PassedToBranch
from jbm_kafka.core.channel.channel_state import ChannelState
from jbm_kafka.core.channel.entries import (
    Attempted,
    Entry,
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
from jbm_kafka.core.channel.holders import returning
from jbm_kafka.core.channel.unsettled import BLOCK_BITS, BLOCK_SIZE


@dataclass(frozen=True, slots=True)
class Freeze:
    """One channel's part of a checkpoint."""

    entries: tuple[Entry, ...]
    """Absolute values, one per key; the position is always among them."""
    watermark: int
    """The offset to commit for the group, tentative offsets counted as settled."""
    frozen: Frozen
    """Apply at once: what was dirty is clean."""
    durable: FreezeDurable
    """Apply when the checkpoint is committed."""
    failed: FreezeFailed
    """Apply when it is aborted."""
    parked_count: int = 0
    """How many records the changelog keeps once it is committed."""


def freeze(
    state: ChannelState,
    *,
    topic_id: str,
    checkpoint_id: str,
    offered_position: int,
    tentative: Collection[int] = (),
    attempted: Collection[int] | None = None,
    preparing: Sequence[PassedToBranch] = (),
    parking: Sequence[Parked] = (),
) -> Freeze:
    """The entries of a checkpoint. `offered_position` is the mark to record: ahead of hand-over, or, on a clean
    release, below what was handed over, when nothing of it is in hand any more.

    `attempted`: the offsets that applications have, or are about to get, each of which a crash makes an attempt
    (REDELIVER-7); then no mark need be ahead. None: they are not recorded.

    `preparing`: what branches get by this checkpoint, which is in no application's hand any more; to be applied when
    it is durable.

    `parking`: records that the changelog is to keep from now on, as far as they are not settled
    (core/channel/parking.py).
    """
    assert offered_position >= state.redelivered_below, (offered_position, state.redelivered_below)
    assert attempted is not None or offered_position >= state.delivered_position or not _is_in_hand(state), (
        offered_position,
        state.delivered_position,
    )
    parked = {row.offset: row for row in parking if row.offset in state.unsettled and row.offset not in tentative}
    watermark = state.durable.watermark_without([*tentative, *parked]) if tentative or parked else state.watermark
    kept = {*state.durable.parked_bytes, *parked}
    unparked = state.durable.dirty_parked.union(o for o in tentative if o in state.durable.parked_bytes)
    blocks = state.durable.dirty_blocks | {offset >> BLOCK_BITS for offset in tentative}
    blocks |= {number for number in state.durable.written_blocks if (number + 1) << BLOCK_BITS <= watermark}
    held = state.durable.dirty_held | {offset for offset in tentative if offset in state.durable.written_held}
    settled, blocks_gone = _settled_entries(state, blocks, watermark, tentative)
    remembered, held_gone = _held_entries(state, held, tentative)
    passed = {*tentative, *(offset for each in preparing for offset in each.offsets)} if preparing else tentative
    attempts = _attempted_entries(state, passed, attempted or ())
    branches = frozenset(state.durable.dirty_branches)
    position = Position(
        topic_id=topic_id,
        checkpoint_id=checkpoint_id,
        watermark=watermark,
        fetched=state.end_position,
        offered=offered_position,
        truncated=state.durable.truncated,
    )
    buckets = frozenset(state.window.dirty)
    seen_ids = [entry for bucket in sorted(buckets) if (entry := state.window.entry(bucket)) is not None]
    frozen = Frozen(checkpoint_id=checkpoint_id, blocks=frozenset(blocks), held=frozenset(held), buckets=buckets,
        branches=branches, unparked=frozenset(unparked))  # fmt: skip
    return Freeze(
        entries=(
            position,
            *settled,
            *parked.values(),
            *(ParkedGone(o) for o in sorted(unparked) if o in tentative or o not in state.durable.parked_bytes),
            *remembered,
            *(Attempted(number, bitmap) for number, bitmap in attempts.items()),
            *(Prepared(each.branch, tuple(sorted(each.offsets))) for each in preparing),
            *(Prepared(branch, None) for branch in sorted(branches)),
            *seen_ids,
        ),
        watermark=watermark,
        frozen=frozen,
        durable=FreezeDurable(
            frozen=frozen,
            offered_position=offered_position,
            blocks_gone=blocks_gone,
            held_gone=held_gone,
            attempted=attempts,
            parked={offset: row.size for offset, row in parked.items()},
        ),
        failed=FreezeFailed(frozen=frozen),
        parked_count=len(kept.difference(tentative)) if kept else 0,
    )


def _is_in_hand(state: ChannelState) -> bool:
    return any(hand for _, hand in returning(state.in_hand))


def _attempted_entries(
    state: ChannelState, tentative: Collection[int], attempted: Collection[int]
) -> dict[int, bytes | None]:
    """Return what changed of the messages that applications have, by block."""
    now: dict[int, list[int]] = {}
    for offset in attempted:
        if offset not in tentative:
            now.setdefault(offset >> BLOCK_BITS, []).append(offset & (BLOCK_SIZE - 1))
    changed: dict[int, bytes | None] = {}
    for number in sorted(now.keys() | state.durable.written_attempted.keys()):
        bitmap = BitMap(now[number]).serialize() if number in now else None
        if bitmap != state.durable.written_attempted.get(number):
            changed[number] = bitmap
    return changed


def _settled_entries(
    state: ChannelState, blocks: Collection[int], watermark: int, tentative: Collection[int]
) -> tuple[list[Entry], frozenset[int]]:
    entries: list[Entry] = []
    gone: set[int] = set()
    for number in sorted(blocks):
        settled = state.unsettled.settled_in(number, watermark, state.end_position, tentative)
        if settled and (number + 1) * BLOCK_SIZE > watermark:
            settled.run_optimize()
            entries.append(Settled(block=number, bitmap=settled.serialize()))
        else:
            gone.add(number)
            if number in state.durable.written_blocks:
                entries.append(Settled(block=number, bitmap=None))
    return entries, frozenset(gone)


def _held_entries(
    state: ChannelState, offsets: Collection[int], tentative: Collection[int]
) -> tuple[list[Entry], frozenset[int]]:
    entries: list[Entry] = []
    gone: set[int] = set()
    failures, written_failures = state.durable.failures, state.durable.written_failures
    for offset in sorted(offsets):
        redelivery = state.redeliveries.get(offset)
        if redelivery is not None and offset not in tentative:
            entries.append(
                Held(
                    offset=offset,
                    attempts=redelivery.attempts,
                    due_at_ms=redelivery.due_at_ms,
                    delay_ms=redelivery.delay_ms,
                    unit=redelivery.unit,
                    reason=redelivery.reason,
                )
            )
            if offset in failures:
                entries.append(Failure(offset, failures[offset]))
            elif offset in written_failures:
                entries.append(FailureGone(offset))
            continue
        gone.add(offset)
        if offset in written_failures:
            entries.append(FailureGone(offset))
        if offset in state.durable.written_held:
            entries.append(HeldGone(offset=offset))
    return entries, frozenset(gone)
