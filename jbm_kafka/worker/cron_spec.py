"""A schedule as a worker's program says it, checked before anything connects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jbm_kafka.client.schedule_runs import zone_of
from jbm_kafka.core.cron.occurrences import checked_line
from jbm_kafka.core.cron.schedule import MISSED_RULES, SchedulePlan
from jbm_kafka.core.destination import Queue
from jbm_kafka.core.wrong_values import wrong_value
from jbm_kafka.jms.sends.routing import wrong_unit


@dataclass(frozen=True, slots=True)
class CronSpec:
    """One schedule of a worker."""

    queue: Queue
    name: str
    plan: SchedulePlan


def checked_plan(line: object, tz: str, missed: Any, unit_of_order: Any) -> SchedulePlan:
    """The plan, if there can be such.

    Raises:
        InvalidSettingError, OrderError: an argument that cannot be.
    """
    zone_of(tz)
    if missed not in MISSED_RULES:
        raise wrong_value("missed", missed, "it is 'once', 'skip' or 'all'")
    if unit_of_order is not None and (not isinstance(unit_of_order, str) or not unit_of_order):
        raise wrong_unit(unit_of_order)
    return SchedulePlan(line=checked_line("line", line), zone=tz, missed=missed, unit=unit_of_order or "")
