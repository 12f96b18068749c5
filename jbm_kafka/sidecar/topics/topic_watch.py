"""Looks at the topics that this process uses, again and again: what is known of a topic is true for a while only.

Kafka tells a client nothing when a topic is deleted and made anew, or given more partitions: the positions of the old
log are fetched from the new one, and units are routed by the old count.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from jbm_kafka.ports import Clock, KafkaClientError, Unreachable
from jbm_kafka.ports.patience import Patience
from jbm_kafka.ports.steps import Steps, StepWorker, Wait, Workers
from jbm_kafka.ports.wake_up import WakeUp
from jbm_kafka.registry.topics import Topics, TopicsFound
from jbm_kafka.sidecar.topics.topic_log import TopicLog

log = logging.getLogger(__name__)

LOOK_S = 5.0
"""How long anything may go by what is not so any more; a look is one question to one broker."""
PROBE_S = 1.0
"""How often it is asked whether there is an answer at all."""
PATIENCE_S = 3.0
"""How long Kafka may be silent before it is logged; an answer takes some milliseconds."""
LOOK_AGAIN_S = 0.5
"""After a look that was not answered, or was refused."""
STOP_TIMEOUT_S = 10.0


class TopicWatch:
    """Looks from the first `start` to `stop`. Any thread may call it."""

    def __init__(
        self,
        *,
        topics: Topics,
        workers: Workers,
        clock: Clock,
        looked: Callable[[TopicsFound], None],
        follow: Callable[[], None] = lambda: None,
        back: Callable[[int], None] = lambda since_ms: None,
    ) -> None:
        """`looked` is called with each look that was answered; `follow` is called every second, and waits for nothing.

        `back` is called, when Kafka answers again, with since when it did not, monotonic ms.
        """
        self._topics = topics
        self._workers = workers
        self._clock = clock
        self._lines = TopicLog(clock, back)
        self._looked = looked
        self._follow = follow
        self._wake = WakeUp()
        self._lock = threading.Lock()
        self._is_stopping = False
        self._worker: StepWorker | None = None
        self.is_started = False

    def start(self) -> None:
        """Begin; again: nothing happens."""
        with self._lock:
            if not self.is_started and not self._is_stopping:
                self.is_started = True
                self._worker = self._workers.start("jbm-topics", self._run())

    @property
    def is_silent(self) -> bool:
        """Kafka did not answer the latest question."""
        return self._lines.is_silent

    def look_now(self) -> None:
        """Something happened after which topics may be others, such as the loss of a connection."""
        self._wake.set()

    def stop(self, patience: Patience) -> None:
        """End, once a look that is under way has ended."""
        with self._lock:
            self._is_stopping = True
        self._wake.set()
        if self._worker is not None:
            patience.wait(self._worker.wait_end, STOP_TIMEOUT_S)

    def _run(self) -> Steps:
        has_looked, looked_ms = True, self._clock.monotonic_ms()
        while True:
            yield Wait(PROBE_S if has_looked else LOOK_AGAIN_S, self._wake)
            is_asked = self._wake.is_set()
            self._wake.clear()
            if self._is_stopping:
                return
            now_ms = self._clock.monotonic_ms()
            is_due = is_asked or not has_looked or now_ms - looked_ms >= LOOK_S * 1_000
            # A look has more time than that: a slow cluster is looked at, too.
            if (has_looked and not self._is_there()) or is_due:
                has_looked, looked_ms = self._look(), now_ms
            try:
                self._follow()
                if self._topics.follow_places():
                    self._wake.set()
            except Exception:
                log.exception("what the registry says could not be taken over; it is tried again")

    def _is_there(self) -> bool:
        """True when the cluster answers soon; whatever else is wrong a look tells."""
        try:
            self._topics.check_answered(PATIENCE_S)
        except Unreachable as error:
            self._lines.silent(error)
            return False
        except KafkaClientError as error:
            log.debug("cannot ask whether Kafka is there: %s", error)
        return True

    def _look(self) -> bool:
        """False when it is to be made again soon."""
        try:
            found = self._topics.look()
        except Unreachable as error:
            self._lines.silent(error)
            return False
        except KafkaClientError as error:
            self._lines.refused(error)
            return False
        except Exception:
            log.exception("a look at the topics failed; it is tried again")
            return True
        self._lines.looked()
        self._looked(found)
        return True
