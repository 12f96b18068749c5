"""The way of every message of one producer: from what the application gave to its record and to the report of its end.

Compiled, and in one place, because a send is short: what Python spends on calls between parts was half of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from jbm_kafka.codec.record_size import batch_bytes, batch_bytes_at_most, compressed_bytes_max
from jbm_kafka.core.delivery_mode import DeliveryMode
from jbm_kafka.core.destination import Destination, Topic
from jbm_kafka.core.jms_errors import IllegalStateError, MessageTooLargeError
from jbm_kafka.core.temporary_name import TEMPORARY_HEADER, TemporaryName, parse_temporary_name
from jbm_kafka.jms.messages.message import Message
from jbm_kafka.jms.messages.messages_wire import checked_given, to_record
from jbm_kafka.jms.sends.routing import Routing
from jbm_kafka.jms.sends.send_headers import (
    as_message,
    checked_duplicate_id,
    checked_options,
    checked_properties,
    set_headers,
    stamp,
    with_raw_headers,
)
from jbm_kafka.jms.sends.send_reports import CallbackReport, SendError, WaitedReport
from jbm_kafka.jms.shared.session_core import SessionCore
from jbm_kafka.ports.kafka import KafkaClientError, SendReport
from jbm_kafka.ports.provider import TopicInfo
from jbm_kafka.ports.record_to_send import Outgoing

# A member of an Enum costs a look-up through its class each time; this is asked for every message.
_PERSISTENT: Final = DeliveryMode.PERSISTENT
_NON_PERSISTENT: Final = DeliveryMode.NON_PERSISTENT
_NOTHING: Final[Mapping[str, object]] = MappingProxyType({})


class Sending:
    """The way of one producer's messages."""

    def __init__(self, session: SessionCore, routing: Routing) -> None:
        self._session = session
        self._routing = routing
        self._is_transacted = session.is_transacted
        self._order = session.send_order
        self._sent = session.sent
        self._groups = session.send_groups
        # What is looked up in objects that are not compiled, once instead of for each message.
        connection = session.connection
        self._completions = connection.completions
        self._provider = connection.provider
        self._bodies = connection.defaults.large_bodies
        self._target: Destination | None = None
        self._info: TopicInfo | None = None
        """The topic of the last message, found fit to send to: so it is for as long as the topic is what it was."""
        self._temporary: TemporaryName | None = None
        """The parts of the name of the last message's destination, if that is a temporary one."""
        self._next_id: Callable[[], str] = connection.next_message_id
        self._now_ms: Callable[[], int] = connection.provider.clock.now_ms

    def send(
        self,
        message: object,
        target: Destination,
        delivery_mode: object,
        priority: object,
        time_to_live_ms: object,
        delivery_delay_ms: object,
        unit_of_order: object,
        unit_of_producer: object,
        duplicate_id: Any,
        properties: object,
        correlation_id: object,
        type: object,  # noqa: A002 - its name in JMS
        reply_to: object,
        on_completion: Any,
        headers: Any,
        spread: bool,
        disable_message_id: bool,
        disable_message_timestamp: bool,
    ) -> Message:
        """Send one message; see MessageProducer.send. By position: by name each argument costs more."""
        options = checked_options(delivery_mode, priority, time_to_live_ms, delivery_delay_ms)
        sent = as_message(message)
        given: Mapping[str, object] = _NOTHING if properties is None else checked_properties(properties)
        if duplicate_id is None and self._groups.by_producer:
            group = self._groups.by_producer.get(self)
            duplicate_id = None if group is None else group.duplicate_id(sent)
        if duplicate_id is not None:
            duplicate_id = checked_duplicate_id(duplicate_id)
        if on_completion is not None:
            self._completions.check(on_completion)
        set_headers(sent, correlation_id=correlation_id, type=type, reply_to=reply_to)
        info = self._info
        if info is None or target is not self._target or info is not self._provider.known_topic(target.name):
            info = self._find(target)
        unit = self._routing.unit(unit_of_order, unit_of_producer, sent, given, target)
        now_ms = self._now_ms()
        message_id = None if disable_message_id else self._next_id()
        stamp(sent, options, destination=target, now_ms=now_ms, message_id=message_id, unit=unit.name)
        if given and sent is not message:  # made here, so that they change nothing that the application sends again
            sent._properties, given = checked_given(given), _NOTHING
        has_timestamp = not disable_message_timestamp
        encoded = to_record(
            sent,
            sender=self._session.connection.sender if isinstance(target, Topic) else None,
            duplicate_id=duplicate_id,
            write_timestamp=has_timestamp and info.is_log_append_time,
            properties=given,
        )
        bodies = self._bodies
        if bodies is not None and encoded.value is not None and len(encoded.value) > bodies.limit_bytes:
            encoded.headers += bodies.keep(encoded.value, now_ms)
            encoded.value = None
        if headers:
            encoded.headers = with_raw_headers(encoded.headers, headers)
        if (place := self._temporary) is not None:
            encoded.headers.append((TEMPORARY_HEADER, target.name.encode()))
        partition = place.partition if place else self._routing.partition(info, unit, duplicate_id, spread=spread)
        # A tuple of values is soon none of the garbage collector's business; a list stays that until the report.
        named, timestamp_ms, most = tuple(encoded.headers), now_ms if has_timestamp else None, info.max_message_bytes
        record = Outgoing(info.topic, partition, unit.key, encoded.value, named, timestamp_ms, most)
        if self._is_transacted:
            self._keep_for_commit(sent, record, info, on_completion)
        else:
            self._send(sent, record, target, on_completion)
        return sent

    def _find(self, target: Destination) -> TopicInfo:
        info = self._info = self._provider.ensure_to_send(target)
        self._provider.check_sendable(target)
        self._target = target
        self._temporary = parse_temporary_name(target.name) if target.is_temporary else None
        return info

    def _send(self, message: Message, record: Outgoing, target: Destination, on_completion: Any) -> None:
        try:
            if on_completion is not None:
                self._send_with_callback(message, record, target, on_completion)
            elif message.delivery_mode is _PERSISTENT:
                report = WaitedReport(self._order)
                self._send_record(record, report, True)
                report.wait()
            elif message.delivery_mode is _NON_PERSISTENT:
                self._send_record(record, self._order.confirm, False)
            else:
                group = self._groups.group_of(self, self._provider, self._order, self._bodies)
                group.send(message, record, target, threshold=self._groups.threshold)
        except KafkaClientError as trouble:
            raise self._provider.send_error(trouble, target) from None
        self._sent[record.topic] = self._sent.get(record.topic, 0) + 1

    def _send_with_callback(self, message: Message, record: Outgoing, target: Destination, on_completion: Any) -> None:
        completions = self._completions
        send_error: SendError = self._provider.send_error
        report = CallbackReport(message, on_completion, completions.wake, self._order, send_error, target)
        completions.begin()
        self._send_record(record, report, False)
        completions.expect(report)

    def _send_record(self, record: Outgoing, report: SendReport, is_waited_for: bool) -> None:
        way = self._order.count(is_waited_for=is_waited_for)
        try:
            self._provider.send(record, report, is_waited_for=way)
        except KafkaClientError:
            self._order.take_back()
            raise

    def _keep_for_commit(self, message: Message, record: Outgoing, info: TopicInfo, on_completion: object) -> None:
        if on_completion is not None:
            raise IllegalStateError("on_completion is not for transacted sends: commit() reports their failures")
        size = batch_bytes_at_most(record.key, record.value, record.headers)
        if size > info.max_message_bytes:
            self._check_size(message, record, info)
        self._session.outbox.add(record, size, message.expiration)

    def _check_size(self, message: Message, record: Outgoing, info: TopicInfo) -> None:
        """Raises MessageTooLargeError unless it fits for certain: the whole transaction would fail for it at commit."""
        size = batch_bytes(record.key, record.value, record.headers)
        if size <= info.max_message_bytes:
            return
        may_shrink = info.keeps_compression and self._provider.traits.compresses
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
