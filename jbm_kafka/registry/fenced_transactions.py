"""Transactions by an id that lasts: whoever initialised it last writes alone, and finds what was written by it before.

A bridge finds records of its own in `jbm.bridges`: what it has taken on from elsewhere, committed with what it sent.

A store beside the sender finds a number, as the marks of checkpoints (sidecar/checkpoints/producer_pool.py): an offset
of a group that never has members. Kafka forgets such offsets when nothing was committed there for
`offsets.retention.minutes`, a week by default.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from jbm_kafka.core.channel.checkpoint_id import CommittedOffset
from jbm_kafka.core.destination import with_namespace
from jbm_kafka.ports import (
    Clock,
    Kafka,
    KafkaAdmin,
    KafkaClientError,
    OutcomeUnknown,
    Outgoing,
    RecordTooLarge,
    Refusal,
    TransactionAborted,
    TransactionalProducer,
    Unreachable,
)
from jbm_kafka.ports.fenced_sends import FencedOff
from jbm_kafka.ports.installation import SidecarConfig
from jbm_kafka.registry.own_topics import bridges_topic
from jbm_kafka.registry.registry_log import RegistryLog

log = logging.getLogger(__name__)

TIMEOUT_S = 10.0
INITIALISE_S = 30.0
LOOK_TIMEOUT_S = 30.0
TRANSACTION_TIMEOUT_MS = 10_000
SIGN_MS = 2_000
"""So often the owner of a name writes that it lives, if it has nothing else to write."""
LEASE_MS = 15_000
"""So long after its last sign an owner counts as gone: a commit alone may take TIMEOUT_S."""
_OWNER = b"owner"

Route = Callable[[Sequence[Outgoing]], None]
"""Lets records go where their units are now; KafkaClientError when that is not to be known."""
Found = TypeVar("Found")


class FencedTransactions(Generic[Found]):
    """The producer of one id, from taking it over until a failure. One thread."""

    def __init__(
        self, kafka: Kafka, registry: RegistryLog, transactional_id: str, route: Route, **options: Any
    ) -> None:
        """`registry`: where what was written before is found; `options`: of `Kafka.transactional_producer`."""
        self._kafka = kafka
        self._registry = registry
        self._id = transactional_id
        self._route = route
        self._options = options
        self._producer: TransactionalProducer | None = None

    def take_over(self) -> Found:
        """Fence whoever had the id, end what that left open, and return what it committed; see the ports."""
        self._let_go()
        self._registry.make()
        producer = self._kafka.transactional_producer(self._id, **self._options)
        try:
            producer.initialise(INITIALISE_S, known_topic=self._registry.topic)
            # What others committed by this id has its marks now, and they can write nothing more.
            found = self._found(producer)
        except BaseException:
            producer.close()
            raise
        self._producer = producer
        return found

    def _found(self, producer: TransactionalProducer) -> Found:
        """Return what was committed by the id until now; nobody else writes by it any more."""
        raise NotImplementedError

    def _begun(self, sends: Sequence[Outgoing]) -> TransactionalProducer:
        """Return the producer, in whose next transaction these records go where their units are."""
        if self._producer is None:
            raise Unreachable(f"transactional id {self._id}: it was not taken over again after a failure")
        self._route(sends)
        return self._producer

    def _let_go(self) -> None:
        """A new producer of the id ends what this one left."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.close()

    def close(self) -> None:
        """Let the id go."""
        self._let_go()


class FencedRecords(FencedTransactions[Mapping[bytes, bytes]]):
    """Implements `FencedSends`. Keys are `<name>|<key>`; under `owner` stands who has the name, and its latest sign.
    Any thread: one call waits for the other.
    """

    def __init__(
        self, kafka: Kafka, admin: KafkaAdmin, name: str, owner: str, namespace: str, *, route: Route, clock: Clock
    ) -> None:
        super().__init__(
            kafka,
            RegistryLog(kafka, admin, bridges_topic(namespace)),
            with_namespace(f"jbm.bridge.{name}", namespace),
            route,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            is_contended=True,
        )
        self._prefix = f"{name}|".encode()
        self._me = owner.encode()
        self._clock = clock
        self._signs = 0
        self._signed_ms = 0
        self._seen: tuple[bytes, int] | None = None
        """The latest sign of another owner, and when it was first seen here, monotonic."""
        self._lock = threading.RLock()

    def holder(self) -> str | None:
        """Return who else has the name, and has given a sign since this one looks; see FencedSends."""
        with self._lock:
            return self._holder()

    def _holder(self) -> str | None:
        try:
            self._registry.refresh()
            if self._silent_ms() >= LEASE_MS:
                self._registry.refresh_marked()  # an open transaction, of any bridge, may hide what it said since
        except KafkaClientError:
            self._seen = None  # nobody here has seen what it has said meanwhile
            raise
        is_gone = self._silent_ms() >= LEASE_MS
        return None if is_gone or self._seen is None else _owner_of(self._seen[0]).decode(errors="replace")

    def _silent_ms(self) -> int:
        """Return for how long another owner has shown nothing new, by what was read; 0: there is none."""
        sign, now_ms = self._registry.get(self._prefix + _OWNER), self._clock.monotonic_ms()
        if sign is None or _owner_of(sign) == self._me:
            self._seen = None
        elif self._seen is None or self._seen[0] != sign:
            self._seen = sign, now_ms
        return 0 if self._seen is None else now_ms - self._seen[1]

    def take_over(self) -> Mapping[bytes, bytes]:
        """Have the name, fence whoever had it, and return its records; see FencedSends."""
        with self._lock:
            return super().take_over()

    def _found(self, producer: TransactionalProducer) -> Mapping[bytes, bytes]:
        found = self._own_records()
        self._write(producer, (), self._new_sign())
        return {key: value for key, value in found.items() if key != _OWNER}

    def commit(self, sends: Sequence[Outgoing], records: Mapping[bytes, bytes | None]) -> None:
        """Write both, and a sign of life if it is time for one, or nothing; see FencedSends."""
        self._route(sends)  # it may take long, and signs go on meanwhile
        with self._lock:
            sign = self._new_sign() if self._is_due() else {}
            self._write(self._begun(()), sends, {**sign, **records})

    def sign(self) -> None:
        """Show others that this process lives, if it is time for that; see FencedSends."""
        with self._lock:
            if self._producer is not None and self._is_due():
                self._write(self._producer, (), self._new_sign())

    def release(self, records: Mapping[bytes, bytes | None]) -> None:
        """Write the records, and let others have the name; see FencedSends."""
        with self._lock:
            self._write(self._begun(()), (), {**records, _OWNER: None})
            self._let_go()

    def _is_due(self) -> bool:
        return self._clock.monotonic_ms() - self._signed_ms >= SIGN_MS

    def _new_sign(self) -> dict[bytes, bytes | None]:
        self._signed_ms = self._clock.monotonic_ms()
        self._signs += 1
        return {_OWNER: b"%s|%d" % (self._me, self._signs)}

    def _write(
        self, producer: TransactionalProducer, sends: Sequence[Outgoing], records: Mapping[bytes, bytes | None]
    ) -> None:
        try:
            producer.begin()
            for key, value in records.items():
                producer.produce(self._record(key, value))
            for each in sends:
                producer.produce(each)
            producer.commit(TIMEOUT_S)
        except KafkaClientError as error:
            self._let_go()
            is_fenced = isinstance(error, OutcomeUnknown) and error.is_fenced
            if is_fenced and _owner_of(self._own_records().get(_OWNER, b"")) != self._me:
                raise FencedOff(f"transactional id {self._id}: another process has taken it over") from None
            if isinstance(error, TransactionAborted):
                raise self._named(error, sends) from None
            raise

    def _named(self, error: TransactionAborted, sends: Sequence[Outgoing]) -> TransactionAborted:
        """A coordinator that may not add a partition does not say which: the error with all topics it can be."""
        if None not in error.refusals:
            return error
        topics = sorted({self._registry.topic, *(each.topic for each in sends)})
        text = f"{error}; it takes Write on topic {', topic '.join(topics)}: jbm-kafka docs security"
        return TransactionAborted(text, refusals=error.refusals)

    def close(self) -> None:
        """Write nothing more."""
        with self._lock:
            super().close()
            self._registry.close()

    def _own_records(self) -> Mapping[bytes, bytes]:
        found = self._registry.refresh_marked()
        return {key.removeprefix(self._prefix): value for key, value in found.items() if key.startswith(self._prefix)}

    def _record(self, key: bytes, value: bytes | None) -> Outgoing:
        return Outgoing(self._registry.topic, 0, self._prefix + key, value)


def _owner_of(sign: bytes) -> bytes:
    """Return who gave it; releases that gave one sign alone, when they took a name over, wrote nothing else."""
    return sign.rpartition(b"|")[0] or sign


class FencedBatches(FencedTransactions[int]):
    """Implements `NumberedBatches`."""

    def __init__(self, kafka: Kafka, registry: RegistryLog, config: SidecarConfig, name: str, *, route: Route) -> None:
        super().__init__(
            kafka,
            registry,
            with_namespace(f"jbm.{name}", config.namespace),
            route,
            transaction_timeout_ms=config.whole_transaction_ms,
            record_timeout_ms=config.record_timeout_ms,
        )
        self._commit_s = config.commit_timeout_ms / 1_000

    def cluster_id(self) -> str:
        """Returns the id of the cluster; see NumberedBatches."""
        admin = self._kafka.admin()
        try:
            return admin.cluster_id()
        finally:
            admin.close()

    @property
    def is_taken_over(self) -> bool:
        """False: `take_over` comes first; see NumberedBatches."""
        return self._producer is not None

    def write(self, number: int, records: Sequence[tuple[int, Outgoing]]) -> None:
        """Commit the records with the number; see NumberedBatches."""
        producer = self._begun([record for _, record in records])
        try:
            producer.begin()
            for token, record in records:
                _produce(producer, record, token)
            mark = {0: CommittedOffset(number, self._id)}
            producer.send_offsets(None, self._group, self._registry.topic, mark)
            producer.commit(self._commit_s)
        except OutcomeUnknown:
            self._let_go()
            raise
        except KafkaClientError:
            self._abort(producer)
            raise

    def _abort(self, producer: TransactionalProducer) -> None:
        try:
            producer.abort(self._commit_s)
        except KafkaClientError as error:
            log.info("%s; a new producer takes over", error)
            self._let_go()

    @property
    def _group(self) -> str:
        return f"{self._id}.mark"

    def _found(self, producer: TransactionalProducer) -> int:
        admin = self._kafka.admin()
        try:
            found = admin.committed(self._group, self._registry.topic, [0], timeout_s=LOOK_TIMEOUT_S)
        finally:
            admin.close()
        return found[0].position if 0 in found else 0


def _produce(producer: TransactionalProducer, record: Outgoing, token: int) -> None:
    try:
        producer.produce(record, token)
    except RecordTooLarge as error:  # it is known before a broker says so
        refusals: dict[object, Refusal] = {token: Refusal(error, topic=record.topic)}
        raise TransactionAborted(str(error), failed=frozenset([token]), refusals=refusals) from None
