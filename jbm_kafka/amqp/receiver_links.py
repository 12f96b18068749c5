"""A client's receiver: messages go to it as far as its credit goes, and its outcomes settle them."""

from __future__ import annotations

import logging
from asyncio import Future, get_running_loop, sleep, wait
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from proton import Delivery as Sent
from proton import Link as ProtonLink
from proton import Sender

from jbm_kafka.amqp.access import ANONYMOUS
from jbm_kafka.amqp.client_outcome import TRANSACTIONAL, ClientOutcome, client_outcome, outcome_in_transaction
from jbm_kafka.amqp.feeds import Feeds, Forwarded
from jbm_kafka.amqp.part_protocols import Client
from jbm_kafka.amqp.session_units import Row, SessionUnits
from jbm_kafka.amqp_wire.engine_objects import EngineDelivery, transfer
from jbm_kafka.amqp_wire.loop_mailbox import LinkBed, answer
from jbm_kafka.client.bodies.fetched_record import has_large_body, with_body
from jbm_kafka.client.source_use import begin_use
from jbm_kafka.codec.amqp.encode_transfer import encode_transfer
from jbm_kafka.codec.bodies import MAP, OBJECT, STREAM
from jbm_kafka.core.channel.first_outcome import NOTHING_SAID, rows_behind
from jbm_kafka.core.channel.redelivery import is_expired
from jbm_kafka.core.channel.settlement import Modified
from jbm_kafka.core.destination import Destination
from jbm_kafka.core.failure_text import failure_text
from jbm_kafka.core.jms_errors import ConnectionFailedError, JMSError, LargeBodyError, MessageTooLargeError
from jbm_kafka.core.receiving.going_back import behind
from jbm_kafka.core.selectors.selector import Selector
from jbm_kafka.core.subscription import Source, Subscription, destination_of
from jbm_kafka.ports import KafkaRecord
from jbm_kafka.ports.completion import Completion
from jbm_kafka.ports.deliveries import Delivery
from jbm_kafka.ports.link import Link, LinkTerms
from jbm_kafka.ports.link_owner import LinkOwner
from jbm_kafka.ports.wake_up import Sleepers

log = logging.getLogger(__name__)

LOOK_S = 0.01
CATCH_UP_S = 2.0
"""How long another receiver of the session is waited for."""
LOOK_AGAIN_S = 0.1
NO_LIMIT: Final = 2**64
AGAIN_MIN_S, AGAIN_MAX_S = 0.5, 30.0
"""Between tries to join again in an outage: the first pause, which doubles, and the longest."""
DRAIN_S = 8.0
"""How long a drain looks for what was there when it was asked, also in partitions that are on their way then."""
MANY_VALUES: Final = frozenset((MAP, STREAM, OBJECT))
AT_ONCE_BYTES: Final = 2**14
"""A body of these kinds is encoded on the loop up to this size, which takes some ms; 100,000 entries take a second."""
BEING_ENCODED: Final = "being encoded"
"""Stands for the tag of a message that is about to be sent."""


def refuse_large(peer: Client, sender: Sender, destination: Destination, size: int) -> None:
    """End a client's link for a message of `size` bytes, which is larger than it said that it takes."""
    most = sender.remote_max_message_size
    text = f"{destination}: a message of {size} bytes is there, and the link takes {most} at most (max-message-size)"
    peer.server.faults.note(peer.whose, "takes no message as large as one that is there", text)
    peer.refuse(sender, MessageTooLargeError(text))


class Receiver:
    """Serves one receiver of a client; on the event loop, but for `begin` and `leave`."""

    is_forwarded = False
    """It is another sidecar's."""

    def __init__(
        self,
        peer: Client,
        sender: Sender,
        source: Source,
        selector: Selector | None,
        number: int,
        units: SessionUnits,
        *,
        is_transacted: bool = False,
    ) -> None:
        self._peer = peer
        self._sender = sender
        self._session = sender.session
        self._is_settled = sender.snd_settle_mode == ProtonLink.SND_SETTLED
        """Nobody is to say what becomes of its messages."""
        self._source = source
        self._selector = "" if selector is None else selector.normal
        self.destination = destination_of(source)
        self.name = source.name
        """The name of its subscription, or of its queue."""
        self._provider = peer.provider
        lock = units.lock
        filled = Sleepers(lock)
        name = f"{peer.connection_id}/{number}"
        terms = LinkTerms(
            link_id=name,
            session_id=units.session_id or name,
            prefetch=1000,
            client_id=peer.client_id,
            mode="AMQP",
            selector=None if isinstance(source, Subscription) else selector,
            one_per_unit=units.one_per_unit,
            is_forwarded=self.is_forwarded,
            records_attempts=peer.provider.traits.records_attempts,
        )
        self.link = Link(terms, filled=filled, lock=lock, hand=units.hand)
        filled.lie_down_unless(lambda: False, LinkBed(peer.mailbox, self.pump))
        self._transferred = 0
        self._most_bytes = sender.remote_max_message_size or NO_LIMIT
        """The size of one message that its client takes."""
        self._is_refused = False
        """A message was larger, and the link ends."""
        self.unsettled: dict[str, Delivery | Forwarded] = {}
        self.units = self._units = units
        units.members.append(self)
        is_of_one = self.destination.is_temporary or (isinstance(source, Subscription) and not source.is_shared)
        is_private = isinstance(source, Subscription) and not (source.is_shared or source.is_durable)
        self.is_recorded = not (self.destination.is_temporary or is_private)
        is_used = not (self.is_forwarded or is_of_one)
        self.feeds = Feeds(peer, self, sender, is_used=is_used, is_transacted=is_transacted)
        self._encoding: Future[bytes] | None = None
        """The message that comes next on the link; nothing is sent before it."""
        self._is_recalling = False
        self.in_transactions = 0
        """Messages that open transactions have acknowledged."""
        self.is_closed = False
        self._is_draining = False
        self._is_attaching = False
        self._on_empty: Callable[[], None] = lambda: None

    # -- in the lane of the connection ---------------------------------------------------------------------------------

    def begin(self) -> None:
        """Use the source and be served. Raises JMSError when that cannot be."""
        source, user = self._source, self._peer.user
        owned = source if isinstance(source, Subscription) and source.is_durable else None
        if owned is not None:  # before it is used: to use another's with another selector would make it anew
            self._provider.check_owner(owned.client_id, owned.name, user)
        # What others select is forwarded to them, so it is as if this one selected everything.
        begin_use(self._provider, source, self.link, "" if self.feeds.is_used else self._selector)
        try:
            if owned is not None and user != ANONYMOUS:
                self._provider.own(owned.client_id, owned.name, user)
            self._attach()
        except BaseException:
            self.link.leave()
            raise
        self._introduce()

    def _introduce(self) -> None:
        """Only one of a session's receivers of the source has unread messages at a time (see Link.siblings)."""
        links = [each.link for each in self._units.members if each.link.is_attached and not each.link.is_closed]
        with self._units.lock:
            for link in links:
                link.become_siblings([other for other in links if other is not link])

    def _attach(self) -> None:
        self.link.attach(self._provider.attach(self._source, self.link))
        self.link.notices.opened()

    async def ready(self) -> None:
        """Return when its first messages may come: partitions are assigned, and recovered.

        Raises:
            JMSError: why they are not.
        """
        deadline = get_running_loop().time() + self._provider.traits.join_timeout_s
        while not self.link.group_worker.is_settled and not self._peer.is_over:
            failure = self.link.notices.take_failure() or self.link.notices.hindrance
            if failure is not None:
                raise failure
            if not self.link.group_worker.is_running:  # it was about to end when this one came
                await self._peer.call(self._attach)
            if get_running_loop().time() > deadline:
                raise JMSError(f"{self.destination}: no partitions were assigned; is the group's coordinator up?")
            await sleep(LOOK_S)

    def feed(self) -> None:
        """The client is to get messages of other sidecars, too; on the loop."""
        self.feeds.begin()

    def leave(self) -> None:
        """Leave for good."""
        self.link.leave()
        self._introduce()

    # -- on the loop ---------------------------------------------------------------------------------------------------

    def pump(self) -> None:
        """Send what is there, and ask for what may come."""
        link, sender = self.link, self._sender
        if self.is_closed or self._is_refused or not link.is_attached:
            return
        failure = link.notices.take_failure() or link.notices.hindrance
        if failure is not None:
            self._peer.refuse(sender, failure)
            return
        while link.notices.pending:
            log.warning("%s: %s", self.destination, link.notices.pending.popleft())
        if not link.group_worker.is_running:
            if self._wanted():  # else it left for others' sake, and would leave again: a rebalance every 11 s
                self._attach_again()
            return
        before = self._transferred
        most = before + self._wanted()
        while self._encoding is None and self._transferred < most and self._has_room() and not self._is_refused:
            forwarded = self.feeds.take()
            if forwarded is not None:
                self._send_forwarded(forwarded)
                continue
            with link.lock:
                delivery = link.pop()
            if delivery is None:
                break
            self._send(delivery)
        self._ask()
        if sender.drain_mode and sender.credit > 0 and not self._is_draining:
            self._is_draining = True
            self._peer.spawn(self._drain(), sender)
        if self._transferred > before:
            self._peer.touch()

    def _wanted(self) -> int:
        """How many more the client takes now."""
        if not self._has_room():
            return 0
        most: int = self._peer.settings.limits.unsettled_messages - len(self.unsettled)
        return max(0, min(int(self._sender.credit), most))

    def _has_room(self) -> bool:
        """The client reads what was sent to it."""
        limits = self._peer.settings.limits
        return self._peer.takes_more and bool(self._session.outgoing_bytes < limits.unread_bytes)

    def _ask(self) -> None:
        link, wanted = self.link, self._wanted()
        with link.lock:
            link.wait_on(waits=wanted > 0)
            missing = wanted - len(link.buffer)
            is_asked = link.buffer.awaits_record or link.demand.is_asking_alone
            if missing > 0 and not is_asked and link.demand.credit * 2 <= missing:
                link.request(missing)
            elif wanted == 0:
                link.request(0)
        others = [each for each in self._units.members if each is not self and each.feeds.has_unread]
        if not (wanted and others):
            self.feeds.ask(wanted)
        elif not self._is_recalling:
            self._is_recalling = True
            self._peer.spawn(self._recall(others), self._sender)

    async def _recall(self, others: Sequence[Receiver]) -> None:
        """Only one of a session's receivers has unread messages, of other sidecars, too."""
        try:
            for each in others:
                await each.feeds.take_back(CATCH_UP_S)
                each.feeds.drained()
        finally:
            self._is_recalling = False
        self.pump()

    def _send(self, delivery: Delivery) -> None:
        reference, count = delivery.reference, delivery.count
        now_ms = self._provider.clock.now_ms()
        if is_expired(reference.expiration_ms, now_ms):
            self._give_back_one(delivery, Modified(delivery.offset, counted=False))
            return
        record: Any = reference.record
        encode = partial(
            encode_transfer,
            record,
            reference.body_kind,
            self.destination,
            delivery_count=count.delivery_count - 1,
            now_ms=now_ms,
        )
        if has_large_body(record):
            self._send_when_fetched(delivery, record)
        elif reference.body_kind in MANY_VALUES and len(record.value() or b"") > AT_ONCE_BYTES:
            self._send_when_encoded(delivery, encode)
        else:
            self._send_encoded(delivery, encode())

    def _send_when_encoded(self, delivery: Delivery, encode: Callable[[], bytes]) -> None:
        """Other clients are served meanwhile. What the client has to be told of it is as if it had it."""
        server = self._peer.server
        self._begin_encoding(delivery, server.beside.do(self._peer.whose, encode))

    def _send_when_fetched(self, delivery: Delivery, record: KafkaRecord) -> None:
        """As above, once its large body is here; what waits for the store is one of the connection's own threads."""
        bodies, kind, earlier = self._peer.settings.large_bodies, delivery.reference.body_kind, delivery.count
        now_ms = self._provider.clock.now_ms()

        def fetch_and_encode() -> bytes:
            whole = with_body(record, bodies)
            before = earlier.delivery_count - 1
            return encode_transfer(whole, kind, self.destination, delivery_count=before, now_ms=now_ms)

        self._begin_encoding(delivery, get_running_loop().create_task(self._peer.call(fetch_and_encode)))

    def _begin_encoding(self, delivery: Delivery, encoding: Future[bytes]) -> None:
        self.unsettled[BEING_ENCODED] = delivery
        self._encoding = encoding
        self._peer.spawn(self._encoded(encoding), self._sender)

    async def _encoded(self, encoding: Future[bytes]) -> None:
        try:
            data = await encoding
        except LargeBodyError as error:
            self._give_back_unfetched(error)
            return
        finally:
            self._encoding = None
        delivery = self.unsettled.pop(BEING_ENCODED, None)  # none: it went back meanwhile
        if isinstance(delivery, Delivery):
            if self._sender.credit > 0 and not delivery.lease.is_revoked:
                self._send_encoded(delivery, data)
            else:
                self._give_back_one(delivery, Modified(delivery.offset, counted=False))
        self.pump()

    def _give_back_unfetched(self, error: LargeBodyError) -> None:
        """A failed attempt, with its reason: the message comes again, and is a dead letter in the end (BODY-3)."""
        self._encoding = None
        log.warning("%s: a message was not handed over, which counts as an attempt: %s", self.destination, error)
        delivery = self.unsettled.pop(BEING_ENCODED, None)  # none: it went back meanwhile
        if isinstance(delivery, Delivery):
            row = Modified(delivery.offset, counted=True, last_error=failure_text(error))
            self._give_back_one(delivery, row)
        self.pump()

    def _send_encoded(self, delivery: Delivery, data: bytes) -> None:
        if len(data) > self._most_bytes:
            self._give_back_one(delivery, Modified(delivery.offset, counted=False))
            self._refuse_for(len(data))
            return
        if delivery.lease.records_deliveries:  # what is not sent was given to nobody (LOG-10)
            now = self._provider.clock.monotonic_ms()
            delivery.lease.given.append((delivery.offset, delivery.count.attempts + 1, now))
        tag = self._transfer(data, self.mark_of(delivery))
        if self._is_settled:
            delivery.lease.acknowledge(delivery.offset)
            self._units.hand.let_go(delivery.unit_place)
        else:
            self.unsettled[tag] = delivery

    def _refuse_for(self, size: int) -> None:
        """End the link for a message that its client does not take: it is for others, as if nobody had got it here."""
        self._is_refused = True
        refuse_large(self._peer, self._sender, self.destination, size)

    def _send_forwarded(self, forwarded: Forwarded) -> None:
        if len(forwarded.data) > self._most_bytes:
            forwarded.release()
            self._refuse_for(len(forwarded.data))
            return
        tag = self._transfer(forwarded.data, "")
        if self._is_settled:
            forwarded.accept()
        else:
            self.unsettled[tag] = forwarded

    def mark_of(self, delivery: Delivery) -> str:
        """Return what its tag says beside its number."""
        return ""

    def _transfer(self, data: bytes, mark: str) -> str:
        self._transferred += 1
        tag = f"{self._transferred}{mark}"
        transfer(self._sender, tag, data, is_settled=self._is_settled)
        self._peer.outgoing_bytes += len(data)
        return tag

    def outcome(self, sent: EngineDelivery) -> None:
        """The client says what became of a message."""
        state = sent.remote_state
        if state in (0, Sent.RECEIVED) and not sent.settled:
            return
        delivery = self.unsettled.pop(sent.tag, None)
        if isinstance(delivery, Forwarded):
            delivery.told(sent, self._peer)
            self._peer.pump_soon(self, self._sender)
            return
        if delivery is not None and self._units.hand.is_void(delivery.unit_place):
            self._settle_void(sent, delivery)
        elif delivery is not None and state == TRANSACTIONAL:
            self._take_part(sent.remote.data or [], delivery)
        elif delivery is not None:
            outcome = client_outcome(sent)
            if outcome.is_accepted and not sent.settled:
                self._confirm_when_durable(sent, delivery)
                return
            if not outcome.is_accepted and not self._units.keeps_later:
                self._return_together(sent, delivery, outcome)
                return
            self._settle(delivery, outcome)
            if not sent.settled:
                sent.update(state)
        sent.settle()
        self._peer.pump_soon(self, self._sender)

    def _settle_void(self, sent: EngineDelivery, delivery: Delivery) -> None:
        """One before it in its unit was rolled back: whatever the client says, it comes again, behind that."""
        is_accepted = sent.remote_state in (TRANSACTIONAL, Sent.ACCEPTED)
        transaction = self._peer.transaction(sent.remote.data) if sent.remote_state == TRANSACTIONAL else None
        if transaction is not None:
            transaction.failure = transaction.failure or JMSError(
                "a message of it is to come again behind one of its unit that was rolled back before"
            )
        row = Modified(delivery.offset, counted=False, was_seen=is_accepted)
        self._give_back_one(delivery, row)

    def _take_part(self, data: Sequence[object], delivery: Delivery) -> None:
        transaction = self._peer.transaction(data)
        if transaction is None:
            row = Modified(delivery.offset, counted=False, was_seen=True)
            self._give_back_one(delivery, row)
        else:
            if self.link.terms.one_per_unit:  # nothing said before that its session has transactions
                self.link.terms = replace(self.link.terms, one_per_unit=False)
                self.link.group_worker.wake()
            self._units.hand.let_go(delivery.unit_place)
            self.in_transactions += 1
            transaction.received.append((self, delivery, outcome_in_transaction(data)))

    def _settle(self, delivery: Delivery, outcome: ClientOutcome) -> None:
        if outcome.is_accepted:
            self._units.hand.let_go(delivery.unit_place)
            if delivery.lease.acknowledge(delivery.offset):
                log.info("%s: acknowledged too late, for its partition moved; it comes again", self.destination)
            return
        counts_released, now_ms = self._peer.settings.counts_released, self._provider.clock.now_ms()
        row = outcome.returned(delivery, counts_released=counts_released, now_ms=now_ms)
        self._give_back_one(delivery, row)

    def _return_together(self, sent: EngineDelivery, delivery: Delivery, outcome: ClientOutcome) -> None:
        """Return a unit whose later messages go back with this one: what the client says of those comes right
        behind."""
        counts_released, now_ms = self._peer.settings.counts_released, self._provider.clock.now_ms()
        row = outcome.returned(delivery, counts_released=counts_released, now_ms=now_ms)
        returning = self._units.returning
        if not returning:
            self._peer.mailbox.post(self._returned_together)
        returning.append((self, sent, delivery, row))
        if outcome.behind != NOTHING_SAID:  # else what the client says of those may come in the same read
            later = self._take_behind([delivery])
            rows = rows_behind(row, outcome.behind, [each.offset for each in later])
            returning += [(self, None, *each) for each in zip(later, rows, strict=True)]

    def _returned_together(self) -> None:
        told = self._units.returning[:]
        self._units.returning.clear()
        self._give_back([(delivery, row) for _, _, delivery, row in told])
        if self._peer.is_over:
            return
        for receiver, sent, _, _ in told:
            if receiver.is_closed or sent is None:
                continue
            if not sent.settled:
                sent.update(sent.remote_state)
            sent.settle()
        self._peer.flush()
        self.pump()

    def _confirm_when_durable(self, sent: EngineDelivery, delivery: Delivery) -> None:
        """The client waits to hear that its message will not come again."""
        held = [sent]  # while anybody has it still when it is settled, Proton withholds the answer to a drain

        def tell(error: Exception | None) -> None:
            self._peer.mailbox.post(partial(self._confirm, held, error))

        self._units.hand.let_go(delivery.unit_place)
        if delivery.lease.is_revoked:
            self._confirm(held, JMSError("its partition moved to another process"))
            return
        place = (delivery.lease, delivery.offset)
        with self.link.lock:
            self.link.settle([place], Completion(tell))
        self.link.group_worker.wake()
        self.pump()

    def _confirm(self, held: list[EngineDelivery], error: Exception | None) -> None:
        sent = held.pop()
        if self.is_closed or self._peer.is_over:
            return
        if error is not None:
            log.info("%s: not acknowledged, it comes again: %s", self.destination, error)
        sent.update(Sent.ACCEPTED if error is None else Sent.RELEASED)
        sent.settle()
        self.pump()
        self._peer.touch()

    def _give_back_one(self, delivery: Delivery, row: Modified) -> None:
        """Its client has it no more; with it goes back what of its unit waited for that."""
        self._give_back(self._units.hand.give_one_back(delivery.unit_place, (delivery, row)))

    def _give_back(self, rows: list[Row], *, were_seen: bool = False) -> None:
        """Return these, and what is behind them. `were_seen`: its client is gone, and may have had that, too."""
        if not self._units.keeps_later:
            later = self._take_behind([delivery for delivery, _ in rows])
            rows = [*rows, *((each, Modified(each.offset, counted=False, was_seen=were_seen)) for each in later)]
        present = sorted((each for each in rows if not each[0].lease.is_revoked), key=lambda each: each[0].offset)
        if present:
            self.link.give_back(present)
            self.link.group_worker.wake()

    def _take_behind(self, first: Sequence[Delivery]) -> list[Delivery]:
        """Take what is behind these in their units out of what the client's session has unsettled; in order."""
        held = [
            ((receiver.unsettled, tag, each), _place(each))
            for receiver in self._units.members
            for tag, each in receiver.unsettled.items()
            if isinstance(each, Delivery)
        ]
        found = behind(map(_place, first), held)
        for unsettled, tag, _ in found:
            del unsettled[tag]
        return sorted((each for _, _, each in found), key=lambda each: _place(each)[1])

    def rolled_back(self, deliveries: Sequence[Delivery]) -> None:
        """A transaction that had these, of it or others with its units, was rolled back: they come again, counted."""
        rows = [(each, Modified(each.offset, counted=True)) for each in deliveries]
        self._give_back([back for row in rows for back in self._units.hand.roll_back(row[0].unit_place, row)])

    def committed(self, delivery: Delivery, outcome: ClientOutcome) -> None:
        """Its transaction is committed: with that it is gone, or what else was said of it holds."""
        if not outcome.is_accepted:
            now_ms = self._provider.clock.now_ms()
            row = outcome.returned(delivery, counts_released=self._peer.settings.counts_released, now_ms=now_ms)
            self._give_back(self._units.hand.roll_back(delivery.unit_place, (delivery, row)))
        self.ended()

    def in_doubt(self) -> None:
        """Nobody knows what became of a transaction that had a message of it."""
        self.ended()

    def ended(self, count: int = 1) -> None:
        """So many messages are in a transaction no more."""
        self.in_transactions -= count
        if self.is_closed and not self.in_transactions:
            self._on_empty()

    # -- draining ------------------------------------------------------------------------------------------------------

    async def _drain(self) -> None:
        """Send what was there when the client asked, and then say that no more is."""
        try:
            while True:
                before = self._transferred
                await self._look()
                # One that was sent meanwhile may have been all that was asked for, and this another question.
                if self._transferred == before or self._sender.credit == 0 or self.is_closed or self._peer.is_over:
                    break
        finally:
            self._is_draining = False
            self.feeds.drained()
        if not self.is_closed and self._sender.drain_mode:
            with self.link.lock:
                self.link.request(0)
            self._sender.drained()
            self.pump()
            self._peer.touch()

    async def _look(self) -> None:
        """At what is here and at the others; and again while partitions are on their way from one to another."""
        loop, link = get_running_loop(), self.link
        ends_at = loop.time() + DRAIN_S
        while True:
            await self.ready()
            before, opened = self._transferred, link.group_worker.opened
            await self._look_here(ends_at)
            await self.feeds.drain(max(ends_at - loop.time(), LOOK_S))
            self.pump()
            while self._encoding is not None:
                await wait([self._encoding])
                await sleep(0)  # until it is sent
            is_over = self.is_closed or self._peer.is_over or loop.time() > ends_at
            if is_over or self._transferred != before or self._sender.credit == 0:
                break
            worker = link.group_worker
            is_moving = not worker.is_settled or worker.opened != opened or worker.is_passing_on
            is_left = not (worker.is_running or self.is_forwarded)  # another one is begun, or nobody receives here
            if not (is_left or (is_moving and self._is_here(worker))):
                break
            await sleep(LOOK_S)
        if not self._units.keeps_later:  # another of the session's receivers may ask next
            await self.feeds.take_back(CATCH_UP_S)

    def _is_here(self, worker: LinkOwner) -> bool:
        """It has messages, or is about to have some."""
        return worker.is_running and (worker.has_joined or not self.is_forwarded)

    async def _look_here(self, ends_at: float) -> None:
        loop, link = get_running_loop(), self.link
        worker = link.group_worker
        while not worker.is_settled and self._is_here(worker) and loop.time() < ends_at:
            await sleep(LOOK_S)
        ends = await self._peer.call(lambda: self._provider.end_positions(self._source, 1.0))
        future = loop.create_future()
        done = Completion(lambda _: self._peer.mailbox.post(lambda: answer(future, None)))
        with link.lock:
            link.request(max(self._sender.credit, 1))
        worker.watch(link.terms.link_id, ends, done)
        while not future.done() and self._is_here(worker) and loop.time() < ends_at:
            await wait([future], timeout=LOOK_AGAIN_S)
        done.complete()  # the worker need not look any more
        self.pump()

    def _attach_again(self) -> None:
        if not self._is_attaching:
            self._is_attaching = True
            self._peer.spawn(self._attached_again(), self._sender)

    async def _attached_again(self) -> None:
        """As often as it takes, as long as its client has the link: an outage ends some time."""
        pause_s = AGAIN_MIN_S
        try:
            while not self.is_closed and not self._peer.is_over and not await self._is_attached():
                await sleep(pause_s)
                pause_s = min(2 * pause_s, AGAIN_MAX_S)
        finally:
            self._is_attaching = False
        if self.is_closed and not self.in_transactions:  # meanwhile: it left before it had joined
            await self._peer.call(self.leave)
        self.pump()

    async def _is_attached(self) -> bool:
        """Try it; False: Kafka is away. What else is wrong ends the link."""
        try:
            await self._peer.call(self._attach)
        except ConnectionFailedError as error:
            log.warning("%s: its receiver cannot join again, and tries on: %s", self.destination, error)
            return False
        return True

    # -- the end -------------------------------------------------------------------------------------------------------

    async def close(self, *, is_lost: bool, ends: bool) -> None:
        """Give back what is unsettled; it ends when no open transaction has a message of it.

        `is_lost`: the connection broke, and the client may have seen what it had. `ends`: a durable subscription too.
        """
        if self.is_closed:
            return
        self.is_closed = True
        if self._units.returning:
            self._returned_together()
        self._units.members.remove(self)
        rows = self._units.hand.end()
        sent = [each for receiver in (self, *self._units.members) for each in receiver.unsettled.values()]
        forwarded = [each for each in sent if isinstance(each, Forwarded)]
        for each in self.unsettled.values():
            if isinstance(each, Forwarded) and is_lost:
                each.lost(forwarded)
            elif isinstance(each, Forwarded):
                each.release()
            else:
                rows.append((each, Modified(each.offset, counted=False, was_seen=is_lost)))
        self.feeds.close()
        self._give_back(rows, were_seen=is_lost)
        self.unsettled.clear()
        if self.link.is_attached:
            self.link.give_back_unread(stop=True)
        if self.in_transactions:
            self._on_empty = lambda: self._peer.server.run(self._peer.call(self.leave))
            return
        await self._peer.call(self.leave)
        source = self._source
        if ends and isinstance(source, Subscription) and source.is_durable:
            try:
                user = self._peer.user
                await self._peer.call(lambda: self._provider.unsubscribe(source.client_id, source.name, user))
            except JMSError as error:
                log.info("%s stays: %s", source, error)


def _place(delivery: Delivery) -> tuple[Hashable, tuple[int, int]]:
    """Return where a message is in its unit. What came before its partition moved away and back is before the rest."""
    return delivery.unit_place, (int(not delivery.lease.is_revoked), delivery.offset)
