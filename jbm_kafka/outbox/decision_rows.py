"""DecisionRows of transactions over a database and queues: rows, of which the first counts (decision 111).

The decision to commit is a row that commits with the rows of the work, so the database need not prepare anything.
"""

from __future__ import annotations

import logging
import time
import uuid

from jbm_kafka.core.channel.branch import Xid
from jbm_kafka.core.jms_errors import IllegalStateError
from jbm_kafka.jms.xa import XASession
from jbm_kafka.outbox.caller_connection import CallerConnection

log = logging.getLogger(__name__)

COMMIT, ROLLBACK = "commit", "rollback"
_IDENTITY = ""
"""In place of a transaction's name, which is not empty."""


class DecisionRows:
    """The decisions in one table."""

    def __init__(self, full_name: str) -> None:
        self._table = ".".join(f'"{part}"' for part in full_name.split("."))

    @property
    def ddl(self) -> str:
        """Makes the table, unless it is there."""
        return (
            f"CREATE TABLE IF NOT EXISTS {self._table} "
            f"(gtrid text PRIMARY KEY, decision text NOT NULL, decided_at_ms bigint NOT NULL)"
        )

    def identity(self, there: CallerConnection) -> str:
        """A name that this table alone has, and so does who finds branches of its decisions; the caller commits."""
        self.is_first(there, _IDENTITY, uuid.uuid4().hex)
        found = self.found(there, _IDENTITY)
        assert found is not None, self._table
        return found

    def is_first(self, there: CallerConnection, gtrid: str, decision: str) -> bool:
        """True when this is the decision, once the connection's transaction commits; False: there is one already.

        It waits for a transaction that is about to decide the same.
        """
        values = {"gtrid": gtrid, "decision": decision, "now": time.time_ns() // 1_000_000}
        sql = f"INSERT INTO {self._table} VALUES (:gtrid, :decision, :now) ON CONFLICT (gtrid) DO NOTHING"
        return there.run(sql, values).changed == 1

    def found(self, there: CallerConnection, gtrid: str) -> str | None:
        """The decision; None: there is none."""
        sql = f"SELECT decision FROM {self._table} WHERE gtrid = :gtrid"
        row = there.run(sql, {"gtrid": gtrid}).row
        return None if row is None else str(row[0])

    def forget(self, there: CallerConnection, gtrid: str) -> None:
        """Delete the decision of a branch that has ended."""
        there.run(f"DELETE FROM {self._table} WHERE gtrid = :gtrid", {"gtrid": gtrid})

    def forget_before(self, there: CallerConnection, before_ms: int, but: list[str]) -> int:
        """Delete those that were made before a time, but for some transactions; how many."""
        values: dict[str, object] = {"before": before_ms}
        sql = f"DELETE FROM {self._table} WHERE decided_at_ms < :before AND gtrid <> '{_IDENTITY}'"
        for number, gtrid in enumerate(but):
            values[f"gtrid{number}"] = gtrid
            sql += f" AND gtrid <> :gtrid{number}"
        return there.run(sql, values).changed


def own_branches(session: XASession, format_id: int, bqual: str) -> list[Xid]:
    """The prepared branches of the managers with that name."""
    return [xid for xid in session.tpc_recover() if (xid.format_id, xid.bqual) == (format_id, bqual.encode())]


def carry_out(session: XASession, xid: Xid, decision: str) -> None:
    """End a prepared branch as it was decided; nothing happens where it has ended.

    Raises:
        TransactionRolledBackError: an operator has rolled back what was to be committed.
        TransactionInDoubtError: it is not known yet; call again.
    """
    try:
        if decision == COMMIT:
            session.tpc_commit(xid)
        else:
            session.tpc_rollback(xid)
    except IllegalStateError as error:
        if xid in session.tpc_recover():
            raise
        log.debug("branch %s has ended: %s", xid, error)
