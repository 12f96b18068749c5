"""Reads from the log what slow feeds are behind with: by one client and thread for all."""

from __future__ import annotations

import logging
import threading
from collections import deque

from jbm_kafka.ports import Kafka, KafkaClientError
from jbm_kafka.ports.steps import GO_ON, Steps, Wait, Workers
from jbm_kafka.sidecar.feeds.log_feed import LogFeed

log = logging.getLogger(__name__)

RETRY_S = 0.5


class CatchUp:
    """Any thread may ask it to read for a feed."""

    def __init__(self, kafka: Kafka, workers: Workers) -> None:
        self._kafka = kafka
        self._workers = workers
        self._lock = threading.Lock()
        self._waiting: deque[LogFeed] = deque()
        self._is_running = False
        self._stopping = threading.Event()

    def read(self, feed: LogFeed) -> None:
        """Have its `read_behind` called soon, once."""
        with self._lock:
            self._waiting.append(feed)
            if self._is_running or self._stopping.is_set():
                return
            self._is_running = True
        self._workers.start("jbm-feeds-behind", self._run())

    def stop(self) -> None:
        """Read no more."""
        self._stopping.set()

    def _run(self) -> Steps:
        reader = self._kafka.log_reader()
        try:
            while True:
                with self._lock:
                    if not self._waiting or self._stopping.is_set():
                        self._is_running = False
                        return
                    feed = self._waiting.popleft()
                try:
                    feed.read_behind(reader)
                    yield GO_ON
                except Exception as error:  # a bug, too: it would never be read
                    is_bug = not isinstance(error, KafkaClientError)
                    level = logging.ERROR if is_bug else logging.INFO
                    text = "what slow consumers are behind with is read another time: %s"
                    log.log(level, text, error, exc_info=is_bug)
                    with self._lock:
                        self._waiting.append(feed)
                    yield Wait(RETRY_S, self._stopping)
        finally:
            reader.close()
