"""A producer's PERSISTENT_GROUPACK sends: confirmed together, and known one by one while they are not (SEND-3)."""

from __future__ import annotations

import threading
from collections.abc import Callable

from jbm_kafka.client.bodies.large_bodies import LargeBodies
from jbm_kafka.codec.one_header import header_text
from jbm_kafka.codec.scan import Header
from jbm_kafka.core.destination import Destination
from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.jms.messages.message import Message
from jbm_kafka.jms.messages.messages_wire import from_record
from jbm_kafka.jms.sends.send_order import SendOrder
from jbm_kafka.ports import KafkaClientError, Outgoing
from jbm_kafka.ports.provider import Provider
from jbm_kafka.ports.wake_up import Sleepers

THRESHOLD = 100


class GroupSend:
    """One send, as its own report."""

    __slots__ = ("_group", "destination", "is_made", "is_over", "message", "record", "trouble")

    def __init__(self, group: SendGroup, record: Outgoing, destination: Destination) -> None:
        self._group = group
        self.record = record
        self.destination = destination
        self.is_made = False
        """The provider has it. Until its end it is waited for, and no send that was refused or interrupted ever is."""
        self.is_over = False
        """It was reported."""
        self.trouble: KafkaClientError | None = None
        """The error that it failed with, if it has."""
        self.message: Message | None = None
        """The message that the application was given for it."""

    def __call__(self, trouble: KafkaClientError | None) -> None:
        self._group.report(self, trouble)


class SendGroup:
    """Sends of one producer; their reports come on a thread of the provider's."""

    def __init__(self, provider: Provider, order: SendOrder, bodies: LargeBodies | None) -> None:
        self._provider = provider
        self._bodies = bodies
        self._order = order
        self._lock = threading.RLock()
        self._ended_one = Sleepers(self._lock)
        self._sends: dict[GroupSend, None] = {}
        """Not confirmed, in the order sent: those under way, and those that failed."""
        self._given: dict[int, GroupSend] = {}
        """The failed sends that the application was given, by the identity of the message it was given."""
        self._since_wait = 0
        self._unraised: GroupSend | None = None
        """The first that failed, while no call has raised it."""

    def send(self, message: Message, record: Outgoing, destination: Destination, *, threshold: int) -> None:
        """Send one; the last of so many waits for all.

        Raises:
            JMSError: some are not confirmed. If that was known before, nothing was sent: nothing overtakes them.
        """
        send = GroupSend(self, record, destination)
        try:
            refusal = self._begin(send, message)
            if refusal is None:
                way = self._order.count(is_waited_for=True)
                self._provider.send(record, send, is_waited_for=way)
                send.is_made = True
        except KafkaClientError as trouble:
            self._order.take_back()
            self._ended(send, trouble)
        except BaseException:
            # Ctrl-C: nobody knows whether a report will come. One that comes is heard.
            self._ended(send, KafkaClientError(f"the send to {destination.name} was interrupted"))
            raise
        else:
            if refusal is not None:
                raise refusal
        self._since_wait += 1
        if self._since_wait >= threshold or send.trouble is not None:
            self.wait(None)
            self.check()

    def _begin(self, send: GroupSend, message: Message) -> JMSError | None:
        """Begin a send; or return the error to raise instead of sending."""
        with self._lock:
            again = self._given.pop(id(message), None)
            if again is not None:
                del self._sends[again]
            self._sends[send] = None
            refusal = None
            if self._unraised is not None:
                send.trouble = self._unraised.trouble
                refusal = self._failure()
        return refusal

    def _is_under_way(self) -> bool:
        return any(send.is_made and not send.is_over for send in self._sends)

    def wait(self, timeout_s: float | None) -> bool:
        """True when none is under way any more."""
        if not self._ended_one.wait_for(lambda: not self._is_under_way(), timeout_s):
            return False
        self._since_wait = 0
        return True

    def check(self) -> None:
        """Raises JMSError when some failed and no call has said so."""
        with self._lock:
            if self._unraised is not None:
                raise self._failure()

    def unacknowledged(self) -> list[Message]:
        """Return what is not confirmed, in the order sent, each as it was sent."""
        with self._lock:
            return [self._message_of(send) for send in self._sends]

    def duplicate_id(self, message: Message) -> str | None:
        """The one that it was sent with, if it was given as failed: it may be in the log, and is sent again."""
        with self._lock:
            again = self._given.get(id(message))
        return None if again is None else header_text(again.record.headers, "JBMDuplicateID")

    def forget_given(self) -> None:
        """The application goes on: what failed and it was given is no longer of interest."""
        with self._lock:
            for send in self._given.values():
                del self._sends[send]
            self._given.clear()

    def report(self, send: GroupSend, trouble: KafkaClientError | None) -> None:
        """One has ended; on the provider's thread."""
        self._order.confirm(trouble)
        self._ended(send, trouble)

    def _ended(self, send: GroupSend, trouble: KafkaClientError | None) -> None:
        with self._lock:
            send.is_over = True
            if trouble is None:
                self._confirmed(send)
            else:
                send.trouble = trouble
                self._unraised = self._unraised or send
            if not self._is_under_way():
                self._ended_one.notify_all()

    def _confirmed(self, send: GroupSend) -> None:
        self._sends.pop(send, None)
        if send.trouble is None:
            return
        # The send was interrupted: its trouble is no longer so.
        if self._unraised is send:
            self._unraised = next((other for other in self._sends if other.trouble is not None), None)
        self._given.pop(id(send.message), None)

    def _message_of(self, send: GroupSend) -> Message:
        """Made from its record: the object that was sent may have changed, and lacks what was an argument of `send`."""
        message = send.message
        if message is None:
            message = send.message = from_record(
                _SentRecord(send.record), send.destination, 0, False, None, bodies=self._bodies, is_browsed=True
            )
        if send.trouble is not None:
            self._given[id(message)] = send
        return message

    def _failure(self) -> JMSError:
        """The error of the first failure, which from now on counts as raised. The caller holds the lock."""
        send, self._unraised = self._unraised, None
        assert send is not None
        assert send.trouble is not None, send
        error = self._provider.send_error(send.trouble, send.destination)
        count = len(self._sends)
        text = f"{error}; {count} sends are not confirmed, unacknowledged_sends() has them: send them again, in order"
        return type(error)(text, **{**error.values, "unacknowledged": count})


class SendGroups:
    """The groups of one session's producers."""

    def __init__(self) -> None:
        self.threshold = THRESHOLD
        self.by_producer: dict[object, SendGroup] = {}

    def group_of(self, producer: object, provider: Provider, order: SendOrder, bodies: LargeBodies | None) -> SendGroup:
        """The producer's; made when it first needs one."""
        group = self.by_producer.get(producer)
        if group is None:
            group = self.by_producer[producer] = SendGroup(provider, order, bodies)
        return group

    def end(self, wait: Callable[[SendGroup], object], tell: Callable[[Exception], None]) -> None:
        """Wait for all; `tell` gets each error that no call has raised."""
        for group in self.by_producer.values():
            wait(group)
            try:
                group.check()
            except JMSError as error:
                tell(error)


class _SentRecord:
    """A record that was sent, as what a message is read from."""

    def __init__(self, record: Outgoing) -> None:
        self._record = record

    def topic(self) -> str | None:
        return self._record.topic

    def partition(self) -> int | None:
        return self._record.partition

    def offset(self) -> int | None:
        return None

    def key(self) -> bytes | None:
        return self._record.key

    def value(self) -> bytes | None:
        return self._record.value

    def headers(self) -> list[Header] | None:
        return list(self._record.headers)

    def timestamp(self) -> tuple[int, int]:
        return 1, self._record.timestamp_ms or 0
