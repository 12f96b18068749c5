"""The messages that one receiver gets from other sidecars: by a link to each, which is an AMQP client of the partitions
that it owns.

Those decide on everything: order, attempts, dead letters, durability. Here messages and outcomes only pass through.
"""

from __future__ import annotations

import itertools
from asyncio import get_running_loop, sleep
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Final, Protocol

from proton import Delivery as Sent
from proton import Endpoint, Sender, Session, symbol
from proton import Link as ProtonLink

from jbm_kafka.amqp.across_sidecars import Owner
from jbm_kafka.amqp.client_outcome import TRANSACTIONAL
from jbm_kafka.amqp.part_protocols import Client
from jbm_kafka.amqp_wire.engine_objects import EngineDelivery, EngineReceiver
from jbm_kafka.amqp_wire.message_parts import MessageParts
from jbm_kafka.amqp_wire.names import BEHIND, SEEN, SESSION
from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.core.receiving.going_back import behind

FORWARDED: Final = symbol("jbm:forwarded")
"""The property of a link that is another sidecar's; its value is the client id that the client has there."""
TRANSACTED: Final = symbol("jbm:transacted")
"""Another: its client's session has transactions, and in them any number of messages of a unit."""
KEEP_S = 1.0
"""How long a message is kept for a client without credit."""
LOOK_S = 0.005

_numbers = itertools.count(1)
_arrivals = itertools.count(1)


class FeedOwner(Owner, Protocol):
    """The connection to the other sidecar, as a link of it knows it."""

    touch: Callable[[], None]
    """Something is to be sent, maybe."""


class Forwarded:
    """One message of another sidecar, with a client or on its way there."""

    __slots__ = ("_arrival", "_feed", "_incoming", "_is_void", "_sent", "arrived_at", "data", "mark")

    def __init__(self, feed: Feed, incoming: Any, data: bytes) -> None:
        self.data = data
        self.arrived_at = get_running_loop().time()
        self.mark = incoming.tag.partition("|")[2]
        """Its unit, as its owner's tag says it; "": of none."""
        self._arrival = next(_arrivals)
        self._feed = feed
        self._incoming = incoming
        self._is_void = False
        """Its owner has it again."""
        self._sent: EngineDelivery | None = None
        """The client's, which waits to hear that what it said is durable."""

    def accept(self) -> None:
        """The client has it, and says nothing of it."""
        self._say(Sent.ACCEPTED)

    def release(self, *, was_seen: bool = False) -> None:
        """It goes back uncounted. `was_seen`: the client may have had it, so it comes again marked."""
        if was_seen and not self._feed.is_over:
            self._incoming.local.annotations = {SEEN: True}
        self._say(Sent.MODIFIED, is_settled=not self._fence(Sent.MODIFIED))

    def lost(self, sent: Iterable[Forwarded]) -> None:
        """It goes back as `release`, and with it what of all that was `sent` is behind it in its unit.

        Its client is gone, and may have had all of that. The owner takes back the whole unit at the first that it hears
        of, so this says what becomes of the others (REDELIVER-1).
        """
        units = self._feed.feeds.units
        if not self._feed.is_over:
            annotations: dict[str, object] = {SEEN: True}
            if self.mark not in units.going_back and not units.keeps_later:  # the first of its unit
                annotations[symbol(BEHIND)] = [len(behind([self.place], ((each, each.place) for each in sent))), 0]
            self._incoming.local.annotations = annotations
        self._say(Sent.MODIFIED, is_settled=not self._fence(Sent.MODIFIED))

    def void(self) -> None:
        """Its owner has it again already, with one before it; to say so is of no meaning there."""
        self._say(Sent.RELEASED)

    def told(self, sent: EngineDelivery, peer: Client) -> None:
        """The client says what became of it."""
        state, remote = sent.remote_state, sent.remote
        if state == TRANSACTIONAL:
            transaction = peer.transaction(remote.data)
            if transaction is None:
                self.release(was_seen=True)
            elif self._feed.is_over:
                text = "the sidecar that had a message of it has it no more; it comes again"
                transaction.failure = transaction.failure or JMSError(text)
            else:
                transaction.take_forwarded(self._feed.owner, self)
                assert remote.data is not None, "it names the transaction"
                self._incoming.local.data = [bytes(remote.data[0]), *remote.data[1:]]
                self._say(TRANSACTIONAL)
        elif self._feed.is_over:  # its owner has died, or the partition moved: it comes again
            if not sent.settled:
                sent.update(Sent.RELEASED)
        else:
            is_waiting = not sent.settled
            self._sent = sent if is_waiting else None
            self._say(state, remote, is_settled=not (self._fence(state) or is_waiting))
            if is_waiting:
                return
        sent.settle()

    def _fence(self, state: int) -> bool:
        """True: with it its owner takes back what comes behind it in its unit, and confirms that.

        What comes of the unit until then was sent before; what waits here goes back now.
        """
        units = self._feed.feeds.units
        if units.keeps_later or state == Sent.ACCEPTED or not self.mark or self._feed.is_over or self._is_void:
            return False
        if not units.going_back.covers(*self.place):
            self.fence()
        return True

    @property
    def place(self) -> tuple[Hashable, int]:
        """Where it is in its unit."""
        return self.mark or None, self._arrival

    def taken_back(self) -> None:
        """Its owner has it again, with one before it."""
        self._is_void = True

    def fence(self) -> None:
        """Drop what comes of its unit, and what waits here, until its owner has said that it has it back."""
        if self.mark:
            units = self._feed.feeds.units
            units.going_back.begin(*self.place)
            for each in units.members:
                each.feeds.void(self.mark)

    def unfence(self) -> None:
        """Its owner has said so, or says nothing any more."""
        units = self._feed.feeds.units
        if units.going_back.end(*self.place):
            for each in units.members:
                each.feeds.taken_back(self)

    def confirmed(self, peer: Client) -> None:
        """Its owner says what holds, or will say nothing any more."""
        self.unfence()
        sent, self._sent = self._sent, None
        if sent is not None and not (peer.is_over or self._feed.feeds.is_closed):
            state = Sent.RELEASED if self._feed.is_over else self._incoming.remote_state
            if state:
                sent.update(state)
            sent.settle()
            if self._feed.feeds.units.keeps_later:
                peer.touch()
            else:
                peer.flush()  # before what comes next of the unit
        self._end()

    def _say(self, state: int, remote: Any = None, *, is_settled: bool = True) -> None:
        """Tell the owner's sidecar what the receiver said of the message; a state of 0 tells nothing.

        Unless `is_settled` is False nothing more is said of it. Nothing is said when the feed is over.
        """
        if self._feed.is_over:
            return
        if remote is not None and state == Sent.MODIFIED:
            self._incoming.local.failed, self._incoming.local.undeliverable = remote.failed, remote.undeliverable
            self._incoming.local.annotations = remote.annotations
        if remote is not None and state == Sent.REJECTED:
            self._incoming.local.condition = remote.condition
        if state:
            self._incoming.update(state)
        if is_settled:
            self._end()

    def _end(self) -> None:
        if not self._feed.is_over:
            self._feed.held.pop(self._incoming.tag, None)
            self._incoming.settle()
            self._feed.touch()


class Feed:
    """The link to one other sidecar; is_over: it gives nothing any more, and what it gave is void."""

    def __init__(self, feeds: Feeds, link: EngineReceiver, owner: FeedOwner) -> None:
        self.is_over = False
        self.link = link
        self.owner = owner
        """The connection to the other sidecar."""
        self.touch = owner.touch
        self.held: dict[str, Forwarded] = {}
        """The messages that were not settled, by tag."""
        self.feeds = feeds
        self._parts = MessageParts(link)

    def arrived(self, incoming: Any) -> None:
        """Something of a message came, or a word on what was said of one."""
        if incoming.tag in self.held:
            if incoming.settled:
                self.held[incoming.tag].confirmed(self.feeds.peer)
            return
        data = self._parts.whole(incoming)
        if data is not None:
            forwarded = self.held[incoming.tag] = Forwarded(self, incoming, data)
            if forwarded.mark in self.feeds.units.going_back:
                forwarded.void()
                return
            self.feeds.waiting.append(forwarded)
            self.feeds.arrived()

    def close(self) -> None:
        """Use the link no more. What it had is its owner's again when that has closed it, too, which `gone` tells.

        Until then the units of what goes back stay fenced: what comes of them by other links was sent before (UNIT-3).
        """
        if not self.is_over:
            self.link.close()
            self.touch()
            self._leave()

    def gone(self) -> None:
        """The other side has ended the link, or its connection is lost: it says nothing any more."""
        self._leave()
        held, self.held = self.held, {}
        for forwarded in held.values():
            forwarded.confirmed(self.feeds.peer)

    def _leave(self) -> None:
        if not self.is_over:
            self.is_over = True
            self.feeds.lost(self)


class Feeds:
    """All of one receiver; on the event loop. Without other sidecars, and for one that must not have any, none."""

    def __init__(self, peer: Client, receiver: Any, sender: Sender, *, is_used: bool, is_transacted: bool) -> None:
        """`receiver`: whom they are for; `sender`: its link to the client."""
        self._is_transacted = is_transacted
        self.peer = peer
        self.units = receiver.units
        self.waiting: deque[Forwarded] = deque()
        """The messages that came and are not sent to the client, which gets the first of them first."""
        self.is_used = is_used and peer.server.neighbours is not None
        self._receiver = receiver
        self._sender = sender
        self._feeds: list[Feed] = []
        self._is_draining = False
        self.is_closed = False

    def begin(self) -> None:
        """Have a link to each other sidecar, also to those that come."""
        if self.is_used and not self.is_closed:
            self.peer.server.neighbours.join(self)

    def open(self, owner: FeedOwner, session: Session) -> Feed:
        """A link in this session of the connection to its owner."""
        link = session.receiver(f"{self._receiver.name}|{next(_numbers)}")
        link.source.copy(self._sender.remote_source)
        link.source.address = str(self._receiver.destination)  # the other sidecar may know no alias of it
        link.snd_settle_mode = ProtonLink.SND_UNSETTLED
        is_transacted = {TRANSACTED: True} if self._is_transacted else {}
        link.properties = {FORWARDED: self.peer.client_id, symbol(SESSION): self.units.session_id, **is_transacted}
        link.open()
        feed = Feed(self, link, owner)
        self._feeds.append(feed)
        self._receiver.pump()
        owner.touch()
        return feed

    def arrived(self) -> None:
        """A message waits."""
        self._receiver.pump()
        self.peer.touch()

    def lost(self, feed: Feed) -> None:
        """It gives nothing any more; what was not sent yet comes from the next owner."""
        if feed in self._feeds:
            self._feeds.remove(feed)
        self.waiting = deque(each for each in self.waiting if each not in feed.held.values())

    def take(self) -> Forwarded | None:
        """The next one for the client."""
        return self.waiting.popleft() if self.waiting else None

    def ask(self, wanted: int) -> None:
        """The client takes so many more: all feeds together are asked for no more, but each for one at least."""
        if not self._feeds:
            return
        room = wanted - len(self.waiting)
        if wanted == 0:
            self.release_old()
        if room > 0 and not self._is_draining:
            share = max(1, room // len(self._feeds))
            for feed in self._feeds:
                credit = feed.link.credit
                if credit * 2 <= share and credit < share and feed.link.state & Endpoint.LOCAL_ACTIVE:
                    feed.link.flow(share - credit)
                    feed.touch()

    def release_old(self) -> None:
        """Give others what has waited for so long for a client without credit."""
        now = get_running_loop().time()
        while self.waiting and now - self.waiting[0].arrived_at > KEEP_S:
            self.waiting.popleft().release()

    def void(self, mark: str) -> None:
        """Its owner has taken back what waits of this unit."""
        void = [each for each in self.waiting if each.mark == mark]
        if void:
            self.waiting = deque(each for each in self.waiting if each.mark != mark)
            for each in void:
                each.void()

    def taken_back(self, first: Forwarded) -> None:
        """The owner of the unit has again what came behind this one: what the client says of that is of no meaning."""
        held = ((each, each.place) for feed in self._feeds for each in feed.held.values())
        for each in behind([first.place], held):
            each.taken_back()

    @property
    def has_unread(self) -> bool:
        """Something waits, or may come."""
        return bool(self.waiting) or any(feed.link.credit for feed in self._feeds)

    async def drain(self, timeout_s: float, *, at_least: int = 1) -> None:
        """Return when each has sent what it has, as far as the client's credit goes.

        Until `drained` they are asked for no more. `at_least`: of one that is asked for nothing now.
        """
        self._is_draining = True
        asked = [feed for feed in self._feeds if not feed.is_over and (at_least or feed.link.credit)]
        for feed in asked:
            feed.link.drain(0 if feed.link.credit else at_least)
            feed.touch()
        await self._until(
            timeout_s,
            lambda: (
                not any(not feed.is_over and feed.link.credit for feed in asked)
                or bool(at_least and self._sender.credit == 0)
            ),
        )

    async def take_back(self, timeout_s: float) -> None:
        """Return when nothing waits nor comes, and the owners have again what waited. Until `drained` none comes."""
        await self.drain(timeout_s, at_least=0)
        while self.waiting:
            self.waiting.popleft().release()
        await self._until(timeout_s, lambda: not self.units.going_back)

    def drained(self) -> None:
        """They may be asked again."""
        self._is_draining = False

    async def _until(self, timeout_s: float, holds: Callable[[], bool]) -> None:
        """Return when the condition holds, or the time is over: the caller looks which of the two it was."""
        ends_at = get_running_loop().time() + timeout_s
        while not holds() and get_running_loop().time() < ends_at:
            await sleep(LOOK_S)

    def close(self) -> None:
        """Let go of them; the receiver has given back what the client had."""
        self.is_closed = True
        if self.is_used:
            self.peer.server.neighbours.leave(self)
        while self.waiting:
            self.waiting.popleft().release()
        for feed in list(self._feeds):
            feed.close()
