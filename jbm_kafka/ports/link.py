"""A link: what connects one JMS consumer with the group worker of its queue.

The worker's thread puts granted messages into the buffer and takes acknowledgements and dispositions out; the session's
thread does the reverse. The lock is held for moments only, never over a call to Kafka or to the application.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence

from jbm_kafka.core.reference import EVERYONE
from jbm_kafka.core.selectors.selector import Selector
from jbm_kafka.core.settlement import Modified
from jbm_kafka.ports.completion import Completion
from jbm_kafka.ports.deliveries import Delivery, PartitionLease
from jbm_kafka.ports.link_owner import LinkOwner
from jbm_kafka.ports.unit_barrier import Disposition, UnitBarrier
from jbm_kafka.ports.wake_up import Sleepers


def _ignore(error: Exception) -> None:
    """What a link tells before anybody listens."""


def _nobody() -> None:
    """Who is told that a link has left, where nobody asked."""


class Link:
    """One consumer's connection to its group worker."""

    client_id: str = ""
    """Of its connection, for people."""
    mode: str = ""
    """Of its session, for people."""
    has_heard_of_pause: bool = False
    """It was said that nothing comes because its destination is paused; the group worker's."""
    is_kept_back: bool = False
    """What stays in it whatever happens is not handed over before `let_out`; the group worker's."""

    def __init__(
        self,
        *,
        link_id: str,
        session_id: str,
        prefetch: int,
        filled: Sleepers,
        lock: threading.RLock | threading.Lock,
        one_per_unit: bool = False,
    ) -> None:
        self.link_id = link_id
        self.session_id = session_id
        """What the channels know the receiver by: all consumers of a session share its units."""
        self.prefetch = prefetch
        self.one_per_unit = one_per_unit
        self.selector: Selector | None = None
        """Which messages its consumer gets; None: every one. Told before it is attached, and never changed."""
        self.chooses = EVERYONE
        """The bit of its selector in the channels; the group worker's."""
        self.lock = lock
        self.filled = filled
        """Who waits for what the lock guards; both are shared by the links of one session."""
        self.is_attached = False
        """Its group worker serves it."""
        self.buffer: deque[Delivery] = deque()
        self.taken: Delivery | None = None
        """What the last `pop` gave: where Ctrl-C comes before whoever called it has it, this still does."""
        self.coming: list[list[Delivery]] = []
        """Granted, but not to be seen before that is durable; the group worker's."""
        self.credit = 0
        """How many more the session would take now; what is granted counts until it is in the buffer or announced."""
        self.dispositions: deque[Disposition] = deque()
        self.leases: dict[int, PartitionLease] = {}
        """By partition; the group worker's."""
        self.is_closed = False
        self.is_stopped = False
        """The connection is stopped: nothing is taken."""
        self._group_worker: LinkOwner | None = None
        self.failure: Exception | None = None
        """Why the group worker cannot serve the link any more; raised to the receiver."""
        self.notices: deque[Exception] = deque()
        """What the receiver must know of a part that cannot be served; each is raised once, then it goes on."""
        self.siblings: tuple[Link, ...] = ()
        """The session's other links to the same queue. Only one of them has or asks for unread messages at a time, so
        that whichever the application receives from, a unit comes in order (UNIT-3)."""
        self._is_asking_alone = False
        self.receives = 0
        """How often the application asked for a message; the group worker looks whether it changes."""
        self._receives_seen, self._active_at_ms = -1, 0
        self.is_waiting = False
        """A receive waits, or a listener is set: the link counts as started however long nothing comes."""
        self.barrier = UnitBarrier()
        self.on_left: Callable[[], None] = _nobody
        """Told once, when nothing of it is unacknowledged any more and its group worker serves it no longer."""
        self.on_trouble: Callable[[Exception], None] = _ignore
        """Told, on the group worker's thread, when acknowledgements could not be recorded."""
        self.on_turn: Callable[[int], None] | None = None
        """Told the monotonic time, on the group worker's thread, in each of its turns."""
        self.records_first = False
        """What it gets is acknowledged, and comes only when that is durable."""

    @property
    def group_worker(self) -> LinkOwner:
        """The group worker that serves it; only after it was attached."""
        assert self._group_worker is not None, self.link_id
        return self._group_worker

    @group_worker.setter
    def group_worker(self, group_worker: LinkOwner) -> None:
        self._group_worker = group_worker
        self._is_asking_alone = (
            False  # a command to the group worker before, which carries out no more: it must ask again
        )

    def leave(self) -> None:
        """Leave the group worker for good."""
        self.is_closed = True
        self.become_siblings([])
        if self.is_attached:
            self.is_attached = False
            self.group_worker.detach(self.link_id)
        told, self.on_left = self.on_left, _nobody
        told()

    # -- the session's side --------------------------------------------------------------------------------------

    def pop(self) -> Delivery | None:
        """The next message of the buffer, or None. The caller holds the lock."""
        self.receives += 1
        fenced = self.barrier.units
        if not fenced or self.barrier.is_down():
            if not self.buffer:
                return None
            self.taken = self.buffer[0]
            return self.buffer.popleft()
        for index, delivery in enumerate(self.buffer):
            unit = delivery.reference.unit
            if unit is None or (delivery.lease.channel.partition, unit) not in fenced:
                self.taken = delivery
                del self.buffer[index]
                return delivery
        return None

    def request(self, count: int) -> None:
        """Ask the group worker for so many more. The caller holds the lock."""
        if self.siblings and count > 0 and self._group_worker is not None:
            # In this order: where Ctrl-C comes in between, it asks again. The answer waits for the lock.
            self._group_worker.serve_alone(self.link_id, count)
            self._is_asking_alone = True
            return
        self.credit = max(count, 0)
        if self.credit and self._group_worker is not None:
            self._group_worker.wake()

    @property
    def is_asking(self) -> bool:
        """The group worker owes it an answer."""
        return self.credit > 0 or self._is_asking_alone or any(self.coming)

    def runs_low(self, few: int) -> bool:
        """No more than `few` are left, counting what of the last portion is still to come: time to ask for another.

        Without counting it the remainder of a portion, often a single message, would be a hand-over of its own. The
        caller holds the lock.
        """
        if len(self.buffer) + self.credit > few:
            return False
        return not (self._is_asking_alone or any(self.coming))

    def begin_wait(self) -> None:
        """A receive waits from now on: a group worker that rests beside its consumer goes and looks."""
        self.is_waiting = True
        if self._group_worker is not None:
            self._group_worker.wake()

    def end_call(self, *, withdraw: bool) -> None:
        """A receive that waited ends; idleness counts from now. What it got too late stays for the next call."""
        with self.lock:
            self.is_waiting = False
            self.receives += 1
            if withdraw:
                self.credit = 0

    def become_siblings(self, siblings: Sequence[Link]) -> None:
        """From now on these are its siblings. The caller holds the lock, or nobody uses the link any more."""
        if siblings and not self.siblings and self._group_worker is not None:
            self.credit = 0
            self._group_worker.take_back(self.link_id)
        self.siblings = tuple(siblings)

    def give_back(self, rows: Sequence[tuple[Delivery, Modified]], done: Completion | None = None) -> None:
        """Return messages from the application's hand; later ones of their units in the buffer go back with them."""
        with self.lock:
            self._give_back(rows, done)

    def put_back(self, delivery: Delivery) -> None:
        """Undo the last `pop`: the message is the next one again, as if it had never been taken."""
        with self.lock:
            if delivery.lease.is_revoked or (self.buffer and self.buffer[0] is delivery):
                return  # it is there still, or whoever has its partition now delivers it
            # A sibling that asked while this buffer looked empty may be about to get the messages behind this one.
            is_alone = not any(sibling.buffer or sibling.is_asking for sibling in self.siblings)
            if is_alone and not self.is_stopped and not delivery.lease.channel.is_closing:
                self.buffer.appendleft(delivery)
                return
        self.give_back([(delivery, Modified(delivery.offset, counted=False))])

    def take_unread(self, *, if_idle: bool = False) -> list[Delivery]:
        """Empty the buffer, and what is coming; for the group worker, which gives it back uncounted.

        `if_idle`: not when a receive began since `is_active` was asked, for it may wait for what it asked for.
        """
        with self.lock:
            is_called = self.is_waiting or self.receives != self._receives_seen
            if if_idle and is_called:
                return []
            if self.is_waiting:
                self.filled.notify_all()  # what it has asked for since goes too: it must ask again
            return self._take_unread()

    def resume(self) -> None:
        """The connection was started. The caller holds the lock."""
        self.is_stopped = False

    def give_back_unread(self, *, stop: bool = False) -> None:
        """Return what is unread uncounted; with `stop` take nothing until started again.

        Fenced like what is in hand: before the worker hears of it, it may grant the next of a unit to the same session.
        """
        with self.lock:
            self.is_stopped = self.is_stopped or stop
            unread = self._take_unread()
            if unread:
                self._give_back([(delivery, Modified(delivery.offset, counted=False)) for delivery in unread], None)
                self.group_worker.wake()

    def _take_unread(self) -> list[Delivery]:
        unread = [*self.buffer, *(delivery for batch in self.coming for delivery in batch)]
        self.buffer.clear()
        for batch in self.coming:
            batch.clear()
        self.credit = 0
        return unread

    def _give_back(self, rows: Sequence[tuple[Delivery, Modified]], done: Completion | None) -> None:
        units = {delivery.unit_place for delivery, _ in rows if delivery.unit_place is not None}
        has_unread = any(not (row.counted or row.was_seen) for _, row in rows)
        disposition = Disposition(
            returned=[(delivery.lease, row) for delivery, row in rows], has_unread=has_unread, done=done
        )
        self.barrier.put_up(units, disposition, self._group_worker)
        self.dispositions.append(disposition)

    def notify(self, error: Exception) -> None:
        """Acknowledgements could not be recorded; on the group worker's thread."""
        self.on_trouble(error)

    # -- the worker's side -----------------------------------------------------------------------------------------

    def keep_back(self) -> None:
        """Hand over nothing of what cannot be taken back, until `let_out`; here everything can (see `take_unread`)."""

    def let_out(self) -> None:
        """What was kept back may be handed over again."""

    @property
    def is_open(self) -> bool:
        """The consumer is not closed, nor its connection stopped: partitions are for those who receive."""
        return not (self.is_closed or self.is_stopped)

    def is_active(self, now_ms: int, idle_ms: int) -> bool:
        """It is open, and a receive or listener waits or was there within `idle_ms` (monotonic times)."""
        if not self.is_open:
            return False
        if self.is_waiting or self.receives != self._receives_seen:
            self._receives_seen = self.receives
            self._active_at_ms = now_ms
            return True
        return now_ms - self._active_at_ms <= idle_ms

    def put(self, deliveries: Sequence[Delivery]) -> bool:
        """Hand messages over; False when the link was closed, or what comes before them is on its way back."""
        with self.lock:
            if self.barrier.is_unread_going_back(self._group_worker):
                return False
            self.credit = max(self.credit - len(deliveries), 0)  # not before: in between the session would ask again
            return self._put(deliveries)

    def announce(self, deliveries: list[Delivery]) -> bool:
        """These come when `arrive` is told, unless they are taken out of the list before; False as of `put`."""
        with self.lock:
            if self.barrier.is_unread_going_back(self._group_worker):
                return False
            self.credit = max(self.credit - len(deliveries), 0)
            self.coming.append(deliveries)
            return True

    def arrive(self, deliveries: list[Delivery]) -> bool:
        """Hand over what is left of an announced list; False when the link was closed meanwhile."""
        with self.lock:
            self.coming = [batch for batch in self.coming if batch is not deliveries]
            return self._put(deliveries)

    def _put(self, deliveries: Sequence[Delivery]) -> bool:
        if self.is_closed or self.is_stopped:
            return False
        self.buffer.extend(deliveries)
        self.filled.notify_all()  # a session's listener thread waits here too, also when it listens no more
        return True

    def remove(self, partition: int, offsets: frozenset[int] | None) -> list[Delivery]:
        """Take messages of a partition out of what is unread or coming: these offsets, or all when None."""
        with self.lock:
            out = [
                g
                for g in (*self.buffer, *(delivery for batch in self.coming for delivery in batch))
                if g.lease.channel.partition == partition and (offsets is None or g.reference.offset in offsets)
            ]
            if out:
                gone = {(g.lease.channel.partition, g.reference.offset) for g in out}
                self.buffer = deque(g for g in self.buffer if g.place not in gone)
                for batch in self.coming:
                    batch[:] = [g for g in batch if g.place not in gone]
            return out

    def unread(self, partition: int) -> list[int]:
        """Offsets of a partition that are granted and never were in the application's hand."""
        with self.lock:
            rows = (*self.buffer, *(delivery for batch in self.coming for delivery in batch))
            going_back = (returned for disposition in self.dispositions for returned in disposition.returned)
            return [g.reference.offset for g in rows if g.lease.channel.partition == partition] + [
                row.offset
                for lease, row in going_back
                if lease.channel.partition == partition and not (row.counted or row.was_seen)
            ]

    def is_answered(self) -> bool:
        """What it asked for was handed over as far as it was there, and nothing is on its way in or back."""
        with self.lock:
            return not (
                self._is_asking_alone or any(self.coming) or self.barrier.is_unread_going_back(self._group_worker)
            )

    def return_is_done(self, disposition: Disposition) -> None:
        """It was carried out and its stragglers removed."""
        with self.lock:
            self.barrier.carried_out(disposition)
            self.filled.notify_all()

    def want_now(self, count: int) -> None:
        """Its siblings have nothing unread and want nothing."""
        with self.lock:
            self._is_asking_alone = False
            if not self.is_closed and not self.is_stopped and not self.buffer:
                self.credit = count

    def note(self, error: Exception) -> None:
        """Tell the receiver, when it next has to wait, that something will not come; the rest does."""
        with self.lock:
            self.notices.append(error)
            self.filled.notify_all()

    def fail(self, error: Exception) -> None:
        """Tell the receiver that nothing will come any more."""
        with self.lock:
            self.failure = error
            self.filled.notify_all()
