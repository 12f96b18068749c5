"""The provider of `amqp://`: one connection's way to its messages is one to an AMQP server."""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Never

from proton import Delivery, symbol

from jbm_kafka.amqp_client.amqp_records import record_of, transfer_of
from jbm_kafka.amqp_client.client_settings import ClientSettings
from jbm_kafka.amqp_client.io_thread import Io, IoThread
from jbm_kafka.amqp_client.record_link import CREDIT, RecordLink
from jbm_kafka.amqp_client.remote_connection import RemoteConnection
from jbm_kafka.amqp_client.remote_link import RemoteLink
from jbm_kafka.amqp_client.remote_receiver import RemoteReceiver
from jbm_kafka.amqp_client.remote_sender import AmqpSendFault, RemoteSender
from jbm_kafka.amqp_client.sends_under_way import SendsUnderWay
from jbm_kafka.amqp_client.session_receivers import SessionReceivers
from jbm_kafka.amqp_client.termini import browser_of, lookup_of, receiver_of, sender_of, temporary_of
from jbm_kafka.amqp_client.transaction_controller import TransactionController
from jbm_kafka.amqp_wire.names import ALL, DELIVERABLE, SESSION, UNITS
from jbm_kafka.codec.amqp.decode_transfer import IncomingMessage
from jbm_kafka.core.channel.branch import Branch, BranchState, PreparedBranch, Xid
from jbm_kafka.core.channel.states import MessageState
from jbm_kafka.core.destination import (
    Destination,
    Queue,
    TemporaryQueue,
    TemporaryTopic,
    Topic,
    parse_destination,
)
from jbm_kafka.core.jms_errors import (
    ConnectionFailedError,
    IllegalStateError,
    InvalidClientIDError,
    InvalidDestinationError,
    JMSError,
    JMSSecurityError,
    SendTimeoutError,
    TransactionRolledBackError,
)
from jbm_kafka.core.selectors.selector import Selector
from jbm_kafka.core.settings.address_settings import ResolvedSettings, default_addresses
from jbm_kafka.core.statistics import Health, Statistics
from jbm_kafka.core.subscription import Source, Subscription, destination_of
from jbm_kafka.ports.clock import Clock, SystemClock
from jbm_kafka.ports.kafka import KafkaClientError, KafkaRecord, Outgoing, SendReport
from jbm_kafka.ports.link import Link
from jbm_kafka.ports.patience import Patience
from jbm_kafka.ports.provider import Seen, Temporary, TopicInfo, Traits
from jbm_kafka.ports.unit_of_work import UnitOfWork, expired_before_commit

log = logging.getLogger(__name__)

RECONNECT_S = 15.0
"""How long a call looks for a server again after a connection broke."""
PAUSE_S = 0.2
FLUSH_TIMEOUT_S = 60.0
LEAVE_TIMEOUT_S = 10.0
INFOS_MAX = 2_000
SENDERS_MAX = 200
"""Links that send, kept for the next message to the same destination."""
TRANSACTION_BYTES_MAX = 64 * 2**20
MESSAGE_BYTES_MAX = 2**31 - 1
"""The largest size: the server says what it takes when it is sent more."""


class _Send:
    """One send outside of transactions, on its way until it is told its end."""

    __slots__ = ("_report", "_under_way", "data", "destination")

    def __init__(
        self, destination: Destination, data: bytes, report: SendReport | None, under_way: SendsUnderWay
    ) -> None:
        self.destination = destination
        self.data = data
        self._report = report
        self._under_way = under_way

    def told(self, error: JMSError | None, said: Any) -> None:
        """Tell its end, as `remote_sender.Told`."""
        self._under_way.end(self)
        if self._report is not None:
            self._report(None if error is None else AmqpSendFault(error, is_for_good=said == Delivery.REJECTED))


class AmqpProvider:
    """Implements `Provider`. Any thread; what begins with `_on_loop` on the event loop."""

    def __init__(
        self,
        settings: ClientSettings,
        *,
        receiver_idle_ms: int,
        begin_io: Callable[[], Io] = IoThread,
        clock: Clock | None = None,
    ) -> None:
        """Connects at once. `begin_io` begins what the protocol engine is touched by, and nobody else touches it.

        Raises:
            JMSError: as of RemoteConnection.connect.
        """
        self.clock: Clock = clock or SystemClock()
        self.traits = Traits(
            compresses=False, records_attempts=False, transaction_bytes_max=TRANSACTION_BYTES_MAX, join_timeout_s=90.0
        )
        self._settings = settings
        self._receiver_idle_ms = receiver_idle_ms
        self._infos: dict[str, tuple[Destination, TopicInfo]] = {}
        """The destination that was asked for last, and its topic, by name."""
        self._topics: dict[str, Destination] = {}
        """The destination that an `Outgoing` is for, by its topic; any other topic is the destination's text."""
        self._addresses: dict[Destination, str] = {}
        """The server's addresses for those whose names it does not know."""
        self._client_id = ""
        self._numbers = itertools.count(1)
        self._under_way = SendsUnderWay()
        self._unsent: deque[_Send] = deque()
        self._senders: dict[Destination, RemoteSender] = {}
        self._temporaries: dict[Destination, RemoteSender] = {}
        self._takers: dict[Destination, RecordLink] = {}
        self._subscribed: dict[Subscription, list[RemoteReceiver]] = {}
        """Begun, and not attached yet."""
        self._leaving: dict[Subscription, list[RemoteReceiver]] = {}
        """Attached; waited for when they have left."""
        self._links: dict[Link, None] = {}
        self._owners: dict[tuple[str, Source], SessionReceivers] = {}
        """The receivers by session."""
        self._connection: RemoteConnection | None = None
        self._controller: TransactionController | None = None
        self._has_connected = False
        self._is_closed = False
        self._lock = threading.Lock()
        self._io = begin_io()
        self._connecting = asyncio.Lock()
        try:
            self._io.call(self._connected())
        except BaseException:
            self._io.stop()
            raise

    # -- the connection ------------------------------------------------------------------------------------------------

    async def _connected(self) -> RemoteConnection:
        """Return the connection that is there, or a new one to any of the servers."""
        async with self._connecting:
            found = self._connection
            if found is not None and not found.is_over:
                return found
            if self._is_closed:
                raise IllegalStateError("the connection is closed; make a new one")
            deadline = self._io.loop.time() + (RECONNECT_S if self._has_connected else 0.0)
            while True:
                try:
                    return await self._connect_to_any()
                except ConnectionFailedError:
                    if self._io.loop.time() >= deadline or self._is_closed:
                        raise
                await asyncio.sleep(PAUSE_S)

    async def _connect_to_any(self) -> RemoteConnection:
        """Connect to the first server of the list that answers, and make it the provider's connection.

        Raises:
            JMSSecurityError: a server refuses the user; no other one is asked. So it is with a client id.
            ConnectionFailedError: none answers; the text has what each said.
        """
        errors: list[str] = []
        for address in self._settings.addresses:
            made = RemoteConnection(self._on_loop_lost)
            try:
                await made.connect(self._settings, address, self._client_id)
            except (JMSSecurityError, InvalidClientIDError):
                raise
            except JMSError as error:
                errors.append(str(error))
                continue
            self._senders.clear()
            self._subscribed.clear()
            self._connection, self._has_connected = made, True
            self._controller = TransactionController(made, self._send_in_transaction)
            return made
        raise ConnectionFailedError(f"{self._settings.url}: {'; '.join(errors)}", bootstrap=self._settings.url)

    def _on_loop_lost(self, connection: RemoteConnection, why: str) -> None:
        """Have one link of a connection that broke tell the exception listener."""
        if connection is not self._connection or self._is_closed:
            return
        error = ConnectionFailedError(
            f"the connection to {self._settings.url} broke: {why}. What was received and not acknowledged comes "
            f"again; receivers and senders connect again by themselves"
        )
        log.warning("%s", error)
        link = next((each for each in self._links if not each.is_closed), None)
        if link is not None:
            link.notices.notify(error)

    def hold_client_id(self, client_id: str, connection_id: str, lost: Callable[[InvalidClientIDError], None]) -> None:
        """Have the client id: it is the container id, so the connection is opened anew."""
        self._io.call(self._hold(client_id))

    async def _hold(self, client_id: str) -> None:
        if self._connection is not None:
            await self._connection.close()
        self._client_id = client_id
        try:
            await self._connected()
        except InvalidClientIDError:
            self._client_id = ""
            raise

    def release_client_id(self, client_id: str, connection_id: str) -> None:
        """With the connection."""

    # -- destinations --------------------------------------------------------------------------------------------------

    def settings_of(self, name: str) -> ResolvedSettings:
        """Return those that hold without any: the sidecar has its own."""
        return _SETTINGS

    def ensure(self, destination: Destination) -> TopicInfo:
        """Ask the server for the destination by a link that sends; a user who may not send may receive."""
        if destination not in self._temporaries:
            with suppress(JMSSecurityError):
                self._io.call(self._open_sender(destination))
        return self._info(destination)

    def _info(self, destination: Destination) -> TopicInfo:
        found = self._infos.get(destination.name)
        if found is not None and found[0] == destination:
            return found[1]
        with self._lock:
            topic = destination.name
            if destination.is_temporary or self._topics.setdefault(topic, destination) != destination:
                topic = str(destination)
            if len(self._infos) >= INFOS_MAX:
                self._infos.clear()
            info = TopicInfo(topic, topic, 1, MESSAGE_BYTES_MAX)
            self._infos[destination.name] = destination, info
        return info

    def ensure_to_send(self, destination: Destination) -> TopicInfo:
        """Ask as `ensure` does, but refuse a user whom the server does not let send there."""
        self._io.call(self._open_sender(destination))
        return self._info(destination)

    def use_address(self, destination: Destination, address: str) -> None:
        """Send messages for the destination to this address of the server's, which may be no name of ours."""
        self._addresses[destination] = address

    async def _open_sender(self, destination: Destination) -> None:
        connection = await self._connected()
        await self._on_loop_sender(connection, destination).wait_open()

    def _on_loop_sender(self, connection: RemoteConnection, destination: Destination) -> RemoteSender:
        found = self._temporaries.get(destination) or self._senders.get(destination)
        if found is None or found.has_gone:
            self._close_idle_senders()
            address = self._addresses.get(destination, destination.name)
            found = RemoteSender(connection, sender_of(connection.session, destination, address), str(destination))
            connection.add(found)
            self._senders[destination] = found
            found.begin_open()
        return found

    def _close_idle_senders(self) -> None:
        """Close idle links while there are SENDERS_MAX: a server allows a connection a thousand or so."""
        for destination in list(self._senders):
            if len(self._senders) < SENDERS_MAX:
                return
            if self._senders[destination].is_idle:
                self._senders.pop(destination).begin_close()

    def _destination(self, topic: str) -> Destination:
        return self._topics.get(topic) or parse_destination(topic)

    def message_ids(self, topic: str, partition: int, offsets: Collection[int]) -> Mapping[int, str]:
        """Not known here."""
        return {}

    def known_topic(self, name: str, /) -> TopicInfo | None:
        """Return the last answer of `ensure` for this name."""
        found = self._infos.get(name)
        return None if found is None else found[1]

    def check_sendable(self, destination: Destination) -> None:
        """Do nothing: the server says so of each message."""

    def place_unit(self, name: str, unit: bytes) -> int:
        """Leave the unit's place to the sidecar."""
        return 0

    # -- subscriptions -------------------------------------------------------------------------------------------------

    def subscribe(self, subscription: Subscription) -> None:
        """Have it begun, with a receiver that gets nothing before it is attached."""
        self._io.call(self._begin(subscription))

    async def _begin(self, subscription: Subscription) -> None:
        connection = await self._connected()
        session_id = f"subscription {next(self._numbers)}"
        receiver = await self._open_receiver(connection, subscription, subscription.selector, session_id)
        self._subscribed.setdefault(subscription, []).append(receiver)

    def end_use(self, subscription: Subscription) -> None:
        """Return when the server knows that a consumer is closed."""
        attached = self._leaving.pop(subscription, [])
        open_ones = [each for each in attached if each.served is not None and not each.served.is_closed]
        if open_ones:  # of a shared one
            self._leaving[subscription] = open_ones
        for each in attached:
            if each not in open_ones:
                each.wait_left(LEAVE_TIMEOUT_S)
        self._io.call(self._end(subscription))

    async def _end(self, subscription: Subscription) -> None:
        begun = self._subscribed.get(subscription, [])
        if begun:
            await begun.pop().close(ends=not subscription.is_durable, timeout_s=LEAVE_TIMEOUT_S)

    def subscribed_topic(self, client_id: str, name: str) -> Topic:
        """Return the topic of a durable subscription."""
        return self._io.call(self._look_up(client_id, name, ends=False))

    def unsubscribe(self, client_id: str, name: str) -> None:
        """End a durable subscription."""
        self._io.call(self._look_up(client_id, name, ends=True))

    async def _look_up(self, client_id: str, name: str, *, ends: bool) -> Topic:
        connection = await self._connected()
        made = lookup_of(connection.session, client_id, name)
        connection.check_unused(made)
        link = RemoteLink(connection, made, f"subscription {name!r}")
        connection.add(link)
        await link.open()
        topic = Topic(str(link.link.remote_source.address or name))
        error = await link.close(ends=ends)
        if error is not None:
            raise error
        return topic

    def use_selector(self, queue: Queue, selector: str) -> None:
        """Do nothing: the receiver's link says which selector it has."""

    def end_use_of_selector(self, queue: Queue, selector: str) -> None:
        """Do nothing: the receiver's link ends."""

    # -- temporary destinations ----------------------------------------------------------------------------------------

    def create_temporary(self, kind: type[Temporary], connection_id: str, number: int) -> Temporary:
        """Make a new one, which the server names."""
        return self._io.call(self._make_temporary(kind))

    async def _make_temporary(self, kind: type[Temporary]) -> Temporary:
        connection = await self._connected()
        link = RemoteSender(connection, temporary_of(connection.session, kind.kind), kind.kind)
        connection.add(link)
        await link.open()
        made = kind(str(link.link.remote_target.address))
        self._temporaries[made] = link
        return made

    def delete_temporary(self, destination: TemporaryQueue | TemporaryTopic) -> None:
        """End one."""
        self._io.call(self._delete(destination))

    async def _delete(self, destination: TemporaryQueue | TemporaryTopic) -> None:
        for link in (self._takers.pop(destination, None), self._temporaries.pop(destination, None)):
            if link is not None and not link.has_gone:
                await link.close(timeout_s=LEAVE_TIMEOUT_S)

    def take_replies(self, queue: TemporaryQueue, take: Callable[[KafkaRecord], None]) -> None:
        """Have each record of the queue taken, on the event loop."""
        self._io.call(self._take(queue, take))

    async def _take(self, queue: TemporaryQueue, take: Callable[[KafkaRecord], None]) -> None:
        connection = await self._connected()

        def taken(message: IncomingMessage) -> None:
            take(record_of(message, queue.name, next(self._numbers)))

        link = RecordLink(connection, receiver_of(connection.session, queue, ""), str(queue), taken, self.clock)
        connection.add(link)
        await link.open()
        link.grant()
        self._takers[queue] = link

    # -- receiving -----------------------------------------------------------------------------------------------------

    def attach(self, source: Source, link: Link) -> SessionReceivers:
        """Begin to serve a receiver."""
        return self._io.call(self._attach(source, link))

    async def _attach(self, source: Source, link: Link) -> SessionReceivers:
        connection = await self._connected()
        terms = link.terms
        begun = self._subscribed.get(source, []) if isinstance(source, Subscription) else []
        while begun and begun[-1].has_gone:
            begun.pop()
        old = begun.pop() if begun else None
        if old is not None and not terms.one_per_unit:
            receiver = old
        else:
            lasts = isinstance(source, Subscription) and source.is_durable
            if old is not None and lasts:
                await old.close(ends=False, timeout_s=LEAVE_TIMEOUT_S)
            selector = "" if terms.selector is None else terms.selector.text
            together = not terms.one_per_unit
            receiver = await self._open_receiver(connection, source, selector, terms.session_id, together=together)
            if old is not None and not lasts:
                old.begin_close()
        receiver.serve(link)
        self._links = {**{each: None for each in self._links if not each.is_closed}, link: None}
        if isinstance(source, Subscription):
            self._leaving.setdefault(source, []).append(receiver)
        return receiver.owner

    async def _open_receiver(
        self, connection: RemoteConnection, source: Source, selector: str, session_id: str, *, together: bool = True
    ) -> RemoteReceiver:
        """`together`: the session's receivers of the source may have several of a unit, and know which of them go back
        with an earlier one."""
        owner = self._owner(connection, source, session_id)
        wanted = [UNITS] if together and connection.gives_units else []
        link = receiver_of(connection.session, source, selector, *wanted)
        if isinstance(source, Subscription):
            connection.check_unused(link)
        if wanted:
            link.properties = {symbol(SESSION): session_id}
        made = RemoteReceiver(
            connection,
            link,
            owner,
            str(source),
            mailbox=self._io.mailbox,
            clock=self.clock,
            numbers=lambda: next(self._numbers),
            receiver_idle_ms=self._receiver_idle_ms,
            ends_with_link=not (isinstance(source, Subscription) and source.is_durable),
        )
        connection.add(made)
        await made.open()
        return made

    def _owner(self, connection: RemoteConnection, source: Source, session_id: str) -> SessionReceivers:
        for place in [place for place, each in self._owners.items() if not each.receivers or not each.is_running]:
            del self._owners[place]
        found = self._owners.get((session_id, source))
        if found is None:
            found = SessionReceivers(
                destination_of(source), self._io.mailbox, session_id, is_confirmed=connection.gives_units
            )
            self._owners[session_id, source] = found
        return found

    def end_positions(self, source: Source, timeout_s: float) -> Mapping[int, int]:
        """Not known here: the server is asked to send all that it has."""
        return {}

    def held_partitions(self, source: Source) -> None:
        """Not known here: the server has them."""

    def on_drain(self, drain: Callable[[], bool]) -> Callable[[], None]:
        """Nobody asks here: operators' requests are read by processes that speak to Kafka."""
        return lambda: None

    def wait_recorded(self, timeout_s: float) -> bool:
        """Return True when what was said is on its way to the server, which records it."""
        return self.flush(timeout_s)

    def browse(self, queue: Queue, *, include: str, selector: Selector | None) -> Iterator[Seen]:
        """Return what a queue holds, as of now."""
        return iter(self._io.call(self._browse(queue, include, selector)))

    async def _browse(self, queue: Queue, include: str, selector: Selector | None) -> list[Seen]:
        connection = await self._connected()
        found: list[Seen] = []

        def take(message: IncomingMessage) -> None:
            state = next((each for each in MessageState if each.value == message.state), MessageState.NEW)
            record = record_of(message, queue.name, next(self._numbers))
            is_first = include == "deliverable" and state is MessageState.NEW
            found.append(Seen(record, state, message.delivery_count, message.delivery_time_ms, is_first))

        wanted = DELIVERABLE if include == "deliverable" else ALL
        about = f"browse {queue}"
        link = RecordLink(connection, browser_of(connection.session, queue, selector, wanted), about, take, self.clock)
        connection.add(link)
        await link.open()
        before = -1
        while len(found) > before:  # until a portion ends early
            before = len(found) + CREDIT - 1
            await link.drain(CREDIT)
        await link.close(timeout_s=LEAVE_TIMEOUT_S)
        return found

    # -- sending -------------------------------------------------------------------------------------------------------

    def prepare_to_send(self) -> None:
        """Do nothing: the connection is there."""

    def send(self, record: Outgoing, report: SendReport | None, *, is_waited_for: bool) -> None:
        """Send outside of transactions."""
        self._posted(record, report, self._under_way.add)

    def try_send(self, record: Outgoing, report: SendReport | None, *, is_waited_for: bool) -> bool:
        """Do as `send` does, but never wait."""
        return self._posted(record, report, self._under_way.try_add)

    def _posted(self, record: Outgoing, report: SendReport | None, add: Callable[[_Send, int], bool]) -> bool:
        """Send it if it was added to those under way."""
        if self._is_closed:
            raise AmqpSendFault(IllegalStateError("the connection is closed; make a new one"))
        destination = self._destination(record.topic)
        data = transfer_of(record, destination, self.clock.now_ms())
        send = _Send(destination, data, report, self._under_way)
        try:
            if not add(send, len(data)):
                return False
            self._io.mailbox.post(partial(self._on_loop_send, send))
        except BaseException:  # Ctrl-C: nobody knows whether it will be told an end, so nobody waits for that
            self._under_way.end(send)
            raise
        return True

    def _on_loop_send(self, send: _Send) -> None:
        connection = self._connection
        if not self._unsent and connection is not None and not connection.is_over:
            self._on_loop_sender(connection, send.destination).put(send.data, send.told)
            return
        self._unsent.append(send)
        if len(self._unsent) == 1:
            self._io.spawn(self._send_again())

    async def _send_again(self) -> None:
        """Send what came while there was no connection, in order, by the next one.

        If none can be made each of these sends fails with a SendTimeoutError: nothing of it was sent.
        """
        try:
            connection = await self._connected()
        except JMSError as error:
            unsent, self._unsent = self._unsent, deque()
            for each in unsent:
                each.told(SendTimeoutError(f"{each.destination}: nothing was sent: {error}"), None)
            return
        while self._unsent:
            each = self._unsent.popleft()
            self._on_loop_sender(connection, each.destination).put(each.data, each.told)

    def send_error(self, error: KafkaClientError, destination: Destination) -> JMSError:
        """Return what the caller of a send should see."""
        if isinstance(error, AmqpSendFault):
            if isinstance(error.error, InvalidDestinationError):
                self._infos.pop(destination.name, None)
            return error.error
        return JMSError(str(error))

    def flush(self, timeout_s: float) -> bool:
        """Return True when every plain send was reported."""
        return self._under_way.wait_none(timeout_s)

    # -- transactions --------------------------------------------------------------------------------------------------

    def submit(self, work: UnitOfWork) -> None:
        """Commit a session's transaction, after the connection's outstanding plain sends."""
        if work.branch is not None:
            _refuse_xa()
        if work.sends and not self.flush(FLUSH_TIMEOUT_S):
            raise SendTimeoutError(f"{work.about}: earlier sends are not confirmed after {FLUSH_TIMEOUT_S:g} s")
        self._io.mailbox.post(lambda: self._io.spawn(self._commit(work)))

    async def _commit(self, work: UnitOfWork) -> None:
        failure: Exception | None = None
        try:
            if work.expires_at_ms and self.clock.now_ms() >= work.expires_at_ms:
                raise expired_before_commit(work.expires_at_ms)
            try:
                await self._connected()
            except JMSError as error:
                raise TransactionRolledBackError(f"rolled back: {error}") from None
            assert self._controller is not None
            await self._controller.commit(work)
        except Exception as error:
            failure = error if isinstance(error, JMSError) else JMSError(f"an error of ours: {error!r}")
            if failure is not error:
                log.exception("%s: an error of ours", work.about)
        work.done.complete(failure)

    def _send_in_transaction(self, record: Outgoing, state: list[Any]) -> asyncio.Future[None]:
        sent: asyncio.Future[None] = self._io.loop.create_future()

        def told(error: JMSError | None, _: Any) -> None:
            if not sent.done():
                if error is None:
                    sent.set_result(None)
                else:
                    sent.set_exception(error)

        assert self._connection is not None
        destination = self._destination(record.topic)
        data = transfer_of(record, destination, self.clock.now_ms())
        self._on_loop_sender(self._connection, destination).put(data, told, state)
        return sent

    def begin_branch(self, xid: Xid) -> Branch:
        """Refuse it: distributed transactions are for processes with a sidecar of their own."""
        _refuse_xa()

    def forget_branch(self, branch: Branch) -> None:
        """There is none."""

    def decide(self, branch: str, wanted: BranchState, *, is_forced: bool = False) -> BranchState:
        """Refuse it, as `begin_branch` does."""
        _refuse_xa()

    def decision_of(self, xid: Xid) -> BranchState | None:
        """Refuse it, as `begin_branch` does."""
        _refuse_xa()

    def prepared_branches(self) -> Sequence[PreparedBranch]:
        """Refuse it, as `begin_branch` does."""
        _refuse_xa()

    # -- how it fares, and the end -------------------------------------------------------------------------------------

    def statistics(self) -> Statistics:
        """Return empty counts, for the sidecar counts."""
        return Statistics()

    def health(self, timeout_s: float | None) -> Health:
        """Return whether the connection is there."""
        connection = self._connection
        if not self._io.is_alive:
            return Health(False, False, ("the thread of the AMQP connection has ended",))
        if connection is None or connection.is_over:
            return Health(True, False, (f"there is no connection to {self._settings.url}",))
        return Health(True, True)

    def begin_close(self) -> Patience:
        """Return how long closing waits for the server."""
        return Patience(lambda _: self._connection is not None and not self._connection.is_over)

    def give_up_sends(self) -> None:
        """Fail what is not confirmed: without its connection nothing is."""
        connection = self._connection
        if connection is not None:
            self._io.mailbox.post(connection.abort)

    def close(self) -> None:
        """Flush the sends, and end the connection."""
        with self._lock:
            if self._is_closed:
                return
            self.begin_close().wait(self.flush, FLUSH_TIMEOUT_S)
            self._is_closed = True
        connection = self._connection
        if connection is not None:
            self._io.call(connection.close())
        self._io.stop()


_SETTINGS = ResolvedSettings(
    dead_letter_address=default_addresses().dead_letters, expiry_address=default_addresses().expired
)


def _refuse_xa() -> Never:
    raise IllegalStateError(
        "distributed transactions (tpc_begin and its kin) are not served over AMQP: use a ConnectionFactory of the "
        "Kafka cluster itself, or a TRANSACTED session"
    )
