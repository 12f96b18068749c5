"""A thread of a bridge: makes a pump, lets it work, and begins anew after a failure, later each time."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from jbm_kafka.bridge.bridge_counts import LaneCounts
from jbm_kafka.bridge.pumps import Pump, StandsBy, TakenOver
from jbm_kafka.core.failure_text import failure_text
from jbm_kafka.core.jms_errors import JMSError

log = logging.getLogger(__name__)

BACKOFF_FIRST_S = 0.1
BACKOFF_MOST_S = 30.0
SAY_AGAIN_MS = 60_000
"""So often it is logged that a side is still away."""
CALM_MS = 3_000
"""So long a new pump works before it is said to go on: with one message that is refused for now each brings others, and
then fails."""
LOOK_S = 1.0
"""So often one that stands by looks whether it is to work."""


class BridgeLane:
    """One thread; start and stop once."""

    def __init__(self, name: str, make: Callable[[LaneCounts], Pump], now_ms: Callable[[], int]) -> None:
        """`make` connects, if need be; `now_ms`: monotonic."""
        self._name = name
        self._make = make
        self._now_ms = now_ms
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"jbm-bridge-{name}", daemon=True)
        self._worked_at_ms = 0
        """When it went on or stood by last."""
        self._said_ms: int | None = None
        """When trouble was logged last."""
        self._is_told = False
        """Its trouble of now is in the log."""
        self._stood_by_for: str | None = None
        """What the log has of that, since it went on last."""
        self.trouble: str | None = "it has not begun yet"
        """Why nothing goes on here now; None: it does."""
        self.stands_by = False
        """The trouble is that another process runs the bridge, which is none."""
        self.counts = LaneCounts()

    def start(self) -> None:
        """Begin; it returns at once, also where nobody answers yet."""
        self._thread.start()

    def ask_to_end(self) -> None:
        """Take no more messages, and finish with those in hand."""
        self._ends.set()

    def join(self, timeout_s: float) -> bool:
        """True when it has ended."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        backoff_s = BACKOFF_FIRST_S
        while not self._ends.is_set():
            before, began_ms = self.counts.arrived, self._now_ms()
            try:
                self._work()
            except TakenOver as error:
                log.info("bridge %s: %s", self._name, error)
            except JMSError as error:
                self._failed(str(error))
            except Exception as error:
                log.exception("bridge %s: an error of ours; it begins anew", self._name)
                self._failed(f"an error of ours: {failure_text(error)}")
            lasted_ms = self._worked_at_ms - began_ms  # it stood by, or there was nothing to take
            if lasted_ms >= BACKOFF_MOST_S * 1_000 or self.counts.arrived != before:
                backoff_s = BACKOFF_FIRST_S
            self._ends.wait(backoff_s)
            backoff_s = min(2 * backoff_s, BACKOFF_MOST_S)

    def _work(self) -> None:
        pump = self._make(self.counts)
        calm_at_ms = self._now_ms() + CALM_MS if self.counts.failures else 0
        try:
            while not self._ends.is_set():
                try:
                    arrived = pump.step()
                except StandsBy as error:
                    self._stand_by(str(error), logging.WARNING if error.is_from_elsewhere else logging.INFO)
                    continue
                self._worked_at_ms = self._now_ms()
                if arrived is not None:
                    self.counts.arrived += arrived
                    if self._worked_at_ms >= calm_at_ms:
                        self._goes_on()
        finally:
            self._close(pump)

    def _close(self, pump: Pump) -> None:
        """Close it; an error by that is of less interest than why it is closed."""
        try:
            pump.close()
        except JMSError as error:
            log.info("bridge %s: closing: %s", self._name, error)

    def _stand_by(self, why: str, level: int) -> None:
        if self._stood_by_for != why:  # while a source is away two that try it in turn do not fill the log
            log.log(level, "bridge %s stands by: %s", self._name, why)
        self._stood_by_for, self._worked_at_ms = why, self._now_ms()
        self.trouble, self.stands_by, self._is_told, self.counts.last = why, True, True, None
        self._ends.wait(LOOK_S)

    def _goes_on(self) -> None:
        if self._is_told:
            log.info("bridge %s goes on", self._name)
        self.trouble, self.stands_by, self._is_told, self._stood_by_for = None, False, False, None

    def _failed(self, why: str) -> None:
        self.trouble, self.stands_by = why, False
        if self._ends.is_set():  # its connections were closed under it, say, and whoever did that tells
            log.info("bridge %s ends: %s", self._name, why)
            return
        self.counts.failures += 1
        now_ms = self._now_ms()
        if self._said_ms is None or now_ms - self._said_ms >= SAY_AGAIN_MS:
            self._said_ms, self._is_told = now_ms, True
            log.warning("bridge %s: nothing goes on, and it is tried again: %s", self._name, why)
