"""The messages of a schedule's runs, and the time zones that schedules go by."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from jbm_kafka.core.cron.schedule import Schedule
from jbm_kafka.core.wrong_values import wrong_type, wrong_value

NAME_PROPERTY: Final = "jbm_task"
"""A message's property: the function of its queue that it is for."""
DUE_PROPERTY: Final = "jbm_due"
"""A property of a run's message: when it was due, by the clocks of its time zone."""


def zone_of(name: str) -> tzinfo:
    """Return the time zone of that name, as `Europe/Berlin`.

    Raises:
        InvalidSettingError: this machine knows none.
    """
    if not isinstance(name, str):
        raise wrong_type("tz", name, "it is the name of a time zone, as 'Europe/Berlin'")
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        rule = "this machine knows no time zone of that name; it is one as 'Europe/Berlin' (pip install tzdata has all)"
        raise wrong_value("tz", name, rule) from None


def message_of_run(schedule: Schedule, due_ms: int, kind: str = "") -> Mapping[str, Any]:
    """Return the arguments of a producer's `send` for the message of a run; `kind` marks one beside the schedule's own.

    Its duplicate id names the run. It is the second guard: the first is the transaction with the schedule's record.
    """
    due = datetime.fromtimestamp(due_ms / 1000, UTC).astimezone(zone_of(schedule.plan.zone)).isoformat()
    unit = {"unit_of_order": schedule.plan.unit} if schedule.plan.unit else {}
    return {
        "json": due,
        "properties": {NAME_PROPERTY: schedule.name, DUE_PROPERTY: due},
        "duplicate_id": f"schedule:{schedule.name}:{kind}{due_ms}",
        **unit,
    }
