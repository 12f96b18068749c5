"""Producers: from messages to records on a queue's topic."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from datetime import datetime
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Self

from jbm_kafka.core.delivery_mode import DeliveryMode
from jbm_kafka.core.destination import Destination
from jbm_kafka.core.durations import Duration, checked_duration_ms
from jbm_kafka.core.jms_errors import IllegalStateError, InvalidDestinationError, JMSError
from jbm_kafka.core.sentinels import UNSET, Unset
from jbm_kafka.core.wrong_values import did_you_mean, shown
from jbm_kafka.jms.base.arguments import as_destination, checked_flag, checked_timeout_s
from jbm_kafka.jms.base.one_process import refuse_pickle
from jbm_kafka.jms.messages.header_values import checked_delivery_mode, checked_priority
from jbm_kafka.jms.messages.message import Message
from jbm_kafka.jms.sending import Sending
from jbm_kafka.jms.sends.routing import Routing, UnitOfOrder, checked_unit
from jbm_kafka.jms.sends.send_group import SendGroup
from jbm_kafka.jms.sends.send_headers import checked_mapping, instead_of_delay, json_message, schema_message
from jbm_kafka.jms.sends.send_reports import CompletionListener
from jbm_kafka.jms.sends.tracing import SendTrace
from jbm_kafka.jms.shared.session_core import SessionCore

SEND_TIMEOUT_S = 60.0


_SETTINGS: Mapping[str, Callable[[str, object], object]] = MappingProxyType(
    {
        "unit_of_order": lambda _, value: checked_unit(value),
        "delivery_mode": lambda _, value: checked_delivery_mode(value),
        "priority": lambda _, value: checked_priority(value),
        "time_to_live_ms": checked_duration_ms,
        "delivery_delay_ms": checked_duration_ms,
        "spread": checked_flag,
        "disable_message_id": checked_flag,
        "disable_message_timestamp": checked_flag,
    }
)
"""The settings of a producer by name: each makes the value that is kept, or raises."""


class MessageProducer:
    """Sends. Made by `session.create_producer`. As a context manager it closes itself.

    send: a message, with options for this one.
    flush: wait until all is confirmed.
    unacknowledged_sends: what was sent in PERSISTENT_GROUPACK and is not confirmed.
    close: wait for what is under way, and send no more.

    What it is: destination, is_closed.

    Attributes are the defaults of its sends:

    unit_of_order: the unit of its messages; None, as it is unless set: that which the message, the destination or the
        factory says; NO_UNIT: none, whatever they say; SYSTEM_GENERATED: one of the session's own.
    delivery_mode: a DeliveryMode, PERSISTENT unless set.
    priority: 0 to 9, 4 unless set; the higher first.
    time_to_live_ms: after that a message expires; 0: never.
    delivery_delay_ms: a message is not delivered earlier; 0: at once.
    spread: True: messages without a unit go to all partitions in turn, and lose their order among each other.
    disable_message_id, disable_message_timestamp: True: its messages get none.
    """

    __reduce__ = refuse_pickle

    unit_of_order: UnitOfOrder = None
    """The unit of its messages; None: as the message or the defaults say, NO_UNIT: none at all."""
    delivery_mode: DeliveryMode = DeliveryMode.PERSISTENT
    """The confirmation of a send: by Kafka, by nobody, or of a group of sends together."""
    priority: int = 4
    """0 to 9, the highest first."""
    time_to_live_ms: int = 0
    """ms from the send until the message expires; 0: never."""
    delivery_delay_ms: int = 0
    """ms from the send until the message may be delivered; 0: at once."""
    spread: bool = False
    """True: messages without a unit go to all partitions in turn, and lose their order among each other."""
    disable_message_id: bool = False
    """True: its messages get no id; receivers see one made of the record's place."""
    disable_message_timestamp: bool = False
    """True: its messages do not tell when they were sent."""

    def __init__(self, session: SessionCore, destination: Destination | None) -> None:
        self._session = session
        self._destination = destination
        self._has_closed = False
        routing = Routing(
            settings_of=session.connection.provider.settings_of,
            default_unit=session.connection.defaults.default_unit_of_order,
            system_unit=session.system_unit,
            without_unit=session.session_id,
            place_unit=session.connection.provider.place_unit,
        )
        self._sending = Sending(session, routing)
        if not session.is_transacted:
            session.connection.provider.prepare_to_send()

    if not TYPE_CHECKING:  # a type checker would take it for "any name can be set"

        def __setattr__(self, name: str, value: object) -> None:
            """Refuse a setting that does not exist: misspelt, it would be ignored by every send."""
            if name in _SETTINGS:
                value = _SETTINGS[name](name, value)
                if self.is_closed:
                    raise IllegalStateError(f"{name} of a closed MessageProducer: it does nothing more; make a new one")
            elif not name.startswith("_") and not hasattr(type(self), name):
                known = f"its settings are {', '.join(_SETTINGS)}{did_you_mean(name, _SETTINGS)}"
                raise AttributeError(f"a MessageProducer has no {shown(name)}; {known}", name=name, obj=self)
            object.__setattr__(self, name, value)

    @property
    def destination(self) -> Destination | None:
        """Return where its messages go; None: each send names it."""
        return self._destination

    @property
    def is_closed(self) -> bool:
        """Return True if it was closed, or its session was."""
        return self._has_closed or self._session.is_closed

    def send(
        self,
        message: Message | str | bytes | Mapping[str, object] | Unset = UNSET,
        *,
        json: object = UNSET,
        destination: Destination | None = None,
        delivery_mode: DeliveryMode | None = None,
        priority: int | None = None,
        time_to_live_ms: Duration | None = None,
        delivery_delay_ms: Duration | None = None,
        deliver_at: datetime | None = None,
        unit_of_order: UnitOfOrder | Unset = UNSET,
        duplicate_id: str | None = None,
        properties: Mapping[str, object] | None = None,
        correlation_id: str | None = None,
        reply_to: Destination | None = None,
        type: str | None = None,  # noqa: A002 - its name in JMS
        headers: Mapping[str, bytes | None] | None = None,
        on_completion: CompletionListener | None = None,
    ) -> Message:
        """Send a message; in a TRANSACTED session it is sent by the commit.

        Without `on_completion` a persistent send returns when every in-sync replica has it, and one in
        PERSISTENT_GROUPACK at once; every n-th of those waits until all before it are confirmed. Returns the
        message with its headers set, and with `properties` unless it is a Message that was given.

        Args:
            message: a Message, str, bytes or dict; destination: a Queue or Topic, for a producer made without one.
            json: in place of a message: any value of JSON, a dataclass or a Pydantic model; `message.json()` reads it.
            delivery_mode, priority, time_to_live_ms, delivery_delay_ms: None: as the producer's attribute says, and
                those are PERSISTENT, 4 of 0 to 9, 0 ms (never expires) and 0 ms (at once) unless set; or a timedelta.
            deliver_at: in place of a delay: not before then; a datetime with a time zone.
            unit_of_order: what it stays in order with; not given: as the producer's attribute says; NO_UNIT: nothing.
            duplicate_id: of messages with one id the queue delivers the first; None: each.
            properties, correlation_id, reply_to, type: for the application's own use; the first: simple values by name.
            headers: Kafka headers as they are, such as `traceparent`; `message.kafka.headers` has them.
            on_completion: called as (message, error) in the order of sending, and send returns at once; None: it waits.

        Raises:
            SendTimeoutError: not confirmed in some 30 s; perhaps it is sent. Send again with the same `duplicate_id`.
            MessageTooLargeError, JMSError: it counts as not sent. In PERSISTENT_GROUPACK this and a time-out may be of
                sends before it, and `unacknowledged_sends` lists them.
            MessageFormatError, InvalidDestinationError, InvalidSettingError, InvalidTypeError: it cannot be sent so.
            OrderError: the unit's name cannot be one, or its partition cannot be written now; nothing was sent.
            IllegalStateError: closed, paused, in use by another thread or process, or `on_completion` in a transaction.
        """
        if self._has_closed:  # before the session is looked at: one in use is free later, and this never opens again
            raise self._closed()
        raw: Mapping[str, bytes | None] | None = headers
        if json is not UNSET:
            message, raw = json_message(message, json, headers)
        elif headers is not None:
            raw = checked_mapping(headers)
        made: object = message
        if (codecs := self._session.connection.defaults.codecs) is not None:
            made, raw = schema_message(codecs, self._target(destination), message, raw)
        delay: object = self.delivery_delay_ms if delivery_delay_ms is None else delivery_delay_ms
        if deliver_at is not None:
            delay = instead_of_delay(deliver_at, delivery_delay_ms)
        trace: SendTrace | None = None
        if (tracing := self._session.connection.defaults.tracing) is not None:
            target = self._target(destination)
            if on_completion is not None:
                self._session.connection.completions.check(on_completion)
            trace = tracing.begin_send(target)
            raw = {**trace.headers, **(raw or {})}
            on_completion = on_completion and _traced(on_completion, trace)
        was_own = (guard := self._session.guard).is_own
        try:
            is_begun = self._session.begin_call()
            if self._has_closed:  # since it was looked at
                raise self._closed()
            sent = self._sending.send(
                made,
                (self._destination if destination is None else None) or self._target(destination),
                self.delivery_mode if delivery_mode is None else delivery_mode,
                self.priority if priority is None else priority,
                self.time_to_live_ms if time_to_live_ms is None else time_to_live_ms,
                delay,
                unit_of_order, self.unit_of_order, duplicate_id, properties, correlation_id, type, reply_to,
                on_completion, raw, self.spread, self.disable_message_id, self.disable_message_timestamp,
            )  # fmt: skip
            if is_begun:
                guard.leave()
        except BaseException as error:
            guard.break_off(was_own=was_own)
            if trace is not None:
                trace.end(None, error)
            raise
        if trace is not None and on_completion is None:
            trace.end(sent, None)
        return sent

    def flush(self, timeout: float | None = None) -> None:
        """Wait until every send is confirmed or has failed, and its callback has run.

        Raises:
            SendTimeoutError: not so within `timeout` seconds.
            JMSError: a send in PERSISTENT_GROUPACK has failed, and no call has said so.
            IllegalStateError: it is called in an `on_completion`, or in another process than it was made in.
            InvalidSettingError: `timeout` is negative; of a wrong type InvalidTypeError.
        """
        timeout_s = checked_timeout_s(SEND_TIMEOUT_S if timeout is None else timeout, f"for {SEND_TIMEOUT_S:g}")
        self._session.connection.check_process()
        self._session.connection.flush(threading.TIMEOUT_MAX if timeout_s is None else timeout_s)
        group = self._group
        if group is not None:
            group.check()
            group.forget_given()

    def unacknowledged_sends(self) -> list[Message]:
        """Return what this producer sent in PERSISTENT_GROUPACK and is not confirmed, in the order sent.

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
        self._session.connection.completions.refuse_inside("producer.close()")
        if not self._has_closed:
            self._session.connection.check_process()
            self._has_closed = True
            self._session.connection.completions.wait_done(SEND_TIMEOUT_S)
            group = self._group
            if group is not None:
                group.wait(SEND_TIMEOUT_S)
                group.check()

    def __repr__(self) -> str:
        target = "each send names its destination" if self.destination is None else self.destination
        return f"<MessageProducer {target} {'closed' if self.is_closed else 'open'}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session.connection.is_forked:
            return
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
        return self._session.send_groups.by_producer.get(self._sending)

    def _closed(self) -> IllegalStateError:
        """Return why a closed one does not send; raises where its session, or this process, says why."""
        self._session.connection.check_process()
        self._session.check_open()
        of = "" if self._destination is None else f" of {self._destination}"
        return IllegalStateError(f"the producer{of} is closed; make a new one")

    def _target(self, destination: Destination | None) -> Destination:
        if self._destination is not None:
            if destination is not None and destination != self._destination:
                raise IllegalStateError(
                    f"destination is {as_destination(destination)}: this producer sends to {self._destination}; make "
                    f"one without a destination, with create_producer()"
                )
            return self._destination
        if destination is None:
            raise InvalidDestinationError("the producer has no destination: name one in send(destination=…)")
        return as_destination(destination)


def _traced(on_completion: CompletionListener, trace: SendTrace) -> CompletionListener:
    def completed(message: Message, error: JMSError | None) -> None:
        trace.end(message, error)
        on_completion(message, error)

    return completed
