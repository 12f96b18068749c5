"""One message's life in words: where it was, and what happened to it there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from pydantic import BaseModel

from jbm_kafka.admin import LifeHop, MessageLife
from jbm_kafka.console.frame.rendering import lapse
from jbm_kafka.console.frame.source_name import SourceName
from jbm_kafka.core.channel.message_past import PastStep, StepKind
from jbm_kafka.core.destination import Topic

Weight = Literal["", "good", "warn", "bad"]


class ShownStep(BaseModel):
    """One thing that happened."""

    at_ms: int
    after_ms: int | None
    """Since the step before; None: nothing is known to be before it."""
    kind: str
    title: str
    details: Sequence[str]
    weight: Weight


class ShownHop(BaseModel):
    """A place where it was, or is."""

    source: SourceName
    partition: int
    offset: int
    at: str
    """The same as one text, for addresses."""
    came: str
    arrived_at_ms: int | None
    is_in_log: bool
    state: str
    due_at_ms: int
    attempts: int
    last_error: str | None
    """Why its latest attempt failed, while it waits for another."""
    ended_by: str | None
    """The operator that ended it here by the console."""
    weight: Weight
    steps: Sequence[ShownStep]


class ShownLife(BaseModel):
    """From where it was sent first to where it is."""

    message_id: str
    unit: str | None
    sent_at_ms: int | None
    hops: Sequence[ShownHop]
    notes: Sequence[str]
    hidden: int
    """Places that the viewer may not look at."""


_CAME = {
    "sent": "Sent here",
    "dead-lettered": "Came here as a dead letter",
    "expired": "Came here when it had expired",
    "moved": "Moved here by an operator",
    "sent again": "Sent here again, out of the dead letters",
    "edited": "Sent here as a changed copy of a dead letter",
}
_WEIGHTS: dict[StepKind, Weight] = {
    StepKind.ACKNOWLEDGED: "good",
    StepKind.RETURNED: "warn",
    StepKind.LOST_ATTEMPT: "warn",
    StepKind.ON_HOLD: "bad",
    StepKind.DEAD_LETTERED: "bad",
    StepKind.EXPIRED: "bad",
    StepKind.REMOVED: "bad",
    StepKind.SKIPPED: "bad",
}
_STATES: dict[str, Weight] = {"on hold": "bad", "expired": "warn", "delayed": "warn"}


def shown_life(life: MessageLife, hops: Sequence[LifeHop], hidden: int) -> ShownLife:
    """The life in words; `hops`: of its places those that may be looked at."""
    return ShownLife(
        message_id=life.message_id,
        unit=life.unit,
        sent_at_ms=life.sent_at_ms,
        hops=[_hop(each) for each in hops],
        notes=life.notes,
        hidden=hidden,
    )


def _hop(hop: LifeHop) -> ShownHop:
    return ShownHop(
        source=_source(hop),
        partition=hop.partition,
        offset=hop.offset,
        at=f"{hop.partition}.{hop.offset}",
        came=_CAME[hop.came],
        arrived_at_ms=hop.arrived_at_ms,
        is_in_log=hop.is_in_log,
        state=hop.state,
        due_at_ms=hop.due_at_ms,
        attempts=hop.attempts,
        last_error=hop.last_error,
        ended_by=hop.ended_by,
        weight=_STATES.get(hop.state, ""),
        steps=[*_steps(hop)],
    )


def _steps(hop: LifeHop) -> Iterator[ShownStep]:
    before_ms = hop.arrived_at_ms
    for step in hop.past.steps:
        details = [*_details(step)]
        if hop.ended_by is not None and step is hop.past.end:
            details.append(f"by {hop.ended_by}, in the console")
        yield ShownStep(
            at_ms=step.at_ms,
            after_ms=None if before_ms is None else max(step.at_ms - before_ms, 0),
            kind=step.kind.value,
            title=_title(step),
            details=details,
            weight=_WEIGHTS.get(step.kind, ""),
        )
        before_ms = step.at_ms


def _source(hop: LifeHop) -> SourceName:
    if not isinstance(hop.destination, Topic) or hop.subscription is None:
        return SourceName(name=hop.destination.name)
    return SourceName.named(hop.destination.name, hop.subscription)


def _title(step: PastStep) -> str:
    match step.kind:
        case StepKind.HANDED:
            return f"Handed over, attempt {step.attempts}"
        case StepKind.LOST_ATTEMPT:
            counted = "An attempt" if step.attempts == 1 else f"{step.attempts} attempts by now"
            return f"{counted} ended without a record: the process that had it died"
        case StepKind.RETURNED:
            return "Came back" + _count(step)
        case StepKind.ON_HOLD:
            return "Put on hold for an operator" + _count(step)
        case StepKind.ACKNOWLEDGED:
            return "Acknowledged: done"
        case StepKind.DEAD_LETTERED:
            return "Given up" + _count(step)
        case StepKind.EXPIRED:
            return "Expired"
        case StepKind.REMOVED:
            return "Removed, without a copy"
        case StepKind.MOVED:
            return f"Moved to {step.target}"
        case StepKind.DUPLICATE:
            return "Passed over: its duplicate id was known"
        case StepKind.SKIPPED:
            return "Skipped"


def _count(step: PastStep) -> str:
    if not step.attempts:
        return ", uncounted"
    most = step.max_delivery_attempts
    of = f" of {most}" if most is not None and most > 0 else ""
    return f" after attempt {step.attempts}{of}"


def _details(step: PastStep) -> Iterator[str]:
    if step.session is not None:
        yield f"to session {step.session}, which acknowledges in mode {step.mode}"
    if step.reason and step.reason != "returned":
        yield f"because: {step.reason}"
    if step.kind in (StepKind.DEAD_LETTERED, StepKind.EXPIRED):
        yield f"its copy went to {step.target}" if step.target else "nowhere is a copy: no address was set"
    if step.kind is StepKind.RETURNED:
        yield f"due again {lapse(step.delay_ms)} later" if step.delay_ms else "due again at once"
