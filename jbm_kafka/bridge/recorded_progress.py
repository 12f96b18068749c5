"""Into Kafka from elsewhere: the target records which messages came, in one transaction with them (BRIDGE-2)."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from functools import partial

from jbm_kafka.bridge.bridge_counts import LaneCounts
from jbm_kafka.bridge.bridge_spec import BridgeSpec
from jbm_kafka.bridge.pumps import TakenOver
from jbm_kafka.bridge.sides import BridgeTarget, HeldBack, Unsendable, topic_id_of
from jbm_kafka.bridge.source_kinds import check_source, source_of
from jbm_kafka.codec.bridge_marks import batch_key, batch_value, named_mark, placed_mark, recorded_batches
from jbm_kafka.core.bridge_progress import BridgeProgress
from jbm_kafka.core.jms_errors import CorruptRecordError, JMSError, LargeBodyError
from jbm_kafka.jms.base.modes import AcknowledgeMode
from jbm_kafka.jms.connection import Connection, provider_of
from jbm_kafka.jms.messages.message import Message
from jbm_kafka.ports import KafkaClientError, KafkaRecord
from jbm_kafka.ports.client_errors import as_jms_error
from jbm_kafka.ports.fenced_sends import FencedOff, FencedSends
from jbm_kafka.ports.record_to_send import Outgoing

log = logging.getLogger(__name__)

BATCH_S = 10.0
"""So long one batch is filled, beside its last message: each may have a large body to be fetched and kept, and a step
that takes very long counts as one that hangs (one_at_a_time.py)."""


class RecordedProgress:
    """Implements `Pump`. First the target commits, then the source; what comes again in between is known."""

    def __init__(
        self,
        connection: Connection | None,
        target: BridgeTarget,
        fenced: FencedSends,
        spec: BridgeSpec,
        counts: LaneCounts,
    ) -> None:
        """Takes the bridge over: whoever ran it before can send nothing more. Its caller closes `fenced`.

        Raises:
            JMSError: it cannot receive, or send.
            TakenOver: another process has taken it over at the same time.
        """
        self._spec = spec
        self._target = target
        self._source_provider = None if connection is None else provider_of(connection)
        self._fenced = fenced
        self._progress = BridgeProgress({})
        check_source(connection, spec)  # else the name would be taken from a process that may reach it
        try:
            # First the target: what was recorded by then, and nothing else, is what may come again.
            self._progress = BridgeProgress(self._taken_over())
            self._earlier = set(self._progress.marks)
            self._source = source_of(connection, spec, AcknowledgeMode.TRANSACTED, counts)
        except BaseException:
            self._release()  # another process may reach the source, or read the records
            raise
        if len(self._progress):
            log.info("bridge %s: %d messages that came may come again", spec.name, len(self._progress))

    def _taken_over(self) -> Mapping[int, Sequence[bytes]]:
        try:
            return recorded_batches(self._fenced.take_over())
        except FencedOff as error:
            raise TakenOver(str(error)) from None
        except KafkaClientError as error:
            raise as_jms_error(error, str(self._spec.target.destination)) from None
        except CorruptRecordError as error:
            raise JMSError(str(error)) from None

    def step(self) -> int:
        """One batch, of at least one message."""
        batch, held = _Batch(), HeldBack()
        message = self._source.receive(waits=True)
        full_at_s = time.monotonic() + BATCH_S
        trouble: JMSError | None = None
        try:
            while message is not None:
                try:
                    if not held.takes(message):
                        self._take(message, batch)
                except LargeBodyError as error:
                    held.hold(message, error)
                except JMSError as error:  # of the target, or of this one: what came before it goes
                    self._source.put_back([message])
                    trouble = error
                    break
                if len(batch.taken) + len(held.messages) >= self._spec.in_flight:
                    break
                if batch.size_bytes >= self._target.batch_bytes:
                    break
                if time.monotonic() >= full_at_s:
                    break
                message = self._source.receive(waits=False)
            self._source.put_back(held.messages)
            self._send(batch)
        except BaseException:
            self._source.put_back(batch.taken)
            raise
        if batch.taken and self._source.settle(batch.taken):  # or they come again, and are known by the progress
            self._progress.confirm(batch.marks)
        trouble = trouble or held.trouble
        if trouble is not None:
            self._source.counts.arrived += len(batch.taken)  # of which the lane does not hear
            raise trouble
        return len(batch.taken)

    def close(self) -> None:
        """Give back what is received and not sent. What was settled is forgotten, so that the next reads little."""
        try:
            self._source.close()
        finally:
            self._release()

    def _release(self) -> None:
        try:
            self._fenced.release(dict.fromkeys(map(batch_key, self._progress.over)))
        except (KafkaClientError, FencedOff) as error:
            log.debug("bridge %s: left for the next: %s", self._spec.name, error)

    def _take(self, message: Message, batch: _Batch) -> None:
        record = message._record
        assert record is not None, message
        try:
            mark = self._mark(record)
            if mark is not None and self._has_come(mark):
                batch.taken.append(message)
                batch.marks.append(mark)
                self._source.counts.came_again += 1
                return
            made, size_bytes = self._target.record(message)
        except Unsendable as error:
            self._source.refuse(message, str(error))
            return
        batch.taken.append(message)
        batch.sends.append(made)
        batch.size_bytes += size_bytes
        if mark is not None:
            batch.marks.append(mark)
            batch.new.append(mark)

    def _has_come(self, mark: bytes) -> bool:
        """A place is one message's. An id should be, and is not always: of what this connection gave none is given by
        it again, so one that comes a second time is another message."""
        if self._source_provider is not None:
            return mark in self._progress
        if mark not in self._earlier:
            return False
        self._earlier.remove(mark)
        return True

    def _mark(self, record: KafkaRecord) -> bytes | None:
        if self._source_provider is None:
            return named_mark(record)
        return placed_mark(record, partial(topic_id_of, self._source_provider, self._spec.source.destination))

    def _send(self, batch: _Batch) -> None:
        if not batch.sends:
            return
        number = self._progress.next_number
        records: dict[bytes, bytes | None] = dict.fromkeys(map(batch_key, self._progress.over))
        if batch.new:
            records[batch_key(number)] = batch_value(batch.new)
        try:
            self._fenced.commit(batch.sends, records)
        except FencedOff as error:
            raise TakenOver(str(error)) from None
        except KafkaClientError as error:
            self._target.batch_failed(batch.size_bytes)
            raise as_jms_error(error, str(self._spec.target.destination)) from None
        self._target.batch_arrived()
        self._progress.add(batch.new)


class _Batch:
    """One transaction of the target and of the source."""

    __slots__ = ("marks", "new", "sends", "size_bytes", "taken")

    def __init__(self) -> None:
        self.taken: list[Message] = []
        """In the order received."""
        self.sends: list[Outgoing] = []
        """The records that had not come before."""
        self.marks: list[bytes] = []
        """The marks of messages that have one."""
        self.new: list[bytes] = []
        """The ids of messages that are sent."""
        self.size_bytes = 0
