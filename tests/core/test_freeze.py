"""What a checkpoint writes, and what a new owner makes of it."""

from __future__ import annotations

import pytest
from pyroaring import BitMap

from jbm_kafka.core.channel import changes as c
from jbm_kafka.core.channel.delivery_count import delivery_count_of
from jbm_kafka.core.channel.entries import Held, HeldGone, Position, Settled
from jbm_kafka.core.channel.settlement import Modified
from jbm_kafka.core.channel.unsettled import BLOCK_SIZE
from tests.core.channel_parts import START_MS, Channel, message, recovered


def test_a_checkpoint_writes_only_what_changed() -> None:
    channel = Channel(message(0), message(1), message(2))
    channel.got("a")
    channel.acknowledge("a", 1)
    position, settled = channel.checkpoint()
    assert isinstance(position, Position)
    assert (position.watermark, position.fetched) == (0, 3)
    assert isinstance(settled, Settled)
    assert [type(entry) for entry in channel.checkpoint()] == [Position]
    assert not channel.state.is_dirty


def test_an_acknowledgement_behind_the_watermark_needs_no_bitmap() -> None:
    """Of LOG-2."""
    channel = Channel(message(0), message(1))
    channel.got("a")
    channel.acknowledge("a", 0)
    assert [entry for entry in channel.checkpoint() if isinstance(entry, Settled)] == []
    assert channel.state.watermark == 1


def test_a_block_is_deleted_once_the_watermark_has_passed_it() -> None:
    """Of LOG-8."""
    channel = Channel(message(0), message(1), message(BLOCK_SIZE))
    channel.got("a")
    channel.acknowledge("a", 1)
    channel.checkpoint()
    channel.acknowledge("a", 0)
    assert Settled(block=0, bitmap=None) in channel.checkpoint()
    assert [type(entry) for entry in channel.checkpoint()] == [Position]


def test_a_block_that_somebody_left_below_the_watermark_is_deleted() -> None:
    """Of LOG-8: though nothing of it changed."""
    position = Position("topic", "jbm.test:1", BLOCK_SIZE + 5, BLOCK_SIZE + 9, BLOCK_SIZE + 9, 0)
    channel = recovered(position, Settled(block=0, bitmap=BitMap([3]).serialize()))
    assert Settled(block=0, bitmap=None) in channel.checkpoint(offered_position=BLOCK_SIZE + 9)


def test_a_returned_message_is_held_until_it_is_settled() -> None:
    """REDELIVER-1, LOG-3."""
    channel = Channel(message(0, b"u"))
    channel.got("a")
    channel.give_back("a", Modified(0, counted=True, delay_ms=70))
    held = Held(0, attempts=1, due_at_ms=START_MS + 70, delay_ms=70, unit=b"u", reason="returned")
    assert held in channel.checkpoint()
    channel.pass_time(70)
    channel.got("a")
    channel.acknowledge("a", 0)
    assert HeldGone(offset=0) in channel.checkpoint()
    assert [type(entry) for entry in channel.checkpoint()] == [Position]


def test_what_was_held_and_settled_between_two_checkpoints_is_never_written() -> None:
    channel = Channel(message(0))
    channel.got("a")
    channel.give_back("a", 0)
    channel.got("a")
    channel.acknowledge("a", 0)
    assert [type(entry) for entry in channel.checkpoint()] == [Position]


def test_tentative_messages_count_as_settled_in_the_checkpoint_and_not_before_in_the_channel() -> None:
    """ACK-7, LOG-5: verdicts and sends of a transaction become visible together."""
    channel = Channel(message(0), message(1), message(2))
    channel.got("a")
    taken = channel.freeze(tentative={0, 2})
    assert taken.watermark == 1
    assert channel.state.watermark == 0
    channel.state.apply(taken.durable)
    channel.acknowledge("a", 0, 2, durable=True)
    assert channel.state.watermark == 1
    assert not channel.state.is_dirty
    assert list(recovered(*taken.entries).state.unsettled) == [1]


def test_a_tentative_message_with_a_past_is_held_no_more() -> None:
    """REDELIVER-5: the dead letter's copy, its removal and its count are one transaction."""
    channel = Channel(message(0))
    channel.got("a")
    channel.give_back("a", 0)
    channel.checkpoint()
    channel.got("a")
    taken = channel.freeze(tentative={0})
    assert HeldGone(offset=0) in taken.entries
    channel.state.apply(taken.durable)
    channel.acknowledge("a", 0, durable=True)
    assert not channel.state.redeliveries
    assert [type(entry) for entry in channel.checkpoint()] == [Position]


def test_what_an_aborted_checkpoint_took_is_in_the_next_one() -> None:
    channel = Channel(message(0), message(1), message(2))
    channel.got("a")
    channel.acknowledge("a", 1)
    channel.give_back("a", 2)
    taken = channel.freeze()
    assert not channel.state.is_dirty
    channel.state.apply(taken.failed)
    assert channel.state.is_dirty
    assert set(channel.checkpoint()) == set(taken.entries)


def test_less_than_what_was_handed_over_cannot_be_recorded() -> None:
    """REDELIVER-7: what may have been handed over comes back with the flag."""
    channel = Channel(message(0), message(1))
    channel.got("a")
    with pytest.raises(AssertionError):
        channel.freeze(offered_position=1)


def test_offered_is_raised_when_the_checkpoint_is_durable_and_not_before() -> None:
    channel = Channel(message(0), offered_position=0)
    taken = channel.freeze(offered_position=10)
    assert channel.ask("a").needs_offered
    channel.state.apply(taken.durable)
    assert channel.got("a") == [0]


def test_a_new_owner_tells_redelivered_of_what_may_have_been_handed_over_and_of_nothing_else() -> None:
    """REDELIVER-7: what lies below the recorded mark, and is not settled."""
    first = Channel(message(0), message(1), message(2))
    first.got("a", 1)
    first.give_back("a", Modified(0, counted=False))
    channel = recovered(*first.checkpoint(offered_position=first.state.delivered_position))
    channel.fetch(message(0), message(1), message(2))
    assert [delivery_count_of(channel.state, offset).redelivered for offset in (0, 1, 2)] == [True, False, False]
    assert [delivery_count_of(channel.state, offset).delivery_count for offset in (0, 1, 2)] == [2, 1, 1]


def test_after_a_clean_release_only_what_was_counted_is_told_redelivered() -> None:
    """REDELIVER-1: what came back unseen, and what waited behind it, is new to the next owner too."""
    first = Channel(message(0), message(1), message(2))
    first.got("a", 3)
    first.give_back("a", Modified(0, counted=True), Modified(1, counted=False), Modified(2, counted=False))
    channel = recovered(*first.checkpoint(offered_position=first.state.redelivered_below))
    channel.fetch(message(0), message(1), message(2))
    assert [delivery_count_of(channel.state, offset).redelivered for offset in (0, 1, 2)] == [True, False, False]


def test_the_mark_is_not_lowered_while_anything_is_in_hand() -> None:
    channel = Channel(message(0))
    channel.got("a", 1)
    with pytest.raises(AssertionError):
        channel.checkpoint(offered_position=channel.state.redelivered_below)


def test_a_new_owner_delivers_nothing_that_was_settled() -> None:
    """LOG-3."""
    first = Channel(*(message(offset) for offset in range(6)))
    first.got("a")
    first.acknowledge("a", 0, 1, 3, 5)
    channel = recovered(*first.checkpoint(offered_position=6))
    assert channel.state.read_position == channel.state.watermark == 2
    channel.fetch(*(message(offset) for offset in range(2, 6)), end=6)
    channel.state.apply(c.OfferedRaised(6))
    assert channel.got("b") == [2, 4]


def test_a_gap_found_when_read_again_is_settled_with_its_past() -> None:
    """Of LOG-2: offsets that hold no message are never waited for."""
    first = Channel(message(0), message(1), message(2))
    first.got("a")
    first.give_back("a", 1)
    channel = recovered(*first.checkpoint(offered_position=3))
    channel.fetch(message(0), end=2)  # 1 is gone: compacted, or deleted by an operator
    assert not channel.state.redeliveries
    channel.state.apply(c.OfferedRaised(3))
    channel.got("b")
    channel.acknowledge("b", 0)
    assert channel.state.watermark == 2
    assert HeldGone(offset=1) in channel.checkpoint()


def test_a_new_owner_reads_on_beyond_what_the_old_one_had_seen() -> None:
    first = Channel(message(0), message(1))
    channel = recovered(*first.checkpoint(offered_position=0))
    channel.fetch(message(0), message(1), message(4))
    assert list(channel.state.unsettled) == [0, 1, 4]
    assert channel.state.end_position == 5


def test_a_new_owner_may_not_pass_over_what_it_must_read_again() -> None:
    channel = recovered(*Channel(message(0), message(1)).checkpoint(offered_position=0))
    with pytest.raises(AssertionError, match="watermark"):
        channel.state.apply(c.Fetched(begin=1, end=2, references=[message(1)]))


def test_a_position_comes_first_and_once() -> None:
    position = Channel(message(0)).checkpoint(offered_position=0)[0]
    with pytest.raises(AssertionError):
        recovered(position, position)


def test_a_new_owner_waits_at_most_the_delay_whatever_its_clock_says() -> None:
    """REDELIVER-2: the old owner's clock was an hour ahead."""
    held = Held(0, attempts=1, due_at_ms=START_MS + 3_600_000, delay_ms=70, unit=None, reason="returned")
    position = Channel(message(0)).checkpoint(offered_position=1)[0]
    channel = recovered(position, held)
    assert channel.state.redeliveries[0].due_at_ms == START_MS + 70
    without_clock = recovered(position, now_ms=0)
    without_clock.state.time_ms = 0
    without_clock.state.apply(held)
    assert without_clock.state.redeliveries[0].due_at_ms == held.due_at_ms


def test_deleted_entries_that_compaction_has_not_removed_yet_do_no_harm() -> None:
    channel = recovered(Channel(message(0), message(1)).checkpoint(offered_position=0)[0])
    channel.state.apply(Held(0, 1, 0, 0, None, "returned"))
    channel.state.apply(HeldGone(offset=0))
    channel.state.apply(Settled(block=0, bitmap=None))
    assert not channel.state.redeliveries
    assert list(channel.state.unsettled) == [0, 1]


def test_a_held_entry_of_a_settled_message_is_not_believed() -> None:
    first = Channel(message(0), message(1))
    first.got("a")
    first.acknowledge("a", 0)
    channel = recovered(*first.checkpoint(offered_position=2))
    channel.state.apply(Held(0, 1, 0, 0, None, "returned"))
    assert not channel.state.redeliveries
