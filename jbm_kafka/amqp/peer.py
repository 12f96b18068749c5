"""One connection of a client: its sessions, its links, and what it is known by."""

from __future__ import annotations

import asyncio
import itertools
import logging
import re
import secrets
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

from proton import Condition, Connection, Endpoint, Event, Sender, Session, Terminus, symbol

from jbm_kafka.amqp.access import Action
from jbm_kafka.amqp.browser_links import Browser
from jbm_kafka.amqp.client_outcome import transaction_name
from jbm_kafka.amqp.coordinator import Coordinator
from jbm_kafka.amqp.feeds import FORWARDED, TRANSACTED
from jbm_kafka.amqp.forwarder import Forwarder
from jbm_kafka.amqp.in_force import settle_modes, tell_coordinator, tell_source, tell_stored, tell_target
from jbm_kafka.amqp.incoming import Producer, SendLane
from jbm_kafka.amqp.local_transactions import LocalTransaction
from jbm_kafka.amqp.part_protocols import Host, Pumped
from jbm_kafka.amqp.receiver_links import Receiver
from jbm_kafka.amqp.session_units import SessionUnits
from jbm_kafka.amqp.shares import Whose
from jbm_kafka.amqp.terminus import (
    Filters,
    capabilities,
    kind_of,
    looked_up,
    subscription_of,
)
from jbm_kafka.amqp_wire.conditions import INVALID_FIELD, STOLEN, condition, condition_of
from jbm_kafka.amqp_wire.engine_objects import EngineDelivery, EngineLink, EngineReceiver, Work, link_key, open_session
from jbm_kafka.amqp_wire.live_links import LiveLinks
from jbm_kafka.amqp_wire.names import ALL, DELIVERABLE, SESSION, SHARED_SUBSCRIPTIONS, UNITS
from jbm_kafka.client.call_lane import CallLane
from jbm_kafka.client.own_temporaries import OwnTemporaries
from jbm_kafka.codec.amqp.address_forms import parse_address
from jbm_kafka.core.destination import Destination, Queue, TemporaryQueue, TemporaryTopic, Topic
from jbm_kafka.core.jms_errors import (
    InvalidClientIDError,
    InvalidDestinationError,
    JMSError,
    JMSSecurityError,
    ResourceAllocationError,
)
from jbm_kafka.core.subscription import Source, checked_client_id

log = logging.getLogger(__name__)

T = TypeVar("T")
OFFERED = ("sole-connection-for-container", "ANONYMOUS-RELAY", SHARED_SUBSCRIPTIONS, "DELAYED_DELIVERY", UNITS)
MADE_AT_ONCE = 8
"""How many queues and topics of one client are looked for, or made, side by side; each takes Kafka most of a second."""
ESTABLISHMENT_FAILED: dict[str, bool] = {symbol("amqp:connection-establishment-failed"): True}
"""The property by which a client knows an open that only tells why there is no connection."""
GENERATED = re.compile(r"ID:")
"""How Qpid JMS begins the container id of a connection that has no client id."""


class Unsubscribing:
    """A receiver with a null source: it asks for a durable subscription, and closing it ends that."""

    def __init__(self, peer: Peer, client_id: str, name: str) -> None:
        self._peer, self._client_id, self._name = peer, client_id, name

    def pump(self) -> None:
        """It gets nothing."""

    async def close(self, *, is_lost: bool, ends: bool) -> None:
        if ends:
            peer = self._peer  # it may be another's by now: the link stays as long as its client likes
            await peer.call(lambda: peer.provider.unsubscribe(self._client_id, self._name, peer.user))


class Temporary:
    """A sender with a dynamic target: its temporary destination lives as long."""

    def __init__(self, peer: Peer, made: TemporaryQueue | TemporaryTopic, producer: Producer) -> None:
        self._peer, self._made, self._producer = peer, made, producer
        self.grant, self.arrived = producer.grant, producer.arrived

    async def close(self, *, is_lost: bool, ends: bool) -> None:
        await self._producer.close(is_lost=is_lost, ends=ends)
        await self._peer.end_temporary(self._made)


class TemporaryReceiver:
    """A receiver with a dynamic source: its temporary destination lives as long."""

    def __init__(self, peer: Peer, made: TemporaryQueue | TemporaryTopic, receiver: Receiver) -> None:
        self._peer, self._made, self._receiver = peer, made, receiver
        self.begin, self.ready = receiver.begin, receiver.ready
        self.pump, self.outcome, self.unsettled = receiver.pump, receiver.outcome, receiver.unsettled

    async def close(self, *, is_lost: bool, ends: bool) -> None:
        await self._receiver.close(is_lost=is_lost, ends=ends)
        await self._peer.end_temporary(self._made)


Served = Any
"""Receiver, Browser, Producer, Coordinator, Temporary, TemporaryReceiver or Unsubscribing."""


class Peer:
    """On the event loop. An error costs the link that it is of, or else the connection."""

    def __init__(
        self,
        server: Host,
        connection: Connection,
        touch: Callable[[], None],
        user: str,
        whose: Whose,
        read: Callable[[bool], None],
        flush: Callable[[], None],
    ) -> None:
        """`read`: told whether anything is to be read from the client."""
        self.server = server
        self.settings = server.settings
        self.provider = server.provider
        self.mailbox = server.mailbox
        self.connection_id = f"c{secrets.token_hex(6)}"
        self.client_id = ""
        self.user = user
        self.whose = whose
        self.transactions: dict[bytes, LocalTransaction] = {}
        self._temporaries = OwnTemporaries(server.provider, self.connection_id)
        self.touch = touch
        self.flush = flush
        self._read = read
        self.outgoing_bytes = 0
        """The bytes of messages that were given to the engine and not written to the socket; the engine tells but a
        part."""
        self.sends_beside = 0
        self._held_bytes = 0
        self.is_over = False
        self.is_writable = True
        self.is_open = False
        self._connection = connection
        self._lane = CallLane(server.threads)
        self._making = asyncio.Semaphore(MADE_AT_ONCE)
        self._served: dict[Hashable, Served] = {}
        """The served links by `link_key`."""
        self._to_pump: dict[Pumped, EngineLink] = {}
        self._links = LiveLinks()
        self._names: dict[EngineLink, Hashable] = {}
        """The names of links, as the server knows them."""
        self.attach_fault: JMSError | None = None
        """Why the link that is opened now is refused."""
        self.place: tuple[int, int] | None = None
        """Channel and handle of what is opened now."""
        self._numbers = itertools.count(1)
        self._tasks: set[asyncio.Task[None]] = set()
        self._holds_client_id = False
        self._lanes: dict[Session, SendLane] = {}
        """The lanes by session."""
        self._transacted: set[Session] = set()
        """Sessions that have a coordinator."""
        self._together: dict[tuple[str, Source], SessionUnits] = {}

    # -- for what it serves --------------------------------------------------------------------------------------------

    @property
    def sender(self) -> str:
        """Return what messages to topics carry for `no_local`."""
        return f"{self.client_id}/{self.connection_id}"

    async def call(self, call: Callable[[], T]) -> T:
        """Make a call that may wait for Kafka beside the loop: one at a time of this connection, in order."""
        return await self._lane.do(call, "AMQP")

    def spawn(self, work: Work, link: EngineLink | None = None) -> None:
        """Have it done; an error costs the link, or without one the connection."""

        async def run() -> None:
            try:
                await work
            except Exception as error:
                if not isinstance(error, JMSError):
                    self.server.faults.note_error(self.whose, "meets an error of ours", error)
                if not self.is_over:
                    if link is None:
                        self.end(condition_of(error))
                    else:
                        self.refuse(link, error)
            self.touch()

        task = self.server.loop.create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def authorise(self, action: Action, destination: Destination) -> None:
        """Raises JMSSecurityError when the user may not."""
        self.settings.access.authorise(self.user, action, destination)

    async def may_make(self, destination: Destination) -> None:
        """Return when it is there, or the client may make it. Raises JMSError."""
        server, most = self.server, self.settings.limits.topics_made_per_hour
        if destination.is_temporary or self.provider.known_topic(destination.name) is not None:
            return
        async with self._making:
            if await server.loop.run_in_executor(server.threads, server.provider.is_there, destination):
                return
        self.authorise("create", destination)
        if not server.made.take(server.loop.time(), self.whose):
            text = f"{destination}: it does not exist, and {self.whose} has made {most} in an hour"
            raise ResourceAllocationError(f"{text}; make it with `jbm-kafka create`, or raise topics_made_per_hour")

    def transaction(self, data: Sequence[object] | None) -> LocalTransaction | None:
        """The one that a transactional state names."""
        return self.transactions.get(transaction_name(data))

    def declare(self) -> LocalTransaction:
        """A new transaction. Raises ResourceAllocationError: it has too many."""
        most = self.settings.limits.transactions_per_connection
        if len(self.transactions) >= most:
            raise ResourceAllocationError(f"{most} transactions of one connection are open; discharge some")
        made = LocalTransaction(self)
        self.transactions[made.id] = made
        return made

    @property
    def takes_more(self) -> bool:
        """More may be sent: the client reads what is on its way."""
        is_full = self.outgoing_bytes >= self.settings.limits.unread_bytes
        return self.is_writable and not self.server.is_draining and not is_full

    def pump_soon(self, served: Pumped, link: EngineLink) -> None:
        """More may go out by the link once all that the client said is heard: one look for many outcomes."""
        self._to_pump[served] = link

    def pump_due(self) -> None:
        """All is heard."""
        while self._to_pump:
            served, link = self._to_pump.popitem()
            try:
                served.pump()
            except Exception as error:
                self._failed(error, "a send", link)

    def at(self, channel: int, handle: int | None) -> tuple[Any, Any]:
        """The session and the link that the client knows so; None: it has ended."""
        return self._links.at((channel, -1)), None if handle is None else self._links.at((channel, handle))

    def hold(self, size: int) -> None:
        """So many bytes more, or less, came and are not in Kafka: with too many nothing is read from the client."""
        most, before = self.settings.limits.unconfirmed_bytes, self._held_bytes
        self._held_bytes += size
        if (before > most) != (self._held_bytes > most):
            self._read(self._held_bytes <= most)

    def refuse(self, link: EngineLink, error: Exception | Condition) -> None:
        """End a link with an error; what it had goes back."""
        if link not in self._links or link.state & Endpoint.LOCAL_CLOSED:
            return
        if link.state & Endpoint.LOCAL_UNINIT:
            (link.source if link.is_sender else link.target).type = Terminus.UNSPECIFIED
            link.open()
        link.condition = error if isinstance(error, Condition) else condition_of(error)
        link.close()
        served = self._served.pop(link_key(link), None)
        if served is not None:
            self.spawn(served.close(is_lost=False, ends=False))
        self.touch()

    def end(self, condition: Condition) -> None:
        """Close the connection with an error."""
        if not self._connection.state & Endpoint.LOCAL_CLOSED:
            if self._connection.state & Endpoint.LOCAL_UNINIT:
                self._connection.open()
            self._connection.condition = condition
            self._connection.close()
        self.touch()

    @property
    def link_count(self) -> int:
        """How many links it sends and receives by. Any thread."""
        return len(self._served)

    @property
    def has_unsettled(self) -> bool:
        """Something of it is in the middle of its way."""
        return bool(self.transactions) or any(
            getattr(each, "unsettled", None) or getattr(each, "under_way", 0) for each in self._served.values()
        )

    def pump(self) -> None:
        """Go on with what waited because the client did not read."""
        for served in list(self._served.values()):
            if hasattr(served, "pump"):
                served.pump()

    async def lost(self) -> None:
        """The connection is over, in order or not: let go of everything that it had."""
        if self.is_over:
            return
        self.is_over = True
        self._links.forget()
        for link in list(self._names):
            self._lose_name(link)
        is_lost = not self._connection.state & Endpoint.REMOTE_CLOSED
        served, self._served = list(self._served.values()), {}
        for each in sorted(served, key=lambda each: isinstance(each, Temporary | TemporaryReceiver)):
            try:
                await each.close(is_lost=is_lost, ends=False)
            except JMSError as error:
                log.warning("AMQP connection %s: %s", self.connection_id, error)
        for transaction in list(self.transactions.values()):
            await transaction.roll_back()
        if self._holds_client_id:
            await self.call(lambda: self.provider.release_client_id(self.client_id, self.connection_id))

    # -- events --------------------------------------------------------------------------------------------------------

    def handle(self, event: Event) -> None:
        """Handle one event of the engine; what it raises ends its link or the connection, and never the loop."""
        try:
            _HANDLERS[event.type](self, event)
        except Exception as error:
            self._failed(error, event.type, event.link)

    def _failed(self, error: Exception, what: object, link: EngineLink | None) -> None:
        """End the link at which something failed, else the connection; an error of ours is noted as a fault."""
        if not isinstance(error, JMSError):
            self.server.faults.note_error(self.whose, f"meets an error of ours at {what}", error)
        if link is not None:
            self.refuse(link, error)
        else:
            self.end(condition_of(error))

    def _connection_opened(self, event: Event) -> None:
        connection = self._connection
        connection.offered_capabilities = [symbol(each) for each in OFFERED]
        connection.container = self.server.container
        wanted = connection.remote_container or ""
        desired = {str(each) for each in connection.remote_desired_capabilities or ()}
        if wanted and not GENERATED.match(wanted):
            try:
                self.settings.access.check_client_id(self.user, wanted)
            except JMSSecurityError as error:
                self._open(ESTABLISHMENT_FAILED)
                self.end(condition_of(error))
                return
            self.client_id = wanted
            if "sole-connection-for-container" in desired:
                self.spawn(self._open_alone(wanted))
                return
        self._open({})

    async def _open_alone(self, wanted: str) -> None:
        """Open the connection once the cluster has given it this client id; where another has the id, end it."""
        try:
            name = checked_client_id(wanted)
            await self.call(lambda: self.provider.hold_client_id(name, self.connection_id, self._client_id_lost))
            self._holds_client_id = True
            self._open({})
        except InvalidClientIDError as error:
            self._open(ESTABLISHMENT_FAILED)
            self.end(condition(INVALID_FIELD, str(error), {symbol("invalid-field"): symbol("container-id")}))

    def _client_id_lost(self, error: InvalidClientIDError) -> None:
        self.mailbox.post(lambda: self.end(condition_of(error)))

    def _open(self, properties: dict[str, bool]) -> None:
        self._connection.properties = {symbol("product"): "jbm-kafka", **properties}
        self._connection.open()
        self.is_open = True
        self.touch()

    def _connection_closed(self, event: Event) -> None:
        self.server.run(self._leave())

    async def _leave(self) -> None:
        await self.lost()
        self._connection.close()
        self.touch()

    def _session_opened(self, event: Event) -> None:
        self._links.begin(event.session, self.place)
        open_session(event.session)

    def _session_closed(self, event: Event) -> None:
        session = event.session
        assert session is not None, event
        ended = self._links.end_session(session)
        mine = [self._served.pop(link_key(link), None) for link in ended]
        for link in ended:
            self._lose_name(link)
        self.spawn(self._end_session(session, [served for served in mine if served is not None]))

    async def _end_session(self, session: Session, served: list[Served]) -> None:
        for each in sorted(served, key=lambda each: isinstance(each, Coordinator)):
            await each.close(is_lost=False, ends=False)
        self._transacted.discard(session)
        self._lanes.pop(session, None)
        self._links.free_session(session)

    def _link_opened(self, event: Event) -> None:
        link = _link_of(event)
        if not link.state & Endpoint.LOCAL_UNINIT:
            return
        self._links.add(link, self.place)
        most = self.settings.limits.links_per_connection
        if len(self._links) > most and not self.settings.access.is_sidecar(self.user):
            too_many = ResourceAllocationError(f"more than {most} links of one connection; close some")
            self.refuse(link, too_many)
            if len(self._links) > 2 * most:  # also refused ones take memory until the client closes them
                self.end(condition_of(too_many))
            return
        fault, self.attach_fault = self.attach_fault, None
        if fault is not None:
            raise fault
        stolen = self._steal(link)
        if stolen is None:
            self._open_link(link)
        else:
            self.spawn(self._open_link_after(stolen, link), link)

    def _steal(self, link: EngineLink) -> Work | None:
        """A link's name is one link's of a container: what has it ends (AMQP 1.0, 2.6.1); returns what to wait for.

        Who asks for a subscription, with a null source, takes its name from nobody.
        """
        container, links = self._connection.remote_container, self.server.links_by_name
        if not container or (link.is_sender and link.remote_source.type == Terminus.UNSPECIFIED):
            return None
        name = self.user, container, link.is_sender, link.name
        before = links.get(name)
        links[name], self._names[link] = (self, link), name
        return None if before is None else before[0].give_up(before[1])

    def give_up(self, link: EngineLink) -> Work | None:
        """Another link has its name now: end it, with what it had; that is waited for."""
        if link not in self._links or link.state & Endpoint.LOCAL_CLOSED:
            return None
        served = self._served.pop(link_key(link), None)
        self.refuse(link, Condition(STOLEN, f"link {link.name!r:.200} was attached anew"))
        return None if served is None else served.close(is_lost=True, ends=False)

    def _lose_name(self, link: EngineLink) -> None:
        name = self._names.pop(link, None)
        if name is not None and self.server.links_by_name.get(name) == (self, link):
            del self.server.links_by_name[name]

    async def _open_link_after(self, stolen: Work, link: EngineLink) -> None:
        await stolen
        if link in self._links:
            self._open_link(link)

    def _open_link(self, link: EngineLink) -> None:
        settle_modes(link)
        if isinstance(link, Sender):
            link.target.copy(link.remote_target)  # its own; what we say of our end is what is in force
            self._receiver_opened(link)
        else:
            link.source.copy(link.remote_source)
            self._producer_opened(link)

    def _producer_opened(self, link: EngineReceiver) -> None:
        link.max_message_size = self.settings.limits.message_bytes
        target = link.remote_target
        if target.type == Terminus.COORDINATOR:
            tell_coordinator(link)
            self._transacted.add(link.session)
            self._serve(link, Coordinator(self, link, is_sidecars=self.settings.access.is_sidecar(self.user)))
        elif target.dynamic:
            self.spawn(self._produce_temporary(link), link)
        elif target.address is None:
            self._serve(link, self._producer(link, None))
        else:
            destination = self._named(target)
            self.authorise("send", destination)
            self.spawn(self._produce(link, destination), link)

    async def _produce(self, link: EngineReceiver, destination: Destination) -> None:
        await self._ensure(destination)
        self._serve(link, self._producer(link, destination))

    def _producer(self, link: EngineReceiver, target: Destination | None) -> Producer:
        tell_target(link, target)
        lane = self._lanes.get(link.session)
        if lane is None:
            lane = self._lanes[link.session] = SendLane(f"{self.connection_id}/{next(self._numbers)}".encode())
        return Producer(self, link, target, lane)

    async def _make_temporary(self, named: frozenset[str]) -> TemporaryQueue | TemporaryTopic:
        kind: type[Any] = TemporaryTopic if "temporary-topic" in named else TemporaryQueue
        made: TemporaryQueue | TemporaryTopic = await self.call(lambda: self._temporaries.create(kind))
        return made

    async def end_temporary(self, made: TemporaryQueue | TemporaryTopic) -> None:
        """The link that it was made for has ended."""
        await self.call(lambda: self._temporaries.delete(made))

    async def _produce_temporary(self, link: EngineReceiver) -> None:
        made = await self._make_temporary(capabilities(link.remote_target))
        link.target.address, link.target.dynamic = made.name, True
        self._serve(link, Temporary(self, made, self._producer(link, made)))

    async def _receive_temporary(self, link: Sender) -> None:
        filters = Filters(link.remote_source)
        made = await self._make_temporary(capabilities(link.remote_source))
        link.source.address, link.source.dynamic = made.name, True
        try:
            await self._begin(link, TemporaryReceiver(self, made, self._receiver(link, made, filters)))
        except BaseException:
            self.server.run(self.end_temporary(made))
            raise

    def _serve(self, link: EngineLink, served: Served) -> None:
        if link not in self._links or link.state & Endpoint.LOCAL_CLOSED:
            self.server.run(served.close(is_lost=True, ends=False))
            return
        self._served[link_key(link)] = served
        link.open()
        if isinstance(served, Receiver):
            served.feed()
        if link.is_receiver:
            served.grant()
        else:
            served.pump()
        self.touch()

    def _named(self, end: Terminus) -> Destination:
        return parse_address(end.address or "", kind_of(capabilities(end)), self.settings.aliases)

    def _receiver_opened(self, link: Sender) -> None:
        source = link.remote_source
        if source.type == Terminus.UNSPECIFIED or (source.address is None and not source.dynamic):
            self.spawn(self._look_up(link), link)
            return
        if source.dynamic:
            self.spawn(self._receive_temporary(link), link)
            return
        destination = self._named(source)
        filters = Filters(source)
        client_id = (link.remote_properties or {}).get(FORWARDED)
        if client_id is not None:
            self._forwarder_opened(link, destination, filters, str(client_id))
            return
        is_browser = source.distribution_mode == Terminus.DIST_MODE_COPY and not isinstance(destination, Topic)
        self.authorise("browse" if is_browser else "receive", destination)
        if is_browser:
            assert isinstance(destination, Queue), destination
            wanted = capabilities(source) & {ALL, DELIVERABLE}
            tell_source(link, destination, filters, wanted, is_browser=True)
            browser = Browser(self, link, destination, filters.selector, wanted)
            self.spawn(self._begin(link, browser), link)
            return
        if destination.is_temporary:
            self._temporaries.check(destination)
        self.spawn(self._begin_receiver(link, destination, filters), link)

    def _forwarder_opened(self, link: Sender, destination: Destination, filters: Filters, client_id: str) -> None:
        if destination.is_temporary:
            raise InvalidDestinationError(f"{destination}: what is temporary is not forwarded")
        self.authorise("forward", destination)
        source = self._source_of(link, destination, filters, client_id)
        units = self._units_of(link, source, is_transacted=TRANSACTED in link.remote_properties)
        tell_source(link, source, filters, [] if units.keeps_later else [UNITS])
        forwarder = Forwarder(self, link, source, filters.selector, next(self._numbers), units)
        self.spawn(self._begin(link, forwarder), link)

    def _receiver(self, link: Sender, destination: Destination, filters: Filters) -> Receiver:
        used = self._source_of(link, destination, filters, self.client_id)
        is_transacted = link.session in self._transacted
        units = self._units_of(link, used, is_transacted=is_transacted)
        tell_source(link, used, filters, [] if units.keeps_later else [UNITS])
        return Receiver(self, link, used, filters.selector, next(self._numbers), units, is_transacted=is_transacted)

    def _source_of(self, link: EngineLink, destination: Destination, filters: Filters, client_id: str) -> Source:
        if isinstance(destination, Topic):
            return subscription_of(
                destination,
                link.name,
                link.remote_source,
                capabilities(link.remote_source),
                filters,
                client_id=client_id,
                connection_id=self.connection_id,
            )
        assert isinstance(destination, Queue), destination
        return destination

    def _units_of(self, link: EngineLink, source: Source, *, is_transacted: bool) -> SessionUnits:
        """Return what the receiver has in common with others of its client's session, or has for itself."""
        if UNITS not in capabilities(link.remote_source):
            return SessionUnits(is_one_by_one=True, is_transacted=is_transacted)
        named = {str(name): value for name, value in (link.remote_properties or {}).items()}
        place = str(named.get(SESSION) or f"link {link.name}"), source
        for each in [place for place, units in self._together.items() if not units.members]:
            del self._together[each]
        found = self._together.get(place)
        if found is None:
            session_id = f"{self.connection_id}/units {next(self._numbers)}"
            found = self._together[place] = SessionUnits(session_id, is_one_by_one=False)
        return found

    async def _ensure(self, destination: Destination) -> None:
        """Have it there. It waits for no other call of the connection. Raises JMSError."""
        await self.may_make(destination)
        async with self._making:
            await self.server.loop.run_in_executor(self.server.threads, self.provider.ensure, destination)

    async def _begin_receiver(self, link: Sender, destination: Destination, filters: Filters) -> None:
        if isinstance(destination, Queue) and not destination.is_temporary:
            await self._ensure(destination)
        else:
            await self.may_make(destination)
        await self._begin(link, self._receiver(link, destination, filters))

    async def _begin(self, link: EngineLink, served: Any) -> None:
        await self.call(served.begin)
        try:
            await served.ready()
        except BaseException:
            self.server.run(served.close(is_lost=False, ends=False))
            raise
        self._serve(link, served)

    async def _look_up(self, link: EngineLink) -> None:
        client_id, name = looked_up(link.name, self.client_id)
        topic = await self.call(lambda: self.provider.subscribed_topic(client_id, name))
        self.authorise("receive", topic)
        await self.call(lambda: self.provider.check_owner(client_id, name, self.user))
        tell_stored(link, topic)
        self._serve(link, Unsubscribing(self, client_id, name))

    def _link_closed(self, event: Event) -> None:
        self._end_link(_link_of(event), ends=True)

    def _link_detached(self, event: Event) -> None:
        self._end_link(_link_of(event), ends=False)

    def _end_link(self, link: EngineLink, *, ends: bool) -> None:
        served = self._served.pop(link_key(link), None)
        self._links.end(link)
        self._lose_name(link)
        self.spawn(self._ended_link(link, served, ends=ends))

    async def _ended_link(self, link: EngineLink, served: Served | None, *, ends: bool) -> None:
        condition = None
        if served is not None:
            try:
                await served.close(is_lost=False, ends=ends)
            except JMSError as error:
                condition = condition_of(error)
        if not self._links.is_ending(link):
            return
        if condition is not None:
            link.condition = condition
        if link.state & Endpoint.LOCAL_UNINIT:
            link.open()  # the client waits for an answer to its attach, too
        if ends:
            link.close()
        else:
            link.detach()
        self._links.free(link)

    def _flow(self, event: Event) -> None:
        link = _link_of(event)
        served = self._served.get(link_key(link))
        if served is not None and link.is_sender:
            served.pump()

    def delivered(self, delivery: EngineDelivery) -> None:
        """A message came, or what became of one."""
        served = self._served.get(delivery.link_key)
        try:
            if served is None:
                self._delivered_to_nobody(delivery, delivery.link)
            elif delivery.readable or delivery.aborted:
                served.arrived(delivery)
            elif delivery.updated and hasattr(served, "outcome"):
                served.outcome(delivery)
        except Exception as error:
            self._failed(error, "a delivery", delivery.link)

    def _delivered_to_nobody(self, delivery: EngineDelivery, link: EngineLink) -> None:
        if link.is_sender and delivery.settled:
            delivery.settle()
        elif link.is_receiver and delivery.readable:  # the engine would keep it
            if not delivery.aborted:
                link.recv(delivery.pending)
            if delivery.aborted or not delivery.partial:
                delivery.settle()


def _link_of(event: Event) -> EngineLink:
    link = event.link
    assert link is not None, event
    return link


_HANDLERS = {
    Event.CONNECTION_REMOTE_OPEN: Peer._connection_opened,
    Event.CONNECTION_REMOTE_CLOSE: Peer._connection_closed,
    Event.SESSION_REMOTE_OPEN: Peer._session_opened,
    Event.SESSION_REMOTE_CLOSE: Peer._session_closed,
    Event.LINK_REMOTE_OPEN: Peer._link_opened,
    Event.LINK_REMOTE_CLOSE: Peer._link_closed,
    Event.LINK_REMOTE_DETACH: Peer._link_detached,
    Event.LINK_FLOW: Peer._flow,
}
"""Not of each peer: with its own methods in hand it would be there until garbage is collected."""
HANDLED = frozenset(kind.number for kind in _HANDLERS)
"""Numbers of the kinds of event that `Peer.handle` is for."""
