"""A worker while it runs: its connection, the lanes of its handlers, its schedules, and what was made for them."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable
from typing import Any, NoReturn

from jbm_kafka.core.failure_text import failure_text
from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.jms.connection import Connection, provider_of
from jbm_kafka.jms.receiving.handling import HandlerFailures, Middleware
from jbm_kafka.jms.settling.one_by_one import OneByOne
from jbm_kafka.ports.clock import Clock
from jbm_kafka.worker.cron_spec import CronSpec
from jbm_kafka.worker.dependencies import Kept
from jbm_kafka.worker.gates import WorkerGates
from jbm_kafka.worker.handler_loop import HandlerLoop
from jbm_kafka.worker.handlers import HandlerSpec
from jbm_kafka.worker.lanes import Lane, lanes_of
from jbm_kafka.worker.scheduler import Scheduler

log = logging.getLogger(__name__)

RECORDED_S = 5.0
"""How long the end of a process with a handler that hangs waits for Kafka: what the others said is to be recorded."""
HUNG_CODE = 1
"""As of any process whose handlers were left."""


class RunningWorker:
    """A worker's connection and lanes, from start to stop."""

    def __init__(
        self,
        connection: Connection,
        specs: list[HandlerSpec],
        around: list[Middleware],
        lifespans: list[Any],
        crons: list[CronSpec],
        max_in_flight: int | None,
        clock: Clock | None,
        hung: Callable[[], object],
        drain: Callable[[], bool],
    ) -> None:
        """`drain` is called when an operator asks this process to end."""
        self.connection = connection
        self.failure: JMSError | None = None
        """Why a handler gets no message any more."""
        self._lanes: list[Lane] = []
        core = connection._core
        self._failures = HandlerFailures(provider_of(connection).settings_of, core.notify_exception)
        self._kept = Kept()
        self._drain_asked_no_more = provider_of(connection).on_drain(drain)
        self._loop: HandlerLoop | None = None
        self.scheduler: Scheduler | None = None
        """Sends the runs of its schedules; None: it has none."""
        if any(spec.is_async for spec in specs) or any(hasattr(each, "__aenter__") for each in lifespans):
            self._loop = HandlerLoop()
        settle = OneByOne(core)
        clock = provider_of(connection).clock if clock is None else clock
        self.gates = WorkerGates(max_in_flight, clock, core.counts.limits, core.hindrances, hung)
        try:
            for each in lifespans:
                self._kept.enter(each, self._loop if hasattr(each, "__aenter__") else None)
            for provider in (provider for spec in specs for provider in spec.lasting):
                self._kept.make(provider, self._loop)
            for spec in specs:
                lane_parts = connection, around, self._failures, settle, self._lane_failed, self._kept, self._loop
                self._lanes += lanes_of(spec, *lane_parts, self.gates)
            self.scheduler = Scheduler(connection, crons) if crons else None
            connection.start()
            for lane in self._lanes:
                lane.start()
            if self.scheduler is not None:
                self.scheduler.start()
        except BaseException:
            self._let_go()
            raise

    def _lane_failed(self, error: Exception) -> None:
        if not isinstance(error, JMSError):
            log.error("worker: an error of ours", exc_info=error)
            error = JMSError(f"an error of ours: {failure_text(error)}")
        self.failure = self.failure or error
        core = self.connection._core
        core.hindrances.stay(self, f"a handler gets no message any more: {error}")
        core.notify_exception(error)

    def end(self, drain_s: float) -> bool:
        """True when all handlers have ended in time."""
        if self.scheduler is not None:
            self.scheduler.stop()
        left = self._drain(drain_s)
        if left:
            log.warning(
                "worker: %d %s after %g s (drain_s); what they work on comes again",
                left,
                "handler runs still" if left == 1 else "handlers run still",
                drain_s,
            )
        self._let_go()
        return not left

    def end_process(self, drain_s: float) -> NoReturn:
        """End this process without giving back what the handlers have that run still: it comes again when they are
        gone, and not beside them."""
        self._drain(drain_s)
        provider_of(self.connection).wait_recorded(RECORDED_S)
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(HUNG_CODE)

    def _drain(self, drain_s: float) -> int:
        """Receive no more, and wait for the handlers that run; how many still do."""
        deadline_s = time.monotonic() + drain_s
        for lane in self._lanes:
            lane.close()
        return sum(lane.join(deadline_s) for lane in self._lanes)

    def _let_go(self) -> None:
        self._drain_asked_no_more()
        self.gates.timers.end()
        self._kept.end()
        if self._loop is not None:
            self._loop.stop()
        self.connection.close()
        self._failures.end()
