"""The records of schedules, each changed by one writer at a time: decision 114.

A schedule has a transactional id. Who initialises that fences whoever used it before, and then reads all that was
committed until then. So nobody who sends a run by an older record can commit it, and a run is sent with the record that
says so, or not at all.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from jbm_kafka.codec.schedule_record import decode_schedule, encode_schedule, schedule_key, schedules_in
from jbm_kafka.core.cron.due import Due
from jbm_kafka.core.cron.schedule import Schedule
from jbm_kafka.core.destination import Queue, with_namespace
from jbm_kafka.core.jms_errors import CorruptRecordError, JMSError
from jbm_kafka.ports import (
    AccessRefused,
    Clock,
    Kafka,
    KafkaClientError,
    OutcomeUnknown,
    Outgoing,
    TransactionAborted,
    Unreachable,
)
from jbm_kafka.ports.schedule_records import Decide, Records
from jbm_kafka.registry.registry_log import RegistryLog

log = logging.getLogger(__name__)

TRANSACTION_TIMEOUT_MS = 10_000
TIMEOUT_S = 10.0
CHANGE_TIMEOUT_MS = 30_000
BACKOFF_S = 0.2
"""At most so long, by chance, until a writer that was overtaken tries again; longer with each try."""


def schedule_transactional_id(queue: str, name: str, namespace: str) -> str:
    """Return the id by which the schedule's writers fence each other."""
    return with_namespace(f"jbm.schedule.{queue}.{name}", namespace)


class Schedules:
    """Implements `ScheduleRecords`. Any thread."""

    def __init__(
        self,
        kafka: Kafka,
        registry: RegistryLog,
        namespace: str,
        clock: Clock,
        *,
        route: Callable[[Sequence[Outgoing]], None],
        pause: Callable[[float], None],
        chance: Callable[[], float],
    ) -> None:
        """`route`: lets records go where their units are now; KafkaClientError when that is not to be known."""
        self._kafka = kafka
        self._registry = registry
        self._namespace = namespace
        self._clock = clock
        self._route = route
        self._pause = pause
        self._chance = chance
        self._lock = threading.Lock()

    def of(self, queue: str, name: str) -> Schedule | None:
        """A schedule as read last; see ScheduleRecords."""
        key = schedule_key(queue, name)
        value = self._registry.get(key)
        return _decoded(key, value)

    def all(self) -> list[Schedule]:
        """All that can be read, as read last, by queue and name."""
        return schedules_in(self._registry.values())

    def change(self, queue: str, name: str, decide: Decide, records: Records) -> Schedule | None:
        """Write a record with the messages of its runs; see ScheduleRecords."""
        began_ms, tries = self._clock.monotonic_ms(), 0
        self._registry.make()
        while True:
            self._registry.refresh()
            found = self.of(queue, name)
            if not tries and _is_done(found, decide(found)):
                return found  # most that look when a run is due find it done; of them none fences anybody
            try:
                with self._lock:
                    return self._try(queue, name, decide, records)
            except (OutcomeUnknown, TransactionAborted) as error:
                if isinstance(error, TransactionAborted) and error.refusals:
                    topics = f"topic {Queue(queue).kafka_topic(self._namespace)} and on topic {self._registry.topic}"
                    cause = next(iter(error.refusals.values())).cause
                    kind = AccessRefused if isinstance(cause, AccessRefused) else KafkaClientError
                    raise kind(f"it takes Write on {topics}: {cause}") from None
                log.info("schedule %s of %s: somebody else changes it too, or no answer came: %s", name, queue, error)
                if self._clock.monotonic_ms() - began_ms > CHANGE_TIMEOUT_MS:
                    raise Unreachable(f"schedule {name} of {queue}: not changed in time: {error}") from None
            tries += 1
            self._pause(self._chance() * BACKOFF_S * min(tries, 20))

    def _try(self, queue: str, name: str, decide: Decide, records: Records) -> Schedule | None:
        key = schedule_key(queue, name)
        producer = self._kafka.transactional_producer(
            schedule_transactional_id(queue, name, self._namespace),
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            is_contended=True,
        )
        try:
            producer.initialise(TIMEOUT_S, known_topic=self._registry.topic)
            # What others committed by this id has its marks now, and they can write nothing more.
            value = self._registry.refresh_marked().get(key)
            found = _decoded(key, value)
            due = decide(found)
            if _is_done(found, due):
                return found
            sends = [] if due is None else list(records(due))
            self._route(sends)
            after = None if due is None else due.schedule
            producer.begin()
            producer.produce(Outgoing(self._registry.topic, 0, key, None if after is None else encode_schedule(after)))
            for each in sends:
                producer.produce(each)
            producer.commit(TIMEOUT_S)
        finally:
            producer.close()
        self._registry.refresh_marked()
        return after


def _decoded(key: bytes, value: bytes | None) -> Schedule | None:
    """Raises JMSError for a record that says nothing here."""
    try:
        return None if value is None else decode_schedule(key, value)
    except CorruptRecordError as error:
        raise JMSError(str(error)) from None


def _is_done(found: Schedule | None, due: Due | None) -> bool:
    """Nothing is to be written."""
    return found is None if due is None else due.schedule == found and not due.runs
