"""The embedded provider: a sidecar in this process, shared by all connections to the same installation."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator, Mapping

from jbm_kafka.codec.record_size import TRUSTED_COMPRESSION
from jbm_kafka.core.address_settings import ResolvedSettings
from jbm_kafka.core.destination import Destination, Queue
from jbm_kafka.core.errors import (
    InvalidSettingError,
    JMSError,
    JMSSecurityError,
    MessageTooLargeError,
    SendTimeoutError,
)
from jbm_kafka.kafka import ConfluentKafka
from jbm_kafka.kafka.clock import SystemClock
from jbm_kafka.kafka.settings import check_client_settings
from jbm_kafka.ports import (
    AccessRefused,
    KafkaClientError,
    Outgoing,
    RecordTooLarge,
    Sender,
    SendReport,
    UnknownTopic,
    Unreachable,
)
from jbm_kafka.ports.installation import Installation
from jbm_kafka.ports.link import Link
from jbm_kafka.ports.provider import Seen, TopicInfo, Traits
from jbm_kafka.ports.unit_of_work import UnitOfWork
from jbm_kafka.sidecar.browse import browse
from jbm_kafka.sidecar.lane import Lane, transfer_of
from jbm_kafka.sidecar.sidecar import Sidecar, state_path
from jbm_kafka.sidecar.stores import Stores
from jbm_kafka.sidecar.topics import gone

log = logging.getLogger(__name__)

FLUSH_TIMEOUT_S = 60.0


class EmbeddedProvider:
    """Implements `Provider`: one connection's way to the sidecar, and its own producer for plain sends."""

    def __init__(self, installation: Installation) -> None:
        self._installation = installation
        self._shared = _acquire(installation)
        self.sidecar = self._shared.sidecar
        self.clock = self._shared.clock
        kafka = installation.client_settings
        config = self._shared.installation.config  # of the factory that was first, where several share a sidecar
        self.traits = Traits(
            compresses=kafka.get("compression.type", kafka.get("compression.codec", "lz4")) in TRUSTED_COMPRESSION,
            records_attempts=config.persist_delivery_count_before_delivery,
            transaction_bytes_max=config.memory_budget_bytes // 4,
            join_timeout_s=config.join_timeout_s,
        )
        self._sender: Sender | None = None
        self._lock = threading.Lock()
        self._is_closed = False

    def ensure(self, destination: Destination) -> TopicInfo:
        """The destination's topic; see Sidecar.ensure."""
        return self.sidecar.ensure(destination)

    def attach(self, queue: Queue, link: Link) -> Lane:
        """Begin to serve a receiver."""
        return self.sidecar.attach(queue, link)

    def settings_of(self, name: str) -> ResolvedSettings:
        """The address settings in force for a destination."""
        return self.sidecar.settings_of(name)

    def end_positions(self, queue: Queue, timeout_s: float) -> Mapping[int, int]:
        """The stable end of our partitions of the queue, as of now; none when the cluster does not say so in time."""
        return self.sidecar.end_positions(queue, timeout_s)

    def submit(self, work: UnitOfWork) -> None:
        """Commit a session's transaction, after the connection's outstanding plain sends."""
        if self._sender is not None and work.sends and not self._sender.flush(FLUSH_TIMEOUT_S):
            raise SendTimeoutError(f"{work.about}: earlier sends are not confirmed after {FLUSH_TIMEOUT_S:g} s")
        self.sidecar.submit(transfer_of(work))

    def browse(self, queue: Queue, *, include: str) -> Iterator[Seen]:
        """What a queue holds; see sidecar/browse.py. A queue that does not exist is not made for it.

        Raises:
            InvalidDestinationError: there is no such queue.
        """
        try:
            self.sidecar.topics.check_exists(queue)
        except KafkaClientError as error:
            raise JMSError(f"browse {queue}: {error}") from None
        return browse(
            self._shared.kafka,
            queue,
            namespace=self._installation.config.namespace,
            now_ms=self.clock.now_ms(),
            lane=self.sidecar.lane_of(queue),
            include_all=include == "all",
        )

    def send(self, record: Outgoing, report: SendReport | None) -> None:
        """Send outside of transactions.

        Raises:
            KafkaClientError: nothing was sent; `send_error` says it to the caller.
        """
        self._plain_sender().send(record, report)

    def prepare_to_send(self) -> None:
        """Send soon. A new client of Kafka's may need half a second to be given its producer id."""
        self._plain_sender()

    def send_error(self, error: KafkaClientError, destination: Destination) -> JMSError:
        """What the caller of a send should see. A topic that has gone is forgotten: the next send looks for it."""
        if isinstance(error, UnknownTopic):
            self.sidecar.topics.forget(destination.name)
            return gone(destination.name, about=str(destination))
        if isinstance(error, RecordTooLarge):
            return MessageTooLargeError(f"{error}; send less, or raise max.message.bytes of the topic")
        if isinstance(error, AccessRefused):
            return JMSSecurityError(str(error))
        if isinstance(error, Unreachable):
            return SendTimeoutError(f"{error}; the message counts as not sent")
        return JMSError(str(error))

    def flush(self, timeout_s: float) -> bool:
        """True when every plain send was reported."""
        return self._sender is None or self._sender.flush(timeout_s)

    def close(self) -> None:
        """Flush the sends and let the sidecar go; the last connection ends it."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        if self._sender is not None:
            self._sender.close(FLUSH_TIMEOUT_S)
        _release(self._shared)

    def _plain_sender(self) -> Sender:
        if self._sender is None:
            with self._lock:
                if self._sender is None:
                    self._sender = self._shared.kafka.sender()
        return self._sender


def check(installation: Installation) -> None:
    """Raises InvalidSettingError for what can be seen to be wrong without a connection."""
    check_client_settings(installation.client_settings)


def connect(installation: Installation) -> EmbeddedProvider:
    """A connection's provider; the first one of an installation starts its sidecar.

    Raises:
        JMSError: the cluster cannot be reached, or the state folder not used.
        InvalidSettingError: a connection that this one would share the sidecar of was made with other `kafka`.
    """
    return EmbeddedProvider(installation)


class _Shared:
    """A sidecar with its users counted."""

    def __init__(self, installation: Installation) -> None:
        self.installation = installation
        self.clock = SystemClock()
        self.kafka = ConfluentKafka(installation.bootstrap, installation.client_settings)
        config = installation.config
        try:
            admin = self.kafka.admin()
            try:
                cluster_id = admin.cluster_id()
            finally:
                admin.close()
        except AccessRefused as error:
            raise JMSSecurityError(f"cannot connect: {error}", bootstrap=installation.bootstrap) from None
        except KafkaClientError as error:
            raise JMSError(f"cannot connect: {error}", bootstrap=installation.bootstrap) from None
        stores = Stores.open(
            state_path(installation.state_dir), cluster_id=cluster_id, namespace=config.namespace, clock=self.clock
        )
        try:
            self.sidecar = Sidecar(kafka=self.kafka, clock=self.clock, config=config, stores=stores)
        except BaseException:
            stores.close()
            raise
        self.users = 0


_Key = tuple[str, str, str | None]
_shared: dict[_Key, _Shared] = {}
_turns: dict[_Key, threading.Lock] = {}
"""Held while an installation's sidecar begins or ends, which may take long: others' do not wait for it. One for each
installation that the process ever used."""
_turns_lock = threading.Lock()


def _turn(key: _Key) -> threading.Lock:
    with _turns_lock:
        return _turns.setdefault(key, threading.Lock())


def _acquire(installation: Installation) -> _Shared:
    with _turn(installation.key):
        found = _shared.get(installation.key)
        if found is None:
            found = _shared[installation.key] = _Shared(installation)
        else:
            _refuse_other_client_settings(installation, found.installation)
            _refuse_other_settings(installation, found.installation)
        found.users += 1
        return found


def _refuse_other_client_settings(wanted: Installation, running: Installation) -> None:
    """Nobody gets a connection made with another's credentials. Values are not told: some are secrets."""
    mine, theirs = wanted.client_settings, running.client_settings
    names = sorted(name for name in mine.keys() | theirs.keys() if mine.get(name) != theirs.get(name))
    if names:
        raise InvalidSettingError(
            f"kafka settings for {wanted.bootstrap} differ from those of the connection that is open already, which "
            f"this one would share: {', '.join(names)}; use another state_dir or namespace, or close that one first",
            names=names,
            bootstrap=wanted.bootstrap,
        )


def _refuse_other_settings(wanted: Installation, running: Installation) -> None:
    """What was asked for by name and cannot be had is refused; it would be ignored in silence."""
    for name in sorted(wanted.given):
        mine, theirs = getattr(wanted.config, name), getattr(running.config, name)
        if mine != theirs:
            raise InvalidSettingError(
                f"{name} is {mine!r}, and a connection that is open already to {wanted.bootstrap}, whose sidecar this "
                f"one would share, was made with {theirs!r}: leave it out to take that, give the same, use another "
                f"state_dir or namespace, or close that connection first",
                setting=name,
                value=mine,
                running=theirs,
            )


def _release(shared: _Shared) -> None:
    with _turn(shared.installation.key):
        shared.users -= 1
        if shared.users:
            return
        del _shared[shared.installation.key]
        shared.sidecar.close()


def _after_fork() -> None:
    """A child must not use, nor close, what its parent runs, nor wait for its parent's threads."""
    global _turns_lock  # noqa: PLW0603 - another thread may have held it
    _shared.clear()
    _turns.clear()
    _turns_lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
