"""The links of one session's consumers: which share a queue or a subscription, and which of a closed one can go."""

from __future__ import annotations

import itertools
import threading
from collections import defaultdict
from collections.abc import Callable
from typing import Final

from jbm_kafka.core.receiving.hand import Hand
from jbm_kafka.core.receiving.unacknowledged import Unacknowledged
from jbm_kafka.core.subscription import Source, Subscription
from jbm_kafka.ports.deliveries import Delivery
from jbm_kafka.ports.link import Link


class SessionLinks:
    """Any thread; the session's lock guards it."""

    def __init__(self, lock: threading.RLock) -> None:
        self._lock = lock
        self._open: list[tuple[Source, Link]] = []
        self._closed: list[Link] = []
        self._hands: defaultdict[Source, Hand] = defaultdict(Hand)
        """The hand of each queue or subscription; here, because hands outlive the consumers that gave back."""
        self.unacknowledged: Final = Unacknowledged[Delivery, Link]()
        """That of all its hands."""
        self._numbers = itertools.count(1)
        self.have_ended = False
        """The session ends: closing waits for no listener any more, nothing can be settled, every call is refused."""

    def next_number(self) -> int:
        """No other link of the session has it."""
        return next(self._numbers)

    def hand_of(self, source: Source) -> Hand:
        """Return that of all the session's links to it."""
        with self._lock:
            return self._hands[source]

    @property
    def all(self) -> list[Link]:
        """Return those of open consumers, and those of closed ones of which something is unacknowledged still."""
        return [*(link for _, link in self._open), *self._closed]

    @property
    def sources(self) -> set[str]:
        """The queues and topics of open consumers, for people."""
        return {str(source.topic if isinstance(source, Subscription) else source) for source, _ in self._open}

    @property
    def has_closed(self) -> bool:
        """A link of a closed consumer is here still."""
        return bool(self._closed)

    def add(self, source: Source, link: Link) -> None:
        """A consumer was made."""
        with self._lock:
            self._open.append((source, link))
            self._introduce_siblings()

    def close(self, link: Link) -> None:
        """Its consumer was closed; it goes when `let_go` finds that it may."""
        with self._lock:
            if self._leave_open(link):
                self._closed.append(link)
                self._introduce_siblings()

    def let_go(self, may_go: Callable[[Link], bool]) -> None:
        """Detach those of closed consumers that may go."""
        if not self._closed:
            return
        with self._lock:  # threads that acknowledge come here at the same time, and change what is unacknowledged
            gone = [link for link in self._closed if may_go(link)]
            self._closed = [link for link in self._closed if link not in gone]
        for link in gone:
            link.leave()

    def remove(self, link: Link) -> None:
        """As if it had never been here."""
        link.leave()
        with self._lock:
            self._leave_open(link)
            self._introduce_siblings()

    def detach_all(self) -> None:
        """The session ends."""
        with self._lock:
            links, self._open, self._closed = self.all, [], []
        for link in links:
            link.leave()

    def _leave_open(self, link: Link) -> bool:
        count = len(self._open)
        self._open = [(source, other) for source, other in self._open if other is not link]
        return len(self._open) < count

    def _introduce_siblings(self) -> None:
        """Let the links of each know each other (see Link.siblings)."""
        # With those that are being closed: what they have unread must go back before another one is served (UNIT-3).
        for source, link in self._open:
            link.become_siblings([other for its, other in self._open if other is not link and its == source])
