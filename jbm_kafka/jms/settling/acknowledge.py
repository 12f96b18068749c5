"""How a session settles what its application received: one strategy for each acknowledge mode.

The session calls its strategy at each receive and for each message handed over. The strategy carries out acknowledge,
nack, recover, commit, rollback and close as its mode says. What waits for a checkpoint is split in two: `begin_…` asks
the provider for it, and another call waits for its end or reports it.
"""

from __future__ import annotations

import logging
import sys
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from jbm_kafka.core.channel.settlement import Modified
from jbm_kafka.core.failure_text import failure_text
from jbm_kafka.core.jms_errors import IllegalStateError, JMSError, TransactionRolledBackError
from jbm_kafka.core.receiving import unacknowledged as places
from jbm_kafka.jms.base.modes import AcknowledgeMode, not_of_mode
from jbm_kafka.jms.messages.message import Message, Settler
from jbm_kafka.jms.settling.settled_too_late import after_close, not_needed
from jbm_kafka.jms.shared.named_messages import ids_in_hand, with_ids
from jbm_kafka.jms.shared.session_core import SessionCore
from jbm_kafka.ports.completion import Completion
from jbm_kafka.ports.deliveries import Delivery, PartitionLease
from jbm_kafka.ports.link import Link
from jbm_kafka.ports.link_owner import LinkOwner
from jbm_kafka.ports.refusals import notify_refused, refusal

log = logging.getLogger(__name__)

DURABLE_TIMEOUT_S = 60.0
"""How long a blocking acknowledgement or a commit waits for its checkpoint."""


Rows = Mapping[Delivery, Link]
"""Messages that the application had, each with the link that it came by."""


class AcknowledgeStrategy:
    """The part that all modes share; on its own the settler of messages whose mode ignores `acknowledge`."""

    def __init__(self, session: SessionCore) -> None:
        self._session = session
        self._unacknowledged: Final = session.links.unacknowledged
        self._is_blocking: bool = session.connection.defaults.block_on_acknowledge

    @property
    def is_explicit(self) -> bool:
        """Return True when what the application received it has until it says what becomes of it."""
        return False

    def consumer_made(self, link: Link) -> None:
        """The session gets one more consumer.

        Raises:
            InvalidSettingError: its prefetch does not go with the session's settings.
        """

    def before_receive(self) -> None:
        """The application asks for the next message, on the session's thread."""

    def settle_at_once(self) -> bool:
        """Do what `before_receive` does, if that is done in a moment: this may be called under the session's lock.

        Returns False when it did nothing; then `before_receive` must be called, without the lock.
        """
        return True

    def handed_over(self, link: Link, delivery: Delivery) -> Settler:
        """The application gets a message of the link; returns what its `acknowledge` and `nack` go to."""
        raise NotImplementedError

    def not_handed_over(self, delivery: Delivery) -> None:
        """Undo `handed_over`, if that was done: the application did not get it after all."""
        with self._session.lock:
            if delivery in self._unacknowledged.seen:
                self._unacknowledged.accept(delivery)

    def count(self, link: Link) -> int:
        """How many messages of the link are unacknowledged."""
        return self._unacknowledged.count(link)

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
        with self._session.lock:
            self._session.filled.notify_all()
        if self._session.links.has_closed:
            self.let_go_closed()

    def _record(self, rows: Rows) -> None:
        """Acknowledge; waits until it is durable when the connection says so."""
        try:
            lost = self._record_blocking(rows) if self._is_blocking else self._record_soon(rows)
        except JMSError as error:
            raise with_ids(error, ids_in_hand(rows)) from None
        if lost:
            late = refusal(lost[0][0].channel, [offset for _, offset in lost])
            raise with_ids(late, ids_in_hand(rows))

    def _record_soon(self, rows: Rows) -> list[tuple[PartitionLease, int]]:
        lost: list[tuple[PartitionLease, int]] = []
        for delivery in rows:
            late = delivery.lease.acknowledge(delivery.reference.offset)
            if late:
                lost += [(delivery.lease, offset) for offset in late]
        return lost

    def _record_blocking(self, rows: Rows) -> list[tuple[PartitionLease, int]]:
        lost: list[tuple[PartitionLease, int]] = []
        by_link: dict[Link, list[tuple[PartitionLease, int]]] = defaultdict(list)
        for delivery, link in rows.items():
            place = (delivery.lease, delivery.reference.offset)
            if delivery.lease.is_revoked:
                lost.append(place)
            else:
                by_link[link].append(place)
        waits: list[tuple[Completion, list[tuple[PartitionLease, int]]]] = []
        for link, acknowledged in by_link.items():
            waits.append((Completion(), acknowledged))
            link.settle(acknowledged, waits[-1][0])
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
    """Base of the modes in which the application is done with a message when it asks for the next.

    At most one of the session's is seen at a time, by its calls alone: so that takes no lock.
    """

    def handed_over(self, link: Link, delivery: Delivery) -> AcknowledgeStrategy:
        self._unacknowledged.hand_over(delivery, link)
        return self

    def listener_raised(self, message: Message) -> None:
        self.abandon()

    def listener_returned(self) -> None:
        self.before_receive()

    def _is_in_listener(self) -> bool:
        """Somebody closes, and has waited in vain for a listener, which works on what is in hand."""
        listening = self._session.guard.listening
        return listening is not None and not listening.is_idle and not listening.is_current

    def _give_back_in_hand(self) -> None:
        """It was not processed, as far as anybody knows: it comes again."""
        with self._session.lock:
            rows = self._unacknowledged.at(places.SEEN)
            self._unacknowledged.apply(places.GIVE_BACK, rows)
            give_back(rows)


class AutoAcknowledge(OneInHand):
    """The message before is settled when the next is asked for (ACK-1)."""

    def before_receive(self) -> None:
        with self._session.lock:  # whoever closes may have waited for the receive in vain
            if self.settle_at_once():
                return
            in_hand = self._unacknowledged.first()
            assert in_hand is not None, self._session.session_id
            link, lease = self._unacknowledged.accept(in_hand), in_hand.lease
        if lease.is_revoked:
            notify_refused(lease, [in_hand.reference.offset])
        else:
            self._record({in_hand: link})

    def settle_at_once(self) -> bool:
        if self._is_blocking:
            return not self._unacknowledged.seen
        in_hand = self._unacknowledged.accept_only()
        if in_hand is not None:
            late = in_hand.lease.acknowledge(in_hand.reference.offset)
            if late:  # its partition was taken from the session
                notify_refused(in_hand.lease, late)
        return True

    def recover(self) -> None:
        self.before_receive()

    def abandon(self) -> None:
        self._give_back_in_hand()

    def consumer_closes(self, link: Link) -> None:
        if self.count(link) and not self._is_in_listener():  # else its return settles it
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

    __slots__ = ("_delivery", "_strategy")

    def __init__(self, strategy: ExplicitAcknowledge, delivery: Delivery) -> None:
        self._strategy = strategy
        self._delivery = delivery

    def acknowledge(self, message: Message) -> None:
        """`message.acknowledge()`."""
        self._strategy.acknowledge_item(self._delivery)

    def nack(self, message: Message, delay_ms: int | None) -> None:
        """`message.nack()`."""
        self._strategy.nack_item(self._delivery, delay_ms)

    def reject(self, message: Message, reason: str) -> None:
        """`message.reject()`."""
        self._strategy.nack_item(self._delivery, None, rejected=reason)

    def put_back(self, *, was_seen: bool) -> None:
        """The message comes again, and this was no attempt."""
        self._strategy.put_back_item(self._delivery, was_seen=was_seen)

    def fail(self, delay_ms: int | None, rejected: str | None) -> None:
        """`ExplicitAcknowledge.fail_item`."""
        self._strategy.fail_item(self._delivery, delay_ms, rejected)


def put_back(message: Message, *, was_seen: bool = True) -> None:
    """Have a message of an INDIVIDUAL, CLIENT or TRANSACTED session come again, uncounted.

    It was seen, and that was all; or not even that. What the session has behind it in its unit goes back with it.
    """
    settler = message._settler
    if isinstance(settler, MessageSettler):
        settler.put_back(was_seen=was_seen)


def fail(message: Message, delay_ms: int | None = None, rejected: str | None = None) -> None:
    """Have a message of a CLIENT or TRANSACTED session go back as a failed attempt, or given up if it is `rejected`.

    The later ones of its unit that the session has go back with it, uncounted. One that is not held: nothing happens.
    """
    settler = message._settler
    if isinstance(settler, MessageSettler):
        settler.fail(delay_ms, rejected)


class ExplicitAcknowledge(AcknowledgeStrategy):
    """Base of the modes in which the application says when. Any thread may call, so the session's lock is taken."""

    counts_failures = True
    """What goes back by a failed commit, or because the session ends, counts as an attempt; False: it was no fault of
    the messages."""

    @property
    def is_explicit(self) -> bool:
        return True

    def handed_over(self, link: Link, delivery: Delivery) -> AcknowledgeStrategy | MessageSettler:
        with self._session.lock:
            self._unacknowledged.hand_over(delivery, link)
        return MessageSettler(self, delivery)

    def acknowledge_item(self, item: Delivery) -> None:
        """`message.acknowledge()`; of a message that is settled already: nothing."""
        raise NotImplementedError

    def nack_item(self, item: Delivery, delay_ms: int | None, *, rejected: str | None = None) -> None:
        """`message.nack()`; `message.reject()`, with its reason."""
        raise NotImplementedError

    def put_back_item(self, item: Delivery, *, was_seen: bool) -> None:
        """It comes again, uncounted."""
        with self._session.lock:
            rows = self._unacknowledged.one(item)
            self._unacknowledged.apply(places.GIVE_BACK, rows)
            for link in rows.values() if not item.lease.is_revoked else ():
                item.was_returned = True
                link.give_back([(item, Modified(item.offset, counted=False, was_seen=was_seen))])
        self._settled()

    def fail_item(self, item: Delivery, delay_ms: int | None, rejected: str | None) -> bool:
        """It alone is an attempt, or is given up; the later ones of its unit go back with it (UNIT-3), uncounted: the
        channel finds them by itself. False: it is settled, or on its way back."""
        with self._session.lock:
            rows = self._unacknowledged.unit_from(item)
            self._unacknowledged.apply(places.GIVE_BACK, rows)
            for each in rows:
                each.was_returned = True
            give_back({item: rows[item]} if rows else {}, delay_ms, rejected)
        if rows:
            self._settled()
        return bool(rows)

    def recover(self) -> None:
        self._give_back_all(delay_ms=None)

    def abandon(self) -> None:
        self._give_back_all(delay_ms=None)

    def close(self) -> None:
        with self._session.lock:
            for item in self._unsettled():  # of a partition that is gone too: it comes again there
                item.was_returned = True
        self._give_back_all(0)

    def _unsettled(self) -> dict[Delivery, Link]:
        """Return what the application has of which nothing was said. The caller holds the lock."""
        return self._unacknowledged.at(places.SEEN | places.UNDECIDED)

    def _give_back_all(self, delay_ms: int | None, rejected: str | None = None) -> None:
        with self._session.lock:
            rows = self._unsettled()
            self._unacknowledged.apply(places.GIVE_BACK, rows)
            give_back(rows, delay_ms, rejected, counted=self.counts_failures)
        self._settled()

    def _check_item(self, item: Delivery, call: str) -> None:
        """Raises IllegalStateError when the session has ended, with what became of the message.

        Any thread: a listener that closing waits for may wait for the worker that it gave the message to.
        """
        if self._session.links.have_ended:
            self._session.connection.check_process()
            raise after_close(call, _named(item), comes_again=item.was_returned or item in self._unacknowledged.seen)

    def _check_recorded(self, rows: Rows) -> None:
        """Raises JMSError when nothing can be recorded now; the application still has them, and may try again."""
        for item, link in rows.items():
            hindrance = link.notices.hindrance
            if hindrance is not None and not item.lease.is_revoked:
                raise hindrance.with_traceback(None)

    def _record_all(self) -> None:
        with self._session.lock:
            rows = self._unacknowledged.at(places.SEEN)
            self._check_recorded(rows)
            self._unacknowledged.apply(places.ACCEPT, rows)
        self._record(rows)
        self._settled()

    def _too_late(self, item: Delivery) -> IllegalStateError:
        return IllegalStateError(
            f"{_named(item)} was given back (nack or recover) before it was acknowledged; it is delivered again"
        )

    def _settled_before(self, item: Delivery) -> IllegalStateError:
        became = (
            "given back already; it is delivered again"
            if item.was_returned
            else ("settled already; it cannot be given back")
        )
        return IllegalStateError(f"{_named(item)} was {became}")


class IndividualAcknowledge(ExplicitAcknowledge):
    """Each message on its own (ACK-6)."""

    def acknowledge_item(self, item: Delivery) -> None:
        if self._session.links.have_ended:
            self._check_item(item, "acknowledge")
        with self._session.lock:
            rows = self._unacknowledged.one(item)
            self._check_recorded(rows)
            self._unacknowledged.apply(places.ACCEPT, rows)
        if rows:
            self._record(rows)
            self._settled()
        elif item.was_returned:
            raise self._too_late(item)

    def nack_item(self, item: Delivery, delay_ms: int | None, *, rejected: str | None = None) -> None:
        self._check_item(item, "nack" if rejected is None else "reject")
        with self._session.lock:
            rows = self._unacknowledged.one(item)
            self._unacknowledged.apply(places.GIVE_BACK, rows)
            give_back(rows, delay_ms, rejected)
        if not rows:
            raise self._settled_before(item)
        self._settled()

    def acknowledge_all(self) -> None:
        self._record_all()

    def listener_raised(self, message: Message) -> None:
        """It alone goes back: the others are with workers that the listener gave them to."""
        with suppress(IllegalStateError):  # the listener has settled it, or closed the session
            message.nack()


class ClientAcknowledge(ExplicitAcknowledge):
    """Everything up to the message acknowledged (ACK-2)."""

    def acknowledge_item(self, item: Delivery) -> None:
        if self._session.links.have_ended:
            self._check_item(item, "acknowledge")
        with self._session.lock:
            rows = self._unacknowledged.through(item)
            if rows and rows[item].notices.hindrance is not None:
                self._check_recorded(self._unacknowledged.one(item))
            self._unacknowledged.apply(places.ACCEPT, rows)
        if item.was_returned:
            raise self._too_late(item)
        self._record(rows)
        self._settled()

    def nack_item(self, item: Delivery, delay_ms: int | None, *, rejected: str | None = None) -> None:
        self._check_item(item, "nack" if rejected is None else "reject")
        if not self.fail_item(item, delay_ms, rejected):
            raise self._settled_before(item)

    def acknowledge_all(self) -> None:
        self._record_all()

    def roll_back(self, delay_ms: int | None, rejected: str | None) -> None:
        self._give_back_all(delay_ms, rejected)


def _named(item: Delivery) -> str:
    """The message, for people: a program that receives from several queues does not know it by its place alone."""
    partition, offset = item.place
    return f"the message of Kafka topic {item.lease.channel.topic!r} at partition {partition}, offset {offset}"


def give_back(rows: Rows, delay_ms: int | None = None, rejected: str | None = None, *, counted: bool = True) -> None:
    """Return what is not lost, as failed attempts if `counted`, or give it up when it is `rejected`; asynchronous.

    Those of one queue or subscription go together, whichever consumer received them: alone, the first of a unit would
    take the later ones along uncounted. What is being handled as an exception now is why they failed
    (decision 23).
    """
    is_rejected = rejected is not None
    cause = rejected if is_rejected or not counted else failure_text(sys.exc_info()[1])
    by_owner: dict[LinkOwner, tuple[Link, list[tuple[Delivery, Modified]]]] = {}
    for item, link in rows.items():
        if not item.lease.is_revoked:
            item.was_returned = True
            # What the application had comes again marked, also where that is nobody's failure (REDELIVER-1).
            row = Modified(
                item.offset, counted, delay_ms, last_error=cause, is_rejected=is_rejected, was_seen=not counted
            )
            by_owner.setdefault(link.group_worker, (link, []))[1].append((item, row))
    for link, mine in by_owner.values():
        link.give_back(mine)
