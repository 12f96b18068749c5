"""The runs of a schedule that are due: every change of its record is decided here.

Whoever decides has read the last record and is the only one to write the next, in one transaction with what is sent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import tzinfo
from itertools import islice, takewhile
from typing import Final

from jbm_kafka.core.cron.occurrences import newest_occurrence, next_occurrence, occurrences
from jbm_kafka.core.cron.schedule import Schedule, SchedulePlan

LATE_MS: Final = 60_000
"""A run that is due for longer was missed: by then somebody would have sent it if anybody had been there."""
AT_ONCE_MAX: Final = 500
"""Runs of one transaction; more missed ones follow in the next."""

ZoneOf = Callable[[str], tzinfo]


@dataclass(frozen=True, slots=True)
class Due:
    """The steps that are to be taken for a schedule."""

    schedule: Schedule
    """Its record from now on."""
    runs: tuple[int, ...] = ()
    """When the runs that are to be sent were due, in order."""


def decide_plan(
    found: Schedule | None, key: tuple[str, str], plan: SchedulePlan, *, by: str, now_ms: int, zone_of: ZoneOf
) -> Due:
    """Have the plan of a deployment that starts now: it wins over the one before.

    A new schedule begins now. What was due by the plan before is settled by that one, so that no change of a line loses
    a run; by the new one it is due from now on.
    """
    if found is None:
        queue, name = key
        new = Schedule(
            queue=queue, name=name, plan=plan, planned_by=by, planned_at_ms=now_ms, done_until_ms=now_ms, runner=by
        )
        return Due(new)
    if found.plan == plan:
        return Due(found)
    due = decide_runs(found, by=by, now_ms=now_ms, zone_of=zone_of)
    if len(due.runs) == AT_ONCE_MAX:  # there may be more by the plan before
        return due
    done_ms = max(due.schedule.done_until_ms, now_ms)
    return Due(replace(due.schedule, plan=plan, planned_by=by, planned_at_ms=now_ms, done_until_ms=done_ms), due.runs)


def decide_runs(found: Schedule, *, by: str, now_ms: int, zone_of: ZoneOf) -> Due:
    """Return the runs that are to be sent now, at most AT_ONCE_MAX, and the schedule's record as it is then.

    Of missed runs the plan's `missed` decides. Of a paused schedule, and where nothing is due, nothing is sent and the
    record stays as it is.
    """
    if found.is_paused:
        return Due(found)
    line, zone, after_ms = found.plan.line, zone_of(found.plan.zone), found.done_until_ms
    if found.plan.missed == "all":
        due = takewhile(lambda at_ms: at_ms <= now_ms, occurrences(line, zone, after_ms))
        runs = tuple(islice(due, AT_ONCE_MAX))
    else:
        newest = newest_occurrence(line, zone, after_ms, now_ms) if now_ms > after_ms else None
        runs = () if newest is None else (newest,)
    if not runs:
        return Due(found)
    if found.plan.missed == "skip" and now_ms - runs[-1] > LATE_MS:
        return Due(replace(found, done_until_ms=runs[-1]))
    return Due(replace(found, done_until_ms=runs[-1], ran_at_ms=runs[-1], runner=by), runs)


def decide_pause(found: Schedule, *, by: str, now_ms: int) -> Schedule:
    """Have no runs from now on; one that is paused stays as it is."""
    return found if found.is_paused else replace(found, paused_by=by, paused_at_ms=now_ms)


def decide_resume(found: Schedule, *, now_ms: int) -> Schedule:
    """Have runs from now on, and none of those that were due during the pause.

    Where a clock was ahead and had runs of a time that is yet to come, this begins anew at the time that it is.
    """
    if not found.is_paused and found.done_until_ms <= now_ms:
        return found
    return replace(found, paused_by="", paused_at_ms=0, done_until_ms=now_ms)


def next_run_ms(found: Schedule, zone_of: ZoneOf) -> int | None:
    """When the next run is due, which may be the past; None: it is paused."""
    if found.is_paused:
        return None
    return next_occurrence(found.plan.line, zone_of(found.plan.zone), found.done_until_ms)
