"""One transaction over a session and a database's connection: both happen, or none does (ACK-10).

The decision is a row that commits with the rows of the work, so the database prepares nothing (decision 111).
"""

from __future__ import annotations

import logging
import time
import uuid
from types import TracebackType
from typing import Protocol, Self

from jbm_kafka.core.durations import checked_duration_ms
from jbm_kafka.core.jms_errors import IllegalStateError, TransactionRolledBackError
from jbm_kafka.core.wrong_values import wrong_type
from jbm_kafka.jms.xa import XAConnection, XASession
from jbm_kafka.outbox.caller_connection import CallerConnection, caller_connection
from jbm_kafka.outbox.decision_rows import COMMIT, ROLLBACK, DecisionRows, carry_out, own_branches
from jbm_kafka.outbox.table_name import checked_table_name

log = logging.getLogger(__name__)

FORMAT = 112
"""The format id in the xids of these managers' branches."""


class TransactedConnection(Protocol):
    """A connection to a database, as PEP 249 has it."""

    def commit(self) -> object: ...
    def rollback(self) -> object: ...


class XaTransaction:
    """A context manager, again and again: what its session and its database do in a block happens together.

        xa = XaTransaction(connection, psycopg_connection)
        consumer = xa.session.create_consumer(Queue("orders"))
        with xa:
            message = consumer.receive(timeout=10)
            xa.database.execute(...)

    An exception in the block rolls both back. What a process left that died ends `recover`, of any process with the
    same database. Of one thread, as its session is.

    Attributes: session, which receives and sends; database, which is the connection that was given.
    """

    def __init__(self, connection: XAConnection, database: TransactedConnection, table: str = "jbm_decisions") -> None:
        """A transaction that has not begun.

        Args:
            connection: has the session.
            database: a connection of psycopg, sqlite3 or SQLAlchemy, not in autocommit. What it has begun when a block
                begins belongs to the block.
            table: has the decisions; `create_table` makes it.

        Raises:
            InvalidTypeError, InvalidSettingError: an argument that cannot be.
            IllegalStateError: the database's connection is in autocommit; or the other one is closed.
        """
        if not isinstance(connection, XAConnection):
            raise wrong_type("connection", connection, "it is what XAConnectionFactory.create_xa_connection() returns")
        self._decisions = DecisionRows(checked_table_name("table", table))
        self.database = database
        self._there()
        self.session: XASession = connection.create_xa_session()
        self._identity = ""
        self._gtrid: str | None = None

    def create_table(self) -> None:
        """Make the table of decisions, unless it is there; commits."""
        self._there().run(self._decisions.ddl, {})
        self.database.commit()

    def recover(self) -> int:
        """End what processes have left that died: as decided, or else it is rolled back and comes again.

        A worker that stands still between its prepare and its decision finds that it was rolled back. Call it when a
        worker starts, and now and then: what is left holds its units until then. Returns how many were ended.

        Raises:
            IllegalStateError: called in a block.
            JMSError: the cluster does not answer; or an operator has decided otherwise.
        """
        if self._gtrid is not None:
            raise IllegalStateError("recover(): called in a block of this XaTransaction; call it between two")
        ended = 0
        for xid in own_branches(self.session, FORMAT, self._known_identity()):
            decision = self._decided(xid.gtrid.decode())
            log.warning("branch %s was left, and is ended with %s", xid, decision)
            carry_out(self.session, xid, decision)
            ended += 1
        return ended

    def forget(self, older_than_ms: int) -> int:
        """Delete decisions of that age whose branches have ended; commits. Returns how many.

        Args:
            older_than_ms: longer than any worker may stand still and go on.
        """
        before_ms = time.time_ns() // 1_000_000 - checked_duration_ms("older_than_ms", older_than_ms)
        left = [xid.gtrid.decode() for xid in own_branches(self.session, FORMAT, self._known_identity())]
        count = self._decisions.forget_before(self._there(), before_ms, left)
        self.database.commit()
        return count

    def __enter__(self) -> Self:
        """Begin; the block's receives and sends are those of `session`.

        Raises:
            IllegalStateError: it has begun, or its last end is not known: make another XaTransaction, and `recover`.
        """
        if self._gtrid is not None:
            raise IllegalStateError(
                f"transaction {self._gtrid} has not ended; end its block, or where that has failed make another "
                f"XaTransaction with new connections, whose recover() ends it"
            )
        bqual = self._known_identity()
        gtrid = uuid.uuid4().hex
        self.session.tpc_begin(self.session.xid(FORMAT, gtrid, bqual))
        self._gtrid = gtrid
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Commit both, or after an exception roll both back.

        Raises:
            TransactionRolledBackError: both are rolled back; everything received comes again.
            TransactionInDoubtError: it is decided, and `recover` carries it out.
            Exception: the database's own. Both are rolled back; or, where it does not answer, `recover` finds out.
        """
        assert self._gtrid is not None
        if error is not None:
            self._give_up()
        elif self.session._transacted.is_empty:  # nothing has to happen together
            self.session.tpc_rollback()
            self._gtrid = None
            self.database.commit()
        else:
            self._commit(self._gtrid)

    def __repr__(self) -> str:
        return f"<XaTransaction {'between two blocks' if self._gtrid is None else self._gtrid}>"

    def _commit(self, gtrid: str) -> None:
        try:
            self.session.tpc_prepare()
        except BaseException:
            self._give_up()
            raise
        try:
            is_first = self._decisions.is_first(self._there(), gtrid, COMMIT)
            if is_first:
                self.database.commit()
        except BaseException:
            self._find_out(gtrid)
            raise
        if not is_first:  # a recovery was faster
            self._give_up()
            raise TransactionRolledBackError(
                f"transaction {gtrid} was rolled back by a recovery, and so is the database; everything received "
                f"comes again"
            )
        self.session.tpc_commit()
        self._gtrid = None

    def _find_out(self, gtrid: str) -> None:
        """The database has failed with the decision: perhaps it has it. Else it is the other one from now on."""
        try:
            self.database.rollback()
            decision = self._decided(gtrid)
        except Exception as failure:
            log.warning("transaction %s: whether it is decided is not known, recover() finds out: %s", gtrid, failure)
            return
        if decision == COMMIT:
            self.session.tpc_commit()
        else:
            self.session.tpc_rollback()
        self._gtrid = None

    def _give_up(self) -> None:
        """Roll both back; what fails with that must not hide why."""
        for rollback in (self.database.rollback, self._roll_back_session):
            try:
                rollback()
            except Exception as failure:  # a closed connection has rolled back
                log.warning("transaction %s: %s failed: %s", self._gtrid, rollback.__qualname__, failure)
        self._gtrid = None

    def _roll_back_session(self) -> None:
        try:
            self.session.tpc_rollback()
        except IllegalStateError:
            if not self.session.is_closed and self.session._branch is not None:
                raise

    def _decided(self, gtrid: str) -> str:
        """The decision; it is to roll back unless there is one. Waits for a process that is about to commit one."""
        is_rolled_back = self._decisions.is_first(self._there(), gtrid, ROLLBACK)
        self.database.commit()
        decision = ROLLBACK if is_rolled_back else self._decisions.found(self._there(), gtrid)
        self.database.rollback()
        return ROLLBACK if decision is None else decision

    def _known_identity(self) -> str:
        if not self._identity:
            self._identity = self._decisions.identity(self._there())
            self.database.commit()
        return self._identity

    def _there(self) -> CallerConnection:
        return caller_connection(self.database, "XaTransaction")
