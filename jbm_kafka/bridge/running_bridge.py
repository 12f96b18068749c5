"""A bridge while it runs: its connections, made when their side answers, and its lanes."""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import cast

from jbm_kafka.bridge.bridge_counts import BridgeStatistics, LaneCounts
from jbm_kafka.bridge.bridge_spec import BridgeSpec
from jbm_kafka.bridge.confirmed_sends import ConfirmedSends
from jbm_kafka.bridge.lane import BridgeLane
from jbm_kafka.bridge.one_at_a_time import OneAtATime, owner_name
from jbm_kafka.bridge.one_transaction import OneTransaction
from jbm_kafka.bridge.pumps import Pump
from jbm_kafka.bridge.recorded_progress import RecordedProgress
from jbm_kafka.bridge.sides import BridgeTarget
from jbm_kafka.core.bridge_way import Way
from jbm_kafka.core.channel.process_names import process_name
from jbm_kafka.core.jms_errors import IllegalStateError
from jbm_kafka.core.rate import Starts
from jbm_kafka.core.statistics import Health
from jbm_kafka.jms.connection import Connection, provider_of
from jbm_kafka.ports.clock import SystemClock
from jbm_kafka.ports.fenced_sends import FencedSends

log = logging.getLogger(__name__)


class RunningBridge:
    """From start to stop."""

    def __init__(self, spec: BridgeSpec, drain: Callable[[], bool]) -> None:
        """`drain` is called when an operator asks this process to end."""
        self._spec = spec
        self._drain = drain
        self._drain_asked_no_more: Callable[[], None] = lambda: None
        self._lock = threading.Lock()
        """Guards what is connected; never held over a call that waits."""
        self._connecting = threading.Lock()
        """One lane connects, for all."""
        self._source: Connection | None = None
        self._target: BridgeTarget | None = None
        self._is_closed = False
        self._ends_by_s: float | None = None
        """Monotonic: what is in hand then comes again; None: it was not asked to end."""
        process = f"{process_name(socket.gethostname(), os.getpid())} ({secrets.token_hex(4)})"
        self._owner = owner_name(process, spec)
        """As other processes that want to run the bridge see this one."""
        clock = SystemClock()
        names = [spec.name] if spec.lanes == 1 else [f"{spec.name}-{number}" for number in range(1, spec.lanes + 1)]
        self.lanes = [BridgeLane(name, self._pump, clock.monotonic_ms) for name in names]
        if spec.rate is not None:
            for lane in self.lanes:
                lane.counts.starts = Starts(spec.rate)

    def start(self) -> None:
        """Let the lanes begin; where a side does not answer they wait for it."""
        for lane in self.lanes:
            lane.start()

    def ask_to_end(self, drain_s: float) -> float:
        """Take no more, and finish with what is in hand; until when, at most."""
        if self._ends_by_s is None:
            self._ends_by_s = time.monotonic() + drain_s
        for lane in self.lanes:
            lane.ask_to_end()
        return self._ends_by_s

    def end(self, drain_s: float) -> bool:
        """Take no more, finish with what is in hand, and disconnect; True: all was finished in time."""
        ends_by_s = self.ask_to_end(drain_s)
        ended = [lane.join(max(0.0, ends_by_s - time.monotonic())) for lane in self.lanes]
        if not all(ended):
            becomes = "is lost" if self._spec.way is Way.ACKNOWLEDGED_FIRST else "comes again"
            log.warning("bridge %s: not finished in %g s; what is in hand %s", self._spec.name, drain_s, becomes)
        with self._lock:
            self._is_closed = True
            source, target = self._source, self._target
        self._drain_asked_no_more()
        if source is not None:
            source.close()
        if target is not None and target.connection is not source:
            target.connection.close()
        return all(ended)

    @property
    def trouble(self) -> str | None:
        """Why nothing goes on here now; None: it does."""
        return next((lane.trouble for lane in self.lanes if lane.trouble is not None), None)

    @property
    def stands_by(self) -> bool:
        """Another process runs it."""
        return any(lane.stands_by for lane in self.lanes)

    def statistics(self) -> BridgeStatistics:
        """Return what its lanes have counted."""
        counts = [lane.counts for lane in self.lanes]
        return BridgeStatistics(
            arrived=sum(each.arrived for each in counts),
            refused=sum(each.refused for each in counts),
            came_again=sum(each.came_again for each in counts),
            failures=sum(each.failures for each in counts),
            behind_s=max(each.behind_s for each in counts),
        )

    def health(self, timeout_s: float | None) -> Health:
        """How both sides fare, and why nothing goes on, if that is so.

        One that stands by is ready, and says so: what starts a new process before it ends the old waits for that.
        """
        reasons = [f"bridge {self._spec.name}: {lane.trouble}" for lane in self.lanes if lane.trouble is not None]
        with self._lock:
            source, target = self._source, self._target
        is_alive, is_ready = True, self.stands_by or not reasons
        for connection in {source, None if target is None else target.connection} - {None}:
            assert connection is not None
            found = connection.health(timeout_s)
            is_alive, is_ready = is_alive and found.is_alive, is_ready and found.is_alive and found.is_ready
            reasons += [] if found.is_alive and found.is_ready else found.reasons
        return Health(is_alive, is_ready, tuple(dict.fromkeys(reasons)))

    def _pump(self, counts: LaneCounts) -> Pump:
        source, target = self._sides()
        target.check()
        spec = self._spec
        if spec.way is Way.ONE_TRANSACTION:
            assert source is not None, spec
            return OneTransaction(source, target, spec, counts)
        if spec.way is Way.RECORDED_PROGRESS:
            fenced = cast(FencedSends, target.provider.fenced_sends(spec.name, self._owner))  # type: ignore[attr-defined]
            begin = partial(RecordedProgress, source, target, fenced, spec, counts)
            return OneAtATime(fenced, spec, begin)
        return ConfirmedSends(source, target, spec, counts)

    def _sides(self) -> tuple[Connection | None, BridgeTarget]:
        """Both, connected now if they were not; an AMQP server as source gives each lane's pump a connection."""
        with self._connecting:
            if self._source is None and self._spec.source.is_kafka:
                source = self._spec.source.factory.create_connection()
                source.start()
                self._keep(source, None)
            if self._target is None:
                is_same = self._spec.shares_installation
                connection = self._source if is_same else self._spec.target.factory.create_connection()
                assert connection is not None
                self._keep(None, BridgeTarget(connection, self._source, self._spec))
            assert self._target is not None
            return self._source, self._target

    def _keep(self, source: Connection | None, target: BridgeTarget | None) -> None:
        """Have what was connected, unless the bridge was stopped meanwhile."""
        with self._lock:
            if not self._is_closed:
                self._source, self._target = source or self._source, target or self._target
                if source is not None:
                    self._drain_asked_no_more = provider_of(source).on_drain(self._drain)
                return
        if source is not None:
            source.close()
        if target is not None and target.connection is not self._source:
            target.connection.close()
        raise IllegalStateError(f"bridge {self._spec.name} is stopped")
