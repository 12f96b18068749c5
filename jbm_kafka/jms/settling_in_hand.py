"""Settling in the modes in which the application says when: CLIENT, INDIVIDUAL, TRANSACTED."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from jbm_kafka.core.errors import IllegalStateError, JMSError, TransactionInDoubtError, TransactionRolledBackError
from jbm_kafka.engine.hand import Hand
from jbm_kafka.jms.inbox import InHand, give_back
from jbm_kafka.jms.messages import Message
from jbm_kafka.jms.modes import AcknowledgeMode
from jbm_kafka.jms.settling import DURABLE_TIMEOUT_S, AutoSettling, Settling
from jbm_kafka.ports.grants import Granted, Tap
from jbm_kafka.ports.link import Link
from jbm_kafka.ports.unit_of_work import Received, UnitOfWork

if TYPE_CHECKING:
    from jbm_kafka.jms.consumer import MessageConsumer
    from jbm_kafka.jms.session import Session


class InHandSettler:
    """Settles one message of a session with a hand; stands between message and mode."""

    __slots__ = ("_item", "_mode")

    def __init__(self, mode: HandSettling, item: InHand) -> None:
        self._mode = mode
        self._item = item

    def acknowledge(self, message: Message) -> None:
        """`message.acknowledge()`."""
        self._mode.acknowledge_item(self._item)

    def nack(self, message: Message, delay_ms: int | None) -> None:
        """`message.nack()`."""
        self._mode.nack_item(self._item, delay_ms)


class HandSettling(Settling):
    """Base of the modes in which the application says when. Any thread may call, so the hand is guarded."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._hand: Hand[InHand] = Hand()

    def handed_over(self, consumer: MessageConsumer, granted: Granted) -> Settling | InHandSettler:
        item = InHand(granted, consumer.link)
        with self._session.lock:
            self._hand.add(item)
        return InHandSettler(self, item)

    def not_handed_over(self, granted: Granted) -> None:
        with self._session.lock:
            self._hand.take_where(lambda item: item.granted is granted)

    def in_hand(self, link: Link) -> int:
        return self._hand.count(lambda item: item.link is link)

    def acknowledge_item(self, item: InHand) -> None:
        """`message.acknowledge()`; of a message that is settled already: nothing."""
        raise NotImplementedError

    def nack_item(self, item: InHand, delay_ms: int | None) -> None:
        """`message.nack()`."""
        raise NotImplementedError

    def recover(self) -> None:
        self._give_back_all(delay_ms=None)

    def abandon(self) -> None:
        self._give_back_all(delay_ms=None)

    def close(self) -> None:
        self._give_back_all(delay_ms=0)

    def _give_back_all(self, delay_ms: int | None) -> None:
        with self._session.lock:
            items = self._hand.take_all()
        give_back([item for item in items if not item.granted.tap.is_lost], counted=True, delay_ms=delay_ms)
        self._session.hand_changed()

    def _too_late(self, item: InHand) -> IllegalStateError:
        partition, offset = item.granted.place
        return IllegalStateError(
            f"the message at partition {partition}, offset {offset} was given back (nack or recover) before it was "
            f"acknowledged; it is delivered again"
        )

    def _not_in_hand(self, item: InHand) -> IllegalStateError:
        partition, offset = item.granted.place
        return IllegalStateError(
            f"the message at partition {partition}, offset {offset} was settled already; it cannot be given back"
        )


class IndividualSettling(HandSettling):
    """Each message on its own (ACK-6)."""

    def acknowledge_item(self, item: InHand) -> None:
        self._session.check_open()
        with self._session.lock:
            was_in_hand = self._hand.take(item)
        if was_in_hand:
            self._record([item])
            self._session.hand_changed()
        elif item.was_returned:
            raise self._too_late(item)

    def nack_item(self, item: InHand, delay_ms: int | None) -> None:
        self._session.check_open()
        with self._session.lock:
            if not self._hand.take(item):
                raise self._not_in_hand(item)
        if not item.granted.tap.is_lost:
            give_back([item], counted=True, delay_ms=delay_ms)
        self._session.hand_changed()

    def acknowledge_all(self) -> None:
        with self._session.lock:
            items = self._hand.take_all()
        self._record(items)
        self._session.hand_changed()

    def listener_raised(self, message: Message) -> None:
        """It alone goes back: others in hand are with workers that the listener gave them to."""
        with suppress(IllegalStateError):  # the listener has settled it, or closed the session
            message.nack()


class ClientSettling(HandSettling):
    """Everything up to the message acknowledged (ACK-2)."""

    def acknowledge_item(self, item: InHand) -> None:
        self._session.check_open()
        with self._session.lock:
            items = self._hand.take_through(item)
        if item.was_returned:
            raise self._too_late(item)
        self._record(items)
        self._session.hand_changed()

    def nack_item(self, item: InHand, delay_ms: int | None) -> None:
        self._session.check_open()
        with self._session.lock:
            items = self._hand.take_from(item, item.is_same_unit)
        if not items:
            raise self._not_in_hand(item)
        for each in items:
            each.was_returned = True
        present = [each for each in items if not each.granted.tap.is_lost]
        # Only the one refused is an attempt; the later ones of its unit go back with it (UNIT-3), uncounted: the
        # channel finds them by itself.
        give_back([each for each in present if each is item], counted=True, delay_ms=delay_ms)
        self._session.hand_changed()

    def acknowledge_all(self) -> None:
        with self._session.lock:
            items = self._hand.take_all()
        self._record(items)
        self._session.hand_changed()


class TransactedSettling(HandSettling):
    """Sends and receives as one (ACK-7)."""

    def acknowledge_item(self, item: InHand) -> None:
        self._session.check_open()

    def nack_item(self, item: InHand, delay_ms: int | None) -> None:
        self.nack(Message(), delay_ms)

    def recover(self) -> None:
        raise IllegalStateError("recover() is not for TRANSACTED sessions; use rollback()")

    def commit(self) -> None:
        with self._session.lock:
            items = self._hand.take_all()
        expires_at_ms = self._session.outbox.expires_at_ms
        sends = self._session.outbox.take_all()
        if expires_at_ms and self._session.connection.provider.clock.now_ms() >= expires_at_ms:
            self._roll_back(items)
            raise TransactionRolledBackError(
                f"rolled back: a message sent in it expired at {expires_at_ms} (ms since 1970), before the commit; "
                f"everything received comes again, sends were dropped. Commit sooner, or give a longer time_to_live_ms",
                expired_at_ms=expires_at_ms,
            )
        lost = next((item for item in items if item.granted.tap.is_lost), None)
        if lost is not None:
            self._roll_back(items)
            partition, offset = lost.granted.place
            raise TransactionRolledBackError(
                f"rolled back: partition {partition} of {lost.granted.tap.channel.topic} with offset {offset} moved to "
                f"another process; everything received comes again, sends were dropped",
                partition=partition,
                offset=offset,
            )
        if not items and not sends:
            return
        work = UnitOfWork(f"commit of {self._session.session_id}", sends, _received(items))
        try:
            self._session.connection.provider.submit(work)
        except JMSError as error:
            self._roll_back(items)
            raise TransactionRolledBackError(f"rolled back: {error}") from None
        try:
            work.done.wait(DURABLE_TIMEOUT_S, about=work.about)
        except TransactionRolledBackError:
            self._roll_back(items)
            raise
        except JMSError as error:
            raise TransactionInDoubtError(
                f"{error}; close the session: what was not committed comes again", session=self._session.session_id
            ) from None

    def rollback(self) -> None:
        self._session.outbox.take_all()
        self._give_back_all(delay_ms=None)

    def abandon(self) -> None:
        self.rollback()

    def _roll_back(self, items: Sequence[InHand]) -> None:
        give_back([item for item in items if not item.granted.tap.is_lost], counted=True)


def _received(items: list[InHand]) -> list[Received]:
    by_tap: dict[tuple[Link, Tap], list[int]] = defaultdict(list)
    for item in items:
        by_tap[item.link, item.granted.tap].append(item.reference.offset)
    return [Received(link, tap, offsets) for (link, tap), offsets in by_tap.items()]


def settling_for(session: Session) -> Settling:
    """The settling of a session's mode."""
    kinds: dict[AcknowledgeMode, type[Settling]] = {
        AcknowledgeMode.AUTO: AutoSettling,
        AcknowledgeMode.CLIENT: ClientSettling,
        AcknowledgeMode.INDIVIDUAL: IndividualSettling,
        AcknowledgeMode.TRANSACTED: TransactedSettling,
    }
    return kinds[session.acknowledge_mode](session)
