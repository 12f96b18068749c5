"""Which messages are parked, what a checkpoint writes of them, and what a new owner makes of it."""

from __future__ import annotations

import pytest

from jbm_kafka.core.channel import changes as c
from jbm_kafka.core.channel.entries import Entry, HeldGone, Parked, ParkedGone, Position, Settled
from jbm_kafka.core.channel.freeze import Freeze, freeze
from jbm_kafka.core.channel.parking import PARKED_BYTES_MAX, parkable
from tests.core.channel_parts import START_MS, Channel, message, recovered

EVERYTHING = 1 << 40


def parked(offset: int, body: bytes = b"body") -> Parked:
    return Parked(offset, b"u", body, (("JMSPriority", b"4"), ("absent", None)), 1, START_MS)


def held_up(*held: int, count: int) -> Channel:
    """A channel of so many messages, of which all but these are settled."""
    channel = Channel(*(message(offset) for offset in range(count)))
    channel.got("a", count)
    channel.acknowledge("a", *(offset for offset in range(count) if offset not in held))
    for offset in held:
        channel.give_back("a", offset)
    return channel


def park(channel: Channel, *rows: Parked, tentative: tuple[int, ...] = ()) -> Freeze:
    taken = freeze(
        channel.state,
        topic_id="topic",
        checkpoint_id="jbm.test:1",
        offered_position=channel.state.offered_position,
        tentative=tentative,
        parking=rows,
    )
    channel.state.apply(taken.frozen)
    return taken


def durably(channel: Channel, *rows: Parked) -> dict[object, Entry]:
    """What the changelog says after a checkpoint, by what its records would have as a key."""
    taken = park(channel, *rows)
    channel.state.apply(taken.durable)
    return {(type(entry), getattr(entry, "offset", getattr(entry, "block", 0))): entry for entry in taken.entries}


# -- which -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("count", "chosen"), [(10, []), (11, [0]), (100, [0])])
def test_ten_settled_messages_for_each_one_that_is_parked(count: int, chosen: list[int]) -> None:
    """LOG-8."""
    assert parkable(held_up(0, count=count).state.durable, below=EVERYTHING, count_max=100) == chosen


def test_neighbours_are_parked_together_where_that_pays() -> None:
    channel = held_up(0, 1, 2, 40, count=60)
    assert parkable(channel.state.durable, below=EVERYTHING, count_max=100) == [0, 1, 2, 40]
    assert parkable(channel.state.durable, below=EVERYTHING, count_max=2) == [0, 1]
    assert parkable(held_up(0, 1, 2, 40, count=44).state.durable, below=EVERYTHING, count_max=100) == [0, 1, 2, 40]
    assert parkable(held_up(0, 1, 2, 40, count=43).state.durable, below=EVERYTHING, count_max=100) == [0, 1, 2]


def test_what_came_since_the_last_look_and_what_cannot_be_parked_hold_the_watermark() -> None:
    channel = held_up(0, 50, count=200)
    assert parkable(channel.state.durable, below=50, count_max=100) == [0]
    assert parkable(channel.state.durable, below=EVERYTHING, count_max=100, never={50}) == [0]
    assert parkable(channel.state.durable, below=EVERYTHING, count_max=100, never={0}) == []


def test_a_backlog_is_not_parked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jbm_kafka.core.channel.parking.LOOKED_AT_MAX", 20)
    channel = held_up(*range(30), count=1_000)
    assert parkable(channel.state.durable, below=EVERYTHING, count_max=100) == []


def test_no_more_than_a_new_owner_has_room_for() -> None:
    """LOG-9."""
    channel = held_up(0, 50, count=200)
    channel.state.apply(park(channel, parked(0, bytes(PARKED_BYTES_MAX))).durable)
    assert parkable(channel.state.durable, below=EVERYTHING, count_max=100) == []


# -- checkpoints -------------------------------------------------------------------------------------------------------


def test_the_watermark_passes_what_is_parked() -> None:
    """LOG-2, LOG-8."""
    channel = held_up(0, count=20)
    taken = park(channel, parked(0))
    assert (taken.watermark, channel.state.watermark) == (20, 0)  # not before it is durable
    assert parked(0) in taken.entries
    channel.state.apply(taken.durable)
    assert channel.state.watermark == 20
    assert list(channel.state.unsettled) == [0]


def test_a_parked_message_is_received_as_any_other_and_deleted_when_it_is_settled() -> None:
    """LOG-8."""
    channel = held_up(0, count=20)
    durably(channel, parked(0))
    channel.pass_time(1 << 40)
    assert channel.got("b") == [0]
    channel.acknowledge("b", 0)
    after = durably(channel)
    assert {ParkedGone(0), HeldGone(0)} <= set(after.values())
    assert [type(entry) for entry in durably(channel).values()] == [Position]
    assert not channel.state.is_dirty


def test_what_is_settled_while_it_is_being_parked_is_deleted_by_the_next_checkpoint() -> None:
    channel = held_up(0, count=20)
    taken = park(channel, parked(0))
    channel.pass_time(1 << 40)
    channel.got("b")
    channel.acknowledge("b", 0)
    channel.state.apply(taken.durable)
    assert channel.state.is_dirty
    assert ParkedGone(0) in durably(channel).values()


def test_what_was_settled_before_is_not_parked() -> None:
    channel = held_up(0, count=20)
    assert not [entry for entry in durably(channel, parked(3)).values() if isinstance(entry, Parked)]
    taken = park(channel, parked(0), tentative=(0,))
    assert not [entry for entry in taken.entries if isinstance(entry, Parked | ParkedGone)]


def test_an_aborted_checkpoint_parks_nothing_and_deletes_nothing() -> None:
    channel = held_up(0, 1, count=40)
    channel.state.apply(park(channel, parked(0), parked(1)).failed)
    assert channel.state.watermark == 0
    durably(channel, parked(0), parked(1))
    channel.pass_time(1 << 40)
    channel.got("b", 1)
    channel.acknowledge("b", 0)
    channel.state.apply(park(channel).failed)
    assert ParkedGone(0) in durably(channel).values()


def test_a_parked_message_leaves_with_the_transaction_that_settles_it() -> None:
    """ACK-7, LOG-5."""
    channel = held_up(0, count=20)
    durably(channel, parked(0))
    channel.pass_time(1 << 40)
    channel.got("b")
    aborted = park(channel, tentative=(0,))
    assert ParkedGone(0) in aborted.entries
    channel.state.apply(aborted.failed)
    assert ParkedGone(0) not in durably(channel).values()  # it is still there
    taken = park(channel, tentative=(0,))
    channel.state.apply(taken.durable)
    channel.acknowledge("b", 0, durable=True)
    assert ParkedGone(0) in taken.entries
    assert not channel.state.is_dirty


# -- a new owner -------------------------------------------------------------------------------------------------------


def test_a_new_owner_reads_what_is_parked_first_and_then_the_log() -> None:
    """LOG-8, REDELIVER-1."""
    channel = held_up(2, 3, count=40)
    after = durably(channel, parked(2), parked(3))
    new = recovered(*after.values())
    assert (new.state.watermark, new.state.read_position, list(new.state.unsettled)) == (40, 2, [2, 3])
    new.state.apply(c.OfferedRaised(EVERYTHING))
    new.fetch(message(2, b"u"), message(3, b"u"), end=40)
    new.fetch(message(40, b"u"))
    new.pass_time(1 << 40)
    assert new.state.redeliveries[2].attempts == 1
    received = []
    while got := new.got("b", 1):
        new.acknowledge("b", *got)
        received += got
    assert received == [2, 3, 40]
    assert {ParkedGone(2), ParkedGone(3)} <= set(durably(new).values())


def test_a_new_owner_has_the_durable_part_of_the_channel_that_was_parked() -> None:
    channel = held_up(2, 30, count=60)
    after = durably(channel, parked(2), parked(30))
    new = recovered(*after.values()).state.durable
    assert (new.parked, new.parked_bytes, new.unsettled) == (
        channel.state.durable.parked,
        channel.state.durable.parked_bytes,
        channel.state.durable.unsettled,
    )


def test_bits_of_what_is_settled_below_the_watermark_say_nothing_of_what_is_parked() -> None:
    channel = held_up(0, 1, count=60)
    channel.state.apply(c.Fetched(begin=60, end=61, references=[message(60)]))
    first = channel.checkpoint()
    settled = next(entry for entry in first if isinstance(entry, Settled))
    after = durably(channel, parked(0), parked(1))
    position = after[Position, 0]
    assert list(recovered(position, settled, parked(0), parked(1)).state.unsettled) == [0, 1, 60]


def test_a_record_that_is_deleted_is_nothing_to_a_new_owner() -> None:
    new = recovered(Position("topic", "jbm.test:1", 5, 5, 5, 0), ParkedGone(2))
    assert (list(new.state.unsettled), new.state.read_position) == ([], 5)
