"""The bookstore's audit: a durable subscription of the journal, which is a topic. It reads along, leaves, comes back.

What it saw of an order it notes in the transaction in which it received it, so that it is noted once.
"""

from __future__ import annotations

import contextlib
import json
import threading
from types import TracebackType
from typing import Self

from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.cli.connect import factory_of
from jbm_kafka.core.destination import Queue, Topic
from jbm_kafka.core.jms_errors import JMSError, TransactionRolledBackError
from jbm_kafka.demo.bookstore import SUBSCRIPTION, Names, address_settings
from jbm_kafka.jms.base.modes import AcknowledgeMode
from jbm_kafka.jms.session import Session

RECEIVE_S = 0.2
BATCH = 50
"""Entries of the journal in one transaction, at most."""
LEAVE_S = 20.0


class Auditor:
    """Subscribed while it is open as a context manager, at work between `begin` and `leave`."""

    def __init__(self, cluster: Cluster, names: Names) -> None:
        self._names = names
        self._factory = factory_of(cluster, client_id=names.audit, address_settings=address_settings())
        self._work: threading.Thread | None = None
        self._is_leaving = threading.Event()
        self.seen = 0
        """Finished orders and cancellations whose notes are committed."""
        self.failure: Exception | None = None
        """Why it ended early."""

    def begin(self) -> None:
        """Take the subscription up, in a thread of its own; what came meanwhile comes first."""
        self._is_leaving.clear()
        self._work = threading.Thread(target=self._audit, name="bookstore-auditor", daemon=True)
        self._work.start()

    def leave(self) -> None:
        """Close the consumer; the subscription goes on keeping what comes."""
        self._is_leaving.set()
        if self._work is not None:
            self._work.join(LEAVE_S)

    def _audit(self) -> None:
        try:
            with self._connection.create_session(AcknowledgeMode.TRANSACTED) as session:
                self._read_along(session)
        except Exception as error:  # the thread that shows the progress raises it
            self.failure = error

    def _read_along(self, session: Session) -> None:
        consumer = session.create_durable_consumer(Topic(self._names.journal), SUBSCRIPTION, prefetch=2 * BATCH)
        notes = session.create_producer(Queue(self._names.audit))
        while not self._is_leaving.is_set():
            received = noted = 0
            while received < BATCH and (message := consumer.receive(RECEIVE_S)) is not None:
                received += 1
                entry = json.loads(str(message.body))
                if entry["kind"] == "done":
                    note = {name: entry[name] for name in ("of", "order", "customer", "cents")}
                    notes.send(json.dumps(note), unit_of_order=entry["customer"])
                    noted += 1
            with contextlib.suppress(TransactionRolledBackError):  # it all comes again
                session.commit()
                self.seen += noted

    def __enter__(self) -> Self:
        self._connection = self._factory.create_connection()
        try:
            # Made before there is anything in the journal; from here on it misses nothing.
            with self._connection.create_session() as session:
                session.create_durable_consumer(Topic(self._names.journal), SUBSCRIPTION).close()
            self._connection.start()
        except BaseException:
            self._connection.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()
        with contextlib.suppress(JMSError), self._connection.create_session() as session:
            session.unsubscribe(SUBSCRIPTION)
        self._connection.close()
