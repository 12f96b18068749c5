"""Attempts that are in the changelog before the application sees the message (REDELIVER-7)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pyroaring import BitMap

from jbm_kafka.core.channel import changes as c
from jbm_kafka.core.channel.delivery_count import delivery_count_of
from jbm_kafka.core.channel.departure import OUT_OF_ATTEMPTS
from jbm_kafka.core.channel.entries import Attempted, Entry, Held, HeldGone, Position, Settled
from jbm_kafka.core.channel.freeze import freeze
from jbm_kafka.core.channel.offer import decide_offer
from jbm_kafka.core.channel.reference import DEPARTING
from jbm_kafka.core.channel.settlement import Modified
from jbm_kafka.core.channel.unsettled import BLOCK_SIZE
from tests.core.channel_parts import Channel, message, recovered


def checkpoint(channel: Channel, *, tentative: Collection[int] = (), records: bool = True) -> Sequence[Entry]:
    in_hand = [offset for session, hand in channel.state.in_hand.items() if session != DEPARTING for offset in hand]
    taken = freeze(
        channel.state,
        topic_id="topic",
        checkpoint_id="jbm.test:1",
        offered_position=channel.state.offered_position,
        tentative=tentative,
        attempted=in_hand if records else None,
    )
    channel.state.apply(taken.frozen)
    channel.state.apply(taken.durable)
    return taken.entries


def attempted(entries: Sequence[Entry]) -> dict[int, list[int] | None]:
    found = [entry for entry in entries if isinstance(entry, Attempted)]
    return {e.block: None if e.bitmap is None else list(BitMap.deserialize(e.bitmap)) for e in found}


def test_what_is_in_hand_is_recorded_by_block_and_only_when_it_changes() -> None:
    channel = Channel(message(0), message(2), message(BLOCK_SIZE + 7))
    channel.got("a", 2)
    channel.got("b")
    assert attempted(checkpoint(channel)) == {0: [0, 2], 1: [7]}
    assert attempted(checkpoint(channel)) == {}
    channel.acknowledge("a", 0)
    channel.acknowledge("b", BLOCK_SIZE + 7)
    assert attempted(checkpoint(channel)) == {0: [2], 1: None}


def test_what_a_checkpoint_settles_or_sends_away_is_in_no_hand() -> None:
    channel = Channel(message(0), message(1), message(2, expires=1))
    channel.got("a")
    assert attempted(checkpoint(channel, tentative={0})) == {0: [1]}


def test_without_recording_nothing_is_written_and_what_was_is_deleted() -> None:
    channel = Channel(message(0), message(1))
    channel.got("a", 1)
    assert attempted(checkpoint(channel, records=False)) == {}
    checkpoint(channel)
    channel.got("a")
    assert attempted(checkpoint(channel, records=False)) == {0: None}


def test_what_was_given_back_must_not_stay_recorded() -> None:
    channel = Channel(message(0))
    channel.got("a")
    checkpoint(channel)
    channel.give_back("a", Modified(0, counted=False))
    assert attempted(checkpoint(channel)) == {0: None}


def test_a_message_in_hand_at_a_crash_has_one_attempt_more() -> None:
    """REDELIVER-1, REDELIVER-7: known before, or never returned before; and that is durable at the next checkpoint."""
    first = Channel(message(0, b"u"), message(1, b"v"), message(2, b"w"))
    first.got("a")
    first.give_back("a", 0)
    first.got("a")
    first.acknowledge("a", 2)
    entries = checkpoint(first)
    position, held = entries[0], next(entry for entry in entries if isinstance(entry, Held))
    rest = [entry for entry in entries if entry not in (position, held)]
    settled = [entry for entry in rest if isinstance(entry, Settled)]
    channel = recovered(position, *settled, *(e for e in rest if isinstance(e, Attempted)), held)
    assert {offset: redelivery.attempts for offset, redelivery in channel.state.redeliveries.items()} == {0: 2, 1: 1}
    channel.fetch(message(0, b"u"), message(1, b"v"), message(2, b"w"))
    assert delivery_count_of(channel.state, 1).delivery_count == 2
    written = checkpoint(channel)
    assert {entry.offset: entry.attempts for entry in written if isinstance(entry, Held)} == {0: 2, 1: 1}
    assert attempted(written) == {0: None}


def test_a_recorded_attempt_of_a_settled_message_counts_for_nothing() -> None:
    first = Channel(message(0), message(1), message(2))
    first.got("a")
    stale = [entry for entry in checkpoint(first) if isinstance(entry, Attempted)]
    first.acknowledge("a", 0, 2)
    position, settled, *_ = checkpoint(first)
    assert isinstance(settled, Settled)
    channel = recovered(position, settled, *stale, Attempted(block=0, bitmap=None))
    assert list(channel.state.redeliveries) == [1]


def test_a_message_that_kills_every_process_leaves_after_its_attempts() -> None:
    """REDELIVER-3, REDELIVER-7."""
    first = Channel(message(0, b"u"))
    first.got("a")
    channel = recovered(*checkpoint(first))
    channel.fetch(message(0, b"u"))
    channel.state.apply(c.OfferedRaised(1))
    offer = decide_offer(channel.state, "b", limit=5, now_ms=channel.now_ms, attempts_max=1)
    assert [(reference.offset, reason) for reference, reason in offer.leaving] == [(0, OUT_OF_ATTEMPTS)]
    again = decide_offer(channel.state, "b", limit=5, now_ms=channel.now_ms, attempts_max=2)
    assert [reference.offset for reference in again.references] == [0]


def test_a_due_time_cut_to_our_clock_is_recorded_anew() -> None:
    """REDELIVER-2: or owners that follow each other quickly would each begin the wait again."""
    position = Channel(message(0)).checkpoint(offered_position=1)[0]
    channel = recovered(position, Held(0, 1, 1 << 41, 70, None, "returned"))
    assert channel.state.is_dirty
    (held,) = [entry for entry in channel.checkpoint(offered_position=1) if not isinstance(entry, Position)]
    assert isinstance(held, Held)
    assert held.due_at_ms == channel.now_ms + 70
    assert not any(isinstance(entry, HeldGone) for entry in channel.checkpoint(offered_position=1))
