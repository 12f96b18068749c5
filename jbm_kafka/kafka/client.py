"""One Kafka cluster, as the maker of the parts the ports name."""

import os
import platform
import threading
from collections.abc import Mapping
from typing import Any

from jbm_kafka.core.channel.process_names import member_client_id
from jbm_kafka.core.destination import with_namespace
from jbm_kafka.kafka import forks
from jbm_kafka.kafka.cluster_admin import ConfluentAdmin
from jbm_kafka.kafka.counted_lines import counted_at
from jbm_kafka.kafka.group_consumer import ConfluentGroupConsumer
from jbm_kafka.kafka.log_reader import ConfluentLogReader
from jbm_kafka.kafka.profiles import (
    GROUP_REFRESH_MS,
    group_settings,
    log_settings,
    offsets_settings,
    sender_settings,
    tail_settings,
    transactional_settings,
)
from jbm_kafka.kafka.record_sender import ConfluentSender
from jbm_kafka.kafka.session_limits import refused_session_timeout
from jbm_kafka.kafka.settings import ClientLog, check_client_settings, common_settings
from jbm_kafka.kafka.shared_producer import SharedProducer
from jbm_kafka.kafka.tail_reader import ConfluentTailReader
from jbm_kafka.kafka.transaction_log import ConfluentTransactionLog
from jbm_kafka.kafka.transactional_producer import ConfluentTransactionalProducer
from jbm_kafka.ports import GroupListener
from jbm_kafka.ports.installation import RECORD_TIMEOUT_MS
from jbm_kafka.ports.kept_at_fork import kept_at_fork

_REFRESH = "topic.metadata.refresh.interval.ms"
_QUEUE_KBYTES = "queue.buffering.max.kbytes"
_QUEUE_KBYTES_MAX = 2_147_483_647
"""More librdkafka does not take."""
_CONNECTIONS_FILL = 4


class ConfluentKafka:
    """Implements `ports.Kafka` over confluent-kafka."""

    def __init__(
        self,
        bootstrap: str,
        client_settings: Mapping[str, object] | None = None,
        *,
        namespace: str = "",
        memory_bytes: int = 64 * 2**20,
        admin_timeout_s: float = 10.0,
        send_timeout_ms: int = 30_000,
    ) -> None:
        """
        Args:
            bootstrap: `host:port`, several separated by commas.
            client_settings: librdkafka properties (security, addresses, tuning) for every client made here.
            namespace: whose groups these credentials may describe; readers, which have none, name one of them.
            memory_bytes: bound of a sender's queue, of a transaction's queue and of a log reader's prefetch, each.
            admin_timeout_s: bound of every call of an admin.
            send_timeout_ms: when plain sends that nobody confirmed are given up.

        Raises:
            IllegalStateError: this is the fork of a process that had clients.
            InvalidSettingError: a client setting is ours to make, unknown, or has a wrong value.
        """
        forks.check()
        check_client_settings(client_settings or {})
        self._bootstrap = bootstrap
        self._client_settings = dict(client_settings or {})
        self._reader_group = with_namespace("jbm.reader", namespace)
        self._memory_bytes = memory_bytes
        self._admin_timeout_s = admin_timeout_s
        self._send_timeout_ms = send_timeout_ms
        self._lock = threading.RLock()
        self._producers: dict[int, SharedProducer] = {}
        """The producers by linger time, and those of them that have ended."""

    def group_consumer(
        self,
        *,
        group: str,
        topic: str,
        partitions: int,
        listener: GroupListener,
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
        memory_bytes: int,
        client_id: str = "",
    ) -> ConfluentGroupConsumer:
        ours = group_settings(
            group=group,
            partitions=partitions,
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=rebalance_timeout_ms,
            memory_bytes=memory_bytes,
        )
        settings = self._settings(ours)
        settings[_REFRESH] = self._client_settings.get(_REFRESH, GROUP_REFRESH_MS)
        if "client.id" not in self._client_settings:  # else it is the user's, maybe for a quota: left as it is
            settings["client.id"] = member_client_id(platform.node(), os.getpid(), client_id)
        return kept_at_fork(
            ConfluentGroupConsumer(
                settings,
                group=group,
                topic=topic,
                listener=listener,
                bootstrap=self._bootstrap,
                refused_session_timeout=lambda: refused_session_timeout(
                    self._settings({}), self._bootstrap, session_timeout_ms
                ),
            )
        )

    def transactional_producer(
        self,
        transactional_id: str,
        *,
        transaction_timeout_ms: int,
        is_contended: bool = False,
        record_timeout_ms: int = RECORD_TIMEOUT_MS,
        is_bulk: bool = False,
    ) -> ConfluentTransactionalProducer:
        """`is_bulk`: for very many records. They may wait for a broker as long as the transaction may take, and those
        that are written are not reported: `commit` tells no positions."""
        ours = transactional_settings(transactional_id, transaction_timeout_ms, record_timeout_ms, self._memory_bytes)
        if is_bulk:
            ours |= {"message.timeout.ms": transaction_timeout_ms, "delivery.report.only.error": True}
        logger = ClientLog(counted_at(self._bootstrap), is_contended=is_contended)
        return kept_at_fork(
            ConfluentTransactionalProducer(
                {**self._settings(ours), "logger": logger}, bootstrap=self._bootstrap, is_contended=is_contended
            )
        )

    def sender(self, *, linger_ms: int = 0) -> ConfluentSender:
        """All of one linger time share a producer."""
        forks.check()
        settings = self._settings(sender_settings(self._memory_bytes, linger_ms))
        room_kbytes = int(settings[_QUEUE_KBYTES])
        with self._lock:
            shared = self._producers.get(linger_ms)
            if shared is None or not shared.join():
                # More than any connection may have under way, so that one which has that leaves room for others.
                settings[_QUEUE_KBYTES] = min(_CONNECTIONS_FILL * room_kbytes, _QUEUE_KBYTES_MAX)
                shared = SharedProducer(settings, bootstrap=self._bootstrap, send_timeout_ms=self._send_timeout_ms)
                self._producers[linger_ms] = shared
        return ConfluentSender(shared, room_bytes=room_kbytes * 1024)

    def log_reader(self) -> ConfluentLogReader:
        settings = self._settings(log_settings(self._memory_bytes, self._reader_group))
        return kept_at_fork(ConfluentLogReader(settings, bootstrap=self._bootstrap))

    def tail_reader(self) -> ConfluentTailReader:
        settings = self._settings(tail_settings(self._memory_bytes, self._reader_group))
        return kept_at_fork(ConfluentTailReader(settings, bootstrap=self._bootstrap))

    def transaction_log(self) -> ConfluentTransactionLog:
        return ConfluentTransactionLog(self.admin(), self.log_reader())

    def admin(self) -> ConfluentAdmin:
        return kept_at_fork(
            ConfluentAdmin(
                self._settings({}),
                group_settings=self._settings(offsets_settings(self._reader_group)),
                bootstrap=self._bootstrap,
                timeout_s=self._admin_timeout_s,
            )
        )

    def _settings(self, ours: Mapping[str, Any]) -> dict[str, Any]:
        """Ours are preferences where the user may speak, and the last word where `CONTROLLED` says so."""
        forks.check()
        forks.note_client()
        return {**ours, **common_settings(self._bootstrap, self._client_settings)}
