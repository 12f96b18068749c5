"""What events tell of one message (LIFE-1): a fold of records to steps."""

from __future__ import annotations

from jbm_kafka.core.channel.entries import ChannelEvents, DeliveryRun, MessageEvent, MessageFate, OffsetRange
from jbm_kafka.core.channel.message_past import MessagePlace, Past, StepKind, past_of
from jbm_kafka.core.channel.redelivery import FOREVER_MS

PLACE = MessagePlace("jbm.queue.orders", "orders", "id-1", 3, 7)


def told(
    *messages: MessageEvent,
    acknowledged: tuple[tuple[int, int], ...] = (),
    deliveries: tuple[DeliveryRun, ...] = (),
    at_ms: int = 900,
    group: str = PLACE.group,
    topic: str = PLACE.topic,
    topic_id: str | None = PLACE.topic_id,
    partition: int = PLACE.partition,
) -> ChannelEvents:
    ranges = tuple(OffsetRange(*each) for each in acknowledged)
    return ChannelEvents(group, topic, partition, "cp-1", at_ms, ranges, messages, topic_id, deliveries)


def returned(attempts: int, at_ms: int | None, *, offset: int = 7, due_at_ms: int = 0) -> MessageEvent:
    return MessageEvent(MessageFate.RETURNED, offset, None, attempts, None, "returned", at_ms, due_at_ms, 50, 3)


def handed(attempt: int, at_ms: int, *, first: int = 7, count: int = 1) -> DeliveryRun:
    return DeliveryRun(first, count, attempt, "conn/1", "AUTO", at_ms)


def kinds(past: Past) -> list[tuple[str, int | None]]:
    return [(step.kind.value, step.attempts) for step in past.steps]


def test_a_message_is_handed_returned_handed_again_and_acknowledged() -> None:
    past = past_of(
        PLACE,
        [
            told(returned(1, 120), deliveries=(handed(1, 100, first=5, count=4),)),
            told(acknowledged=((0, 9),), deliveries=(handed(2, 200),), at_ms=300),
        ],
    )
    assert [(step.kind, step.at_ms, step.attempts) for step in past.steps] == [
        (StepKind.HANDED, 100, 1),
        (StepKind.RETURNED, 120, 1),
        (StepKind.HANDED, 200, 2),
        (StepKind.ACKNOWLEDGED, 300, None),
    ]
    first, second, *_ = past.steps
    assert (first.session, first.mode, second.delay_ms, second.max_delivery_attempts) == ("conn/1", "AUTO", 50, 3)
    assert past.tells_deliveries
    assert past.end is past.steps[-1]


def test_what_is_of_another_message_is_left_out() -> None:
    """Another group, topic, partition, offset, or a queue of that name before it was made anew."""
    others = [
        told(acknowledged=((7, 7),), group="jbm.queue.others"),
        told(acknowledged=((7, 7),), topic="others"),
        told(acknowledged=((7, 7),), topic_id="id-0"),
        told(acknowledged=((7, 7),), partition=4),
        told(returned(1, 1, offset=8), acknowledged=((0, 6), (8, 9)), deliveries=(handed(1, 1, first=5, count=2),)),
    ]
    assert past_of(PLACE, others) == Past()
    assert Past().end is None
    assert Past().tells_deliveries


def test_a_version_that_did_not_tell_the_topics_id_may_mean_this_one() -> None:
    assert kinds(past_of(PLACE, [told(acknowledged=((7, 7),), topic_id=None)])) == [("acknowledged", None)]


def test_within_one_millisecond_hand_overs_and_returns_take_turns() -> None:
    """A message that came back uncounted shows no attempt by which they could be ordered."""
    runs = (handed(1, 500), handed(1, 500), handed(2, 500))
    past = past_of(PLACE, [told(returned(0, 500), returned(1, 500), acknowledged=((7, 7),), deliveries=runs)])
    assert kinds(past) == [
        ("handed", 1),
        ("returned", 0),
        ("handed", 1),
        ("returned", 1),
        ("handed", 2),
        ("acknowledged", None),
    ]


def test_what_was_handed_over_before_the_checkpoint_comes_back_first() -> None:
    past = past_of(
        PLACE,
        [
            told(deliveries=(handed(1, 500),)),
            told(returned(1, 500), deliveries=(handed(2, 500),)),
        ],
    )
    assert kinds(past) == [("handed", 1), ("returned", 1), ("handed", 2)]
    assert past.end is None


def test_attempts_that_nobody_wrote_down_are_told_as_such() -> None:
    """A process that is killed takes along what it had."""
    past = past_of(
        PLACE,
        [
            told(returned(1, 100)),
            told(returned(3, 200)),
            told(MessageEvent(MessageFate.DEAD_LETTERED, 7, None, 4, "queue:DLQ", "max-delivery-attempts", 300)),
        ],
    )
    assert kinds(past) == [
        ("returned", 1),
        ("lost-attempt", 2),
        ("returned", 3),
        ("dead-lettered", 4),
    ]
    assert not past.tells_deliveries
    assert past.end is not None
    assert past.end.target == "queue:DLQ"


def test_an_attempt_before_the_first_that_is_told_is_lost_too() -> None:
    assert kinds(past_of(PLACE, [told(deliveries=(handed(2, 100),))])) == [("lost-attempt", 1), ("handed", 2)]


def test_one_that_waits_for_an_operator_says_so() -> None:
    past = past_of(PLACE, [told(returned(3, None, due_at_ms=FOREVER_MS), deliveries=(handed(3, 100),))])
    assert kinds(past)[-1] == ("on-hold", 3)
    assert past.steps[-1].at_ms == 900  # an old version told no time but the checkpoint's


def test_what_was_skipped_is_every_offset_of_the_range() -> None:
    def skipped(reason: str, offset: int = 2) -> MessageEvent:
        return MessageEvent(MessageFate.SKIPPED, offset, None, 0, None, reason)

    assert kinds(past_of(PLACE, [told(skipped("offsets 2 to 7, as far as they were not settled: reset"))])) == [
        ("skipped", 0)
    ]
    assert past_of(PLACE, [told(skipped("offsets 2 to 6, as far as they were not settled: reset"))]) == Past()
    assert past_of(PLACE, [told(skipped("offsets 8 to 9, as far"))]) == Past()
    assert kinds(past_of(PLACE, [told(skipped("told otherwise", 7))])) == [("skipped", 0)]


def test_deliveries_are_told_when_each_return_has_one_before_it() -> None:
    assert not past_of(PLACE, [told(returned(1, 100), returned(2, 200), deliveries=(handed(1, 50),))]).tells_deliveries


def test_one_that_was_removed_before_anybody_had_it_leaves_nothing_open() -> None:
    past = past_of(PLACE, [told(MessageEvent(MessageFate.REMOVED, 7, None, 0, None, "operator", 100))])
    assert past.tells_deliveries
    assert kinds(past) == [("removed", 0)]


def test_a_return_that_is_stamped_before_its_hand_over_follows_it() -> None:
    """An owner looks at its clock once a turn: seen on a broker, by some milliseconds."""
    past = past_of(PLACE, [told(returned(1, 100), returned(2, 157), deliveries=(handed(1, 100), handed(2, 160)))])
    assert kinds(past) == [("handed", 1), ("returned", 1), ("handed", 2), ("returned", 2)]


def test_an_uncounted_return_stamped_before_its_hand_over_follows_it() -> None:
    past = past_of(PLACE, [told(returned(0, 157), deliveries=(handed(1, 160), handed(1, 161)))])
    assert kinds(past) == [("handed", 1), ("returned", 0), ("handed", 1)]


def test_a_return_whose_hand_over_is_not_told_comes_before_the_next_hand_over() -> None:
    past = past_of(PLACE, [told(returned(1, 100), deliveries=(handed(2, 1_000),))])
    assert kinds(past) == [("returned", 1), ("handed", 2)]


def test_of_several_attempts_that_are_not_told_the_counts_tell_the_order() -> None:
    past = past_of(PLACE, [told(returned(1, 900), returned(2, 950), deliveries=(handed(4, 100),))])
    assert kinds(past) == [("returned", 1), ("returned", 2), ("lost-attempt", 3), ("handed", 4)]


def test_one_in_hand_is_handed_over_again_where_the_times_say_so() -> None:
    """That it came back in between is in no record."""
    past = past_of(PLACE, [told(deliveries=(handed(1, 100),)), told(returned(0, 900), deliveries=(handed(1, 200),))])
    assert kinds(past) == [("handed", 1), ("handed", 1), ("returned", 0)]


def test_a_hand_over_that_a_later_checkpoint_tells_stands_where_it_was() -> None:
    """A session notes what it gives, and the owner takes that along when it looks."""
    past = past_of(PLACE, [told(returned(1, 100)), told(returned(2, 200), deliveries=(handed(1, 90), handed(2, 190)))])
    assert kinds(past) == [("handed", 1), ("returned", 1), ("handed", 2), ("returned", 2)]
    assert past.tells_deliveries


def test_what_is_delivered_again_after_a_reset_is_told_after_what_was_before() -> None:
    before = told(returned(1, 100), acknowledged=((7, 7),), deliveries=(handed(1, 50), handed(2, 150)), at_ms=200)
    after = told(acknowledged=((7, 7),), deliveries=(handed(1, 90_000),), at_ms=90_100)
    assert kinds(past_of(PLACE, [before, after])) == [
        ("handed", 1),
        ("returned", 1),
        ("handed", 2),
        ("acknowledged", None),
        ("handed", 1),
        ("acknowledged", None),
    ]


def test_attempts_long_after_a_return_are_those_of_another_time() -> None:
    past = past_of(PLACE, [told(returned(2, 100)), told(deliveries=(handed(1, 90_000),))])
    assert kinds(past) == [("lost-attempt", 1), ("returned", 2), ("handed", 1)]
