"""What becomes of messages given back."""

from __future__ import annotations

from jbm_kafka.core.channel.changes import OfferedRaised
from jbm_kafka.core.channel.delivery_count import FIRST_DELIVERY, DeliveryCount, delivery_count_of
from jbm_kafka.core.channel.departure import OUT_OF_ATTEMPTS, REJECTED
from jbm_kafka.core.channel.entries import Held
from jbm_kafka.core.channel.redelivery import FOREVER_MS
from jbm_kafka.core.channel.reference import DEPARTING
from jbm_kafka.core.channel.settlement import HELD_FOR_OPERATOR, Modified, decide_kept, units_of, unknown_offsets
from jbm_kafka.core.settings.address_settings import ResolvedSettings
from tests.core.channel_parts import START_MS, Channel, message, recovered

ONE_ATTEMPT = ResolvedSettings(max_delivery_attempts=1, dead_letter_address="DLQ")


def unit(count: int, settings: ResolvedSettings | None = None) -> Channel:
    """A session `a` with `count` messages of one unit in hand."""
    channel = Channel(*(message(offset, b"u") for offset in range(count)), settings=settings)
    assert len(channel.got("a")) == count
    return channel


def test_a_message_given_back_comes_again_counted_and_says_so() -> None:
    """REDELIVER-1, UNIT-5."""
    channel = unit(1)
    assert delivery_count_of(channel.state, 0) == FIRST_DELIVERY
    assert [(r.offset, back.attempts) for r, back in channel.give_back("a", 0).returned] == [(0, 1)]
    assert channel.got("b") == [0]
    assert delivery_count_of(channel.state, 0) == DeliveryCount(attempts=1, delivery_count=2, redelivered=True)


def test_what_never_reached_the_application_is_not_counted() -> None:
    """ACK-8, REDELIVER-1."""
    channel = unit(1)
    channel.give_back("a", Modified(0, counted=False, delay_ms=50))
    assert channel.got("b") == [0]
    assert delivery_count_of(channel.state, 0) == FIRST_DELIVERY


def test_an_earlier_attempt_is_not_forgotten_when_it_goes_back_uncounted() -> None:
    """REDELIVER-1: attempts only grow."""
    channel = unit(1)
    channel.give_back("a", 0)
    channel.got("a")
    channel.give_back("a", Modified(0, counted=False))
    assert delivery_count_of(channel.state, 0).attempts == 1


def test_what_goes_back_with_an_earlier_one_is_marked_if_it_was_seen_and_not_counted() -> None:
    """REDELIVER-1: JMSRedelivered is set from the second hand-over on, counted or not."""
    channel = unit(3)
    channel.give_back("a", 0, unread=[2])
    assert channel.got("b") + channel.got("b") == [0, 1, 2]
    assert delivery_count_of(channel.state, 1) == DeliveryCount(attempts=0, delivery_count=2, redelivered=True)
    assert delivery_count_of(channel.state, 2) == FIRST_DELIVERY


def test_messages_given_back_go_before_those_that_wait() -> None:
    """UNIT-5."""
    channel = Channel(*(message(offset, b"u") for offset in range(4)))
    channel.got("a", 2)
    channel.got("b")
    channel.give_back("a", *(Modified(offset, counted=False) for offset in (1, 0)))
    assert channel.got("b") == [0, 1, 2, 3]


def test_a_message_without_a_unit_waits_alone() -> None:
    channel = Channel(message(0), message(1))
    channel.got("a")
    channel.give_back("a", Modified(0, counted=True, delay_ms=10), Modified(1, counted=False))
    assert channel.got("b") == [1]
    channel.pass_time(10)
    assert channel.got("b") == [0]
    channel.give_back("b", Modified(0, counted=False))
    assert channel.got("a") == [0]


def test_later_messages_of_the_unit_go_back_with_it_uncounted() -> None:
    """UNIT-3: earlier ones, and other units, stay in hand."""
    channel = unit(4)
    channel.fetch(message(4, b"v"), message(5))
    channel.got("a")
    decision = channel.give_back("a", 1)
    assert [(r.offset, back.attempts) for r, back in decision.returned] == [(1, 1), (2, 0), (3, 0)]
    assert sorted(channel.state.in_hand["a"]) == [0, 4, 5]
    assert channel.got("b") == []
    channel.acknowledge("a", 0)
    assert channel.got("b", 1) == [1]


def test_the_wait_is_the_settings_or_the_verdicts_own() -> None:
    """REDELIVER-2: a verdict's own is not capped."""
    settings = ResolvedSettings(redelivery_delay_ms=20, redelivery_delay_multiplier=2.0, max_redelivery_delay_ms=100)
    channel = Channel(message(0), message(1), settings=settings)
    channel.got("a")
    channel.give_back("a", 0, Modified(1, counted=True, delay_ms=500))
    channel.pass_time(20)
    assert channel.got("a") == [0]
    channel.give_back("a", 0)
    channel.pass_time(39)
    assert channel.got("a") == []
    channel.pass_time(1)
    assert channel.got("a") == [0]
    channel.pass_time(439)
    assert channel.got("a") == []
    channel.pass_time(1)
    assert channel.got("a") == [1]


def test_what_was_tried_often_enough_leaves_and_holds_its_unit_until_it_is_gone() -> None:
    """REDELIVER-3, of UNIT-16."""
    channel = unit(2, ONE_ATTEMPT)
    (leaving,) = channel.give_back("a", 0).leaving
    assert (leaving.reference.offset, leaving.attempts, leaving.reason) == (0, 1, OUT_OF_ATTEMPTS)
    assert channel.got("b") == []
    channel.acknowledge(DEPARTING, 0, durable=True)
    assert channel.got("b") == [1]
    assert not channel.state.redeliveries


def test_a_message_without_a_unit_leaves_alone_however_it_came_to_the_hand() -> None:
    channel = Channel(message(0), message(1, priority=9), settings=ONE_ATTEMPT)
    channel.got("a")
    assert [leaving.reference.offset for leaving in channel.give_back("a", 0, 1).leaving] == [0, 1]
    assert sorted(channel.state.in_hand[DEPARTING]) == [0, 1]
    channel.acknowledge(DEPARTING, 0, 1)
    assert channel.state.watermark == 2
    alone = Channel(message(0), settings=ONE_ATTEMPT)
    alone.got("a")
    alone.give_back("a", 0)
    assert sorted(alone.state.in_hand[DEPARTING]) == [0]


def test_two_exhausted_messages_of_one_unit_given_back_together_leave_one_after_the_other() -> None:
    """REDELIVER-3, UNIT-1: it broke an assertion in DEPARTING's hands."""
    channel = unit(2, ONE_ATTEMPT)
    decision = channel.give_back("a", 1, 0)
    assert [leaving.reference.offset for leaving in decision.leaving] == [0]
    channel.acknowledge(DEPARTING, 0, durable=True)
    assert [(r.offset, reason) for r, reason in channel.ask("b").leaving] == [(1, OUT_OF_ATTEMPTS)]


def test_an_exhausted_message_does_not_leave_while_a_transaction_has_a_later_one_of_its_unit() -> None:
    """REDELIVER-3, UNIT-1: it waits, and leaves when the later one is settled."""
    channel = unit(2, ONE_ATTEMPT)
    decision = channel.give_back("a", 0, keep=[1])
    assert (decision.leaving, [(r.offset, back.attempts) for r, back in decision.returned]) == ([], [(0, 1)])
    assert channel.ask("b").leaving == []
    channel.acknowledge("a", 1)
    assert [(r.offset, reason) for r, reason in channel.ask("b").leaving] == [(0, OUT_OF_ATTEMPTS)]


def test_a_dead_letter_overtook_an_earlier_one_of_its_unit_when_the_transaction_was_rolled_back() -> None:
    """REDELIVER-3, UNIT-1: the earlier one had come back, and waited for the transaction."""
    channel = unit(2, ONE_ATTEMPT)
    channel.give_back("a", 0, keep=[1])
    assert channel.give_back("a", 1).leaving == []
    assert [leaving.offset for leaving, _ in channel.ask("b").leaving] == [0]
    channel.acknowledge(DEPARTING, 0, durable=True)
    assert [leaving.offset for leaving, _ in channel.ask("b").leaving] == [1]


def test_an_exhausted_message_does_not_leave_before_an_earlier_one_that_stays() -> None:
    """UNIT-1: the earlier one was returned uncounted in the same breath."""
    channel = unit(2, ONE_ATTEMPT)
    assert channel.give_back("a", Modified(0, counted=False), 1).leaving == []
    assert channel.got("b") == [0]
    assert not channel.ask("b").leaving


def test_without_a_dead_letter_address_it_is_removed() -> None:
    """REDELIVER-3."""
    channel = unit(2, ResolvedSettings(max_delivery_attempts=1))
    assert [leaving.reference.offset for leaving in channel.give_back("a", 0).leaving] == [0]
    assert channel.state.watermark == 1
    assert channel.got("b") == [1]


def test_a_unit_on_hold_waits_for_an_operator() -> None:
    """Of UNIT-16."""
    settings = ResolvedSettings(max_delivery_attempts=1, dead_letter_address="DLQ", on_dead_letter="hold")
    channel = unit(2, settings)
    assert channel.give_back("a", 0).leaving == []
    channel.pass_time(1_000_000_000)
    assert channel.got("b") == []
    assert (channel.state.redeliveries[0].reason, channel.state.redeliveries[0].due_at_ms) == (
        HELD_FOR_OPERATOR,
        FOREVER_MS,
    )


def test_what_crashes_left_without_attempts_is_kept_where_a_unit_is_held() -> None:
    """Of UNIT-16: found by a new owner, recorded, and known to the next one; what has attempts left is not meant."""
    held = ResolvedSettings(max_delivery_attempts=2, on_dead_letter="hold")
    position = Channel(*(message(offset) for offset in range(3))).checkpoint(offered_position=3)[0]
    channel = recovered(position, Held(0, 2, 0, 0, b"u", "lost"), Held(1, 1, 0, 0, b"v", "lost"))
    assert not decide_kept(channel.state, ResolvedSettings(max_delivery_attempts=2)).messages
    channel.state.apply(decide_kept(channel.state, held))
    assert not decide_kept(channel.state, held).messages
    channel.state.apply(OfferedRaised(3))
    channel.fetch(message(0, b"u"), message(1, b"v"), message(2, b"u"))
    assert channel.got("a") == [1]
    entries = [entry for entry in channel.checkpoint(offered_position=3) if isinstance(entry, Held)]
    assert entries == [Held(0, 2, FOREVER_MS, FOREVER_MS, None, HELD_FOR_OPERATOR)]


def test_what_the_session_does_not_hold_is_named_and_nothing_happens_to_it() -> None:
    """STATE-6."""
    channel = unit(2)
    channel.fetch(message(2, b"v"))
    decision = channel.give_back("a", 2, 77, Modified(1, counted=False))
    assert decision.unknown == [2, 77]
    assert [reference.offset for reference, _ in decision.returned] == [1]
    assert channel.give_back("nobody", 0).changes == []
    assert unknown_offsets(channel.state, "a", [0, 1, 2]) == [1, 2]
    assert unknown_offsets(channel.state, "nobody", [0]) == [0]
    assert unknown_offsets(channel.state, "a", [0, 1, 0, 1]) == [1, 1, 0]  # each is held once, however often named


def test_what_a_session_holds_is_known_in_whatever_order_it_is_named() -> None:
    """STATE-6."""
    channel = unit(3)
    for offsets in ([], [0], [0, 1], [0, 1, 2], [1], [2, 0], [2, 1, 0]):
        assert unknown_offsets(channel.state, "a", offsets) == [], offsets
    assert unknown_offsets(channel.state, "a", [0, 1, 2, 3]) == [3]
    assert unknown_offsets(channel.state, "a", [0, 0]) == [0]


def test_a_message_named_twice_goes_back_once() -> None:
    channel = unit(1)
    assert [back.attempts for _, back in channel.give_back("a", 0, 0).returned] == [1]
    assert channel.got("a") == [0]


def test_a_delay_of_the_head_holds_what_was_returned_with_it() -> None:
    """Of UNIT-4."""
    channel = unit(2)
    channel.give_back("a", Modified(0, counted=True, delay_ms=30))
    assert channel.got("b") == []
    assert channel.state.redeliveries[0].due_at_ms == START_MS + 30
    channel.pass_time(30)
    assert channel.got("b") == [0, 1]


def test_deliveries_are_equal_by_what_they_say() -> None:
    first, again = DeliveryCount(0, 1, False), DeliveryCount(1, 2, True)
    assert {first, again, FIRST_DELIVERY} == {first, again}
    assert repr(again) == "DeliveryCount(1, 2, True)"


REJECT = Modified(0, counted=True, last_error="no such customer", is_rejected=True)


def test_a_rejected_message_leaves_however_many_attempts_are_left() -> None:
    """REDELIVER-3: with the reason, and the next of its unit has its turn."""
    channel = unit(2, ResolvedSettings(max_delivery_attempts=-1, dead_letter_address="DLQ"))
    [leaving] = channel.give_back("a", REJECT).leaving
    assert (leaving.reference.offset, leaving.attempts, leaving.reason) == (0, 1, REJECTED)
    assert leaving.last_error == "no such customer"
    assert list(channel.state.in_hand[DEPARTING]) == [0]


def test_a_rejected_message_without_an_address_is_gone() -> None:
    """REDELIVER-3."""
    channel = unit(2, ResolvedSettings(dead_letter_address=None))
    assert [leaving.reason for leaving in channel.give_back("a", REJECT).leaving] == [REJECTED]
    assert channel.got("b") == [1]


def test_what_is_rejected_where_letters_end_stays_uncounted() -> None:
    """REDELIVER-3: nothing leaves the last dead-letter queue by a failure."""
    settings = ResolvedSettings(max_delivery_attempts=-1, dead_letter_address=None, keeps_given_up=True)
    channel = unit(1, settings)
    assert channel.give_back("a", REJECT).leaving == []
    assert channel.got("b") == [0]
    assert delivery_count_of(channel.state, 0) == DeliveryCount(attempts=0, delivery_count=2, redelivered=True)


def test_a_rejected_message_is_held_where_an_operator_decides() -> None:
    """UNIT-16."""
    channel = unit(2, ResolvedSettings(dead_letter_address="DLQ", on_dead_letter="hold"))
    assert [back.reason for _, back in channel.give_back("a", REJECT).returned[:1]] == [HELD_FOR_OPERATOR]
    assert channel.got("b") == []


def test_a_later_message_that_is_rejected_leaves_when_it_is_the_first_of_its_unit() -> None:
    """REDELIVER-3, UNIT-1: also after a recovery, and nobody is handed it again."""
    channel = unit(3, ResolvedSettings(dead_letter_address="DLQ"))
    assert channel.give_back("a", REJECT._replace(offset=1)).leaving == []
    assert channel.state.redeliveries[1].reason == REJECTED
    channel.acknowledge("a", 0)
    assert channel.got("b") == []
    assert list(channel.state.in_hand[DEPARTING]) == [1]


def test_the_units_of_what_a_session_holds_are_those_of_what_it_names_and_has() -> None:
    channel = Channel(message(0, b"u"), message(1), message(2, b"v"), message(3, b"w"))
    channel.got("a", 3)
    assert units_of(channel.state, "a", [0, 1, 3]) == {b"u"}
    assert units_of(channel.state, "nobody", [0]) == set()
