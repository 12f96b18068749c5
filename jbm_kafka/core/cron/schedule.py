"""The record of a schedule, which all processes read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, get_args

Missed = Literal["skip", "once", "all"]
MISSED_RULES: Final = get_args(Missed)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulePlan:
    """A deployment's plan of a schedule."""

    line: str
    """The line of cron."""
    zone: str
    """The time zone of its clocks, as `Europe/Berlin`."""
    missed: Missed
    """The rule for runs that were due while no worker was there: none of them, the last one, or all."""
    unit: str = ""
    """The unit of order of its messages; empty: none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """One schedule. Its queue and name are the key."""

    queue: str
    name: str
    plan: SchedulePlan
    """The plan of the deployment that came last."""
    planned_by: str
    """The process that said so last."""
    planned_at_ms: int
    """And when."""
    done_until_ms: int
    """Every run that was due until then has run, or was passed over. No clock that goes back makes it less."""
    ran_at_ms: int = 0
    """When the last run was due; 0: there was none."""
    runner: str = ""
    """The process that sent it."""
    paused_by: str = ""
    """The operator; empty: it is not paused."""
    paused_at_ms: int = 0

    @property
    def is_paused(self) -> bool:
        """It has no runs until an operator lets it go on."""
        return bool(self.paused_by)
