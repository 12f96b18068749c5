"""Goal: where a channel begins, for every way in which changelog, committed offset and log can disagree.

Method: one row per case, written from docs/semantics.md (LOG-2) and the rule "rather deliver again than skip".
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jbm_kafka.core.channel.entries import Position
from jbm_kafka.core.channel.start_position import Facts, StartReason, decide_start, is_disputed
from jbm_kafka.ports import CommittedOffset

ONE, TWO = "jbm.f.0:1", "jbm.f.0:2"


def position(watermark: int, by: str = ONE, *, topic_id: str = "T", fetched: int = 0, offered: int = 0) -> Position:
    return Position(topic_id, by, watermark, fetched or watermark, offered or watermark, 5)


CASES = {
    "both agree": (position(50), (50, ONE), 0, 100, StartReason.CHANGELOG, 50, True),
    "the offset has expired": (position(50), None, 0, 100, StartReason.CHANGELOG, 50, True),
    "a new channel": (None, None, 7, 100, StartReason.NOTHING_RECORDED, 7, False),
    "the operator goes back": (position(50), (20, ""), 0, 100, StartReason.OPERATOR_RESET, 20, False),
    "the operator goes forward": (position(50), (80, ""), 0, 100, StartReason.OPERATOR_RESET, 80, False),
    "the operator sets the same number": (position(50), (50, "me"), 0, 100, StartReason.OPERATOR_RESET, 50, False),
    "the operator keeps our metadata": (position(50), (20, ONE), 0, 100, StartReason.OPERATOR_RESET, 20, False),
    "the operator goes back too far": (position(50), (7, ""), 10, 100, StartReason.OPERATOR_RESET, 10, False),
    "the operator asks for what we deleted": (position(50), (3, ""), 10, 100, StartReason.RESET_REFUSED, 50, True),
    "the operator goes past the end": (position(50), (500, ""), 0, 100, StartReason.OPERATOR_RESET, 100, False),
    "a subscription's first offset": (None, (80, "begin"), 0, 100, StartReason.OPERATOR_RESET, 80, False),
    "the changelog is lost": (None, (50, ONE), 0, 100, StartReason.COMMITTED_OFFSET, 50, True),
    "an older offset was restored": (position(50, TWO), (20, ONE), 0, 100, StartReason.OLDER_CHECKPOINT, 20, False),
    "the changelog lost its end": (position(50, ONE), (80, TWO), 0, 100, StartReason.CHANGELOG, 50, True),
    "other checkpoints, same number": (position(50, ONE), (50, TWO), 0, 100, StartReason.CHANGELOG, 50, True),
    "the topic was recreated": (position(50, topic_id="old"), None, 0, 9, StartReason.TOPIC_RECREATED, 0, False),
    "recreated, a stale offset": (position(50, topic_id="old"), (5, ONE), 0, 9, StartReason.TOPIC_RECREATED, 0, False),
    "records were deleted": (position(50), (50, ONE), 60, 100, StartReason.LOG_BOUNDS, 60, True),
    "the log lost its end": (position(50), (50, ONE), 0, 40, StartReason.LOG_BOUNDS, 40, True),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_channel_begins_where_nothing_unsettled_is_skipped(
    case: tuple[Position | None, tuple[int, str] | None, int, int, StartReason, int, bool],
) -> None:
    """Of LOG-2: resets are honoured, an expired offset is none."""
    recorded, committed, log_begin, log_end, reason, begin, keeps = case
    start = decide_start(
        Facts("T", recorded, None if committed is None else CommittedOffset(*committed), log_begin, log_end)
    )
    assert (start.reason, start.position.watermark, start.keeps_entries) == (reason, begin, keeps)
    assert start.position.topic_id == "T"


@pytest.mark.parametrize(("committed", "reason"), [(9, StartReason.RESET_REFUSED), (10, StartReason.OPERATOR_RESET)])
def test_a_reset_into_what_was_deleted_is_refused(committed: int, reason: StartReason) -> None:
    """Of LOG-2: also when no owner knew of the deletion; and the channel knows of it from then on."""
    facts = Facts("T", position(50), CommittedOffset(committed, ""), 10, 100, is_truncated=True)
    start = decide_start(facts)
    assert (start.reason, start.position.truncated) == (reason, 10)


def test_after_a_reset_nothing_counts_as_handed_over() -> None:
    """Of LOG-2: counts restart."""
    facts = Facts("T", position(50, fetched=90, offered=95), CommittedOffset(20, ""), 0, 100)
    start = decide_start(facts)
    assert (start.position.fetched, start.position.offered, start.position.truncated) == (20, 20, 5)


@pytest.mark.parametrize(
    ("committed", "log_end", "reason", "begin"),
    [
        ((20, ONE), 100, StartReason.OWNER_GOES_ON, 50),
        ((50, ONE), 100, StartReason.OWNER_GOES_ON, 50),
        ((50, TWO), 100, StartReason.CHANGELOG, 50),
        ((20, ""), 100, StartReason.OPERATOR_RESET, 20),
        ((20, ONE), 40, StartReason.LOG_BOUNDS, 40),
    ],
    ids=["an offset from before", "one that did not move", "they agree", "a reset", "the log lost its end"],
)
def test_a_look_at_what_an_owner_goes_on_writing_takes_no_older_offset_for_a_reset(
    committed: tuple[int, str], log_end: int, reason: StartReason, begin: int
) -> None:
    """Of LOG-2, LOG-3: but one that names no checkpoint is one."""
    facts = Facts("T", position(50, TWO), CommittedOffset(*committed), 0, log_end, is_written=True)
    start = decide_start(facts)
    assert (start.reason, start.position.watermark) == (reason, begin)


@pytest.mark.parametrize(
    ("recorded", "log_end", "offered"),
    [(position(50, topic_id="old"), 90, 70), (position(50, topic_id="old"), 60, 60), (position(50), 90, 50)],
    ids=["made anew", "made anew, and shorter", "the same topic"],
)
def test_of_a_topic_made_anew_counts_as_handed_over_what_its_owner_read_on(
    recorded: Position, log_end: int, offered: int
) -> None:
    """Of REDELIVER-7: it comes again, marked; what was handed over of the same log the changelog knows."""
    facts = Facts("T", recorded, None, 0, log_end, delivered_below=70)
    assert decide_start(facts).position.offered == offered


NEW, OLD = f"{1:013x}", f"{2:013x}"
"""Incarnations."""


def position_of(topic_id: str, watermark: int) -> Position:
    return position(watermark, topic_id=topic_id)


@pytest.mark.parametrize(
    ("recorded", "committed", "begin", "reason"),
    [
        (None, None, 40, StartReason.NOTHING_RECORDED),
        (None, CommittedOffset(30, ONE), 40, StartReason.COMMITTED_OFFSET),
        (None, CommittedOffset(60, ONE), 60, StartReason.COMMITTED_OFFSET),
        (None, CommittedOffset(20, ""), 20, StartReason.OPERATOR_RESET),
        (position_of(f"T/{NEW}", 20), CommittedOffset(20, ONE), 20, StartReason.CHANGELOG),
        (position_of(f"T/{OLD}", 30), CommittedOffset(30, ONE), 40, StartReason.SUBSCRIBED_ANEW),
        (position_of(f"T/{OLD}", 30), None, 40, StartReason.SUBSCRIBED_ANEW),
        (position_of(f"R/{NEW}", 70), None, 40, StartReason.TOPIC_RECREATED),
    ],
)
def test_a_subscription_begins_where_the_registry_says_unless_it_is_further_or_was_set_elsewhere(
    recorded: Position | None, committed: CommittedOffset | None, begin: int, reason: StartReason
) -> None:
    """Of TOPIC-2, LOG-2: what another subscription of its name left counts for nothing."""
    start = decide_start(Facts(f"T/{NEW}", recorded, committed, 10, 100, begin=40))
    assert (start.position.watermark, start.reason) == (begin, reason)
    assert start.position.topic_id == f"T/{NEW}"


def test_a_subscription_whose_beginning_the_log_has_lost_begins_with_the_log() -> None:
    assert decide_start(Facts(f"T/{NEW}", None, None, 60, 100, begin=40)).position.watermark == 60


def test_without_a_position_all_may_have_been_handed_over() -> None:
    """REDELIVER-7: what may have been handed over comes back marked."""
    assert decide_start(Facts("T", None, CommittedOffset(20, ONE), 0, 100)).position.offered == 100


def test_a_mark_raised_ahead_of_the_log_is_no_loss_of_the_log() -> None:
    facts = Facts("T", position(50, fetched=90, offered=20_000), CommittedOffset(50, ONE), 0, 100)
    assert decide_start(facts).reason is StartReason.CHANGELOG


@pytest.mark.parametrize(
    ("recorded", "committed", "disputed"),
    [
        pytest.param(position(50, ONE), (80, TWO), True, id="two checkpoints wrote them"),
        pytest.param(position(50, ONE), (50, TWO), True, id="two checkpoints, same number"),
        pytest.param(position(50, ONE), (50, ONE), False, id="one checkpoint wrote both"),
        pytest.param(position(50, ONE), (20, "reset at 12:30"), False, id="an operator wrote the offset"),
        pytest.param(position(50, ONE), None, False, id="no offset"),
        pytest.param(None, (50, ONE), False, id="no changelog"),
    ],
)
def test_only_two_checkpoints_that_differ_call_for_a_second_reading(
    recorded: Position | None, committed: tuple[int, str] | None, disputed: bool
) -> None:
    """Of LOG-2: a living owner may checkpoint between two readings; an operator's offset is read once."""
    assert is_disputed(recorded, None if committed is None else CommittedOffset(*committed)) is disputed


NUMBERS = st.integers(0, 40)
POSITIONS = st.builds(
    lambda watermark, ahead, further, by, topic_id: Position(
        topic_id, by, watermark, watermark + ahead, watermark + ahead + further, 0
    ),
    NUMBERS, NUMBERS, NUMBERS, st.sampled_from([ONE, TWO]), st.sampled_from(["T", "old"]),
)  # fmt: skip
OFFSETS = st.builds(CommittedOffset, NUMBERS, st.sampled_from(["", ONE, TWO, "reset at 12:30"]))


@given(st.none() | POSITIONS, st.none() | OFFSETS, NUMBERS, NUMBERS, st.booleans())
def test_a_start_is_always_within_the_log_and_only_an_operator_skips(
    recorded: Position | None, committed: CommittedOffset | None, log_begin: int, length: int, is_written: bool
) -> None:
    facts = Facts("T", recorded, committed, log_begin, log_begin + length, is_written=is_written)
    start = decide_start(facts)
    begin = start.position.watermark
    assert log_begin <= begin <= log_begin + length
    assert begin <= start.position.fetched <= log_begin + length
    if start.reason is not StartReason.OPERATOR_RESET and recorded is not None and recorded.topic_id == "T":
        assert begin <= max(recorded.watermark, log_begin), "beyond what the changelog says is settled"


def test_nothing_is_known_to_be_deleted_where_nothing_is_recorded_of_this_topic() -> None:
    assert Facts("T", None, None, 10, 100, is_truncated=True).deleted_below == 0
    assert Facts("T", position(50, topic_id="old"), None, 10, 100, is_truncated=True).deleted_below == 0
