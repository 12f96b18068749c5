"""Has workers handle all that there is, for a test: it returns at a fixed point, and never waits for ever.

The point is proven by two readings of the handlers' sources: both find nothing in hand and nothing to hand over, and
between them nothing was handed over. So no handler ran between the end of the first and the beginning of the second,
and whatever handlers sent before, the second has seen.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence

from jbm_kafka.core.channel.redelivery import FOREVER_MS
from jbm_kafka.core.jms_errors import IllegalStateError, JMSError
from jbm_kafka.jms.connection import Connection, provider_of
from jbm_kafka.ports.link import Link
from jbm_kafka.providers.in_memory import World, WorldProvider
from jbm_kafka.sidecar.lane.group_worker import GroupWorker
from jbm_kafka.testing.source_reading import Reading, readings
from jbm_kafka.testing.stopped_clock import StoppedClock
from jbm_kafka.worker.message_worker import Worker

LOOK_S = 0.001
"""Between readings: the handlers' threads go on meanwhile."""
LAST_S = 5.0
"""How long the last look may take, which an error tells of: the machine may be busy."""
PAUSED_ROUNDS = 3
"""So many times a source is found paused, and nothing else goes on, before that is believed."""


class Drain:
    """One call of `MemoryWorld.drain`."""

    def __init__(self, world: World, clock: StoppedClock, workers: Sequence[Worker], timeout_s: float) -> None:
        """Raises IllegalStateError when a worker does not run, or runs elsewhere."""
        self._world = world
        self._clock = clock
        self._workers = [(worker, _connection_of(worker, world)) for worker in workers]
        self._timeout_s = timeout_s
        self._ends_at_s = time.monotonic() + timeout_s
        self._begun = self._handed_over()

    def run(self, *, advance_ms: int, may_stay: bool) -> None:
        """Return at the fixed point, behind the last timer that ends within `advance_ms`.

        Raises:
            JMSError: a handler has not returned in time, or there is no end of messages; or, unless it `may_stay`,
                what no handler will get is still there.
        """
        until_ms = self._clock.now_ms() + advance_ms
        while True:
            run_due_at_ms = self._send_runs()
            found = self._settled()
            due_at_ms = min((reading.due_at_ms for reading in found), default=FOREVER_MS)
            due_at_ms = min(due_at_ms, run_due_at_ms)
            if due_at_ms > until_ms:
                break
            self._clock.advance(max(0, due_at_ms - self._clock.now_ms()))
        stays = [reading.stays for reading in found if reading.stays]
        if stays and not may_stay:
            raise JMSError(
                f"drain: no handler will get what is still there: {'; '.join(stays)}; a test that wants it so calls "
                f"drain(may_stay=True)"
            )

    def _send_runs(self) -> int:
        """Send those of schedules that are due now; when the next is due."""
        schedulers = [worker._running.scheduler for worker, _ in self._workers if worker._running is not None]
        return min((each.look(at_once=True) for each in schedulers if each is not None), default=FOREVER_MS)

    def _settled(self) -> list[Reading]:
        """The readings of a fixed point."""
        pause, before, equal = threading.Event(), None, 0
        while True:
            self._check_workers()
            left_s = self._ends_at_s - time.monotonic()
            if left_s <= 0:
                raise self._too_late()
            found = self._read(left_s)
            if found is None or not all(reading.is_at_rest or reading.is_paused for reading in found):
                before, equal = None, 0
            else:
                is_paused = any(reading.is_paused for reading in found)
                equal = equal + 1 if found == before else 0
                if equal >= (PAUSED_ROUNDS if is_paused else 1):
                    return found
                before = found
                if is_paused:
                    self._world.wait_heard(left_s)  # it may have been resumed
                self._world.wait_idle(left_s)
            pause.wait(LOOK_S)

    def _read(self, timeout_s: float) -> list[Reading] | None:
        group_workers = self._group_workers()
        if not all(group_worker.is_alive for group_worker in group_workers):
            return None  # its receivers join again, or hear why not
        sessions = {link.terms.session_id for link in self._links()}
        found = readings(group_workers, sessions, self._world.cluster, timeout_s)
        read = {reading.name for reading in found or ()}
        if any(str(spec.source) not in read for worker, _ in self._workers for spec in worker._specs):
            return None  # a handler whose session has ended opens another one
        return found

    def _links(self) -> Iterator[Link]:
        """Yield the links of the handlers' consumers."""
        for _, connection in self._workers:
            for session in connection._open_sessions():
                yield from session._core.links.all

    def _group_workers(self) -> list[GroupWorker]:
        """Return those that serve them, each once."""
        served = (link._group_worker for link in self._links())
        return list(dict.fromkeys(each for each in served if isinstance(each, GroupWorker)))

    def _handed_over(self) -> int:
        """How many messages were handed over so far where the handlers receive. Any thread may look."""
        return sum(group_worker.data.counters.handed_over for group_worker in self._group_workers())

    def _check_workers(self) -> None:
        self._world.check_there()
        for worker, connection in self._workers:
            running = worker._running
            if running is None or running.connection is not connection:
                raise IllegalStateError(f"drain: {worker!r} was stopped meanwhile")
            if running.failure is not None:
                raise running.failure

    def _too_late(self) -> JMSError:
        count = self._handed_over() - self._begun
        found = self._read(LAST_S)
        busy = [self._told(reading) for reading in found or () if not reading.is_at_rest]
        for _, connection in self._workers:
            busy += connection.health(None).reasons
        if not busy:
            busy = ["no thread of the world answers" if found is None else "just now it came to an end"]
        return JMSError(
            f"drain: still at work after {self._timeout_s:g} s, in which {count} messages were handed over: "
            f"{'; '.join(busy)}",
            timeout_s=self._timeout_s,
        )

    def _told(self, reading: Reading) -> str:
        if reading.in_hand:
            return f"{self._handlers_of(reading)} of {reading.name} has {reading.in_hand} in hand and has not returned"
        if not reading.is_open:
            return f"{reading.name}: not all its partitions are open"
        return f"{reading.name}: {reading.deliverable} wait for {self._handlers_of(reading)}"

    def _handlers_of(self, reading: Reading) -> str:
        names = [
            getattr(spec.function, "__qualname__", repr(spec.function))
            for worker, _ in self._workers
            for spec in worker._specs
            if str(spec.source) == reading.name
        ]
        return " or ".join(dict.fromkeys(names))


def _connection_of(worker: Worker, world: World) -> Connection:
    connection = worker.connection
    if connection is None:
        raise IllegalStateError(f"drain: {worker!r} does not run; start it in the world: world.start(worker)")
    provider = provider_of(connection)
    if not isinstance(provider, WorldProvider) or provider._world is not world:
        raise IllegalStateError(f"drain: {worker!r} runs elsewhere, not in memory://{world.name}: world.start(worker)")
    return connection
