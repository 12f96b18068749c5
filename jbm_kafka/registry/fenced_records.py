"""The topic `jbm.bridges`: what each bridge has taken on from elsewhere, in one transaction with what it sent.

The transactional id is that of the name, `jbm.bridge.<name>`, so Kafka lets only whoever initialised it last write.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Mapping, Sequence

from jbm_kafka.core.destination import with_namespace
from jbm_kafka.ports import (
    Kafka,
    KafkaAdmin,
    KafkaClientError,
    OutcomeUnknown,
    Outgoing,
    TransactionAborted,
    TransactionalProducer,
    Unreachable,
)
from jbm_kafka.ports.fenced_sends import FencedOff
from jbm_kafka.registry.own_topics import bridges_topic
from jbm_kafka.registry.registry_log import RegistryLog

log = logging.getLogger(__name__)

TIMEOUT_S = 10.0
INITIALISE_S = 30.0
TRANSACTION_TIMEOUT_MS = 10_000
_OWNER = b"owner"


def bridge_transactional_id(name: str, namespace: str) -> str:
    """By which the processes that run a bridge fence each other."""
    return with_namespace(f"jbm.bridge.{name}", namespace)


class FencedRecords:
    """Implements `FencedSends`. Keys are `<name>|<key>`; under `owner` stands who took the name over last."""

    def __init__(
        self,
        kafka: Kafka,
        admin: KafkaAdmin,
        name: str,
        namespace: str,
        *,
        route: Callable[[Sequence[Outgoing]], None],
    ) -> None:
        """`route`: lets records go where their units are now; KafkaClientError when that is not to be known."""
        self._kafka = kafka
        self._topic = bridges_topic(namespace)
        self._log = RegistryLog(kafka, admin, self._topic)
        self._transactional_id = bridge_transactional_id(name, namespace)
        self._prefix = f"{name}|".encode()
        self._route = route
        self._producer: TransactionalProducer | None = None
        self._me = secrets.token_hex(8).encode()

    def take_over(self) -> Mapping[bytes, bytes]:
        """Be the one that has the name; see FencedSends."""
        self._let_go()
        self._log.make()
        producer = self._kafka.transactional_producer(
            self._transactional_id, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS, is_contended=True
        )
        try:
            producer.initialise(INITIALISE_S, known_topic=self._topic)
            # What others committed by this id has its marks now, and they can write nothing more.
            found = self._own_records()
            producer.begin()
            producer.produce(self._record(_OWNER, self._me))
            producer.commit(TIMEOUT_S)
        except BaseException:
            producer.close()
            raise
        self._producer = producer
        return {key: value for key, value in found.items() if key != _OWNER}

    def commit(self, sends: Sequence[Outgoing], records: Mapping[bytes, bytes | None]) -> None:
        """Write both, or nothing; see FencedSends."""
        producer = self._producer
        if producer is None:
            raise Unreachable(f"transactional id {self._transactional_id}: it was not taken over again after a failure")
        self._route(sends)
        try:
            producer.begin()
            for key, value in records.items():
                producer.produce(self._record(key, value))
            for each in sends:
                producer.produce(each)
            producer.commit(TIMEOUT_S)
        except TransactionAborted:
            self._let_go()
            raise
        except OutcomeUnknown as error:
            self._let_go()
            if error.is_fenced and self._own_records().get(_OWNER) != self._me:
                text = f"transactional id {self._transactional_id}: another process has taken it over"
                raise FencedOff(text) from None
            raise
        except KafkaClientError:
            self._let_go()
            raise

    def close(self) -> None:
        """Let go of the name."""
        self._let_go()
        self._log.close()

    def _own_records(self) -> Mapping[bytes, bytes]:
        found = self._log.refresh_marked()
        return {key.removeprefix(self._prefix): value for key, value in found.items() if key.startswith(self._prefix)}

    def _record(self, key: bytes, value: bytes | None) -> Outgoing:
        return Outgoing(self._topic, 0, self._prefix + key, value)

    def _let_go(self) -> None:
        """A new producer of the id ends what this one left."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.close()
