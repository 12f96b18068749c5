"""A connection's provider whose sends go into a store (decision 121); everything else is asked of Kafka, when it is."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from jbm_kafka.codec.stored_sends import StoredEntry, StoredSend
from jbm_kafka.core.channel.branch import Branch, Xid
from jbm_kafka.core.destination import Destination
from jbm_kafka.core.jms_errors import IllegalStateError, InvalidDestinationError, JMSError
from jbm_kafka.core.murmur2 import partition_for
from jbm_kafka.core.settings.address_settings import AddressSettingsRepository, ResolvedSettings
from jbm_kafka.core.statistics import Health, Statistics
from jbm_kafka.ports.clock import Clock
from jbm_kafka.ports.installation import Installation
from jbm_kafka.ports.kafka import KafkaClientError, SendReport
from jbm_kafka.ports.patience import Patience
from jbm_kafka.ports.provider import Provider, TopicInfo, Traits
from jbm_kafka.ports.record_to_send import Outgoing
from jbm_kafka.ports.unit_of_work import UnitOfWork
from jbm_kafka.store_and_forward.open_stores import STOP_S, OpenStore
from jbm_kafka.store_and_forward.send_store import NotStored, StoreCounts

ROUTES = 1 << 31
"""As a count of partitions it makes of a hash all of its bits, which make the partition when it is known how many
there are: the same one as if the message had been sent at once."""
NO_LIMIT_BYTES = 1 << 62
REFUSED_MS = 5_000


class StoringProvider:
    """Implements `Provider`, and what else Kafka's own provider has. Any thread."""

    def __init__(
        self,
        installation: Installation,
        opened: OpenStore,
        connect: Callable[[], Provider],
        clock: Clock,
        there: Provider | None,
    ) -> None:
        """`connect` makes Kafka's own provider, or raises JMSError while nobody answers; `there`: it is made."""
        config = installation.config
        self.clock = clock
        self.traits = Traits(
            compresses=False,
            records_attempts=config.persist_delivery_count_before_delivery,
            transaction_bytes_max=config.memory_budget_bytes // 4,
            join_timeout_s=config.join_timeout_s,
        )
        self._namespace = config.namespace
        self._resolver = AddressSettingsRepository(config.address_settings)
        self._opened = opened
        self._store = opened.store
        self._connect = connect
        self._there = there
        self._lock = threading.Lock()
        self._is_closed = False
        self._refusal: JMSError | None = None
        """The refusal of the last try to connect."""
        self._refused_at_ms = 0
        self._infos: dict[str, TopicInfo] = {}
        """The topics by name."""
        self._destinations: dict[str, Destination] = {}
        """The destinations by Kafka topic."""

    def __getattr__(self, name: str) -> Any:
        """Whatever is no send is Kafka's provider's, connected when it is asked first.

        One line for some forty members that differ in nothing: a list of them would have to follow each change of
        `Provider`, and of what the AMQP server asks besides.

        Raises:
            ConnectionFailedError: nobody answers there.
        """
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._kafka(), name)

    # -- sends -----------------------------------------------------------------------------------------------------

    def settings_of(self, name: str) -> ResolvedSettings:
        """Return the address settings in force, as far as they are known without Kafka."""
        return self._resolver.resolve(name) if self._there is None else self._there.settings_of(name)

    def known_topic(self, name: str, /) -> TopicInfo | None:
        """Return what `ensure` has returned for this name."""
        return self._infos.get(name)

    def ensure(self, destination: Destination) -> TopicInfo:
        """Return the destination without asking Kafka, which is asked when its messages are forwarded.

        Raises:
            InvalidDestinationError: the connection has used this name for the other kind.
            JMSError: it is temporary, and so needs Kafka, which does not answer.
        """
        if destination.is_temporary:
            return self._kafka().ensure(destination)
        return self._info(destination)

    def is_there(self, destination: Destination) -> bool:
        """Somebody has made it; also where nobody knows, for Kafka is away, and what is stored for it makes it."""
        asked = self._opened.forwarder.provider
        if destination.is_temporary or asked is None or self._opened.forwarder.trouble:
            return True
        return asked.is_there(destination)

    def ensure_to_send(self, destination: Destination) -> TopicInfo:
        """Do as `ensure` does."""
        return self._kafka().ensure_to_send(destination) if destination.is_temporary else self._info(destination)

    def check_sendable(self, destination: Destination) -> None:
        """Return: where somebody has paused producing, what is stored waits."""

    def place_unit(self, name: str, unit: bytes) -> int:
        """Return the unit's route; its partition is recorded when it is forwarded."""
        return partition_for(unit, ROUTES)

    def prepare_to_send(self) -> None:
        """Nothing: a store is ready."""

    def send(self, record: Outgoing, report: SendReport | None, *, is_waited_for: bool) -> None:
        """Store it.

        Raises:
            KafkaClientError: nothing was stored; `send_error` says it to the caller.
        """
        if record.topic in self._destinations:
            self._store.put_later(self._entry([record]), report)
        else:
            self._kafka().send(record, report, is_waited_for=is_waited_for)

    def try_send(self, record: Outgoing, report: SendReport | None, *, is_waited_for: bool) -> bool:
        """Do as `send` does, but never wait for the disk: False when too much waits for it."""
        if record.topic not in self._destinations:
            return self._kafka().try_send(record, report, is_waited_for=is_waited_for)
        if not self._store.has_room_to_wait():
            return False
        self.send(record, report, is_waited_for=is_waited_for)
        return True

    def send_error(self, error: KafkaClientError, destination: Destination) -> JMSError:
        """Return what the caller of a send should see."""
        return error.error if isinstance(error, NotStored) else self._kafka().send_error(error, destination)

    def flush(self, timeout_s: float) -> bool:
        """Return True when every plain send is stored, and what is not stored was reported."""
        there = self._there
        return self._store.wait_stored(timeout_s) and (there is None or there.flush(timeout_s))

    def submit(self, work: UnitOfWork) -> None:
        """Store a transaction as one entry; one that only received is Kafka's to commit.

        Raises:
            IllegalStateError: it also received, or is a branch, or sends to a temporary destination.
            JMSError: it is not stored.
        """
        stored = [record for record in work.sends if record.topic in self._destinations]
        if not stored:
            self._kafka().submit(work)
            return
        hindrance = "has received messages too" if work.received else ""
        hindrance = "is a branch of a distributed transaction" if work.branch is not None else hindrance
        hindrance = "sends to a temporary destination too" if len(stored) < len(work.sends) else hindrance
        if hindrance:
            raise IllegalStateError(
                f"{work.about}: it {hindrance}, which Kafka must know at once, and its sends go into the store "
                f"{self._store.path}: use a factory without store_and_forward for this session"
            )
        try:
            self._store.put(self._entry(stored))
        except NotStored as error:
            raise error.error from None
        work.done.complete()

    def begin_branch(self, xid: Xid) -> Branch:
        """Raises IllegalStateError: branches are not for a store."""
        raise IllegalStateError(
            f"branch {xid}: this connection sends into the store {self._store.path}, and Kafka must know a branch: use "
            f"a factory without store_and_forward"
        )

    # -- how it fares ----------------------------------------------------------------------------------------------

    def statistics(self) -> Statistics:
        """Return what Kafka's provider counts, if there is one, and what is stored."""
        found = Statistics() if self._there is None else self._there.statistics()
        counts = self._store.counts()
        oldest_ms = self.clock.now_ms() - counts.oldest_at_ms if counts.oldest_at_ms else 0
        return replace(
            found,
            store_waiting=counts.waiting,
            store_bytes=counts.waiting_bytes,
            store_oldest_seconds=max(0, oldest_ms) / 1_000,
            store_set_aside=counts.set_aside,
            store_full_ratio=counts.full_ratio,
        )

    def health(self, timeout_s: float | None) -> Health:
        """Tell whether sends can be stored; of what it receives Kafka's provider tells, if there is one."""
        found = Health(True, True) if self._there is None else self._there.health(timeout_s)
        counts = self._store.counts()
        reasons = list(found.reasons)
        if self._store.trouble:
            reasons.append(self._store.trouble)
        reasons += [f"store {self._store.path}: {text}" for text in self._opened.forwarder.troubles()]
        if counts.set_aside:
            reasons.append(
                f"store {self._store.path} has {counts.set_aside} dead letters: jbm-kafka store show {self._store.path}"
            )
        if counts.lost:
            reasons.append(f"store {self._store.path} lost {counts.lost} confirmed sends when its machine stopped")
        return Health(found.is_alive, found.is_ready and not self._store.trouble, tuple(reasons))

    # -- operators -------------------------------------------------------------------------------------------------

    def stored(self) -> StoreCounts:
        """Return how much is stored."""
        return self._store.counts()

    def retry_set_aside(self) -> int:
        """Have the dead letters of the store forwarded, behind all others; how many they are."""
        return self._store.retry()

    def forward(self, timeout_s: float) -> None:
        """Forward for so long, and no more: until nothing waits, or Kafka takes nothing for now, at most."""
        self._opened.forwarder.wait_forwarded(timeout_s)
        self._opened.forwarder.stop(STOP_S)

    @property
    def forwarded(self) -> int:
        """Return how many entries were forwarded since the store was opened."""
        return self._opened.forwarder.forwarded

    def troubles(self) -> list[str]:
        """Return a sentence for each thing that hinders it."""
        return self._opened.forwarder.troubles()

    # -- the end ---------------------------------------------------------------------------------------------------

    def begin_close(self) -> Patience:
        """Return how long closing waits for Kafka, if it was asked anything; the store waits by itself."""
        return Patience(lambda timeout_s: True) if self._there is None else self._there.begin_close()

    def give_up_sends(self) -> None:
        """Do nothing: stored sends stay stored."""
        if self._there is not None:
            self._there.give_up_sends()

    def release_client_id(self, client_id: str, connection_id: str) -> None:
        """Let go of a client id, which only Kafka's provider can hold."""
        if self._there is not None:
            self._there.release_client_id(client_id, connection_id)

    def close(self) -> None:
        """Let go of Kafka and of the store; its last user waits until it has forwarded, while Kafka takes it."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        try:
            if self._there is not None:
                self._there.close()
        finally:
            self._opened.release()

    def _info(self, destination: Destination) -> TopicInfo:
        topic = destination.kafka_topic(self._namespace)
        known = self._destinations.setdefault(topic, destination)
        if known.kind != destination.kind:
            raise InvalidDestinationError(
                f"{destination}: this connection sends to it as {known}, and a name is a queue or a topic",
                destination=destination.name,
            )
        return self._infos.setdefault(destination.name, TopicInfo(topic, "", ROUTES, NO_LIMIT_BYTES))

    def _entry(self, records: list[Outgoing]) -> StoredEntry:
        return StoredEntry(
            self.clock.now_ms(),
            [
                StoredSend(
                    str(self._destinations[record.topic]),
                    record.partition,
                    record.key,
                    record.value,
                    record.headers,
                    record.timestamp_ms,
                )
                for record in records
            ],
        )

    def _kafka(self) -> Provider:
        with self._lock:
            if self._is_closed:
                raise IllegalStateError("the connection is closed")
            if self._there is None:
                self._there = self._connected()
            return self._there

    def _connected(self) -> Provider:
        """Kafka's provider, made. An event loop may ask: so after a failure it is not tried again for a moment."""
        if self._refusal is not None and self.clock.monotonic_ms() - self._refused_at_ms < REFUSED_MS:
            raise self._refusal
        try:
            return self._connect()
        except JMSError as error:
            self._refusal, self._refused_at_ms = error, self.clock.monotonic_ms()
            raise
