"""The past of one message as the events of checkpoints tell it, step by step: a fold, pure.

Events are the only record of what is settled: the changelog forgets a message with its acknowledgement. They stand in
the order of checkpoints; between hand-overs and what came of them attempts decide, and the clocks that stamped them.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from jbm_kafka.core.channel.entries import ChannelEvents, MessageEvent, MessageFate
from jbm_kafka.core.channel.redelivery import FOREVER_MS

_SKIPPED = re.compile(r"offsets (\d+) to (\d+)")
"""How the reason of what was skipped begins: its event names the first offset only."""
SKEW_MS = 50
"""An owner and an application stamp what they do by clocks of one process, each at its own moment."""
SURE_MS = 5_000
"""Moments of one process that are further apart are not mistaken for each other."""


class StepKind(Enum):
    """A step in a message's life; the value is how programs read it."""

    HANDED = "handed"
    """An application was given it. Told only where `record_deliveries` is set."""
    LOST_ATTEMPT = "lost-attempt"
    """Attempts were counted that nobody wrote down: the process that had it ended without a checkpoint."""
    RETURNED = "returned"
    """It came back, and is due at once or at a time."""
    ON_HOLD = "on-hold"
    """It came back and waits for an operator."""
    ACKNOWLEDGED = "acknowledged"
    """It is done. Final."""
    DEAD_LETTERED = "dead-lettered"
    """It was given up, with a copy in `target`. Final."""
    EXPIRED = "expired"
    """Its time to live ended. Final."""
    REMOVED = "removed"
    """It was given up without a copy. Final."""
    MOVED = "moved"
    """An operator moved it to `target`. Final."""
    DUPLICATE = "duplicate"
    """It was settled unseen: its duplicate id was known. Final."""
    SKIPPED = "skipped"
    """The group's offset was set past it, or the log lost it. Final."""


FINAL = frozenset(StepKind) - {StepKind.HANDED, StepKind.LOST_ATTEMPT, StepKind.RETURNED, StepKind.ON_HOLD}
"""After one of these the message is settled."""

_OF_FATE = {fate: StepKind(fate.value) for fate in MessageFate}


@dataclass(frozen=True, slots=True)
class PastStep:
    """One thing that happened to a message."""

    kind: StepKind
    """The kind of the step."""
    at_ms: int
    """When, by the clock of the process that did it."""
    attempts: int | None = None
    """The number of its attempt where it was handed over, else how many had failed by then. None: not told."""
    session: str | None = None
    """The session that was given it, where it was handed over; None: another step."""
    mode: str | None = None
    """How that session acknowledges, as in `AUTO`."""
    due_at_ms: int | None = None
    """The time before which a returned message is not due; 0: at once. None: another step."""
    delay_ms: int | None = None
    """The delay that made it."""
    target: str | None = None
    """Where a copy went, as in `queue:DLQ`."""
    reason: str = ""
    """Why, for people."""
    max_delivery_attempts: int | None = None
    """That setting when it was decided; -1: unlimited."""
    checkpoint_id: str = ""
    """The checkpoint that recorded it."""


@dataclass(frozen=True, slots=True)
class MessagePlace:
    """One message of one queue or subscription."""

    group: str
    """The consumer group of the queue or subscription."""
    topic: str
    """The Kafka topic."""
    topic_id: str
    """As in `Position`: the topic's Kafka id; of a subscription a slash and its incarnation follow."""
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Past:
    """All that events tell of one message of one queue or subscription."""

    steps: tuple[PastStep, ...] = ()
    """In the order in which they happened."""

    @property
    def end(self) -> PastStep | None:
        """The step that settled it, the last one if there are several; None: none is recorded."""
        return next((step for step in reversed(self.steps) if step.kind in FINAL), None)

    @property
    def tells_deliveries(self) -> bool:
        """Nothing is known to have been handed over without being told to whom: `record_deliveries` was set."""
        handed = False
        for step in self.steps:
            if step.kind is StepKind.HANDED:
                handed = True
            elif step.kind in (StepKind.RETURNED, StepKind.ON_HOLD, StepKind.ACKNOWLEDGED):
                if not handed:
                    return False
                handed = step.kind is StepKind.ACKNOWLEDGED
        return True


def past_of(place: MessagePlace, events: Iterable[ChannelEvents]) -> Past:
    """Return what these events, in the order of their records, tell of the message."""
    steps = [
        step for each in events if _is_of(place, each) for step in sorted(_steps(place.offset, each), key=_is_final)
    ]
    return Past(tuple(_with_lost(_in_turn(steps))))


def _is_of(place: MessagePlace, events: ChannelEvents) -> bool:
    """Versions before the field tell no topic's id: those may be of a topic of this name that was made anew."""
    return (
        events.group == place.group
        and events.topic == place.topic
        and events.partition == place.partition
        and events.topic_id in (None, place.topic_id)
    )


def _steps(offset: int, events: ChannelEvents) -> Iterator[PastStep]:
    for run in events.deliveries:
        if run.first <= offset < run.first + run.count:
            yield PastStep(
                StepKind.HANDED,
                run.at_ms,
                attempts=run.attempt,
                session=run.session,
                mode=run.mode,
                checkpoint_id=events.checkpoint_id,
            )
    for event in events.messages:
        if _is_about(offset, event):
            yield _step(event, events)
    if any(each.first <= offset <= each.last for each in events.acknowledged):
        yield PastStep(StepKind.ACKNOWLEDGED, events.at_ms, checkpoint_id=events.checkpoint_id)


def _is_about(offset: int, event: MessageEvent) -> bool:
    if event.fate is MessageFate.SKIPPED and (found := _SKIPPED.match(event.reason)):
        return int(found[1]) <= offset <= int(found[2])
    return event.offset == offset


def _step(event: MessageEvent, events: ChannelEvents) -> PastStep:
    is_on_hold = event.fate is MessageFate.RETURNED and (event.due_at_ms or 0) >= FOREVER_MS
    return PastStep(
        StepKind.ON_HOLD if is_on_hold else _OF_FATE[event.fate],
        events.at_ms if event.at_ms is None else event.at_ms,
        attempts=event.attempts,
        due_at_ms=event.due_at_ms,
        delay_ms=event.delay_ms,
        target=event.target,
        reason=event.reason,
        max_delivery_attempts=event.max_delivery_attempts,
        checkpoint_id=events.checkpoint_id,
    )


def _in_turn(steps: Sequence[PastStep]) -> Iterator[PastStep]:
    """The steps in the order in which they happened.

    Hand-overs and verdicts are each in theirs; between them the clocks may differ a little, and a hand-over may be told
    by a later checkpoint than the return that ended it.
    """
    handed = deque(step for step in steps if step.kind is StepKind.HANDED)
    others = deque(step for step in steps if step.kind is not StepKind.HANDED)
    is_in_hand = False
    while handed and others:
        is_in_hand = _comes_first(handed[0], others[0], is_in_hand=is_in_hand)
        yield handed.popleft() if is_in_hand else others.popleft()
    yield from handed
    yield from others


def _comes_first(handed: PastStep, verdict: PastStep, *, is_in_hand: bool) -> bool:
    """Return True if the hand-over came before the verdict.

    The attempts tell, but where a return may be an uncounted one of this very hand-over, or the counted one that it
    followed: then a message that nobody has is handed over next, and one that somebody has comes back, unless the times
    say otherwise. Long after a verdict attempts tell nothing: somebody may have reset the group's offset.
    """
    lead_ms = handed.at_ms - verdict.at_ms
    if _is_final(verdict):
        return lead_ms <= SKEW_MS
    ahead = (handed.attempts or 0) - (verdict.attempts or 0)
    if ahead != 1:
        return ahead < 1 and lead_ms <= SURE_MS
    return lead_ms < -SKEW_MS if is_in_hand else lead_ms <= SKEW_MS


def _is_final(step: PastStep) -> bool:
    return step.kind in FINAL


def _with_lost(steps: Iterable[PastStep]) -> Iterator[PastStep]:
    """With a step of its own where more attempts are counted than were told."""
    known = 0
    for step in steps:
        told = _counted_before(step)
        if told is not None and told > known:
            yield PastStep(StepKind.LOST_ATTEMPT, step.at_ms, attempts=told)
        known = max(known, told or 0, 0 if step.kind is StepKind.HANDED else step.attempts or 0)
        yield step


def _counted_before(step: PastStep) -> int | None:
    """How many attempts had failed before the one that the step is about; None: it is about none."""
    if step.attempts is None:
        return None
    if step.kind in (StepKind.HANDED, StepKind.RETURNED, StepKind.ON_HOLD):
        return step.attempts - 1
    return None
