"""One consumer's side of its link: asks for messages, takes the next one, hands it over, and keeps the link served."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, TypeVar, cast

from jbm_kafka.client.bodies.large_bodies import BodyReader, FetchedBody, fetched
from jbm_kafka.codec.large_body import is_kept_elsewhere
from jbm_kafka.core.channel.redelivery import is_expired
from jbm_kafka.core.channel.settlement import Modified
from jbm_kafka.core.destination import Queue, Topic
from jbm_kafka.core.failure_text import failure_text
from jbm_kafka.core.jms_errors import MessageFormatError, ResourceAllocationError
from jbm_kafka.core.receiving.credit import room
from jbm_kafka.core.selectors.selector import Selector
from jbm_kafka.core.subscription import Source, destination_of
from jbm_kafka.jms.base.modes import AcknowledgeMode
from jbm_kafka.jms.messages.message import Message, not_of_kind
from jbm_kafka.jms.messages.messages_wire import message_of
from jbm_kafka.jms.messages.received import KafkaRecord
from jbm_kafka.jms.settling.acknowledge import AcknowledgeStrategy
from jbm_kafka.jms.shared.session_core import SessionCore
from jbm_kafka.ports.deliveries import Delivery
from jbm_kafka.ports.link import Link, LinkTerms
from jbm_kafka.ports.pre_acknowledged_link import PreAcknowledgedLink

log = logging.getLogger(__name__)

T = TypeVar("T")
MessageListener = Callable[[Message], object]
"""Called with each message; what it returns is not looked at."""
TARGET_MS: Final = 40
"""How much work a receiver should have before it."""


def has_next(link: Link) -> bool:
    """Return True when what it has unread is about to be taken, by its listener or a receive that asked.

    It is not to be taken away then.
    """
    return bool(link.buffer) and (link.is_asking or link.demand.is_waiting)


class Credit:
    """How many messages one receiver is assigned at a time. Times are monotonic milliseconds.

    Few for a slow application, so that others find work; many for a fast one, so that it never waits. It starts with
    one and doubles while a batch is gone within a fraction of the target, up to the prefetch.
    """

    __slots__ = ("_asked_at_ms", "_prefetch", "size")

    def __init__(self, prefetch: int) -> None:
        assert prefetch >= 1, prefetch
        self._prefetch = prefetch
        self._asked_at_ms: int | None = None
        self.size = 1
        """Messages to ask for next."""

    def next_size(self, now_ms: int) -> int:
        """The size to ask for now that the last assignment is about to run out."""
        if self._asked_at_ms is not None:
            took_ms = now_ms - self._asked_at_ms
            if took_ms < TARGET_MS:
                self.size = min(self.size * 2, self._prefetch)
            elif took_ms > 2 * TARGET_MS:
                self.size = max(self.size // 2, 1)
        self._asked_at_ms = now_ms
        return self.size


class ConsumerInbox:
    """The inbox that a consumer receives from. Nothing here waits; the caller is in a call of the session."""

    def __init__(
        self,
        session: SessionCore,
        strategy: AcknowledgeStrategy,
        source: Source,
        prefetch: int,
        selector: Selector | None,
    ) -> None:
        self.session = session
        self.source: Source = source
        self.destination: Queue | Topic = destination_of(source)
        self.prefetch = prefetch
        self.listener: MessageListener | None = None
        self.link: Link = _link_of(session, source, prefetch, selector)
        self.link.notices.tell_trouble(session.connection.notify_exception)
        self._strategy = strategy
        self._codecs = session.connection.defaults.codecs
        self._bodies: BodyReader | None = session.connection.defaults.large_bodies
        self._ahead: tuple[Delivery, FetchedBody] | None = None
        """A large body that was fetched for a message about to be presented."""
        self._monotonic_ms = session.connection.provider.clock.monotonic_ms
        self._credit = Credit(prefetch)
        self.has_logged_full = False
        """The log has its first wait for an application that holds the whole prefetch."""

    def leave_bodies_unread(self) -> None:
        """Have messages come with any body: a bridge looks at their records alone, and must not wait for a store of
        large bodies here, where a failure is the message's."""
        self._codecs, self._bodies = None, FetchedBody(b"")

    @property
    def is_over(self) -> bool:
        """It can receive no more."""
        return self.link.is_closed or self.session.is_closed

    # -- taking ------------------------------------------------------------------------------------------------------

    def poll(self) -> Delivery | None:
        """Take the next message out of the buffer, and ask for more before it runs out."""
        with self.link.lock:
            delivery = self.take()
        return self.unexpired(delivery)

    def poll_for_listener(self) -> Delivery | None:
        """Take the next message for the listener; asks for one when the buffer is empty."""
        delivery = self.poll()
        if delivery is None:
            self.stay_attached()
            try:
                with self.link.lock:
                    is_others_turn = any(other.is_asking or has_next(other) for other in self.link.siblings)
                    is_full = not is_others_turn and not self.want_some()
            except ResourceAllocationError:
                self.log_full("its listener", "the session is committed or rolled back; do so in the listener")
                raise
            if is_full:
                self.log_full("its listener", "another thread acknowledges. If none will, acknowledge in the listener")
        return delivery

    def log_full(self, holder: str, ends: str) -> None:
        """Once, and without the lock: whoever writes the log may be slow."""
        if not self.has_logged_full:
            self.has_logged_full = True
            log.warning(
                "%s: %s waits while its session holds the whole prefetch of %d unacknowledged; nothing comes before "
                "%s, or use a larger prefetch",
                self.destination,
                holder,
                self.prefetch,
                ends,
            )

    def take(self) -> Delivery | None:
        """Return what `poll` does, expired or not. The caller holds the lock."""
        link = self.link
        delivery = link.pop()
        # A quarter lasts longer than an answer takes, and the larger the portions, the fewer hand-overs.
        if link.runs_low(self._credit.size >> 2):
            self._ask(ahead=delivery is not None)
        return delivery

    def unexpired(self, delivery: Delivery | None) -> Delivery | None:
        """The message, or the first after it that is not expired: those go back, to the expiry address (SEND-5)."""
        if delivery is None or not delivery.reference.expiration_ms:
            return delivery
        return self._pass_over_expired(delivery)

    def put_back_unseen(self, taken: Delivery, error: BaseException) -> None:
        """A call ended by an error, maybe Ctrl-C at any point of it, after this was taken: it goes back.

        Uncounted, unless it may be the message itself that cannot be presented.
        """
        self.link.forget_taken()
        self._strategy.not_handed_over(taken)
        if isinstance(error, Exception):
            self.link.give_back([(taken, Modified(taken.offset, counted=True, last_error=failure_text(error)))])
        else:
            self.link.put_back(taken)

    # -- handing over --------------------------------------------------------------------------------------------------

    def present(self, delivery: Delivery) -> Message:
        """Hand a message to the application."""
        reference, count = delivery.reference, delivery.count
        lease = delivery.lease
        if lease.records_deliveries:  # before the strategy hears of it, which may acknowledge it (LOG-10)
            lease.given.append((reference.offset, count.attempts + 1, self._monotonic_ms()))
        # Arguments by position: by keyword the call costs a tenth of a microsecond more, for every message.
        return message_of(
            reference.record,  # type: ignore[arg-type]
            reference.body_kind,
            self.destination,
            count.delivery_count,
            count.redelivered,
            self._strategy.handed_over(self.link, delivery),
            self._codecs,
            self._bodies if self._ahead is None else self._bodies_for(delivery),
        )

    def present_body(self, delivery: Delivery, kind: type[T]) -> T:
        """Return the body, and count the message as received.

        Raises:
            MessageFormatError: the body is of another kind. Where the application itself acknowledges, the message is
                received all the same, and waits for that; else it is put back, and the next receive gets it.
        """
        reference = delivery.reference
        try:
            body = message_of(
                reference.record,  # type: ignore[arg-type]
                reference.body_kind,
                self.destination,
                0,
                False,
                None,
                self._codecs,
                self._bodies if self._ahead is None else self._bodies_for(delivery),
            ).body
            if isinstance(body, kind):
                self._note_given(delivery)
                self._strategy.handed_over(self.link, delivery)
                return body
            fault = MessageFormatError(not_of_kind(body, kind))
        except MessageFormatError as error:  # of an object, whose codec is not known here say
            fault = error
        if not self._strategy.is_explicit:
            self.link.put_back(delivery)
            remedy = "the message was not received: the next receive gets it"
        else:
            self._note_given(delivery)
            self._strategy.handed_over(self.link, delivery)
            remedy = "the message was received: acknowledge it or give it back with the session"
        self.link.forget_taken()
        raise MessageFormatError(f"{fault}; {remedy}", **fault.values) from fault.__cause__

    def has_large_body(self, delivery: Delivery) -> bool:
        """Its body is to be fetched before it is presented, and can be."""
        if self._bodies is None:
            return False
        record = cast(KafkaRecord, delivery.reference.record)
        return record.value() is None and is_kept_elsewhere(record.headers())

    def fetch_ahead(self, delivery: Delivery) -> None:
        """Fetch its large body, which may take long.

        Raises:
            LargeBodyError: it cannot be had.
        """
        record = cast(KafkaRecord, delivery.reference.record)
        self._ahead = (delivery, FetchedBody(fetched(self._bodies, record.headers())))

    def _bodies_for(self, delivery: Delivery) -> BodyReader | None:
        ahead, self._ahead = self._ahead, None
        return ahead[1] if ahead is not None and ahead[0] is delivery else self._bodies

    def _note_given(self, delivery: Delivery) -> None:
        """As in `present`, which has it in its own lines for speed."""
        lease = delivery.lease
        if lease.records_deliveries:
            lease.given.append((delivery.reference.offset, delivery.count.attempts + 1, self._monotonic_ms()))

    # -- asking ------------------------------------------------------------------------------------------------------

    def want_some(self) -> bool:
        """Ask the group worker for messages, unless that was done. The caller holds the lock.

        False when the application holds the whole prefetch: another thread may acknowledge, and wakes this one.

        Raises:
            ResourceAllocationError: a transaction holds the whole prefetch, and only this thread could end it.
            JMSError: what cannot come, such as a partition that is closed here; raised once.
        """
        link = self.link
        if link.notices.pending:
            raise link.notices.pending.popleft()
        if link.is_asking or not self.session.connection.is_started:
            return True
        held = self._strategy.count(link)
        if held >= self.prefetch:
            if not self.session.is_transacted:
                return False
            raise ResourceAllocationError(
                f"the session's transaction holds {held} {'message' if held == 1 else 'messages'} of "
                f"{self.destination}, its whole prefetch of {self.prefetch}; commit or roll back, or use a larger "
                f"prefetch",
                prefetch=self.prefetch,
            )
        free = room(self.prefetch, unread=len(link.buffer), in_hand=held)
        link.request(min(1 if link.siblings else self._credit.size, free))
        return True

    def holds_prefetch(self) -> bool:
        """The application holds all it may: nothing can come."""
        with self.link.lock:
            return self._strategy.count(self.link) >= self.prefetch

    # -- being served --------------------------------------------------------------------------------------------------

    def connect(self) -> None:
        """Join the queue's group for this consumer, on a started connection."""
        connection, link = self.session.connection, self.link
        if not connection.is_started:
            connection.provider.ensure(self.destination)
            return
        with self.session.lock:
            link.resume()
            self.session.filled.notify_all()  # receives that wait ask again: their worker may have forgotten it
        if not link.is_attached and not link.is_closed:
            link.attach(connection.provider.attach(self.source, link))

    def connect_late(self) -> None:
        """A receive where the start of the connection could not connect it: whoever receives hears why."""
        if not self.link.is_attached and self.session.connection.is_started and not self.is_over:
            self.connect()

    @property
    def must_attach(self) -> bool:
        """Return True if the link has trouble to raise, or is attached to a group worker that has ended."""
        link = self.link
        return link.notices.has_trouble or (link.is_attached and not link.group_worker.is_running)

    def stay_attached(self) -> None:
        """Join again when the group worker has left, as it does when nobody receives for a while.

        Raises:
            JMSError: why the group worker ended; raised once, and the next call joins again. Or why nothing is handed
                over now; raised each time.
        """
        link = self.link
        has_ended = link.is_attached and not link.group_worker.is_running  # first: a failure is noted before the end
        failure = link.notices.take_failure()
        if failure is not None:
            raise failure
        if has_ended and not link.is_stopped and not self.is_over:
            link.notices.hinder(None)  # before the next one may say so, too
            link.attach(self.session.connection.provider.attach(self.source, link))
        elif (hindrance := link.notices.hindrance) is not None:
            raise hindrance.with_traceback(None)

    def pause(self) -> None:
        """The connection was stopped: what is unread goes back."""
        if self.link.is_attached:
            self.link.give_back_unread(stop=True)

    # -- one step each -------------------------------------------------------------------------------------------------

    def _ask(self, *, ahead: bool) -> None:
        """Tell the group worker the credit: how many more may come. The caller holds the lock."""
        link, connection = self.link, self.session.connection
        if not connection.is_started or link.is_closed:
            return
        if link.siblings:
            return  # nothing ahead: what one has unread another may be about to ask for
        # Ahead: one was just taken out of the buffer, and is about to be unacknowledged.
        free = room(self.prefetch, unread=len(link.buffer), in_hand=self._strategy.count(link) + ahead)
        link.request(min(self._credit.next_size(connection.provider.clock.monotonic_ms()), free))

    def _pass_over_expired(self, delivery: Delivery | None) -> Delivery | None:
        """Return the first delivery, from this one on in the buffer, that may be presented, or None.

        The expired ones before it go back together, and so does what follows one of them in its unit (UNIT-1). It is a
        loop, and no recursion, for there may be as many as the prefetch.
        """
        now_ms = self.session.connection.provider.clock.now_ms()
        gone: list[tuple[Delivery, Modified]] = []
        units: set[tuple[int, bytes]] = set()  # what follows an expired one in its unit goes back with it (UNIT-1)
        try:
            while delivery is not None:
                # Of what was acknowledged on arrival nothing goes back: only what has expired is left out.
                unit = None if self.session.mode is AcknowledgeMode.PRE else delivery.unit_place
                if not is_expired(delivery.reference.expiration_ms, now_ms) and unit not in units:
                    break
                gone.append((delivery, Modified(delivery.offset, counted=False)))
                self.link.forget_taken()
                if unit is not None:
                    units.add(unit)
                with self.link.lock:
                    delivery = self.link.pop()
        finally:  # Ctrl-C too
            if gone:
                self.link.give_back(gone)
        return delivery


def _link_of(session: SessionCore, source: Source, prefetch: int, selector: Selector | None) -> Link:
    records_first = session.mode is AcknowledgeMode.PRE and session.connection.defaults.block_on_acknowledge
    terms = LinkTerms(
        link_id=f"{session.session_id}/{session.links.next_number()}",
        session_id=session.session_id,
        prefetch=prefetch,
        client_id=session.connection.client_id or "",
        mode=session.mode.name,
        selector=selector,
        one_per_unit=session.mode is AcknowledgeMode.INDIVIDUAL,
        records_attempts=session.connection.provider.traits.records_attempts and not records_first,
        records_first=records_first,
    )
    kind = PreAcknowledgedLink if session.mode is AcknowledgeMode.PRE else Link
    return kind(terms, filled=session.filled, lock=session.lock, hand=session.links.hand_of(source))
