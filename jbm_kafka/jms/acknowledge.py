"""How a session settles what its application received: one strategy for each acknowledge mode.

A strategy is asked at each receive, told of each message handed over, and carries out acknowledge, nack, recover,
commit, rollback and close as its mode says. What waits for a checkpoint is split in two: `begin_…` says it to the
provider, and its end is waited for, or told, apart from that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress

from jbm_kafka.core.errors import IllegalStateError, JMSError, TransactionInDoubtError, TransactionRolledBackError
from jbm_kafka.jms.messages import Message, Settler
from jbm_kafka.jms.session_core import SessionCore
from jbm_kafka.jms.unacknowledged import Unacknowledged, UnacknowledgedMessages, give_back
from jbm_kafka.ports.completion import Completion
from jbm_kafka.ports.deliveries import Delivery, PartitionLease
from jbm_kafka.ports.link import Link
from jbm_kafka.ports.refusals import refusal, tell_refused
from jbm_kafka.ports.unit_barrier import Disposition
from jbm_kafka.ports.unit_of_work import Received, UnitOfWork

DURABLE_TIMEOUT_S = 60.0
"""How long a blocking acknowledgement or a commit waits for its checkpoint."""
Notified = Callable[[Exception | None], None]
"""Told how something ended, on a thread of the provider's."""


class AcknowledgeStrategy:
    """What all modes share; on its own the settler of messages whose mode ignores `acknowledge`."""

    def __init__(self, session: SessionCore) -> None:
        self._session = session
        self._is_blocking: bool = session.connection.defaults.block_on_acknowledge

    @property
    def is_explicit(self) -> bool:
        """What the application received it has until it says what becomes of it."""
        return False

    def consumer_made(self, link: Link) -> None:
        """The session gets one more consumer.

        Raises:
            InvalidSettingError: its prefetch does not go with the session's settings.
        """

    def before_receive(self) -> None:
        """The application asks for the next message, on the session's thread."""

    def settle_at_once(self) -> bool:
        """What `before_receive` does, if that is done in a moment: this may be called under the session's lock.

        Returns False when it did nothing; then `before_receive` must be called, without the lock.
        """
        return True

    def handed_over(self, link: Link, delivery: Delivery) -> Settler:
        """The application gets a message of the link; returns what its `acknowledge` and `nack` go to."""
        raise NotImplementedError

    def not_handed_over(self, delivery: Delivery) -> None:
        """Undo `handed_over`, if that was done: the application did not get it after all."""

    def count(self, link: Link) -> int:
        """How many messages of the link are unacknowledged."""
        return 0

    def acknowledge_all(self) -> None:
        """`session.acknowledge()`."""

    def recover(self) -> None:
        """`session.recover()`."""

    def commit(self) -> None:
        """`session.commit()`."""
        raise self._not_transacted("commit")

    def rollback(self) -> None:
        """`session.rollback()`."""
        raise self._not_transacted("rollback")

    def abandon(self) -> None:
        """The application leaves by an exception: what it holds was not processed."""

    def consumer_closes(self, link: Link) -> None:
        """The link's consumer closes, the session goes on."""

    def listener_raised(self, message: Message) -> None:
        """The listener of the message raised (ACK-11)."""

    def listener_returned(self) -> None:
        """The listener of the last message returned."""

    def close(self) -> None:
        """The session closes."""

    def acknowledge(self, message: Message) -> None:
        """`message.acknowledge()`: ignored in AUTO, DUPS_OK, PRE, NO and TRANSACTED."""
        self._session.check_open()

    def nack(self, message: Message, delay_ms: int | None) -> None:
        """`message.nack()`: only CLIENT and INDIVIDUAL have one."""
        self._session.check_open()
        raise IllegalStateError(
            f"nack() is for CLIENT and INDIVIDUAL sessions, this one is {self._session.mode.name}; make one with "
            f"create_session(AcknowledgeMode.INDIVIDUAL)"
        )

    def let_go_closed(self) -> None:
        """Detach the links of closed consumers of which nothing is unacknowledged, nor on its way to a listener."""
        listening = self._session.guard.listening

        def may_go(link: Link) -> bool:
            return not self.count(link) and not (listening is not None and listening.taking_for is link)

        self._session.links.let_go(may_go)

    def _not_transacted(self, call: str) -> IllegalStateError:
        return IllegalStateError(
            f"{call}() is for TRANSACTED sessions, this one is {self._session.mode.name}; make one with "
            f"create_session(AcknowledgeMode.TRANSACTED)"
        )

    def _settled(self) -> None:
        """There may be room for others now, and closed consumers may go."""
        self._session.wake()
        if self._session.links.has_closed:
            self.let_go_closed()

    def _record(self, rows: Sequence[Unacknowledged]) -> None:
        """Acknowledge; waits until it is durable when the connection says so."""
        lost = self._record_blocking(rows) if self._is_blocking else self._record_soon(rows)
        if lost:
            raise refusal(lost[0][0].channel, [offset for _, offset in lost])

    def _record_soon(self, rows: Sequence[Unacknowledged]) -> list[tuple[PartitionLease, int]]:
        lost: list[tuple[PartitionLease, int]] = []
        for row in rows:
            lease = row.delivery.lease
            lost += [(lease, late) for late in lease.acknowledge(row.reference.offset)]
        return lost

    def _record_blocking(self, rows: Sequence[Unacknowledged]) -> list[tuple[PartitionLease, int]]:
        lost: list[tuple[PartitionLease, int]] = []
        by_link: dict[Link, list[tuple[PartitionLease, int]]] = defaultdict(list)
        for row in rows:
            place = (row.delivery.lease, row.reference.offset)
            if row.delivery.lease.is_revoked:
                lost.append(place)
            else:
                by_link[row.link].append(place)
        waits: list[Completion] = []
        for link, acknowledged in by_link.items():
            waits.append(Completion())
            link.dispositions.append(Disposition(acknowledged=acknowledged, done=waits[-1]))
        for wait in waits:
            self._session.connection.wait_for(wait, DURABLE_TIMEOUT_S, about="acknowledge")
        return lost


class AutoAcknowledge(AcknowledgeStrategy):
    """The message before is settled when the next is asked for (ACK-1)."""

    def __init__(self, session: SessionCore) -> None:
        super().__init__(session)
        self._previous: Delivery | None = None
        """What the application has."""
        self._link: Link | None = None
        """Where it came from. Beside it, for an object that holds both would be one more for each message."""

    def before_receive(self) -> None:
        if self.settle_at_once():
            return
        previous = self._take_previous()
        assert previous is not None, self._session.session_id
        lease = previous.delivery.lease
        if lease.is_revoked:
            tell_refused(lease, [previous.reference.offset])
        else:
            self._record([previous])

    def settle_at_once(self) -> bool:
        previous = self._previous
        if previous is None:
            return True
        lease = previous.lease
        if lease.is_revoked or self._is_blocking:
            return False
        self._previous = None
        late = lease.acknowledge(previous.reference.offset)
        if late:  # lost since the look above
            tell_refused(lease, late)
        return True

    def handed_over(self, link: Link, delivery: Delivery) -> AcknowledgeStrategy:
        self._previous = delivery
        self._link = link
        return self

    def not_handed_over(self, delivery: Delivery) -> None:
        if self._previous is delivery:
            self._previous = None

    def count(self, link: Link) -> int:
        return 1 if self._previous is not None and self._link is link else 0

    def recover(self) -> None:
        self.before_receive()

    def abandon(self) -> None:
        previous = self._take_previous()
        if previous is not None and not previous.delivery.lease.is_revoked:
            give_back([previous], counted=True)

    def listener_raised(self, message: Message) -> None:
        self.abandon()

    def listener_returned(self) -> None:
        self.before_receive()

    def consumer_closes(self, link: Link) -> None:
        if self._link is link:
            self.before_receive()

    def close(self) -> None:
        try:
            self.before_receive()
        except JMSError as error:
            self._session.connection.notify_exception(error)

    def _take_previous(self) -> Unacknowledged | None:
        """What the application has, which it has no more."""
        previous, self._previous = self._previous, None
        return None if previous is None or self._link is None else Unacknowledged(previous, self._link)


class MessageSettler:
    """Settles one message of a session; stands between the message and the session's strategy."""

    __slots__ = ("_item", "_strategy")

    def __init__(self, strategy: ExplicitAcknowledge, item: Unacknowledged) -> None:
        self._strategy = strategy
        self._item = item

    def acknowledge(self, message: Message) -> None:
        """`message.acknowledge()`."""
        self._strategy.acknowledge_item(self._item)

    def nack(self, message: Message, delay_ms: int | None) -> None:
        """`message.nack()`."""
        self._strategy.nack_item(self._item, delay_ms)


class ExplicitAcknowledge(AcknowledgeStrategy):
    """Base of the modes in which the application says when. Any thread may call, so what it holds is guarded."""

    def __init__(self, session: SessionCore) -> None:
        super().__init__(session)
        self._held = UnacknowledgedMessages()

    @property
    def is_explicit(self) -> bool:
        return True

    def handed_over(self, link: Link, delivery: Delivery) -> AcknowledgeStrategy | MessageSettler:
        item = Unacknowledged(delivery, link)
        with self._session.lock:
            self._held.add(item)
        return MessageSettler(self, item)

    def not_handed_over(self, delivery: Delivery) -> None:
        with self._session.lock:
            self._held.take_where(lambda item: item.delivery is delivery)

    def count(self, link: Link) -> int:
        return self._held.count(link)

    def acknowledge_item(self, item: Unacknowledged) -> None:
        """`message.acknowledge()`; of a message that is settled already: nothing."""
        raise NotImplementedError

    def nack_item(self, item: Unacknowledged, delay_ms: int | None) -> None:
        """`message.nack()`."""
        raise NotImplementedError

    def recover(self) -> None:
        self._give_back_all(delay_ms=None)

    def abandon(self) -> None:
        self._give_back_all(delay_ms=None)

    def close(self) -> None:
        self._give_back_all(delay_ms=0)

    def _take_all(self) -> list[Unacknowledged]:
        with self._session.lock:
            return self._held.take_all()

    def _give_back_all(self, delay_ms: int | None) -> None:
        _give_back_present(self._take_all(), delay_ms)
        self._settled()

    def _too_late(self, item: Unacknowledged) -> IllegalStateError:
        partition, offset = item.delivery.place
        return IllegalStateError(
            f"the message at partition {partition}, offset {offset} was given back (nack or recover) before it was "
            f"acknowledged; it is delivered again"
        )

    def _settled_before(self, item: Unacknowledged) -> IllegalStateError:
        partition, offset = item.delivery.place
        return IllegalStateError(
            f"the message at partition {partition}, offset {offset} was settled already; it cannot be given back"
        )


class IndividualAcknowledge(ExplicitAcknowledge):
    """Each message on its own (ACK-6)."""

    def acknowledge_item(self, item: Unacknowledged) -> None:
        self._session.check_open()
        with self._session.lock:
            was_held = self._held.take(item)
        if was_held:
            self._record([item])
            self._settled()
        elif item.was_returned:
            raise self._too_late(item)

    def nack_item(self, item: Unacknowledged, delay_ms: int | None) -> None:
        self._session.check_open()
        with self._session.lock:
            if not self._held.take(item):
                raise self._settled_before(item)
        _give_back_present([item], delay_ms)
        self._settled()

    def acknowledge_all(self) -> None:
        self._record(self._take_all())
        self._settled()

    def listener_raised(self, message: Message) -> None:
        """It alone goes back: the others are with workers that the listener gave them to."""
        with suppress(IllegalStateError):  # the listener has settled it, or closed the session
            message.nack()


class ClientAcknowledge(ExplicitAcknowledge):
    """Everything up to the message acknowledged (ACK-2)."""

    def acknowledge_item(self, item: Unacknowledged) -> None:
        self._session.check_open()
        with self._session.lock:
            items = self._held.take_through(item)
        if item.was_returned:
            raise self._too_late(item)
        self._record(items)
        self._settled()

    def nack_item(self, item: Unacknowledged, delay_ms: int | None) -> None:
        self._session.check_open()
        with self._session.lock:
            items = self._held.take_unit_from(item)
        if not items:
            raise self._settled_before(item)
        for each in items:
            each.was_returned = True
        # Only the one refused is an attempt; the later ones of its unit go back with it (UNIT-3), uncounted: the
        # channel finds them by itself.
        _give_back_present([item], delay_ms)
        self._settled()

    def acknowledge_all(self) -> None:
        self._record(self._take_all())
        self._settled()


class PendingCommit:
    """A commit under way: what it consists of, and what tells its end."""

    __slots__ = ("items", "work")

    def __init__(self, work: UnitOfWork, items: Sequence[Unacknowledged]) -> None:
        self.work = work
        self.items = items


class TransactedAcknowledge(ExplicitAcknowledge):
    """Sends and receives as one (ACK-7)."""

    def acknowledge_item(self, item: Unacknowledged) -> None:
        self._session.check_open()

    def nack_item(self, item: Unacknowledged, delay_ms: int | None) -> None:
        self.nack(Message(), delay_ms)

    def recover(self) -> None:
        raise IllegalStateError("recover() is not for TRANSACTED sessions; use rollback()")

    def commit(self) -> None:
        pending = self.begin_commit()
        if pending is None:
            return
        error: JMSError | None = None
        try:
            self._session.connection.wait_for(pending.work.done, DURABLE_TIMEOUT_S, about=pending.work.about)
        except JMSError as failure:
            error = failure
        if error is not None:
            self.commit_failed(pending, error)

    def begin_commit(self, notified: Notified | None = None) -> PendingCommit | None:
        """Have the transaction committed; None when it is empty. `notified` of the end, beside `work.done`.

        Raises:
            TransactionRolledBackError: it cannot be; everything received is on its way back.
        """
        items = self._take_all()
        expires_at_ms = self._session.outbox.expires_at_ms
        sends = self._session.outbox.take_all()
        if expires_at_ms and self._session.connection.provider.clock.now_ms() >= expires_at_ms:
            _give_back_present(items)
            raise TransactionRolledBackError(
                f"rolled back: a message sent in it expired at {expires_at_ms} (ms since 1970), before the commit; "
                f"everything received comes again, sends were dropped. Commit sooner, or give a longer time_to_live_ms",
                expired_at_ms=expires_at_ms,
            )
        lost = next((item for item in items if item.delivery.lease.is_revoked), None)
        if lost is not None:
            _give_back_present(items)
            partition, offset = lost.delivery.place
            raise TransactionRolledBackError(
                f"rolled back: partition {partition} of {lost.delivery.lease.channel.topic} with offset {offset} "
                "moved to another process; everything received comes again, sends were dropped",
                partition=partition,
                offset=offset,
            )
        if not items and not sends:
            return None
        work = UnitOfWork(f"commit of {self._session.session_id}", sends, _received(items), Completion(notified))
        try:
            self._session.connection.provider.submit(work)
        except JMSError as error:
            _give_back_present(items)
            raise TransactionRolledBackError(f"rolled back: {error}") from None
        return PendingCommit(work, items)

    def commit_failed(self, pending: PendingCommit, error: Exception) -> None:
        """The end of a commit that was told this error: what came of it is told in turn.

        Raises:
            TransactionRolledBackError: everything received is on its way back.
            TransactionInDoubtError: nobody knows.
        """
        if isinstance(error, TransactionRolledBackError):
            _give_back_present(pending.items)
            raise error
        raise TransactionInDoubtError(
            f"{error}; close the session: what was not committed comes again", session=self._session.session_id
        ) from None

    def rollback(self) -> None:
        self._session.outbox.take_all()
        self._give_back_all(delay_ms=None)

    def abandon(self) -> None:
        self.rollback()


def _give_back_present(items: Sequence[Unacknowledged], delay_ms: int | None = None) -> None:
    """Return, counted, what is not lost."""
    give_back([item for item in items if not item.delivery.lease.is_revoked], counted=True, delay_ms=delay_ms)


def _received(items: list[Unacknowledged]) -> list[Received]:
    by_lease: dict[tuple[Link, PartitionLease], list[int]] = defaultdict(list)
    for item in items:
        by_lease[item.link, item.delivery.lease].append(item.reference.offset)
    return [Received(link, lease, offsets) for (link, lease), offsets in by_lease.items()]
