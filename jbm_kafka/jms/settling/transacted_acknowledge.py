"""TRANSACTED sessions: what was received is settled, and what was sent is visible, at commit; or neither (ACK-7)."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable

from jbm_kafka.core.channel.branch import Branch
from jbm_kafka.core.jms_errors import IllegalStateError, JMSError, TransactionInDoubtError, TransactionRolledBackError
from jbm_kafka.core.receiving import unacknowledged as places
from jbm_kafka.jms.messages.message import Message
from jbm_kafka.jms.settling.acknowledge import DURABLE_TIMEOUT_S, ExplicitAcknowledge, Rows, give_back
from jbm_kafka.ports.completion import Completion
from jbm_kafka.ports.deliveries import Delivery, PartitionLease
from jbm_kafka.ports.link import Link
from jbm_kafka.ports.unit_of_work import Received, UnitOfWork, expired_before_commit

log = logging.getLogger(__name__)

Notified = Callable[[Exception | None], None]
"""Told how something ended, on a thread of the provider's."""


class PendingCommit:
    """A commit under way: what it consists of, and what reports its end."""

    __slots__ = ("rows", "work")

    def __init__(self, work: UnitOfWork, rows: Rows) -> None:
        self.work = work
        self.rows = rows


class TransactedAcknowledge(ExplicitAcknowledge):
    """Sends and receives as one (ACK-7)."""

    def acknowledge_item(self, item: Delivery) -> None:
        self._check_open("acknowledge")

    def nack_item(self, item: Delivery, delay_ms: int | None, *, rejected: str | None = None) -> None:
        if rejected is not None:
            self.reject(Message(), rejected)
        self.nack(Message(), delay_ms)

    def recover(self) -> None:
        raise IllegalStateError("recover() is not for TRANSACTED sessions; use rollback()")

    def commit(self) -> None:
        """Commit what was received and sent, and count the sends by topic; with nothing to commit nothing is done."""
        pending = self._recorded()
        if pending is None:
            return
        sent = self._session.sent
        for record in pending.work.sends:
            sent[record.topic] = sent.get(record.topic, 0) + 1

    def prepare(self, branch: Branch) -> None:
        """Have what was received and sent prepared as this branch, also when that is nothing: it has its name then.

        Raises:
            TransactionRolledBackError: it cannot be; everything received is on its way back.
            TransactionInDoubtError: nobody knows whether it is prepared; then it is listed as such.
        """
        self._recorded(branch)

    def decided(self, *, is_committed: bool) -> None:
        """The prepared branch is: settle what was received in it and is no part of it, or give that back."""
        with self._session.lock:
            rows = self._unacknowledged.at(places.UNDECIDED)
            self._unacknowledged.apply(places.DECIDE if is_committed else places.GIVE_BACK, rows)
            if not is_committed:
                give_back(rows)
        for delivery in rows if is_committed else ():
            delivery.lease.acknowledge(delivery.offset)
        self._settled()

    def _recorded(self, branch: Branch | None = None) -> PendingCommit | None:
        """Commit, or prepare as the branch, and wait until it is durable."""
        pending = self.begin_commit(branch=branch)
        if pending is None:
            return None
        error: JMSError | None = None
        try:
            self._session.connection.wait_for(pending.work.done, DURABLE_TIMEOUT_S, about=pending.work.about)
        except JMSError as failure:
            error = failure
        if error is not None:
            self.commit_failed(pending, error)
        return pending

    def begin_commit(self, notified: Notified | None = None, branch: Branch | None = None) -> PendingCommit | None:
        """Have the transaction committed, or prepared as a branch; None: it was empty. `notified` of the end, beside
        `work.done`.

        Raises:
            TransactionRolledBackError: it cannot be; everything received is on its way back.
        """
        rows = self._take_part(branch)
        expires_at_ms = self._session.outbox.expires_at_ms
        sends = self._session.outbox.take_all()
        if expires_at_ms and self._session.connection.provider.clock.now_ms() >= expires_at_ms:
            self._give_back(rows)
            raise expired_before_commit(expires_at_ms)
        lost = next((each for each in (*rows, *self._unacknowledged.undecided) if each.lease.is_revoked), None)
        if lost is not None:
            self._give_back(rows)
            partition, offset = lost.place
            raise TransactionRolledBackError(
                f"rolled back: partition {partition} of {lost.lease.channel.topic} with offset {offset} "
                "moved to another process; everything received comes again, sends were dropped",
                partition=partition,
                offset=offset,
            )
        if not rows and not sends and branch is None:
            return None
        about = f"commit of {self._session.session_id}" if branch is None else f"branch {branch.xid}"

        def ended(error: Exception | None) -> None:
            if error is None:  # also when nobody waits for it any more, and it was thought to be in doubt
                with self._session.lock:
                    self._unacknowledged.apply(places.COMMIT, rows)
            if notified is not None:
                notified(error)

        work = UnitOfWork(about, sends, _received(rows), Completion(ended), expires_at_ms, branch)
        try:
            self._session.connection.provider.submit(work)
        except JMSError as error:
            self._give_back(rows)
            raise TransactionRolledBackError(f"rolled back: {error}") from None
        return PendingCommit(work, rows)

    def _take_part(self, branch: Branch | None) -> Rows:
        """All that the application has is in the transaction; returns what the provider has to record of it."""
        with self._session.lock:
            rows = self._unsettled() if branch is None else self._unacknowledged.at(places.SEEN)
            self._unacknowledged.apply(places.TAKE_PART, rows)
            ends_with_session = {
                delivery: link
                for delivery, link in rows.items()
                if branch is not None and not delivery.lease.is_recorded
            }
            self._unacknowledged.apply(places.AWAIT, ends_with_session)
        return {delivery: link for delivery, link in rows.items() if delivery not in ends_with_session}

    def _give_back(self, rows: Rows) -> None:
        with self._session.lock:
            self._unacknowledged.apply(places.GIVE_BACK, rows)
            give_back(rows, counted=self.counts_failures)
        if self._unacknowledged.undecided:
            self.decided(is_committed=False)

    def commit_failed(self, pending: PendingCommit, error: Exception) -> None:
        """End a commit that got this error, and raise what came of it.

        Raises:
            TransactionRolledBackError: everything received is on its way back.
            TransactionInDoubtError: nobody knows.
        """
        if isinstance(error, TransactionRolledBackError):
            self._give_back(pending.rows)
            raise error
        raise TransactionInDoubtError(
            f"{error}; close the session: what was not committed comes again", session=self._session.session_id
        ) from None

    def rollback(self) -> None:
        self.roll_back(None, None)

    def roll_back(self, delay_ms: int | None, rejected: str | None) -> None:
        self._session.outbox.take_all()
        self._give_back_all(delay_ms, rejected)

    @property
    def is_empty(self) -> bool:
        """Nothing was received or sent since the last commit or rollback."""
        return not len(self._session.outbox) and not self._unsettled()

    def abandon(self) -> None:
        self.rollback()

    def close(self) -> None:
        sends, received = len(self._session.outbox), len(self._unsettled())
        if sends or received:
            log.warning(
                "TRANSACTED session %s was closed before commit() or rollback(): sends dropped: %d; messages that come "
                "again: %d",
                *(self._session.session_id, sends, received),
            )
        super().close()


def _received(rows: Rows) -> list[Received]:
    by_lease: dict[tuple[Link, PartitionLease], list[int]] = defaultdict(list)
    for delivery, link in rows.items():
        by_lease[link, delivery.lease].append(delivery.offset)
    return [Received(link, lease, offsets) for (link, lease), offsets in by_lease.items()]
