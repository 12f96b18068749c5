"""DUPS_OK: what the application is done with is acknowledged together, after so many messages or milliseconds (ACK-3).

It is done with a message when it asks for the next, when its listener returned, and at close, as in AUTO. The last one
it may still work on, so that never is among them: a crash repeats messages, and loses none.
"""

from __future__ import annotations

from collections import defaultdict

from jbm_kafka.core.durations import checked_duration_ms
from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.core.receiving import unacknowledged as places
from jbm_kafka.core.receiving.hand import HandMove
from jbm_kafka.core.wrong_values import checked_int, wrong_value
from jbm_kafka.jms.base.arguments import PREFETCH_MAX
from jbm_kafka.jms.settling.acknowledge import OneInHand, Rows, give_back
from jbm_kafka.jms.shared.session_core import SessionCore
from jbm_kafka.ports.deliveries import Delivery, PartitionLease
from jbm_kafka.ports.link import Link
from jbm_kafka.ports.refusals import notify_refused

MESSAGES = 50
MILLISECONDS = 200


class Triggers:
    """When it is time: after how many messages, after how many milliseconds; 0 switches one off."""

    def __init__(
        self, messages: object = MESSAGES, milliseconds: object = MILLISECONDS, *, is_given: bool = False
    ) -> None:
        """The arguments are `object`, not `int`: compiled code would refuse other types with an error of its own."""
        self.messages = checked_int("messages", messages, 0, PREFETCH_MAX, "messages")
        self.milliseconds = checked_duration_ms("milliseconds", milliseconds)
        self._is_given = is_given

    @property
    def is_client(self) -> bool:
        """Neither: the application acknowledges, as in CLIENT."""
        return not (self.messages or self.milliseconds)

    @property
    def is_auto(self) -> bool:
        """Each by itself, as in AUTO."""
        return self.messages == 1 and not self.milliseconds

    def check(self, prefetch: int) -> None:
        """Raises InvalidSettingError when a consumer with this prefetch could never have so many."""
        if self._is_given and self.messages > prefetch:
            rule = (
                f"it is at most the prefetch, which is {prefetch}; take fewer, or raise that with "
                f"set_default_prefetch(…) or create_consumer(…, prefetch=…)"
            )
            raise wrong_value("messages", self.messages, rule)


class LazyAcknowledge(OneInHand):
    """Its triggers are guarded by the session's lock, too."""

    def __init__(self, session: SessionCore, triggers: Triggers) -> None:
        super().__init__(session)
        self._leases: set[PartitionLease] = set()
        """The leases of lazily acknowledged messages."""
        self._due_at_ms = 0
        """When the oldest is to be acknowledged, by the monotonic clock; 0: never."""
        self._prefetch_min = PREFETCH_MAX
        self._triggers = triggers
        self._count_max = 0
        self.set(triggers)

    def set(self, triggers: Triggers) -> None:
        """Other triggers from now on.

        Raises:
            InvalidSettingError: they do not go with a consumer's prefetch.
        """
        triggers.check(self._prefetch_min)
        with self._session.lock:
            self._triggers = triggers
            self._note_count_max()
            self._due_at_ms = self._next_due_ms() if self._unacknowledged.lazy else 0

    def consumer_made(self, link: Link) -> None:
        self._triggers.check(link.terms.prefetch)
        self._prefetch_min = min(self._prefetch_min, link.terms.prefetch)
        self._note_count_max()
        link.notices.tell_turns(self.pass_time)

    def before_receive(self) -> None:
        self._finish()
        if len(self._unacknowledged.lazy) >= self._count_max:
            self._accept_many(waits=True)

    def settle_at_once(self) -> bool:
        if self._is_blocking and len(self._unacknowledged.lazy) + 1 >= self._count_max:
            return False
        self.before_receive()
        return True

    def recover(self) -> None:
        """All that is not acknowledged comes again, as JMS says; where each is at once, as in AUTO, nothing does."""
        if self._triggers.is_auto:
            self.before_receive()
            return
        self._finish()
        with self._session.lock:
            rows = self._leave(places.GIVE_BACK)
            give_back(rows)
        self._settled()

    def abandon(self) -> None:
        """Give back what it has in hand, which was not processed; what came before was."""
        self._accept_many(waits=False)
        self._give_back_in_hand()

    def consumer_closes(self, link: Link) -> None:
        if link in self._unacknowledged.seen.values() and not self._is_in_listener():
            self._finish()
        self._accept_many(waits=True)

    def close(self) -> None:
        if self._is_in_listener():
            self._give_back_in_hand()
        else:
            self._finish()
        try:
            self._accept_many(waits=True)
        except JMSError as error:
            self._session.connection.notify_exception(error)

    def pass_time(self, now_ms: int) -> None:
        """On a group worker's thread, once in each of its turns: acknowledge what is due, by a monotonic clock.

        And what is of a partition that others are to have: they would wait for it.
        """
        if not self._unacknowledged.lazy:
            return
        with self._session.lock:
            is_due = 0 < self._due_at_ms <= now_ms or any(lease.channel.is_closing for lease in self._leases)
        if is_due:
            self._accept_many(waits=False)
            self._session.wake()

    def _finish(self) -> None:
        """The application is done with what it had in hand."""
        in_hand = self._unacknowledged.first()
        if in_hand is None:
            return
        with self._session.lock:
            if not self._unacknowledged.lazy:
                self._due_at_ms = self._next_due_ms()
            if in_hand in self._unacknowledged.seen:  # no other thread that closes has done so
                self._unacknowledged.accept_lazily(in_hand)
                self._leases.add(in_hand.lease)

    def _next_due_ms(self) -> int:
        milliseconds = self._triggers.milliseconds
        return self._session.connection.provider.clock.monotonic_ms() + milliseconds if milliseconds else 0

    def _note_count_max(self) -> None:
        # With more unacknowledged than a consumer's prefetch it would get nothing before the time is up, if ever.
        self._count_max = min(self._triggers.messages or PREFETCH_MAX, self._prefetch_min)

    def _leave(self, move: HandMove) -> Rows:
        """Make this move of all that is lazily acknowledged. The caller holds the lock."""
        rows = self._unacknowledged.at(places.LAZY)
        self._unacknowledged.apply(move, rows)
        self._leases.clear()
        self._due_at_ms = 0
        return rows

    def _accept_many(self, *, waits: bool) -> None:
        """Tell the channels what is lazily acknowledged; of what was taken from the session its exception listener
        hears.

        Raises:
            JMSError: it `waits` until they are durable, as its connection says, and they could not be recorded.
        """
        with self._session.lock:
            rows = self._leave(places.ACCEPT_MANY)
        late: defaultdict[PartitionLease, list[int]] = defaultdict(list)
        present: dict[Delivery, Link] = {}
        for delivery, link in rows.items():
            if delivery.lease.is_revoked:
                late[delivery.lease].append(delivery.offset)
            else:
                present[delivery] = link
        try:
            if waits and self._is_blocking:
                self._record(present)
            else:
                for lease, offset in self._record_soon(present):
                    late[lease].append(offset)
        finally:
            for lease, offsets in late.items():
                notify_refused(lease, offsets)
