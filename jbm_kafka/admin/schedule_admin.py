"""Schedules that workers have: which there are, and pausing, running and forgetting one (decision 114)."""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable
from dataclasses import dataclass

from jbm_kafka.admin.cluster.admin_arguments import queue_of
from jbm_kafka.admin.cluster.admin_core import AdminCore
from jbm_kafka.admin.pausing import operator_name
from jbm_kafka.client.schedule_runs import message_of_run, zone_of
from jbm_kafka.core.cron.due import Due, decide_pause, decide_resume, next_run_ms
from jbm_kafka.core.cron.schedule import Schedule
from jbm_kafka.core.destination import Queue
from jbm_kafka.core.jms_errors import InvalidDestinationError, InvalidSettingError
from jbm_kafka.core.wrong_values import shown
from jbm_kafka.ports.steps import pause_thread
from jbm_kafka.registry.schedules import Schedules


@dataclass(frozen=True, slots=True)
class ListedSchedule:
    """One schedule as it is recorded; instants are ms since 1970, and 0 where there was none."""

    queue: str
    """Where its messages go; with the name it is the key."""
    name: str
    """The name of the function."""
    line: str
    """The line of cron."""
    zone: str
    """The time zone of its clocks."""
    missed: str
    """The rule for runs that were due while no worker was there."""
    unit: str
    """The unit of its messages; empty: none."""
    planned_by: str
    """The process whose line this is."""
    planned_at_ms: int
    """Since when it holds."""
    ran_at_ms: int
    """When the last run was due."""
    runner: str
    """The process that sent it."""
    paused_by: str
    """The operator; empty: it is not paused."""
    paused_at_ms: int
    """Since when it is paused."""
    next_at_ms: int | None
    """When the next run is due, in the past where no worker is there; None: it is paused, or its time zone is unknown
    here."""


class ScheduleAdmin:
    """Looks up schedules, and changes them. Any thread."""

    def __init__(self, core: AdminCore) -> None:
        self._core = core
        self._records = Schedules(
            core.kafka,
            core.registry.log,
            core.namespace,
            core.cluster.clock,
            route=lambda records: None,  # it writes none
            pause=pause_thread,
            chance=random.random,
        )

    def schedules(self) -> list[ListedSchedule]:
        """All that are recorded."""
        with self._core.asking("list schedules"):
            self._core.registry.refresh()
            return [_listed(each) for each in self._records.all()]

    def pause(self, queue: Queue | str, name: str, by: str | None) -> ListedSchedule:
        """Have no runs."""
        who = operator_name(by)
        return self._change(
            "pause", queue, name, lambda found: decide_pause(found, by=who, now_ms=self._core.cluster.clock.now_ms())
        )

    def resume(self, queue: Queue | str, name: str) -> ListedSchedule:
        """Have runs again."""
        return self._change(
            "resume", queue, name, lambda found: decide_resume(found, now_ms=self._core.cluster.clock.now_ms())
        )

    def remove(self, queue: Queue | str, name: str) -> ListedSchedule:
        """Forget it."""
        return self._change("remove", queue, name, lambda found: None)

    def run(self, queue: Queue | str, name: str) -> ListedSchedule:
        """Send the message of one run more."""
        with self._core.asking(f"run schedule {shown(name)}"):
            to = queue_of(queue)
            self._core.registry.refresh()
            found = self._records.of(to.name, name)
            if found is None:
                raise self._missing(to, name)
            message = message_of_run(found, self._core.cluster.clock.now_ms(), f"{secrets.token_hex(6)}:")
        with self._core.connections.open() as connection, connection.create_session() as session:
            session.create_producer(to).send(**message)
        return _listed(found)

    def _change(
        self, verb: str, queue: Queue | str, name: str, changed: Callable[[Schedule], Schedule | None]
    ) -> ListedSchedule:
        with self._core.asking(f"{verb} schedule {shown(name)}"):
            to, seen = queue_of(queue), list[Schedule]()

            def decide(found: Schedule | None) -> Due | None:
                seen[:] = [] if found is None else [found]
                after = None if found is None else changed(found)
                return None if after is None else Due(after)

            after = self._records.change(to.name, name, decide, lambda due: ())
            if not seen and after is None:
                raise self._missing(to, name)
            return _listed(after or seen[0])

    def _missing(self, queue: Queue, name: object) -> InvalidDestinationError:
        known = ", ".join(shown(each.name) for each in self._records.all() if each.queue == queue.name) or "none"
        return InvalidDestinationError(f"{queue} has no schedule {shown(name)}; there are: {known}")


def _listed(schedule: Schedule) -> ListedSchedule:
    try:
        next_at_ms = next_run_ms(schedule, zone_of)
    except InvalidSettingError:
        next_at_ms = None
    plan = schedule.plan
    return ListedSchedule(
        queue=schedule.queue,
        name=schedule.name,
        line=plan.line,
        zone=plan.zone,
        missed=plan.missed,
        unit=plan.unit,
        planned_by=schedule.planned_by,
        planned_at_ms=schedule.planned_at_ms,
        ran_at_ms=schedule.ran_at_ms,
        runner=schedule.runner,
        paused_by=schedule.paused_by,
        paused_at_ms=schedule.paused_at_ms,
        next_at_ms=next_at_ms,
    )
