"""A connection's way to the sidecar that runs in its process; the same whatever Kafka is behind that."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping

from jbm_kafka.codec.record_size import batch_bytes
from jbm_kafka.core.address_settings import ResolvedSettings
from jbm_kafka.core.destination import Destination, Queue
from jbm_kafka.core.errors import JMSError, JMSSecurityError, MessageTooLargeError, SendTimeoutError
from jbm_kafka.core.selectors.selector import Selector
from jbm_kafka.core.subscription import Source, Subscription
from jbm_kafka.ports import (
    AccessRefused,
    KafkaClientError,
    Outgoing,
    RecordTooLarge,
    SendReport,
    UnknownTopic,
    Unreachable,
)
from jbm_kafka.ports.client_errors import told_as_jms_errors
from jbm_kafka.ports.installation import Installation
from jbm_kafka.ports.link import Link
from jbm_kafka.ports.provider import Seen, TopicInfo, Traits
from jbm_kafka.ports.unit_of_work import UnitOfWork
from jbm_kafka.providers.plain_sends import PlainSends
from jbm_kafka.providers.shared_sidecars import RunningSidecar
from jbm_kafka.sidecar.browse import browse
from jbm_kafka.sidecar.group_worker import GroupWorker, transfer_of
from jbm_kafka.sidecar.topics import gone

FLUSH_TIMEOUT_S = 60.0


class SidecarProvider:
    """Implements `Provider`: one connection's way to the sidecar, and its own producers for plain sends."""

    def __init__(
        self, installation: Installation, running: RunningSidecar, *, compresses: bool, let_go: Callable[[], None]
    ) -> None:
        """`let_go` is called at the end: the connection does not use the sidecar any more."""
        self._installation = installation
        self._kafka = running.kafka
        self._let_go = let_go
        self.sidecar = running.sidecar
        self.clock = running.clock
        config = running.installation.config
        self.traits = Traits(
            compresses=compresses,
            records_attempts=config.persist_delivery_count_before_delivery,
            transaction_bytes_max=config.memory_budget_bytes // 4,
            join_timeout_s=config.join_timeout_s,
        )
        self.known_topic = running.sidecar.topics.usable
        """See Provider; here, and no method, for every send asks it."""
        self._plain = PlainSends(self._kafka.sender)
        self._lock = threading.Lock()
        self._is_closed = False
        self._client_id: tuple[str, str] | None = None
        """And the connection that has it."""

    def ensure(self, destination: Destination) -> TopicInfo:
        """The destination's topic; see Sidecar.ensure."""
        return self.sidecar.ensure(destination)

    def hold_client_id(self, client_id: str, connection_id: str) -> None:
        """Have the client id for this connection alone; see ClientIds."""
        self.sidecar.client_ids.hold(client_id, connection_id)
        self._client_id = client_id, connection_id

    def subscribe(self, subscription: Subscription) -> None:
        """Have the subscription; see Sidecar.subscribe."""
        self.sidecar.subscribe(subscription)

    def end_use(self, subscription: Subscription) -> None:
        """One consumer less."""
        self.sidecar.end_use(subscription)

    def unsubscribe(self, client_id: str, name: str) -> None:
        """End a durable subscription."""
        self.sidecar.unsubscribe(client_id, name)

    def attach(self, source: Source, link: Link) -> GroupWorker:
        """Begin to serve a receiver."""
        return self.sidecar.attach(source, link)

    def settings_of(self, name: str) -> ResolvedSettings:
        """The address settings in force for a destination."""
        return self.sidecar.settings_of(name)

    def end_positions(self, source: Source, timeout_s: float) -> Mapping[int, int]:
        """The stable end of our partitions of it, as of now; none when the cluster does not say so in time."""
        return self.sidecar.end_positions(source, timeout_s)

    def submit(self, work: UnitOfWork) -> None:
        """Commit a session's transaction, after the connection's outstanding plain sends."""
        if work.sends and not self._plain.flush(FLUSH_TIMEOUT_S):
            raise SendTimeoutError(f"{work.about}: earlier sends are not confirmed after {FLUSH_TIMEOUT_S:g} s")
        self.sidecar.submit(transfer_of(work))

    def browse(self, queue: Queue, *, include: str, selector: Selector | None) -> Iterator[Seen]:
        """What a queue holds; see sidecar/browse.py. A queue that does not exist is not made for it.

        Raises:
            InvalidDestinationError: there is no such queue.
        """
        with told_as_jms_errors(f"browse {queue}"):
            self.sidecar.topics.check_exists(queue)
        return self._seen(queue, include=include, selector=selector)

    def _seen(self, queue: Queue, *, include: str, selector: Selector | None) -> Iterator[Seen]:
        found = browse(
            self._kafka,
            queue,
            namespace=self._installation.config.namespace,
            now_ms=self.clock.now_ms(),
            group_worker=self.sidecar.group_worker_of(queue),
            include_all=include == "all",
            selector=selector,
        )
        with told_as_jms_errors(f"browse {queue}"):
            yield from found

    def send(self, record: Outgoing, report: SendReport | None, *, is_waited_for: bool) -> None:
        """Send outside of transactions; see PlainSends.

        Raises:
            KafkaClientError: nothing was sent; `send_error` says it to the caller.
        """
        self._plain.send(record, report, is_waited_for=is_waited_for)

    def prepare_to_send(self) -> None:
        """Send soon; see PlainSends."""
        self._plain.prepare()

    def send_error(self, error: KafkaClientError, destination: Destination) -> JMSError:
        """What the caller of a send should see. A topic that has gone is forgotten: the next send looks for it."""
        if isinstance(error, UnknownTopic):
            self.sidecar.topics.forget(destination.name)
            return gone(destination.name, about=str(destination))
        if isinstance(error, RecordTooLarge):
            return _too_large(error, destination)
        if isinstance(error, AccessRefused):
            return JMSSecurityError(str(error))
        if isinstance(error, Unreachable):
            return SendTimeoutError(f"{error}; the message counts as not sent")
        return JMSError(str(error))

    def flush(self, timeout_s: float) -> bool:
        """True when every plain send was reported."""
        return self._plain.flush(timeout_s)

    def close(self) -> None:
        """Flush the sends and let the sidecar go; the last connection ends it."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        self._plain.close(FLUSH_TIMEOUT_S)
        if self._client_id is not None:
            self.sidecar.client_ids.release(*self._client_id)
        self._let_go()


def _too_large(error: RecordTooLarge, destination: Destination) -> MessageTooLargeError:
    record = error.record
    if record is None:
        return MessageTooLargeError(f"{destination}: {error}; send less, or raise max.message.bytes of the topic")
    size, most = batch_bytes(record.key, record.value, record.headers), record.batch_bytes_max
    takes = f"its topic takes {most} (max.message.bytes), after compression"
    if size <= most:
        takes = (
            f"its topic took {most} (max.message.bytes) when it was looked at: it takes less now, or not a batch that "
            f"this one came in (kafka={{'batch.size': …}})"
        )
    return MessageTooLargeError(
        f"{destination}: a message of {size} bytes with its properties is too large; {takes}. Send less, or raise "
        f"max.message.bytes",
        size_bytes=size,
        max_message_bytes=most,
    )
