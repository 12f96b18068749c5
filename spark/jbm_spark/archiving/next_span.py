"""Which offsets of a topic are to be archived next, and which are gone before they could be. No Spark needed."""

from collections.abc import Mapping
from dataclasses import dataclass

from jbm_kafka.ports import KafkaAdmin
from jbm_spark.archiving.manifest import Span
from jbm_spark.errors import ArchiveError, TopicError


@dataclass(frozen=True, slots=True)
class TopicState:
    """A topic at one moment."""

    topic: str
    topic_id: str
    begin: Mapping[int, int]
    """By partition the first offset that the log still has."""
    end: Mapping[int, int]
    """By partition where committed records end."""


def topic_state(admin: KafkaAdmin, topic: str) -> TopicState:
    """As it is now.

    Raises:
        TopicError: there is no such topic.
        KafkaClientError: no answer.
    """
    found = admin.describe([topic]).get(topic)
    if found is None:
        raise TopicError(f"topic {topic} is not there any more: what is archived of it stays; create it to go on")
    partitions = range(found.partitions)
    # The ends first: what is deleted meanwhile is then seen as lost, and not as an end before a beginning.
    ends = admin.end_positions(topic, partitions, stable=True)
    return TopicState(topic, found.topic_id, admin.begin_positions(topic, partitions), ends)


def next_span(state: TopicState, last: Span | None, *, offsets_max: int, accept_loss: bool) -> Span | None:
    """From where the last one ends, or, of a topic that is new or was made anew, from where it begins. None: nothing.

    Raises:
        ArchiveError: what comes next is gone, and nobody accepts that; the text has the ranges.
    """
    if last is None or last.topic_id != state.topic_id:
        at = dict(state.begin)
    else:
        at = {partition: last.end.get(partition, 0) for partition in state.end}
    lost = {partition: offset for partition, offset in at.items() if offset < state.begin[partition]}
    if lost and not accept_loss:
        ranges = ", ".join(f"{offset} to {state.begin[each] - 1} of partition {each}" for each, offset in lost.items())
        raise ArchiveError(
            f"topic {state.topic}: offsets {ranges} were deleted before they were archived (by retention, or by "
            "kafka-delete-records); nothing was written. To go on behind them: --accept-loss"
        )
    begin = {partition: max(offset, state.begin[partition]) for partition, offset in at.items()}
    waiting = [partition for partition in begin if begin[partition] < state.end[partition]]
    if not waiting:
        return None
    share = max(1, offsets_max // len(waiting))
    # A partition that is empty may end before it begins, for a moment after its records were deleted.
    end = {each: max(offset, min(offset + share, state.end[each])) for each, offset in begin.items()}
    return Span(state.topic_id, begin, end, lost)
