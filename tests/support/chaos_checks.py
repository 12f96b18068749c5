"""The judge of a failure test: from topics and the workers' journals to a list of what is wrong, in words.

It knows what was sent and when somebody was killed, and nothing of how the queue works.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from tests.support.chaos_input import Input
from tests.support.chaos_journal import DONE, GOT, NACKING, REFUSED, SETTLED, SETTLING, Step, by_message

CHECKPOINT_SLACK_MS = 100
"""A checkpoint's time is read shortly after the acknowledgements were taken for it."""
MAX_EXAMPLES = 8


@dataclass(frozen=True, slots=True)
class Evidence:
    """One run."""

    sent: Input
    steps: Sequence[Step]
    kills: Mapping[str, int]
    """Monotonic time in ns at which each of the killed workers was gone."""
    events: Sequence[Mapping[str, Any]]
    """jbm.events of the queue."""
    dead_letters: Sequence[tuple[str, int]]
    """(unit, number) of each, read_committed."""
    lag: int
    """Messages between the group's committed offsets and the ends of the queue."""
    excused: Set[tuple[str, int]] = frozenset()
    """What the fault itself deleted or skipped: done or not."""
    again: Set[tuple[str, int]] = frozenset()
    """What the fault itself gave back: done again as if it were new, or not."""


def what_is_wrong(run: Evidence, *, is_blocking: bool = False, has_kills: bool = True) -> list[str]:
    """Empty when every promise was kept. `is_blocking`: acknowledgements are durable when they return."""
    checks: list[Iterable[str]] = [
        lost(run),
        wrong_dead_letters(run),
        out_of_order(run.steps),
        held_by_two(run),
        settled_more_than_once(run.events),
        unjustified_repeats(run, is_blocking=is_blocking) if has_kills else any_repeats(run.steps),
        unflagged_repeats(run.steps),
        refusals(run),
    ]
    found = [line for check in checks for line in _some(check)]
    if run.lag:
        found.append(f"{run.lag} messages are still owed though all workers left in order")
    return found


def lost(run: Evidence) -> Iterator[str]:
    """Sent, and not done."""
    done = {step.message for step in run.steps if step.kind == DONE}
    for unit, number in sorted(run.sent.good - done - run.excused):
        yield f"lost: {unit} number {number} was never done"
    for unit, number in sorted(done - run.sent.good):
        yield f"invented: {unit} number {number} was done and should not be"


def wrong_dead_letters(run: Evidence) -> Iterator[str]:
    """Each poison message is a dead letter once, and nothing else is."""
    found = Counter(run.dead_letters)
    for message in sorted(run.sent.poison | set(found)):
        wanted = int(message in run.sent.poison)
        allowed = {wanted, wanted and int(message not in run.excused), wanted * (1 + (message in run.again))}
        if found[message] not in allowed:
            yield f"dead letter {message}: {found[message]} times, wanted {wanted}"


def out_of_order(steps: Iterable[Step], excused: Set[tuple[str, int]] = frozenset()) -> Iterator[str]:
    """A unit's messages reach applications one after the other; after a loss some again, from there on in order."""
    for kind in (GOT, DONE):
        # A poison message is never done, so completions may jump over one; hand-overs jump over none.
        last: dict[str, Step] = {}
        for step in steps:
            if step.kind != kind:
                continue
            before = last.get(step.unit)
            passed = range(before.number + 1 if before else 0, step.number)
            if sum((step.unit, number) not in excused for number in passed) > (0 if kind == GOT else 1):
                yield f"out of order: {step.unit} {kind} {step.number} by {step.worker} after {before}"
            last[step.unit] = step


def held_by_two(run: Evidence) -> Iterator[str]:
    """UNIT-3: while one worker has messages of a unit in hand, nobody else gets one."""
    holders: dict[str, dict[tuple[str, int], Step]] = defaultdict(dict)
    for step in run.steps:
        if not step.unit:
            continue
        held = holders[step.unit]
        if step.kind == GOT:
            for other in held.values():
                gone_ns = run.kills.get(other.worker)
                if other.worker != step.worker and (gone_ns is None or gone_ns > step.at_ns):
                    yield f"{step.worker} got {step.message} while {other.worker} had {other.message} in hand"
            held[step.message] = step
        elif step.kind in (SETTLING, NACKING, REFUSED):
            held.pop(step.message, None)


def settled_more_than_once(events: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """LOG-5: what one committed checkpoint settled, no later one settles again."""
    seen: dict[tuple[int, int], str] = {}
    for event in events:
        offsets = [o for r in event["acknowledged"] for o in range(r["first"], r["last"] + 1)]
        offsets += [m["offset"] for m in event["messages"] if m["fate"] in ("dead-lettered", "removed", "expired")]
        for offset in offsets:
            place = event["partition"], offset
            if place in seen:
                yield f"offset {place} was settled by checkpoint {seen[place]} and again by {event['checkpoint_id']}"
            seen[place] = event["checkpoint_id"]


def any_repeats(steps: Sequence[Step]) -> Iterator[str]:
    """Without a kill nothing is done twice, and no count grows but by a nack."""
    for message, rows in by_message(steps).items():
        done = [step for step in rows if step.kind == DONE]
        if len(done) > 1:
            yield f"repeated: {message} done by {[step.worker for step in done]}"
        nacks = 0
        for step in rows:
            nacks += step.kind == NACKING
            if step.kind == GOT and (step.delivery_count != nacks + 1 or step.is_redelivered != (nacks > 0)):
                yield (
                    f"{message} came to {step.worker} with count {step.delivery_count}, redelivered "
                    f"{step.is_redelivered}, after {nacks} nacks"
                )


def unjustified_repeats(run: Evidence, *, is_blocking: bool) -> Iterator[str]:
    """ACK-9: done again only what a killed worker had in hand, or acknowledged since its last committed checkpoint."""
    checkpoints_ms: dict[int, list[int]] = defaultdict(list)
    for event in run.events:
        checkpoints_ms[event["partition"]].append(event["at_ms"])
    for message, rows in by_message(run.steps).items():
        done = [step for step in rows if step.kind == DONE]
        for step in done[:-1]:
            if step.worker not in run.kills:
                yield f"repeated: {message} done by {step.worker}, which nobody killed, and again"
                continue
            settled = [s for s in rows if s.kind == SETTLED and s.worker == step.worker and s.at_ns > step.at_ns]
            if not settled:
                continue  # it was in hand
            if is_blocking:
                yield f"repeated: {message} came again though its acknowledgement had returned in {step.worker}"
                continue
            # When the last checkpoint of the partition was frozen that the killed worker committed.
            gone_wall_ms = settled[0].wall_ms + (run.kills[step.worker] - settled[0].at_ns) // 1_000_000
            last_ms = max((at_ms for at_ms in checkpoints_ms[step.partition] if at_ms <= gone_wall_ms), default=0)
            if settled[0].wall_ms < last_ms - CHECKPOINT_SLACK_MS:
                yield (
                    f"repeated: {message} was acknowledged by {step.worker} at {settled[0].wall_ms}, before its "
                    f"checkpoint of {last_ms} that was committed, and came again"
                )


def unflagged_repeats(steps: Iterable[Step], again: Set[tuple[str, int]] = frozenset()) -> Iterator[str]:
    """REDELIVER-1: from the second hand-over on it says so."""
    seen: set[tuple[str, int]] = set()
    for step in steps:
        if step.kind != GOT or step.message in again:
            continue
        if step.message in seen and not (step.is_redelivered and step.delivery_count >= 2):
            yield f"{step.message} came to {step.worker} again as if it were new"
        seen.add(step.message)


def refusals(run: Evidence) -> Iterator[str]:
    """Nobody who was not killed loses what he holds; on an overloaded machine a session timeout may do that."""
    for step in run.steps:
        if step.kind == REFUSED:
            yield f"{step.worker} was refused {step.message}: {step.text}"


def forwarded(sent: Input, copies: Sequence[tuple[str, int]]) -> Iterator[str]:
    """Every input is in the target once, and each unit in order; `copies` in the order of the target."""
    counts = Counter(copies)
    for message in sorted(sent.good | set(counts)):
        if counts[message] != 1:
            yield f"{message} was forwarded {counts[message]} times"
    last: dict[str, int] = {}
    for unit, number in copies:
        if number != last.get(unit, -1) + 1:
            yield f"the target has {unit} {number} after {last.get(unit, -1)}"
        last[unit] = number


def _some(lines: Iterable[str]) -> list[str]:
    found = list(lines)
    return found if len(found) <= MAX_EXAMPLES else [*found[:MAX_EXAMPLES], f"… and {len(found) - MAX_EXAMPLES} more"]
