"""A client's producer: what it sends becomes a record, and is accepted when Kafka has it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from proton import Condition, Delivery, Described, ulong

from jbm_kafka.amqp.seams import Client
from jbm_kafka.amqp.told_outcome import TRANSACTIONAL
from jbm_kafka.amqp_wire.conditions import UNKNOWN_TRANSACTION, condition_of
from jbm_kafka.amqp_wire.engine_objects import grant
from jbm_kafka.client.partition_choice import partition_of
from jbm_kafka.codec.amqp.address_forms import parse_address
from jbm_kafka.codec.amqp.decode_transfer import IncomingMessage, decode_transfer
from jbm_kafka.core.destination import Destination, Topic
from jbm_kafka.core.jms_errors import JMSError, MessageTooLargeError
from jbm_kafka.core.temporary_name import TEMPORARY_HEADER, parse_temporary_name
from jbm_kafka.ports import KafkaClientError
from jbm_kafka.ports.kafka import Outgoing
from jbm_kafka.ports.provider import TopicInfo

ACCEPTED = Described(ulong(0x24), [])
CREDIT = 500
VALUES_MAX = 2**18
"""Of one message: while they are read nobody else is served, and each byte of them may take a hundred here."""


class SendLane:
    """What the producers of one session send, in its order (ORDER-1); on the event loop."""

    def __init__(self, without_unit: bytes) -> None:
        """`without_unit`: what has no unit goes to one partition by this."""
        self.without_unit = without_unit
        self.waiting: deque[tuple[Producer, Any, bytes]] = deque()
        """Not sent yet: where the first of them goes is being asked, or one before them waits for room."""
        self.is_asking = False

    def go_on(self, *, is_asked: bool) -> None:
        """Send those that wait. `is_asked`: where the first goes was just asked."""
        self.is_asking = False
        while self.waiting and not self.is_asking:
            producer, delivery, data = self.waiting.popleft()
            producer.take_waiting(delivery, data, is_asked=is_asked)
            is_asked = False


class Producer:
    """Takes one producer's messages, in order; on the event loop."""

    def __init__(self, peer: Client, receiver: Any, target: Destination | None, lane: SendLane) -> None:
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

    def grant(self) -> None:
        """Let the client send more, as far as what it sent is on its way no more."""
        missing = CREDIT - self._receiver.credit - self._unconfirmed - self._waiting
        if missing * 2 >= CREDIT:
            grant(self._receiver, missing)

    def arrived(self, delivery: Any) -> None:
        """A part of a message, or the rest of it."""
        if delivery.aborted:
            self._drop_parts()
            delivery.settle()
            return
        before = self._size
        while delivery.pending:
            part = self._receiver.recv(delivery.pending)
            if not part:
                break
            self._size += len(part)
            self._parts.append(part)
        most = self._peer.settings.limits.message_bytes
        has_room = self._peer.hold_part(self._size - before)
        if self._size > most or not has_room:
            self._drop_parts()
            error = MessageTooLargeError(f"a message of more than {most} bytes; the sidecar takes no larger ones")
            self._peer.refuse(self._receiver, error)
            return
        if delivery.partial:
            return
        data = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._drop_parts()
        self._receiver.advance()
        if self._lane.is_asking:
            self._wait(delivery, len(data))
            self._lane.waiting.append((self, delivery, data))
        else:
            self._take(delivery, data)

    def _drop_parts(self) -> None:
        self._peer.hold_part(-self._size)
        self._parts, self._size = [], 0

    def _wait(self, delivery: Any, size: int) -> None:
        self._waiting += 1
        self._peer.hold(size)
        transaction = self._transaction_of(delivery)
        if transaction is not None:
            transaction.wait()

    def _waited(self, delivery: Any, size: int) -> None:
        self._waiting -= 1
        self._peer.hold(-size)
        transaction = self._transaction_of(delivery)
        if transaction is not None:
            transaction.waited()

    def _transaction_of(self, delivery: Any) -> Any:
        is_in_one = delivery.remote_state == TRANSACTIONAL
        return self._peer.transaction(delivery.remote.data) if is_in_one else None

    def _take(self, delivery: Any, data: bytes, *, is_asked: bool = False) -> None:
        """`is_asked`: where its messages go was just asked; of a temporary destination nothing else is known."""
        peer = self._peer
        try:
            message = decode_transfer(data, now_ms=peer.provider.clock.now_ms(), values_max=VALUES_MAX)
            target = self._target or self._named(message)
            info = self._checked.get(target)
            unit = message.unit
            if info is None or (not is_asked and info is not peer.provider.known_topic(target.name)):
                self._ask(delivery, data, target, None)
                return
            temporary = parse_temporary_name(target.name) if target.is_temporary else None
            if temporary is not None:
                partition: int | None = temporary.partition
            else:
                repeated = None if message.duplicate_id is None else message.duplicate_id.encode()
                partition = partition_of(info, unit, repeated, self._lane.without_unit)
            if partition is None:
                self._ask(delivery, data, target, unit)
                return
            self._send(delivery, message, target, info, partition)
        except JMSError as error:
            self._reject(delivery, error)

    def _named(self, message: IncomingMessage) -> Destination:
        target = parse_address(message.to or "", message.to_kind)
        self._peer.authorise("send", target)
        return target

    def _ask(self, delivery: Any, data: bytes, target: Destination, unit: bytes | None) -> None:
        self._lane.is_asking = True
        self._wait(delivery, len(data))
        self._lane.waiting.appendleft((self, delivery, data))
        self._peer.spawn(self._found(target, unit), self._receiver)

    async def _found(self, target: Destination, unit: bytes | None) -> None:
        """Find where messages of a target go, and then send those that wait."""
        provider = self._peer.provider

        def find() -> TopicInfo:
            info = provider.ensure_to_send(target)
            provider.check_sendable(target)
            if unit is not None:
                provider.place_unit(target.name, unit)
            return info

        is_found = False
        try:
            self._checked[target] = await self._peer.call(find)
            is_found = True
        except JMSError as error:
            self._reject(self._lane.waiting[0][1], error)
        finally:  # whatever the error, its session's other producers go on
            if not is_found:
                _, delivery, data = self._lane.waiting.popleft()
                self._waited(delivery, len(data))
            self._go_on(is_asked=is_found)

    def _go_on(self, *, is_asked: bool) -> None:
        self._lane.go_on(is_asked=is_asked)
        self._peer.touch()

    def take_waiting(self, delivery: Any, data: bytes, *, is_asked: bool) -> None:
        """Send one that waited in the lane."""
        self._take(delivery, data, is_asked=is_asked)
        self._waited(delivery, len(data))

    def _send(
        self, delivery: Any, message: IncomingMessage, target: Destination, info: TopicInfo, partition: int
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

    def _send_in_transaction(self, delivery: Any, record: Outgoing, message: IncomingMessage) -> None:
        data = delivery.remote.data
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

    def _reported(self, delivery: Any, target: Destination, size: int, error: KafkaClientError | None) -> None:
        self._peer.mailbox.post(partial(self._confirmed, delivery, target, size, error))

    def _confirmed(self, delivery: Any, target: Destination, size: int, error: KafkaClientError | None) -> None:
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

    def _reject(self, delivery: Any, error: JMSError) -> None:
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
