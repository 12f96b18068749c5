"""Why messages failed, as far as a channel remembers it (REDELIVER-10)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from jbm_kafka.core.channel import durable_state
from jbm_kafka.core.channel.entries import Entry, Failure, FailureGone, Held, HeldGone, Position
from jbm_kafka.core.channel.settlement import Modified
from jbm_kafka.core.failure_text import cut_to_bytes
from tests.core.channel_parts import Channel, message, recovered

POSITION = Position("topic", "jbm.test:1", 0, 9, 9, 0)


def failed(channel: Channel, why: str | None, *, delay_ms: int = 0) -> None:
    """The next message is handed over, and comes back."""
    [offset] = channel.got("a", 1)
    channel.give_back("a", Modified(offset, counted=True, delay_ms=delay_ms, last_error=why))


def told(entries: Sequence[Entry]) -> list[Failure | FailureGone]:
    return [entry for entry in entries if isinstance(entry, Failure | FailureGone)]


def test_the_latest_error_is_written_with_the_return_and_deleted_with_the_end() -> None:
    """REDELIVER-10."""
    channel = Channel(message(0))
    failed(channel, "ValueError: first")
    assert told(channel.checkpoint()) == [Failure(0, "ValueError: first")]
    failed(channel, "ValueError: last")
    assert told(channel.checkpoint()) == [Failure(0, "ValueError: last")]
    channel.got("a")
    channel.acknowledge("a", 0)
    assert told(channel.checkpoint()) == [FailureGone(0)]
    assert told(channel.checkpoint()) == []


def test_what_was_never_written_is_not_deleted() -> None:
    """Of REDELIVER-10."""
    channel = Channel(message(0))
    failed(channel, "ValueError: first")
    channel.got("a")
    channel.acknowledge("a", 0)
    assert told(channel.checkpoint()) == []


def test_of_an_attempt_that_says_nothing_the_error_of_an_earlier_one_is_not_told() -> None:
    """Of REDELIVER-10: an operator would read what was mended already."""
    channel = Channel(message(0))
    failed(channel, "ValueError: first")
    channel.checkpoint()
    failed(channel, None)
    assert 0 not in channel.state.durable.failures
    assert told(channel.checkpoint()) == [FailureGone(0)]


def test_what_goes_back_uncounted_keeps_why_it_failed() -> None:
    """Of REDELIVER-10: a worker that stops gives back what it has, and no attempt of it failed."""
    channel = Channel(message(0))
    failed(channel, "ValueError: first")
    channel.got("a")
    channel.give_back("a", Modified(0, counted=False))
    assert told(channel.checkpoint()) == [Failure(0, "ValueError: first")]


def test_what_leaves_with_a_checkpoint_takes_its_error_along() -> None:
    """Of REDELIVER-10: a commit settles what is in hand, in the checkpoint that has its sends."""
    channel = Channel(message(0))
    failed(channel, "ValueError: first")
    channel.checkpoint()
    channel.got("a")
    assert told(channel.checkpoint(tentative=[0])) == [FailureGone(0)]
    channel.acknowledge("a", 0, durable=True)
    assert channel.state.durable.written_failures == set()
    assert told(channel.checkpoint()) == []


def test_a_checkpoint_that_failed_is_written_once_more() -> None:
    """Of REDELIVER-10."""
    channel = Channel(message(0))
    failed(channel, "ValueError: first")
    channel.state.apply(channel.freeze().failed)
    assert told(channel.checkpoint()) == [Failure(0, "ValueError: first")]


def test_a_new_owner_knows_it_and_deletes_it_at_the_end() -> None:
    """REDELIVER-10."""
    channel = recovered(POSITION, Held(3, 1, 0, 0, None, "returned"), Failure(3, "ValueError: first"))
    assert channel.state.durable.failures == {3: "ValueError: first"}
    assert told(channel.checkpoint(offered_position=9)) == []


def test_of_what_is_not_held_an_error_is_not_told_and_goes() -> None:
    """Of REDELIVER-10."""
    channel = recovered(POSITION, Failure(3, "ValueError: first"))
    assert channel.state.durable.failures == {}
    assert told(channel.checkpoint(offered_position=9)) == [FailureGone(3)]


def test_an_entry_that_was_deleted_later_counts_no_more() -> None:
    """Of REDELIVER-10."""
    held = Held(3, 1, 0, 0, None, "returned")
    channel = recovered(POSITION, held, Failure(3, "ValueError: first"), FailureGone(3), HeldGone(4))
    assert channel.state.durable.failures == {}


def test_of_more_than_so_many_messages_it_is_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of REDELIVER-10, LOG-7: memory does not grow with what fails."""
    monkeypatch.setattr(durable_state, "FAILURES_MAX", 1)
    channel = Channel(message(0), message(1))
    failed(channel, "first", delay_ms=1_000)
    failed(channel, "second", delay_ms=1_000)
    assert channel.state.durable.failures == {0: "first"}


def test_a_long_text_is_cut_between_characters() -> None:
    """Of REDELIVER-10: at most 200 bytes."""
    assert cut_to_bytes("no such customer", 16) == "no such customer"
    assert cut_to_bytes("ö" * 9, 16) == "ö" * 6 + "…"
    assert len(cut_to_bytes("ö" * 300, 200).encode()) <= 200
