"""A link that receives for one consumer: credit, messages as they come, drains."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from proton import Condition, Delivery

from jbm_kafka.amqp_client.amqp_records import reference_of
from jbm_kafka.amqp_client.remote_link import OnLoop, ReceivingLink
from jbm_kafka.amqp_client.session_receivers import SessionReceivers
from jbm_kafka.amqp_wire.loop_mailbox import LoopMailbox
from jbm_kafka.codec.amqp.decode_transfer import decode_transfer
from jbm_kafka.core.channel.delivery_count import FIRST_DELIVERY, DeliveryCount
from jbm_kafka.core.channel.reference import DEFAULT_PRIORITY
from jbm_kafka.core.destination import Destination
from jbm_kafka.core.jms_errors import JMSError, MessageFormatError
from jbm_kafka.ports.clock import Clock
from jbm_kafka.ports.completion import Completion
from jbm_kafka.ports.deliveries import Delivery as Granted
from jbm_kafka.ports.link import Link

log = logging.getLogger(__name__)


class RemoteReceiver(ReceivingLink):
    """The receiver of one consumer, once it serves its link."""

    def __init__(
        self,
        connection: OnLoop,
        link: Any,
        owner: SessionReceivers,
        about: str,
        *,
        mailbox: LoopMailbox,
        clock: Clock,
        numbers: Callable[[], int],
        receiver_idle_ms: int,
        ends_with_link: bool,
    ) -> None:
        """`numbers` gives each message of the connection one; `ends_with_link`: nothing stays of its subscription."""
        super().__init__(connection, link, about)
        self.owner = owner
        self.link_id = ""
        self.served: Link | None = None
        self.has_refused = False
        self._mailbox = mailbox
        self._clock = clock
        self._numbers = numbers
        self._idle_ms = receiver_idle_ms
        self._ends_with_link = ends_with_link
        self._arrived: list[Granted] = []
        self._recording: dict[Any, list[Granted]] = {}
        """Acknowledged, and announced to the link, where each arrives when that is confirmed."""
        self._watching: list[Completion] = []
        self._asked: list[Completion] = []
        """The questions that the drain under way answers."""
        self._is_draining = False
        self._after_drain: list[Callable[[], None]] = []
        self._left = Completion()
        """It has left, and the server knows."""

    @property
    def destination(self) -> Destination:
        """Return where it receives from."""
        return self.owner.destination

    def serve(self, link: Link) -> None:
        """Hand over to this link from now on, and be found by its id."""
        self.served = link
        self.link_id = link.terms.link_id
        self.owner.receivers[self.link_id] = self

    def wait_left(self, timeout_s: float) -> bool:
        """Return True when it has left, and the server knows. Any other thread may call it."""
        return self._left.wait_done(timeout_s)

    def touch(self) -> None:
        self.connection.touch()

    def flush(self) -> bool:
        return self.connection.flush()

    def look(self) -> None:
        link = self.served
        if link is None or self.has_gone:
            return
        self._begin_drain(link)
        self._grant(link)
        self.touch()

    def tick(self, now_s: float) -> None:
        link = self.served
        if link is None or self.has_gone:
            return
        now_ms = self._clock.monotonic_ms()
        if link.notices.on_turn is not None:
            link.notices.on_turn(now_ms)
        self.owner.look()
        if link.buffer and not link.is_active(now_ms, self._idle_ms):
            if self.owner.is_confirmed:
                self.owner.return_unread(link.take_unread(if_idle=True), lambda: None)
            elif not self._is_draining:
                self.drained(lambda: self.owner.return_unread(link.take_unread(if_idle=True), lambda: None))

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
            announced = self._recording.pop(delivery, None)
            if announced is None:
                self.owner.confirmed(delivery)
                return
            if delivery.remote_state != Delivery.ACCEPTED and self.served is not None:
                with self.served.lock:
                    announced.clear()  # it comes again
            delivery.settle()
            if self.served is not None:
                self.served.arrive(announced)
                self.owner.wake()  # a receive that waits for nothing more has its answer

    def _arrive(self, delivery: Any) -> None:
        """Take what came of a message; when it is whole, keep it for `handled`.

        One that cannot be decoded is rejected. One of a unit that goes back is dropped: the server has taken it back.
        Where attempts are recorded first, it is announced, and arrives when the server has recorded it.
        """
        data = self._whole(delivery)
        if data is None:
            return
        try:
            message = decode_transfer(data, now_ms=self._clock.now_ms())
        except MessageFormatError as fault:
            log.warning("%s: a message is rejected: %s", self.destination, fault)
            delivery.local.condition = Condition("amqp:decode-error", str(fault))
            delivery.update(Delivery.REJECTED)
            delivery.settle()
            return
        if self.owner.is_stale(message.unit):
            delivery.update(Delivery.RELEASED)  # of no meaning to the server, which has taken it back by itself
            delivery.settle()
            return
        number, times = self._numbers(), message.delivery_count
        count = DeliveryCount(times, times + 1, True) if times else FIRST_DELIVERY
        granted = Granted(self.owner.lease, reference_of(message, self.destination.name, number), count)
        if self.served is not None and self.served.terms.records_first:
            announced = [granted]
            self.served.announce(announced)
            delivery.update(Delivery.ACCEPTED)
            if self.owner.is_confirmed:
                self._recording[delivery] = announced
            else:
                delivery.settle()
                self.served.arrive(announced)
            return
        self.owner.add(self, delivery, granted)
        self.owner.arriving.add(number)
        self._arrived.append(granted)

    def handled(self) -> None:
        """Nothing more came for now: hand over what did."""
        arrived, self._arrived = self._arrived, []
        self._hand_over(arrived)
        self.flow()  # with its last message the credit of a drain is used up, and nothing else tells

    def _hand_over(self, arrived: Sequence[Granted]) -> None:
        """Put what has arrived, and is still ours, into the link's buffer.

        A link that takes nothing more gives it back unread; where arrival acknowledges, it is acknowledged now.
        """
        link = self.served
        self.owner.arriving.difference_update(each.offset for each in arrived)
        here = [each for each in arrived if self.owner.has(each.offset)]
        is_ranked = any(each.reference.priority != DEFAULT_PRIORITY for each in here)
        if link is None or not here:
            return
        if link.put(here, is_ranked=is_ranked):
            self.owner.acknowledge()
        else:
            self.owner.return_unread(here, lambda: None)

    # -- draining ------------------------------------------------------------------------------------------------------

    def watch(self, done: Completion) -> None:
        self._watching.append(done)
        self.owner.look()

    def _begin_drain(self, link: Link) -> None:
        self._watching = [done for done in self._watching if not done.is_done]
        if self._watching and not self._is_draining and link.is_answered():
            with link.lock:
                wanted = link.demand.credit
            if not wanted:  # nothing more may come, or somebody has asked since and was answered
                self._end_watching(self._watching)
                return
            self._asked = list(self._watching)
            self._drain(max(wanted - self.link.credit, 0))

    def _end_watching(self, ended: Sequence[Completion]) -> None:
        self._watching = [done for done in self._watching if done not in ended]
        for done in ended:
            done.complete()

    def _drain(self, more: int) -> None:
        self._is_draining, self.has_refused = True, False
        self.link.drain(more)
        self.touch()

    def flow(self) -> None:
        if not self._is_draining or self.link.credit or self.has_gone or self._arrived:
            return
        self._is_draining = False
        self.link.drain_mode = False
        after, self._after_drain = self._after_drain, []
        for each in after:
            each()
        asked, self._asked = self._asked, []
        if not (self.has_refused or self._recording):
            self._end_watching(asked)
        self.owner.wake()

    def take_back(self, then: Callable[[], None]) -> None:
        link = self.served

        def give_back() -> None:
            self.owner.return_unread([] if link is None else link.take_unread(), then)

        if self.has_gone:
            then()
        else:
            self.drained(give_back)

    def drained(self, then: Callable[[], None]) -> None:
        """Call `then` when nothing is on its way to this receiver any more; at once if nothing was asked for."""
        if self.has_gone or not (self.link.credit or self._is_draining):
            then()
            return
        self._after_drain.append(then)
        if not self._is_draining:
            self._drain(0)

    # -- the end -------------------------------------------------------------------------------------------------------

    def leave(self) -> None:
        link = self.served
        if link is None or self.has_gone:
            return
        self.owner.say_all()
        self.owner.let_go_back()
        link.take_unread()
        self.owner.release_of(self)
        self.begin_close(ends=self._ends_with_link)

    def has_ended(self, error: JMSError | None) -> None:
        self._left.complete()
        for done in self._watching:
            done.complete()
        link, owner = self.served, self.owner
        for each in self._after_drain:
            each()
        if link is None:
            return
        for announced in self._recording.values():
            with link.lock:  # its consumer may drop them just now
                announced.clear()  # nobody says any more that it is acknowledged
        if self.is_closing:
            owner.receivers.pop(self.link_id, None)
            owner.ended(self)
            return
        cause = error or JMSError(f"{self.about}: its receiver was closed")
        seen = owner.end(cause)
        if seen:
            link.notices.notify(_taken(self.destination, len(seen), cause))
        if not self.connection.is_over:
            link.notices.fail(cause)
            for other in list(owner.receivers.values()):
                if other is not self and isinstance(other, RemoteReceiver):
                    other.begin_close(ends=False)


def _taken(destination: Destination, count: int, cause: JMSError) -> JMSError:
    return JMSError(
        f"{destination}: {count} {'message was' if count == 1 else 'messages were'} taken from this session before it "
        f"settled them: {cause}. They are delivered again with JMSRedelivered set; what this session still says of "
        f"them is refused"
    )
