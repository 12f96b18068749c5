"""Records of `jbm.registry` about schedules: key `schedule|<queue>|<name>`, value JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from jbm_kafka.core.cron.occurrences import checked_line
from jbm_kafka.core.cron.schedule import Schedule, SchedulePlan
from jbm_kafka.core.jms_errors import CorruptRecordError

_SCHEDULE = "schedule|"
_OWN = [each.name for each in fields(Schedule) if each.name not in ("queue", "name", "plan")]
_OF_PLAN = [each.name for each in fields(SchedulePlan)]


def schedule_key(queue: str, name: str) -> bytes:
    """Return the key of the schedule's record."""
    return f"{_SCHEDULE}{queue}|{name}".encode()


def encode_schedule(schedule: Schedule) -> bytes:
    """The value: the plan, and what has become of it, side by side."""
    said = asdict(schedule)
    plan = said.pop("plan")
    del said["queue"], said["name"]
    return json.dumps({**plan, **said}, ensure_ascii=False, separators=(",", ":")).encode()


def decode_schedule(key: bytes, value: bytes) -> Schedule:
    """The schedule of a record. What a later version says besides is passed over.

    Raises:
        CorruptRecordError: it is none.
    """
    _, queue, name = key.decode(errors="replace").split("|", 2)
    try:
        said: Mapping[str, Any] = json.loads(value)
        plan = SchedulePlan(**{each: said[each] for each in _OF_PLAN})
        checked_line("line", plan.line)
        found = Schedule(queue=queue, name=name, plan=plan, **{each: said[each] for each in _OWN})
        if not isinstance(found.done_until_ms, int) or not isinstance(plan.zone, str):
            raise TypeError(f"done_until_ms is {found.done_until_ms!r}, and zone {plan.zone!r}")
        return found
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptRecordError(f"schedule {name!r} of queue {queue!r}: its record cannot be read: {error}") from None


def schedules_in(values: Mapping[bytes, bytes]) -> list[Schedule]:
    """Return those of the registry, by queue and name. One that cannot be read is left out: it has no runs either."""
    found: list[Schedule] = []
    for key, value in sorted(values.items()):
        if key.startswith(_SCHEDULE.encode()):
            try:
                found.append(decode_schedule(key, value))
            except CorruptRecordError:
                continue
    return found
