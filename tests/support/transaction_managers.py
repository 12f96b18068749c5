"""Two transaction managers, as small as they can be and no smaller: between them and a restart lies no lost decision.

Both decide once: whoever records first, a coordinator or a recovery, has decided, and the other finds it. What they ask
of a participant is PEP 249, which a connection of psycopg and an XA session both speak.
"""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import psycopg

from jbm_kafka.errors import JMSError

FORMAT = 74
"""Of the transactions of these managers: others' they leave alone."""
DATABASE, MESSAGES = "database", "messages"
COMMIT, ROLLBACK = "commit", "rollback"


class Participant(Protocol):
    """What takes part in a transaction."""

    def xid(self, format_id: int, gtrid: str, bqual: str, /) -> Any: ...
    def tpc_begin(self, xid: Any, /) -> None: ...
    def tpc_prepare(self) -> None: ...
    def tpc_commit(self, xid: Any = None, /) -> None: ...
    def tpc_rollback(self, xid: Any = None, /) -> None: ...
    def tpc_recover(self) -> Any: ...


class Manager(Protocol):
    """One transaction at a time, in four steps, between any two of which its process may die."""

    def begin(self, gtrid: str) -> None:
        """Until `prepare` rows may be written and messages received and sent."""

    def prepare(self) -> None:
        """Nothing of it can be lost any more."""

    def decide(self) -> str:
        """From here on it is `COMMIT` or `ROLLBACK`, for ever."""

    def finish(self) -> None:
        """It is done as decided."""

    def give_up(self) -> None:
        """Instead of `prepare`: nothing has happened."""

    def recover(self) -> None:
        """Ends what other processes have left, and rolls back what they have not decided."""


class LastResource:
    """The decision is a row that commits with the rows of the work: the database need not be able to prepare."""

    TABLE = "CREATE TABLE decisions (gtrid text PRIMARY KEY, decision text NOT NULL)"

    def __init__(self, database: "psycopg.Connection[tuple[Any, ...]]", session: Participant) -> None:
        self._database, self._session = database, session
        self._gtrid = ""
        self._decision = ROLLBACK

    def begin(self, gtrid: str) -> None:
        self._gtrid, self._decision = gtrid, ROLLBACK
        self._session.tpc_begin(self._session.xid(FORMAT, gtrid, MESSAGES))

    def prepare(self) -> None:
        self._session.tpc_prepare()

    def decide(self) -> str:
        try:
            self._database.execute("INSERT INTO decisions VALUES (%s, %s)", (self._gtrid, COMMIT))
            self._database.commit()
            self._decision = COMMIT
        except psycopg.errors.UniqueViolation:  # a recovery was faster
            self._database.rollback()
        return self._decision

    def finish(self) -> None:
        if self._decision == COMMIT:
            self._session.tpc_commit()
        else:
            self._session.tpc_rollback()

    def give_up(self) -> None:
        self._database.rollback()
        self._session.tpc_rollback()

    def recover(self) -> None:
        for xid in self._session.tpc_recover():
            if xid.format_id == FORMAT:
                _end(self._session, xid, self._decision_of(_text(xid.gtrid)))

    def _decision_of(self, gtrid: str) -> str:
        """Waits for a coordinator that is about to commit its row."""
        with self._database.transaction():
            self._database.execute("INSERT INTO decisions VALUES (%s, %s) ON CONFLICT DO NOTHING", (gtrid, ROLLBACK))
        row = self._database.execute("SELECT decision FROM decisions WHERE gtrid = %s", (gtrid,)).fetchone()
        self._database.rollback()
        assert row is not None, gtrid
        return str(row[0])


class TwoPhase:
    """Both prepare, and the decision is the manager's own: a link, which only the first can make."""

    def __init__(self, participants: Mapping[str, Participant], decisions: Path) -> None:
        self._participants, self._decisions = participants, decisions
        self._gtrid = ""
        self._decision = ROLLBACK

    def begin(self, gtrid: str) -> None:
        self._gtrid = gtrid
        for name, participant in self._participants.items():
            participant.tpc_begin(participant.xid(FORMAT, gtrid, name))

    def prepare(self) -> None:
        for participant in self._participants.values():
            participant.tpc_prepare()

    def decide(self) -> str:
        self._decision = self._decided(self._gtrid, COMMIT)
        return self._decision

    def finish(self) -> None:
        for participant in self._participants.values():
            if self._decision == COMMIT:
                participant.tpc_commit()
            else:
                participant.tpc_rollback()

    def give_up(self) -> None:
        for participant in self._participants.values():
            participant.tpc_rollback()

    def recover(self) -> None:
        for name, participant in self._participants.items():
            for xid in participant.tpc_recover():
                if xid.format_id == FORMAT and _text(xid.bqual) == name:
                    _end(participant, xid, self._decided(_text(xid.gtrid), ROLLBACK))

    def _decided(self, gtrid: str, wanted: str) -> str:
        path = self._decisions / gtrid
        with suppress(FileExistsError):
            path.symlink_to(wanted)
        return str(path.readlink())


def _text(part: str | bytes) -> str:
    """psycopg has text in its names, a session bytes."""
    return part if isinstance(part, str) else part.decode()


def _end(participant: Participant, xid: Any, decision: str) -> None:
    """As decided; another recovery may have done it meanwhile."""
    try:
        if decision == COMMIT:
            participant.tpc_commit(xid)
        else:
            participant.tpc_rollback(xid)
    except (JMSError, psycopg.errors.UndefinedObject):
        if isinstance(participant, psycopg.Connection):
            participant.rollback()
        if xid in participant.tpc_recover():
            raise
