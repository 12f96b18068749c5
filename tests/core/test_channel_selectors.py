"""Receivers with selectors: who gets what, what holds its unit, and what becomes of it when selectors change."""

from __future__ import annotations

import pytest

from jbm_kafka.core.channel import changes as c
from jbm_kafka.core.channel.reference import DEPARTING, EVERYONE, Reference
from jbm_kafka.core.channel.settlement import Modified
from jbm_kafka.core.channel.spilling import spillable
from jbm_kafka.core.settings.address_settings import ResolvedSettings
from tests.core.channel_parts import Channel, message

RED, BLUE = 2, 4
"""The bits of two selectors."""


def painted(
    offset: int, chosen_by: int, unit: bytes | None = None, *, priority: int = 4, expires: int = 0
) -> Reference:
    """A message that these selectors choose."""
    reference = message(offset, unit, priority=priority, expires=expires)
    reference.chosen_by = EVERYONE | chosen_by
    return reference


def channel_with(present: int, *references: Reference, settings: ResolvedSettings | None = None) -> Channel:
    channel = Channel(settings=settings)
    channel.state.apply(c.Selected(present))
    if references:
        channel.fetch(*references)
    return channel


def got(channel: Channel, chooses: int, *, session: str | None = None, limit: int = 100) -> list[int]:
    """What a session, of its own unless it is named, is handed by this selector."""
    offer = channel.decide(session or f"s{chooses}", limit, chooses=chooses)
    channel.state.apply(offer.change)
    return [reference.offset for reference in offer.references]


def test_each_receiver_gets_what_it_chooses() -> None:
    """SEL-1: whoever asks first."""
    channel = channel_with(RED | BLUE, painted(0, RED), painted(1, BLUE), painted(2, RED | BLUE), painted(3, 0))
    assert got(channel, RED, limit=1) == [0]
    assert got(channel, BLUE) == [1, 2]
    assert got(channel, RED) == []
    assert channel.state.gates.free_for(RED) == 0


def test_what_a_receiver_must_not_get_again_is_for_others_and_holds_its_unit() -> None:
    """AMQP-16: the receiver has a bit of its own."""
    channel = channel_with(EVERYONE | RED, painted(0, RED, b"a"), painted(1, RED, b"a"), painted(2, RED, b"b"))
    assert got(channel, RED, session="s", limit=1) == [0]
    channel.state.apply(c.UndeliverableHere("s", 0, RED))
    channel.give_back("s", Modified(0, counted=False, undeliverable_here=True))
    assert got(channel, RED, session="s") == [2]
    assert got(channel, EVERYONE) == [0, 1]


def test_receivers_without_a_selector_get_everything() -> None:
    channel = channel_with(EVERYONE | RED, painted(0, 0), painted(1, RED), painted(2, 0))
    assert got(channel, RED) == [1]
    assert got(channel, EVERYONE) == [0, 2]


def test_the_highest_priority_first_whoever_else_may_have_it() -> None:
    """SEND-7: heads for some, heads for all, and arrivals are one line."""
    channel = channel_with(
        RED | BLUE,
        painted(0, RED, priority=1),
        painted(1, RED | BLUE, priority=9),
        painted(2, RED, priority=5),
        painted(3, RED | BLUE),
        painted(4, RED | BLUE, priority=4),
    )
    assert got(channel, RED, limit=2) == [1, 2]
    assert got(channel, RED) == [3, 4, 0]


def test_arrivals_come_last_when_the_heads_are_done() -> None:
    channel = channel_with(RED | BLUE, painted(0, RED), painted(1, RED | BLUE))
    assert got(channel, RED) == [0, 1]


def test_what_lies_beyond_the_mark_waits_for_it() -> None:
    """REDELIVER-7: and what is not chosen there asks for no mark."""
    channel = Channel(offered_position=1)
    channel.state.apply(c.Selected(RED | BLUE))
    channel.fetch(painted(0, RED), painted(1, BLUE), painted(2, RED, b"a"), painted(3, RED | BLUE))
    assert not channel.decide("blues", 0, chooses=BLUE).needs_offered
    offer = channel.ask("reds", chooses=RED)
    assert ([reference.offset for reference in offer.references], offer.needs_offered) == ([0], True)


def test_a_head_that_nobody_chooses_holds_its_unit_and_no_other() -> None:
    """UNIT-6."""
    channel = channel_with(RED, painted(0, 0, b"a"), painted(1, RED, b"a"), painted(2, RED, b"b"))
    assert got(channel, RED) == [2]
    channel.state.apply(c.Selected(RED | BLUE, {0: EVERYONE | BLUE}))
    assert got(channel, BLUE) == [0]
    assert got(channel, RED) == []
    channel.acknowledge(f"s{BLUE}", 0)
    assert got(channel, RED) == [1]


def test_a_run_within_a_unit_ends_at_what_is_not_chosen() -> None:
    """Of UNIT-3 and UNIT-6: also for the session that holds the earlier ones, and its own next head."""
    channel = channel_with(
        RED | BLUE, *[painted(n, bits, b"a") for n, bits in enumerate([RED, RED | BLUE, BLUE, RED | BLUE])]
    )
    assert got(channel, RED, session="one") == [0, 1]
    assert got(channel, RED, session="one") == []
    assert got(channel, BLUE, session="other") == []
    assert got(channel, BLUE, session="one") == [2, 3]


def test_what_comes_back_is_for_those_who_choose_it() -> None:
    channel = channel_with(RED | BLUE, painted(0, RED))
    assert got(channel, RED) == [0]
    channel.give_back(f"s{RED}", Modified(0, counted=False))
    assert got(channel, BLUE) == []
    assert got(channel, RED) == [0]


def test_selectors_that_come_change_what_is_in_hand_too() -> None:
    channel = channel_with(RED, painted(0, RED), painted(1, RED))
    assert got(channel, RED, limit=1) == [0]
    channel.state.apply(c.Selected(BLUE, {0: EVERYONE | BLUE}))
    assert got(channel, BLUE) == []
    channel.give_back(f"s{RED}", Modified(0, counted=False))
    assert got(channel, BLUE) == [0]
    channel.state.apply(c.Selected(EVERYONE))
    assert channel.state.gates.free_for(EVERYONE) == 1
    assert got(channel, EVERYONE) == [1]
    assert not channel.state.gates.is_selecting


def test_what_nobody_chooses_leaves_when_it_expires() -> None:
    """Of UNIT-6 and SEND-5: a timer tells, however often selectors changed; whoever asks next sees it leave."""
    channel = channel_with(RED, painted(0, 0, b"a", expires=2_000), painted(1, RED, b"a"))
    for present in (BLUE, RED, BLUE, RED):
        channel.state.apply(c.Selected(present))
    assert len(channel.state.gates.timers) == 1
    assert got(channel, RED) == []
    channel.pass_time(1_000)
    offer = channel.ask("reds", chooses=RED)
    assert [(reference.offset, reason) for reference, reason in offer.leaving] == [(0, "expired")]
    channel.acknowledge(DEPARTING, 0)
    assert got(channel, RED) == [1]


def test_what_somebody_chooses_who_is_busy_leaves_when_it_expires() -> None:
    """Of UNIT-6 and SEND-5: it holds its unit no longer than its time, though he who chooses it does not ask."""
    channel = channel_with(RED | BLUE, painted(0, BLUE, b"a", expires=2_000), painted(1, RED, b"a"))
    assert got(channel, RED) == []
    channel.pass_time(1_000)
    offer = channel.ask("reds", chooses=RED)
    assert [(reference.offset, reason) for reference, reason in offer.leaving] == [(0, "expired")]
    channel.acknowledge(DEPARTING, 0)
    assert got(channel, RED) == [1]


def test_what_expired_behind_what_a_session_holds_leaves_whoever_chose_it() -> None:
    channel = channel_with(RED, painted(0, RED, b"a"), painted(1, 0, b"a", expires=1_500), painted(2, RED, b"a"))
    assert got(channel, RED, session="one") == [0]
    channel.pass_time(1_000)
    assert got(channel, RED, session="one") == [2]
    assert list(channel.state.in_hand[DEPARTING]) == [1]


def test_what_is_out_of_attempts_leaves_whoever_chooses_it() -> None:
    """Of REDELIVER-3: the second of its unit waits its turn, and then for nobody."""
    settings = ResolvedSettings(dead_letter_address="DLQ", max_delivery_attempts=1)
    channel = channel_with(RED, painted(0, RED, b"a"), painted(1, RED, b"a"), settings=settings)
    assert got(channel, RED) == [0, 1]
    channel.give_back(f"s{RED}", Modified(0, counted=False), Modified(1, counted=True))
    assert got(channel, RED, limit=1) == [0]
    channel.state.apply(c.Selected(BLUE))
    channel.acknowledge(f"s{RED}", 0)
    offer = channel.ask("blues", chooses=BLUE)
    assert [reference.offset for reference, _ in offer.leaving] == [1]


def test_a_delay_is_waited_out_before_anybody_is_asked() -> None:
    channel = channel_with(RED, message(0, delivery=2_000))
    channel.state.apply(c.Selected(BLUE, {0: EVERYONE | BLUE}))
    assert got(channel, BLUE) == []
    channel.pass_time(1_000)
    assert got(channel, BLUE) == [0]


@pytest.mark.parametrize("expires", [0, 9_000])
def test_a_head_that_nobody_chooses_leaves_memory_and_comes_back_when_selectors_change(expires: int) -> None:
    """UNIT-6, of LOG-9: its gate stays; what is in the held store is asked for when somebody else comes."""
    head, tail = painted(0, 0, b"a", expires=expires), painted(1, RED, b"a")
    channel = channel_with(RED, head, tail)
    assert got(channel, RED) == []
    (row,) = spillable(channel.state)
    assert (row.kept, row.count) == (0, 2)
    channel.state.apply(c.Spilled(key=b"a", kept=0))
    assert channel.state.gates.waiting_count == 0
    assert not channel.state.gates.awaiting_load
    assert list(channel.state.in_memory()) == []
    channel.state.apply(c.Selected(BLUE))
    assert list(channel.state.gates.awaiting_load) == [b"a"]
    channel.state.apply(c.Selected(BLUE | RED))
    assert list(channel.state.gates.awaiting_load) == [b"a"]
    head.chosen_by |= BLUE
    channel.state.apply(c.Unspilled(key=b"a", references=[head, tail]))
    assert got(channel, BLUE) == [0]


def test_messages_of_all_kinds_find_their_place() -> None:
    """What all choose stays among the arrivals only while nothing else is known of it."""
    channel = channel_with(RED, painted(0, RED), painted(1, RED, priority=9), message(2, delivery=5_000))
    assert [reference.offset for reference in channel.state.arrivals] == [0]
    channel.fetch(painted(3, RED, b"a"), painted(4, 0, b"a"))
    assert not channel.state.arrivals
    assert sorted(reference.offset for reference in channel.state.in_memory()) == [0, 1, 2, 3, 4]
    assert got(channel, RED) == [1, 0, 3]
