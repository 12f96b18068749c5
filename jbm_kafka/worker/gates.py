"""Gates of handlers: nothing is received before its handler may begin.

A message passes a handler's gate in three steps. `reserve` waits until one more may begin: then it is received, if it
is still there. `begin` is the beginning of its call, from which on the rate counts; `end` is behind it.
"""

from __future__ import annotations

import logging
import sys
import threading
from asyncio import CancelledError
from collections.abc import Callable
from typing import Any, Protocol

from jbm_kafka.client.connection_counts import HandlerLimitCounts
from jbm_kafka.core.destination import Destination
from jbm_kafka.core.failure_text import failure_text
from jbm_kafka.core.rate import Starts
from jbm_kafka.core.settings.pause_rule import FailureRow
from jbm_kafka.core.wrong_values import wrong_value
from jbm_kafka.jms.base.hindrances import Hindrances
from jbm_kafka.ports.clock import Clock
from jbm_kafka.ports.provider import HeldPartitions
from jbm_kafka.worker.limits import HandlerLimits
from jbm_kafka.worker.overdue import Overdue
from jbm_kafka.worker.timers import Timers

log = logging.getLogger(__name__)

LOOK_MS = 5_000
"""The longest sleep of whoever waits at a gate: partitions come and go, and its process stays in its group."""
Closed = Callable[[], bool]
"""Whoever waits is to receive no more."""


class AtGate(Protocol):
    """A consumer of a handler. Any thread."""

    def pause(self) -> None:
        """Give back what is unread, and get nothing."""

    def resume(self) -> None:
        """Get messages again."""

    def held_partitions(self) -> HeldPartitions | None:
        """Which part of its source the process has."""


class WorkerGates:
    """The part that the gates of one worker share."""

    def __init__(
        self,
        max_in_flight: int | None,
        clock: Clock,
        counts: HandlerLimitCounts,
        health: Hindrances,
        hung: Callable[[], object],
    ) -> None:
        """`max_in_flight`: so many calls of handlers at once; None: any number. `hung`: see `Overdue`."""
        self.max_in_flight = max_in_flight
        self.clock = clock
        self.timers = Timers(clock)
        self.counts = counts
        self.health = health
        self._hung = hung
        self.changed = threading.Condition()
        """Guards all of them."""
        self.in_flight = 0
        """Calls that run, or are about to."""

    def gate(self, name: str, destination: Destination, limits: HandlerLimits) -> HandlerGate | None:
        """A handler's; None: nothing is to be asked before it gets a message."""
        if self.max_in_flight is None and not limits.are_at_the_door:
            return None
        return HandlerGate(name, destination, limits, self)

    def timed(
        self, name: str, destination: Destination, limits: HandlerLimits, call: Callable[..., Any], *, is_async: bool
    ) -> Callable[..., Any]:
        """The handler, with its timeout if it has one."""
        if limits.timeout_ms is None:
            return call
        overdue = Overdue(name, destination, limits.timeout_ms, self.timers, self.counts, self._hung)
        return overdue.around(call, is_async=is_async)

    def look(self) -> None:
        """Whoever waits looks again."""
        with self.changed:
            self.changed.notify_all()


class HandlerGate:
    """One handler's. Any thread."""

    def __init__(self, name: str, destination: Destination, limits: HandlerLimits, gates: WorkerGates) -> None:
        """`name`: of handler and destination, for people."""
        self._name = name
        self._destination = destination
        self._gates = gates
        self._limits = limits
        self._row = None if limits.pause_on is None else FailureRow(limits.pause_on)
        self._own = None if limits.rate is None else Starts(limits.rate)
        self._total = None if limits.rate_total is None else Starts(limits.rate_total, is_divided=True)
        self._reserved = 0
        """Messages that are received, or about to be, and have not begun."""
        self._at_once = 0
        """The number of those, and of those whose call runs."""
        self._consumers: dict[AtGate, None] = {}

    # -- one message ---------------------------------------------------------------------------------------------------

    def reserve(self, is_closed: Closed) -> bool:
        """Wait until one more may begin, some seconds at most; True: it is to `begin`, or to be `left_out`."""
        gates = self._gates
        with gates.changed:
            wait_ms = self._reserve_in_ms()
            if wait_ms and not is_closed():
                gates.changed.wait(min(wait_ms, LOOK_MS) / 1_000)
                wait_ms = self._reserve_in_ms()
            if wait_ms or is_closed():
                return False
            self._reserved += 1
            self._at_once += 1
            gates.in_flight += 1
            return True

    def left_out(self) -> None:
        """There was no message after all, or it went back."""
        with self._gates.changed:
            self._reserved -= 1
            self._leave()

    def begin_in_ms(self) -> int:
        """0: the call begins now. Else how long to wait; it may begin earlier, or later."""
        with self._gates.changed:
            return self._begin_in_ms()

    def wait_begin(self, is_closed: Closed) -> bool:
        """True: the call begins now; False: it does not, for whoever waits was closed.

        As a rule it waits for nothing. A partition that has gone elsewhere since `reserve` has taken its share along.
        """
        gates = self._gates
        with gates.changed:
            while wait_ms := self._begin_in_ms():
                if is_closed():
                    return False
                gates.changed.wait(min(wait_ms, LOOK_MS) / 1_000)
            return True

    def end(self) -> None:
        """The call has ended."""
        with self._gates.changed:
            self._leave()

    def _leave(self) -> None:
        self._at_once -= 1
        self._gates.in_flight -= 1
        self._gates.changed.notify_all()

    def _reserve_in_ms(self) -> int:
        """Under the lock; 0: now. What only an end of another can mend has no time."""
        gates, row = self._gates, self._row
        if row is not None and (row.paused_until_ms is not None or (row.is_trying and self._at_once)):
            return LOOK_MS
        if gates.max_in_flight is not None and gates.in_flight >= gates.max_in_flight:
            return LOOK_MS
        return self._starts_in_ms(but=self._reserved)

    def _begin_in_ms(self) -> int:
        wait_ms = self._starts_in_ms(but=0)
        if not wait_ms:
            now_ms = self._gates.clock.monotonic_ms()
            for starts in (self._own, self._total):
                if starts is not None:
                    assert starts.start(now_ms), self._name
            self._reserved -= 1
        return wait_ms

    def _starts_in_ms(self, *, but: int) -> int:
        """Until both rates allow one more start, beside so many that are reserved."""
        now_ms, wait_ms = self._gates.clock.monotonic_ms(), 0
        if self._total is not None:
            share = next((consumer.held_partitions() for consumer in self._consumers), None)
            self._total.hold(() if share is None else share.held, 0 if share is None else share.of, now_ms)
        for starts in (self._own, self._total):
            if starts is not None:
                free_ms = starts.free_in_ms(now_ms, but=but)
                wait_ms = max(wait_ms, LOOK_MS if free_ms is None else free_ms)
        return wait_ms

    # -- pauses --------------------------------------------------------------------------------------------------------

    def add(self, consumer: AtGate) -> None:
        """One more of the handler's consumers; it pauses with the others.

        Raises:
            InvalidSettingError: nobody knows which part of the messages it has, and `rate_total` is to be divided.
        """
        if self._total is not None and consumer.held_partitions() is None:
            rule = "by AMQP nobody knows which part of the messages a process has, to divide it; use rate="
            raise wrong_value("rate_total", str(self._limits.rate_total), rule)
        with self._gates.changed:
            self._consumers[consumer] = None
            is_paused = self._row is not None and self._row.paused_until_ms is not None
        if is_paused:
            consumer.pause()

    def remove(self, consumer: AtGate) -> None:
        """It is closed; whoever waits at the gate for it looks."""
        with self._gates.changed:
            self._consumers.pop(consumer, None)
            self._gates.changed.notify_all()

    def succeeded(self) -> None:
        """A call went well."""
        row, gates = self._row, self._gates
        if row is None:
            return
        with gates.changed:
            was_trying = row.is_trying
            row.succeeded()
            if was_trying:
                gates.changed.notify_all()
        if was_trying:
            log.info("%s: one went well; it receives as before", self._name)

    def failed(self) -> None:
        """A call failed, within the `except` of its error; maybe it pauses now. One that stopping cancels has not."""
        row, gates, error = self._row, self._gates, sys.exc_info()[1]
        rule = self._limits.pause_on
        if row is None or rule is None or isinstance(error, CancelledError):
            return
        with gates.changed:
            was_trying = row.is_trying
            if not row.failed(gates.clock.monotonic_ms()):
                return
            consumers = list(self._consumers)
        why = "it failed again behind a pause" if was_trying else f"{rule.failures} failures in a row"
        told = f"it receives nothing for {rule.for_s:g} s: {why} (pause_on)"
        log.warning("%s: %s, the last by %s", self._name, told, failure_text(error))
        gates.health.begin(self, f"{self._name}: {told}")
        gates.counts.add(self._destination, "handler_pauses")
        gates.counts.add(self._destination, "handlers_paused")
        for consumer in consumers:
            consumer.pause()
        gates.timers.after(row.for_ms, self._resume)

    def _resume(self) -> None:
        gates = self._gates
        with gates.changed:
            assert self._row is not None, self._name
            if not self._row.resume(gates.clock.monotonic_ms()):
                return
            consumers = list(self._consumers)
            gates.changed.notify_all()
        gates.health.end(self)
        gates.counts.add(self._destination, "handlers_paused", -1)
        log.info("%s: its pause is over; it receives one message at a time until one goes well", self._name)
        for consumer in consumers:
            consumer.resume()
