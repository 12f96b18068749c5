"""How a receive waits: for a message, for its time, and once more for what was there when it began."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from jbm_kafka.core.errors import JMSError, ResourceAllocationError
from jbm_kafka.core.redelivery import is_expired
from jbm_kafka.core.settlement import GivenBack
from jbm_kafka.ports.completion import Completion
from jbm_kafka.ports.grants import Granted
from jbm_kafka.ports.link import Link

if TYPE_CHECKING:
    from jbm_kafka.jms.consumer import MessageConsumer

log = logging.getLogger(__name__)

CATCH_UP_S = 1.0
"""How long past its timeout a receive looks for what was there when it was called."""
CATCH_UP_JOINING_S = 10.0
"""The same for one that found its process outside the queue's group: stock brokers delay a first join by 3 s."""
LOOK_S = 0.01
"""How often it looks whether the process has joined."""


def has_next(link: Link) -> bool:
    """What it has unread is about to be taken, by its listener or a receive that asked: not to be taken away."""
    return bool(link.buffer) and (link.is_asking or link.is_waiting)


class Waiting:
    """The waiting of one consumer; its session's thread is in it."""

    def __init__(self, consumer: MessageConsumer) -> None:
        self._consumer = consumer
        self._link = consumer.link
        self._filled = consumer.session.filled
        self._has_told_full = False

    def wait(self, timeout: float | None) -> Granted | None:
        """The next message, or None when the time is up or the consumer was closed.

        Raises:
            ResourceAllocationError: it could never come; not when `timeout` is 0.
            JMSError: something else never will; told once.
        """
        if timeout == 0 and self._holds_prefetch():
            self._consumer.stay_attached()
            return None
        link = self._link
        granted = None
        link.is_waiting = True
        try:
            granted = self._wait(timeout)
            if granted is not None and self._consumer.is_over():  # closed since it was taken: nobody has seen it
                link.put_back(granted)
                link.taken = granted = None
            return granted
        finally:
            link.end_call(withdraw=granted is None)

    def _wait(self, timeout: float | None) -> Granted | None:
        deadline = None if timeout is None else time.monotonic() + timeout
        self._consumer.connect_late()
        self._consumer.stay_attached()
        is_member = self._link.is_attached and self._link.lane.has_joined
        while True:
            granted = self._wait_filled(deadline)
            if granted is not None or self._consumer.is_over():
                return granted
            if deadline is not None and time.monotonic() >= deadline:
                return self._catch_up(CATCH_UP_S if is_member else CATCH_UP_JOINING_S)
            self._consumer.stay_attached()

    def until_ready(self) -> None:
        """Return when the consumer's first assignment is there and recovered, or it was closed.

        Raises:
            JMSError: not so within the time that joining may take.
        """
        consumer, link = self._consumer, self._link
        join_timeout_s = consumer.session.connection.provider.traits.join_timeout_s
        deadline = time.monotonic() + join_timeout_s
        while link.is_attached and not consumer.is_over():
            consumer.stay_attached()
            if link.lane.is_settled:
                return
            if time.monotonic() > deadline:
                raise JMSError(
                    f"{consumer.destination}: no partitions were assigned within {join_timeout_s:g} s; "
                    f"is the cluster's group coordinator up?"
                )
            with link.filled:
                link.filled.wait(LOOK_S)

    def want_some(self) -> bool:
        """Ask the lane for messages, unless that was done. The caller holds the lock.

        False when the application holds the whole prefetch: another thread may acknowledge, and wakes this one.

        Raises:
            ResourceAllocationError: a transaction holds the whole prefetch, and only this thread could end it.
            JMSError: what cannot come, such as a partition that is closed here; told once.
        """
        consumer, link = self._consumer, self._link
        if link.notices:
            raise link.notices.popleft()
        if link.is_asking or not consumer.session.connection.is_started:
            return True
        held = consumer.session.settling.in_hand(link)
        if held >= consumer.prefetch:
            if not consumer.session.transacted:
                return False
            raise ResourceAllocationError(
                f"the session holds {held} unacknowledged messages of {consumer.destination}, its whole prefetch of "
                f"{consumer.prefetch}; acknowledge, commit or roll back, or use a larger prefetch",
                prefetch=consumer.prefetch,
            )
        link.want(1 if link.siblings else min(consumer.credit.size, consumer.prefetch - held))
        return True

    def pass_over_expired(self, granted: Granted | None) -> Granted | None:
        """The first from here on in the buffer that is not expired; the others go back together.

        A loop: there may be as many as the prefetch.
        """
        now_ms = self._consumer.session.connection.provider.clock.now_ms()
        gone: list[tuple[Granted, GivenBack]] = []
        units: set[tuple[int, bytes]] = set()  # what follows an expired one in its unit goes back with it (UNIT-1)
        try:
            while granted is not None:
                unit = granted.unit_place
                if not is_expired(granted.reference.expiration_ms, now_ms) and unit not in units:
                    break
                gone.append((granted, GivenBack(granted.offset, counted=False)))
                self._link.taken = None
                if unit is not None:
                    units.add(unit)
                with self._link.lock:
                    granted = self._link.pop()
        finally:  # Ctrl-C too
            if gone:
                self._link.give_back(gone)
        return granted

    def _wait_filled(self, deadline: float | None) -> Granted | None:
        """Sleep until something happens to the link."""
        link = self._link
        must_tell = False
        with link.filled:
            granted = link.pop()
            if granted is None and not self._consumer.is_over() and link.failure is None:
                must_tell = not self.want_some() and not self._has_told_full
                remaining = None if deadline is None else deadline - time.monotonic()
                if not must_tell and (remaining is None or remaining > 0):
                    link.filled.wait(remaining)
                granted = link.pop()
        if must_tell:
            self._tell_full()
        return self._consumer.unexpired(granted)

    def _tell_full(self) -> None:
        """Once, and without the lock: whoever writes the log may be slow."""
        self._has_told_full = True
        log.warning(
            "%s: a receive waits while its session holds the whole prefetch of %d unacknowledged; nothing comes before "
            "another thread acknowledges. If none will, acknowledge before receiving, or use a larger prefetch",
            self._consumer.destination,
            self._consumer.prefetch,
        )

    def _holds_prefetch(self) -> bool:
        """The application holds all it may: nothing can come."""
        with self._link.lock:
            return self._consumer.session.settling.in_hand(self._link) >= self._consumer.prefetch

    def _catch_up(self, late_s: float) -> Granted | None:
        """Find what was there when the receive was called: the lane says when it has handed all of that over."""
        consumer, link = self._consumer, self._link
        if not link.is_attached or link.is_stopped:
            return None  # the connection is stopped
        deadline = time.monotonic() + late_s
        lane, done = link.lane, Completion(self._notify)
        is_asked = False
        while not done.is_done and time.monotonic() < deadline:
            consumer.stay_attached()
            if link.lane is not lane:  # the one before ended, and answers no more
                lane, is_asked = link.lane, False
            if not is_asked and lane.is_settled:
                is_asked = True
                left_s = max(deadline - time.monotonic(), 0.0)
                ends = consumer.session.connection.provider.end_positions(consumer.destination, left_s)
                lane.watch(link.link_id, ends, done)
            granted = self._wait_filled(deadline if is_asked else min(deadline, time.monotonic() + LOOK_S))
            if granted is not None or consumer.is_over():
                break
        else:
            granted = consumer.poll()
        done.complete()  # the lane need not look any more
        return granted

    def _notify(self, error: Exception | None) -> None:
        with self._filled:
            self._filled.notify_all()
