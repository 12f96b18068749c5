"""What must hold after every step: each promise a function over what the recorder saw.

What must hold whenever an application gets a message is in `at_hand_over`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from jbm_kafka.core.entries import Position
from jbm_kafka.memory.memory_journal import MemoryJournal
from tests.simulation.paper import Epoch, Message, Place
from tests.simulation.views import PaperChangelog

if TYPE_CHECKING:
    from jbm_kafka.sidecar.owned_channel import OwnedChannel
    from tests.simulation.world import World

DLQ, EXPIRED, OUT = "DLQ", "ExpiryQueue", "out"
CHANGELOG_ID_KEY = b"changelog-id"


def nothing_is_lost(world: World) -> None:
    """A message is durably settled only for a reason that somebody gave, and stays settled."""
    for place, changelog in world.recorder.changelogs.items():
        over = world.recorder.paper.over[place]
        for offset in over:
            assert changelog.is_settled(offset), f"nothing_is_lost: {place} {offset} was settled and is not any more"
        for offset, message in world.recorder.paper.messages[place].items():
            if offset not in over and changelog.is_settled(offset):
                assert _reason(world, message), f"nothing_is_lost: {message} is settled and nobody asked for it"
                over.add(offset)


def _reason(world: World, message: Message) -> str:
    """Why a message may be over; empty: it may not."""
    paper, profile = world.recorder.paper, world.profile
    if message.offset in paper.acknowledged[message.place]:
        return "acknowledged"
    if any(paper.was_sent(commit) for commit in paper.committing[message.place, message.offset]):
        return "committed"
    if paper.copies[DLQ][message.name]:
        return "dead-lettered"
    if message.expiration_ms and paper.copies[EXPIRED][message.name]:
        return "expired"
    if not profile.has_dead_letter_address and 0 <= profile.max_attempts <= _tries(world, message):
        return "removed"
    return ""


def _tries(world: World, message: Message) -> int:
    """As many attempts as anybody can have known of."""
    paper, offset = world.recorder.paper, message.offset
    known = [epoch.attempts_before.get(offset, 0) + epoch.counted[offset] for epoch in paper.epochs[message.place]]
    return max([paper.handed[message.place][offset], *known])


def exactly_one_dead_letter(world: World) -> None:
    """REDELIVER-5: one copy, and never both there and in the queue."""
    paper = world.recorder.paper
    for topic in (DLQ, EXPIRED):
        for name, count in paper.copies[topic].items():
            assert count == 1, f"exactly_one_dead_letter: {name} stands {count} times in {topic}"
            message = paper.by_name[name]
            assert world.recorder.changelogs[message.place].is_settled(message.offset), (
                f"exactly_one_dead_letter: {message} is in {topic} and in its queue"
            )


def only_what_was_tried_is_dead(world: World) -> None:
    """REDELIVER-3: a dead letter reached an application as often as the settings ask."""
    if world.profile.persists_attempts:
        return  # a crash then counts what was assigned, whether the application saw it or not
    paper = world.recorder.paper
    for name in paper.copies[DLQ]:
        message = paper.by_name[name]
        tries = paper.handed[message.place][message.offset]
        assert tries >= world.profile.max_attempts, f"only_what_was_tried_is_dead: {message} after {tries}"


def sends_once_iff_committed(world: World) -> None:
    """LOG-5, ACK-7: a commit's sends are there once and all, with its messages settled, or not at all."""
    paper = world.recorder.paper
    for commit in paper.commits:
        counts = {name: paper.copies[queue][name] for name, queue in commit.sends.items()}
        assert len(set(counts.values())) == 1, f"sends_once_iff_committed: {commit.name} is half there: {counts}"
        count = next(iter(counts.values()))
        assert count <= 1, f"sends_once_iff_committed: {commit.name} is there {count} times"
        if commit.outcome == "committed":
            assert count, f"sends_once_iff_committed: {commit.name} was committed, its sends are not there"
        elif commit.outcome == "rolled back":
            assert not count, f"sends_once_iff_committed: {commit.name} was rolled back, its sends are there"
        for hand in commit.hands if count else ():
            changelog = world.recorder.changelogs[hand.message.place]
            assert changelog.is_settled(hand.message.offset), (
                f"sends_once_iff_committed: {commit.name} is there, {hand.message} is not settled"
            )


def offsets_agree(world: World) -> None:
    """LOG-2: the group's committed offset is the changelog's watermark, of the same checkpoint."""
    for (queue, partition), changelog in world.recorder.changelogs.items():
        found = world.cluster.decided_offset(changelog.group, queue, partition)
        position = changelog.position
        if found is None or position is None:
            assert found is None, f"offsets_agree: {queue}[{partition}] committed {found}, the changelog has nothing"
            assert position is None, f"offsets_agree: {queue}[{partition}] has no offset, the changelog {position}"
            continue
        assert (found.metadata, found.position) == (position.checkpoint_id, position.watermark), (
            f"offsets_agree: {queue}[{partition}] committed {found}, the changelog says {position}"
        )


def replay_equals_live(world: World) -> None:
    """What the changelog tells is the durable part of a living channel that has nothing to record."""
    for node in world.nodes:
        for lane in node.lanes() if node.is_alive else ():
            for channel in lane.data.channels.values():
                if not channel.needs_checkpoint and channel.freeze is None and world.is_live(node, channel):
                    _replay_equals(world, (channel.topic, channel.partition), channel)


def _replay_equals(world: World, place: Place, channel: OwnedChannel) -> None:
    changelog, state = world.recorder.changelogs[place], channel.state
    name = f"replay_equals_live: {place[0]}[{place[1]}]"
    assert changelog.watermark == state.watermark, f"{name}: watermark {changelog.watermark}, live {state.watermark}"
    if changelog.position is not None:
        assert changelog.position.fetched == state.end_position, (
            f"{name}: {changelog.position}, live {state.end_position}"
        )
        # On its way out it recorded what was really handed over, and hands over no more.
        assert channel.is_closing or changelog.offered == state.offered_position, (
            f"{name}: {changelog.position}, live {state.offered_position}"
        )
    epoch = world.recorder.epoch_of[channel]
    seen = (changelog.version, len(state.owed))
    rows = world.recorder.paper.messages[place].items() if epoch.compared != seen else ()
    epoch.compared = seen
    for offset, message in rows:
        if offset < state.end_position:
            owed = offset in state.owed
            assert owed != changelog.is_settled(offset), f"{name}: live {owed=} of {message}, the changelog otherwise"
    remembered = {o: (h.attempts, h.unit) for o, h in changelog.held.items() if not changelog.is_settled(o)}
    live = {o: (past.attempts, past.unit) for o, past in state.past.items()}
    assert remembered == live, f"{name}: remembers {remembered}, live {live}"


def attempts_are_forgotten_with_their_message(world: World) -> None:
    """REDELIVER-1: a changelog forgets attempts only of what is over."""
    for place, changelog in world.recorder.changelogs.items():
        forgotten = world.recorder.paper.forgotten[place]
        for offset in list(forgotten):
            if offset not in changelog.held:
                assert changelog.is_settled(offset), f"attempts_only_grow: those of {place} {offset} are forgotten"
            forgotten.discard(offset)


def journal_follows_the_changelog(world: World) -> None:
    """LOG-7: a local cache has what its changelog had up to its position, and nothing more."""
    for machine in world.machines:
        for place, changelog in world.recorder.changelogs.items():
            _journal_follows(world, machine.journal, place, changelog)


def _journal_follows(world: World, journal: MemoryJournal, place: Place, changelog: PaperChangelog) -> None:
    channel = f"{changelog.group}|{place[0]}|{place[1]}"
    position, entries = journal.load(channel)
    if world.recorder.paper.journals_checked.get((id(journal), place)) == (position, len(entries)):
        return
    end = world.cluster.log(world.changelog_of(place[0]), place[1]).end
    assert position <= end, f"journal_follows_the_changelog: {channel} is at {position}, the changelog ends at {end}"
    allowed: dict[bytes, set[bytes | None]] = {}
    for offset, key, value in world.recorder.raw_changelogs[place]:
        if offset < position:
            allowed[key] = {value}
        else:
            # It may know more than it says: what it lacks is read again over it, in order.
            allowed.setdefault(key, {None}).add(value)
    for key in sorted((entries.keys() | allowed.keys()) - {CHANGELOG_ID_KEY}):
        assert entries.get(key) in allowed.get(key, ()), (
            f"journal_follows_the_changelog: {channel} at {position} has {entries.get(key)!r} of {key!r}"
        )
    world.recorder.paper.journals_checked[id(journal), place] = (position, len(entries))


ON_PAPER: tuple[Callable[[World], None], ...] = (
    nothing_is_lost,
    exactly_one_dead_letter,
    only_what_was_tried_is_dead,
    sends_once_iff_committed,
    offsets_agree,
    attempts_are_forgotten_with_their_message,
)
"""About the paper alone: checked again when it has changed."""
LIVE: tuple[Callable[[World], None], ...] = (
    replay_equals_live,
    journal_follows_the_changelog,
)


# -- asked when a checkpoint is committed, or an owner begins ------------------------------------------------------


def at_most_one_owner_writes(world: World, place: Place, position: Position, offset: int) -> None:
    """LOG-6: what is committed for a partition comes from its latest owner."""
    writer = world.recorder.paper.writers.get(f"{place}{position.checkpoint_id}")
    assert writer is not None, f"at_most_one_owner_writes: nobody froze {position}"
    owner = world.recorder.paper.current(place)
    assert writer is owner, f"at_most_one_owner_writes: {writer} wrote at {offset}, the owner is {owner}"


def nobody_wrote_after_the_successor_read(world: World, epoch: Epoch) -> None:
    """LOG-6: when a channel opens, everything its changelog has was read."""
    late = [row for row in world.recorder.paper.written[epoch.place] if row[0] >= epoch.read_to]
    assert not late, f"at_most_one_owner_writes: {epoch} read up to {epoch.read_to} and missed {late}"


# -- asked at the end ----------------------------------------------------------------------------------------------


def everything_is_finished(world: World) -> None:
    """With nothing going wrong any more, every message comes to its end."""
    left = [
        str(message)
        for place, changelog in world.recorder.changelogs.items()
        for message in world.recorder.paper.messages[place].values()
        if not changelog.is_settled(message.offset)
    ]
    assert not left, f"everything_is_finished: {len(left)} messages never come to their end: {left[:8]}"
    told = [commit.name for commit in world.recorder.paper.commits if commit.outcome == "pending"]
    waiting = [r.name for node in world.nodes if node.is_alive for r in node.receivers if r.commit_under_way]
    assert not waiting, f"everything_is_finished: {waiting} wait for their commits for ever ({told[:8]})"
