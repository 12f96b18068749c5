"""Where no transaction has both ends: a message is acknowledged when the target has confirmed it (BRIDGE-3).

With `Way.ACKNOWLEDGED_FIRST` it is acknowledged before the lane has it, and a failure loses what is in hand (BRIDGE-4).
"""

from __future__ import annotations

import logging
import queue
import time
from dataclasses import replace
from functools import partial

from jbm_kafka.bridge.bridge_counts import LaneCounts
from jbm_kafka.bridge.bridge_spec import BridgeSpec
from jbm_kafka.bridge.sides import BridgeTarget, HeldBack, Unsendable
from jbm_kafka.bridge.source_kinds import source_of
from jbm_kafka.core.bridge_way import Way
from jbm_kafka.core.jms_errors import JMSError, LargeBodyError, MessageFormatError, MessageTooLargeError
from jbm_kafka.jms.base.modes import AcknowledgeMode
from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.messages.message import Message
from jbm_kafka.ports import KafkaClientError

log = logging.getLogger(__name__)

REPORT_S = 35.0
"""How long the last reports are waited for. Kafka has confirmed a send by then, or it has failed; what an AMQP server
has not confirmed comes again, and goes behind itself."""
_HOPELESS = (MessageTooLargeError, MessageFormatError)
"""Errors that a message meets again, whenever it is sent."""


class ConfirmedSends:
    """Implements `Pump`. An INDIVIDUAL session gives one message of a unit at a time, so one of each is under way."""

    def __init__(
        self, connection: Connection | None, target: BridgeTarget, spec: BridgeSpec, counts: LaneCounts
    ) -> None:
        """Raises JMSError when it cannot receive, or send."""
        self._name = spec.name
        self._target = target
        self._destination = spec.target.destination
        self._is_lost_when_failed = spec.way is Way.ACKNOWLEDGED_FIRST
        self._spec = spec
        self._under_way = 0
        self._reports: queue.SimpleQueue[tuple[Message, KafkaClientError | None]] = queue.SimpleQueue()
        """Filled on a thread of the provider's."""
        self._failure: JMSError | None = None
        self._held = HeldBack()
        """What cannot go now, alone: it stays in hand, and so nothing behind it in its unit comes."""
        target.provider.prepare_to_send()
        mode = AcknowledgeMode.PRE if self._is_lost_when_failed else AcknowledgeMode.INDIVIDUAL
        self._open = partial(source_of, connection, mode=mode, counts=counts)
        # All that it has taken may be lost by the next failure: one tells whether the target takes any.
        self._most = 1 if self._is_lost_when_failed and counts.failures else spec.in_flight
        self._source = self._open(replace(spec, in_flight=self._most))

    def step(self) -> int | None:
        """Send what is there, and settle what was confirmed meanwhile."""
        waits = not self._under_way
        for _ in range(self._most):  # not until there is none: what is refused is never under way
            message = self._source.receive(waits=waits) if self._may_go_on else None
            if message is None:
                break
            self._send(message)
            waits = False
        arrived = self._settle(waits=self._under_way > 0)
        if arrived and self._most < self._spec.in_flight:
            self._source.close()
            self._most = self._spec.in_flight
            self._source = self._open(self._spec)
        trouble = self._failure or self._held.trouble
        if trouble is not None:
            self._source.counts.arrived += arrived  # of which the lane does not hear
            raise trouble
        return arrived or (None if self._under_way else 0)

    def close(self) -> None:
        """Settle what is confirmed still; the rest comes again."""
        deadline_s = time.monotonic() + REPORT_S
        try:
            while self._under_way and time.monotonic() < deadline_s:
                self._source.counts.arrived += self._settle(waits=True)
        finally:
            self._source.close()

    @property
    def _may_go_on(self) -> bool:
        return self._failure is None and self._under_way + len(self._held.messages) < self._most

    def _send(self, message: Message) -> None:
        try:
            record, _ = self._target.record(message)
            self._target.provider.send(record, lambda error: self._reports.put((message, error)), is_waited_for=False)
        except Unsendable as error:
            self._refuse(message, str(error))
        except KafkaClientError as error:
            self._failed(message, error)
        except LargeBodyError as error:
            if self._is_lost_when_failed:
                self._not_now(message, error)
            else:
                self._held.hold(message, error)
        except JMSError as error:
            self._not_now(message, error)
        else:
            self._under_way += 1

    def _settle(self, *, waits: bool) -> int:
        """Return what has been reported; `waits`: for the first, a moment."""
        arrived = 0
        while self._under_way:
            try:
                message, error = self._reports.get(timeout=0.05) if waits else self._reports.get_nowait()
            except queue.Empty:
                break
            waits = False
            self._under_way -= 1
            try:
                if error is not None:
                    self._failed(message, error)
                    continue
                self._source.acknowledge(message)
                arrived += 1
            except JMSError as refused:  # its partition has moved, say; of the others the source is told still
                self._failure = self._failure or refused
        return arrived

    def _failed(self, message: Message, error: KafkaClientError) -> None:
        found = self._target.provider.send_error(error, self._destination)
        if error.is_for_good or isinstance(found, _HOPELESS):
            self._refuse(message, str(found))
        else:
            self._not_now(message, found)

    def _refuse(self, message: Message, reason: str) -> None:
        """Give it up: it is a dead letter, where it was not acknowledged first."""
        if self._is_lost_when_failed:
            self._say_lost(message, reason)
            self._source.counts.refused += 1
        else:
            self._source.refuse(message, reason)

    def _not_now(self, message: Message, error: JMSError) -> None:
        """Have it come again, where it can, by the pump that the lane makes next."""
        self._failure = error
        if self._is_lost_when_failed:
            self._say_lost(message, str(error))
        else:
            self._source.put_back([message])

    def _say_lost(self, message: Message, why: str) -> None:
        log.warning("bridge %s: message %s is lost (at-most-once): %s", self._name, message.message_id, why)
