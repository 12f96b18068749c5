"""What one receiver gets from other sidecars: a link to each, which is an AMQP client of the partitions that it owns.

Those decide on everything: order, attempts, dead letters, durability. Here messages and outcomes only pass through.
"""

from __future__ import annotations

import itertools
from asyncio import get_running_loop, sleep
from collections import deque
from typing import Any, Final

from proton import Delivery as Sent
from proton import Endpoint, symbol
from proton import Link as ProtonLink

from jbm_kafka.amqp.seams import Client
from jbm_kafka.amqp.told_outcome import TRANSACTIONAL
from jbm_kafka.core.jms_errors import JMSError

FORWARDED: Final = symbol("jbm:forwarded")
"""The property of a link that is another sidecar's; its value is the client id that the client has there."""
KEEP_S = 1.0
"""How long a message is kept for a client without credit."""
LOOK_S = 0.005

_numbers = itertools.count(1)


class Forwarded:
    """One message of another sidecar, with a client or on its way there."""

    __slots__ = ("_feed", "_incoming", "_sent", "arrived_at", "data")

    def __init__(self, feed: Feed, incoming: Any, data: bytes) -> None:
        self.data = data
        self.arrived_at = get_running_loop().time()
        self._feed = feed
        self._incoming = incoming
        self._sent: Any = None
        """The client's, which waits to hear that what it said is durable."""

    def accept(self) -> None:
        """The client has it, and says nothing of it."""
        self._say(Sent.ACCEPTED)

    def release(self, *, was_seen: bool = False) -> None:
        """It goes back uncounted. `was_seen`: the client may have had it, so it comes again marked."""
        if was_seen:
            self._end()  # without an outcome, which says just that
        else:
            self._say(Sent.MODIFIED)

    def told(self, sent: Any, peer: Client) -> None:
        """The client says what became of it."""
        state, remote = sent.remote_state, sent.remote
        if state == TRANSACTIONAL:
            transaction = peer.transaction(remote.data)
            if transaction is not None:
                text = "it has a message of another sidecar's: begin transactions before receivers are made"
                transaction.failure = transaction.failure or JMSError(text)
            self.release(was_seen=True)
        elif self._feed.is_over:  # its owner has died, or the partition moved: it comes again
            if not sent.settled:
                sent.update(Sent.RELEASED)
        elif sent.settled:
            self._say(state, remote)
        else:
            self._sent = sent
            self._say(state, remote, is_settled=False)
            return
        sent.settle()

    def confirmed(self, peer: Client) -> None:
        """Its owner says what holds, or will say nothing any more."""
        sent, self._sent = self._sent, None
        if sent is not None and not (peer.is_over or self._feed.feeds.is_closed):
            sent.update(Sent.RELEASED if self._feed.is_over else self._incoming.remote_state)
            sent.settle()
            peer.touch()
        self._end()

    def _say(self, state: int, remote: Any = None, *, is_settled: bool = True) -> None:
        if self._feed.is_over:
            return
        if remote is not None and state == Sent.MODIFIED:
            self._incoming.local.failed, self._incoming.local.undeliverable = remote.failed, remote.undeliverable
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

    def __init__(self, feeds: Feeds, link: Any, touch: Any) -> None:
        self.is_over = False
        self.link = link
        self.touch = touch
        self.held: dict[str, Forwarded] = {}
        """By its tag what was not settled."""
        self.feeds = feeds
        self._parts: list[bytes] = []

    def arrived(self, incoming: Any) -> None:
        """Something of a message came, or a word on what was said of one."""
        if incoming.tag in self.held:
            if incoming.settled:
                self.held[incoming.tag].confirmed(self.feeds.peer)
            return
        while incoming.pending and (part := self.link.recv(incoming.pending)):
            self._parts.append(part)
        if incoming.aborted:
            self._parts.clear()
            incoming.settle()
        elif not incoming.partial:
            data, self._parts = b"".join(self._parts), []
            self.link.advance()
            forwarded = self.held[incoming.tag] = Forwarded(self, incoming, data)
            self.feeds.waiting.append(forwarded)
            self.feeds.arrived()

    def end(self, *, is_lost: bool) -> None:
        """The link is not used any more. `is_lost`: by the other side, or with its connection."""
        if self.is_over:
            return
        if not is_lost:
            self.link.close()
            self.touch()
        self.is_over = True
        self.feeds.lost(self)
        held, self.held = self.held, {}
        for forwarded in held.values():
            forwarded.confirmed(self.feeds.peer)


class Feeds:
    """All of one receiver; on the event loop. Without other sidecars, and for one that must not have any, none."""

    def __init__(self, peer: Client, receiver: Any, sender: Any, *, is_used: bool) -> None:
        """`receiver`: whom they are for; `sender`: its link to the client."""
        self.peer = peer
        self.waiting: deque[Forwarded] = deque()
        """What came and is not sent to the client, which gets it first."""
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

    def open(self, session: Any, touch: Any) -> Feed:
        """A link in this session of a connection to another sidecar."""
        # What stands before the bar is the name of a shared subscription.
        link = session.receiver(f"{self._sender.name.partition('|')[0]}|{next(_numbers)}")
        link.source.copy(self._sender.remote_source)
        link.snd_settle_mode = ProtonLink.SND_UNSETTLED
        link.properties = {FORWARDED: self.peer.client_id}
        link.open()
        feed = Feed(self, link, touch)
        self._feeds.append(feed)
        self._receiver.pump()
        touch()
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
        if wanted == 0 and self.waiting:
            now = get_running_loop().time()
            while self.waiting and now - self.waiting[0].arrived_at > KEEP_S:
                self.waiting.popleft().release()
        if room > 0 and not self._is_draining:
            share = max(1, room // len(self._feeds))
            for feed in self._feeds:
                credit = feed.link.credit
                if credit * 2 <= share and credit < share and feed.link.state & Endpoint.LOCAL_ACTIVE:
                    feed.link.flow(share - credit)
                    feed.touch()

    async def drain(self, timeout_s: float) -> None:
        """Return when each has sent what it has, as far as the client's credit goes."""
        asked = [feed for feed in self._feeds if not feed.is_over]
        if not asked:
            return
        self._is_draining = True
        try:
            for feed in asked:
                feed.link.drain(0 if feed.link.credit else 1)
                feed.touch()
            ends_at = get_running_loop().time() + timeout_s
            while any(not feed.is_over and feed.link.credit for feed in asked) and get_running_loop().time() < ends_at:
                await sleep(LOOK_S)
        finally:
            self._is_draining = False

    def close(self) -> None:
        """Let go of them; the receiver has given back what the client had."""
        self.is_closed = True
        if self.is_used:
            self.peer.server.neighbours.leave(self)
        while self.waiting:
            self.waiting.popleft().release()
        for feed in list(self._feeds):
            feed.end(is_lost=False)
