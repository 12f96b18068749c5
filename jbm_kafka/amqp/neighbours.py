"""The other sidecars of the namespace: who they are, and a connection to each."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from proton import Delivery, Described, Event, Message, Terminus, symbol

from jbm_kafka.amqp.client_outcome import DECLARED, transaction_name
from jbm_kafka.amqp.feeds import Feed, Feeds
from jbm_kafka.amqp.part_protocols import Host
from jbm_kafka.amqp.scram import MECHANISM
from jbm_kafka.amqp.server_settings import ForwardingSettings
from jbm_kafka.amqp_client.client_wire import ClientWire
from jbm_kafka.amqp_client.sasl_client import SaslClient
from jbm_kafka.amqp_wire.conditions import error_of
from jbm_kafka.amqp_wire.engine_objects import EngineLink, open_session
from jbm_kafka.amqp_wire.live_links import LiveLinks
from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.ports.forwarding import ForwardingSidecar

log = logging.getLogger(__name__)

T = TypeVar("T")

LOOK_S = 1.0
"""How often the registry is asked who is there, and whoever is not reached is tried again."""
SILENT_S = 20.0
"""After so long without a sign of life a sidecar counts as gone."""
CONNECT_S = 5.0
FLUSH_AGAIN_S = 0.01


class _Question:
    """A question to a neighbour."""

    def __init__(self, data: bytes, answered: Callable[[], None]) -> None:
        self.data = data
        self.answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._answered = answered

    def told(self, delivery: Delivery) -> None:
        """Its answer."""
        self._answered()
        state = delivery.remote_state
        if self.answer.done():  # nobody waits any more
            return
        if state in (Delivery.ACCEPTED, DECLARED):
            self.answer.set_result(transaction_name(delivery.remote.data) if state == DECLARED else b"")
        else:
            self.answer.set_exception(error_of(delivery.remote.condition, "refused by another sidecar"))

    def fail(self) -> None:
        """Nobody will answer it."""
        self._answered()
        if not self.answer.done():
            self.answer.set_exception(JMSError("the connection to another sidecar broke"))


class Neighbour:
    """One connection to another sidecar, as its client; on the loop."""

    def __init__(self, host: Host, said: ForwardingSettings, address: str) -> None:
        self.is_open = False
        self.is_over = False
        self.trouble = ""
        self._container = f"ID:{host.container}"
        sasl = SaslClient(
            address,
            user=said.user,
            password=said.password,
            mechanism=MECHANISM,  # by which the other one proves itself, too
            is_encrypted=said.tls is not None,
            has_certificate=False,
        )
        self.wire = ClientWire(
            sasl,
            handle=self._handle,
            handled=lambda: None,
            lost=self._lost,
            silent_s=SILENT_S,
            frame_bytes=host.settings.limits.frame_bytes,
        )
        self._connection = self.wire.connection
        self.touch = self.wire.touch
        """Something is to be sent, maybe."""
        self._session: Any = None
        self._control: Any = None
        """The link for what is said of transactions."""
        self._to_ask: deque[_Question] = deque()
        self._asked: dict[str, _Question] = {}
        """The questions that are not answered, by their tags."""
        self._numbers = itertools.count(1)
        self._feeds: dict[EngineLink, Feed] = {}
        self._links = LiveLinks()
        self._served: set[Feeds] = set()

    def begin_open(self) -> None:
        """Who it is, is proven: open the connection."""
        self._connection.container = self._container
        self._connection.open()
        self._session = self._connection.session()
        open_session(self._session)
        self._control = self._session.sender("control")
        self._control.target.type = Terminus.COORDINATOR
        self._control.open()
        self.wire.touch()

    def add(self, feeds: Feeds) -> None:
        """A link for this receiver."""
        if self.is_open and not self.is_over and feeds not in self._served:
            self._served.add(feeds)
            feed = feeds.open(self, self._session)
            self._feeds[feed.link] = feed
            self._links.add(feed.link)

    def remove(self, feeds: Feeds) -> None:
        """The receiver ends its link."""
        self._served.discard(feeds)

    def abort(self) -> None:
        """End it without a word."""
        self.wire.abort()

    def ask(self, what: str, fields: list[Any], answered: Callable[[], None]) -> asyncio.Future[bytes]:
        """Have the other one do something of a transaction, after all that was said before; what it answers.

        It fails with a JMSError: refused, or nobody knows. `answered` is called before anything that comes later is
        looked at.
        """
        message: Any = Message(body=Described(symbol(what), fields))
        question = _Question(message.encode(), answered)
        if self.is_over:
            question.fail()
        else:
            self._to_ask.append(question)
            self._ask_next()
        return question.answer

    def _ask_next(self) -> None:
        """Send the questions that wait, each behind all that was said before it.

        While the engine still has outcomes to send this comes again by itself: they would go behind the question.
        """
        while self._to_ask and not self.is_over:
            if not self.wire.flush():  # the engine sends outcomes behind transfers
                asyncio.get_running_loop().call_later(FLUSH_AGAIN_S, self._ask_next)
                return
            tag = str(next(self._numbers))
            self._asked[tag] = self._to_ask.popleft()
            self._control.delivery(tag)
            self._control.send(self._asked[tag].data)
            self._control.advance()
            self.wire.touch()

    def _handle(self, event: Event) -> None:
        kind = event.type
        if kind == Event.CONNECTION_REMOTE_OPEN:
            self.is_open = True
        elif kind in (Event.CONNECTION_REMOTE_CLOSE, Event.SESSION_REMOTE_CLOSE) or (
            kind in (Event.LINK_REMOTE_CLOSE, Event.LINK_REMOTE_DETACH) and event.link == self._control
        ):
            self.trouble = str(self._connection.remote_condition or "it has ended the connection")
            self._connection.close()
            asyncio.get_running_loop().call_soon(self.wire.abort)
        elif kind in (Event.LINK_REMOTE_CLOSE, Event.LINK_REMOTE_DETACH):
            assert event.link is not None, event
            feed = self._feeds.pop(event.link, None)
            if feed is not None:
                if not feed.is_over:
                    log.info("another sidecar forwards nothing to a receiver for now: %s", event.link.remote_condition)
                    self._served.discard(feed.feeds)
                feed.gone()
            self._links.end(event.link)
            event.link.close()
            self._links.free(event.link)
        elif kind == Event.DELIVERY:
            assert event.delivery is not None, event
            self._delivered(event.delivery)

    def _delivered(self, delivery: Delivery) -> None:
        link = delivery.link
        if link == self._control:
            if delivery.settled:
                self._asked.pop(delivery.tag).told(delivery)
                delivery.settle()
            return
        feed = self._feeds.get(link)
        if feed is not None and not feed.is_over:
            feed.arrived(delivery)

    def _lost(self, why: str) -> None:
        self.is_over, self.is_open = True, False
        self._links.forget()
        self.trouble = self.trouble or why
        feeds, self._feeds = self._feeds, {}
        for feed in feeds.values():
            feed.gone()
        questions = [*self._asked.values(), *self._to_ask]
        self._asked.clear()
        self._to_ask.clear()
        for each in questions:
            each.fail()


class Neighbours:
    """On the loop."""

    def __init__(self, host: Host, said: ForwardingSettings, forwarding: ForwardingSidecar) -> None:
        self._host = host
        self._said = said
        self._forwarding = forwarding
        self._receivers: dict[Feeds, None] = {}
        self._reached: dict[str, Neighbour] = {}
        self._troubles: dict[str, str] = {}
        """The last word about each address."""
        self._is_over = False

    async def serve(self) -> None:
        """Know the others, and be known to them, until `end`."""
        is_known = False
        while not self._is_over:
            try:
                if not is_known:
                    await self._beside(lambda: self._forwarding.publish_address(self._said.advertised))
                    is_known = True
                await self._look(await self._beside(self._forwarding.other_addresses))
            except JMSError as error:
                log.info("who the other sidecars are is not known now: %s", error)
            await asyncio.sleep(LOOK_S)

    async def end(self) -> None:
        """Forward nothing any more."""
        self._is_over = True
        for each in self._reached.values():
            each.wire.abort()
        await self._beside(self._forwarding.withdraw_address)

    def join(self, feeds: Feeds) -> None:
        """Have this receiver get messages from every neighbour, those that are reached later too."""
        self._receivers[feeds] = None
        for each in self._reached.values():
            each.add(feeds)

    def leave(self, feeds: Feeds) -> None:
        """It gets nothing any more."""
        self._receivers.pop(feeds, None)
        for each in self._reached.values():
            each.remove(feeds)

    async def _beside(self, call: Callable[[], T]) -> T:
        return await self._host.loop.run_in_executor(self._host.threads, call)

    async def _look(self, addresses: frozenset[str]) -> None:
        self._reached = {address: each for address, each in self._reached.items() if not each.is_over}
        for address in self._reached.keys() - addresses:
            self._reached.pop(address).wire.abort()
        await asyncio.gather(*(self._reach(each) for each in addresses - self._reached.keys()))
        for neighbour in list(self._reached.values()):
            for feeds in list(self._receivers):  # also those whose link was refused
                neighbour.add(feeds)

    async def _reach(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        made = Neighbour(self._host, self._said, address)
        try:
            async with asyncio.timeout(CONNECT_S):
                await self._host.loop.create_connection(
                    lambda: made.wire, host.strip("[]"), int(port), ssl=self._said.tls
                )
                await made.wire.is_in
                made.begin_open()
                while not made.is_open and not made.is_over:
                    await asyncio.sleep(0.01)
        except (OSError, ValueError, JMSError) as error:
            made.trouble = str(error) or "it does not answer"
        if self._is_over or not made.is_open:
            made.wire.abort()
            if self._troubles.get(address) != made.trouble:
                log.warning("the sidecar at %s is not reached, and forwards nothing: %s", address, made.trouble)
                self._troubles[address] = made.trouble
            return
        self._troubles.pop(address, None)
        self._reached[address] = made
