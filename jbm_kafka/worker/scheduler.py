"""Sends the runs of a worker's schedules when they are due: one of all workers does, whoever comes first.

Decision 114 says why no run is sent twice, and none is lost.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Sequence

from jbm_kafka.client.schedule_runs import message_of_run, zone_of
from jbm_kafka.core.channel.process_names import process_name
from jbm_kafka.core.channel.redelivery import FOREVER_MS
from jbm_kafka.core.cron.due import Due, decide_plan, decide_runs, next_run_ms
from jbm_kafka.core.cron.schedule import Schedule, SchedulePlan
from jbm_kafka.core.jms_errors import IllegalStateError, JMSError
from jbm_kafka.jms.base.modes import AcknowledgeMode
from jbm_kafka.jms.connection import Connection, provider_of
from jbm_kafka.ports import KafkaClientError, Outgoing
from jbm_kafka.ports.client_errors import raised_as_jms_errors
from jbm_kafka.ports.schedule_records import ScheduleRecords
from jbm_kafka.worker.cron_spec import CronSpec

log = logging.getLogger(__name__)

LOOK_S = 0.5
"""So often it looks at what others have recorded, and at the clock, which may be set at any time."""
OTHERS_MS = 2_000
"""So long the other workers leave a run that is due to the one that sent the last: they would only fence each other."""
AHEAD_MS = 60_000
"""So far ahead of our clock a run of another's is no difference between clocks any more, but a fault that is told."""


class Scheduler:
    """The schedules of one running worker."""

    def __init__(self, connection: Connection, specs: Sequence[CronSpec]) -> None:
        """Record the plans of the worker's program; from now on they hold, whatever others said before.

        Raises:
            IllegalStateError: the connection goes over AMQP, and has no schedules.
            JMSError: they cannot be recorded, or a queue cannot be used.
        """
        provider = provider_of(connection)
        records = getattr(provider, "schedules", None)
        if records is None:
            raise IllegalStateError(
                f"schedules are recorded in Kafka, and {connection._core.defaults.url} goes through AMQP: run this "
                f"worker with the address of the Kafka brokers"
            )
        self._records: ScheduleRecords = records
        self._clock = provider.clock
        self._connection = connection
        self._specs = list(specs)
        self._by = f"{process_name(socket.gethostname(), os.getpid())}, {connection._core.connection_id}"
        self._session = connection.create_session(AcknowledgeMode.TRANSACTED)
        """Only makes records of messages: its own transactions have none."""
        self._producer = self._session.create_producer()
        self._lock = threading.RLock()
        self._plans: dict[tuple[str, str], SchedulePlan] = {}
        """As recorded when it was looked at last, so that another deployment's is told once."""
        self._told: set[tuple[str, str]] = set()
        """Schedules that are ahead of our clock."""
        self._wake = threading.Event()
        self._is_over = False
        self._thread = threading.Thread(target=self._run, name="jbm-schedules", daemon=True)
        for spec in self._specs:
            provider.ensure(spec.queue)
            with raised_as_jms_errors(f"record schedule {spec.name!r} of {spec.queue}"):
                self._plan(spec)

    def start(self) -> None:
        """Send what is due from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Send nothing more; returns when what is under way has ended, or nobody answers."""
        self._is_over = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(LOOK_S * 10)

    def look(self, *, at_once: bool = False) -> int:
        """Send what is due; when the next run is, in ms since 1970. `at_once`: leave none to another worker.

        Raises:
            JMSError: it could not be read or recorded.
        """
        with self._lock:
            return min((self._look(spec, at_once=at_once) for spec in self._specs), default=FOREVER_MS)

    def _run(self) -> None:
        failed = ""
        while not self._is_over:
            due_ms = FOREVER_MS
            try:
                due_ms = self.look()
                if failed:
                    log.info("schedules: they go on")
                    self._connection._core.hindrances.end(self)
                failed = ""
            except Exception as error:
                if str(error) != failed and not self._is_over:
                    failed = str(error)
                    of_ours = None if isinstance(error, JMSError) else error
                    log.warning("schedules: nothing is sent: %s; tried again", failed, exc_info=of_ours)
                    self._connection._core.hindrances.begin(self, f"schedules: nothing is sent: {failed}")
            left_s = (due_ms - self._clock.now_ms()) / 1000
            self._wake.wait(min(LOOK_S, left_s) if left_s > 0 else LOOK_S)

    def _plan(self, spec: CronSpec) -> None:
        def decide(found: Schedule | None) -> Due:
            key, now_ms = (spec.queue.name, spec.name), self._clock.now_ms()
            return decide_plan(found, key, spec.plan, by=self._by, now_ms=now_ms, zone_of=zone_of)

        before = self._records.of(spec.queue.name, spec.name)
        while True:  # runs that were missed by the plan before may be more than one transaction has
            after = self._records.change(spec.queue.name, spec.name, decide, lambda due: self._messages(spec, due))
            if after is None or after.plan == spec.plan:
                break
        if before is not None and before.plan != spec.plan:
            about, was = f"schedule {spec.name!r} of {spec.queue}", f"{said(before.plan)} of {before.planned_by}"
            log.warning("%s: %s from now on; before, %s", about, said(spec.plan), was)
        self._plans[spec.queue.name, spec.name] = spec.plan

    def _look(self, spec: CronSpec, *, at_once: bool) -> int:
        queue, name = spec.queue.name, spec.name
        while True:
            found = self._records.of(queue, name)
            if found is None:
                return FOREVER_MS  # an operator has removed it; whoever starts with it has it again
            self._tell(spec, found)
            due_ms = next_run_ms(found, zone_of)
            late_ms = -1 if due_ms is None else self._clock.now_ms() - due_ms
            if late_ms < 0 or not (at_once or found.runner == self._by or late_ms >= OTHERS_MS):
                return FOREVER_MS if due_ms is None else due_ms + (OTHERS_MS if late_ms >= 0 else 0)
            with raised_as_jms_errors(f"schedule {name!r} of {spec.queue}"):
                after = self._records.change(queue, name, self._decide, lambda due: self._messages(spec, due))
            if after is not None and after.done_until_ms == found.done_until_ms:
                return FOREVER_MS  # it was paused meanwhile

    def _decide(self, found: Schedule | None) -> Due | None:
        if found is None:
            return None
        return decide_runs(found, by=self._by, now_ms=self._clock.now_ms(), zone_of=zone_of)

    def _messages(self, spec: CronSpec, due: Due) -> list[Outgoing]:
        """The records of its runs, where their queue takes them now."""
        outbox = self._session._core.outbox
        outbox.take_all()
        try:
            for due_ms in due.runs:
                self._producer.send(destination=spec.queue, **message_of_run(due.schedule, due_ms))
        except JMSError as error:
            raise KafkaClientError(str(error)) from error
        return outbox.take_all()

    def _tell(self, spec: CronSpec, found: Schedule) -> None:
        key = spec.queue.name, spec.name
        if found.plan != self._plans.get(key):
            self._plans[key] = found.plan
            log.warning(
                "schedule %r of %s: %s, as a later deployment (%s) says, and not %s, as this worker does",
                spec.name, spec.queue, said(found.plan), found.planned_by, said(spec.plan),
            )  # fmt: skip
        ahead_ms = found.done_until_ms - self._clock.now_ms()
        if ahead_ms > AHEAD_MS and key not in self._told:
            self._told.add(key)
            log.warning(
                "schedule %r of %s: %s has sent runs until %d s ahead of this machine's clock, so it has none until "
                "then; set the clocks, and begin anew with jbm-kafka cron resume %s %s",
                spec.name, spec.queue, found.runner, ahead_ms // 1000, spec.queue.name, spec.name,
            )  # fmt: skip


def said(plan: SchedulePlan) -> str:
    """The plan for people."""
    return f"{plan.line!r} {plan.zone}, missed {plan.missed}"
