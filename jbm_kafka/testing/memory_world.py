"""A Kafka in memory that a test has for itself."""

from __future__ import annotations

import secrets
import time
from types import TracebackType
from typing import Any, Self

from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.core.plain_text import plain_text
from jbm_kafka.core.wrong_values import wrong_type
from jbm_kafka.jms.factory import ConnectionFactory
from jbm_kafka.providers.in_memory import use_world
from jbm_kafka.testing.stopped_clock import StoppedClock

IDLE_TIMEOUT_S = 20.0


class MemoryWorld:
    """A Kafka in memory for a test: what stands behind one `memory://NAME`, from when this is made until `close`.

    Its time is the test's: `clock` stands still until `clock.advance(60_000)` lets a minute pass. Delays, redelivery
    delays and expiry go by it. `factory()` gives a connection factory; `url` is for code that makes its own, and for an
    `Admin`. `wait_idle()` returns when what was asked before is done. As a context manager it closes itself.

        with MemoryWorld() as world, world.factory().create_context() as jms:
            jms.create_producer().send(Queue("orders"), "2 books", delivery_delay_ms=60_000)
            world.clock.advance(60_000)
            print(jms.create_consumer(Queue("orders")).receive_nowait())

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
        return ConnectionFactory(self.url, **settings)

    def wait_idle(self) -> None:
        """Return when everything that was said before is carried out and recorded: a nack, an acknowledgement in AUTO.

        A dead letter is in its queue then, and a message that was given back may be received again.

        Raises:
            JMSError: that did not come about.
        """
        self._world.check_there()
        if not self._world.wait_idle(IDLE_TIMEOUT_S):
            raise JMSError(f"{self.url} is still at work after {IDLE_TIMEOUT_S:g} s", url=self.url)

    def close(self) -> None:
        """The world is gone: what is still open says so, and its url is refused. Again: nothing happens."""
        self._world.end()

    def __repr__(self) -> str:
        return f"<MemoryWorld {self.url} {'closed' if self._world.is_over else 'open'}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
