"""Where a channel begins when it is taken over: the changelog, the committed offset and the log rarely disagree.

Every checkpoint writes a `position` entry and commits the same number with the same checkpoint id, in one transaction.
So after a crash of ours they agree, and a disagreement shows that something else changed them. Pure; the rule in
every doubt: rather deliver again than skip.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from jbm_kafka.core.channel.checkpoint_id import CommittedOffset, parse_checkpoint_id
from jbm_kafka.core.channel.entries import OffsetRange, Position
from jbm_kafka.core.channel.log_id import topic_id_of


class StartReason(Enum):
    """The fact that decided where a channel begins."""

    CHANGELOG = "as its changelog says"
    """The normal case, also when the committed offset has expired."""
    NOTHING_RECORDED = "nothing is recorded of it"
    """A new channel: it begins at the log's start."""
    COMMITTED_OFFSET = "its changelog has no readable position, the committed offset decides"
    """Settled and counted messages above the committed offset are kept as such."""
    OPERATOR_RESET = "the group's offset was reset"
    """Everything from there on is delivered, with counts restarted; even when the number is the old one."""
    RESET_REFUSED = "the group's offset was reset into what was settled and deleted, which is refused"
    """It goes on as its changelog says, and the next checkpoint sets the offset back to that."""
    TOPIC_RECREATED = "the topic was made anew"
    """The memory is about another log: the channel begins at this one's start."""
    OLDER_CHECKPOINT = "the committed offset was written by another checkpoint and is lower, it is taken for a reset"
    """Somebody restored an offset together with its metadata, or the cluster lost the end of a log."""
    SUBSCRIBED_ANEW = "another subscription had the name before"
    """The memory is about that other one: the channel begins where the registry says."""
    OWNER_GOES_ON = "as its changelog says, which an owner goes on writing"
    """Only where somebody looks at it. An offset that was read before is that of an earlier checkpoint."""
    LOG_BOUNDS = "as its changelog says, cut to what the log still has"
    """Records were deleted under the channel, or the cluster lost the end of the log."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The account that the changelog, the group and the log give of one channel partition."""

    topic_id: str
    """The id of the topic as it is now."""
    position: Position | None
    """The changelog's; None when the changelog has no position or cannot be read."""
    committed: CommittedOffset | None
    log_begin: int
    """The first offset the log still has."""
    log_end: int
    """One past the last offset the log has, committed or not."""
    begin: int = 0
    """The offset where the registry says that a subscription begins."""
    is_written: bool = False
    """Between two readings another checkpoint came: an owner lives. Not so where the owner recovers it, being alone."""
    is_truncated: bool = False
    """We delete what is settled there: what the log does not have any more is that."""
    delivered_below: int = 0
    """The end of what an owner that did not know yet of a topic made anew may have handed over, for it read on by the
    old numbers."""

    @property
    def deleted_below(self) -> int:
        """Return what we deleted of the log, as far as the channel had settled it."""
        if self.position is None or self.position.topic_id != self.topic_id:
            return 0
        known = self.position.watermark if self.is_truncated else self.position.truncated
        return min(self.log_begin, known)


@dataclass(frozen=True, slots=True)
class Start:
    """The decision where the channel begins."""

    reason: StartReason
    position: Position
    """The position that the channel begins with; within the log's bounds. Its checkpoint id is empty when no checkpoint
    wrote it."""
    keeps_entries: bool
    """False: whatever else is remembered does not count any more, but for the ids of what lies before a reset."""


@dataclass(frozen=True, slots=True)
class Reset:
    """The effect of an operator's reset on messages of one partition, where it has any."""

    begin: int
    """The next offset that is delivered."""
    before: int | None
    """Where the channel was: the offset that undoes it. None: nothing is recorded, and so nobody knows."""
    skipped: OffsetRange | None
    """The range of which unsettled messages are not delivered any more."""
    comes_again: bool
    """Messages that were delivered from `begin` on are delivered again."""


def decide_start(facts: Facts) -> Start:
    """Where to begin and what to keep; see `StartReason`."""
    position, committed = facts.position, facts.committed
    if position is not None and position.topic_id != facts.topic_id:
        # The broker drops the offsets of a deleted topic; if one is still there it is about the other log.
        is_same_log = topic_id_of(position.topic_id) == topic_id_of(facts.topic_id)
        reason = StartReason.SUBSCRIBED_ANEW if is_same_log else StartReason.TOPIC_RECREATED
        return _afresh(facts, reason, facts.begin)
    if committed is None:
        if position is None:
            return _afresh(facts, StartReason.NOTHING_RECORDED, facts.begin)
        return _as_recorded(facts, position)
    if parse_checkpoint_id(committed.metadata) is None:
        return _reset(facts, position, committed)
    if position is None:
        return _as_committed(facts, committed)
    if committed.metadata == position.checkpoint_id:
        if committed.position == position.watermark:
            return _as_recorded(facts, position)
        # One checkpoint writes both, so somebody moved the number and kept the metadata.
        return _reset(facts, position, committed)
    if facts.is_written:
        return _as_recorded(facts, position, StartReason.OWNER_GOES_ON)
    if committed.position < position.watermark:
        return _afresh(facts, StartReason.OLDER_CHECKPOINT, committed.position)
    # The cluster lost the end of the changelog, or of the group's offsets after somebody's reset. The lower of the
    # two begins of what both saw settled; the higher one could skip messages that were asked for again.
    return _as_recorded(facts, position)


def reset_of(facts: Facts) -> Reset | None:
    """Return what an operator's reset does to messages; None: to none of them anything."""
    begin, position = decide_start(facts).position.watermark, facts.position
    before = max(facts.begin, facts.log_begin) if position is None else position.watermark
    skipped = OffsetRange(before, begin - 1) if begin > before else None
    comes_again = position is not None and begin < min(position.offered, facts.log_end)
    if skipped is None and not comes_again:
        return None
    return Reset(begin, None if position is None else before, skipped, comes_again=comes_again)


def is_disputed(position: Position | None, committed: CommittedOffset | None) -> bool:
    """True when two different checkpoints wrote them: a living owner's next checkpoint may lie between two readings."""
    return (
        position is not None
        and committed is not None
        and committed.metadata != position.checkpoint_id
        and parse_checkpoint_id(committed.metadata) is not None
    )


def _reset(facts: Facts, position: Position | None, committed: CommittedOffset) -> Start:
    if position is not None and committed.position < facts.deleted_below:
        return _as_recorded(facts, position, StartReason.RESET_REFUSED)
    return _afresh(facts, StartReason.OPERATOR_RESET, committed.position)


def _afresh(facts: Facts, reason: StartReason, begin: int) -> Start:
    begin = min(max(begin, facts.log_begin), facts.log_end)
    is_same_log = facts.position is not None and facts.position.topic_id == facts.topic_id
    delivered_below = facts.delivered_below if reason is StartReason.TOPIC_RECREATED else 0
    position = Position(
        topic_id=facts.topic_id,
        checkpoint_id="",
        watermark=begin,
        fetched=begin,
        offered=max(begin, min(delivered_below, facts.log_end)),
        truncated=max(facts.position.truncated, facts.deleted_below)
        if is_same_log and facts.position is not None
        else 0,
    )
    return Start(reason=reason, position=position, keeps_entries=False)


def _as_committed(facts: Facts, committed: CommittedOffset) -> Start:
    # Below a subscription's beginning it is an offset of another that had the name, whose group was not removed.
    begin = min(max(committed.position, facts.begin, facts.log_begin), facts.log_end)
    position = Position(
        topic_id=facts.topic_id,
        checkpoint_id=committed.metadata,
        watermark=begin,
        fetched=begin,
        # Nobody knows what was handed over: all of it may have been (REDELIVER-7).
        offered=facts.log_end,
        truncated=0,
    )
    return Start(reason=StartReason.COMMITTED_OFFSET, position=position, keeps_entries=True)


def _as_recorded(facts: Facts, position: Position, reason: StartReason = StartReason.CHANGELOG) -> Start:
    begin, end = facts.log_begin, facts.log_end
    if facts.deleted_below > position.truncated:
        position = replace(position, truncated=facts.deleted_below)
    if begin <= position.watermark and position.fetched <= end:
        return Start(reason=reason, position=position, keeps_entries=True)
    # Above a lost end other messages will get the same offsets: what is known of the old ones must not count.
    cut = replace(
        position,
        watermark=min(max(position.watermark, begin), end),
        fetched=min(max(position.fetched, begin), end),
        offered=min(max(position.offered, begin), end),
    )
    return Start(reason=StartReason.LOG_BOUNDS, position=cut, keeps_entries=True)
