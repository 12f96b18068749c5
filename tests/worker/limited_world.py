"""A worker in a memory world whose limits go by a clock that the test moves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jbm_kafka import Context, Queue, Worker
from jbm_kafka.core.statistics import DestinationStatistics
from jbm_kafka.jms.connection import provider_of
from jbm_kafka.testing.memory_world import MemoryWorld
from tests.support.manual_clock import ManualClock
from tests.support.waiting import wait_until

SOON_S = 30.0
ORDERS = Queue("orders")


class Limited:
    """One of the processes of an application, with a state folder of its own where there are several."""

    def __init__(self, world: MemoryWorld, *, number: int | None = None, **arguments: Any) -> None:
        folder = {} if number is None else {"state_dir": f"process-{number}"}  # which the world has in memory, too
        self.worker = Worker(world.factory(**folder), **arguments)
        self.clock = ManualClock()
        self.worker._clock = self.clock

    def start(self) -> None:
        """Handle messages."""
        self.worker.start()

    def end(self) -> None:
        """Stop, whatever still runs."""
        self.worker.drain_s = 1.0
        self.worker.stop()

    def advance(self, duration_ms: int) -> None:
        """Time passes, and whoever waits for it looks."""
        self.clock.advance(duration_ms)
        self.look()

    def look(self) -> None:
        """Whoever waits looks."""
        running = self.worker._running
        assert running is not None
        running.gates.timers.look()
        running.gates.look()

    def counted(self, queue: Queue = ORDERS) -> DestinationStatistics:
        """What its connection counted of a queue."""
        connection = self.worker.connection
        assert connection is not None
        rows = connection.statistics().destinations
        return next((row for row in rows if row.destination == queue.name), DestinationStatistics(destination="-"))

    @property
    def in_hand(self) -> int:
        """How many messages its sessions have received and not settled."""
        connection = self.worker.connection
        assert connection is not None
        rows = [
            (session._strategy, link) for session in connection._open_sessions() for link in session._core.links.all
        ]
        return sum(strategy.count(link) for strategy, link in rows)

    @property
    def partitions(self) -> int:
        """How many its first handler's source has here."""
        connection = self.worker.connection
        assert connection is not None
        share = provider_of(connection).held_partitions(self.worker._specs[0].source)  # type: ignore[arg-type]
        assert share is not None
        return len(share.held)

    @property
    def hindrances(self) -> list[str]:
        """Why it is not ready."""
        connection = self.worker.connection
        assert connection is not None
        return list(connection.health(None).reasons)


def soon(holds: Callable[[], Any], about: str = "the handlers") -> None:
    """Return when it holds."""
    wait_until(holds, about=about, timeout_s=SOON_S)


def left(jms: Context, queue: Queue) -> list[str]:
    """The bodies that a queue holds."""
    return [str(message.body) for message in jms.create_browser(queue, include="all")]
