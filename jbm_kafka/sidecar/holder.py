"""What this process holds in the registry ends with it: others see whether it lives (decision 28).

A process is the only member of a consumer group of its own. The broker forgets a member that is not heard of for the
session timeout, and so needs nobody's clock; a name in the registry whose group has no members means nothing.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from jbm_kafka.core.destination import with_namespace
from jbm_kafka.core.errors import JMSError
from jbm_kafka.ports import GroupConsumer, Kafka, KafkaAdmin, KafkaClientError
from jbm_kafka.ports.installation import SidecarConfig
from jbm_kafka.ports.patience import Patience
from jbm_kafka.sidecar.steps import Steps, Wait, Worker, Workers

log = logging.getLogger(__name__)

HOLDER_PREFIX = "jbm.holder."
JOIN_TIMEOUT_S = 30.0
"""Stock brokers delay a first join by 3 s."""
POLL_S = 0.2
LOOK_S = 0.01
STOP_TIMEOUT_S = 10.0
ANSWER_S = 1.0
RETRY_S = 2.0
MEMORY_BYTES = 2**20


class Holder:
    """This process as one who holds something; it joins when that begins. Any thread."""

    def __init__(
        self,
        *,
        kafka: Kafka,
        admin: KafkaAdmin,
        config: SidecarConfig,
        topic: str,
        workers: Workers,
        chance: Callable[[], float],
    ) -> None:
        """`topic` is there, with one partition; nothing of it is read."""
        self._kafka = kafka
        self._admin = admin
        self._config = config
        self._topic = topic
        self._workers = workers
        self._chance = chance
        self.name = ""
        """The group; empty until it was joined once."""
        self._worker: Worker | None = None
        self._consumer: GroupConsumer | None = None
        self._failure: Exception | None = None
        self._stopping = threading.Event()
        self._lock = threading.Lock()

    def ensure(self) -> str:
        """The name to hold things by; others see it alive from now on.

        Raises:
            JMSError: the group cannot be joined.
        """
        with self._lock:
            if self._worker is None or not self._worker.is_alive:
                self._begin()
            deadline_s = time.monotonic() + JOIN_TIMEOUT_S
            while not self._has_joined():
                if self._failure is not None:
                    raise JMSError(f"group {self.name}: {self._failure}", group=self.name)
                if time.monotonic() > deadline_s:
                    raise JMSError(f"group {self.name}: not joined within {JOIN_TIMEOUT_S:g} s", group=self.name)
                self._workers.pause(LOOK_S)
            return self.name

    def living(self, holders: Iterable[str]) -> frozenset[str]:
        """Those of them that are alive, this process included.

        Raises:
            KafkaClientError: no answer.
        """
        return frozenset(each for each in holders if each == self.name or self._admin.group_members(each) > 0)

    def stop(self, patience: Patience) -> None:
        """Leave: whatever is still held by this name is free."""
        if patience.is_over and self._worker is not None:
            self._worker.abandon()
        self._stopping.set()
        if self._worker is not None:
            patience.wait(self._worker.wait_end, STOP_TIMEOUT_S)

    def _has_joined(self) -> bool:
        consumer = self._consumer
        return consumer is not None and consumer.joined()

    def _begin(self) -> None:
        if not self.name:
            number = int(self._chance() * 2**52)
            self.name = with_namespace(f"{HOLDER_PREFIX}{number:013x}", self._config.namespace)
        self._failure, self._consumer = None, None
        self._worker = self._workers.start("jbm-holder", self._run())

    def _run(self) -> Steps:
        while not self._stopping.is_set():
            try:
                yield from self._live()
            except KafkaClientError as error:
                log.warning("group %s: %s; what this process holds may be given to others", self.name, error)
                self._failure = error
                yield Wait(RETRY_S, self._stopping)
        self._forget()

    def _live(self) -> Steps:
        """One membership: to the end, or to an error that does not go away by itself."""
        consumer = self._kafka.group_consumer(
            group=self.name, topic=self._topic, partitions=1, listener=_NothingRead(),
            session_timeout_ms=self._config.session_timeout_ms,
            rebalance_timeout_ms=self._config.rebalance_timeout_ms, memory_bytes=MEMORY_BYTES,
        )  # fmt: skip
        try:
            self._consumer, self._failure = consumer, None
            while not self._stopping.is_set():
                consumer.consume(1, 0)
                yield Wait(POLL_S if consumer.joined() else LOOK_S, self._stopping)
        finally:
            self._consumer = None
            consumer.close()

    def _forget(self) -> None:
        """The group has no offsets; left alone it would go by itself, some brokers keep it for days.

        Not while Kafka is silent: librdkafka 2.16 was seen to abort the process by an assertion
        (rd_kafka_enq_once_del_source_return) when the broker came back after the time of such a question.
        """
        try:
            self._admin.check_answered(ANSWER_S)
            self._admin.delete_groups([self.name])
        except KafkaClientError as error:
            log.debug("group %s stays until the broker forgets it: %s", self.name, error)


class _NothingRead:
    """A `GroupListener` that starts no partition."""

    def on_assigned(self, partitions: Sequence[int]) -> Mapping[int, int]:
        return {}

    def on_revoked(self, partitions: Sequence[int]) -> None:
        return None

    def on_lost(self, partitions: Sequence[int]) -> None:
        return None
