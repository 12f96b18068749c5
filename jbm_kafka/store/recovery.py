"""Rebuilds the durable part of channels that were just assigned.

Order matters: the committed offset first, with require-stable, so that no checkpoint of a former owner is still in the
air; then the changelog's high watermark; then read_committed up to it. What is found is judged by `start_position`.
Nothing is written to Kafka here: what no longer counts is named in `obsolete`, and the first checkpoint deletes it in
the transaction that records the new position. Until then a repeated recovery comes to the same result.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from jbm_kafka.core.channel.checkpoint_id import parse_checkpoint_id
from jbm_kafka.core.channel.companion_group import companion_of, lost_remedy, lost_text, parked_at
from jbm_kafka.core.channel.entries import (
    PARKED,
    Attempted,
    Duplicates,
    Entry,
    Failure,
    Held,
    OffsetRange,
    Parked,
    Prepared,
)
from jbm_kafka.core.channel.partition_names import named
from jbm_kafka.core.channel.reset_effects import effects_of, undo_of
from jbm_kafka.core.channel.start_position import Facts, Reset, Start, StartReason, decide_start, is_disputed, reset_of
from jbm_kafka.ports import AccessRefused, CommittedOffset, Journal, KafkaAdmin, KafkaClientError, LogReader
from jbm_kafka.store.changelog_reader import ChangelogContents, ChangelogScope, read_changelogs
from jbm_kafka.store.recovered_entries import (
    DecodedChangelog,
    cut_entry,
    decode_values,
    end_of,
    entry_order,
    unsettled_within,
)

log = logging.getLogger(__name__)

READINGS_MAX = 3
"""One may find the journal damaged, and one a living owner's checkpoint between two questions (when somebody only
looks); then the next agrees, or the owner is so busy that it finds one more: that is seen by its changelog. What still
differs, with no other checkpoint since the last reading, differs for good."""
LATER_READINGS_MAX = 10
LATER_S = 1.0
"""A broker that has just started answers with offsets of a moment before for a while. Whoever believes such a one
delivers again what was acknowledged, so it is asked for ten seconds more; a restored offset, which looks the same, is
rare and can wait for so long."""

_Say = Callable[..., object]
"""Logs: takes a level, a text, and its values."""
_NOBODY_KNOWS = CommittedOffset(1, "")
"""A number that no checkpoint has written."""
_OF_PARKED = (Parked, Held, Failure, Attempted, Prepared)
"""Entries of parked messages."""
_QUIET = frozenset({StartReason.CHANGELOG, StartReason.NOTHING_RECORDED, StartReason.SUBSCRIBED_ANEW})
_TOLD_ELSEWHERE = frozenset(
    {
        StartReason.OWNER_GOES_ON,
        StartReason.TOPIC_RECREATED,
        StartReason.COMMITTED_OFFSET,
        StartReason.OPERATOR_RESET,
        StartReason.RESET_REFUSED,
        StartReason.OLDER_CHECKPOINT,
    }
)
"""One line for all partitions, or nothing to tell; the numbers of each are for DEBUG."""


@dataclass(frozen=True, slots=True)
class RecoveredChannel:
    """The memory of one channel partition."""

    partition: int
    entries: tuple[Entry, ...]
    """To apply in this order; the position comes first and is always there."""
    changelog_position: int
    """Everything below was taken into account."""
    changelog_id: str
    """The Kafka id of the topic of the changelog; empty: the topic is missing."""
    start_position: int
    """Where to fetch from: the position's watermark. What is parked below comes first, from the entries."""
    reason: StartReason
    cause: str
    """The reason with its numbers, for people; one line."""
    obsolete: tuple[bytes, ...]
    """Changelog keys that do not count any more. The first checkpoint deletes those of them that it does not write, in
    the changelog and in the journal; left alone they would count again at the next recovery."""
    skipped: OffsetRange | None = None
    """The range that was not settled, as far as it held messages, and is not delivered any more: it lies below the
    start."""
    reset: Reset | None = None
    """The effect of an operator's reset; None: there was none, or it changes nothing."""
    has_offset: bool = True
    """False: the group has none committed, as when it was deleted or its offsets expired."""
    closed_because: str = ""
    """Not empty: a newer version's records are there, or what was parked is not: a channel opened without would lose
    that. One line for people; the entries may be looked at, never built on."""
    parked_lost: int | None = 0
    """How many messages were parked that the changelog has no more; None: it is missing, and nobody knows."""
    parked_noted: int | None = 0
    """The number of parked messages that stands beside; None: a checkpoint is to write it, whichever it is."""
    may_note: bool = True
    """These credentials may read that number."""

    @property
    def parked(self) -> Sequence[Parked]:
        """Return what the log need not have any more, ascending: records below the start."""
        below = (each for each in self.entries if isinstance(each, Parked) and each.offset < self.start_position)
        return list(below)

    @property
    def is_decided_here(self) -> bool:
        """True when changelog and group do not both say yet what was decided: the channel begins dirty."""
        return bool(self.obsolete) or not self.has_offset or self.reason is not StartReason.CHANGELOG


@dataclass(frozen=True, slots=True)
class _Found:
    """Kafka's account of one channel partition."""

    committed: CommittedOffset | None
    contents: ChangelogContents
    decoded: DecodedChangelog
    is_written: bool
    """The changelog has another position than at the reading before, which an owner must have written."""
    note: CommittedOffset | None
    """How many messages are parked, as it stands beside."""
    topic_id: str
    """The id of the topic as it is now."""

    @property
    def parked_lost(self) -> int | None:
        """As of `RecoveredChannel`."""
        position, committed = self.decoded.position, self.committed
        if position is not None:
            if position.topic_id != self.topic_id:
                return 0  # it was of another log, or of another subscription
            return self._lacking(parked_at(self.note, position.checkpoint_id) or 0)
        if committed is None or parse_checkpoint_id(committed.metadata) is None or _is_position_damaged(self.decoded):
            return 0
        noted = parked_at(self.note, committed.metadata)
        return None if noted is None else self._lacking(noted)

    def _lacking(self, noted: int) -> int:
        damaged = (*self.decoded.corrupt, *self.decoded.newer)  # which is told of by itself
        there = sum(isinstance(entry, Parked) for entry in self.decoded.others.values())
        return max(noted - there - sum(_kind_of(key) == PARKED.encode() for key in damaged), 0)

    @property
    def is_disputed(self) -> bool:
        return is_disputed(self.decoded.position, self.committed)

    @property
    def is_to_be_read_again(self) -> bool:
        return self.is_journal_damaged or bool(self.parked_lost) or (self.is_disputed and not self.is_written)

    def is_doubtful(self, is_look: bool) -> bool:
        """Return True if a broker that has just started may have said it."""
        return self.is_older or (bool(self.parked_lost) and not is_look)

    @property
    def is_older(self) -> bool:
        """True when the committed offset is that of another checkpoint, and lower."""
        position, committed = self.decoded.position, self.committed
        is_lower = position is not None and committed is not None and committed.position < position.watermark
        return is_lower and self.is_disputed and not self.is_written

    @property
    def is_journal_damaged(self) -> bool:
        """True when a value that cannot be read was not read from Kafka: there it may be well."""
        return any(key not in self.contents.places for key in (*self.decoded.corrupt, *self.decoded.newer))


def recover_channels(
    scope: ChangelogScope,
    partitions: Sequence[int],
    *,
    admin: KafkaAdmin,
    reader: LogReader,
    journal: Journal,
    timeout_s: float,
    pause: Callable[[float], None],
    delivered_below: int | None = None,
    is_look: bool = False,
    loudest: int = logging.ERROR,
) -> Mapping[int, RecoveredChannel]:
    """The state of the given partitions, all of them read side by side.

    `is_look`: nobody will receive by it; only a recovery for receivers logs a reset.

    `loudest`: no line that is logged has a higher level; for one who looks again and again.

    `pause` waits the given seconds: before an offset of an earlier checkpoint is believed, it is asked for again.

    `delivered_below`: an owner opens them anew, whose receivers may have had offsets below it, if it turns out that the
    topic was made anew, which the owner tells; None: they were assigned.

    Raises:
        Unreachable: no answer, or the changelog's end was not reached in `timeout_s`; try again.
    """

    def say(level: int, text: str, *values: object) -> None:
        log.log(min(level, loudest), text, *values)

    found: dict[int, _Found] = {}
    asked = list(partitions)
    for reading in range(READINGS_MAX + LATER_READINGS_MAX):
        if reading >= READINGS_MAX:
            pause(LATER_S)
        committed = admin.committed(scope.group, scope.topic, asked)
        contents = read_changelogs(scope, asked, admin=admin, reader=reader, journal=journal, timeout_s=timeout_s)
        decoded = {p: decode_values(contents[p].values) for p in asked}
        # Last: a number that is older than a position is the latest one.
        notes = _parked_notes(scope, asked, admin, is_needed=any(each.position is None for each in decoded.values()))
        for p in asked:
            is_written, note = _is_written(found.get(p), decoded[p]), None if notes is None else notes.get(p)
            found[p] = _Found(committed.get(p), contents[p], decoded[p], is_written, note, scope.topic_id)
            if found[p].is_journal_damaged or found[p].parked_lost:
                journal.discard(scope.journal_channel(p))
        is_late = reading >= READINGS_MAX - 1
        asked = [p for p in asked if (found[p].is_doubtful(is_look) if is_late else found[p].is_to_be_read_again)]
        if not asked:
            break
    begins = admin.begin_positions(scope.topic, partitions)
    ends = admin.end_positions(scope.topic, partitions, stable=False)
    recovered = {
        p: _recovered(
            say,
            scope,
            p,
            found[p],
            log_begin=begins[p],
            log_end=ends[p],
            delivered_below=delivered_below or 0,
            may_note=notes is not None,
        )
        for p in partitions
    }
    made_anew = [each for each in recovered.values() if each.reason is StartReason.TOPIC_RECREATED]
    level = logging.INFO if is_look else logging.WARNING
    # Else it was logged already.
    _log_made_anew(say, scope, made_anew, level if delivered_below is None else logging.DEBUG)
    _log_lost(say, scope, recovered, is_look=is_look)
    if not is_look:
        again = [p for p in partitions if _comes_again(recovered[p], found[p], ends[p])]
        is_unknown = [p for p, each in recovered.items() if each.parked_lost is None and not each.closed_because]
        _log_no_changelog(say, scope, again, is_unknown)
    _log_resets(say, scope, recovered, is_look=is_look)
    _log_refused(say, scope, recovered, begins, is_look=is_look)
    _log_deleted(say, scope, {p: _deleted(recovered[p], found[p]) for p in partitions}, recovered)
    return recovered


def _parked_notes(
    scope: ChangelogScope, partitions: Sequence[int], admin: KafkaAdmin, *, is_needed: bool
) -> Mapping[int, CommittedOffset] | None:
    """How many messages are parked, as the companion group says; None: these credentials may not read it.

    Raises:
        KafkaClientError: no answer; only where it is needed, for no changelog says it.
    """
    group = companion_of(scope.group)
    try:
        return admin.committed(group, scope.topic, partitions)
    except AccessRefused as error:
        log.info(
            "%s: how many messages group %s has parked stands in its changelog alone (%s); allow Read on the group %s",
            scope.topic,
            scope.group,
            error,
            group,
        )
        return None
    except KafkaClientError as error:
        if is_needed:
            raise
        log.info("%s: how many messages group %s has parked cannot be read beside: %s", scope.topic, scope.group, error)
        return dict.fromkeys(partitions, _NOBODY_KNOWS)


def _is_written(before: _Found | None, decoded: DecodedChangelog) -> bool:
    """Return True if somebody wrote another position since the reading before; what a damaged journal said does not
    count."""
    if before is None or before.is_journal_damaged or before.decoded.position is None or decoded.position is None:
        return False
    return before.decoded.position.checkpoint_id != decoded.position.checkpoint_id


def _recovered(
    say: _Say,
    scope: ChangelogScope,
    partition: int,
    found: _Found,
    *,
    log_begin: int,
    log_end: int,
    delivered_below: int,
    may_note: bool,
) -> RecoveredChannel:
    facts = Facts(
        topic_id=scope.topic_id,
        position=found.decoded.position,
        committed=found.committed,
        log_begin=log_begin,
        log_end=log_end,
        begin=scope.begins.get(partition, 0),
        is_truncated=scope.is_truncated,
        is_written=found.is_written,
        delivered_below=delivered_below,
    )
    start = decide_start(facts)
    kept = _kept(found.decoded.others, start, log_end)
    position = start.position
    if start.reason is StartReason.COMMITTED_OFFSET:
        position = replace(position, fetched=max([position.fetched, *(end_of(entry) for entry in kept.values())]))
    cause = _cause(facts, start)
    reset = reset_of(facts) if start.reason is StartReason.OPERATOR_RESET else None
    newer, lost = _newer(scope, partition, found), found.parked_lost
    if newer:
        say(logging.ERROR, "%s", newer)
    else:
        _log_corrupt(say, scope, partition, found)
        _log_decision(say, scope, partition, found, facts, start, cause)
    return RecoveredChannel(
        partition=partition,
        entries=(position, *sorted(kept.values(), key=entry_order)),
        changelog_position=found.contents.position,
        changelog_id=found.contents.changelog_id,
        start_position=position.watermark,
        reason=start.reason,
        cause=cause,
        obsolete=(*found.decoded.corrupt, *(key for key in found.decoded.others if key not in kept)),
        skipped=_skipped(facts, start),
        reset=reset,
        has_offset=found.committed is not None,
        closed_because=newer or (_of_lost(scope, {partition: lost}) if lost else ""),
        parked_lost=lost,
        parked_noted=None if found.note is not None and found.note.position else 0,
        may_note=may_note,
    )


def _skipped(facts: Facts, start: Start) -> OffsetRange | None:
    """From where the channel was to where it begins, when an operator or a shorter log took it past that."""
    if facts.position is not None:
        before = facts.position.watermark if facts.position.topic_id == facts.topic_id else None
    else:
        before = facts.committed.position if start.reason is StartReason.COMMITTED_OFFSET and facts.committed else None
    begin = start.position.watermark
    return OffsetRange(before, begin - 1) if before is not None and before < begin else None


def _kept(others: Mapping[bytes, Entry], start: Start, log_end: int) -> Mapping[bytes, Entry]:
    """The entries that still count, by their changelog keys."""
    match start.reason:
        case StartReason.CHANGELOG | StartReason.OWNER_GOES_ON | StartReason.RESET_REFUSED:
            return others
        case StartReason.LOG_BOUNDS:
            end = start.position.fetched
        case StartReason.COMMITTED_OFFSET:
            end = log_end
        case StartReason.TOPIC_RECREATED | StartReason.SUBSCRIBED_ANEW:
            return {}
        case reason:
            # Delivered again is what begins here. What is parked below that is owed as before: no offset of the group
            # speaks of it. What was sent once before a reset counts still, and is not repeated.
            end = start.position.watermark
            kinds = _OF_PARKED if reason is not StartReason.OPERATOR_RESET else (*_OF_PARKED, Duplicates)
            others = {key: entry for key, entry in others.items() if isinstance(entry, kinds)}
    begin = start.position.watermark
    parked = {entry.offset for entry in others.values() if isinstance(entry, Parked) and entry.offset < min(begin, end)}
    cut = {key: cut_entry(entry, begin=begin, end=end, parked=parked) for key, entry in others.items()}
    return {key: entry for key, entry in cut.items() if entry is not None}


def _cause(facts: Facts, start: Start) -> str:
    """The decision with all its numbers: what an operator needs to judge it."""
    parts = [start.reason.value]
    if facts.position is not None:
        parts.append(f"changelog at {facts.position.watermark} by checkpoint {facts.position.checkpoint_id}")
    if facts.committed is None:
        parts.append("no committed offset")
    elif parse_checkpoint_id(facts.committed.metadata) is None:
        parts.append(f"committed offset {facts.committed.position} by no checkpoint")
    else:
        parts.append(f"committed offset {facts.committed.position} by checkpoint {facts.committed.metadata}")
    parts.append(f"log from {facts.log_begin} to {facts.log_end}")
    return f"begins at {start.position.watermark}: {'; '.join(parts)}"


def _newer(scope: ChangelogScope, partition: int, found: _Found) -> str:
    """Which records this version must leave alone; empty: none."""
    newer = found.decoded.newer
    if not newer:
        return ""
    places = found.contents.places
    key = min(newer, key=lambda each: (places.get(each, -1), each))
    more = f", and {len(newer) - 1} more like it" if len(newer) > 1 else ""
    return (
        f"{newer[key].at(scope.changelog_topic, partition, places.get(key, -1))} (key {key.decode(errors='replace')!r}"
        f"{more}). {scope.topic}[{partition}] stays closed to group {scope.group} here and nothing of it is deleted; "
        f"other partitions go on. Run the newer jbm-kafka that wrote it"
    )


def _log_decision(
    say: _Say, scope: ChangelogScope, partition: int, found: _Found, facts: Facts, start: Start, cause: str
) -> None:
    """One line, as loud as it matters."""
    is_quiet = start.reason in _QUIET and not found.is_disputed
    is_cut = start.reason is StartReason.LOG_BOUNDS and _skipped(facts, start) is not None  # one line for all
    if start.reason in _TOLD_ELSEWHERE or is_quiet or is_cut:
        say(logging.DEBUG, "%s %s[%d] %s", scope.group, scope.topic, partition, cause)
    else:
        say(
            logging.WARNING,
            "%s %s[%d] %s; to begin elsewhere stop the group and reset its offset with Kafka's tools",
            scope.group,
            scope.topic,
            partition,
            cause,
        )


def _comes_again(channel: RecoveredChannel, found: _Found, log_end: int) -> bool:
    """Return True if messages come again for want of a changelog. A position that is damaged has a line of its own."""
    is_without = channel.reason is StartReason.COMMITTED_OFFSET and not channel.closed_because
    return is_without and not _is_position_damaged(found.decoded) and channel.start_position < log_end


def _is_position_damaged(decoded: DecodedChangelog) -> bool:
    return any(_kind_of(key) == b"position" for key in decoded.corrupt)


def _kind_of(key: bytes) -> bytes:
    return b"".join(key.split(b"|")[1:2])


def _log_no_changelog(say: _Say, scope: ChangelogScope, again: Sequence[int], unknown: Sequence[int]) -> None:
    """One line, however many partitions: it is deleted as a whole. Not for a look: a worker may be making it anew.

    Of `again` messages come again, of `unknown` nobody knows what was parked.
    """
    said = []
    if again:
        said.append(f"what the group acknowledged behind its oldest held message comes again ({named(again)})")
    if unknown:
        said.append(f"how many messages it had parked there, if any, is not known ({named(unknown)})")
    if said:
        say(
            logging.WARNING,
            "%s: the changelog %s of group %s was deleted, or lost: %s",
            scope.topic,
            scope.changelog_topic,
            scope.group,
            ", and ".join(said),
        )


def _of_lost(scope: ChangelogScope, counts: Mapping[int, int]) -> str:
    """Return what became of what was parked, for people."""
    lost, stay = sum(counts.values()), "stays" if len(counts) == 1 else "stay"
    return (
        f"{lost_text(scope.changelog_topic, scope.group, lost)}; {named(counts)} {stay} closed, others go on: "
        f"{lost_remedy(scope.group)}"
    )


def _log_lost(say: _Say, scope: ChangelogScope, channels: Mapping[int, RecoveredChannel], *, is_look: bool) -> None:
    """One line, however many partitions: a changelog is deleted as a whole."""
    lost = {p: each.parked_lost for p, each in channels.items() if each.parked_lost}
    if lost:
        say(logging.INFO if is_look else logging.ERROR, "%s: %s", scope.topic, _of_lost(scope, lost))


def _log_resets(say: _Say, scope: ChangelogScope, channels: Mapping[int, RecoveredChannel], *, is_look: bool) -> None:
    """An operator asked for it, but of others nobody knows: whoever looks for lost or repeated messages finds it."""
    reset = {
        partition: each.reset
        for partition, each in channels.items()
        if each.reason is StartReason.OPERATOR_RESET and not each.closed_because
    }
    found = {partition: each for partition, each in reset.items() if each is not None}
    if found:
        text = ". ".join(part for part in (effects_of(found), undo_of(found)) if part)
        level = logging.INFO if is_look else logging.WARNING
        say(level, "%s: somebody reset the offsets of group %s: %s", scope.topic, scope.group, text)
    if len(reset) > len(found):
        where = named([partition for partition in reset if partition not in found])
        say(
            logging.INFO,
            "%s: somebody reset offsets of group %s, which changes nothing (%s)",
            scope.topic,
            scope.group,
            where,
        )
    _log_older(say, scope, [each for each in channels.values() if each.reason is StartReason.OLDER_CHECKPOINT])


def _log_refused(
    say: _Say,
    scope: ChangelogScope,
    channels: Mapping[int, RecoveredChannel],
    begins: Mapping[int, int],
    *,
    is_look: bool,
) -> None:
    """One line for all partitions: what was asked for is not there any more."""
    refused = [p for p, each in channels.items() if each.reason is StartReason.RESET_REFUSED]
    if refused:
        level = logging.INFO if is_look else logging.ERROR
        say(
            level,
            "%s: somebody reset the offsets of group %s to below what is left of the log, and that is refused: what is "
            "settled was deleted (%s). It goes on where it was; set an offset of at least these to have again what is "
            "left",
            scope.topic,
            scope.group,
            ", ".join(f"partition {p} up to offset {begins[p] - 1}" for p in refused),
        )


def _log_older(say: _Say, scope: ChangelogScope, channels: Sequence[RecoveredChannel]) -> None:
    """One line, however many partitions: a cluster that is restored loses offsets of all; the numbers of the first."""
    older = [each for each in channels if not each.closed_because]
    if older:
        say(
            logging.WARNING,
            "%s: offsets of group %s are older than its changelog, and taken for a reset: what was delivered from them "
            "on is delivered again (%s; %d %s). Ask who restored offsets, or whether the cluster lost data; to begin "
            "elsewhere stop the group and reset its offsets with Kafka's tools",
            scope.topic,
            scope.group,
            named([each.partition for each in older]),
            older[0].partition,
            older[0].cause,
        )


def _log_corrupt(say: _Say, scope: ChangelogScope, partition: int, found: _Found) -> None:
    for key, error in found.decoded.corrupt.items():
        say(
            logging.WARNING,
            "%s; the record of key %r is skipped: %s. The next checkpoint replaces it",
            error.at(scope.changelog_topic, partition, found.contents.places.get(key, -1)),
            key.decode(errors="replace"),
            _consequence(key),
        )


def _log_made_anew(say: _Say, scope: ChangelogScope, channels: Sequence[RecoveredChannel], level: int) -> None:
    """One line, however many partitions the topic has."""
    if not channels:
        return
    first = channels[0]
    say(
        level,
        "%s %s[%d] %s%s; what was recorded is about the topic before, and counts no more",
        scope.group,
        scope.topic,
        first.partition,
        first.cause,
        f"; so do {len(channels) - 1} more of its partitions" if len(channels) > 1 else "",
    )


def _deleted(channel: RecoveredChannel, found: _Found) -> int:
    """How many offsets the log lost before they were settled; what a closed channel lost is logged when it opens."""
    is_cut = channel.reason is StartReason.LOG_BOUNDS and not channel.closed_because
    return unsettled_within(found.decoded.others.values(), channel.skipped) if is_cut and channel.skipped else 0


def _log_deleted(
    say: _Say, scope: ChangelogScope, counts: Mapping[int, int], channels: Mapping[int, RecoveredChannel]
) -> None:
    """One line, however many partitions lost messages: retention takes them from all of them at once."""
    lost = {partition: count for partition, count in counts.items() if count}
    if not lost:
        return
    total = sum(lost.values())
    where = named(lost)
    gone = channels[next(iter(lost))].skipped
    if len(lost) == 1 and gone is not None:
        where += f", offset {gone.first}" if gone.first == gone.last else f", offsets {gone.first} to {gone.last}"
    say(
        logging.WARNING,
        "%s: retention, or somebody, deleted %s that group %s had not settled (%s), and what is left goes on; set "
        "retention.ms=-1 on the topic to keep messages until they are settled",
        scope.topic,
        "1 message" if total == 1 else f"up to {total} messages",
        scope.group,
        where,
    )


def _consequence(key: bytes) -> str:
    match _kind_of(key):
        case b"position":
            return "the committed offset decides where the channel begins"
        case b"settled":
            return "messages of its block that were settled are delivered again"
        case b"duplicates":
            return "a message that repeats an id of it is delivered"
        case b"held":
            return "the count and the delay of its message begin anew"
        case b"failure":
            return "why its message failed the last time is not told"
        case b"parked":
            return "its message comes again only if the log still has it"
        case _:
            return "what it says is not taken into account"
