"""Sends one request and waits for its reply; the error of a missing reply says what is known of the request."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from jbm_kafka.codec.identity import message_id_of
from jbm_kafka.core.destination import Destination, Queue
from jbm_kafka.core.durations import Duration
from jbm_kafka.core.jms_errors import IllegalStateError, JMSError, RequestTimeoutError
from jbm_kafka.core.sentinels import UNSET, Unset
from jbm_kafka.jms.base.arguments import as_destination, checked_timeout_s
from jbm_kafka.jms.base.call_pauses import Pauses, Sleep
from jbm_kafka.jms.messages.header_values import checked_text
from jbm_kafka.jms.messages.message import Message
from jbm_kafka.jms.messages.message_core import look_up_headers
from jbm_kafka.jms.messages.messages_wire import from_record
from jbm_kafka.jms.producer import MessageProducer
from jbm_kafka.jms.sends.routing import UnitOfOrder
from jbm_kafka.jms.sends.send_headers import as_message, json_message, schema_message
from jbm_kafka.jms.shared.requests import Pending
from jbm_kafka.jms.shared.session_core import SessionCore
from jbm_kafka.ports.kafka import KafkaRecord
from jbm_kafka.ports.provider import Provider

LOOK_S = 1.0
"""How long past its timeout a request looks for what became of it."""


@dataclass(frozen=True, slots=True)
class SendOptionsOfRequest:
    """How a request is sent, as of `MessageProducer.send`."""

    json: object
    unit_of_order: UnitOfOrder | Unset
    priority: int | None
    time_to_live_ms: Duration | None
    properties: Mapping[str, object] | None
    type: str | None


def reply_to(
    session: SessionCore, destination: object, message: object, timeout: object, options: SendOptionsOfRequest
) -> Pauses[Message]:
    """Send the request and return the reply to it; see `Session.request`."""
    timeout_s = None if timeout is None else checked_timeout_s(timeout)
    _check_may_request(session)
    target = as_destination(destination)
    raw: Mapping[str, bytes | None] | None = None
    if options.json is not UNSET:
        message, raw = json_message(message, options.json, None)
    encoded, headers = schema_message(session.connection.defaults.codecs, target, message, raw)
    sent = as_message(encoded)

    def send(address: Destination, correlation_id: str) -> Message:
        with MessageProducer(session, None) as producer:
            return producer.send(
                sent,
                destination=target,
                unit_of_order=options.unit_of_order,
                priority=options.priority,
                time_to_live_ms=options.time_to_live_ms,
                properties=options.properties,
                correlation_id=correlation_id,
                reply_to=address,
                type=options.type,
                headers=headers,
            )

    look_up_headers(sent)
    wanted = checked_text("correlation_id", sent.correlation_id)
    reply = yield from _reply_of(session, target, wanted, send, timeout_s)
    return reply


def _check_may_request(session: SessionCore) -> None:
    """Raises IllegalStateError where the reply could never come."""
    session.check_open()
    if session.is_transacted:
        raise IllegalStateError(
            "request() is not for TRANSACTED sessions: the request would be sent by the commit, and the commit comes "
            "after the reply; make another session for it, with create_session() of the connection, or a context with "
            "create_context()"
        )
    if not session.connection.is_started:
        raise IllegalStateError(
            "request() on a connection that is not started: it delivers no reply; call its start(), or enter it with "
            "`with`"
        )


def _reply_of(
    session: SessionCore,
    destination: Destination,
    correlation_id: str | None,
    send: Callable[[Destination, str], Message],
    timeout_s: float | None,
) -> Pauses[Message]:
    """The reply to what `send` sends; `send` gets the destination for replies, and the correlation id.

    Raises:
        RequestTimeoutError: none came in time.
        IllegalStateError: the session or its connection was closed meanwhile.
        JMSError: the request was not sent.
    """
    deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
    requests = session.connection.requests
    address = yield requests.reply_to
    pending = requests.begin(correlation_id, session.filled)
    try:
        message_id = None
        try:
            message_id = (yield partial(send, address, pending.correlation_id)).message_id
        finally:
            requests.sent(pending, message_id)
        record = yield from _reply(session, pending, deadline_s)
    finally:
        requests.end(pending)
    if record is not None:
        codecs, bodies = session.connection.defaults.codecs, session.connection.defaults.large_bodies
        made = partial(from_record, record, address, 1, False, _Settled(), codecs, bodies)  # type: ignore[arg-type]
        if record.value() is None:  # a large body may have to be fetched
            reply: Message = yield made
            return reply
        return made()
    sent = f"request {message_id or pending.correlation_id!r} to {destination}"
    if session.is_closed:
        raise IllegalStateError(
            f"{sent}: the session was closed before the reply came; the request was sent, and may be answered still",
            correlation_id=pending.correlation_id,
        )
    fate = yield partial(_fate, session.connection.provider, destination, message_id)
    raise RequestTimeoutError(
        f"{sent}: no reply within {timeout_s:g} s. The request was sent; {fate}. The reply was expected at {address} "
        f"with correlation_id {pending.correlation_id!r} or the request's message_id: see that the responder sends to "
        f"the request's reply_to with one of them, and commits if its session is TRANSACTED",
        destination=destination.name,
        timeout=timeout_s,
        correlation_id=pending.correlation_id,
        message_id=message_id,
        reply_to=address.name,
    )


class _Settled:
    """The settler of a reply, which is the requester's from the moment when it came; implements `Settler`."""

    def acknowledge(self, message: Message) -> None:
        return None

    def nack(self, message: Message, delay_ms: int | None) -> None:
        raise self._kept(message)

    def reject(self, message: Message, reason: str) -> None:
        raise self._kept(message)

    def _kept(self, message: Message) -> IllegalStateError:
        return IllegalStateError(
            "a reply to a request cannot be given back: it does not come again; send another request",
            message_id=message.message_id,
        )


def _reply(session: SessionCore, pending: Pending, deadline_s: float | None) -> Pauses[KafkaRecord | None]:
    try:
        with session.in_use():
            record = yield from _wait(session, pending, deadline_s)
            return record
    except IllegalStateError:
        if not session.is_closed:  # another thread uses it
            raise
        return None


def _wait(session: SessionCore, pending: Pending, deadline_s: float | None) -> Pauses[KafkaRecord | None]:
    """None: the time is up, or the session is closed."""

    def is_over() -> bool:
        return pending.reply is not None or session.is_closed

    while not is_over():
        remaining_s = None if deadline_s is None else deadline_s - time.monotonic()
        if remaining_s is not None and remaining_s <= 0:
            return None
        yield Sleep(is_over, remaining_s)
    return pending.reply


def _fate(provider: Provider, destination: Destination, message_id: str | None) -> str:
    """Return what became of the request, as far as a short look tells."""
    if not isinstance(destination, Queue) or destination.is_temporary or message_id is None:
        return f"{destination} does not record which consumer received it"
    found: list[str] = []
    looking = threading.Thread(
        target=lambda: found.append(_look(provider, destination, message_id)), name="jbm-request-fate", daemon=True
    )
    looking.start()
    looking.join(LOOK_S)
    return found[0] if found else f"whether it is still in {destination} was not seen within {LOOK_S:g} s"


def _look(provider: Provider, queue: Queue, message_id: str) -> str:
    try:
        for seen in provider.browse(queue, include="all", selector=None):
            record = seen.record
            place = record.topic() or "", record.partition() or 0, record.offset() or 0
            if message_id_of(record.headers(), *place) == message_id:
                return (
                    f"it is in {queue} still, and no receiver has acknowledged it: see whether one receives from there "
                    f"(jbm-kafka show {queue.name}), or works on it longer"
                )
    except JMSError as error:
        return f"whether it is still in {queue} is not known ({error})"
    return (
        f"it is not in {queue} any more: a receiver has acknowledged it and did not reply in time, or it expired or is "
        f"a dead letter (jbm-kafka dead-letters list)"
    )
