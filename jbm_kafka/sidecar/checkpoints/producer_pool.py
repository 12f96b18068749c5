"""The transactional producers of a sidecar, which take turns: decision 14.

A coordinator refuses a producer's next transaction until the marks of its last one are written, and the client then
waits 20 ms. With a few producers the next checkpoint goes through another one. There is one checkpoint at a time all
the same: nothing overlaps but the marks.

A producer whose last transaction has no known end is given up, and initialised anew before any producer begins.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field

from jbm_kafka.ports import Clock, Kafka, KafkaClientError, TransactionalProducer
from jbm_kafka.ports.installation import RECORD_TIMEOUT_MS
from jbm_kafka.ports.steps import Steps, Wait, Workers

log = logging.getLogger(__name__)

PRODUCERS = 3
"""With two every tenth commit still waits for marks. A later version may have more, never fewer: what a process of
this one left open is ended by the next that initialises its ids."""
INITIALISE_TIMEOUT_S = 30.0
SOON_MS = 20
"""A checkpoint that begins so soon after the end of the last finds that one's marks unwritten."""
SOON_COUNT = 5
"""So many of them are worth another producer."""


@dataclass(slots=True, eq=False)
class PooledProducer:
    """One transactional id, and its producer while it can be used."""

    transactional_id: str
    producer: TransactionalProducer | None = None
    is_in_use: bool = False
    """It takes turns; one that does and has no producer must be initialised before anybody begins."""
    is_marked: bool = False
    """It has written marks."""
    error: KafkaClientError | None = None
    """The failure of its last try to initialise."""
    tried: threading.Event = field(default_factory=threading.Event)

    @property
    def mark_group(self) -> str:
        """The group whose offset keeps the id of its latest checkpoint; nobody is ever a member."""
        return f"{self.transactional_id}.mark"


class ProducerPool:
    """Gives each checkpoint its producer. The checkpoint thread only, but for what initialises."""

    def __init__(
        self,
        *,
        kafka: Kafka,
        clock: Clock,
        workers: Workers,
        transactional_id: str,
        has_past: bool,
        transaction_timeout_ms: int,
        record_timeout_ms: int = RECORD_TIMEOUT_MS,
        known_topic: str,
    ) -> None:
        """
        Args:
            transactional_id: that of the first producer, and of versions with only one; the others' are made of it.
            has_past: an earlier process may have used the ids, so all are initialised before the first checkpoint.
            known_topic: one that exists; to initialise is faster with it.
        """
        self._kafka = kafka
        self._clock = clock
        self._workers = workers
        self._timeout_ms, self._record_timeout_ms = transaction_timeout_ms, record_timeout_ms
        self._known_topic = known_topic
        names = [transactional_id, *(f"{transactional_id}.{number}" for number in range(1, PRODUCERS))]
        self.members = tuple(PooledProducer(name, is_in_use=has_past or not n) for n, name in enumerate(names))
        self._growing: PooledProducer | None = None
        self._turn = -1
        self.current = self.members[0]
        """Whose turn it is, or was."""
        self._ended_at_ms: int | None = None
        self._soon = 0
        self._is_closed = False

    def take(self) -> Steps:
        """Make every producer ready, and the next one in turn the `current` one.

        Raises:
            KafkaClientError: one cannot be initialised, so nobody may begin.
        """
        yield from self.make_ready()
        self._grow_if_worth()
        in_use = [member for member in self.members if member.is_in_use]
        self._turn += 1
        self.current = in_use[self._turn % len(in_use)]

    @property
    def producer(self) -> TransactionalProducer:
        """The current one's; it is ready."""
        assert self.current.producer is not None, self.current.transactional_id
        return self.current.producer

    def make_ready(self) -> Steps:
        """Initialise side by side each that takes turns and has no producer: that ends what its id left open.

        Raises:
            KafkaClientError: one could not; the others that could are ready.
        """
        missing = [member for member in self.members if member.is_in_use and member.producer is None]
        for member in missing[1:]:
            self._start(member)
        if missing:
            self._initialise(missing[0])
        for member in missing[1:]:
            yield Wait(None, member.tried)
        for member in missing:
            if member.error is not None:
                raise member.error

    def ended(self) -> None:
        """The current one's transaction has committed."""
        self._ended_at_ms = self._clock.monotonic_ms()

    def give_up(self) -> None:
        """Nobody knows how the current one's transaction ended, or it cannot go on: a new one fences it."""
        self.give_up_of(self.current)

    def give_up_of(self, member: PooledProducer) -> None:
        """As `give_up`, of any of them."""
        producer, member.producer = member.producer, None
        if producer is not None:
            producer.close()

    def close(self, *, deletes_marks: bool = True) -> None:
        """Let all go, and with them the offsets that keep their marks: Kafka would forget them in a week."""
        self._is_closed = True
        for member in self.members:
            producer, member.producer = member.producer, None
            if producer is not None:
                producer.close()
        if deletes_marks:
            self._delete_marks([member.mark_group for member in self.members if member.is_marked])

    def _delete_marks(self, groups: list[str]) -> None:
        if not groups:
            return
        admin = self._kafka.admin()
        try:
            admin.delete_groups(groups)
        except KafkaClientError as error:
            log.info("%s; Kafka deletes them by itself when nobody has used them for a week", error)
        finally:
            admin.close()

    def _grow_if_worth(self) -> None:
        """One more that takes turns, when commits come so fast that each would wait for the marks of the last."""
        member = self._growing
        if member is not None:
            if member.tried.is_set():
                member.is_in_use = member.producer is not None
                self._growing = None
            return
        is_soon = self._ended_at_ms is not None and self._clock.monotonic_ms() - self._ended_at_ms < SOON_MS
        self._soon += is_soon
        spare = [member for member in self.members if not member.is_in_use]
        if spare and self._soon >= SOON_COUNT:
            self._soon = 0
            self._growing = spare[0]
            self._start(spare[0])  # beside the checkpoints, which do not wait for it: its id has no past

    def _start(self, member: PooledProducer) -> None:
        member.tried.clear()
        self._workers.start(f"jbm-initialise-{member.transactional_id}", self._initialising(member))

    def _initialising(self, member: PooledProducer) -> Steps:
        self._initialise(member)
        return
        yield

    def _initialise(self, member: PooledProducer) -> None:
        member.error = None
        try:
            producer = self._kafka.transactional_producer(
                member.transactional_id,
                transaction_timeout_ms=self._timeout_ms,
                record_timeout_ms=self._record_timeout_ms,
            )
            producer.initialise(INITIALISE_TIMEOUT_S, known_topic=self._known_topic)
            if self._is_closed:
                producer.close()
            else:
                member.producer = producer
        except KafkaClientError as error:
            member.error = error
        finally:
            member.tried.set()
