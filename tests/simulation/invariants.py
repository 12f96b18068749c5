"""What must hold after every step: each promise a function over what the recorder saw.

What must hold whenever an application gets a message is in `at_hand_over`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from jbm_kafka.core.channel.checkpoint_id import CommittedOffset
from jbm_kafka.core.channel.entries import Position
from jbm_kafka.memory.memory_journal import MemoryJournal
from jbm_kafka.sidecar.channel.owned_channel import OwnedChannel
from tests.simulation.names import DLQ, EXPIRED, MOVED
from tests.simulation.paper import ChannelName, Epoch, Message, Paper, Place

CHANGELOG_ID_KEY = b"changelog-id"


DONE = ("acknowledged", "committed")
"""Reasons that a receiver gives."""


def nothing_is_lost(paper: Paper) -> None:
    """A message is durably settled only for a reason that somebody gave, and stays settled."""
    for place, changelog in paper.changelogs.items():
        over = paper.over[place]
        for offset in over:
            assert changelog.is_settled(offset), f"nothing_is_lost: {place} {offset} was settled and is not any more"
        for offset, message in paper.messages[place].items():
            if offset not in over and changelog.is_settled(offset):
                reason = _reason(paper, message)
                assert reason, f"nothing_is_lost: {message} is settled and nobody asked for it"
                epoch = paper.current(place)
                hand = None if epoch is None or reason in DONE else epoch.hand.get(offset)
                assert hand is None, f"in_hand_stays: {message} is {reason}, {hand and hand.session} works on it"
                over.add(offset)


def _reason(paper: Paper, message: Message) -> str:
    """Why a message may be over; empty: it may not."""
    profile = paper.profile
    if message.offset in paper.acknowledged[message.place]:
        return "acknowledged"
    if any(paper.was_sent(commit) for commit in paper.committing[message.place, message.offset]):
        return "committed"
    if paper.copies[DLQ][message.copy]:
        return "dead-lettered"
    if (message.expiration_ms or paper.is_wished(message, "expire")) and paper.copies[EXPIRED][message.copy]:
        return "expired"
    if paper.is_wished(message, "move") and paper.copies[MOVED][message.copy]:
        return "moved"
    if paper.is_wished(message, "remove"):
        return "removed by an operator"
    if not profile.has_dead_letter_address and 0 <= profile.max_attempts <= _tries(paper, message):
        return "removed"
    return ""


def _tries(paper: Paper, message: Message) -> int:
    """As many attempts as anybody can have known of."""
    offset = message.offset
    known = [epoch.attempts_before.get(offset, 0) + epoch.counted[offset] for epoch in paper.epochs[message.place]]
    return max([paper.handed[message.place][offset], *known])


def exactly_one_dead_letter(paper: Paper) -> None:
    """REDELIVER-5: one copy, and never both there and in the queue. So it is with what is moved."""
    for topic in (DLQ, EXPIRED, MOVED):
        for name, count in paper.copies[topic].items():
            assert count == 1, f"exactly_one_dead_letter: {name} stands {count} times in {topic}"
            message = paper.by_name[name]
            changelog = paper.changelogs.get(message.place)
            assert changelog is None or changelog.is_settled(message.offset), (
                f"exactly_one_dead_letter: {message} is in {topic} and in its queue"
            )


def only_what_was_tried_is_dead(paper: Paper) -> None:
    """REDELIVER-3: a dead letter reached an application as often as the settings ask."""
    if paper.profile.persists_attempts:
        return  # a crash between the record and the hand-over counts an attempt that nobody saw
    for name in paper.copies[DLQ]:
        message = paper.by_name[name]
        if paper.is_wished(message, "dead-letter"):
            continue
        tries = paper.handed[message.place][message.offset]
        assert tries >= paper.profile.max_attempts, f"only_what_was_tried_is_dead: {message} after {tries}"


def sends_once_iff_committed(paper: Paper) -> None:
    """LOG-5, ACK-7: a commit's sends are there once and all, with its messages settled, or not at all."""
    for commit in paper.commits:
        counts = {name: paper.copies[queue][name] for name, queue in commit.sends.items()}
        assert len(set(counts.values())) == 1, f"sends_once_iff_committed: {commit.name} is half there: {counts}"
        count = next(iter(counts.values()))
        assert count <= 1, f"sends_once_iff_committed: {commit.name} is there {count} times"
        if commit.outcome == "committed":
            assert count, f"sends_once_iff_committed: {commit.name} was committed, its sends are not there"
        elif commit.outcome in ("rolled back", "prepared"):
            assert not count, f"sends_once_iff_committed: {commit.name} is {commit.outcome}, its sends are there"
        for hand in commit.hands if count and not commit.is_branch else ():
            changelog = paper.changelogs.get(hand.message.place)
            assert changelog is None or changelog.is_settled(hand.message.offset), (
                f"sends_once_iff_committed: {commit.name} is there, {hand.message} is not settled"
            )


def offsets_agree(paper: Paper, committed: Callable[[ChannelName], CommittedOffset | None]) -> None:
    """LOG-2: the group's committed offset is the changelog's watermark, of the same checkpoint."""
    for (queue, partition), changelog in paper.changelogs.items():
        found = committed(paper.names[queue, partition])
        position = changelog.position
        if position is None and (queue, partition) in paper.successors:
            continue
        if found is None or position is None:
            assert found is None, f"offsets_agree: {queue}[{partition}] committed {found}, the changelog has nothing"
            assert position is None, f"offsets_agree: {queue}[{partition}] has no offset, the changelog {position}"
            continue
        assert (found.metadata, found.position) == (position.checkpoint_id, position.watermark), (
            f"offsets_agree: {queue}[{partition}] committed {found}, the changelog says {position}"
        )


def what_is_parked_is_numbered(paper: Paper, noted: Callable[[ChannelName], CommittedOffset | None]) -> None:
    """LOG-11: outside the changelog stands how many it keeps, by the process that wrote the latest checkpoint."""
    for (queue, partition), changelog in paper.changelogs.items():
        position, kept = changelog.position, len(changelog.parked)
        if position is None:
            continue
        note = noted(paper.names[queue, partition])
        count = 0 if note is None else note.position
        assert count == kept, f"what_is_parked_is_numbered: {queue}[{partition}] keeps {kept}, and {note} is beside"
        if note is not None and count:
            processes = {text.partition(":")[0] for text in (note.metadata, position.checkpoint_id)}
            assert len(processes) == 1, f"what_is_parked_is_numbered: {queue}[{partition}] {note}, by {position}"


def replay_equals_live(paper: Paper, live: Iterable[OwnedChannel]) -> None:
    """What the changelog tells is the durable part of a living channel that has nothing to record."""
    for channel in live:
        if not channel.needs_checkpoint and channel.checkpoints.freeze is None:
            place = paper.epoch_of[channel].place
            if place in paper.changelogs:
                _replay_equals(paper, place, channel)


def _replay_equals(paper: Paper, place: Place, channel: OwnedChannel) -> None:
    changelog, state = paper.changelogs[place], channel.state
    name = f"replay_equals_live: {place[0]}[{place[1]}]"
    assert changelog.watermark == state.watermark, f"{name}: watermark {changelog.watermark}, live {state.watermark}"
    if changelog.position is not None:
        assert changelog.position.fetched == state.end_position, (
            f"{name}: {changelog.position}, live {state.end_position}"
        )
        # On its way out it recorded what was really handed over, and hands over no more.
        is_exact = channel.is_closing or paper.profile.persists_attempts
        assert is_exact or changelog.offered == state.offered_position, (
            f"{name}: {changelog.position}, live {state.offered_position}"
        )
    epoch = paper.epoch_of[channel]
    seen = (changelog.version, len(state.unsettled))
    rows = paper.messages[place].items() if epoch.compared != seen else ()
    epoch.compared = seen
    for offset, message in rows:
        if offset < state.end_position:
            owed = offset in state.unsettled
            assert owed != changelog.is_settled(offset), f"{name}: live {owed=} of {message}, the changelog otherwise"
    remembered = {o: (h.attempts, h.due_at_ms) for o, h in changelog.held.items() if not changelog.is_settled(o)}
    live = {o: (redelivery.attempts, redelivery.due_at_ms) for o, redelivery in state.redeliveries.items()}
    assert remembered == live, f"{name}: remembers {remembered}, live {live}"
    prepared = state.durable.prepared
    assert changelog.prepared == prepared, f"{name}: {changelog.prepared} is prepared, live {prepared}"


def attempts_are_forgotten_with_their_message(paper: Paper) -> None:
    """REDELIVER-1: a changelog forgets attempts only of what is over."""
    for place, changelog in paper.changelogs.items():
        forgotten = paper.forgotten[place]
        for offset in list(forgotten):
            if offset not in changelog.held:
                assert changelog.is_settled(offset), f"attempts_only_grow: those of {place} {offset} are forgotten"
            forgotten.discard(offset)


def journal_follows_the_changelog(
    paper: Paper, journals: Iterable[MemoryJournal], changelog_end: Callable[[ChannelName], int]
) -> None:
    """LOG-7: a local cache has what its changelog had up to its position, and nothing more."""
    for journal in journals:
        for place in paper.changelogs:
            _journal_follows(paper, journal, place, changelog_end(paper.names[place]))


def _journal_follows(paper: Paper, journal: MemoryJournal, place: Place, end: int) -> None:
    channel = paper.names[place].in_journals
    position, entries = journal.load(channel)
    if paper.journals_checked.get((id(journal), place)) == (position, len(entries)):
        return
    assert position <= end, f"journal_follows_the_changelog: {channel} is at {position}, the changelog ends at {end}"
    allowed: dict[bytes, set[bytes | None]] = {}
    for offset, key, value in paper.raw_changelogs[place]:
        if offset < position:
            allowed[key] = {value}
        else:
            # It may know more than it says: what it lacks is read again over it, in order.
            allowed.setdefault(key, {None}).add(value)
    for key in sorted((entries.keys() | allowed.keys()) - {CHANGELOG_ID_KEY}):
        assert entries.get(key) in allowed.get(key, ()), (
            f"journal_follows_the_changelog: {channel} at {position} has {entries.get(key)!r} of {key!r}"
        )
    paper.journals_checked[id(journal), place] = (position, len(entries))


ON_PAPER: tuple[Callable[[Paper], None], ...] = (
    nothing_is_lost,
    exactly_one_dead_letter,
    only_what_was_tried_is_dead,
    sends_once_iff_committed,
    attempts_are_forgotten_with_their_message,
)
"""About the paper alone: checked again when it has changed."""


# -- asked when a checkpoint is committed, or an owner begins ------------------------------------------------------


def at_most_one_owner_writes(paper: Paper, place: Place, position: Position, offset: int) -> None:
    """LOG-6: what is committed for a partition comes from its latest owner."""
    writer = paper.writers.get(f"{place}{position.checkpoint_id}")
    assert writer is not None, f"at_most_one_owner_writes: nobody froze {position}"
    owner = paper.current(place)
    assert writer is owner, f"at_most_one_owner_writes: {writer} wrote at {offset}, the owner is {owner}"


def nobody_wrote_after_the_successor_read(paper: Paper, epoch: Epoch) -> None:
    """LOG-6: when a channel opens, everything its changelog has was read."""
    late = [row for row in paper.written[epoch.place] if row[0] >= epoch.read_to]
    assert not late, f"at_most_one_owner_writes: {epoch} read up to {epoch.read_to} and missed {late}"


# -- asked at the end ----------------------------------------------------------------------------------------------


def everything_is_finished(paper: Paper, waiting: Collection[str]) -> None:
    """With nothing going wrong any more, every message comes to its end; `waiting` names who waits for a commit."""
    left = [
        str(message)
        for place, changelog in paper.changelogs.items()
        for message in paper.messages[place].values()
        if not changelog.is_settled(message.offset)
    ]
    assert not left, f"everything_is_finished: {len(left)} messages never come to their end: {left[:8]}"
    told = [commit.name for commit in paper.commits if commit.outcome == "pending"]
    assert not waiting, f"everything_is_finished: {waiting} wait for their commits for ever ({told[:8]})"
