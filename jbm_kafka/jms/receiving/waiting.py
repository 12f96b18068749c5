"""How a receive waits: for a message, for its time, and once more for what was there when it began."""

from __future__ import annotations

import logging
import time
from functools import partial

from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.jms.base.call_pauses import Pauses, Sleep
from jbm_kafka.jms.base.join_time import JoinTime
from jbm_kafka.jms.receiving.inbox import ConsumerInbox
from jbm_kafka.ports.completion import Completion
from jbm_kafka.ports.deliveries import Delivery

log = logging.getLogger(__name__)

CATCH_UP_S = 1.0
"""How long past its timeout a receive looks for what was there when it was called."""
CATCH_UP_JOINING_S = 10.0
"""The same for one that found its process outside the queue's group: stock brokers delay a first join by 3 s."""
LOOK_S = 0.01
"""How often it looks whether the process has joined."""


class Waiting:
    """The waiting of one consumer; its session is in a call."""

    def __init__(self, inbox: ConsumerInbox) -> None:
        self._inbox = inbox
        self._link = inbox.link
        self._filled = inbox.session.filled
        self._has_logged_stopped = False

    def wait(self, timeout: float | None) -> Pauses[Delivery | None]:
        """The next message, or None when the time is up or the consumer was closed. The last pause is before it is
        taken, so that a call that ends in a pause has none.

        Raises:
            ResourceAllocationError: it could never come; not when `timeout` is 0.
            JMSError: nothing will come for another reason; raised once.
        """
        if timeout == 0 and self._inbox.holds_prefetch():
            yield from self._stay_attached()
            return None
        link = self._link
        delivery = None
        link.begin_wait()
        try:
            delivery = yield from self._wait(timeout)
            if delivery is not None and self._inbox.is_over:  # closed since it was taken: nobody has seen it
                link.put_back(delivery)
                link.forget_taken()
                delivery = None
            return delivery
        finally:
            link.end_call(withdraw=delivery is None)

    def _wait(self, timeout: float | None) -> Pauses[Delivery | None]:
        deadline = None if timeout is None else time.monotonic() + timeout
        if not self._inbox.session.connection.is_started:
            self._log_stopped()
        if not self._link.is_attached:
            yield self._inbox.connect_late
        yield from self._stay_attached()
        is_member = self._link.is_attached and self._link.group_worker.has_joined
        while True:
            delivery = yield from self._wait_filled(deadline)
            if delivery is not None or self._inbox.is_over:
                return delivery
            if deadline is not None and time.monotonic() >= deadline:
                delivery = yield from self._catch_up(CATCH_UP_S if is_member else CATCH_UP_JOINING_S)
                return delivery
            yield from self._stay_attached()

    def _stay_attached(self) -> Pauses[None]:
        if self._inbox.must_attach:
            yield self._inbox.stay_attached

    def until_ready(self) -> Pauses[None]:
        """Return when the consumer's first assignment is there and recovered, or it was closed.

        Raises:
            JMSError: not so within the time that joining may take.
        """
        inbox, link = self._inbox, self._link
        join_timeout_s = inbox.session.connection.provider.traits.join_timeout_s
        joining = JoinTime(join_timeout_s)
        while link.is_attached and not inbox.is_over:
            yield from self._stay_attached()
            if link.group_worker.is_settled:
                link.notices.opened()
                return
            if joining.is_over:
                raise JMSError(
                    f"{inbox.destination}: no partitions were assigned within {join_timeout_s:g} s (revoke_drain_ms "
                    f"and 60 s more); is the cluster's group coordinator up?"
                )
            joining.begin_sleep()
            yield Sleep(lambda: False, LOOK_S)
            joining.end_sleep()

    def _wait_filled(self, deadline: float | None) -> Pauses[Delivery | None]:
        """Sleep until something happens to the link."""
        link = self._link
        delivery: Delivery | None = None
        must_tell = False

        def is_over() -> bool:
            nonlocal delivery, must_tell
            delivery = link.pop()
            if delivery is not None or self._inbox.is_over or link.notices.has_trouble:
                return True
            must_tell = not self._inbox.want_some() and not self._inbox.has_logged_full
            return must_tell

        yield Sleep(is_over, None if deadline is None else deadline - time.monotonic())
        if must_tell:
            self._inbox.log_full("a receive", "another thread acknowledges. If none will, acknowledge before receiving")
        elif delivery is None:
            with link.lock:
                delivery = link.pop()
        return self._inbox.unexpired(delivery)

    def _log_stopped(self) -> None:
        """Warn once: most often start() was forgotten. It is no error, since another thread may call it."""
        if not self._has_logged_stopped:
            self._has_logged_stopped = True
            log.warning(
                "%s: a receive waits on a connection that is not started, so nothing comes: call its start(), or "
                "enter it with `with`",
                self._inbox.destination,
            )

    def _catch_up(self, late_s: float) -> Pauses[Delivery | None]:
        """Find what was there when the receive was called: the worker says when it has handed all of that over."""
        inbox, link = self._inbox, self._link
        if not link.is_attached or link.is_stopped:
            return None  # the connection is stopped
        deadline = time.monotonic() + late_s
        group_worker, done = link.group_worker, Completion(self._notify)
        is_asked = False
        try:
            while not done.is_done and time.monotonic() < deadline:
                yield from self._stay_attached()
                if link.group_worker is not group_worker:  # the one before ended, and answers no more
                    group_worker, is_asked = link.group_worker, False
                if not is_asked and group_worker.is_settled:
                    is_asked = True
                    left_s = max(deadline - time.monotonic(), 0.0)
                    ends = yield partial(inbox.session.connection.provider.end_positions, inbox.source, left_s)
                    group_worker.watch(link.terms.link_id, ends, done)
                look_until = deadline if is_asked else min(deadline, time.monotonic() + LOOK_S)
                delivery = yield from self._wait_filled(look_until)
                if delivery is not None or inbox.is_over:
                    return delivery
            return inbox.poll()
        finally:
            done.complete()  # the group worker need not look any more

    def _notify(self, error: Exception | None) -> None:
        with self._link.lock:
            self._filled.notify_all()
