"""Shows other processes whether this one lives, so that what it holds in the registry ends with it (decision 28).

A process is the only member of a consumer group of its own. The broker forgets a member that is not heard of for the
session timeout, and so needs nobody's clock; a name in the registry whose group has no members means nothing.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence

from jbm_kafka.core.destination import with_namespace
from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.ports import Clock, GroupConsumer, Kafka, KafkaAdmin, KafkaClientError, Unreachable
from jbm_kafka.ports.installation import SidecarConfig
from jbm_kafka.ports.patience import Patience
from jbm_kafka.ports.steps import Steps, StepWorker, Wait, Workers
from jbm_kafka.ports.wake_up import WakeUp

log = logging.getLogger(__name__)

HOLDER_PREFIX = "jbm.holder."
JOIN_TIMEOUT_MS = 30_000
"""Stock brokers delay a first join by 3 s."""
POLL_S = 0.2
LOOK_S = 0.01
STOP_TIMEOUT_S = 10.0
ANSWER_S = 1.0
RETRY_S = 2.0
MEMORY_BYTES = 2**20


class ProcessLiveness:
    """A group membership that shows that this process lives, from its first claim on. Any thread may call it."""

    def __init__(
        self,
        *,
        kafka: Kafka,
        admin: KafkaAdmin,
        config: SidecarConfig,
        topic: str,
        workers: Workers,
        clock: Clock,
        chance: Callable[[], float],
    ) -> None:
        """`topic` is there, with one partition; nothing of it is read."""
        self._kafka = kafka
        self._admin = admin
        self._config = config
        self._topic = topic
        self._workers = workers
        self._clock = clock
        self._chance = chance
        self.name = ""
        """The group; empty until it was joined once."""
        self._worker: StepWorker | None = None
        self._membership = _Membership()
        self._not_let_go: dict[str, Callable[[], None]] = {}
        """Calls that let go, by what is given back: Kafka has not taken these yet."""
        self._tried_at_ms = 0
        self._stopping = WakeUp()
        self._lock = threading.Lock()

    def when_back(self, look: Callable[[], None]) -> None:
        """Have `look` called, on this holder's own thread, whenever the group was joined: others may have thought it
        dead before. It may raise KafkaClientError, and is called again then."""
        self._membership.looks.append(look)

    def let_go(self, what: str, give_back: Callable[[], None]) -> None:
        """Give back something that is held; as often as Kafka does not take it, on this holder's own thread again.

        `give_back` leaves alone what is held anew meanwhile. With this process everything is given back anyway.
        """
        try:
            give_back()
        except (KafkaClientError, JMSError) as error:
            level = logging.INFO if isinstance(error, Unreachable) else logging.WARNING
            log.log(level, "%s cannot be given back now, others have to wait; it is tried again: %s", what, error)
            self._not_let_go[what] = give_back

    def ensure(self) -> str:
        """The name to hold things by; others see it alive from now on.

        Raises:
            JMSError: the group cannot be joined.
        """
        with self._lock:
            if self._worker is None or not self._worker.is_alive:
                self._begin()
            deadline_ms = self._clock.monotonic_ms() + JOIN_TIMEOUT_MS
            while not self._has_joined():
                if self._membership.failure is not None:
                    raise JMSError(f"group {self.name}: {self._membership.failure}", group=self.name)
                if self._clock.monotonic_ms() > deadline_ms:
                    raise JMSError(f"group {self.name}: not joined within {JOIN_TIMEOUT_MS // 1000} s", group=self.name)
                self._workers.pause(LOOK_S)
            return self.name

    def living(self, holders: Iterable[str]) -> frozenset[str]:
        """Return those of them that are alive, this process included.

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
        consumer = self._membership.consumer
        return consumer is not None and consumer.joined()

    def _begin(self) -> None:
        if not self.name:
            number = int(self._chance() * 2**52)
            self.name = with_namespace(f"{HOLDER_PREFIX}{number:013x}", self._config.namespace)
        self._membership.failure, self._membership.consumer = None, None
        self._worker = self._workers.start("jbm-holder", self._run())

    def _run(self) -> Steps:
        while not self._stopping.is_set():
            try:
                yield from self._live()
            except KafkaClientError as error:
                log.warning("group %s: %s; what this process holds may be given to others", self.name, error)
                self._membership.failure = error
                yield Wait(RETRY_S, self._stopping)
        self._forget()

    def _live(self) -> Steps:
        """One membership: to the end, or to an error that does not go away by itself."""
        membership = self._membership
        consumer = self._kafka.group_consumer(
            group=self.name, topic=self._topic, partitions=1, listener=membership,
            session_timeout_ms=self._config.session_timeout_ms,
            rebalance_timeout_ms=self._config.rebalance_timeout_ms, memory_bytes=MEMORY_BYTES,
        )  # fmt: skip
        try:
            membership.consumer, membership.failure = consumer, None
            while not self._stopping.is_set():
                consumer.consume(1, 0)
                if membership.is_new:
                    self._look_again()
                if self._not_let_go and consumer.joined() and self._is_due():
                    self._let_go_again()
                yield Wait(POLL_S if consumer.joined() else LOOK_S, self._stopping)
        finally:
            membership.consumer = None
            consumer.close()

    def _look_again(self) -> None:
        try:
            for look in self._membership.looks:
                look()
            self._membership.is_new = False
        except KafkaClientError as error:
            log.debug("group %s: what it held is looked for again: %s", self.name, error)

    def _is_due(self) -> bool:
        return self._clock.monotonic_ms() - self._tried_at_ms >= RETRY_S * 1000

    def _let_go_again(self) -> None:
        for what, give_back in list(self._not_let_go.items()):
            try:
                self._admin.check_answered(ANSWER_S)
                give_back()
            except (KafkaClientError, JMSError) as error:
                log.debug("%s cannot be given back yet: %s", what, error)
                if isinstance(error, Unreachable):
                    break
            else:
                if self._not_let_go.get(what) is give_back:
                    del self._not_let_go[what]
        self._tried_at_ms = self._clock.monotonic_ms()

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


class _Membership:
    """A `GroupListener` that starts no partition: as the only member it is given one whenever it has joined."""

    def __init__(self) -> None:
        self.consumer: GroupConsumer | None = None
        self.failure: Exception | None = None
        self.looks: list[Callable[[], None]] = []
        self.is_new = False
        """It has joined since this was last read."""

    def on_assigned(self, partitions: Sequence[int]) -> Mapping[int, int]:
        self.is_new = True
        return {}

    def on_revoked(self, partitions: Sequence[int]) -> None:
        return None

    def on_lost(self, partitions: Sequence[int]) -> None:
        return None
