"""Receives several messages at once: as many as are there, or come while the first waits."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from jbm_kafka.core.destination import Destination
from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.jms.base.handler_threads import Receiving
from jbm_kafka.jms.consumer import MessageConsumer
from jbm_kafka.jms.messages.message import Message
from jbm_kafka.jms.settling.acknowledge import put_back
from jbm_kafka.jms.two_step_receive import TwoStepReceive
from jbm_kafka.ports.clock import Clock
from jbm_kafka.worker.gated_receiving import GatedConsumer, through
from jbm_kafka.worker.gates import HandlerGate
from jbm_kafka.worker.handlers import BatchTerms

log = logging.getLogger(__name__)
Batch = list[Message]
"""In the order received; of a unit in its order."""


class BatchConsumer:
    """A consumer that gives batches; implements `Receiving`."""

    def __init__(self, consumer: MessageConsumer, terms: BatchTerms, clock: Clock, gate: HandlerGate | None) -> None:
        self._consumer = consumer
        self._terms = terms
        self._clock = clock
        self._steps = TwoStepReceive(consumer)
        self._gated = None if gate is None else GatedConsumer(consumer, gate)
        self._closed = threading.Event()

    @property
    def destination(self) -> Destination:
        """The destination that is received from."""
        return self._consumer.destination

    @property
    def is_closed(self) -> bool:
        """It gets nothing more."""
        return self._closed.is_set() or self._consumer.is_closed

    def receive(self) -> Batch | None:
        """The next batch, of one message at least; None when it was closed before there was one."""
        first = self._first()
        if first is None:
            return None
        batch, due_ms = [first], self._clock.monotonic_ms() + self._terms.wait_ms
        try:
            while len(batch) < self._terms.size:
                left_ms = due_ms - self._clock.monotonic_ms()
                if not self._steps.wait(max(0, left_ms) / 1_000):
                    if left_ms <= 0 or self.is_closed:
                        break
                elif (message := self._steps.take()) is not None:
                    batch.append(message)
        except JMSError as error:
            if not self.is_closed:
                log.warning("%s: a batch of %d is not filled up: %s", self.destination, len(batch), error)
        return batch

    def close(self) -> None:
        """Receive no more."""
        self._closed.set()
        if self._gated is None:
            self._consumer.close()
        else:
            self._gated.close()

    def begins(self) -> bool:
        """The call for the last batch begins now; False: it was closed before it could."""
        return self._gated is None or self._gated.begins()

    def _first(self) -> Message | None:
        if self._gated is not None:
            return self._gated.receive()
        while self._steps.wait(None):
            if (message := self._steps.take()) is not None:
                return message
        return None


def batches(
    terms: BatchTerms,
    clock: Clock,
    gate: HandlerGate | None,
    consumer: MessageConsumer,
    handle: Callable[[Batch], None],
) -> tuple[Receiving[Batch], Callable[[Batch], None]]:
    """Return what batches are received from, and what handles them: by the gate, if there is one."""
    receiving = BatchConsumer(consumer, terms, clock, gate)
    return receiving, handle if gate is None else through(gate, receiving.begins, handle, put_all_back)


def put_all_back(batch: Sequence[Message], *, were_seen: bool = False) -> None:
    """Have all of them come again, uncounted. The last goes first: one takes what is behind it in its unit along."""
    for message in reversed(batch):
        put_back(message, was_seen=were_seen)
