"""Producers: from messages to records on a queue's topic."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from types import TracebackType
from typing import ClassVar, Final, Self

from jbm_kafka.codec.record_size import batch_bytes, batch_bytes_at_most, compressed_bytes_max
from jbm_kafka.core.call_arguments import explained
from jbm_kafka.core.delivery_mode import DeliveryMode
from jbm_kafka.core.destination import Destination, Topic
from jbm_kafka.core.durations import checked_duration_ms
from jbm_kafka.core.errors import IllegalStateError, InvalidDestinationError, JMSError, MessageTooLargeError
from jbm_kafka.core.markers import UNSET, Unset
from jbm_kafka.core.wrong_values import wrong_type
from jbm_kafka.jms.arguments import as_destination, check_callable, checked_flag, checked_timeout_s
from jbm_kafka.jms.completions import CompletionListener
from jbm_kafka.jms.known_attributes import Check, KnownAttributes
from jbm_kafka.jms.messages import Message
from jbm_kafka.jms.messages_wire import to_record
from jbm_kafka.jms.routing import Routing, UnitOfOrder, check_unit
from jbm_kafka.jms.send_group import SendGroup
from jbm_kafka.jms.send_reports import CallbackReport, WaitedReport
from jbm_kafka.jms.session_core import SessionCore
from jbm_kafka.jms.stamping import (
    SendOptions,
    as_message,
    check_duplicate_id,
    checked_delivery_mode,
    checked_options,
    checked_priority,
    checked_properties,
    set_headers,
    stamp,
)
from jbm_kafka.ports import KafkaClientError, Outgoing, SendReport
from jbm_kafka.ports.provider import TopicInfo

SEND_TIMEOUT_S = 60.0
_PERSISTENT: Final = DeliveryMode.PERSISTENT


@explained
class MessageProducer(KnownAttributes):
    """Made by `session.create_producer`. Attributes are the defaults of its sends."""

    checks: ClassVar[Mapping[str, Check]] = {
        "unit_of_order": check_unit,
        "destination": lambda _, value: None if value is None else as_destination(value),
        "delivery_mode": lambda _, value: checked_delivery_mode(value),
        "priority": lambda _, value: checked_priority(value),
        "time_to_live_ms": checked_duration_ms,
        "delivery_delay_ms": checked_duration_ms,
        "spread": checked_flag,
        "disable_message_id": checked_flag,
        "disable_message_timestamp": checked_flag,
    }

    def __init__(self, session: SessionCore, destination: Destination | None) -> None:
        self._session = session
        self.destination = destination
        self.unit_of_order: UnitOfOrder | Unset = UNSET
        """The unit of its messages; None ends an association, NO_UNIT overrides every default (UNIT-10)."""
        self.delivery_mode = DeliveryMode.PERSISTENT
        self.priority = 4
        self.time_to_live_ms = 0
        self.delivery_delay_ms = 0
        self.spread = False
        """True: messages without a unit go to all partitions in turn, and lose their order among each other."""
        self.disable_message_id = False
        self.disable_message_timestamp = False
        self.is_closed = False
        self._routing = Routing(
            settings_of=session.connection.provider.settings_of,
            default_unit=session.connection.defaults.default_unit_of_order,
            system_unit=session.system_unit,
            without_unit=session.session_id,
        )
        self.take_no_other()
        if not session.is_transacted:
            session.connection.provider.prepare_to_send()

    def send(
        self,
        message: Message | str | bytes | Mapping[str, object],
        *,
        destination: Destination | None = None,
        delivery_mode: DeliveryMode | None = None,
        priority: int | None = None,
        time_to_live_ms: int | None = None,
        delivery_delay_ms: int | None = None,
        unit_of_order: UnitOfOrder | Unset = UNSET,
        duplicate_id: str | None = None,
        properties: Mapping[str, object] | None = None,
        correlation_id: str | None = None,
        reply_to: Destination | None = None,
        type: str | None = None,  # noqa: A002 - its name in JMS
        on_completion: CompletionListener | None = None,
    ) -> Message:
        """Send a message; in a TRANSACTED session it is sent by the commit.

        Without `on_completion` a persistent send returns when every in-sync replica has it (SEND-1), and one in
        PERSISTENT_GROUPACK at once; every n-th of those waits until all before it are confirmed (SEND-3). Returns the
        message with its headers set.

        Raises:
            SendTimeoutError, MessageTooLargeError, JMSError: it counts as not sent (SEND-4); in PERSISTENT_GROUPACK it
                or some before it, and `unacknowledged_sends` tells which.
            MessageFormatError, InvalidDestinationError, InvalidSettingError: it cannot be carried, or an argument is
                not what it should be; nothing was sent.
        """
        if isinstance(message, Destination):
            raise wrong_type("message", message, "the message comes first, as in send(message, destination=…)")
        session = self._session
        has_begun = session.begin_call()
        try:
            self._check_open()
            target = self._target(destination)
            options = checked_options(
                self.delivery_mode if delivery_mode is None else delivery_mode,
                self.priority if priority is None else priority,
                self.time_to_live_ms if time_to_live_ms is None else time_to_live_ms,
                self.delivery_delay_ms if delivery_delay_ms is None else delivery_delay_ms,
            )
            sent, given = as_message(message), checked_properties(properties)
            if duplicate_id is None and session.send_groups.by_producer:
                duplicate_id = None if self._group is None else self._group.duplicate_id(sent)
            check_duplicate_id(duplicate_id)
            check_callable("on_completion", on_completion)
            set_headers(sent, correlation_id=correlation_id, type=type, reply_to=reply_to)
            info = session.connection.provider.ensure(target)
            unit = self._routing.unit(unit_of_order, self.unit_of_order, sent, given, target)
            self._stamp(sent, options, target, unit.name)
            self._dispatch(sent, self._record(sent, info, unit.key, duplicate_id, given), info, on_completion)
            return sent
        finally:
            if has_begun:
                session.guard.leave()

    def flush(self, timeout: float | None = None) -> None:
        """Wait until every send is confirmed or has failed, and its callback has run.

        Raises:
            SendTimeoutError: not so within `timeout` seconds.
            JMSError: a send in PERSISTENT_GROUPACK has failed, and no call has said so.
        """
        timeout_s = checked_timeout_s(SEND_TIMEOUT_S if timeout is None else timeout, f"for {SEND_TIMEOUT_S:g}")
        self._session.connection.flush(threading.TIMEOUT_MAX if timeout_s is None else timeout_s)
        group = self._group
        if group is not None:
            group.check()
            group.forget_given()

    def unacknowledged_sends(self) -> list[Message]:
        """What this producer sent in PERSISTENT_GROUPACK and is not confirmed, in the order sent (SEND-3).

        Sends under way are among them, and those that failed; after a failure some may be in the log. Each is made
        from what was sent, with its unit and its properties: `send(message)` sends it again, and that takes the failed
        one off the list. So does a `flush` that finds nothing wrong, of what was on the list when it was asked for.
        """
        group = self._group
        return [] if group is None else group.unacknowledged()

    def close(self) -> None:
        """Wait for callbacks and for sends in PERSISTENT_GROUPACK; send no more.

        Raises:
            JMSError: one of those has failed, and no call has said so.
        """
        if not self.is_closed:
            self._session.connection.completions.refuse_inside("producer.close()")
            self.is_closed = True
            self._session.connection.completions.wait_done(SEND_TIMEOUT_S)
            group = self._group
            if group is not None:
                group.wait(SEND_TIMEOUT_S)
                group.check()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except JMSError as failure:
            if error is None:
                raise
            self._session.connection.notify_exception(failure)

    # -- one step each -----------------------------------------------------------------------------------------------

    @property
    def _group(self) -> SendGroup | None:
        """Its sends in PERSISTENT_GROUPACK; None before the first."""
        return self._session.send_groups.by_producer.get(self)

    def _check_open(self) -> None:
        if self.is_closed:
            raise IllegalStateError("the producer is closed; make a new one")

    def _target(self, destination: Destination | None) -> Destination:
        if self.destination is not None:
            if destination is not None and destination != self.destination:
                raise IllegalStateError(
                    f"destination is {as_destination(destination)}: this producer sends to {self.destination}; make "
                    f"one without a destination, with create_producer()"
                )
            return self.destination
        if destination is None:
            raise InvalidDestinationError("the producer has no destination: name one in send(destination=…)")
        return as_destination(destination)

    def _stamp(self, message: Message, options: SendOptions, target: Destination, unit: str | None) -> None:
        connection = self._session.connection
        stamp(
            message,
            options,
            destination=target,
            now_ms=connection.provider.clock.now_ms(),
            message_id=None if self.disable_message_id else connection.next_message_id(),
            unit=unit,
        )

    def _record(
        self,
        message: Message,
        info: TopicInfo,
        key: bytes | None,
        duplicate_id: str | None,
        properties: Mapping[str, object],
    ) -> Outgoing:
        stamps = not self.disable_message_timestamp
        encoded = to_record(
            message,
            sender=self._session.connection.sender if isinstance(message.destination, Topic) else None,
            duplicate_id=duplicate_id,
            write_timestamp=stamps and info.is_log_append_time,
            properties=properties,
        )
        return Outgoing(
            topic=info.topic,
            partition=self._routing.partition(info, key, duplicate_id, spread=self.spread),
            key=key,
            value=encoded.value,
            headers=encoded.headers,
            timestamp_ms=message.timestamp if stamps else None,
            batch_bytes_max=info.max_message_bytes,
        )

    def _dispatch(
        self, message: Message, record: Outgoing, info: TopicInfo, on_completion: CompletionListener | None
    ) -> None:
        session = self._session
        if session.is_transacted:
            if on_completion is not None:
                raise IllegalStateError("on_completion is not for transacted sends: the commit tells")
            size = batch_bytes_at_most(record.key, record.value, record.headers)
            if size > info.max_message_bytes:
                self._check_size(message, record, info)
            session.outbox.add(record, size, message.expiration)
            return
        try:
            if on_completion is not None:
                self._send_with_callback(message, record, on_completion)
            elif message.delivery_mode is _PERSISTENT:
                report = WaitedReport(session.send_order)
                self._send_record(record, report, is_waited_for=True)
                report.wait()
            elif message.delivery_mode is DeliveryMode.NON_PERSISTENT:
                self._send_record(record, session.send_order.confirm, is_waited_for=False)
            else:
                self._send_in_group(message, record)
        except KafkaClientError as trouble:
            provider = session.connection.provider
            raise provider.send_error(trouble, as_destination(message.destination)) from None

    def _send_record(self, record: Outgoing, report: SendReport, *, is_waited_for: bool) -> None:
        order = self._session.send_order
        way = order.count(is_waited_for=is_waited_for)
        try:
            self._session.connection.provider.send(record, report, is_waited_for=way)
        except KafkaClientError:
            order.take_back()
            raise

    def _send_in_group(self, message: Message, record: Outgoing) -> None:
        session = self._session
        group = session.send_groups.group_of(self, session.connection.provider, session.send_order)
        destination = as_destination(message.destination)
        group.send(message, record, destination, threshold=session.send_groups.threshold)

    def _check_size(self, message: Message, record: Outgoing, info: TopicInfo) -> None:
        """Raises MessageTooLargeError unless it fits for certain: the whole transaction would fail for it at commit."""
        size = batch_bytes(record.key, record.value, record.headers)
        if size <= info.max_message_bytes:
            return
        may_shrink = info.keeps_compression and self._session.connection.provider.traits.compresses
        if may_shrink and compressed_bytes_max(record.key, record.value, record.headers) <= info.max_message_bytes:
            return
        raise MessageTooLargeError(
            f"{message.destination}: a message of {size} bytes with its properties; its topic takes "
            f"{info.max_message_bytes} (max.message.bytes), and that compression makes it fit is not certain enough "
            f"for a transaction, which would fail with it. Send less, raise max.message.bytes, or send it in a session "
            f"that is not TRANSACTED, where the brokers judge what compression has made of it",
            size_bytes=size,
            max_message_bytes=info.max_message_bytes,
        )

    def _send_with_callback(self, message: Message, record: Outgoing, on_completion: CompletionListener) -> None:
        connection = self._session.connection
        completions, target = connection.completions, as_destination(message.destination)
        pending = completions.expect(message, on_completion)
        report = CallbackReport(completions, pending, connection.provider, target, self._session.send_order)
        try:
            self._send_record(record, report, is_waited_for=False)
        except Exception:
            completions.withdraw(pending)
            raise
