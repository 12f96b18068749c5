"""A link that receives for one consumer: the owner of its `Link`, as a group worker is where the sidecar runs here."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from proton import Condition, Delivery

from jbm_kafka.amqp_client.records import reference_of
from jbm_kafka.amqp_client.remote_link import OnLoop, RemoteLink
from jbm_kafka.amqp_wire.loop_mailbox import LoopMailbox
from jbm_kafka.amqp_wire.names import DELAY, ERROR, SEEN
from jbm_kafka.codec.amqp.decode_transfer import decode_transfer
from jbm_kafka.core.delivery_count import FIRST_DELIVERY, DeliveryCount
from jbm_kafka.core.destination import Destination
from jbm_kafka.core.jms_errors import JMSError, MessageFormatError
from jbm_kafka.core.reference import DEFAULT_PRIORITY
from jbm_kafka.core.settlement import Modified
from jbm_kafka.ports.clock import Clock
from jbm_kafka.ports.completion import Completion
from jbm_kafka.ports.deliveries import Delivery as Granted
from jbm_kafka.ports.deliveries import PartitionLease
from jbm_kafka.ports.link import Link
from jbm_kafka.ports.unit_barrier import Disposition

log = logging.getLogger(__name__)

TRANSACTIONAL = 0x34
PARTITION = 0
"""Which partition a message came from is the sidecar's business."""


class RemoteChannel:
    """Implements `LeasedChannel`: what is behind the link."""

    partition = PARTITION
    is_closing = False

    def __init__(self, topic: str) -> None:
        self.topic = topic


class Returning:
    """Messages that go back together; done when the server has said so of each."""

    def __init__(self, then: Callable[[], None]) -> None:
        self.left = 0
        self.units: list[bytes] = []
        self.failure: JMSError | None = None
        self.then = then


class RemoteReceiver(RemoteLink):
    """Implements `LinkOwner`. On the event loop, but for what `LinkOwner` says any thread may call."""

    def __init__(
        self,
        connection: OnLoop,
        link: Any,
        destination: Destination,
        *,
        mailbox: LoopMailbox,
        clock: Clock,
        numbers: Callable[[], int],
        receiver_idle_ms: int,
        ends_with_link: bool,
    ) -> None:
        """`numbers` gives each message of the connection one; `ends_with_link`: nothing stays of its subscription."""
        super().__init__(connection, link, str(destination))
        self.destination = destination
        self._mailbox = mailbox
        self._clock = clock
        self._numbers = numbers
        self._idle_ms = receiver_idle_ms
        self._ends_with_link = ends_with_link
        self._served: Link | None = None
        self._lease: PartitionLease
        self._parts: list[bytes] = []
        self._arrived: list[Granted] = []
        self._with_us: dict[int, tuple[Any, Granted]] = {}
        """By number, what we have said nothing of."""
        self._returning: dict[Any, Returning] = {}
        """By delivery, of which the server has to confirm what we said."""
        self._fenced: Counter[bytes] = Counter()
        """Units that go back: what comes of them now was sent before the server knew."""
        self._recording: dict[Any, Granted] = {}
        """Acknowledged, and to be handed over when that is confirmed."""
        self._watching: list[Completion] = []
        self._is_draining = False
        self._has_refused = False
        """Since the drain began something went back."""
        self._after_drain: list[Callable[[], None]] = []
        self._is_looking = False
        self._left = Completion()
        """It has left, and the server knows."""

    # -- LinkOwner: any thread -----------------------------------------------------------------------------------------

    @property
    def is_running(self) -> bool:
        """The server serves it."""
        return not (self._ended.done() or self.is_closing)

    @property
    def is_alive(self) -> bool:
        """As `is_running`: nothing is carried out any more after that."""
        return self.is_running

    @property
    def has_joined(self) -> bool:
        """The server answered when that was so."""
        return True

    is_settled = has_joined

    def wake(self) -> None:
        """Look soon at what its link says."""
        if not self._is_looking:
            self._is_looking = True
            self._mailbox.post(self._look)

    def serve_alone(self, link_id: str, count: int) -> None:
        """Give it so many, after its siblings' unread messages have gone back."""
        self._mailbox.post(partial(self._serve_alone, count))

    def take_back(self, link_id: str) -> None:
        """Give back what it has unread."""
        self._mailbox.post(lambda: self._take_back(lambda: None))

    def record_attempt(self, delivery: Granted, done: Completion) -> None:
        """The sidecar records attempts before it sends a message, where it is told to."""
        done.complete()

    def watch(self, link_id: str, ends: Mapping[int, int], done: Completion) -> None:
        """Complete when the server has sent all that was there when it was asked."""
        self._mailbox.post(partial(self._watch, done))

    def detach(self, link_id: str) -> None:
        """Say what is to be said, and end."""
        self._mailbox.post(self._leave)

    def wait_left(self, timeout_s: float) -> bool:
        """True when it has left, or never was there for anybody."""
        return self._served is None or self._left.wait_done(timeout_s)

    # -- on the loop ---------------------------------------------------------------------------------------------------

    def serve(self, link: Link) -> None:
        """Receive for this one."""
        self._served = link
        topic = self.destination.name
        self._lease = PartitionLease(RemoteChannel(topic), session_id=link.terms.session_id, notify=link.notices.notify)

    def _look(self) -> None:
        self._is_looking = False
        link = self._served
        if link is None or not self.is_running:
            return
        self._acknowledge()
        self._carry_out_dispositions(link)
        self._begin_drain(link)
        self._grant(link)
        self.connection.touch()

    def tick(self, now_s: float) -> None:
        link = self._served
        if link is None or not self.is_running:
            return
        now_ms = self._clock.monotonic_ms()
        if link.notices.on_turn is not None:
            link.notices.on_turn(now_ms)
        self._look()
        if not link.is_active(now_ms, self._idle_ms) and (self.link.credit or link.buffer) and not self._is_draining:
            self._drain(0)
            self._return_unread(link.take_unread(if_idle=True), lambda: None)

    def _grant(self, link: Link) -> None:
        if self._is_draining or not link.is_open:
            return
        with link.lock:
            wanted = link.demand.credit
        if wanted > self.link.credit:
            self.link.flow(wanted - self.link.credit)
        elif not wanted and self.link.credit:  # the receive that asked has ended: it is for others
            self._drain(0)

    # -- what comes ----------------------------------------------------------------------------------------------------

    def delivery(self, delivery: Any) -> None:
        if delivery.readable or delivery.aborted:
            self._arrive(delivery)
        elif delivery.updated and delivery.settled:
            self._confirmed(delivery)

    def _arrive(self, delivery: Any) -> None:
        if delivery.aborted:
            self._parts = []
            delivery.settle()
            return
        while delivery.pending:
            part = self.link.recv(delivery.pending)
            if not part:
                break
            self._parts.append(part)
        if delivery.partial:
            return
        data, self._parts = b"".join(self._parts), []
        self.link.advance()
        try:
            message = decode_transfer(data, now_ms=self._clock.now_ms())
        except MessageFormatError as fault:
            log.warning("%s: a message is rejected: %s", self.destination, fault)
            delivery.local.condition = Condition("amqp:decode-error", str(fault))
            delivery.update(Delivery.REJECTED)
            delivery.settle()
            return
        number = self._numbers()
        times = message.delivery_count
        count = DeliveryCount(times, times + 1, True) if times else FIRST_DELIVERY
        granted = Granted(self._lease, reference_of(message, self.destination.name, number), count)
        if message.unit is not None and message.unit in self._fenced:
            self._release(delivery)  # of no meaning to the server, which has taken it back by itself
            return
        if self._served is not None and self._served.terms.records_first:
            self._recording[delivery] = granted
            delivery.update(Delivery.ACCEPTED)
            return
        self._with_us[number] = (delivery, granted)
        self._arrived.append(granted)

    def handled(self) -> None:
        """Nothing more came for now: hand over what did."""
        arrived, self._arrived = self._arrived, []
        if arrived:
            self._hand_over(arrived)

    def _hand_over(self, arrived: Sequence[Granted]) -> None:
        link = self._served
        here = [each for each in arrived if each.offset in self._with_us]
        is_ranked = any(each.reference.priority != DEFAULT_PRIORITY for each in here)
        if link is not None and here and not link.put(here, is_ranked=is_ranked):
            self._return_unread(here, lambda: None)
        elif link is not None:
            self._acknowledge()

    # -- what is said of it --------------------------------------------------------------------------------------------

    def _acknowledge(self) -> None:
        for number in self._lease.take_acked():
            self._settle(number, Delivery.ACCEPTED)

    def _settle(self, number: int, state: int) -> None:
        found = self._with_us.pop(number, None)
        if found is not None:
            found[0].update(state)
            found[0].settle()
            self.connection.touch()

    def _release(self, delivery: Any) -> None:
        delivery.update(Delivery.RELEASED)
        delivery.settle()

    def _carry_out_dispositions(self, link: Link) -> None:
        dispositions = link.settlement.dispositions
        while dispositions:
            self._carry_out(link, dispositions.popleft())

    def _carry_out(self, link: Link, disposition: Disposition) -> None:
        """Acknowledge, and give back: with each the later ones of its unit, which no application may have before it."""
        returning = Returning(lambda: self._carried_out(link, disposition, returning))
        for _, number in disposition.acknowledged:
            self._say(returning, number, Delivery.ACCEPTED)
        rows = {row.offset: row for _, row in disposition.returned if row.offset in self._with_us}
        later = self._later([self._with_us[number][1] for number in rows])
        removed = link.remove(PARTITION, frozenset(later)) if later else []
        unread = {each.offset for each in removed}
        unread |= {each.offset for each in self._arrived}
        for number in sorted({*rows, *later}):
            row = rows.get(number) or Modified(number, counted=False, was_seen=number not in unread)
            self._give_back(returning, row)
        if not returning.left:
            returning.then()

    def _carried_out(self, link: Link, disposition: Disposition, returning: Returning) -> None:
        if disposition.returned:
            link.return_is_done(disposition)
        if disposition.done is not None:
            disposition.done.complete(returning.failure)
        self._look()

    def _give_back(self, returning: Returning, row: Modified) -> None:
        delivery, _ = self._with_us[row.offset]
        local = delivery.local
        if row.is_rejected:
            local.condition = Condition("amqp:internal-error", row.last_error or "rejected by its receiver")
            self._say(returning, row.offset, Delivery.REJECTED)
            return
        if not row.counted and not row.was_seen:
            self._say(returning, row.offset, Delivery.RELEASED)
            return
        local.failed = row.counted
        annotations: dict[str, Any] = {}
        if row.delay_ms is not None and row.counted:
            annotations[DELAY] = row.delay_ms
        if row.last_error:
            annotations[ERROR] = row.last_error
        if not row.counted:
            annotations[SEEN] = True
        if annotations:
            local.annotations = annotations
        self._say(returning, row.offset, Delivery.MODIFIED)

    def _say(self, returning: Returning, number: int, state: int) -> None:
        """Tell the outcome, which the server confirms; until then what comes of the unit is stale."""
        found = self._with_us.pop(number, None)
        if found is None:
            if state == Delivery.ACCEPTED:
                returning.failure = JMSError(f"{self.destination}: acknowledged too late; the message comes again")
            return
        delivery, granted = found
        returning.left += 1
        unit = granted.reference.unit
        if unit is not None and state != Delivery.ACCEPTED:
            returning.units.append(unit)
            self._fenced[unit] += 1
        self._returning[delivery] = returning
        delivery.update(state)
        self._has_refused = self._has_refused or state != Delivery.ACCEPTED
        self.connection.touch()

    def _confirmed(self, delivery: Any) -> None:
        granted = self._recording.pop(delivery, None)
        if granted is not None:
            is_accepted = delivery.remote_state == Delivery.ACCEPTED
            delivery.settle()
            if is_accepted and self._served is not None:
                self._served.put([granted])
            return
        returning = self._returning.pop(delivery, None)
        if returning is None:
            return
        if delivery.local_state == Delivery.ACCEPTED and delivery.remote_state not in (Delivery.ACCEPTED, 0):
            returning.failure = JMSError(f"{self.destination}: not acknowledged; the message comes again")
        delivery.settle()
        returning.left -= 1
        if not returning.left:
            self._fenced -= Counter(returning.units)
            returning.then()

    def _later(self, rows: Iterable[Granted]) -> list[int]:
        """The numbers of what is with us behind these in their units."""
        first: dict[bytes, int] = {}
        for each in rows:
            unit = each.reference.unit
            if unit is not None:
                first[unit] = min(each.offset, first.get(unit, each.offset))
        if not first:
            return []
        return [
            number
            for number, (_, each) in self._with_us.items()
            if each.reference.unit in first and number > first[each.reference.unit]
        ]

    def _return_unread(self, rows: Sequence[Granted], then: Callable[[], None]) -> None:
        returning = Returning(then)
        for each in sorted(rows, key=lambda each: each.offset):
            self._say(returning, each.offset, Delivery.RELEASED)
        if not returning.left:
            then()

    # -- transactions --------------------------------------------------------------------------------------------------

    def take_part(self, numbers: Sequence[int], state: list[Any]) -> list[Granted]:
        """Acknowledge in a transaction; returns what is in it."""
        taken: list[Granted] = []
        for number in numbers:
            found = self._with_us.pop(number, None)
            if found is None:
                raise JMSError(f"{self.destination}: a message of it is to come again")
            delivery, granted = found
            delivery.local.data = state
            delivery.update(TRANSACTIONAL)
            delivery.settle()
            taken.append(granted)
        return taken

    def rolled_back(self, taken: Sequence[Granted]) -> None:
        """The server has taken these back, with what is behind them in their units."""
        later = self._later(taken)
        link = self._served
        if later and link is not None:
            link.remove(PARTITION, frozenset(later))
        for number in later:
            self._settle(number, Delivery.RELEASED)

    # -- draining, and siblings ----------------------------------------------------------------------------------------

    def _watch(self, done: Completion) -> None:
        self._watching.append(done)
        self._look()
        if not self.is_running:
            done.complete()

    def _begin_drain(self, link: Link) -> None:
        self._watching = [done for done in self._watching if not done.is_done]
        if self._watching and not self._is_draining and link.is_answered():
            with link.lock:
                missing = link.demand.credit - self.link.credit
            self._drain(missing if missing > 0 else 0 if self.link.credit else 1)

    def _drain(self, more: int) -> None:
        self._is_draining, self._has_refused = True, False
        self.link.drain(more)
        self.connection.touch()
        if not self.link.credit:
            self._mailbox.post(self.flow)

    def flow(self) -> None:
        if not self._is_draining or self.link.credit or not self.is_running:
            return
        self.handled()
        self._is_draining = False
        self.link.drain_mode = False
        after, self._after_drain = self._after_drain, []
        for each in after:
            each()
        if not self._has_refused:
            watching, self._watching = self._watching, []
            for done in watching:
                done.complete()
        self._look()

    def _take_back(self, then: Callable[[], None]) -> None:
        """Give back what is unread, and what may come still; then go on."""
        link = self._served

        def give_back() -> None:
            self._return_unread([] if link is None else link.take_unread(), then)

        if not self.is_running:
            then()
        elif self.link.credit and not self._is_draining:
            self._after_drain.append(give_back)
            self._drain(0)
        elif self._is_draining:
            self._after_drain.append(give_back)
        else:
            give_back()

    def _serve_alone(self, count: int) -> None:
        link = self._served
        if link is None:
            return
        others = [each.group_worker for each in link.siblings if each.is_attached]
        left = len(others)

        def is_alone() -> None:
            nonlocal left
            left -= 1
            if left <= 0:
                link.want_now(count)
                self._look()

        if not others:
            is_alone()
        for each in others:
            assert isinstance(each, RemoteReceiver), each
            each._take_back(is_alone)

    # -- the end -------------------------------------------------------------------------------------------------------

    def _leave(self) -> None:
        link = self._served
        if link is None or not self.is_running:
            self._left.complete()
            return
        self._acknowledge()
        self._carry_out_dispositions(link)
        for number in list(self._with_us):
            self._settle(number, Delivery.RELEASED)
        link.take_unread()
        self.begin_close(ends=self._ends_with_link)

    def has_ended(self, error: JMSError | None) -> None:
        self._left.complete()
        for done in self._watching:
            done.complete()
        link = self._served
        if link is None:
            return
        unread = {each.offset for each in link.take_unread()} | {each.offset for each in self._arrived}
        seen = [granted for number, (_, granted) in self._with_us.items() if number not in unread]
        self._lease.taken = frozenset(each.offset for each in seen)
        self._lease.is_revoked = True
        self._with_us.clear()
        cause = error or JMSError(f"{self.about}: its receiver was closed")
        for returning in set(self._returning.values()):
            returning.failure = cause
            returning.then()
        while link.settlement.dispositions:
            disposition = link.settlement.dispositions.popleft()
            if disposition.done is not None:
                disposition.done.complete(cause)
        if not self.is_closing:
            if self.connection.is_over:
                if seen:
                    link.notices.notify(_taken(self.destination, len(seen), cause))
            else:
                link.notices.fail(cause)
        with link.lock:
            link.filled.notify_all()


def _taken(destination: Destination, count: int, cause: JMSError) -> JMSError:
    return JMSError(
        f"{destination}: {count} {'message was' if count == 1 else 'messages were'} taken from this session before it "
        f"settled them: {cause}. They are delivered again with JMSRedelivered set; what this session still says of "
        f"them is refused"
    )
