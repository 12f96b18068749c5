"""An application at the end of a torn wire: one session, whose calls none waits for the server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from jbm_kafka import AcknowledgeMode, Queue
from jbm_kafka.core.jms_errors import JMSError, TransactionRolledBackError
from jbm_kafka.jms.consumer import MessageConsumer
from jbm_kafka.jms.messages.message import Message
from jbm_kafka.jms.session import Session
from jbm_kafka.jms.settling.transacted_acknowledge import PendingCommit, TransactedAcknowledge
from jbm_kafka.ports.completion import Completion
from jbm_kafka.ports.deliveries import PartitionLease
from tests.simulation.provider import SimulatedConnection
from tests.wires.wire_ends import ClientEnd
from tests.wires.wire_paper import Hand, WirePaper

Mode = AcknowledgeMode


@dataclass(eq=False)
class Item:
    """What an application has."""

    message: Message
    hand: Hand
    consumer: MessageConsumer
    lease: PartitionLease
    """What it had of the server at the time: after a cut another."""


class WireApplication:
    """Its calls say on the paper what they promise."""

    def __init__(
        self,
        name: str,
        client: ClientEnd,
        mode: Mode,
        queue: str,
        paper: WirePaper,
        *,
        prefetch: int,
        consumers: int,
        blocks: bool,
        is_cut_off: Callable[[], bool],
        note: Callable[[str], None],
    ) -> None:
        """`is_cut_off`: its wire is cut, and its client has not noticed."""
        self.name, self.client, self.mode = name, client, mode
        self.prefetch = prefetch
        self.items: list[Item] = []
        self.is_closed = False
        self.is_committing = False
        self.has_units = mode is not Mode.INDIVIDUAL and not (client.is_foreign and mode is not Mode.TRANSACTED)
        self._paper, self._is_cut_off, self._note = paper, is_cut_off, note
        self._unconfirmed: list[tuple[list[Completion], list[Hand]]] = []
        self._connection = SimulatedConnection(
            name,
            client.provider,
            prefetch=prefetch,
            blocks=blocks,
            heard=lambda error: note(f"{name} hears: {error}"),
        )
        self.session = Session(self._connection, mode)
        self.consumers: list[MessageConsumer] = []
        self._queue, self._count = queue, consumers

    def begin(self) -> None:
        """Be served. Raises JMSError."""
        self._connection.is_started = False
        self.consumers = [self.session.create_consumer(Queue(self._queue)) for _ in range(self._count)]
        self._connection.is_started = True
        for each in self.consumers:
            each._inbox.connect()

    @property
    def can_act(self) -> bool:
        """It is not in the middle of a commit."""
        return not self.is_closed and not self.is_committing

    @property
    def spread(self) -> tuple[int, int]:
        """By how many consumers it has how much."""
        return len({id(each.consumer) for each in self.items}), len(self.items)

    # -- receiving -----------------------------------------------------------------------------------------------------

    def receive(self, consumer: MessageConsumer) -> bool:
        """True: it has one more."""
        inbox = consumer._inbox
        self.look()
        if self.mode is Mode.AUTO and self.items:
            self._accepted(self.items)
            self.session._strategy.before_receive()
            self.items = []
        if len(self.items) >= self.prefetch:
            return False
        try:
            delivery = inbox.poll_for_listener()
        except JMSError as error:
            self._note(f"{self.name} cannot receive: {error}")
            return False
        if delivery is None:
            return False
        message = inbox.present(delivery)
        number = int(message.body)
        self._note(
            f"{self.name} got {number}, count {message.delivery_count}{', cut off' if self._is_cut_off() else ''}"
        )
        hand = self._paper.got(
            number,
            self.name,
            self.client.name,
            redelivered=message.redelivered,
            count=message.delivery_count,
            has_units=self.has_units,
            is_cut_off=self._is_cut_off() or delivery.lease.is_revoked,
        )
        self.items.append(Item(message, hand, consumer, delivery.lease))
        return True

    # -- settling ------------------------------------------------------------------------------------------------------

    def settle(self, chance: Random, *, is_kind: bool) -> None:
        """Say something of what it has."""
        if not self.items or self.mode is Mode.AUTO:
            return
        dice = 0.0 if is_kind else chance.random()
        if self.mode is Mode.TRANSACTED:
            if dice < 0.6:
                self._commit()
            else:
                self._roll_back()
        elif self.mode is Mode.INDIVIDUAL:
            for item in [each for each in self.items if is_kind or chance.random() < 0.8]:
                if dice < 0.6:
                    self._acknowledge(item, [item])
                else:
                    self._nack(item, [])
        elif dice < 0.3:
            self._acknowledge(None, list(self.items))
        elif dice < 0.6:
            at = chance.randrange(len(self.items))
            self._acknowledge(self.items[at], self.items[: at + 1])
        elif dice < 0.8:
            self._recover()
        else:
            at = chance.randrange(len(self.items))
            item, later = self.items[at], self.items[at + 1 :]
            self._nack(item, [each for each in later if self._is_of_same_unit(item, each)])

    def _is_of_same_unit(self, item: Item, other: Item) -> bool:
        unit = self._paper.sent[item.hand.number].unit
        is_same = unit is not None and unit == self._paper.sent[other.hand.number].unit
        return is_same and item.lease is other.lease

    def _acknowledge(self, item: Item | None, items: list[Item]) -> None:
        self._note(f"{self.name} acknowledges {_numbers(items)}")
        self._take(items)
        hands = [each.hand for each in items]
        self._accepted(items)
        before = len(self._connection.awaited)
        try:
            if item is None:
                self.session.acknowledge()
            else:
                item.message.acknowledge()
        except JMSError as error:
            self._note(f"{self.name} is refused: {error}")
            self._paper.refused(hands)
        waits = self._connection.awaited[before:]
        if waits:
            self._unconfirmed.append((waits, hands))

    def _accepted(self, items: list[Item]) -> None:
        self._paper.accepted(each.hand for each in items)

    def _take(self, items: list[Item]) -> None:
        self.items = [each for each in self.items if each not in items]

    def _nack(self, item: Item, with_it: list[Item]) -> None:
        self._note(f"{self.name} nacks {item.hand.number} with {_numbers(with_it)}")
        self._take([item, *with_it])
        self._paper.given_back([item.hand], counted=True)
        self._paper.given_back([each.hand for each in with_it], counted=False)
        item.message.nack(0)

    def _recover(self) -> None:
        self._note(f"{self.name} recovers {_numbers(self.items)}")
        self._all_failed()
        self.session.recover()

    def _roll_back(self) -> None:
        self._note(f"{self.name} rolls back {_numbers(self.items)}")
        self._all_failed()
        self.session.rollback()

    def _all_failed(self) -> None:
        items, self.items = self.items, []
        self._paper.given_back([each.hand for each in items], counted=True)

    def _commit(self) -> None:
        items = list(self.items)
        self._note(f"{self.name} commits {_numbers(items)}")
        strategy = self.session._strategy
        assert isinstance(strategy, TransactedAcknowledge), strategy
        hands = [each.hand for each in items]
        ends: list[Exception | None] = []
        pending: PendingCommit | None = None

        def ended(error: Exception | None) -> None:
            if pending is None:
                ends.append(error)
            else:
                self._committed(strategy, pending, hands, error)

        self.items, self.is_committing = [], True
        try:
            pending = strategy.begin_commit(ended)
        except TransactionRolledBackError as error:
            self._note(f"{self.name} is rolled back: {error}")
            self.is_committing = False
            self._paper.given_back(hands, counted=True)
            return
        assert pending is not None, "it has something"
        self._paper.accepted(hands)
        if ends:
            self._committed(strategy, pending, hands, ends[0])

    def _committed(
        self, strategy: TransactedAcknowledge, pending: PendingCommit, hands: list[Hand], error: Exception | None
    ) -> None:
        self.is_committing = False
        self._note(f"{self.name} has committed{f', or not: {error}' if error else ''}")
        if error is None:
            self._paper.confirmed(hands)
            return
        self._paper.refused(hands, may_count=True)
        try:
            strategy.commit_failed(pending, error)
        except JMSError:
            self.wants_close = True

    wants_close = False
    """A commit failed."""

    def look(self) -> None:
        """Blocking acknowledgements return when what they wait for is done."""
        still: list[tuple[list[Completion], list[Hand]]] = []
        for waits, hands in self._unconfirmed:
            if not all(each.is_done for each in waits):
                still.append((waits, hands))
            elif any(each._error for each in waits):
                self._paper.refused(hands)
            elif not self.client.is_foreign:  # to a server that confirms nothing it waits for nothing: docs/amqp.md
                self._paper.confirmed(hands)
        self._unconfirmed = still

    def close(self) -> None:
        """End the session: what it has goes back (UNIT-7)."""
        self._note(f"{self.name} closes with {_numbers(self.items)}")
        self.look()
        if self.mode is Mode.AUTO:
            self._accepted(self.items)
        else:
            self._all_failed()
        self.items = []
        self.is_closed = True
        self.session.close()

    def close_consumer(self, at: int) -> None:
        """End one of its consumers; what it received stays in hand."""
        self._note(f"{self.name} closes a consumer")
        self.consumers.pop(at).close()


def _numbers(items: list[Item]) -> list[int]:
    return [each.hand.number for each in items]
