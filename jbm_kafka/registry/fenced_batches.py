"""Numbered transactions: the number is an offset of a group of their own, which commits with the records.

As the marks of checkpoints (sidecar/checkpoints/producer_pool.py) the group never has members. Kafka forgets such
offsets when nothing was committed there for `offsets.retention.minutes`, a week by default.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from jbm_kafka.core.channel.checkpoint_id import CommittedOffset
from jbm_kafka.core.destination import with_namespace
from jbm_kafka.ports import (
    Kafka,
    KafkaClientError,
    OutcomeUnknown,
    Outgoing,
    RecordTooLarge,
    Refusal,
    TransactionAborted,
    TransactionalProducer,
)
from jbm_kafka.ports.installation import SidecarConfig
from jbm_kafka.registry.registry_log import RegistryLog

log = logging.getLogger(__name__)

INITIALISE_TIMEOUT_S = 30.0
LOOK_TIMEOUT_S = 30.0


def batches_transactional_id(name: str, namespace: str) -> str:
    """Returns the id by which those who write these batches fence each other."""
    return with_namespace(f"jbm.{name}", namespace)


class FencedBatches:
    """Implements `NumberedBatches`. One thread."""

    def __init__(
        self,
        kafka: Kafka,
        registry: RegistryLog,
        config: SidecarConfig,
        name: str,
        *,
        route: Callable[[Sequence[Outgoing]], None],
    ) -> None:
        """`route`: lets records go where their units are now; KafkaClientError when that is not to be known."""
        self._kafka = kafka
        self._registry = registry
        self._config = config
        self._id = batches_transactional_id(name, config.namespace)
        self._route = route
        self._producer: TransactionalProducer | None = None

    def cluster_id(self) -> str:
        """Returns the id of the cluster; see NumberedBatches."""
        admin = self._kafka.admin()
        try:
            return admin.cluster_id()
        finally:
            admin.close()

    def take_over(self) -> int:
        """Fence, and return the number committed last; see NumberedBatches."""
        self.close()
        self._registry.make()
        producer = self._kafka.transactional_producer(
            self._id,
            transaction_timeout_ms=self._config.whole_transaction_ms,
            record_timeout_ms=self._config.record_timeout_ms,
        )
        try:
            producer.initialise(INITIALISE_TIMEOUT_S, known_topic=self._registry.topic)
            number = self._number()
        except BaseException:
            producer.close()
            raise
        self._producer = producer
        return number

    def write(self, number: int, records: Sequence[tuple[int, Outgoing]]) -> None:
        """Commit the records with the number; see NumberedBatches."""
        producer = self._producer
        if producer is None:
            raise OutcomeUnknown(f"transactional id {self._id}: it was not taken over")
        self._route([record for _, record in records])
        try:
            producer.begin()
            for token, record in records:
                _produce(producer, record, token)
            mark = {0: CommittedOffset(number, self._id)}
            producer.send_offsets(None, self._group, self._registry.topic, mark)
            producer.commit(self._config.commit_timeout_ms / 1_000)
        except OutcomeUnknown:
            self.close()
            raise
        except KafkaClientError:
            self._abort(producer)
            raise

    def close(self) -> None:
        """Let the id go."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.close()

    def _abort(self, producer: TransactionalProducer) -> None:
        try:
            producer.abort(self._config.commit_timeout_ms / 1_000)
        except KafkaClientError as error:
            log.info("%s; a new producer takes over", error)
            self.close()

    @property
    def _group(self) -> str:
        return f"{self._id}.mark"

    def _number(self) -> int:
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
