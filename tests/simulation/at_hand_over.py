"""What must hold whenever a living owner's application gets a message: each promise a function.

Where an owner was thrown out and does not know it yet, its application may still get what it had prefetched; nothing
of that can be recorded (see `invariants.at_most_one_owner_writes`).
"""

from __future__ import annotations

from collections.abc import Collection

from jbm_kafka.ports.deliveries import PartitionLease
from tests.simulation.machine import MachineClock
from tests.simulation.names import SELECTORS, colour_of, number_of
from tests.simulation.paper import Epoch, HandOver, Paper
from tests.simulation.views import PaperChangelog


def check(paper: Paper, clock: MachineClock, hand: HandOver) -> None:
    """All of them."""
    place = hand.message.place
    changelog = paper.changelog(place)
    nothing_comes_after_its_end(changelog, hand)
    what_a_branch_has_never_comes(paper, hand)
    one_session_at_a_time(hand)
    unit_in_order(paper, clock, hand)
    individual_has_one_of_a_unit(hand)
    attempts_are_what_was_counted(hand)
    what_may_have_been_seen_is_marked(paper, hand)
    if paper.profile.persists_attempts:
        attempt_recorded_before_handed_over(changelog, hand)
    else:
        reserved_before_handed_over(changelog, hand)
    delays_are_kept(clock, hand)
    not_before_its_time(clock, hand)
    out_of_attempts_never_comes(paper, hand)


def check_acknowledged(paper: Paper, clock: MachineClock, hand: HandOver) -> None:
    """What holds of a message that was acknowledged before it was handed over: no order, but once only."""
    changelog, offset = paper.changelog(hand.message.place), hand.message.offset
    assert offset in hand.epoch.finished, f"acknowledged_on_arrival: {hand.message} is not"
    assert offset not in hand.epoch.ended, f"acknowledged_comes_once: {hand.message} comes again in {hand.epoch}"
    hand.epoch.ended.add(offset)
    what_a_branch_has_never_comes(paper, hand)
    attempts_are_what_was_counted(hand)
    what_may_have_been_seen_is_marked(paper, hand)
    if not changelog.is_settled(offset):  # else it never comes again, whatever the mark says
        assert not paper.profile.persists_attempts, f"recorded_before_handed_over: {hand.message} may come as if new"
        reserved_before_handed_over(changelog, hand)
    delays_are_kept(clock, hand)
    not_before_its_time(clock, hand)
    out_of_attempts_never_comes(paper, hand)


def nothing_comes_after_its_end(changelog: PaperChangelog, hand: HandOver) -> None:
    """Acknowledged, dead-lettered or expired messages are over: STATE-1, LOG-5, SEND-5."""
    epoch, offset = hand.epoch, hand.message.offset
    assert not changelog.is_settled(offset), f"nothing_comes_after_its_end: {hand.message} is settled in the changelog"
    assert offset not in epoch.finished, f"nothing_comes_after_its_end: {hand.message} was finished in {epoch}"
    assert offset not in epoch.hand, f"nothing_comes_after_its_end: {hand.message} is in a hand already"
    assert offset not in epoch.left, f"nothing_comes_after_its_end: {hand.message} was passed over in {epoch}"


def what_a_branch_has_never_comes(paper: Paper, hand: HandOver) -> None:
    """ACK-10: not while nothing is decided, nor after the commit, whether its owner has settled it or not."""
    place, offset = hand.message.place, hand.message.offset
    branch = paper.prepared[place].get(offset)
    assert branch is None, f"what_a_branch_has_never_comes: {hand.message} comes, and {branch and branch.name} has it"
    assert offset not in paper.branched[place], f"what_a_branch_has_never_comes: {hand.message} was committed"


def one_session_at_a_time(hand: HandOver) -> None:
    """UNIT-2, UNIT-3: all unfinished messages of a unit are in one session."""
    if hand.message.unit is None:
        return
    for other in hand.epoch.hand.values():
        if other.message.unit == hand.message.unit:
            assert other.session == hand.session, (
                f"one_session_at_a_time: {other.session} holds {other.message} while {hand.session} gets {hand.message}"
            )


def unit_in_order(paper: Paper, clock: MachineClock, hand: HandOver) -> None:
    """UNIT-1: every earlier message of the unit is over, as far as its owner can know, or in this same hand.

    Or it left behind others that the session holds, for it expired or an operator took it out: then it is passed over
    for good (SEND-5).
    """
    epoch, message = hand.epoch, hand.message
    if message.unit is None:
        return
    changelog = paper.changelog(message.place)
    for earlier in paper.messages[message.place].values():
        if earlier.unit != message.unit or earlier.offset >= message.offset:
            continue
        is_over = (
            earlier.offset in epoch.settled_before
            or earlier.offset in epoch.finished
            or changelog.is_settled(earlier.offset)
            or earlier.offset in paper.branched[message.place]
            or paper.is_removed(epoch, earlier)
        )
        if not is_over and earlier.offset not in epoch.hand:
            has_left = 0 < earlier.expiration_ms <= clock.latest_ms()
            has_left = has_left or paper.is_wished(earlier, "remove", "expire", "dead-letter")
            assert has_left, f"unit_in_order: {message} overtakes {earlier}"
            epoch.left.add(earlier.offset)


def within_its_prefetch(receiver: str, held: int, prefetch: int) -> None:
    """ACK-8: `held` is what one consumer has received and not settled."""
    assert held <= prefetch, f"within_its_prefetch: {receiver} holds {held} of a consumer with a prefetch of {prefetch}"


def individual_has_one_of_a_unit(hand: HandOver) -> None:
    """UNIT-3: INDIVIDUAL holds at most one message of a unit."""
    if not hand.individual or hand.message.unit is None:
        return
    same = [other for other in hand.epoch.hand.values() if other.message.unit == hand.message.unit]
    assert not same, f"individual_has_one_of_a_unit: {hand.message} beside {same[0].message}"


def attempts_are_what_was_counted(hand: HandOver) -> None:
    """REDELIVER-1: what the changelog remembered at the beginning, and one for each counted return since."""
    epoch, offset = hand.epoch, hand.message.offset
    expected = epoch.attempts_before.get(offset, 0) + epoch.counted[offset]
    assert hand.attempts == expected, (
        f"attempts_are_what_was_counted: {hand.message} shows {hand.attempts} attempts, not {expected}"
    )


def what_may_have_been_seen_is_marked(paper: Paper, hand: HandOver) -> None:
    """REDELIVER-1, REDELIVER-7: what any application had before, of whatever owner, comes with JMSRedelivered."""
    offset = hand.message.offset
    for epoch in paper.epochs[hand.message.place] if not hand.redelivered else ():
        assert offset not in epoch.handed, f"what_may_have_been_seen_is_marked: {hand.message} was seen in {epoch}"


def reserved_before_handed_over(changelog: PaperChangelog, hand: HandOver) -> None:
    """`offered_position` is durable before anything beyond it is handed over."""
    assert hand.message.offset < changelog.offered, (
        f"reserved_before_handed_over: {hand.message} is handed over, durable is {changelog.offered}"
    )


def attempt_recorded_before_handed_over(changelog: PaperChangelog, hand: HandOver) -> None:
    """REDELIVER-7, switched on: the attempt is durable before the application sees the message."""
    assert changelog.was_attempted(hand.message.offset), (
        f"attempt_recorded_before_handed_over: the changelog does not know that {hand.message} is handed over"
    )


def delays_are_kept(clock: MachineClock, hand: HandOver) -> None:
    """REDELIVER-2: a nacked message waits its delay, unless somebody set the clock forward."""
    due = hand.epoch.not_before.pop(hand.message.offset, None)
    if due is not None and due[1] == clock.jumps:
        early_ms = due[0] - clock.monotonic_ms()
        assert early_ms <= 0, f"delays_are_kept: {hand.message} is {early_ms} ms early"


def not_before_its_time(clock: MachineClock, hand: HandOver) -> None:
    """SEND-6: by the owner's clock, whatever it was set to."""
    early_ms = hand.message.delivery_time_ms - clock.latest_ms()
    assert early_ms <= 0, f"not_before_its_time: {hand.message} is {early_ms} ms early"


def out_of_attempts_never_comes(paper: Paper, hand: HandOver) -> None:
    """REDELIVER-3: known attempts never reach the limit in an application."""
    limit = paper.profile.max_attempts
    assert limit < 0 or hand.attempts < limit, f"out_of_attempts_never_comes: {hand.message} after {hand.attempts}"


def only_what_it_chooses(hand: HandOver, selector: str | None) -> None:
    """SEL-1: whatever selectors came and went meanwhile."""
    colour = colour_of(number_of(hand.message.name))
    assert colour in SELECTORS[selector], f"only_what_it_chooses: {hand.session} gets {hand.message}, which is {colour}"


def durable_when_told(changelog: PaperChangelog, hand: HandOver) -> None:
    """ACK-9: a blocking acknowledgement returns when it is durable."""
    assert changelog.is_settled(hand.message.offset), f"durable_when_told: {hand.message} is not settled"


def attempts_only_grow(epoch: Epoch, offset: int, before: int, now: int) -> None:
    """REDELIVER-1: over restarts and owners too; told by the changelog."""
    assert now >= before, f"attempts_only_grow: {epoch} forgot attempts of {offset}: {before} became {now}"


def attempts_are_somebodys(epoch: Epoch, offset: int, attempts: int) -> None:
    """REDELIVER-1: what a rebalance takes from a session that lives is no attempt; told by the changelog."""
    most = epoch.attempts_before.get(offset, 0) + epoch.counted[offset]
    assert attempts <= most, f"attempts_are_somebodys: {epoch} remembers {attempts} attempts of {offset}, not {most}"


def told_when_taken(lease: PartitionLease, offset: int, told: Collection[tuple[object, object, int]]) -> None:
    """Of ACK-9: a session hears at once of what is taken from it, before it says anything of it."""
    channel = lease.channel
    assert not lease.is_revoked or (channel.topic, channel.partition, offset) in told, (
        f"told_when_taken: nobody was told that {channel.topic}[{channel.partition}] offset {offset} was taken"
    )
