"""The relay: sends what waits in an outbox, in any number of processes at once (OUTBOX-2)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self, TypeVar

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from jbm_kafka.core.durations import checked_duration_ms
from jbm_kafka.core.failure_text import failure_text
from jbm_kafka.core.jms_errors import IllegalStateError, JMSError
from jbm_kafka.core.statistics import Health
from jbm_kafka.core.wrong_values import checked_int, wrong_type
from jbm_kafka.jms.base.arguments import checked_flag
from jbm_kafka.jms.base.modes import AcknowledgeMode
from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.factory import ConnectionFactory
from jbm_kafka.jms.session import Session
from jbm_kafka.jms.xa import XAConnectionFactory, XASession
from jbm_kafka.outbox.destination_waits import DestinationWaits, next_wait_ms
from jbm_kafka.outbox.outbox_table import Outbox
from jbm_kafka.outbox.shipping import Shipping
from jbm_kafka.ports.clock import Clock, SystemClock

log = logging.getLogger(__name__)
T = TypeVar("T")

BATCH_MAX = 10_000
CLEAN_UP_MS = 60_000
"""Between two clean-ups, and between two looks for what relays have left that died."""
STOP_S = 60.0
"""A batch ends in that time, or Kafka is away."""


class Relay:
    """Sends what waits in an outbox. Any number of them may run, in any number of processes.

        with Relay(engine, factory):
            ...                     # it sends in a thread of its own; also around the yield of a worker's lifespan

    Run: start, stop; or `with`. Without a thread: send_waiting. Look: health, sent_count.
    """

    def __init__(
        self,
        engine: Engine,
        factory: ConnectionFactory,
        outbox: Outbox | None = None,
        *,
        batch: int = 500,
        poll_ms: int = 500,
        keep_sent_ms: int = 3_600_000,
        exactly_once: bool = False,
        clock: Clock | None = None,
    ) -> None:
        """A relay that does nothing yet.

        Args:
            engine: of SQLAlchemy, to PostgreSQL or SQLite.
            factory: makes its connection; with `auto_create=False` it sends to no queue that is not there.
            outbox: None: `Outbox()`.
            batch: so many messages at most go in one transaction.
            poll_ms: how often it looks when nothing waits.
            keep_sent_ms: how long rows are kept that were sent.
            exactly_once: each batch is a branch (XA) whose decision commits with its rows, so that no crash sends
                anything again; the factory is an XAConnectionFactory. All relays of a table do so, or none.
            clock: of back-offs and delays; None: the machine's.

        Raises:
            InvalidSettingError: an argument that cannot be.
        """
        if not isinstance(engine, Engine):
            raise wrong_type("engine", engine, "it is what sqlalchemy.create_engine(…) returns")
        if not isinstance(factory, ConnectionFactory):
            raise wrong_type("factory", factory, "it is a ConnectionFactory")
        if checked_flag("exactly_once", exactly_once) and not isinstance(factory, XAConnectionFactory):
            raise wrong_type("factory", factory, "with exactly_once=True it is an XAConnectionFactory")
        self.outbox = Outbox() if outbox is None else outbox
        self._factory = factory
        self._is_exact = exactly_once
        self._poll_ms = checked_int("poll_ms", poll_ms, 1, 3_600_000, "milliseconds")
        self._keep_sent_ms = checked_duration_ms("keep_sent_ms", keep_sent_ms)
        self._clock: Clock = SystemClock() if clock is None else clock
        self._waits = DestinationWaits()
        rows_max = checked_int("batch", batch, 1, BATCH_MAX, "messages")
        self._shipping = Shipping(engine, self.outbox, rows_max, self._waits, self._clock)
        self._connection: Connection | None = None
        self._session: Session | None = None
        self._sending = threading.Lock()
        self._thread: threading.Thread | None = None
        self._ends = threading.Event()
        self._trouble: str | None = None
        self._sent_count = 0
        self._looked_at_ms = -CLEAN_UP_MS

    @property
    def sent_count(self) -> int:
        """How many messages it has sent."""
        return self._sent_count

    def send_waiting(self) -> int:
        """Send until nothing is left that could be sent now. Returns how many were.

        Raises:
            JMSError: Kafka does not answer; what was not sent waits.
            SQLAlchemyError: the database does not answer.
        """
        count = 0
        while turn := self._turn():
            count += turn
        return count

    def start(self) -> None:
        """Send from now on, in a thread of its own. It goes on by itself when Kafka or the database was away.

        Raises:
            IllegalStateError: it runs already.
        """
        if self._thread is not None:
            raise IllegalStateError("start(): the relay runs already; stop() it first")
        self._ends.clear()
        self._thread = threading.Thread(target=self._run, name="jbm-outbox-relay", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Send no more; returns when what is under way has ended. Again: nothing happens."""
        self._ends.set()
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join(STOP_S)
        if self._sending.acquire(timeout=0 if thread is not None else STOP_S):
            try:
                self._disconnect()
            finally:
                self._sending.release()

    def health(self, timeout: float | None = 5.0) -> Health:
        """How it fares; `MetricsServer` asks for it. With a timeout Kafka may be asked for so many seconds.

        Not alive: its thread does not run. Not ready: nothing can be sent now.
        """
        thread, connection = self._thread, self._connection
        if thread is None or not thread.is_alive():
            return Health(False, False, ("the relay does not run",))
        told = (self._trouble, self._shipping.hindrance, *self._waits.reasons)
        reasons = tuple(reason for reason in told if reason is not None)
        is_ready = self._trouble is None
        if is_ready and connection is not None and not connection.is_closed:
            of_kafka = connection.health(timeout)
            is_ready, reasons = of_kafka.is_ready, (*reasons, *of_kafka.reasons)
        return Health(True, is_ready, reasons)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<Relay {self.outbox.full_name} {'stopped' if self._thread is None else 'running'}>"

    def _run(self) -> None:
        wait_ms = 0
        while not self._ends.is_set():
            try:
                count = self._turn()
            except (JMSError, SQLAlchemyError, OSError) as error:
                wait_ms = self._after_trouble(str(error).partition("\n")[0], wait_ms)
            except Exception as error:
                log.exception("outbox: an error of ours; the relay goes on")
                wait_ms = self._after_trouble(f"an error of ours: {failure_text(error)}", wait_ms)
            else:
                self._trouble = None
                wait_ms = 0
                if count:
                    continue
            self._ends.wait((wait_ms or self._poll_ms) / 1000)

    def _after_trouble(self, text: str, wait_ms: int) -> int:
        if self._trouble is None:
            log.warning("outbox: the relay cannot send now, and tries again: %s", text)
        self._trouble = text
        return next_wait_ms(wait_ms)

    def _turn(self) -> int:
        """One batch for each destination that is to be tried alone, and one for all others."""
        with self._sending:
            count = 0
            for destination in self._waits.due(self._clock.monotonic_ms()):
                count += self._ship(destination)
            count += self._ship(None)
            self._sent_count += count
            self._look_after()
            return count

    def _ship(self, only: str | None) -> int:
        return len(self._attempt(lambda session: self._shipping.ship(session, only)).sent)

    def _attempt(self, act: Callable[[Session], T]) -> T:
        """Return what it gives; after a failure the session is gone, with whatever was in it."""
        try:
            return act(self._connected())
        except BaseException:
            self._disconnect()
            raise

    def _look_after(self) -> None:
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._looked_at_ms + CLEAN_UP_MS:
            return
        self._looked_at_ms = now_ms
        self._shipping.clean_up(self._keep_sent_ms)
        session = self._session
        if isinstance(session, XASession):
            self._attempt(lambda _: self._shipping.recover(session))

    def _connected(self) -> Session:
        if self._session is not None:
            return self._session
        if self._is_exact and isinstance(self._factory, XAConnectionFactory):
            connection = self._connection = self._factory.create_xa_connection()
            session = self._session = connection.create_xa_session()
            self._shipping.recover(session)
            return session
        self._connection = self._factory.create_connection()
        self._session = self._connection.create_session(AcknowledgeMode.TRANSACTED)
        return self._session

    def _disconnect(self) -> None:
        connection, self._connection, self._session = self._connection, None, None
        if connection is None:
            return
        try:
            connection.close()
        except JMSError as error:
            log.info("outbox: its connection was closed: %s", error)
