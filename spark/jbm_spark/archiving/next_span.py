"""Which offsets of a topic are to be archived next, and which are gone before they could be. No Spark needed."""

from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from jbm_kafka.ports import KafkaAdmin, LogPlace
from jbm_spark.archiving.manifest import Span
from jbm_spark.errors import ArchiveError, TopicError
from jbm_spark.log_positions import log_positions


@dataclass(frozen=True, slots=True)
class TopicState:
    """A topic at one moment."""

    topic: str
    topic_id: str
    begin: Mapping[int, int]
    """The first offset that the log still has, by partition."""
    end: Mapping[int, int]
    """The end of committed records, by partition."""


def topic_states(admin: KafkaAdmin, topics: Collection[str]) -> Mapping[str, TopicState]:
    """As they are now, of those that are there.

    Raises:
        KafkaClientError: as `log_positions`.
    """
    found = {topic: each for topic, each in admin.describe([*topics]).items() if each.partitions}
    counts = {topic: each.partitions for topic, each in found.items()}
    # The ends first: what is deleted meanwhile is then seen as lost, and not as an end before a beginning.
    ends = log_positions(admin, counts, LogPlace.STABLE_END)
    begins = log_positions(admin, counts, LogPlace.BEGIN)
    return {topic: TopicState(topic, each.topic_id, begins[topic], ends[topic]) for topic, each in found.items()}


def topic_state(admin: KafkaAdmin, topic: str) -> TopicState:
    """As it is now.

    Raises:
        TopicError: there is no such topic.
        KafkaClientError: no answer.
    """
    found = topic_states(admin, [topic]).get(topic)
    if found is None:
        raise topic_gone(topic)
    return found


def topic_gone(topic: str) -> TopicError:
    """The error for a topic that was there."""
    return TopicError(f"topic {topic} is not there any more: what is archived of it stays; create it to go on")


def shared_out(waiting: Mapping[str, int], most: int) -> Mapping[str, int]:
    """How much each may take, so that it is `most` in all: who has little gets all of it, the others an equal share."""
    shares, left = {}, most
    for number, (name, count) in enumerate(sorted(waiting.items(), key=lambda each: each[1])):
        shares[name] = max(1, min(count, left // (len(waiting) - number)))
        left -= shares[name]
    return shares


def next_span(
    state: TopicState, last: Span | None, *, offsets_max: int, accept_loss: bool, only: AbstractSet[int] | None = None
) -> Span | None:
    """From where the last one ends, or, of a topic that is new or was made anew, from where it begins. None: nothing.

    `only`: these partitions; the others stay where they are, whatever became of them.

    Raises:
        ArchiveError: what comes next is gone, and nobody accepts that; the text has the ranges.
    """
    if last is None or last.topic_id != state.topic_id:
        at = dict(state.begin)
    else:
        at = {partition: last.end.get(partition, 0) for partition in state.end}
    wanted = set(at) if only is None else set(at) & only
    lost = {partition: at[partition] for partition in sorted(wanted) if at[partition] < state.begin[partition]}
    if lost and not accept_loss:
        raise ArchiveError(
            f"topic {state.topic}: messages at {lost_ranges(lost, state.begin)} were deleted before they were archived "
            "(by retention, or by kafka-delete-records); nothing was written. To go on without these messages: "
            "--accept-loss"
        )
    begin = {each: max(offset, state.begin[each]) if each in wanted else offset for each, offset in at.items()}
    waiting = [partition for partition in wanted if begin[partition] < state.end[partition]]
    if not waiting:
        return None
    share = max(1, offsets_max // len(waiting))
    # A partition that is empty may end before it begins, for a moment after its records were deleted.
    end = {each: max(offset, min(offset + share, state.end[each])) if each in wanted else offset
           for each, offset in begin.items()}  # fmt: skip
    return Span(state.topic_id, begin, end, lost, state.topic)


def lost_ranges(lost: Mapping[int, int], begin: Mapping[int, int]) -> str:
    """For people, the offsets from those that were lost up to where the log begins."""
    ranges = ", ".join(f"{offset} to {begin[each] - 1} of partition {each}" for each, offset in lost.items())
    return f"offsets {ranges}"
