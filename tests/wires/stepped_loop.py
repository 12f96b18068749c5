"""An event loop that runs one turn at a time, in the one thread of a simulation, on the simulation's clock."""

from __future__ import annotations

import asyncio
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from jbm_kafka.amqp_wire.loop_mailbox import LoopMailbox
from tests.support.manual_clock import ManualClock

T = TypeVar("T")


class Net(Protocol):
    """What a loop reaches others through."""

    def listen(self, loop: SteppedLoop, factory: Callable[[], asyncio.BaseProtocol], port: int) -> Any:
        """Begin to listen; returns what ends it."""

    def connect(
        self, loop: SteppedLoop, factory: Callable[[], asyncio.BaseProtocol], port: int
    ) -> tuple[Any, asyncio.BaseProtocol]:
        """Connect. Raises ConnectionRefusedError."""


class _NoSelector:
    """There are no sockets."""

    def select(self, timeout: float | None = None) -> list[Any]:
        return []

    def close(self) -> None:
        """Nothing is open."""


class SteppedLoop(asyncio.BaseEventLoop):
    """One process's. `step` makes a turn of it; what would run on other threads waits in `jobs`."""

    def __init__(self, clock: ManualClock, net: Net) -> None:
        super().__init__()
        self._clock = clock
        self._net = net
        self._selector = _NoSelector()
        self.jobs: deque[Callable[[], None]] = deque()
        self.is_in_step = False

    def time(self) -> float:
        return 1.0 + self._clock.monotonic_ms() / 1000  # the engine takes 0 for never

    @property
    def is_ready(self) -> bool:
        """A turn of it would do something."""
        if self.is_in_step or self.is_closed():
            return False
        ready, scheduled = self._ready, self._scheduled  # type: ignore[attr-defined]
        return bool(ready) or bool(scheduled and scheduled[0]._when <= self.time())

    def step(self) -> None:
        """Make one turn: all that is ready at its beginning."""
        before = events._get_running_loop()
        events._set_running_loop(self)
        self.is_in_step = True
        try:
            self._run_once()  # type: ignore[attr-defined]
        finally:
            self.is_in_step = False
            events._set_running_loop(before)

    def submit(self, call: Callable[[], None], /) -> None:
        """Implements `Threads` of call lanes."""
        self.jobs.append(call)

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]
        answer: asyncio.Future[T] = self.create_future()

        def job() -> None:
            try:
                result = func(*args)
            except Exception as error:
                failure = error
                self.call_soon(lambda: None if answer.done() else answer.set_exception(failure))
            else:
                self.call_soon(lambda: None if answer.done() else answer.set_result(result))

        self.jobs.append(job)
        return answer

    async def create_server(self, factory: Any, host: Any = None, port: Any = None, **_: Any) -> Any:  # type: ignore[override]
        return self._net.listen(self, factory, port)

    async def create_connection(self, factory: Any, host: Any = None, port: Any = None, **_: Any) -> Any:  # type: ignore[override]
        return self._net.connect(self, factory, port)

    def _process_events(self, event_list: list[Any]) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """Nobody sleeps in it."""


class SteppedIo:
    """Implements `Io` of the AMQP client: `call` lets the world go on until it is answered."""

    def __init__(self, loop: SteppedLoop, until: Callable[[Callable[[], bool], str], None]) -> None:
        """`until`: lets others act until something holds."""
        self.loop = loop
        self.mailbox = LoopMailbox(loop)
        self.is_alive = True
        self._until = until
        self._tasks: set[asyncio.Task[Any]] = set()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        task = self.loop.create_task(work)
        self._until(task.done, "a call of a client")
        return task.result()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def stop(self) -> None:
        self.is_alive = False
