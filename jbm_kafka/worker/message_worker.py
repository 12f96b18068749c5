"""Workers: handlers of queues and topics, run until the process is asked to end."""

from __future__ import annotations

import inspect
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from types import FrameType, SimpleNamespace
from typing import Any, Literal, NoReturn, Self, TypeVar

from jbm_kafka.core.cron.schedule import Missed
from jbm_kafka.core.destination import Destination, Queue
from jbm_kafka.core.jms_errors import IllegalStateError, InvalidSettingError
from jbm_kafka.core.open_files import files_needed, too_few_files
from jbm_kafka.core.settings.pause_rule import PauseOn
from jbm_kafka.core.wrong_values import wrong_type, wrong_value
from jbm_kafka.jms.base.arguments import check_arguments, check_callable, checked_seconds
from jbm_kafka.jms.base.never_run import called, has_yield
from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.factory import ConnectionFactory
from jbm_kafka.jms.receiving.handling import Middleware
from jbm_kafka.ports.clock import Clock
from jbm_kafka.ports.file_limit import file_limit
from jbm_kafka.worker.call_codec import CallCodec
from jbm_kafka.worker.cron_spec import CronSpec, checked_plan
from jbm_kafka.worker.handlers import (
    BatchTerms,
    HandlerSpec,
    check_middleware,
    checked_batch,
    checked_handler,
    checked_source,
)
from jbm_kafka.worker.limits import checked_in_flight
from jbm_kafka.worker.named_calls import check_named, checked_call_name, checked_named, checked_queue, with_named_call
from jbm_kafka.worker.running_worker import RunningWorker
from jbm_kafka.worker.task_sends import TaskSends
from jbm_kafka.worker.tasks import Task, TaskDecorator, TaskParts, handler_of

log = logging.getLogger(__name__)

DRAIN_S = 25.0
"""Below the 30 s after which Kubernetes kills."""
LOOK_S = 0.5
_Function = TypeVar("_Function", bound=Callable[..., Any])


class Worker:
    """Handlers, and a process that runs them.

        worker = Worker()  # as jbm-kafka.toml and JBM_BOOTSTRAP say; or Worker("localhost:9092")

        @worker.handler("orders", concurrency=8)
        def ship(message): ...

        worker.run()

    A handler that returns has acknowledged its message; what it returns goes to the message's `reply_to`, if there is
    one. One that raises fails: the message comes again by its queue's settings. `Retry` and `Reject` say otherwise.

    What it runs: handler, batch, task, cron, around. Around all of it: lifespan; state has what that makes.
    Run: run, until SIGTERM or SIGINT or ask_to_end; or start and stop. drain_s: how long stopping waits; kill_hung: a
    call that hangs ends the process.
    While it runs: connection, which has health and statistics.
    For command lines: go_to, configure, is_configured, be_one_of, check_may_be_many.
    """

    def __init__(
        self,
        factory_or_url: ConnectionFactory | str | None = None,
        *,
        drain_s: float = DRAIN_S,
        max_in_flight: int | None = None,
        **arguments: Any,
    ) -> None:
        """A worker without handlers.

        Args:
            factory_or_url: a ConnectionFactory, or a URL with the `arguments` of one. None: it is as the configuration
                says, which is read when the worker starts, with the `arguments` over it: docs/configuration.md.
            drain_s: how long stopping waits for handlers that run; what they work on then comes again.
            max_in_flight: how many calls of all its handlers may run at once in this process; None: as many as they do.

        Raises:
            InvalidSettingError: an argument that cannot be.
        """
        self._made: ConnectionFactory | None = None
        self._config: _Config | None = None
        if isinstance(factory_or_url, ConnectionFactory):
            if arguments:
                given = ", ".join(arguments)
                raise InvalidSettingError(f"{given}: give it to the ConnectionFactory, which is made already")
            self._made = factory_or_url
        elif factory_or_url is None:
            self._config = _Config(None, arguments)
        else:
            self._made = ConnectionFactory(factory_or_url, **arguments)
        self._drain_s = checked_seconds("drain_s", drain_s)
        self._max_in_flight = checked_in_flight(max_in_flight)
        self.kill_hung = False
        """`run` ends the process when a call goes on beyond its `timeout_s`; its message comes again."""
        self._has_hung = threading.Event()
        self._clock: Clock | None = None
        """The clock of limits; None: the connection's."""
        self._specs: list[HandlerSpec] = []
        self._crons: list[CronSpec] = []
        self._sends = TaskSends(lambda: self.connection, self._connected)
        self._around: list[Middleware] = []
        self._lifespans: list[Callable[..., Any]] = []
        self.state = SimpleNamespace()
        """For what a lifespan makes and handlers use; any names."""
        self._running: RunningWorker | None = None
        self._lock = threading.Lock()
        self._asked_to_end = threading.Event()
        self._runs = False
        """In `run`, which ends by an operator's request."""
        self.was_drained = False
        """The latest `run` ended because an operator asked for it."""

    @classmethod
    def from_config(
        cls, path: str | os.PathLike[str] | None = None, *, drain_s: float = DRAIN_S, **overrides: Any
    ) -> Self:
        """A worker as `ConnectionFactory.from_config(path, **overrides)` would be, read when it starts.

        Raises:
            InvalidSettingError: `drain_s` cannot be.
        """
        worker = cls(drain_s=drain_s)
        worker._config = _Config(path, overrides)
        return worker

    def handler(
        self,
        destination: str | Destination,
        *,
        concurrency: int = 1,
        selector: str | None = None,
        subscription: str | None = None,
        shared: bool = False,
        transacted: bool = False,
        on_invalid: Literal["reject", "retry"] = "reject",
        timeout_s: float | None = None,
        rate: str | None = None,
        rate_total: str | None = None,
        pause_on: PauseOn | str | None = None,
    ) -> Callable[[_Function], _Function]:
        """Decorates a function that is called with each message of a queue or topic, or with what its parameters say.

        A parameter of type Message is the message, one of another type its body as that: a Pydantic model, a dataclass,
        a TypedDict, str, bytes, dict. `Annotated[str, Header("region")]` is a header or a property.

        Args:
            destination: a queue's name, "topic:NAME", a Queue or a Topic.
            concurrency: how many messages are handled at once in this process; of a unit of order one (UNIT-18).
            selector: which messages it gets, as "region = 'EU'".
            subscription: of a topic: the name of a durable subscription; None: what comes while the worker runs.
            shared: the subscription is shared by all processes that name it.
            transacted: it is called as (message, session), and what it sends by that session and the acknowledgement
                are one transaction. Not for an `async def`.
            on_invalid: a message that does not fit the parameters is rejected, or with "retry" is a failed attempt.
            timeout_s: how long a call may take: a coroutine is cancelled then, and failed; of a plain function it is
                said, and it keeps its unit (HANDLER-1).
            rate: how many calls may begin in any such period, as "100/s", "10/min" or "1/h", in this process.
            rate_total: the same of all processes: each has the part of the partitions that it holds (HANDLER-3).
            pause_on: PauseOn(failures=5, for_s=30), or "5 failures in a row for 30 s": it receives nothing for so long,
                and then one message at a time until one goes well (HANDLER-4).

        Raises:
            InvalidSettingError, InvalidDestinationError, InvalidSelectorError: what cannot be.
            InvalidTypeError: a parameter that nobody knows what to give.
            IllegalStateError: the worker runs.
        """
        options = {"concurrency": concurrency, "selector": selector, "subscription": subscription, "shared": shared}
        limits = {"timeout_s": timeout_s, "rate": rate, "rate_total": rate_total, "pause_on": pause_on}
        return self._decorator("handler()", destination, transacted, on_invalid, None, options | limits)

    def batch(
        self,
        destination: str | Destination,
        *,
        size: int,
        wait_ms: int,
        concurrency: int = 1,
        selector: str | None = None,
        subscription: str | None = None,
        shared: bool = False,
        transacted: bool = False,
        on_invalid: Literal["reject", "retry"] = "reject",
        timeout_s: float | None = None,
        rate: str | None = None,
        rate_total: str | None = None,
        pause_on: PauseOn | str | None = None,
    ) -> Callable[[_Function], _Function]:
        """Decorates a function that is called with several messages at once, each unit's in order (HANDLER-5).

        Its parameter is a `list[Message]`, or a list of bodies, such as `list[Order]`; or both. When it returns, all
        are acknowledged. `Failed(messages)` says which failed; any other exception is said of all.

        Args:
            destination: a queue's name, "topic:NAME", a Queue or a Topic.
            size: how many messages at most.
            wait_ms: how long the first waits for the others.
            concurrency: how many batches at once in this process.
            transacted: what it sends by its session and the acknowledgement of all are one transaction.
            timeout_s, rate, rate_total, pause_on: as of `handler`, of calls.
            selector, subscription, shared, on_invalid: as of `handler`.

        Raises:
            InvalidSettingError, InvalidDestinationError, InvalidSelectorError: what cannot be.
            InvalidTypeError: a parameter that nobody knows what to give.
            IllegalStateError: the worker runs.
        """
        terms = checked_batch(size, wait_ms)
        options = {"concurrency": concurrency, "selector": selector, "subscription": subscription, "shared": shared}
        limits = {"timeout_s": timeout_s, "rate": rate, "rate_total": rate_total, "pause_on": pause_on}
        return self._decorator("batch()", destination, transacted, on_invalid, terms, options | limits)

    def _decorator(
        self,
        call: str,
        destination: str | Destination,
        transacted: bool,
        on_invalid: str,
        batch: BatchTerms | None,
        options: dict[str, Any],
    ) -> Callable[[_Function], _Function]:
        checked_source(destination)  # now: of `@worker.handler` without parentheses nobody would hear later

        def decorate(function: _Function) -> _Function:
            spec = checked_handler(
                function, destination, transacted=transacted, on_invalid=on_invalid, batch=batch, **options
            )
            self._refuse_if_running(call)
            self._specs.append(spec)
            return function

        return decorate

    def task(self, queue: str | Queue, *, name: str | None = None, concurrency: int = 1) -> TaskDecorator:
        """Decorates a function that is called by messages: `mail.send(to="joe")` has a worker call `mail(to="joe")`.

        Arguments travel by name, as JSON that Pydantic checks on both sides. `mail.options(...)` says how a call is
        sent, `mail.ask(...)` has what it returns, and `mail(...)` is the plain function. What fails comes again, as any
        message. While the worker does not run, a call is sent by a connection that `stop` closes.

        Args:
            queue: tasks may share one.
            name: by which messages name it; None: the function's.
            concurrency: as of `handler`; of tasks that share a queue the highest holds.

        Raises:
            InvalidSettingError, InvalidDestinationError: what cannot be.
            InvalidTypeError: a parameter that cannot travel, such as `*args`.
            IllegalStateError: the worker runs, or the queue has a handler, or another task of the name.
        """
        checked_queue(queue)  # now, as of `handler`

        def decorate(function: Callable[..., Any]) -> Any:
            check_callable("function", function)
            called_as, codec = checked_call_name(name, function), CallCodec(function)
            handler = handler_of(function, codec, self._sends)
            spec = checked_named(handler, queue, concurrency=concurrency, on_invalid="reject")
            self._refuse_if_running("task()")
            self._specs = with_named_call(self._specs, spec, called_as, spec.call)
            return Task(function, TaskParts(Queue(spec.source.name), called_as, codec, self._sends))

        return decorate

    def cron(
        self,
        line: str,
        *,
        queue: str | Queue,
        tz: str = "UTC",
        name: str | None = None,
        missed: Missed = "once",
        unit_of_order: str | None = None,
        concurrency: int = 1,
        on_invalid: Literal["reject", "retry"] = "reject",
    ) -> Callable[[_Function], _Function]:
        """Decorates a function that runs at the times of a line of cron: once, however many workers have it.

        One of them sends a message to the queue when a run is due, and any of them handles it, as any message: what
        fails comes again. Parameters are as those of a handler; the body is when the run was due, for a `datetime`.
        The line of the worker that started last holds for all.

        Args:
            line: minute, hour, day, month and weekday, as "0 3 * * *"; with six fields the first is the second.
            queue: its queue and name are the schedule's key; functions may share a queue.
            tz: by whose clocks, as "Europe/Berlin".
            name: None: the function's.
            missed: of runs that were due while no worker was there, "once" has the last one, "skip" none, "all" each.
            unit_of_order: of its messages, so that runs do not overlap; None: none.
            concurrency, on_invalid: as of `handler`; of functions that share a queue the highest concurrency holds.

        Raises:
            InvalidSettingError, InvalidDestinationError, OrderError: what cannot be.
            InvalidTypeError: a parameter that nobody knows what to give.
            IllegalStateError: the worker runs, or its queue has a handler, or another function of the name.
        """

        def decorate(function: _Function) -> _Function:
            check_callable("function", function)
            plan = checked_plan(line, tz, missed, unit_of_order)
            spec = checked_named(function, queue, concurrency=concurrency, on_invalid=on_invalid)
            called_as = checked_call_name(name, function)
            self._refuse_if_running("cron()")
            self._specs = with_named_call(self._specs, spec, called_as, spec.call)
            self._crons.append(CronSpec(Queue(spec.source.name), called_as, plan))
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

    def lifespan(self, function: _Function) -> _Function:
        """Run a generator function, or an asynchronous one, around the worker: what stands before its `yield` is run
        before the first message, and the rest when all handlers have ended. Its one parameter, if any, is the worker.

        What it makes, such as a pool, it puts into `state`. An asynchronous one runs on the handlers' event loop.

        Raises:
            InvalidTypeError: it has no `yield`, or another parameter.
            IllegalStateError: the worker runs.
        """
        check_callable("lifespan", function)
        if not has_yield(function):
            rule = "it has no yield; write what is made, a yield, and what is cleaned up"
            raise wrong_type("lifespan", function, rule)
        if inspect.signature(function).parameters:
            check_arguments("lifespan", function, "worker")
        self._refuse_if_running("lifespan()")
        self._lifespans.append(function)
        return function

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
            check_named(self._specs)
            sources = len({str(spec.source) for spec in self._specs})
            if few := too_few_files(file_limit(), files_needed(sources), f"the queues of its {sources} handlers"):
                log.warning("worker: %s", few)
            lifespans = [self._lifespan(each) for each in self._lifespans]
            limits = self._max_in_flight, self._clock, self._hung
            connection = self._factory.create_connection()
            parts = self._specs, self._around, lifespans, self._crons
            self._running = RunningWorker(connection, *parts, *limits, self._drain_asked)
        log.info("worker: %s", ", ".join(f"{spec.source} x {spec.concurrency}" for spec in self._specs))

    def stop(self) -> bool:
        """Receive no more, wait for the handlers that run, and disconnect. True: all had ended in time.

        What others work on comes again. Not running: nothing happens.
        """
        with self._lock:
            running, self._running = self._running, None
        self._sends.close()
        return True if running is None else running.end(self._drain_s)

    def run(self) -> int:
        """Start, wait for SIGTERM, SIGINT or an operator (`jbm-kafka drain`), and stop; then `sys.exit(worker.run())`.

        Returns 0, or 1 when handlers were left.

        A second one ends the process at once. On another thread than the main one only `stop` ends it.

        Raises:
            JMSError: as `start`; or why a handler gets no message any more, such as rights that were taken away, or a
                plain function as handler that returns a coroutine.
        """
        running: RunningWorker | None = None
        is_main = threading.current_thread() is threading.main_thread()
        before = {number: signal.signal(number, self._signalled) for number in _SIGNALS} if is_main else {}
        self._runs, self.was_drained = True, False
        try:
            self.start()
            running = self._running
            while running is not None and running is self._running and running.failure is None:
                if self._asked_to_end.wait(LOOK_S):  # another thread may take the signal, and this one sleeps on
                    break
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            if running is not None and self._has_hung.is_set():
                running.end_process(self._drain_s)
            with _ended_by_the_next(before):
                all_ended = self.stop()
            self._runs = False
            self._asked_to_end.clear()  # only now: somebody may have asked before the start
        if running is not None and running.failure is not None:
            raise running.failure
        return 0 if all_ended else 1

    def _connected(self) -> Connection:
        """A connection to where it works now, which a test may change."""
        return self._factory.create_connection()

    def _lifespan(self, function: Callable[..., Any]) -> Any:
        """Its context manager, which is asynchronous where it is."""
        is_async = inspect.isasyncgenfunction(called(function))
        manager = (asynccontextmanager if is_async else contextmanager)(function)
        return manager(self) if inspect.signature(function).parameters else manager()

    def go_to(self, cluster: ConnectionFactory) -> None:
        """Work at that factory's cluster, with the settings of the worker's own: what a command line names wins."""
        self._factory = self._factory._at(cluster)

    @property
    def is_configured(self) -> bool:
        """True when its cluster is what the configuration says, and not one of its own."""
        return self._config is not None

    def configure(self, path: str | os.PathLike[str] | None, overrides: Mapping[str, Any]) -> None:
        """Read that file, with these arguments over the worker's own: what a command line names wins.

        Raises:
            InvalidSettingError: a value of the configuration that cannot be.
        """
        own = {} if self._config is None else self._config.overrides
        self._config = _Config(path, {**own, **overrides})
        self._made = self._config.factory()

    @property
    def _factory(self) -> ConnectionFactory:
        if self._made is None:
            assert self._config is not None
            self._made = self._config.factory()
        return self._made

    @_factory.setter
    def _factory(self, factory: ConnectionFactory) -> None:
        self._made = factory

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

    def _hung(self) -> None:
        """A call goes on though its time is over, and nobody can end it."""
        if self.kill_hung:
            log.error("worker: a handler hangs, so the process ends (kill_hung); its message comes again")
            self._has_hung.set()
            self._asked_to_end.set()

    def _drain_asked(self) -> bool:
        """An operator wants this process to end. Only `run` ends by it: who calls `start` has a program of his own."""
        if self._runs:
            self.was_drained = True
            self._asked_to_end.set()
        return self._runs

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        self._asked_to_end.set()

    def _refuse_if_running(self, call: str) -> None:
        if self._running is not None:
            raise IllegalStateError(f"{call}: the worker runs; stop() it first")


@contextmanager
def _ended_by_the_next(before: Mapping[signal.Signals, Any]) -> Iterator[None]:
    """While handlers are waited for, another Ctrl-C ends the process in one line, where it would be an exception."""
    if before.get(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _end_at_once)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end_at_once(number: int, frame: FrameType | None) -> NoReturn:
    log.warning("worker: asked once more, it ends at once; what its handlers work on comes again")
    logging.shutdown()
    os._exit(128 + number)


@dataclass(frozen=True, slots=True)
class _Config:
    """Where a worker's configuration is, and what its program says over it."""

    path: str | os.PathLike[str] | None
    overrides: Mapping[str, Any]

    def factory(self) -> ConnectionFactory:
        return ConnectionFactory.from_config(self.path, **self.overrides)


_SIGNALS = (signal.SIGTERM, signal.SIGINT)
