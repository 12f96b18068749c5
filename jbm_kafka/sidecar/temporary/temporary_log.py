"""The process's reader of `jbm.temporary`: one partition, sorted by whose each record is (decision 33)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from jbm_kafka.codec.one_header import last_value
from jbm_kafka.core.temporary_name import TEMPORARY_HEADER
from jbm_kafka.ports import Kafka, KafkaAdmin, KafkaClientError, KafkaRecord, PositionOutOfRange, TailReader
from jbm_kafka.ports.patience import Patience
from jbm_kafka.ports.steps import GO_ON, Steps, StepWorker, Wait, Workers
from jbm_kafka.sidecar.feeds.log_feed import LogFeed

log = logging.getLogger(__name__)

POLL_COUNT = 500
POLL_S = 0.1
"""How long stopping may have to wait for the reader."""
RETRY_S = 0.5
STOP_TIMEOUT_S = 10.0

TakeRecord = Callable[[KafkaRecord], None]


class Taker(Protocol):
    """The taker of one temporary destination's records. Called under the lock of the log, in the order of the log."""

    def take(self, records: Sequence[KafkaRecord]) -> None: ...
    @property
    def notify(self) -> Callable[[], None]:
        """To be called after that, without the lock."""


class Unread:
    """Notes where the messages of a destination begin that nobody reads yet. A `Taker`."""

    def __init__(self, first: int = 0) -> None:
        """`first`: nothing before this offset counts, though the process's reader may not have come so far."""
        self.first = first
        self.begin: int | None = None
        """None: nothing is unread."""

    def take(self, records: Sequence[KafkaRecord]) -> None:
        for record in records:
            if self.begin is None and (record.offset() or 0) >= self.first:
                self.begin = record.offset() or 0

    def notify(self) -> None:
        """Nobody waits."""


class TemporaryLog:
    """Reads from where it ended when it was begun, until `stop`. Any thread. A `FedLog`."""

    topic_id = ""
    is_missing = False

    def __init__(
        self,
        *,
        kafka: Kafka,
        admin: KafkaAdmin,
        workers: Workers,
        topic: str,
        partition: int,
        catch_up: Callable[[LogFeed], None],
    ) -> None:
        self._kafka = kafka
        self._admin = admin
        self._workers = workers
        self.topic = topic
        self.partition = partition
        self.lock = threading.RLock()
        self.positions = {partition: 0}
        """Everything below was given to its takers."""
        self.read_behind = catch_up
        self._takers: dict[bytes, list[Taker]] = {}
        """The takers by the name of the temporary destination."""
        self._handlers: dict[bytes, TakeRecord] = {}
        """The same for what is called without the lock."""
        self._stopping = threading.Event()
        self._worker: StepWorker | None = None

    def begin(self) -> None:
        """Read from now on.

        Raises:
            KafkaClientError: the cluster does not say where the log ends.
        """
        self.positions = dict(self._admin.end_positions(self.topic, [self.partition], stable=True))
        self._worker = self._workers.start("jbm-temporary", self._run())

    def add(self, name: str, taker: Taker) -> None:
        """Give it what comes for the destination from now on."""
        with self.lock:
            self._takers.setdefault(name.encode(), []).append(taker)

    def remove(self, taker: Taker) -> None:
        """Give it nothing more."""
        with self.lock:
            for name, takers in list(self._takers.items()):
                if taker in takers:
                    self._takers[name] = [each for each in takers if each is not taker]
                    if not self._takers[name]:
                        del self._takers[name]

    def look(self) -> None:
        """The topic stays, and the partition too."""

    def call(self, name: str, handler: TakeRecord | None) -> None:
        """Call it for each record of the destination, on the reader's thread; None: no more."""
        with self.lock:
            if handler is None:
                self._handlers.pop(name.encode(), None)
            else:
                self._handlers[name.encode()] = handler

    def stop(self, patience: Patience) -> None:
        """Read no more; return when the reader has ended, or the patience has."""
        self._stopping.set()
        if self._worker is not None:
            patience.wait(self._worker.wait_end, STOP_TIMEOUT_S)

    # -- the reader's thread -----------------------------------------------------------------------------------------

    def _run(self) -> Steps:
        reader = self._kafka.tail_reader()
        try:
            is_assigned = False
            while not self._stopping.is_set():
                try:
                    if not is_assigned:
                        reader.assign(self.topic, self.positions)
                        is_assigned = True
                    self._read(reader)
                    yield GO_ON
                except PositionOutOfRange:
                    is_assigned = False
                    self._skip_what_is_gone()
                except KafkaClientError as error:
                    log.warning("%s: %s; messages of temporary destinations wait, it is tried again", self.topic, error)
                    is_assigned = False
                    yield Wait(RETRY_S, self._stopping)
        finally:
            reader.close()

    def _read(self, reader: TailReader) -> None:
        records = reader.poll(POLL_COUNT, POLL_S)
        position = reader.positions()[self.partition]
        if not records and position == self.positions[self.partition]:
            return
        named = [(last_value(record.headers(), TEMPORARY_HEADER), record) for record in records]
        told: dict[Taker, None] = {}
        with self.lock:
            for name, record in named:
                for taker in self._takers.get(name, ()) if name is not None else ():
                    taker.take([record])
                    told[taker] = None
            self.positions[self.partition] = max(self.positions[self.partition], position)
        for taker in told:
            taker.notify()
        for name, record in named:
            handler = None if name is None else self._handlers.get(name)
            if handler is not None:
                self._handle(handler, record)

    def _handle(self, handler: TakeRecord, record: KafkaRecord) -> None:
        try:
            handler(record)
        except Exception:  # a bug: the others' messages must come all the same
            log.exception("%s: a message could not be handed over", self.topic)

    def _skip_what_is_gone(self) -> None:
        with self.lock:
            log.warning(
                "%s[%d]: the log does not hold position %d any more, and messages of temporary destinations are lost "
                "with it; it goes on at its begin",
                self.topic,
                self.partition,
                self.positions[self.partition],
            )
            self.positions = dict(self._admin.begin_positions(self.topic, [self.partition]))
