"""A link: what connects one JMS consumer with the group worker of its queue.

The worker's thread puts granted messages into the buffer and takes acknowledgements and dispositions out; the session's
thread does the reverse. The lock is held for moments only, never over a call to Kafka or to the application.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from jbm_kafka.core.channel.ranking import by_priority
from jbm_kafka.core.channel.reference import DEFAULT_PRIORITY
from jbm_kafka.core.channel.settlement import Modified
from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.core.receiving.credit import Demand
from jbm_kafka.core.receiving.hand import ANNOUNCE, ARRIVE, GRANT, PUT_BACK, RETURNING, TAKE_BACK, Buffer, Hand, Stands
from jbm_kafka.core.selectors.selector import Selector
from jbm_kafka.ports.completion import Completion
from jbm_kafka.ports.deliveries import Delivery, Disposition, PartitionLease
from jbm_kafka.ports.link_owner import LinkOwner
from jbm_kafka.ports.wake_up import Sleepers


@dataclass(frozen=True, slots=True, eq=False)
class LinkTerms:
    """Told when the link is attached; later only that it may have several of a unit after all."""

    link_id: str
    session_id: str
    """The name by which the channels know the receiver: all consumers of a session share its units."""
    prefetch: int
    client_id: str = ""
    """The client id of its connection, for people."""
    mode: str = ""
    """The mode of its session, for people."""
    selector: Selector | None = None
    """Which messages its consumer gets; None: every one."""
    one_per_unit: bool = False
    records_first: bool = False
    """A message is acknowledged before it comes, and comes only when that is durable."""
    is_forwarded: bool = False
    """It is another sidecar's: it gets what is here, and keeps this process in no group."""
    records_attempts: bool = False
    """Its application gets a message only when that is recorded (REDELIVER-7)."""


class LinkSettlement:
    """Acknowledgements go through the leases, everything else through dispositions. The session's lock guards it."""

    def __init__(self) -> None:
        self.leases: dict[int, PartitionLease] = {}
        """The leases by partition; the group worker's."""
        self.dispositions: deque[Disposition] = deque()

    def unread_going_back(self, partition: int) -> list[int]:
        """Offsets of a partition that are on their way back and never were in the application's hand."""
        rows = [row for said in self.dispositions for row in said.unread()]
        return [row.offset for lease, row in rows if lease.channel.partition == partition]


def _rank(deliveries: Iterable[Delivery]) -> list[Delivery]:
    return by_priority(deliveries, lambda each: each.reference, lambda each: each.unit_place)


def _ignore(error: Exception) -> None:
    """Pass over what a link tells before anybody listens."""


def _nobody() -> None:
    """The default of `on_left`: nobody waits for it."""


class Notices:
    """The notices to one link."""

    def __init__(self, filled: Sleepers) -> None:
        self._filled = filled
        self.failure: Exception | None = None
        """Why the group worker cannot serve the link any more; raised to the receiver."""
        self.hindrance: JMSError | None = None
        """Why nothing comes now, and nothing that is said of messages is recorded: each call raises it."""
        self.pending: deque[Exception] = deque()
        """Errors that the receiver must hear about a part that cannot be served; each is raised once, then it goes
        on."""
        self.is_open = False
        """Its consumer was made: where its topic is gone it waits, and is not refused."""
        self.has_heard_of_pause = False
        """It was said that nothing comes because its destination is paused; the group worker's."""
        self.on_left: Callable[[], None] = _nobody
        """Told once, when nothing of it is unacknowledged any more and its group worker serves it no longer."""
        self.on_trouble: Callable[[Exception], None] = _ignore
        """Told, on the group worker's thread, when acknowledgements could not be recorded."""
        self.on_turn: Callable[[int], None] | None = None
        """Told the monotonic time, on the group worker's thread, in each of its turns."""

    def note(self, error: Exception) -> None:
        """Tell the receiver, when it next has to wait, that something will not come; the rest does."""
        with self._filled.lock:
            self.pending.append(error)
            self._filled.notify_all()

    def fail(self, error: Exception) -> None:
        """Tell the receiver that nothing will come any more."""
        with self._filled.lock:
            self.failure = error
            self._filled.notify_all()

    def hinder(self, error: JMSError | None) -> None:
        """Tell the receiver that nothing comes, and nothing is recorded, until this is over; None: it is."""
        with self._filled.lock:
            self.hindrance = error
            self._filled.notify_all()
        if error is not None:
            self.on_trouble(error)

    def opened(self) -> None:
        """Its consumer was made: where its topic is gone it waits from now on, and is not refused."""
        self.is_open = True

    def tell_trouble(self, on_trouble: Callable[[Exception], None]) -> None:
        """Have this told of acknowledgements that could not be recorded."""
        self.on_trouble = on_trouble

    def tell_turns(self, on_turn: Callable[[int], None]) -> None:
        """Have this told of each turn of the group worker, with the monotonic time."""
        self.on_turn = on_turn

    def tell_left(self, on_left: Callable[[], None]) -> None:
        """Have this told when it has left, before those that were to be told until now."""
        before = self.on_left

        def both() -> None:
            on_left()
            before()

        self.on_left = both

    def hear_of_pause(self) -> bool:
        """It was said that nothing comes because its destination is paused; False: that was so before."""
        is_new = not self.has_heard_of_pause
        self.has_heard_of_pause = True
        return is_new

    def hear_of_no_pause(self) -> None:
        """It comes again."""
        self.has_heard_of_pause = False

    @property
    def has_trouble(self) -> bool:
        """Whoever waits is to hear that nothing will come."""
        return self.failure is not None or self.hindrance is not None

    def take_failure(self) -> Exception | None:
        """Why nothing comes; given once."""
        failure = self.failure
        if failure is not None:  # else it is left alone: the group worker may fail just now
            self.failure = None
        return failure

    def notify(self, error: Exception) -> None:
        """Acknowledgements could not be recorded; on the group worker's thread."""
        self.on_trouble(error)

    def left(self) -> None:
        """The link has left its group worker for good."""
        notify, self.on_left = self.on_left, _nobody
        notify()


class Link:
    """One consumer's connection to its group worker."""

    def __init__(
        self,
        terms: LinkTerms,
        *,
        filled: Sleepers,
        lock: threading.RLock | threading.Lock,
        hand: Hand | None = None,
    ) -> None:
        """`hand`: that of its session's links to the same queue; None: there are no others."""
        self.terms = terms
        self.lock = lock
        self.filled = filled
        """The threads that wait for what the lock guards; both are shared by the links of one session."""
        self.hand: Final = Hand() if hand is None else hand
        self.buffer: Final = Buffer[Delivery](self.hand, self._returning())
        self.demand = Demand()
        self.settlement = LinkSettlement()
        self.notices = Notices(filled)
        self.is_attached = False
        """Its group worker serves it."""
        self.undeliverable: set[tuple[int, int]] = set()
        """(partition, offset) of what it must not get again; the group worker's."""
        self.is_closed = False
        self.is_stopped = False
        """The connection is stopped: nothing is taken."""
        self._group_worker: LinkOwner | None = None
        self.siblings: tuple[Link, ...] = ()
        """The session's other links to the same queue. Only one of them has or asks for unread messages at a time, so
        that whichever the application receives from, a unit comes in order (UNIT-3)."""

    @property
    def group_worker(self) -> LinkOwner:
        """The group worker that serves it; only after it was attached."""
        assert self._group_worker is not None, self.terms.link_id
        return self._group_worker

    @group_worker.setter
    def group_worker(self, group_worker: LinkOwner) -> None:
        self._group_worker = group_worker
        # A command to the group worker before, which carries out no more: it must ask again.
        self.demand.is_asking_alone = False

    def attach(self, group_worker: LinkOwner) -> None:
        """This one serves it from now on."""
        self.group_worker = group_worker
        self.is_attached = True

    def await_worker(self) -> None:
        """The one that served it has ended; nobody serves it until it is attached again."""
        self.is_attached = False

    def begin_close(self) -> None:
        """Its consumer was closed: nobody takes from it any more. The caller holds the lock, or has interrupted it."""
        self.is_closed = True

    def leave(self) -> None:
        """Leave the group worker for good."""
        self.is_closed = True
        self.become_siblings([])
        if self.is_attached:
            self.is_attached = False
            self.group_worker.detach(self.terms.link_id)
        self.notices.left()

    # -- the session's side --------------------------------------------------------------------------------------

    def pop(self) -> Delivery | None:
        """The next message of the buffer, or None. The caller holds the lock.

        Where attempts are recorded, one that is there is asked for first, and stays until that is durable.
        """
        self.demand.receives += 1
        buffer = self.buffer
        if not self.terms.records_attempts:
            return buffer.take_next()
        delivery = buffer.next_to_record()
        if delivery is None:
            return None
        if delivery is not buffer.asked:
            # In this order: where Ctrl-C comes in between, it asks again. The answer waits for the lock.
            self.group_worker.record_attempt(delivery, Completion(partial(self._attempt_recorded, delivery)))
            buffer.ask_to_record(delivery)
        if not buffer.is_recorded:
            return None
        buffer.take(delivery)
        return delivery

    def _attempt_recorded(self, delivery: Delivery, error: Exception | None) -> None:
        with self.lock:
            if error is None:
                self.buffer.recorded(delivery)
            self.filled.notify_all()

    def forget_taken(self) -> None:
        """The last one that was popped is where it belongs: nobody puts it back."""
        self.buffer.taken = None

    def request(self, count: int) -> None:
        """Ask the group worker for so many more, and no others; 0: for none. The caller holds the lock."""
        if self.siblings and count > 0 and self._group_worker is not None:
            # In this order: where Ctrl-C comes in between, it asks again. The answer waits for the lock.
            self._group_worker.serve_alone(self.terms.link_id, count)
            self.demand.is_asking_alone = True
            return
        self.demand.credit = max(count, 0)
        if count > 0 and self._group_worker is not None:
            self._group_worker.wake()

    @property
    def is_asking(self) -> bool:
        """The group worker owes it an answer."""
        demand = self.demand
        return demand.credit > 0 or demand.is_asking_alone or self.buffer.awaits_more or self.buffer.awaits_record

    def runs_low(self, few: int) -> bool:
        """No more than `few` are left, counting what of the last portion is still to come: time to ask for another.

        Without counting it the remainder of a portion, often a single message, would be a hand-over of its own. The
        caller holds the lock.
        """
        buffer, demand = self.buffer, self.demand
        if len(buffer.ready) + demand.credit > few:
            return False
        return not (demand.is_asking_alone or buffer.awaits_more)

    def wait_on(self, *, waits: bool = True) -> None:
        """Somebody waits for messages, from now on or no more; `request` says how many."""
        self.demand.is_waiting = waits

    def note_use(self) -> None:
        """Its application is there, though it receives nothing just now."""
        with self.lock:
            self.demand.receives += 1

    def begin_wait(self) -> None:
        """A receive waits from now on: a group worker that rests beside its consumer goes and looks."""
        self.demand.is_waiting = True
        if self._group_worker is not None:
            self._group_worker.wake()

    def note_listener(self, *, is_set: bool) -> None:
        """Its consumer has a listener, or none any more."""
        self.demand.has_listener = is_set

    def enter_listener(self, *, is_in: bool) -> None:
        """A message is on its way to the listener or with it, or none any more."""
        self.demand.is_in_listener = is_in

    def end_call(self, *, withdraw: bool) -> None:
        """A receive that waited ends; idleness counts from now. What it got too late stays for the next call."""
        with self.lock:
            self.demand.end_wait(withdraw=withdraw)

    def end_listening(self) -> None:
        """No listener takes its messages any more: what is unread goes back at once, for others."""
        with self.lock:
            self.demand.is_waiting = False
            self.demand.credit = 0
            if self._group_worker is not None:  # by a command: what it has granted already comes before that
                self._group_worker.take_back(self.terms.link_id)

    def become_siblings(self, siblings: Sequence[Link]) -> None:
        """From now on these are its siblings. The caller holds the lock, or nobody uses the link any more."""
        if siblings and not self.siblings and self._group_worker is not None:
            self.demand.credit = 0
            self._group_worker.take_back(self.terms.link_id)
        self.siblings = tuple(siblings)

    def give_back(self, rows: Sequence[tuple[Delivery, Modified]], done: Completion | None = None) -> None:
        """Return messages from the application's hand; later ones of their units in the buffer go back with them."""
        with self.lock:
            self._give_back(rows, done)

    def settle(self, acknowledged: Sequence[tuple[PartitionLease, int]], done: Completion) -> None:
        """Acknowledge these places; `done` is complete when that is durable, once the group worker was woken."""
        self.settlement.dispositions.append(Disposition(acknowledged=acknowledged, done=done))

    def put_back(self, delivery: Delivery) -> None:
        """Undo the last `pop`: the message is the next one again, as if it had never been taken.

        Of a closed link it goes back: nobody takes from its buffer, and whoever closes it may have emptied that before.
        """
        with self.lock:
            ready = self.buffer.ready
            if delivery.lease.is_revoked or (ready and ready[0] is delivery):
                return  # it is there still, or whoever has its partition now delivers it
            # A sibling that asked while this buffer looked empty may be about to get the messages behind this one.
            is_alone = not any(sibling.buffer or sibling.is_asking for sibling in self.siblings)
            if is_alone and self.is_open and not delivery.lease.channel.is_closing:
                self.buffer.apply(PUT_BACK, [delivery])
                return
        self.give_back([(delivery, Modified(delivery.offset, counted=False))])

    def take_unread(self, *, if_idle: bool = False) -> list[Delivery]:
        """Empty the buffer, and what is coming; for the group worker, which gives it back uncounted.

        `if_idle`: not when a receive began since `is_active` was asked, for it may wait for what it asked for.
        """
        with self.lock:
            if if_idle and self.demand.is_called:
                return []
            if self.demand.is_waiting:
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

    def _returning(self) -> Stands:
        """Return the places from which a message may be taken back."""
        return RETURNING

    def _take_unread(self) -> list[Delivery]:
        self.demand.credit = 0
        unread = self.buffer.returnable()
        self.buffer.apply(TAKE_BACK, unread)
        return unread

    def _give_back(self, rows: Sequence[tuple[Delivery, Modified]], done: Completion | None) -> None:
        said = Disposition(returned=[(delivery.lease, row) for delivery, row in rows], done=done)
        units = [delivery.unit_place for delivery, _ in rows]
        has_unread = any(not (row.counted or row.was_seen) for _, row in rows)
        self.hand.give_back(units, said, self._group_worker, has_unread=has_unread)
        self.settlement.dispositions.append(said)

    # -- the worker's side -----------------------------------------------------------------------------------------

    def keep_back(self) -> None:
        """Hand over nothing of what cannot be taken back, until `let_out`; here everything can (see `take_unread`)."""

    def let_out(self) -> None:
        """Let what was kept back be handed over again."""

    @property
    def is_open(self) -> bool:
        """The consumer is not closed, nor its connection stopped: partitions are for receivers."""
        return not (self.is_closed or self.is_stopped)

    def is_active(self, now_ms: int, idle_ms: int) -> bool:
        """It is open, and a receive or listener waits or was there within `idle_ms` (monotonic times)."""
        return self.is_open and self.demand.is_recent(now_ms, idle_ms)

    def put(self, deliveries: Sequence[Delivery], *, is_ranked: bool = False) -> bool:
        """Hand messages over; False when the link was closed, or what comes before them is on its way back.

        `is_ranked`: some have another priority than the default.
        """
        with self.lock:
            if self.hand.awaits_unread(self._group_worker):
                return False
            self.demand.granted(len(deliveries))  # not before: in between the session would ask again
            return self._put(deliveries, is_ranked)

    def announce(self, deliveries: list[Delivery]) -> bool:
        """These come with the next `arrive`, unless they are taken out of the list before; False as of `put`."""
        with self.lock:
            if self.hand.awaits_unread(self._group_worker):
                return False
            self.demand.granted(len(deliveries))
            self.buffer.apply(ANNOUNCE, deliveries)
            return True

    def arrive(self, deliveries: list[Delivery]) -> bool:
        """Hand over what is left of an announced list; False when the link was closed meanwhile."""
        with self.lock:
            self.buffer.apply(ARRIVE, deliveries)
            is_ranked = any(delivery.reference.priority != DEFAULT_PRIORITY for delivery in deliveries)
            return self._put(deliveries, is_ranked)

    def _put(self, deliveries: Sequence[Delivery], is_ranked: bool) -> bool:
        if self.is_closed or self.is_stopped:
            return False
        self.buffer.apply(GRANT, deliveries, _rank if is_ranked else None)
        self.filled.notify_all()  # a session's listener thread waits here too, also when it listens no more
        return True

    def remove(self, partition: int, offsets: frozenset[int] | None) -> list[Delivery]:
        """Take messages of a partition out of what is unread or coming: these offsets, or all when None."""
        with self.lock:
            here = self._unread(partition)
            removed = here if offsets is None else [each for each in here if each.reference.offset in offsets]
            if removed:
                self.buffer.apply(TAKE_BACK, removed)
                self.filled.notify_all()  # whatever waits for them asks again
            return removed

    def unread(self, partition: int) -> list[int]:
        """Offsets of a partition that are granted and never were in the application's hand."""
        with self.lock:
            here = [each.reference.offset for each in self._unread(partition)]
            return here + self.settlement.unread_going_back(partition)

    def _unread(self, partition: int) -> list[Delivery]:
        return [each for each in self.buffer.returnable() if each.lease.channel.partition == partition]

    def is_answered(self) -> bool:
        """Return True when all that it asked for and is there was handed over, and nothing is on its way in or back."""
        with self.lock:
            buffer = self.buffer
            is_recorded = buffer.has_asked and buffer.is_recorded
            must_record = self.terms.records_attempts and buffer.has_takeable and not is_recorded
            return not (
                self.demand.is_asking_alone
                or buffer.awaits_more
                or must_record
                or self.hand.awaits_unread(self._group_worker)
            )

    def return_is_done(self, disposition: Disposition) -> None:
        """It was carried out and its stragglers removed."""
        with self.lock:
            self.hand.returned(disposition)
            self.filled.notify_all()

    def want_now(self, count: int) -> None:
        """Its siblings have nothing unread and want nothing."""
        with self.lock:
            self.demand.is_asking_alone = False
            if not self.is_closed and not self.is_stopped and not self.buffer:
                self.demand.credit = count
