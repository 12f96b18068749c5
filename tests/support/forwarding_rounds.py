"""Processes that forward one store after the other, to a Kafka in memory that they share."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import cast

from jbm_kafka import ConnectionFactory, Queue
from jbm_kafka.codec.stored_sends import StoredEntry, StoredSend
from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.ports import KafkaClientError
from jbm_kafka.ports.clock import Clock, SystemClock
from jbm_kafka.ports.fenced_sends import ProviderOfBatches
from jbm_kafka.ports.installation import Installation, SidecarConfig
from jbm_kafka.providers import in_memory
from jbm_kafka.providers.in_memory import use_world
from jbm_kafka.store_and_forward.send_store import SendStore
from jbm_kafka.store_and_forward.store_forwarder import StoreForwarder
from jbm_kafka.store_and_forward.store_limits import StoreLimits
from tests.support.store_image import copy_of_moment

QUEUES = ("a", "b")


class Rounds:
    """Processes that forward the same store, one after the other."""

    def __init__(self, folder: Path, world: str, *, fsync: bool = False, clock: Clock | None = None) -> None:
        self._fsync = fsync
        self._clock = clock or SystemClock()
        self.world = use_world(world)
        self._url = f"memory://{world}"
        self._folder = folder
        self._installation = Installation(world, {}, None, SidecarConfig())
        self._opened = ExitStack()
        self._opened.callback(self.world.let_go)
        self._connection = self._opened.enter_context(ConnectionFactory(self._url).create_connection())
        self._session = self._connection.create_session()
        for queue in QUEUES:
            self._session.create_producer(Queue(queue))
        self._count = 0
        self.store: SendStore
        self.forwarder: StoreForwarder
        self.start()

    def start(self, synced: Mapping[str, int] | None = None) -> None:
        """Another process takes over what the last one left.

        `synced`: the machine lost power, and of each file that RocksDB writes on to the disk has so many bytes.
        """
        self._count += 1
        folder = self._folder / str(self._count)
        if self._count > 1:
            last = self._folder / str(self._count - 1)
            copy_of_moment(last, folder)
            for log in (folder / "rocks").glob("*.log") if synced is not None else ():
                size = min(log.stat().st_size, (synced or {}).get(str(last / "rocks" / log.name), 0))
                os.truncate(log, size)
        self.store = SendStore.open(folder, namespace="", limits=StoreLimits(), fsync=self._fsync, clock=self._clock)
        self._opened.callback(self.store.close)
        self.forwarder = StoreForwarder(self.store, self._connect, self._clock)

    def _connect(self) -> ProviderOfBatches:
        provider = in_memory.connect(self._installation)
        self._opened.callback(provider.close)
        return cast(ProviderOfBatches, provider)

    def put(self, number: int, *queues: str, size: int = 0) -> None:
        """Store one entry that sends its number to each queue, in one unit."""
        headers = (("padding", os.urandom(size)),)
        sends = [StoredSend(f"queue:{queue}", 0, b"u", b"%d" % number, headers, 1_000) for queue in queues]
        self.store.put(StoredEntry(1_000, sends))

    def forward_all(self) -> None:
        """Go on until nothing is left, as the thread does."""
        for _ in range(100):
            try:
                if not self.forwarder.forward() and not self.store.counts().waiting:
                    return
            except (JMSError, KafkaClientError):
                continue
        raise AssertionError(self.store.counts())

    def found(self, queue: str) -> list[int]:
        """Returns what a queue has."""
        browser = self._session.create_browser(Queue(queue), include="all")
        return [int(cast(bytes, message.body)) for message in browser]

    def close(self) -> None:
        """End all of it."""
        self._opened.close()
