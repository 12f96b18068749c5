"""Branches of transactions of several systems (XA), by the calls that PEP 249 names (ACK-10).

A transaction manager begins a branch in a session, prepares it, and commits or rolls it back when all its systems are
prepared; after a crash it finds what is prepared with `tpc_recover`.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Self

from jbm_kafka.core.channel.branch import Branch, BranchState, Xid, checked_xid, is_across
from jbm_kafka.core.jms_errors import IllegalStateError, TransactionInProgressError, TransactionRolledBackError
from jbm_kafka.core.wrong_values import wrong_type
from jbm_kafka.jms.base.arguments import checked_timeout_s
from jbm_kafka.jms.base.modes import AcknowledgeMode
from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.factory import ConnectionFactory
from jbm_kafka.jms.session import Session
from jbm_kafka.jms.settling.transacted_acknowledge import TransactedAcknowledge
from jbm_kafka.jms.shared.connection_core import ConnectionCore


class XASession(Session):
    """A TRANSACTED session of which a transaction manager ends the transactions. Made by `create_xa_session`.

    Outside of a branch it is as any TRANSACTED session.
    """

    __slots__ = ("_branch", "_expires_at_ms", "_is_prepared")

    def __init__(self, connection: ConnectionCore) -> None:
        super().__init__(connection, AcknowledgeMode.TRANSACTED)
        self._branch: Branch | None = None
        """The one that the session is in."""
        self._is_prepared = False
        self._expires_at_ms = 0
        """Until when it must be prepared, monotonic; 0: it may take its time."""

    def xid(self, format_id: int, gtrid: str | bytes, bqual: str | bytes) -> Xid:
        """Make the name of a branch.

        Args:
            format_id: 0 to 2147483647; the manager's own.
            gtrid: of the whole transaction, 1 to 64 bytes.
            bqual: of this branch, 64 bytes at most.

        Raises:
            InvalidSettingError: a part cannot be so; of a wrong type InvalidTypeError.
        """
        return checked_xid(format_id, gtrid, bqual)

    def tpc_begin(self, xid: Xid, timeout: float | None = None) -> None:
        """Begin the branch: all that the session receives and sends from now on belongs to it.

        Args:
            timeout: seconds until it must be prepared, or is rolled back; None: however long it takes.

        Raises:
            IllegalStateError: the session is in a branch or in a transaction, or has a listener; or a branch of this
                name is open or prepared.
            JMSError: the cluster does not answer.
        """
        named = _checked(xid)
        timeout_s = None if timeout is None else checked_timeout_s(timeout)
        if self._core.guard.listening is not None and self._core.guard.listening.is_needed:
            raise IllegalStateError(
                f"tpc_begin({named}): the session has a listener, whose messages nobody could assign to a branch; "
                f"receive in the session that has the branch"
            )
        with self._core.in_use():
            if self._branch is not None:
                raise IllegalStateError(
                    f"tpc_begin({named}): the session is in branch {self._branch.xid}; end that with tpc_commit() or "
                    f"tpc_rollback() first, or use another session"
                )
            if not self._transacted.is_empty:
                raise IllegalStateError(
                    f"tpc_begin({named}): the session has received or sent outside of a branch; commit() or "
                    f"rollback() first"
                )
            self._branch = self._connection.provider.begin_branch(named)
            self._is_prepared = False
            now_ms = self._connection.provider.clock.monotonic_ms()
            self._expires_at_ms = 0 if timeout_s is None else now_ms + int(timeout_s * 1000)

    def tpc_prepare(self) -> None:
        """Make the branch durable: it can be committed and rolled back from now on, by whoever knows its name.

        Raises:
            TransactionRolledBackError: it could not be; everything received comes again, and the branch has ended.
            TransactionInDoubtError: nobody knows; `tpc_recover` tells.
            IllegalStateError: the session is in no branch, or that is prepared already.
        """
        with self._core.in_use():
            branch = self._in_branch("tpc_prepare")
            if self._is_prepared:
                raise IllegalStateError(f"tpc_prepare(): branch {branch.xid} is prepared already")
            self._connection.completions.wait_before("tpc_prepare()")
            self._check_time(branch)
            try:
                self._transacted.prepare(branch)
            except BaseException:
                self._left(branch)
                raise
            self._is_prepared = True

    def tpc_commit(self, xid: Xid | None = None) -> None:
        """Commit: the branch of the session, in one phase when it is not prepared; or, outside of one, any prepared.

        It returns when the decision is durable. Messages are settled as soon as the owner of their partition looks.
        Where another has committed it before, it is committed.

        Raises:
            TransactionRolledBackError: it was rolled back, here or by another.
            TransactionInDoubtError: it is not known yet; call again, with the xid.
            IllegalStateError: nothing is known of a branch of this name; or its messages went another way meanwhile.
        """
        self._decide("tpc_commit", xid, BranchState.COMMITTED)

    def tpc_rollback(self, xid: Xid | None = None) -> None:
        """Roll back, as `tpc_commit` commits: sends are dropped, and what was received comes again, counted.

        Raises:
            IllegalStateError: it was committed before; or as of `tpc_commit`.
            TransactionInDoubtError: it is not known yet; call again, with the xid.
        """
        self._decide("tpc_rollback", xid, BranchState.ROLLED_BACK)

    def tpc_recover(self) -> list[Xid]:
        """Return the prepared branches of the namespace, of whatever manager: go by your own `gtrid`.

        Raises:
            JMSError: the cluster does not answer.
        """
        self._core.check_open()
        found = self._connection.provider.prepared_branches()
        return sorted({each.xid for each in found if not is_across(each.branch)})

    def commit(self) -> None:
        """Commit as any TRANSACTED session does, outside of a branch."""
        self._check_outside("commit")
        super().commit()

    def rollback(self) -> None:
        """Roll back as any TRANSACTED session does, outside of a branch."""
        self._check_outside("rollback")
        super().rollback()

    def transaction(self) -> AbstractContextManager[Self]:
        """Return a block as of any TRANSACTED session, outside of a branch."""
        self._check_outside("transaction")
        return super().transaction()

    def _finish_close(self) -> None:
        """Close it. A branch that is not prepared is rolled back and forgotten; a prepared one goes on."""
        branch = self._branch
        super()._finish_close()
        if branch is not None and not self._is_prepared:
            self._left(branch)

    # -- leaves ------------------------------------------------------------------------------------------------------

    @property
    def _transacted(self) -> TransactedAcknowledge:
        assert isinstance(self._strategy, TransactedAcknowledge), self._strategy
        return self._strategy

    def _decide(self, call: str, xid: Xid | None, wanted: BranchState) -> None:
        with self._core.in_use():
            self._connection.completions.wait_before(f"{call}()")
            if xid is None:
                self._end_own(call, wanted)
                return
            named = _checked(xid)
            if self._branch is not None and not (self._is_prepared and self._branch.xid == named):
                raise IllegalStateError(
                    f"{call}({named}): the session is in branch {self._branch.xid}; end that first, or use another "
                    f"session"
                )
            if self._branch is not None:
                self._end_own(call, wanted)
                return
            found = [each for each in self._connection.provider.prepared_branches() if each.xid == named]
            if not found:
                decided = self._connection.provider.decision_of(named)
                if decided is None:
                    raise IllegalStateError(
                        f"{call}({named}): no branch of this name is prepared; it was ended before, or never prepared"
                    )
                self._check_decision(named, wanted, decided)
            for each in found:
                self._check_decision(each.xid, wanted, self._connection.provider.decide(each.branch, wanted))

    def _end_own(self, call: str, wanted: BranchState) -> None:
        branch = self._in_branch(call)
        if self._is_prepared:
            try:
                state = self._connection.provider.decide(branch.branch, wanted)
            except IllegalStateError:  # others have ended it
                self._branch = None
                self._transacted.decided(is_committed=False)
                raise
            self._branch = None
            self._transacted.decided(is_committed=state is BranchState.COMMITTED)
            self._check_decision(branch.xid, wanted, state)
            return
        try:
            if wanted is BranchState.COMMITTED:
                self._check_time(branch)
                self._transacted.commit()
            else:
                self._transacted.rollback()
        finally:
            self._left(branch)

    def _check_decision(self, xid: Xid, wanted: BranchState, state: BranchState) -> None:
        if state is wanted:
            return
        if wanted is BranchState.COMMITTED:
            raise TransactionRolledBackError(f"branch {xid} was rolled back before; everything received comes again")
        raise IllegalStateError(f"branch {xid} was committed before, and cannot be rolled back")

    def _check_time(self, branch: Branch) -> None:
        if self._expires_at_ms and self._connection.provider.clock.monotonic_ms() > self._expires_at_ms:
            self._transacted.rollback()
            self._left(branch)
            raise TransactionRolledBackError(
                f"branch {branch.xid} was rolled back: its timeout was over before it was prepared; everything "
                f"received comes again, sends were dropped"
            )

    def _in_branch(self, call: str) -> Branch:
        if self._branch is None:
            raise IllegalStateError(f"{call}(): the session is in no branch; tpc_begin(xid) begins one")
        return self._branch

    def _left(self, branch: Branch) -> None:
        self._branch = None
        self._connection.provider.forget_branch(branch)

    def _check_outside(self, call: str) -> None:
        if self._branch is not None:
            raise TransactionInProgressError(
                f"{call}(): the session is in branch {self._branch.xid}, which its manager ends with tpc_commit() or "
                f"tpc_rollback()"
            )


def _checked(xid: object) -> Xid:
    if not isinstance(xid, Xid):
        raise wrong_type("xid", xid, "it is what session.xid(format_id, gtrid, bqual) returns")
    return checked_xid(*xid)


class XAConnection(Connection):
    """A connection whose sessions may be branches of transactions of several systems."""

    __slots__ = ()

    def create_xa_session(self) -> XASession:
        """Make a TRANSACTED session with `tpc_begin`, `tpc_prepare`, `tpc_commit`, `tpc_rollback` and `tpc_recover`."""
        self._check_open()
        return self._added(XASession(self._core))


class XAConnectionFactory(ConnectionFactory):
    """As `ConnectionFactory`, with connections for transaction managers."""

    __slots__ = ()

    def create_xa_connection(self) -> XAConnection:
        """Make a connection, stopped. Errors as of `create_connection`."""
        return XAConnection(self._open_provider(), self._defaults)
