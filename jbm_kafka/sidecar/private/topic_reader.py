"""The process's reader of one topic: all partitions, for all its private subscriptions (decision 81)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from jbm_kafka.core.destination import Topic
from jbm_kafka.ports import (
    AccessRefused,
    Kafka,
    KafkaAdmin,
    KafkaClientError,
    PartitionUnreadable,
    PositionOutOfRange,
    TailReader,
    UnknownTopic,
)
from jbm_kafka.ports.patience import Patience
from jbm_kafka.ports.provider import TopicInfo
from jbm_kafka.ports.steps import GO_ON, Steps, StepWorker, Wait, Workers
from jbm_kafka.sidecar.feeds.log_feed import LogFeed

log = logging.getLogger(__name__)

POLL_COUNT = 500
POLL_S = 0.1
"""How long stopping may have to wait for the reader."""
RETRY_S = 0.5
STOP_TIMEOUT_S = 10.0


class TopicReader:
    """Reads from where the topic's partitions ended when it was begun, until `stop`. Any thread."""

    def __init__(
        self,
        destination: Topic,
        info: TopicInfo,
        *,
        kafka: Kafka,
        admin: KafkaAdmin,
        workers: Workers,
        known: Callable[[], TopicInfo | None],
        catch_up: Callable[[LogFeed], None],
    ) -> None:
        """`known`: what looks at the topic found last; `catch_up`: see FedLog.read_behind."""
        self.destination = destination
        self.topic = info.topic
        self.topic_id = info.topic_id
        self.lock = threading.RLock()
        self.positions = dict(admin.end_positions(info.topic, list(range(info.partitions)), stable=True))
        """The position of each partition: everything below was given to the feeds."""
        self.is_missing = False
        self.feeds: list[LogFeed] = []
        self.read_behind = catch_up
        self._kafka = kafka
        self._admin = admin
        self._workers = workers
        self._known = known
        self._looks = 0
        """How often partitions came, or the topic was made anew."""
        self._stopping = threading.Event()
        self._worker: StepWorker | None = None

    def start(self) -> None:
        """Read from now on."""
        self._worker = self._workers.start(f"jbm-topic-{self.topic}", self._run())

    def feed(self, room_bytes: Callable[[], int]) -> LogFeed:
        """One that is given everything from now on."""
        with self.lock:
            made = LogFeed(self, room_bytes)
            self.feeds.append(made)
            return made

    def remove(self, feed: LogFeed) -> None:
        """Give it nothing more."""
        with self.lock:
            self.feeds = [each for each in self.feeds if each is not feed]

    def stop(self, patience: Patience | None = None) -> None:
        """Read no more. With `patience` this waits for the end."""
        self._stopping.set()
        if self._worker is not None and patience is not None:
            patience.wait(self._worker.wait_end, STOP_TIMEOUT_S)

    def look(self) -> None:
        """Read also what partitions were added; and where the topic was made anew, that from its beginning."""
        info = self._known()
        with self.lock:
            if info is None or (info.topic_id == self.topic_id and info.partitions <= len(self.positions)):
                return
            if info.topic_id != self.topic_id:
                self.topic_id = info.topic_id
                self.positions.clear()
                for feed in self.feeds:
                    feed.made_anew()
            for partition in range(info.partitions):
                self.positions.setdefault(partition, 0)
            self._looks += 1
        self._notify()

    # -- the reader's thread -----------------------------------------------------------------------------------------

    def _run(self) -> Steps:
        reader = self._kafka.tail_reader()
        assigned_at = -1
        try:
            while not self._stopping.is_set():
                try:
                    self.look()
                    if assigned_at != self._looks:
                        with self.lock:
                            assigned_at, positions = self._looks, dict(self.positions)
                        reader.assign(self.topic, positions)
                    self._read(reader, assigned_at)
                    yield GO_ON
                except PositionOutOfRange as error:
                    assigned_at = -1
                    yield from self._trying(lambda partition=error.partition: self._skip(partition))  # type: ignore[misc]
                except PartitionUnreadable as error:
                    self._fail(error)
                except Exception as error:  # a bug, too: what waits must come some time
                    assigned_at = -1
                    yield self._wait_after(error)
        finally:
            reader.close()

    def _trying(self, act: Callable[[], None]) -> Steps:
        try:
            act()
        except KafkaClientError as error:
            yield self._wait_after(error)

    def _wait_after(self, error: Exception) -> Wait:
        if isinstance(error, UnknownTopic):
            self.is_missing = True
            self._notify()
        elif isinstance(error, AccessRefused):
            self._fail(error)
        elif not isinstance(error, KafkaClientError):
            log.exception("%s: what comes to its subscribers here could not be read; it is tried again", self.topic)
        else:
            log.warning("%s: %s; what comes to its subscribers here waits, it is tried again", self.destination, error)
        return Wait(RETRY_S, self._stopping)

    def _read(self, reader: TailReader, assigned_at: int) -> None:
        records = reader.poll(POLL_COUNT, POLL_S)
        positions = reader.positions()
        self.is_missing = False
        with self.lock:
            if assigned_at != self._looks or (not records and positions == self.positions):
                return
            if records:
                for feed in self.feeds:
                    feed.take(records)
            for partition, position in positions.items():
                self.positions[partition] = max(self.positions[partition], position)
        self._notify()

    def _notify(self) -> None:
        for feed in self.feeds:
            feed.notify()

    def _fail(self, error: KafkaClientError) -> None:
        with self.lock:
            for feed in self.feeds:
                feed.fail(error)
        self._notify()

    def _skip(self, partition: int) -> None:
        """The log does not hold the position: go on where it begins."""
        begin = self._admin.begin_positions(self.topic, [partition])[partition]
        with self.lock:
            log.error(
                "%s[%d]: the log does not hold position %d any more, and what this process's private subscriptions "
                "have not received is lost with it (its topic was made anew, or records were deleted while nobody "
                "heard of this process for a minute); they go on at %d",
                self.topic,
                partition,
                self.positions.get(partition, 0),
                begin,
            )
            if partition in self.positions:
                self.positions[partition] = begin
