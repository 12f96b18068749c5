"""Simulated applications: real sessions and their consumers, whose calls none waits, and a second account of them.

Each says beside every call what the promise of its acknowledge mode is, in its own few words: that goes on the paper,
and the invariants compare the paper with what the product made of the call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jbm_kafka.core.destination import Queue
from jbm_kafka.core.jms_errors import IllegalStateError, JMSError, TransactionRolledBackError
from jbm_kafka.jms.base.modes import AcknowledgeMode
from jbm_kafka.jms.consumer import MessageConsumer
from jbm_kafka.jms.messages.message import Message
from jbm_kafka.jms.receiving.inbox import ConsumerInbox
from jbm_kafka.jms.session import Session
from jbm_kafka.jms.settling.transacted_acknowledge import PendingCommit, TransactedAcknowledge
from jbm_kafka.ports import Outgoing
from jbm_kafka.ports.completion import Completion
from jbm_kafka.ports.deliveries import Delivery
from tests.simulation import at_hand_over
from tests.simulation.lives import Life
from tests.simulation.paper import Commit, HandOver
from tests.simulation.provider import SimulatedConnection, SimulatedProvider

if TYPE_CHECKING:
    from tests.simulation.node import Node
    from tests.simulation.recorder import Recorder

SIBLING_TURN_MS = 500
OUTBOX_BYTES = 100
"""What each send of a transaction counts in its budget."""
Mode = AcknowledgeMode


@dataclass(eq=False, slots=True)
class Item:
    """One message that the application has."""

    delivery: Delivery
    message: Message
    noted: HandOver
    inbox: ConsumerInbox
    """The consumer that received it."""

    @property
    def is_lost(self) -> bool:
        """Nothing can be said of it any more."""
        return self.delivery.lease.is_revoked

    def is_same_unit(self, other: Item) -> bool:
        """Both are of one unit of one channel."""
        unit = self.noted.message.unit
        is_same = unit is not None and unit == other.noted.message.unit
        return is_same and self.delivery.lease.channel is other.delivery.lease.channel


@dataclass(frozen=True, slots=True)
class Opening:
    """What one consumer of an application receives from."""

    name: str
    selector: str | None
    make: Callable[[Session], MessageConsumer]
    may_wait: bool = False
    """Its end may wait for others, as a subscription's does."""


def opening_of_queue(queue: str, selector: str | None = None, *, may_wait: bool = False) -> Opening:
    """A queue's consumer."""
    return Opening(queue, selector, lambda session: session.create_consumer(Queue(queue), selector=selector), may_wait)


class Receiver:
    """An application with one session and its consumers."""

    _is_closing = False
    """Its session ends, and others act meanwhile: what comes into its buffer in PRE is acknowledged still."""

    def __init__(
        self,
        node: Node,
        name: str,
        mode: Mode,
        openings: Sequence[Opening],
        *,
        prefetch: int,
        listens: bool,
        blocks: bool,
        records_attempts: bool,
        triggers: tuple[int, int],
        appetite: int,
        recorder: Recorder,
        client_id: str | None = None,
        provider: type[SimulatedProvider] = SimulatedProvider,
    ) -> None:
        """`triggers`: messages and milliseconds of DUPS_OK. `appetite`: how many it likes to have before it settles."""
        self.node = node
        self.name = name
        self.mode = mode
        self.prefetch = prefetch
        self.appetite = appetite
        self._recorder = recorder
        self.items: list[Item] = []
        """What it has, in the order received."""
        self.commit_under_way: Commit | None = None
        self.told: set[tuple[object, object, int]] = set()
        """(topic, partition, offset) of what it was told to hold in vain."""
        self._unconfirmed: list[tuple[list[Completion], list[HandOver]]] = []
        """Blocking acknowledgements that have not returned."""
        self._turn: tuple[ConsumerInbox | None, int] = (None, 0)
        """Which consumer asked last, and until when the others leave it what it gets."""
        behind = provider(node, records_attempts=records_attempts)
        self._connection = self._connect(behind, prefetch, blocks=blocks)
        self.session = self._new_session(mode)
        self.lazy = Lazy(self, *triggers) if mode is Mode.DUPS_OK else None
        if self.lazy is not None and triggers == (0, 0):
            self.mode, self.lazy = Mode.CLIENT, None
        self._arrived: set[Delivery] = set()
        """In PRE: what came into its buffer, and nobody got yet."""
        self._connection.client_id = client_id
        self.openings = openings
        self.lives: list[Life] = []
        """The subscriptions that it uses."""
        self.wants_close = False
        """Its application ends it as soon as it can."""
        self._connection.is_started = False  # so that making a consumer does not wait for its partitions
        self.inboxes = [opening.make(self.session)._inbox for opening in openings]
        self._connection.is_started = True
        self.refusal: IllegalStateError | None = None
        """Why it receives nothing any more."""
        try:
            for inbox in self.inboxes:
                inbox.link.demand.is_waiting = listens
                inbox.connect()
        except JMSError:
            self.session.close()
            raise
        recorder.silent.append(self.note_silent)

    def _connect(self, behind: SimulatedProvider, prefetch: int, *, blocks: bool) -> SimulatedConnection:
        return SimulatedConnection(self.name, behind, prefetch=prefetch, blocks=blocks, heard=self._told)

    def _new_session(self, mode: Mode) -> Session:
        return Session(self._connection, mode)

    @property
    def may_wait(self) -> bool:
        """Its end may wait for others."""
        return any(opening.may_wait for opening in self.openings)

    @property
    def is_closed(self) -> bool:
        """Its session is."""
        return self.session.is_closed

    @property
    def can_act(self) -> bool:
        """A session in the middle of a commit cannot."""
        return not self.is_closed and not self.wants_close and self.commit_under_way is None

    # -- receiving -------------------------------------------------------------------------------------------------

    def receive(self, inbox: ConsumerInbox) -> Item | None:
        """The next message, if one is here; else it is asked for."""
        if self.node.is_stopping:
            return None
        if self.mode is Mode.AUTO:
            self.acknowledge_all()
        elif self.lazy is not None:
            self.lazy.finish()
        self.note_silent()
        try:
            delivery = inbox.poll_for_listener() if self._is_turn_of(inbox) else inbox.poll()
        except JMSError as error:  # a prefetch that a transaction holds, or a group worker that ended
            self.refusal = error if isinstance(error, IllegalStateError) else None
            return None  # the next call goes on
        if delivery is None:
            return None
        self._arrived.discard(delivery)
        noted = self._recorder.handed_over(self, inbox.destination.name, delivery)
        at_hand_over.only_what_it_chooses(noted, self.openings[self.inboxes.index(inbox)].selector)
        item = Item(delivery, inbox.present(delivery), noted, inbox)
        if self.mode is Mode.NO:
            self._acknowledging([item])
        elif self.mode is not Mode.PRE:
            self.items.append(item)
            held = sum(each.inbox is inbox for each in self.items)
            at_hand_over.within_its_prefetch(self.name, held, self.prefetch)
        if self.lazy is not None:
            self.lazy.in_hand = item
        return item

    def _is_turn_of(self, inbox: ConsumerInbox) -> bool:
        """One consumer after the other: what one asked for is not taken from it before it can have come."""
        now_ms = self.node.clock.monotonic_ms()
        if inbox.link.siblings and inbox is not self._turn[0] and now_ms < self._turn[1]:
            return False
        self._turn = (inbox, now_ms + SIBLING_TURN_MS)
        return True

    # -- settling --------------------------------------------------------------------------------------------------

    def acknowledge(self, item: Item) -> None:
        """`message.acknowledge()`, as the mode says; of what it has no more: nothing."""
        if item not in self.items:
            items = []
        elif self.mode is Mode.CLIENT:
            items = self.items[: self.items.index(item) + 1]
        else:
            items = [item]
        with _Refused() as refused:
            self._acknowledging(items)
            item.message.acknowledge()
        self._compare(refused, items)

    def acknowledge_all(self) -> None:
        """`session.acknowledge()`; in AUTO the next receive, or a listener that returned."""
        items = list(self.items)
        with _Refused() as refused:
            self._acknowledging(items)
            if self.mode is Mode.AUTO:
                self.session._strategy.before_receive()
            else:
                self.session.acknowledge()
        if self.mode is Mode.AUTO:  # which has no call to raise it: its exception listener hears
            assert not refused.is_raised, f"refused_when_lost: {self.name} is told {refused.error}"
            self._look_for_waits(items)
        else:
            self._compare(refused, items)

    def nack(self, item: Item, delay_ms: int | None) -> None:
        """Give one back; in CLIENT the later ones of its unit go with it, uncounted."""
        later = self.items[self.items.index(item) + 1 :] if self.mode is Mode.CLIENT else []
        with_it = [other for other in later if item.is_same_unit(other)]
        self._have_no_more([item, *with_it])
        self._recorder.returned([other.noted for other in with_it], counted=False, delay_ms=None)
        self._returned([item], delay_ms)
        item.message.nack(delay_ms)

    def give_back_all(self) -> None:
        """`session.recover()`, `session.rollback()`; in AUTO a listener that raised."""
        if self.lazy is not None:
            self.lazy.give_back()
            return
        items = list(self.items)
        self._have_no_more(items)
        self._returned(items, None)
        if self.mode is Mode.AUTO:
            self.session._strategy.abandon()
        elif self.mode is Mode.TRANSACTED:
            self.session.rollback()
        else:
            self.session.recover()

    def commit(self, commit: Commit, sends: list[Outgoing]) -> None:
        """`session.commit()` of all it has with these sends, up to where that waits."""
        strategy = self.session._strategy
        assert isinstance(strategy, TransactedAcknowledge), strategy
        items = list(self.items)
        self._have_no_more(items)
        commit.hands = [item.noted for item in items]
        for record in sends:
            self.session._core.outbox.add(record, OUTBOX_BYTES)
        is_lost = any(item.is_lost for item in items)
        if is_lost:
            commit.outcome = "rolled back"
        else:
            self.commit_under_way = commit
            self._recorder.committing(commit)
        ends: list[Exception | None] = []
        pending: PendingCommit | None = None

        def notified(error: Exception | None) -> None:
            if pending is None:
                ends.append(error)  # before it is known to be under way
            else:
                self._committed(commit, pending, items, error)

        try:
            pending = strategy.begin_commit(notified)
        except TransactionRolledBackError as error:
            self.commit_under_way = None
            if not is_lost:
                self._recorder.commit_ended(commit, error)
            self._returned(items, None)
            return
        assert not is_lost, f"lost_is_rolled_back: {self.name} commits what was taken from it"
        assert pending is not None, commit.name
        if ends:
            self._committed(commit, pending, items, ends[0])

    def close(self) -> None:
        """End the session (UNIT-7)."""
        self.note_silent()
        items = list(self.items)
        if self.lazy is not None:
            self.settled(items)
        elif self.mode is Mode.AUTO:
            self._acknowledging(items)
        else:
            self._have_no_more(items)
            self._returned(items, 0)
        self._is_closing = True
        self.session.close()
        self._is_closing = False
        self._look_for_waits(items)

    def look(self) -> None:
        """Blocking acknowledgements return when what they wait for is done."""
        self.note_silent()
        still: list[tuple[list[Completion], list[HandOver]]] = []
        for waits, noted in self._unconfirmed:
            if not all(wait.is_done for wait in waits):
                still.append((waits, noted))
            elif not any(_failure_of(wait) for wait in waits):
                self._recorder.told_durable(noted)
        self._unconfirmed = still

    # -- the account -------------------------------------------------------------------------------------------------

    def note_silent(self) -> None:
        """Take down what is acknowledged without a call of the application's."""
        if not self.node.is_alive:
            return
        if self.lazy is not None and not self.is_closed:
            self.lazy.look()
        elif self.mode is Mode.PRE and (self._is_closing or not self.is_closed):
            self._note_arrivals()

    def settled(self, items: list[Item]) -> None:
        """Acknowledged together with others, or, of what was taken from it, in vain."""
        self._have_no_more(items)
        self._recorder.acknowledged([item.noted for item in items if not item.is_lost])
        self._recorder.refused([item.noted for item in items if item.is_lost])

    def given_back(self, items: list[Item]) -> None:
        """As attempts, without a delay of their own."""
        self._have_no_more(items)
        self._returned(items, None)

    def may_be_acknowledged(self, item: Item) -> None:
        """The application is done with it, and knows no more."""
        self._recorder.finished(item.noted)

    def note_waits(self, items: list[Item]) -> None:
        """A blocking acknowledgement of these was said."""
        self._look_for_waits(items)

    def _note_arrivals(self) -> None:
        here: set[Delivery] = set()
        for link in (inbox.link for inbox in self.inboxes):
            here.update(link.buffer.ready, link.buffer.kept)
            if link.terms.records_first:
                here.update(delivery for batch in link.buffer.coming for delivery in batch)
        for delivery in self._arrived - here:
            # What expires there is passed over; what waits for its record goes with its partition.
            may_go = delivery.reference.expiration_ms or delivery.lease.is_revoked or self._is_closing
            assert may_go, f"kept_when_acknowledged: {self.name} has offset {delivery.offset} no more"
        for delivery in sorted(here - self._arrived, key=lambda delivery: delivery.place):
            self._recorder.arrived(self, delivery)
        self._arrived = here

    def _committed(self, commit: Commit, pending: PendingCommit, items: list[Item], error: Exception | None) -> None:
        self.commit_under_way = None
        self._recorder.commit_ended(commit, error)
        if error is None:
            return
        if isinstance(error, TransactionRolledBackError):
            self._returned(items, None)
        strategy = self.session._strategy
        assert isinstance(strategy, TransactedAcknowledge), strategy
        try:
            strategy.commit_failed(pending, error)
        except TransactionRolledBackError:
            return
        except JMSError:  # in doubt
            if self.may_wait:  # its end may wait, and not in the midst of a step
                self.wants_close = True
            else:
                self.close()

    def _told(self, error: Exception) -> None:
        values = error.values if isinstance(error, JMSError) else {}
        offsets = values.get("offsets")
        for offset in offsets if isinstance(offsets, tuple) else ():
            self.told.add((values["topic"], values["partition"], offset))

    def _acknowledging(self, items: list[Item]) -> None:
        """It is about to say that it is done with these; of what was taken from it in vain."""
        self._have_no_more(items)
        for item in items:
            at_hand_over.told_when_taken(item.delivery.lease, item.delivery.offset, self.told)
        self._recorder.acknowledged([item.noted for item in items if not item.is_lost])
        self._recorder.refused([item.noted for item in items if item.is_lost])

    def _compare(self, refused: _Refused, items: list[Item]) -> None:
        """It said so: a call is refused if and only if something of it was taken."""
        lost = [item for item in items if item.is_lost]
        assert bool(lost) == refused.is_raised, f"refused_when_lost: {self.name} is told {refused.error} of {lost}"
        self._look_for_waits(items)

    def _look_for_waits(self, items: list[Item]) -> None:
        waits, self._connection.awaited = self._connection.awaited, []
        if waits:
            self._unconfirmed.append((waits, [item.noted for item in items if not item.is_lost]))

    def _returned(self, items: list[Item], delay_ms: int | None) -> None:
        self._recorder.refused([item.noted for item in items if item.is_lost])
        self._recorder.returned([i.noted for i in items if not i.is_lost], counted=True, delay_ms=delay_ms)

    def _have_no_more(self, items: list[Item]) -> None:
        self.items = [item for item in self.items if item not in items]


class Lazy:
    """What a receiver in DUPS_OK knows: what it is done with, and that this is acknowledged by number or time."""

    def __init__(self, receiver: Receiver, messages: int, milliseconds: int) -> None:
        self._receiver = receiver
        self.in_hand: Item | None = None
        self._messages = messages
        self._is_auto = (messages, milliseconds) == (1, 0)
        receiver.session.set_dups_ok(messages, milliseconds)

    def hurry(self) -> None:
        """Acknowledge each from now on: no clock would, where that was switched off."""
        self._receiver.session.set_dups_ok(1, 20)
        self._messages, self._is_auto = 1, False

    def finish(self) -> None:
        """It asks for the next, or its listener returned."""
        self.look()
        if self.in_hand is not None:
            self._receiver.may_be_acknowledged(self.in_hand)
            self.in_hand = None
        before = list(self._receiver.items)
        self._receiver.session._strategy.before_receive()
        self.look()
        self._receiver.note_waits([item for item in before if item not in self._receiver.items])
        done = len(self._receiver.items)
        assert done < (self._messages or done + 1), f"lazy_in_number: {self._receiver.name} keeps {done} unacknowledged"

    def give_back(self) -> None:
        """`session.recover()` or a listener that raised, in turns as it has more or fewer of them."""
        self.look()
        receiver, in_hand = self._receiver, self.in_hand
        items, self.in_hand = list(receiver.items), None
        if len(items) % 2 and not self._is_auto:
            receiver.given_back(items)
            receiver.session.recover()
            return
        back = [item for item in items if item is in_hand]
        receiver.settled([item for item in items if item is not in_hand])
        receiver.given_back(back)
        receiver.session._strategy.abandon()

    def look(self) -> None:
        """What its session has not any more was acknowledged: always all that was done."""
        receiver = self._receiver
        kept = sum(receiver.session._strategy.count(inbox.link) for inbox in receiver.inboxes)
        gone = receiver.items[: len(receiver.items) - kept]
        if gone:
            assert self.in_hand not in gone, f"lazy_not_in_hand: {receiver.name} works on {gone[-1].noted.message}"
            receiver.settled(gone)


class _Refused:
    """Whether a call was refused, which an application would see as an exception."""

    def __init__(self) -> None:
        self.error: IllegalStateError | None = None

    @property
    def is_raised(self) -> bool:
        return self.error is not None

    def __enter__(self) -> _Refused:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if isinstance(error, IllegalStateError):
            self.error = error
            return True
        return False


def _failure_of(completion: Completion) -> Exception | None:
    """What one that is done failed with."""
    try:
        completion.wait(0, about="an acknowledgement")
    except JMSError as error:
        return error
    return None
