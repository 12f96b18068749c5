"""One batch from a table to its queues: claimed, sent in one transaction of Kafka's, marked (OUTBOX-2, OUTBOX-3).

Between the end of Kafka's transaction and that of the database's a relay may die. Then another sends the batch again,
and the queues drop it by its duplicate ids within their windows. In a session of an XAConnection nothing is sent again:
the batch is a branch, and the decision to commit it commits with the marks.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import ColumnElement, Connection, Engine, Row, delete, select, update

from jbm_kafka.core.channel.branch import Xid
from jbm_kafka.core.destination import parse_destination
from jbm_kafka.core.jms_errors import (
    InvalidDestinationError,
    InvalidSettingError,
    JMSError,
    MessageFormatError,
    MessageTooLargeError,
    ResourceAllocationError,
    TransactionRolledBackError,
)
from jbm_kafka.core.sentinels import NO_UNIT, UNSET
from jbm_kafka.jms.producer import MessageProducer
from jbm_kafka.jms.session import Session
from jbm_kafka.jms.xa import XASession
from jbm_kafka.outbox.caller_connection import caller_connection
from jbm_kafka.outbox.claims import AT_ONCE, Claim, claiming
from jbm_kafka.outbox.decision_rows import COMMIT, ROLLBACK, DecisionRows, carry_out, own_branches
from jbm_kafka.outbox.destination_waits import DestinationWaits
from jbm_kafka.outbox.outbox_rows import FAILED, SENT, message_of_row, sendable
from jbm_kafka.outbox.outbox_table import BUCKETS, Outbox
from jbm_kafka.ports.clock import Clock

log = logging.getLogger(__name__)

BATCH_BYTES_MAX = 4 * 2**20
"""The bytes of bodies that a relay reads at once, and less than a session keeps for its commit."""
FORMAT = 111
"""The format id in the xids of relays' branches."""
KEPT_DECISIONS_MS = 7 * 86_400_000
"""A relay that stood still so long would not find that its branch was rolled back."""
_HOPELESS = (MessageFormatError, MessageTooLargeError, InvalidDestinationError, InvalidSettingError)
"""Errors that a message meets again, whenever it is sent."""


@dataclass(slots=True)
class Batch:
    """The outcome for some rows."""

    sent: list[int] = field(default_factory=list)
    """The ids of those that are in the transaction."""
    failed: dict[int, str] = field(default_factory=dict)
    """The reasons of those to be set aside, by id."""
    destinations: set[str] = field(default_factory=set)
    """Where those go that are in the transaction."""


class Shipping:
    """The batches of one relay."""

    def __init__(self, engine: Engine, outbox: Outbox, rows_max: int, waits: DestinationWaits, clock: Clock) -> None:
        self._outbox, self._rows_max, self._waits, self._clock = outbox, rows_max, waits, clock
        self._engine = engine
        self._claiming = claiming(engine, outbox)
        self._decisions = DecisionRows(outbox.branches.fullname)
        self._bqual = ""
        self._first = uuid.uuid4().int % BUCKETS
        self.hindrance: str | None = None
        """The hindrance that only an operator can end; None: there is none."""

    def ship(self, session: Session, only: str | None = None) -> Batch:
        """Send what can be sent now, some of it: to `only`, or to all destinations that do not wait.

        Raises:
            JMSError: nothing of it was sent, or nobody knows; make a new session.
            SQLAlchemyError: the database does not answer. What was sent may not be marked.
        """
        but = () if only is not None else self._waits.names
        condition = sendable(self._outbox.table, holds=self._outbox.on_failed == "hold", only=only, but=but)
        self._first = (self._first + AT_ONCE) % BUCKETS
        branch: Xid | None = None
        with self._claiming(condition, self._first) as claim:
            if only is not None and not claim.buckets and not claim.is_shared:
                self._waits.release(only)  # nothing is left that could tell
            buckets = self._ready(claim, session)
            rows = self._rows(claim, condition, buckets) if buckets else ()
            if not rows:
                return Batch()
            if isinstance(session, XASession):
                branch = session.xid(FORMAT, uuid.uuid4().hex, self._bqual)
                session.tpc_begin(branch)
            batch = self._send(session.create_producer(), rows)
            self._end_of_sends(session, batch)
            with claim.begin() as connection:
                self._mark(connection, batch, branch)
        if branch is not None and isinstance(session, XASession):
            session.tpc_commit()
            with self._engine.begin() as connection:
                self._forget(connection, branch.gtrid.decode())
        if only is not None and batch.sent:
            self._waits.release(only)
        return batch

    def clean_up(self, keep_sent_ms: int) -> None:
        """Delete what was sent so long ago, and decisions of branches that have long ended."""
        with self._engine.begin() as connection:
            self._outbox.clean_up(connection, keep_sent_ms)
            before_ms = self._clock.now_ms() - KEPT_DECISIONS_MS
            rollbacks = self._outbox.branches.c.decision == ROLLBACK
            old = self._outbox.branches.c.decided_at_ms < before_ms
            connection.execute(delete(self._outbox.branches).where(rollbacks, old))

    def recover(self, session: XASession) -> None:
        """End the branches that relays have left: as decided, or else they are rolled back and their rows wait.

        Called before the first batch of a session.
        """
        with self._engine.begin() as connection:
            self._bqual = self._decisions.identity(caller_connection(connection, "recover"))
        for xid in own_branches(session, FORMAT, self._bqual):
            gtrid = xid.gtrid.decode()
            with self._engine.begin() as connection:
                is_ours = self._decisions.is_first(caller_connection(connection, "recover"), gtrid, ROLLBACK)
            with self._engine.begin() as connection:
                decision = self._decisions.found(caller_connection(connection, "recover"), gtrid)
            log.warning("outbox: a relay left branch %s, which is ended with %s", xid, decision)
            carry_out(session, xid, ROLLBACK if is_ours or decision is None else decision)
            if decision == COMMIT:
                with self._engine.begin() as connection:
                    self._forget(connection, gtrid)

    def _ready(self, claim: Claim, session: Session) -> list[int]:
        """The buckets whose last batch is in its queues for certain; what follows may not come before it."""
        branch, bucket = self._outbox.table.c.branch, self._outbox.table.c.bucket
        if not claim.buckets:
            return []
        found = select(bucket, branch).where(bucket.in_(claim.buckets), branch.is_not(None)).distinct()
        with claim.begin() as connection:
            left = [(row.bucket, str(row.branch)) for row in connection.execute(found)]
        if not isinstance(session, XASession):
            blocked = {number for number, _ in left}
            self.hindrance = f"{len(blocked)} buckets wait for a relay with exactly_once" if blocked else None
            return [bucket for bucket in claim.buckets if bucket not in blocked]
        for gtrid in {gtrid for _, gtrid in left}:
            carry_out(session, session.xid(FORMAT, gtrid, self._bqual), COMMIT)
            with claim.begin() as connection:
                self._forget(connection, gtrid)
        return list(claim.buckets)

    def _rows(self, claim: Claim, condition: ColumnElement[bool], buckets: list[int]) -> Sequence[Row[Any]]:
        """The first ones, as many as a batch may have."""
        columns = self._outbox.table.c
        first = select(columns.id, columns.size_bytes).where(columns.bucket.in_(buckets), condition)
        ids: list[int] = []
        size_bytes = 0
        with claim.begin() as connection:
            for row in connection.execute(first.order_by(columns.id).limit(self._rows_max)):
                size_bytes += row.size_bytes
                if ids and size_bytes > BATCH_BYTES_MAX:
                    break
                ids.append(row.id)
            chosen = select(self._outbox.table).where(columns.id.in_(ids)).order_by(columns.id)
            return connection.execute(chosen).all() if ids else ()

    def _send(self, producer: MessageProducer, rows: Sequence[Row[Any]]) -> Batch:
        """Put them into the session's transaction, each unit up to the first that cannot go."""
        batch = Batch()
        held: set[tuple[str, str]] = set()
        stopped: set[str] = set()
        for row in rows:
            if row.destination in stopped or (row.destination, row.unit) in held:
                continue
            try:
                self._send_one(producer, row)
            except _HOPELESS as error:
                batch.failed[row.id] = str(error)
                log.warning("outbox: row %d to %s is set aside: %s", row.id, row.destination, error)
                if row.unit is not None and self._outbox.on_failed == "hold":
                    held.add((row.destination, row.unit))
            except ResourceAllocationError:
                if not batch.sent:
                    raise
                break  # the rest is another batch
            except JMSError as error:
                stopped.add(row.destination)
                self._fail(row.destination, error)
            else:
                batch.sent.append(row.id)
                batch.destinations.add(row.destination)
        return batch

    def _send_one(self, producer: MessageProducer, row: Row[Any]) -> None:
        now_ms = self._clock.now_ms()
        stored = message_of_row(row)
        producer.send(
            stored.message(),
            destination=parse_destination(row.destination),
            priority=row.priority,
            delivery_delay_ms=max(0, row.deliver_at_ms - now_ms),
            # What has expired meanwhile expires in its queue, as what waits there does.
            time_to_live_ms=max(1, row.expires_at_ms - now_ms) if row.expires_at_ms else 0,
            unit_of_order=NO_UNIT if stored.refuses_units else UNSET,
            duplicate_id=row.duplicate_id,
        )

    def _end_of_sends(self, session: Session, batch: Batch) -> None:
        """Commit them, or prepare them in a branch; where that fails, it is found out for which destination."""
        try:
            if isinstance(session, XASession):
                session.tpc_prepare()
            else:
                session.commit()
        except JMSError as error:
            if len(batch.destinations) > 1:
                self._waits.suspect(batch.destinations, self._clock.monotonic_ms())
            for destination in batch.destinations if len(batch.destinations) == 1 else ():
                self._fail(destination, error)
            raise

    def _fail(self, destination: str, error: JMSError) -> None:
        log.warning("outbox: %s takes nothing, and is tried again later: %s", destination, error)
        self._waits.fail(destination, str(error), self._clock.monotonic_ms())

    def _mark(self, connection: Connection, batch: Batch, branch: Xid | None) -> None:
        table, now_ms = self._outbox.table, self._clock.now_ms()
        gtrid = None if branch is None else branch.gtrid.decode()
        if gtrid is not None:
            there = caller_connection(connection, "ship")
            if not self._decisions.is_first(there, gtrid, COMMIT):
                raise TransactionRolledBackError(f"branch {branch} was rolled back by another relay's recovery")
        sent = update(table).where(table.c.id.in_(batch.sent))
        if batch.sent:
            connection.execute(sent.values(state=SENT, ended_at_ms=now_ms, reason=None, branch=gtrid))
        for row_id, reason in batch.failed.items():
            failed = update(table).where(table.c.id == row_id)
            attempts = table.c.attempts + 1
            connection.execute(failed.values(state=FAILED, ended_at_ms=now_ms, reason=reason, attempts=attempts))

    def _forget(self, connection: Connection, gtrid: str) -> None:
        """Its branch has ended: what follows may be sent."""
        table = self._outbox.table
        connection.execute(update(table).where(table.c.branch == gtrid).values(branch=None))
        self._decisions.forget(caller_connection(connection, "ship"), gtrid)
