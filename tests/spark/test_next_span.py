"""What an archive takes next of a topic, and what it says of that which is gone. Without Spark."""

import pytest

from jbm_spark.archiving.manifest import Span
from jbm_spark.archiving.next_span import TopicState, next_span
from jbm_spark.errors import ArchiveError

ARCHIVED = Span("id", {0: 0, 1: 0}, {0: 10, 1: 10}, {}, "jbm.events")


def state(begin: dict[int, int], end: dict[int, int]) -> TopicState:
    return TopicState("jbm.events", "id", begin, end)


def test_what_other_queues_have_lost_or_made_is_nothing_of_a_quiet_one() -> None:
    """It failed: the topic of the events is all queues', and each has one partition of it."""
    cut = state({0: 10, 1: 25}, {0: 12, 1: 30})
    found = next_span(cut, ARCHIVED, offsets_max=100, accept_loss=False, only={0})
    assert found == Span("id", {0: 10, 1: 10}, {0: 12, 1: 10}, {}, "jbm.events")
    assert (
        next_span(state({0: 10, 1: 25}, {0: 10, 1: 30}), ARCHIVED, offsets_max=100, accept_loss=False, only={0}) is None
    )
    assert found is not None
    assert ARCHIVED.followed_by(found) == Span("id", {0: 0, 1: 0}, {0: 12, 1: 10}, {}, "jbm.events")


def test_lost_messages_are_told_as_messages_and_lost_events_are_passed() -> None:
    """Of SPARK-10."""
    cut = state({0: 15, 1: 0}, {0: 20, 1: 10})
    told = r"messages at offsets 10 to 14 of partition 0 were deleted .*To go on without these messages: --accept-loss"
    with pytest.raises(ArchiveError, match=told):
        next_span(cut, ARCHIVED, offsets_max=100, accept_loss=False)
    found = next_span(cut, ARCHIVED, offsets_max=100, accept_loss=True, only={0})
    assert found == Span("id", {0: 15, 1: 10}, {0: 20, 1: 10}, {0: 10}, "jbm.events")
