"""A Kafka in memory that a test has for itself."""

from __future__ import annotations

import secrets
import time
from dataclasses import replace
from typing import Any

from jbm_kafka.admin.dead_letters.letters import DeadLetter
from jbm_kafka.core.closed_at_end import ClosedAtEnd
from jbm_kafka.core.destination import Destination, Queue, parse_destination
from jbm_kafka.core.jms_errors import IllegalStateError, JMSError
from jbm_kafka.core.plain_text import plain_text
from jbm_kafka.core.wrong_values import checked_int, wrong_type
from jbm_kafka.jms.base.arguments import checked_seconds
from jbm_kafka.jms.factory import ConnectionFactory
from jbm_kafka.jms.messages.message import Message
from jbm_kafka.providers.in_memory import use_world
from jbm_kafka.testing.drain import Drain
from jbm_kafka.testing.stopped_clock import ADVANCE_MAX_MS, StoppedClock
from jbm_kafka.testing.written_messages import WrittenMessages
from jbm_kafka.worker.message_worker import Worker

IDLE_TIMEOUT_S = 20.0
STOP_S = 1.0
"""At its end a world waits so long for handlers: one that hangs has failed its test already."""


class MemoryWorld(ClosedAtEnd):
    """A Kafka in memory for a test: what stands behind one `memory://NAME`, from when this is made until `close`.

    Its time is the test's: `clock` stands still until `clock.advance(60_000)` lets a minute pass. Delays, redelivery
    delays and expiry go by it. `factory()` gives a connection factory; `url` is for code that makes its own, and for an
    `Admin`. `wait_idle()` returns when what was asked before is done. As a context manager it closes itself.

        with MemoryWorld() as world, world.factory().create_context() as jms:
            jms.create_producer().send(Queue("orders"), "2 books", delivery_delay_ms=60_000)
            world.clock.advance(60_000)
            print(jms.create_consumer(Queue("orders")).receive_nowait())

    `start(worker)` has an application's worker work here; `send`, `drain`, `sent` and `dead_letters` are for its tests.

    With pytest the fixture `jbm_memory` is one.

    Args:
        name: letters, digits, `.`, `_` and `-`; None: one that nobody has.

    Raises:
        InvalidSettingError: the name cannot be one, or is in use.
    """

    def __init__(self, name: str | None = None) -> None:
        if name is not None and not isinstance(name, str):
            raise wrong_type("name", name, "it is a str, or None for one that nobody has")
        name = f"world-{secrets.token_hex(4)}" if name is None else plain_text(name)
        self._url = f"memory://{name}"
        self._clock = StoppedClock(time.time_ns() // 1_000_000, wait_idle=self.wait_idle)
        self._world = use_world(name, clock=self._clock)
        self._written = WrittenMessages(self._world.cluster)
        self._started: list[tuple[Worker, ConnectionFactory]] = []
        """Workers, each with the factory that it had before."""

    @property
    def url(self) -> str:
        """For the application's own `ConnectionFactory`."""
        return self._url

    @property
    def clock(self) -> StoppedClock:
        """The time of the world. It stands at the time of the beginning; `advance(ms)` lets delays pass."""
        return self._clock

    def factory(self, **settings: Any) -> ConnectionFactory:
        """A connection factory for `url`, with settings as of `ConnectionFactory`.

        Raises:
            IllegalStateError: the world is closed.
        """
        self._world.check_there()
        made = ConnectionFactory(self.url, **settings)
        self._note_bodies(made)
        return made

    def _note_bodies(self, factory: ConnectionFactory) -> None:
        """Have what is sent shown with the large bodies of the first store that was given."""
        self._written.bodies = self._written.bodies or factory._defaults.large_bodies

    def wait_idle(self) -> None:
        """Return when everything that was said before is carried out and recorded: a nack, an acknowledgement in AUTO.

        A dead letter is in its queue then, and a message that was given back may be received again.

        Raises:
            JMSError: that did not come about.
        """
        self._world.check_there()
        if not self._world.wait_idle(IDLE_TIMEOUT_S):
            raise JMSError(f"{self.url} is still at work after {IDLE_TIMEOUT_S:g} s", url=self.url)

    # -- tests of workers --------------------------------------------------------------------------------------------

    def start(self, worker: Worker) -> Worker:
        """Start a worker here, wherever it works otherwise, with its own settings but those for a Kafka client.

        `close` stops it, and then it works again where it did. Returns the worker.

        Raises:
            IllegalStateError: it runs already, or has no handler; or the world is closed.
            JMSError: as of `Worker.start`.
        """
        if worker.connection is not None:
            raise IllegalStateError(f"start: {worker!r}: stop() it first")
        before = worker._factory
        here = before._at(self.factory())
        here._installation = replace(here._installation, client_settings={}, is_encrypted=False)
        worker._factory = here
        self._note_bodies(here)
        try:
            worker.start()
        except BaseException:
            worker._factory = before
            raise
        self._started.append((worker, before))
        return worker

    def send(self, destination: str | Destination, body: Any = None, **fields: Any) -> None:
        """Send one message, as of `MessageProducer.send`: by the connection of a worker that was started here, if any.

        Args:
            destination: a queue's name, "topic:NAME", a Queue or a Topic.
        """
        to = _destination(destination)
        running = [connection for worker, _ in self._started if (connection := worker.connection) is not None]
        connection = running[0] if running else self.factory().create_connection()
        try:
            with connection.create_session() as session:
                session.create_producer(to).send(body, **fields)
        finally:
            if not running:
                connection.close()

    def drain(
        self, *workers: Worker, advance_ms: int = 0, may_stay: bool = False, timeout_s: float = IDLE_TIMEOUT_S
    ) -> None:
        """Return when the workers' handlers have handled all that there is, and all that they sent to each other.

        What waits for a time stays, such as a retry with a delay, unless that is within `advance_ms`.

        Args:
            workers: those that were started here, or some of them; none: all.
            advance_ms: the clock goes on from timer to timer, by so much in all at most.
            may_stay: what no handler will get may be there in the end, for it is on hold, paused, or not selected.
            timeout_s: real seconds for all of it.

        Raises:
            IllegalStateError: a worker does not run here.
            JMSError: a handler has not returned in time, which is named; there is no end of messages; or what no
                handler will get is still there. What ended a worker's handler is raised as it is.
        """
        checked_int("advance_ms", advance_ms, 0, ADVANCE_MAX_MS, "milliseconds")
        some = workers or [worker for worker, _ in self._started]
        if not some:
            raise IllegalStateError("drain: no worker was started in this world: world.start(worker)")
        drain = Drain(self._world, self._clock, some, checked_seconds("timeout_s", timeout_s))
        drain.run(advance_ms=advance_ms, may_stay=may_stay)

    def sent(self, destination: str | Destination) -> list[Message]:
        """The messages that anybody has sent there since the world began, the test included, in the order sent.

        Also those that were received and settled meanwhile. What was rolled back was not sent.
        """
        to = _destination(destination)
        self.wait_idle()
        return self._written.to(to)

    def dead_letters(self) -> list[tuple[DeadLetter, Message]]:
        """The messages that were given up since the world began, each with where it was and why it left."""
        self.wait_idle()
        return self._written.letters()

    def close(self) -> None:
        """The world is gone: its workers are stopped, what is still open says so, and its url is refused. Again:
        nothing happens."""
        while self._started:
            worker, factory = self._started.pop()
            drain_s, worker.drain_s = worker.drain_s, min(worker.drain_s, STOP_S)
            try:
                worker.stop()
            finally:
                worker.drain_s, worker._factory = drain_s, factory
        self._world.end()

    def __repr__(self) -> str:
        return f"<MemoryWorld {self.url} {'closed' if self._world.is_over else 'open'}>"


def _destination(destination: str | Destination) -> Destination:
    if isinstance(destination, Destination):
        return destination
    if not isinstance(destination, str):
        raise wrong_type("destination", destination, "it is a queue's name, 'topic:NAME', a Queue or a Topic")
    return parse_destination(destination) if ":" in destination else Queue(destination)
