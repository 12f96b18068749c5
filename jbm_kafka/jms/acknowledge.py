"""How a session settles what its application received: one strategy for each acknowledge mode.

The session calls its strategy at each receive and for each message handed over. The strategy carries out acknowledge,
nack, recover, commit, rollback and close as its mode says. What waits for a checkpoint is split in two: `begin_…` asks
the provider for it, and another call waits for its end or reports it.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress

from jbm_kafka.core.jms_errors import IllegalStateError, JMSError, TransactionRolledBackError
from jbm_kafka.core.settlement import Modified
from jbm_kafka.jms.message import Message, Settler
from jbm_kafka.jms.modes import AcknowledgeMode, not_of_mode
from jbm_kafka.jms.named_messages import ids_in_hand, with_ids
from jbm_kafka.jms.session_core import SessionCore
from jbm_kafka.jms.settled_too_late import after_close, not_needed
from jbm_kafka.jms.unacknowledged import Unacknowledged, UnacknowledgedMessages, give_back
from jbm_kafka.ports.completion import Completion
from jbm_kafka.ports.deliveries import Delivery, PartitionLease
from jbm_kafka.ports.link import Link
from jbm_kafka.ports.refusals import notify_refused, refusal
from jbm_kafka.ports.unit_barrier import Disposition

log = logging.getLogger(__name__)

DURABLE_TIMEOUT_S = 60.0
"""How long a blocking acknowledgement or a commit waits for its checkpoint."""


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

    def roll_back(self, delay_ms: int | None, rejected: str | None) -> None:
        """As `rollback`, and what comes of the messages is said."""
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
        self._check_open("acknowledge")

    def nack(self, message: Message, delay_ms: int | None) -> None:
        """`message.nack()`: only CLIENT and INDIVIDUAL have one."""
        self._check_open("nack")
        error = not_of_mode("nack", self._session.mode, AcknowledgeMode.INDIVIDUAL, of="CLIENT and INDIVIDUAL")
        if self._session.is_transacted:
            raise IllegalStateError(f"{error}; here rollback() gives all of the transaction back")
        raise error

    def reject(self, message: Message, reason: str) -> None:
        """`message.reject()`: only CLIENT and INDIVIDUAL have one."""
        self._check_open("reject")
        raise not_of_mode("reject", self._session.mode, AcknowledgeMode.INDIVIDUAL, of="CLIENT and INDIVIDUAL")

    def let_go_closed(self) -> None:
        """Detach the links of closed consumers of which nothing is unacknowledged, nor on its way to a listener."""
        listening = self._session.guard.listening

        def may_go(link: Link) -> bool:
            return not self.count(link) and not (listening is not None and listening.taking_for is link)

        self._session.links.let_go(may_go)

    def _check_open(self, call: str) -> None:
        """Raises IllegalStateError when the session has ended: it is too late, and was never needed."""
        if self._session.links.have_ended:
            self._session.connection.check_process()
            raise not_needed(call, self._session.mode)

    def _not_transacted(self, call: str) -> IllegalStateError:
        return not_of_mode(call, self._session.mode, AcknowledgeMode.TRANSACTED)

    def _settled(self) -> None:
        """There may be room for others now, and closed consumers may go."""
        self._session.wake()
        if self._session.links.has_closed:
            self.let_go_closed()

    def _record(self, rows: Sequence[Unacknowledged]) -> None:
        """Acknowledge; waits until it is durable when the connection says so."""
        try:
            lost = self._record_blocking(rows) if self._is_blocking else self._record_soon(rows)
        except JMSError as error:
            raise with_ids(error, ids_in_hand(rows)) from None
        if lost:
            late = refusal(lost[0][0].channel, [offset for _, offset in lost])
            raise with_ids(late, ids_in_hand(rows))

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
        waits: list[tuple[Completion, list[tuple[PartitionLease, int]]]] = []
        for link, acknowledged in by_link.items():
            waits.append((Completion(), acknowledged))
            link.settlement.dispositions.append(Disposition(acknowledged=acknowledged, done=waits[-1][0]))
        for wait, acknowledged in waits:
            try:
                self._session.connection.wait_for(wait, DURABLE_TIMEOUT_S, about="acknowledge")
            except TransactionRolledBackError as error:
                # The caller asked for no transaction: the error is that of a partition that moved before the call.
                gone = error.values.get("topic"), error.values.get("partition")
                moved = [each for each in acknowledged if (each[0].channel.topic, each[0].channel.partition) == gone]
                lost += moved or acknowledged
        return lost


class OneInHand(AcknowledgeStrategy):
    """Base of the modes in which the application is done with a message when it asks for the next."""

    def __init__(self, session: SessionCore) -> None:
        super().__init__(session)
        self._in_hand: Delivery | None = None
        """What the application has."""
        self._link: Link | None = None
        """Where it came from. Beside it, for an object that holds both would be one more for each message."""

    def handed_over(self, link: Link, delivery: Delivery) -> AcknowledgeStrategy:
        self._in_hand = delivery
        self._link = link
        return self

    def not_handed_over(self, delivery: Delivery) -> None:
        if self._in_hand is delivery:
            self._in_hand = None

    def listener_raised(self, message: Message) -> None:
        self.abandon()

    def listener_returned(self) -> None:
        self.before_receive()

    def _is_in_listener(self) -> bool:
        """Somebody closes, and has waited in vain for a listener, which works on what is in hand."""
        listening = self._session.guard.listening
        return listening is not None and not listening.is_idle and not listening.is_current

    def _take_in_hand(self) -> Unacknowledged | None:
        """What the application has, which it has no more."""
        in_hand, self._in_hand = self._in_hand, None
        return None if in_hand is None or self._link is None else Unacknowledged(in_hand, self._link)

    def _give_back_in_hand(self) -> None:
        """It was not processed, as far as anybody knows: it comes again."""
        in_hand = self._take_in_hand()
        if in_hand is not None and not in_hand.delivery.lease.is_revoked:
            give_back([in_hand], counted=True)


class AutoAcknowledge(OneInHand):
    """The message before is settled when the next is asked for (ACK-1)."""

    def before_receive(self) -> None:
        if self.settle_at_once():
            return
        in_hand = self._take_in_hand()
        assert in_hand is not None, self._session.session_id
        lease = in_hand.delivery.lease
        if lease.is_revoked:
            notify_refused(lease, [in_hand.reference.offset])
        else:
            self._record([in_hand])

    def settle_at_once(self) -> bool:
        in_hand = self._in_hand
        if in_hand is None:
            return True
        lease = in_hand.lease
        if lease.is_revoked or self._is_blocking:
            return False
        self._in_hand = None
        late = lease.acknowledge(in_hand.reference.offset)
        if late:  # lost since the look above
            notify_refused(lease, late)
        return True

    def count(self, link: Link) -> int:
        return 1 if self._in_hand is not None and self._link is link else 0

    def recover(self) -> None:
        self.before_receive()

    def abandon(self) -> None:
        self._give_back_in_hand()

    def consumer_closes(self, link: Link) -> None:
        if self._link is link and not self._is_in_listener():  # else its return settles it
            self.before_receive()

    def close(self) -> None:
        if self._is_in_listener():
            self._give_back_in_hand()
            return
        try:
            self.before_receive()
        except JMSError as error:
            self._session.connection.notify_exception(error)


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

    def reject(self, message: Message, reason: str) -> None:
        """`message.reject()`."""
        self._strategy.nack_item(self._item, None, rejected=reason)

    def put_back(self) -> None:
        """The message comes again, and this was no attempt."""
        self._strategy.put_back_item(self._item)


def put_back(message: Message) -> None:
    """Have a message of an INDIVIDUAL or TRANSACTED session come again, uncounted: it was seen, and that was all."""
    settler = message._settler
    if isinstance(settler, MessageSettler):
        settler.put_back()


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

    def nack_item(self, item: Unacknowledged, delay_ms: int | None, *, rejected: str | None = None) -> None:
        """`message.nack()`; `message.reject()`, with its reason."""
        raise NotImplementedError

    def put_back_item(self, item: Unacknowledged) -> None:
        """It comes again, uncounted."""
        with self._session.lock:
            is_ours = self._held.take(item) and not item.delivery.lease.is_revoked
        if is_ours:
            item.was_returned = True
            item.link.give_back([(item.delivery, Modified(item.reference.offset, counted=False, was_seen=True))])
        self._settled()

    def recover(self) -> None:
        self._give_back_all(delay_ms=None)

    def abandon(self) -> None:
        self._give_back_all(delay_ms=None)

    def close(self) -> None:
        items = self._take_all()
        for item in items:  # of a partition that is gone too: it comes again there
            item.was_returned = True
        give_back_present(items, 0)
        self._settled()

    def _take_all(self) -> list[Unacknowledged]:
        with self._session.lock:
            return self._held.take_all()

    def _give_back_all(self, delay_ms: int | None, rejected: str | None = None) -> None:
        give_back_present(self._take_all(), delay_ms, rejected)
        self._settled()

    def _check_item(self, item: Unacknowledged, call: str) -> None:
        """Raises IllegalStateError when the session has ended, with what became of the message.

        Any thread: a listener that closing waits for may wait for the worker that it gave the message to.
        """
        if self._session.links.have_ended:
            self._session.connection.check_process()
            raise after_close(call, _named(item), comes_again=item.was_returned or self._held.has(item))

    def _check_recorded(self, items: Iterable[Unacknowledged]) -> None:
        """Raises JMSError when nothing can be recorded now; the application still has them, and may try again."""
        for item in items:
            hindrance = item.link.notices.hindrance
            if hindrance is not None and self._held.has(item) and not item.delivery.lease.is_revoked:
                raise hindrance.with_traceback(None)

    def _record_all(self) -> None:
        self._check_recorded(self._held.all())
        self._record(self._take_all())
        self._settled()

    def _too_late(self, item: Unacknowledged) -> IllegalStateError:
        return IllegalStateError(
            f"{_named(item)} was given back (nack or recover) before it was acknowledged; it is delivered again"
        )

    def _settled_before(self, item: Unacknowledged) -> IllegalStateError:
        became = (
            "given back already; it is delivered again"
            if item.was_returned
            else ("settled already; it cannot be given back")
        )
        return IllegalStateError(f"{_named(item)} was {became}")


class IndividualAcknowledge(ExplicitAcknowledge):
    """Each message on its own (ACK-6)."""

    def acknowledge_item(self, item: Unacknowledged) -> None:
        self._check_item(item, "acknowledge")
        self._check_recorded([item])
        with self._session.lock:
            was_held = self._held.take(item)
        if was_held:
            self._record([item])
            self._settled()
        elif item.was_returned:
            raise self._too_late(item)

    def nack_item(self, item: Unacknowledged, delay_ms: int | None, *, rejected: str | None = None) -> None:
        self._check_item(item, "nack" if rejected is None else "reject")
        with self._session.lock:
            if not self._held.take(item):
                raise self._settled_before(item)
        give_back_present([item], delay_ms, rejected)
        self._settled()

    def acknowledge_all(self) -> None:
        self._record_all()

    def listener_raised(self, message: Message) -> None:
        """It alone goes back: the others are with workers that the listener gave them to."""
        with suppress(IllegalStateError):  # the listener has settled it, or closed the session
            message.nack()


class ClientAcknowledge(ExplicitAcknowledge):
    """Everything up to the message acknowledged (ACK-2)."""

    def acknowledge_item(self, item: Unacknowledged) -> None:
        self._check_item(item, "acknowledge")
        self._check_recorded([item])
        with self._session.lock:
            items = self._held.take_through(item)
        if item.was_returned:
            raise self._too_late(item)
        self._record(items)
        self._settled()

    def nack_item(self, item: Unacknowledged, delay_ms: int | None, *, rejected: str | None = None) -> None:
        self._check_item(item, "nack" if rejected is None else "reject")
        with self._session.lock:
            items = self._held.take_unit_from(item)
        if not items:
            raise self._settled_before(item)
        for each in items:
            each.was_returned = True
        # Only the one refused is an attempt; the later ones of its unit go back with it (UNIT-3), uncounted: the
        # channel finds them by itself.
        give_back_present([item], delay_ms, rejected)
        self._settled()

    def acknowledge_all(self) -> None:
        self._record_all()


def _named(item: Unacknowledged) -> str:
    """The message, for people: a program that receives from several queues does not know it by its place alone."""
    partition, offset = item.delivery.place
    return f"the message of Kafka topic {item.delivery.lease.channel.topic!r} at partition {partition}, offset {offset}"


def give_back_present(
    items: Sequence[Unacknowledged], delay_ms: int | None = None, rejected: str | None = None
) -> None:
    """Return, counted, what is not lost."""
    present = [item for item in items if not item.delivery.lease.is_revoked]
    give_back(present, counted=True, delay_ms=delay_ms, rejected=rejected)
