"""Workers: handlers of queues and topics, run until the process is asked to end."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar

from jbm_kafka.core.destination import Destination
from jbm_kafka.core.failure_text import failure_text
from jbm_kafka.core.jms_errors import IllegalStateError, InvalidSettingError, JMSError
from jbm_kafka.core.open_files import files_needed, too_few_files
from jbm_kafka.core.wrong_values import wrong_value
from jbm_kafka.jms.arguments import check_arguments, check_callable, checked_seconds
from jbm_kafka.jms.connection import Connection, provider_of
from jbm_kafka.jms.factory import ConnectionFactory
from jbm_kafka.jms.handling import HandlerFailures, Middleware
from jbm_kafka.jms.one_by_one import OneByOne
from jbm_kafka.ports.file_limit import file_limit
from jbm_kafka.worker.handlers import HandlerSpec, check_middleware, checked_handler
from jbm_kafka.worker.lanes import Lane, lanes_of

log = logging.getLogger(__name__)

DRAIN_S = 25.0
"""Below the 30 s after which Kubernetes kills."""
LOOK_S = 0.5
_Function = TypeVar("_Function", bound=Callable[..., Any])


class Worker:
    """Handlers, and a process that runs them.

        worker = Worker("localhost:9092")

        @worker.handler("orders", concurrency=8)
        def ship(message): ...

        worker.run()

    A handler that returns has acknowledged its message; what it returns goes to the message's `reply_to`, if there is
    one. One that raises fails: the message comes again by its queue's settings. `Retry` and `Reject` say otherwise.

    What it runs: handler, around.
    Run: run, until SIGTERM or SIGINT or ask_to_end; or start and stop. drain_s: how long stopping waits.
    While it runs: connection, which has health and statistics.
    For command lines: go_to, be_one_of, check_may_be_many.
    """

    def __init__(self, factory_or_url: ConnectionFactory | str, *, drain_s: float = DRAIN_S, **arguments: Any) -> None:
        """A worker without handlers.

        Args:
            factory_or_url: a ConnectionFactory, or a URL with the `arguments` of one.
            drain_s: how long stopping waits for handlers that run; what they work on then comes again.

        Raises:
            InvalidSettingError: an argument that cannot be.
        """
        if isinstance(factory_or_url, ConnectionFactory):
            if arguments:
                given = ", ".join(arguments)
                raise InvalidSettingError(f"{given}: give it to the ConnectionFactory, which is made already")
            self._factory = factory_or_url
        else:
            self._factory = ConnectionFactory(factory_or_url, **arguments)
        self._drain_s = checked_seconds("drain_s", drain_s)
        self._specs: list[HandlerSpec] = []
        self._around: list[Middleware] = []
        self._running: _Running | None = None
        self._lock = threading.Lock()
        self._asked_to_end = threading.Event()

    def handler(
        self,
        destination: str | Destination,
        *,
        concurrency: int = 1,
        selector: str | None = None,
        subscription: str | None = None,
        shared: bool = False,
        transacted: bool = False,
    ) -> Callable[[_Function], _Function]:
        """Decorates a function that is called with each message of a queue or topic.

        Args:
            destination: a queue's name, "topic:NAME", a Queue or a Topic.
            concurrency: how many messages are handled at once in this process; of a unit of order one (UNIT-18).
            selector: which messages it gets, as "region = 'EU'".
            subscription: of a topic: the name of a durable subscription; None: what comes while the worker runs.
            shared: the subscription is shared by all processes that name it.
            transacted: it is called as (message, session), and what it sends by that session and the acknowledgement
                are one transaction. Not for an `async def`.

        Raises:
            InvalidSettingError, InvalidDestinationError, InvalidSelectorError: what cannot be.
            IllegalStateError: the worker runs.
        """

        def decorate(function: _Function) -> _Function:
            spec = checked_handler(
                function,
                destination,
                concurrency=concurrency,
                selector=selector,
                subscription=subscription,
                shared=shared,
                transacted=transacted,
            )
            self._refuse_if_running("handler()")
            self._specs.append(spec)
            return function

        return decorate

    def around(self, middleware: _Function) -> _Function:
        """Call `middleware(message, call_next)` around each handler, in the order given; it returns what
        `call_next(message)` returns. Around an `async def` handler it is awaited, so it must be one, too."""
        check_callable("middleware", middleware)
        check_arguments("middleware", middleware, "message,call_next")
        self._refuse_if_running("around()")
        self._around.append(middleware)
        return middleware

    def start(self) -> None:
        """Connect, and handle messages on threads of its own; returns when all receive.

        Raises:
            IllegalStateError: it runs already, or has no handler.
            JMSError: as of `create_connection` and `create_consumer`.
        """
        with self._lock:
            self._refuse_if_running("start()")
            if not self._specs:
                raise IllegalStateError("the worker has no handler; decorate a function with @worker.handler('QUEUE')")
            check_middleware(self._around, self._specs)
            sources = len({str(spec.source) for spec in self._specs})
            if few := too_few_files(file_limit(), files_needed(sources), f"the queues of its {sources} handlers"):
                log.warning("worker: %s", few)
            self._running = _Running(self._factory.create_connection(), self._specs, self._around)
        log.info("worker: %s", ", ".join(f"{spec.source} x {spec.concurrency}" for spec in self._specs))

    def stop(self) -> bool:
        """Receive no more, wait for the handlers that run, and disconnect. True: all had ended in time.

        What others work on comes again. Not running: nothing happens.
        """
        with self._lock:
            running, self._running = self._running, None
        return True if running is None else running.end(self._drain_s)

    def run(self) -> int:
        """Start, wait for SIGTERM or SIGINT, and stop: 0, or 1 when handlers were left. Then `sys.exit(worker.run())`.

        A second signal ends the process at once. On another thread than the main one only `stop` ends it.

        Raises:
            JMSError: as `start`; or why a handler gets no message any more, such as rights that were taken away, or a
                plain function as handler that returns a coroutine.
        """
        running: _Running | None = None
        is_main = threading.current_thread() is threading.main_thread()
        before = {number: signal.signal(number, self._signalled) for number in _SIGNALS} if is_main else {}
        try:
            self.start()
            running = self._running
            while running is not None and running is self._running and running.failure is None:
                if self._asked_to_end.wait(LOOK_S):  # another thread may take the signal, and this one sleeps on
                    break
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            all_ended = self.stop()
            self._asked_to_end.clear()  # only now: somebody may have asked before the start
        if running is not None and running.failure is not None:
            raise running.failure
        return 0 if all_ended else 1

    def go_to(self, cluster: ConnectionFactory) -> None:
        """Work at that factory's cluster, with the settings of the worker's own: what a command line names wins."""
        self._factory = self._factory._at(cluster)

    def be_one_of(self, number: int) -> None:
        """Be the process of that number among several, which need a state folder each."""
        self._factory = self._factory._with_own_folder(str(number))

    def check_may_be_many(self, processes: int) -> None:
        """Raises InvalidSettingError when it can be in one process only."""
        client_id = self._factory._defaults.client_id
        if processes > 1 and client_id is not None:
            rule = f"one connection has it, and there are {processes} processes; leave it out, and share subscriptions"
            raise wrong_value("client_id", client_id, rule)

    @property
    def drain_s(self) -> float:
        """How long stopping waits for handlers that run, in seconds."""
        return self._drain_s

    @drain_s.setter
    def drain_s(self, drain_s: float) -> None:
        self._drain_s = checked_seconds("drain_s", drain_s)

    @property
    def connection(self) -> Connection | None:
        """Its connection, to ask for health and statistics; None while it does not run."""
        running = self._running
        return None if running is None else running.connection

    def __repr__(self) -> str:
        state = "stopped" if self._running is None else "running"
        return f"<Worker {', '.join(str(spec.source) for spec in self._specs) or 'without handlers'} {state}>"

    def ask_to_end(self) -> None:
        """Have `run` stop. Any thread."""
        self._asked_to_end.set()

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        self._asked_to_end.set()

    def _refuse_if_running(self, call: str) -> None:
        if self._running is not None:
            raise IllegalStateError(f"{call}: the worker runs; stop() it first")


_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class _Running:
    """A worker's connection and lanes, from start to stop."""

    def __init__(self, connection: Connection, specs: list[HandlerSpec], around: list[Middleware]) -> None:
        self.connection = connection
        self.failure: JMSError | None = None
        """Why a handler gets no message any more."""
        self._lanes: list[Lane] = []
        core = connection._core
        self._failures = HandlerFailures(provider_of(connection).settings_of, core.notify_exception)
        try:
            for spec in specs:
                self._lanes += lanes_of(spec, connection, around, self._failures, OneByOne(core), self._lane_failed)
            connection.start()
            for lane in self._lanes:
                lane.start()
        except BaseException:
            connection.close()
            raise

    def _lane_failed(self, error: Exception) -> None:
        if not isinstance(error, JMSError):
            log.error("worker: an error of ours", exc_info=error)
            error = JMSError(f"an error of ours: {failure_text(error)}")
        self.failure = self.failure or error
        core = self.connection._core
        core.hindrances.stay(self, f"a handler gets no message any more: {error}")
        core.notify_exception(error)

    def end(self, drain_s: float) -> bool:
        """True when all handlers have ended in time."""
        deadline_s = time.monotonic() + drain_s
        for lane in self._lanes:
            lane.close()
        left = sum(lane.join(deadline_s) for lane in self._lanes)
        if left:
            log.warning(
                "worker: %d %s after %g s (drain_s); what they work on comes again",
                left,
                "handler runs still" if left == 1 else "handlers run still",
                drain_s,
            )
        self.connection.close()
        self._failures.end()
        return not left
