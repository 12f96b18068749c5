"""A session's receivers of one queue or subscription: what they have, what is said of it, and what goes back together.

The owner of their links, as a group worker is where the sidecar runs in the process.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol

from proton import Condition, Delivery, symbol

from jbm_kafka.amqp_wire.loop_mailbox import LoopMailbox
from jbm_kafka.amqp_wire.names import BEHIND, DELAY, ERROR, SEEN
from jbm_kafka.core.channel.first_outcome import SaidBehind, outcomes
from jbm_kafka.core.channel.settlement import Modified, uncounted
from jbm_kafka.core.destination import Destination
from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.core.receiving.going_back import Fences, behind
from jbm_kafka.ports.completion import Completion
from jbm_kafka.ports.deliveries import Delivery as Granted
from jbm_kafka.ports.deliveries import Disposition, PartitionLease
from jbm_kafka.ports.link import Link

TRANSACTIONAL: Final = 0x34
PARTITION: Final = 0
"""Which partition a message came from is the sidecar's business."""


class RemoteChannel:
    """Implements `LeasedChannel`: what is behind the receivers."""

    partition = PARTITION
    is_closing = False

    def __init__(self, topic: str) -> None:
        self.topic = topic


class SessionReceiver(Protocol):
    """One receiver, as its session's others know it."""

    link_id: str
    link: Any
    served: Link | None
    has_refused: bool
    """Something went back since its drain began."""

    def look(self) -> None:
        """Drain, and ask, as its link says."""

    def watch(self, done: Completion) -> None:
        """Complete when the server has sent all that is there."""

    def drained(self, then: Callable[[], None]) -> None:
        """Go on when nothing is on its way here; at once where nothing was asked for."""

    def take_back(self, then: Callable[[], None]) -> None:
        """Give back what is unread, and then go on."""

    def leave(self) -> None:
        """End."""

    def touch(self) -> None:
        """Something is to be sent."""

    def flush(self) -> bool:
        """Send it now; False: not all of it. Not in the handling of an event."""


class Returning:
    """Messages of which something was said together; done when the server has confirmed each."""

    def __init__(self, then: Callable[[], None]) -> None:
        self.left = 0
        self.failure: JMSError | None = None
        self.then = then


class SessionReceivers:
    """Implements `LinkOwner`. On the event loop, but for what `LinkOwner` says any thread may call."""

    is_settled = True
    """The server answered when that was so."""
    has_joined = False
    opened = 0
    is_passing_on = False
    """Partitions are the server's matter, which says that nothing is there when it has those that are on their way."""

    def __init__(self, destination: Destination, mailbox: LoopMailbox, session_id: str, *, is_confirmed: bool) -> None:
        """`is_confirmed`: the server confirms each outcome before it sends more. Others may confirm none, so what goes
        back to them waits until nothing is on its way here: what comes then was sent after it."""
        self.destination = destination
        self.is_confirmed = is_confirmed
        self.session_id = session_id
        self.receivers: dict[str, SessionReceiver] = {}
        self.lease = PartitionLease(RemoteChannel(destination.name), session_id=session_id, notify=self._notify)
        self.is_running = True
        self._mailbox = mailbox
        self._with_us: dict[int, tuple[SessionReceiver, Any, Granted]] = {}
        """The messages of which nothing was said, by number."""
        self._returning: dict[Any, tuple[Returning, Granted]] = {}
        """The returns that the server has to confirm, by delivery."""
        self._fences = Fences()
        self.arriving: set[int] = set()
        """The messages that came, and are in no buffer yet."""
        self._alone: deque[tuple[str, int]] = deque()
        """Who asked to be served alone, and for how many."""
        self._is_looking = False
        self._going_back: deque[tuple[Link, Disposition]] = deque()
        """The messages that wait for that."""
        self._is_unsaid = False
        """Something went back so that the server may not know yet: the engine would ask it for more before."""

    def _notify(self, error: Exception) -> None:
        served = next((each.served for each in self.receivers.values() if each.served is not None), None)
        if served is not None:
            served.notices.notify(error)

    # -- LinkOwner: any thread -----------------------------------------------------------------------------------------

    @property
    def is_alive(self) -> bool:
        """Return `is_running`: after that nothing is carried out any more."""
        return self.is_running

    def wake(self) -> None:
        """Look soon at what the links say."""
        if not self._is_looking:
            self._is_looking = True
            self._mailbox.post(self.look)

    def serve_alone(self, link_id: str, count: int) -> None:
        """Give it so many, after its siblings' unread messages have gone back."""
        self._mailbox.post(partial(self._serve_alone, link_id, count))

    def take_back(self, link_id: str) -> None:
        """Give back what it has unread."""
        self._mailbox.post(lambda: self._with(link_id, lambda each: each.take_back(lambda: None)))

    def record_attempt(self, delivery: Granted, done: Completion) -> None:
        """Leave it to the sidecar, which records attempts before it sends a message, where its settings say so."""
        done.complete()

    def watch(self, link_id: str, ends: Mapping[int, int], done: Completion) -> None:
        """Complete when the server has sent all that was there when it was asked."""
        self._mailbox.post(lambda: self._with(link_id, lambda each: each.watch(done), done.complete))

    def detach(self, link_id: str) -> None:
        """Say what is to be said, and end its receiver."""
        self._mailbox.post(lambda: self._with(link_id, lambda each: each.leave()))

    # -- what is with us -----------------------------------------------------------------------------------------------

    def has(self, number: int) -> bool:
        """Nothing was said of it."""
        return number in self._with_us

    def is_stale(self, unit: bytes | None) -> bool:
        """Return True when what comes of the unit now has been taken back by the server already."""
        return unit in self._fences

    def add(self, receiver: SessionReceiver, delivery: Any, granted: Granted) -> None:
        """Keep a message that came until its outcome is said."""
        self._with_us[granted.offset] = receiver, delivery, granted

    def look(self) -> None:
        """Carry out what sessions said, and ask for what they want."""
        self._is_looking = False
        if not self.is_running:
            return
        receivers = list(self.receivers.values())
        self.say_all()
        if self._is_unsaid:
            self._is_unsaid = not all(each.flush() for each in receivers)
        if not (self._going_back or self._is_unsaid):
            for each in receivers:
                each.look()

    def say_all(self) -> None:
        """Carry out what sessions said."""
        self.acknowledge()
        for each in list(self.receivers.values()):
            while each.served is not None and each.served.settlement.dispositions:
                disposition = each.served.settlement.dispositions.popleft()
                if self.is_confirmed or not disposition.returned:
                    self._carry_out(each.served, disposition)
                else:
                    self._going_back.append((each.served, disposition))
                    self._when_drained(partial(self._mailbox.post, self.let_go_back))

    def _when_drained(self, then: Callable[[], None]) -> None:
        left = len(self.receivers)

        def is_drained() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                then()

        for each in list(self.receivers.values()):
            each.drained(is_drained)

    def let_go_back(self) -> None:
        """Carry out what waits for drains."""
        while self._going_back:
            self._carry_out(*self._going_back.popleft())
        self.wake()

    def acknowledge(self) -> None:
        """Tell the server what is acknowledged."""
        for number in self.lease.take_acked():
            self._settle(number, Delivery.ACCEPTED)

    def release_of(self, receiver: SessionReceiver) -> None:
        """Release what a receiver has that ends: it goes back."""
        for number, (its, _, _) in list(self._with_us.items()):
            if its is receiver:
                self._settle(number, Delivery.RELEASED)

    def _settle(self, number: int, state: int) -> None:
        found = self._with_us.pop(number, None)
        if found is not None:
            receiver, delivery, _ = found
            delivery.update(state)
            delivery.settle()
            receiver.touch()

    def _carry_out(self, link: Link, disposition: Disposition) -> None:
        """Acknowledge, and give back: with each the later ones of its unit, which no application may have before it."""
        returning = Returning(lambda: self._carried_out(link, disposition, returning))
        for _, number in disposition.acknowledged:
            self._say(returning, number, Delivery.ACCEPTED)
        rows = {row.offset: row for _, row in disposition.returned if row.offset in self._with_us}
        later = self._later(self._with_us[number][2] for number in rows)
        unread = self._remove(later)
        self._give_back_all(returning, [*rows.values(), *uncounted(set(later).difference(rows), unread)])
        if not returning.left:
            returning.then()

    def _carried_out(self, link: Link, disposition: Disposition, returning: Returning) -> None:
        if disposition.returned:
            link.return_is_done(disposition)
        if disposition.done is not None:
            disposition.done.complete(returning.failure)
        self.wake()

    def _give_back_all(self, returning: Returning, rows: Iterable[Modified]) -> None:
        for row, said in outcomes(rows, lambda number: self._with_us[number][2].reference.unit):
            self._give_back(returning, row, said)

    def _give_back(self, returning: Returning, row: Modified, said: SaidBehind) -> None:
        local = self._with_us[row.offset][1].local
        annotations: dict[Any, Any] = {}
        if self.is_confirmed and any(said):  # the server is ours, and at this one takes back those behind it, too
            annotations[symbol(BEHIND)] = list(said)
        if row.is_rejected:
            cause = row.last_error or "rejected by its receiver"
            local.condition = Condition("amqp:internal-error", cause, annotations or None)
            self._say(returning, row.offset, Delivery.REJECTED)
            return
        if not row.counted and not row.was_seen and not annotations:
            self._say(returning, row.offset, Delivery.RELEASED)
            return
        local.failed = row.counted
        if row.delay_ms is not None and row.counted:
            annotations[DELAY] = row.delay_ms
        if row.last_error:
            annotations[ERROR] = row.last_error
        if row.was_seen:
            annotations[SEEN] = True
        if annotations:
            local.annotations = annotations
        self._say(returning, row.offset, Delivery.MODIFIED)

    def _say(self, returning: Returning, number: int, state: int) -> None:
        """Tell the server the outcome of one message; what comes of its unit until the server confirms that is stale.

        A message that is no longer ours is passed over; if it was to be acknowledged `returning` fails: it comes again.
        """
        found = self._with_us.pop(number, None)
        if found is None:
            if state == Delivery.ACCEPTED:
                returning.failure = JMSError(f"{self.destination}: acknowledged too late; the message comes again")
            return
        receiver, delivery, granted = found
        delivery.update(state)
        receiver.has_refused = receiver.has_refused or state != Delivery.ACCEPTED
        receiver.touch()
        if not self.is_confirmed:
            delivery.settle()
            self._is_unsaid = self._is_unsaid or state != Delivery.ACCEPTED
            return
        returning.left += 1
        unit = granted.reference.unit
        if unit is not None and state != Delivery.ACCEPTED and not self._fences.covers(unit, number):
            self._fences.begin(unit, number)
        self._returning[delivery] = returning, granted

    def confirmed(self, delivery: Any) -> None:
        """Hear that the server has done what was said of a message."""
        found = self._returning.pop(delivery, None)
        if found is None:
            return
        returning, granted = found
        if delivery.local_state == Delivery.ACCEPTED and delivery.remote_state not in (Delivery.ACCEPTED, 0):
            returning.failure = JMSError(f"{self.destination}: not acknowledged; the message comes again")
        delivery.settle()
        self._fences.end(granted.reference.unit, granted.offset)
        returning.left -= 1
        if not returning.left:
            returning.then()

    def ended(self, receiver: SessionReceiver) -> None:
        """Take a link's outcomes for done that nobody confirms any more, for it is gone: the server has what it had."""
        for delivery in [each for each in self._returning if each.link == receiver.link]:
            self.confirmed(delivery)

    def return_unread(self, rows: Sequence[Granted], then: Callable[[], None]) -> None:
        """Give these back, which no application had, and go on when the server has them."""
        returning = Returning(then)
        later = self._later(rows)
        unread = {*(each.offset for each in rows), *self._remove(later)}
        here = {*unread, *later}.intersection(self._with_us)
        self._give_back_all(returning, uncounted(here, unread))
        if not returning.left:
            then()

    def _later(self, rows: Iterable[Granted]) -> list[int]:
        """Return the numbers of what is with us behind these in their units."""
        return behind(
            ((each.reference.unit, each.offset) for each in rows),
            ((number, (each.reference.unit, number)) for number, (_, _, each) in self._with_us.items()),
        )

    def _remove(self, numbers: Sequence[int]) -> set[int]:
        """Take them out of the buffers, and return those that no application had.

        They were there, or did not even get there, or are on their way back: a session may say of the first of a unit
        that it goes back, and of the rest a moment later.
        """
        if not numbers:
            return set()
        asked = frozenset(numbers)
        unread = {*self.arriving, *(row.offset for _, said in self._going_back for _, row in said.unread())} & asked
        for each in self.receivers.values():
            if each.served is not None:
                unread |= asked.intersection(each.served.unread(PARTITION))
                each.served.remove(PARTITION, asked)
        return unread

    # -- transactions --------------------------------------------------------------------------------------------------

    def take_part(self, numbers: Sequence[int], state: list[Any]) -> list[Granted]:
        """Acknowledge in a transaction; returns what is in it. Raises JMSError: one is with us no more."""
        taken: list[Granted] = []
        for number in numbers:
            found = self._with_us.pop(number, None)
            if found is None:
                raise JMSError(f"{self.destination}: a message of it is to come again")
            receiver, delivery, granted = found
            delivery.local.data = state
            delivery.update(TRANSACTIONAL)
            delivery.settle()
            receiver.touch()
            taken.append(granted)
        return taken

    def rolled_back(self, taken: Sequence[Granted]) -> None:
        """Drop what is behind these in their units: the server has taken all of it back."""
        later = self._later(taken)
        self._remove(later)
        for number in later:
            self._settle(number, Delivery.RELEASED)

    # -- siblings, and the end -----------------------------------------------------------------------------------------

    def _with(
        self, link_id: str, do: Callable[[SessionReceiver], None], otherwise: Callable[[], None] | None = None
    ) -> None:
        """Call `do` with the receiver of that link, or `otherwise` if it is gone or the session has ended."""
        found = self.receivers.get(link_id)
        if found is not None and self.is_running:
            do(found)
        elif otherwise is not None:
            otherwise()

    def _serve_alone(self, link_id: str, count: int) -> None:
        """Serve one receiver after the other, so that only one of them has credit at a time."""
        self._alone.append((link_id, count))
        if len(self._alone) == 1:
            self._serve_next_alone()

    def _serve_next_alone(self) -> None:
        link_id, count = self._alone[0]
        mine = self.receivers.get(link_id)
        others = [each for name, each in self.receivers.items() if name != link_id and each.served is not None]
        left = len(others)

        def is_alone() -> None:
            nonlocal left
            left -= 1
            if left > 0:
                return
            self._alone.popleft()
            if mine is not None and mine.served is not None:
                mine.served.want_now(count)
                self.wake()
            if self._alone:
                self._mailbox.post(self._serve_next_alone)

        if not others:
            is_alone()
        for each in others:
            each.take_back(is_alone)

    def end(self, cause: JMSError) -> list[Granted]:
        """Nothing can be said any more; returns what applications have."""
        if not self.is_running:
            return []
        self.is_running = False
        unread = set(self.arriving)
        links = [each.served for each in self.receivers.values() if each.served is not None]
        for link in links:
            unread |= {each.offset for each in link.take_unread()}
        seen = [granted for number, (_, _, granted) in self._with_us.items() if number not in unread]
        self.lease.taken = frozenset(each.offset for each in seen)
        self.lease.is_revoked = True
        self._with_us.clear()
        for returning in dict.fromkeys(each for each, _ in self._returning.values()):
            returning.failure = cause
            returning.then()
        for link in links:
            while link.settlement.dispositions:
                disposition = link.settlement.dispositions.popleft()
                if disposition.done is not None:
                    disposition.done.complete(cause)
            with link.lock:
                link.filled.notify_all()
        return seen
