"""A client's producer: what it sends becomes a record, and is accepted when Kafka has it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from proton import Condition, Delivery, Described, ulong

from jbm_kafka.amqp.access import ANONYMOUS
from jbm_kafka.amqp.client_outcome import TRANSACTIONAL
from jbm_kafka.amqp.part_protocols import Client
from jbm_kafka.amqp_wire.conditions import UNKNOWN_TRANSACTION, condition_of
from jbm_kafka.amqp_wire.engine_objects import EngineDelivery, EngineReceiver, Work, grant
from jbm_kafka.client.bodies.large_bodies import LargeBodies
from jbm_kafka.client.partition_choice import partition_of
from jbm_kafka.codec.amqp.address_forms import parse_address
from jbm_kafka.codec.amqp.decode_transfer import IncomingMessage, decode_transfer
from jbm_kafka.codec.amqp.forms import USER_ID, USER_ID_HEADER
from jbm_kafka.codec.amqp.values import Budget
from jbm_kafka.codec.property_header import Property, property_header
from jbm_kafka.codec.scan import Header
from jbm_kafka.core.destination import Destination, Topic
from jbm_kafka.core.jms_errors import (
    JMSError,
    JMSSecurityError,
    MessageFormatError,
    MessageTooLargeError,
    ResourceAllocationError,
)
from jbm_kafka.core.temporary_name import TEMPORARY_HEADER, parse_temporary_name
from jbm_kafka.ports import KafkaClientError
from jbm_kafka.ports.kafka import Outgoing
from jbm_kafka.ports.provider import TopicInfo

ACCEPTED = Described(ulong(0x24), [])
CREDIT = 500
AT_ONCE_BYTES = 2**16
AT_ONCE_VALUES = 2_000
"""A message with more than this or that is read beside the loop: while one is read on it nobody else is served."""
VALUES_MAX = 1_000_000
"""The values of one message; each byte of them may take a hundred here."""
Taken = bytes | bytearray | IncomingMessage
"""A message as it came, or read."""


@dataclass(slots=True)
class Unsent:
    """One message in a lane."""

    producer: Producer
    delivery: EngineDelivery
    taken: Taken
    size: int


class SendLane:
    """The lane of what the producers of one session send, in its order (ORDER-1); on the event loop."""

    def __init__(self, without_unit: bytes) -> None:
        """`without_unit`: what has no unit goes to one partition by this."""
        self.without_unit = without_unit
        self.waiting: deque[Unsent] = deque()
        """Not sent yet: the first is being read, or asked where it goes, or one before them waits for room."""
        self.is_asking = False

    def go_on(self, *, is_asked: bool) -> None:
        """Send those that wait. `is_asked`: where the first goes was just asked."""
        self.is_asking = False
        while self.waiting and not self.is_asking:
            first = self.waiting.popleft()
            first.producer.take_waiting(first, is_asked=is_asked)
            is_asked = False


def verify_user(headers: list[Header], user: str, how: Literal["check", "set"]) -> None:
    """Compare the user-id among a message's headers with its sender's user, or put that there; "" if anonymous.

    Raises:
        JMSSecurityError: it names somebody else.
    """
    own = b"" if user == ANONYMOUS else user.encode()
    said = [each for each in headers if each[0].split(".", 2)[2:] == [USER_ID] or each[0] == USER_ID_HEADER]
    if how == "check":
        for _, value in said:
            if value and value != own:
                raise JMSSecurityError(f"user-id {value!r:.200} is not the sender's, {user!r}: leave it out", user=user)
        return
    for each in said:
        headers.remove(each)
    if own:
        headers.append(property_header(USER_ID, Property("string", user)))


class Producer:
    """Takes one producer's messages, in order; on the event loop."""

    def __init__(self, peer: Client, receiver: EngineReceiver, target: Destination | None, lane: SendLane) -> None:
        """`target`: None where each message names its own; `lane`: its session's."""
        self._peer = peer
        self._receiver = receiver
        self._target = target
        self._lane = lane
        self._parts: list[bytes] = []
        self._size = 0
        self._waiting = 0
        """How many in the lane are its own."""
        self._checked: dict[Destination, TopicInfo] = {}
        self._unconfirmed = 0
        self.is_closed = False

    @property
    def under_way(self) -> int:
        """How many messages came and are not confirmed."""
        return self._unconfirmed + self._waiting

    def grant(self) -> None:
        """Let the client send more, as far as what it sent is on its way no more."""
        missing = CREDIT - self._receiver.credit - self.under_way
        if missing * 2 >= CREDIT:
            grant(self._receiver, missing)

    def arrived(self, delivery: EngineDelivery) -> None:
        """A part of a message, or the rest of it."""
        if delivery.aborted:
            self._drop_parts()
            delivery.settle()
            self.grant()  # it has used up credit
            return
        before = self._size
        while delivery.pending:
            part = self._receiver.recv(delivery.pending)
            if not part:
                break
            self._size += len(part)
            self._parts.append(part)
        most = self._peer.settings.limits.message_bytes
        if self._size > most:
            self._drop_parts()
            error = MessageTooLargeError(f"a message of more than {most} bytes; the sidecar takes no larger ones")
            self._peer.refuse(self._receiver, error)
            return
        if delivery.partial:
            self._hold_parts(self._size - before)
            return
        data = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._drop_parts()
        self._receiver.advance()
        if self._lane.is_asking:
            self._wait(delivery, len(data))
            self._lane.waiting.append(Unsent(self, delivery, data, len(data)))
        else:
            self._take(delivery, data, len(data))

    def _hold_parts(self, size: int) -> None:
        unfinished = self._peer.server.unfinished
        over = unfinished.add(self._peer.whose, self, size)
        while over is not None:
            ended, limit = over
            ended.end_unfinished(limit)
            over = unfinished.add(self._peer.whose, self, 0) if self._parts else None

    def end_unfinished(self, limit: str) -> None:
        """Its parts are too many: its link ends."""
        self._drop_parts()
        error = ResourceAllocationError(f"unfinished messages have more than {limit}; send the rest of each first")
        self._peer.refuse(self._receiver, error)
        self._peer.touch()

    def _drop_parts(self) -> None:
        if self._parts:
            self._peer.server.unfinished.drop(self._peer.whose, self)
            self._parts, self._size = [], 0

    def _wait(self, delivery: EngineDelivery, size: int) -> None:
        self._waiting += 1
        self._peer.hold(size)
        transaction = self._transaction_of(delivery)
        if transaction is not None:
            transaction.wait()

    def _waited(self, delivery: EngineDelivery, size: int) -> None:
        self._waiting -= 1
        self._peer.hold(-size)
        transaction = self._transaction_of(delivery)
        if transaction is not None:
            transaction.waited()

    def _transaction_of(self, delivery: EngineDelivery) -> Any:
        is_in_one = delivery.remote_state == TRANSACTIONAL
        return self._peer.transaction(delivery.remote.data) if is_in_one else None

    def _take(self, delivery: EngineDelivery, taken: Taken, size: int, *, is_asked: bool = False) -> None:
        """`is_asked`: where its messages go was just asked; of a temporary destination nothing else is known."""
        peer = self._peer
        try:
            message = taken if isinstance(taken, IncomingMessage) else self._read_at_once(taken)
            if message is None:
                self._ask(delivery, taken, size, self._read_beside(), is_asked=False)
                return
            if peer.settings.verify_user_id != "off":
                verify_user(message.headers, peer.user, peer.settings.verify_user_id)
            target = self._target or self._named(message)
            info = self._checked.get(target)
            unit = message.unit
            if info is None or (not is_asked and info is not peer.provider.known_topic(target.name)):
                self._ask(delivery, message, size, self._find(target, None), is_asked=True)
                return
            bodies, value = peer.settings.large_bodies, message.value
            if bodies is not None and value is not None and len(value) > bodies.limit_bytes:
                self._ask(delivery, message, size, self._keep_beside(message, bodies, value), is_asked=is_asked)
                return
            temporary = parse_temporary_name(target.name) if target.is_temporary else None
            if temporary is not None:
                partition: int | None = temporary.partition
            else:
                repeated = None if message.duplicate_id is None else message.duplicate_id.encode()
                partition = partition_of(info, unit, repeated, self._lane.without_unit)
            if partition is None:
                self._ask(delivery, message, size, self._find(target, unit), is_asked=True)
                return
            self._send(delivery, message, target, info, partition)
        except JMSError as error:
            self._reject(delivery, error)

    def _named(self, message: IncomingMessage) -> Destination:
        target = parse_address(message.to or "", message.to_kind, self._peer.settings.aliases)
        self._peer.authorise("send", target)
        return target

    def _read_at_once(self, data: bytes | bytearray) -> IncomingMessage | None:
        """None: there is more to read than others should wait for. No more than so much was looked at."""
        if len(data) > AT_ONCE_BYTES:
            return None
        budget = Budget(AT_ONCE_VALUES)
        try:
            return self._decoded(data, budget)
        except MessageFormatError:
            if budget.is_exceeded:
                return None
            raise

    async def _read_beside(self) -> None:
        """Read the first that waits. What its session sends after it waits too."""
        peer, first = self._peer, self._lane.waiting[0]
        assert not isinstance(first.taken, IncomingMessage), "it is read once"
        budget = Budget(VALUES_MAX, _let_others_run)
        first.taken = await peer.server.beside.do(peer.whose, partial(self._decoded, first.taken, budget))

    def _decoded(self, data: bytes | bytearray, budget: Budget) -> IncomingMessage:
        peer = self._peer
        now_ms, aliases = peer.provider.clock.now_ms(), peer.settings.aliases
        return decode_transfer(data, now_ms=now_ms, budget=budget, aliases=aliases)

    async def _keep_beside(self, message: IncomingMessage, bodies: LargeBodies, value: bytes) -> None:
        """Keep a large body, and have the message name it. What its session sends after it waits too."""
        now_ms = self._peer.provider.clock.now_ms()
        message.headers += await self._peer.call(partial(bodies.keep, value, now_ms))
        message.value = None

    def _ask(
        self,
        delivery: EngineDelivery,
        taken: Taken,
        size: int,
        work: Work,
        *,
        is_asked: bool,
    ) -> None:
        """`is_asked`: where its messages go was just asked, or is by `work`."""
        self._lane.is_asking = True
        self._wait(delivery, size)
        self._lane.waiting.appendleft(Unsent(self, delivery, taken, size))
        self._peer.spawn(self._asked(work, is_asked=is_asked), self._receiver)

    async def _asked(self, work: Work, *, is_asked: bool) -> None:
        """Do what the first that waits needs, and then send those that wait."""
        is_done = False
        try:
            await work
            is_done = True
        except JMSError as error:
            self._reject(self._lane.waiting[0].delivery, error)
        finally:  # whatever the error, its session's other producers go on
            if not is_done:
                first = self._lane.waiting.popleft()
                self._waited(first.delivery, first.size)
            self._go_on(is_asked=is_asked and is_done)

    async def _find(self, target: Destination, unit: bytes | None) -> None:
        """Find where messages of a target go."""
        provider = self._peer.provider

        def find() -> TopicInfo:
            info = provider.ensure_to_send(target)
            provider.check_sendable(target)
            if unit is not None:
                provider.place_unit(target.name, unit)
            return info

        await self._peer.may_make(target)
        self._checked[target] = await self._peer.call(find)

    def _go_on(self, *, is_asked: bool) -> None:
        self._lane.go_on(is_asked=is_asked)
        self._peer.touch()

    def take_waiting(self, waiting: Unsent, *, is_asked: bool) -> None:
        """Send one that waited in the lane."""
        self._take(waiting.delivery, waiting.taken, waiting.size, is_asked=is_asked)
        self._waited(waiting.delivery, waiting.size)

    def _send(
        self, delivery: EngineDelivery, message: IncomingMessage, target: Destination, info: TopicInfo, partition: int
    ) -> None:
        peer, headers = self._peer, message.headers
        if isinstance(target, Topic):
            headers.append(("JBMSender", peer.sender.encode()))
        if info.is_log_append_time:
            headers.append(("JMSTimestamp", str(message.timestamp_ms).encode()))
        if target.is_temporary:
            headers.append((TEMPORARY_HEADER, target.name.encode()))
        record = Outgoing(
            info.topic,
            partition,
            message.unit,
            message.value,
            tuple(headers),
            message.timestamp_ms,
            info.max_message_bytes,
        )
        if delivery.remote_state == TRANSACTIONAL:
            self._send_in_transaction(delivery, record, message)
            return
        self._unconfirmed += 1
        size = len(message.value or b"")
        peer.hold(size)
        report = partial(self._reported, delivery, target, size)
        try:
            is_sent = not peer.sends_beside and peer.provider.try_send(record, report, is_waited_for=True)
        except KafkaClientError:
            is_sent = False  # `send` does what helps, as asking Kafka anew where a partition is
        if is_sent:
            peer.server.sent[record.topic] += 1
        else:
            self._lane.is_asking = True
            peer.sends_beside += 1
            peer.spawn(self._send_beside(record, report), self._receiver)

    async def _send_beside(self, record: Outgoing, report: Callable[[KafkaClientError | None], None]) -> None:
        """Send when there is room, for which the loop cannot wait; what its session sends after it waits too."""
        peer = self._peer
        try:
            await peer.call(partial(peer.provider.send, record, report, is_waited_for=True))
            peer.server.sent[record.topic] += 1
        except KafkaClientError as error:
            report(error)
        finally:
            peer.sends_beside -= 1
            self._go_on(is_asked=False)

    def _send_in_transaction(self, delivery: EngineDelivery, record: Outgoing, message: IncomingMessage) -> None:
        data = delivery.remote.data or [b""]
        transaction = self._peer.transaction(data)
        if transaction is None:
            delivery.local.condition = Condition(UNKNOWN_TRANSACTION, "there is no such transaction")
            delivery.update(Delivery.REJECTED)
        else:
            transaction.add(record, message.expiration_ms)
            delivery.local.data = [data[0], ACCEPTED]
            delivery.update(TRANSACTIONAL)
        delivery.settle()
        self.grant()

    def _reported(
        self, delivery: EngineDelivery, target: Destination, size: int, error: KafkaClientError | None
    ) -> None:
        self._peer.mailbox.post(partial(self._confirmed, delivery, target, size, error))

    def _confirmed(
        self, delivery: EngineDelivery, target: Destination, size: int, error: KafkaClientError | None
    ) -> None:
        self._unconfirmed -= 1
        self._peer.hold(-size)
        if self.is_closed or self._peer.is_over:
            return
        if error is not None:
            self._reject(delivery, self._peer.provider.send_error(error, target))
            return
        delivery.update(Delivery.ACCEPTED)
        delivery.settle()
        self.grant()
        self._peer.touch()

    def _reject(self, delivery: EngineDelivery, error: JMSError) -> None:
        if delivery.remote_state == TRANSACTIONAL:
            transaction = self._peer.transaction(delivery.remote.data)
            if transaction is not None:
                transaction.failure = transaction.failure or error
        elif delivery.settled:  # its sender hears of no outcome
            delivery.settle()
            self._peer.refuse(self._receiver, error)
            return
        delivery.local.condition = condition_of(error)
        delivery.update(Delivery.REJECTED)
        delivery.settle()
        self.grant()
        self._peer.touch()

    async def close(self, *, is_lost: bool, ends: bool) -> None:
        """Nothing more is confirmed to it."""
        self._drop_parts()
        self.is_closed = True


def _let_others_run() -> None:
    """Compiled code keeps the interpreter, and Python's own does for 5 ms."""
    time.sleep(0)
