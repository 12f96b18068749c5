"""Functions of a worker that are called by messages: `mail.send(to="joe")` here, and `mail(to="joe")` in a worker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial, update_wrapper, wraps
from inspect import isawaitable
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, overload

from jbm_kafka.client.schedule_runs import NAME_PROPERTY
from jbm_kafka.codec.json_text import CONTENT_TYPE, JSON_TYPE
from jbm_kafka.core.destination import Destination, Queue
from jbm_kafka.core.jms_errors import MessageFormatError
from jbm_kafka.core.wrong_values import wrong_type, wrong_value
from jbm_kafka.jms.base.never_run import is_async
from jbm_kafka.jms.messages.message import Message, TextMessage
from jbm_kafka.jms.receiving.handling import Handler
from jbm_kafka.jms.receiving.outcomes import Reject
from jbm_kafka.jms.sender import Sender
from jbm_kafka.jms.sends.routing import UnitOfOrder
from jbm_kafka.jms.session import Session
from jbm_kafka.worker.call_codec import CallCodec
from jbm_kafka.worker.task_results import TaskResult, tell_failure
from jbm_kafka.worker.task_sends import TaskSends

P = ParamSpec("P")
R = TypeVar("R")
V = TypeVar("V")
_NAMES = ("__module__", "__name__", "__qualname__", "__doc__")
"""The attributes that a handler takes from its function: not the annotations, for it takes a message."""


@dataclass(frozen=True, slots=True)
class TaskParts:
    """The parts behind a task, and behind all calls of it with options."""

    queue: Queue
    name: str
    codec: CallCodec
    sends: TaskSends


class TaskCall(Generic[P, V]):
    """A task as it is sent, with options that hold for its calls. Any thread."""

    def __init__(self, parts: TaskParts, options: Mapping[str, Any], via: Sender | Session | None = None) -> None:
        self._parts = parts
        self._options = options
        self._via = via

    def send(self, /, *args: P.args, **kwargs: P.kwargs) -> Message:
        """Send the call to the task's queue, where a worker carries it out; returns the message when Kafka has it.

        Raises:
            InvalidTypeError: an argument is not of its type.
            JMSError: as of `Sender.send`, or of `MessageProducer.send` in a session that was given by `via`.
        """
        return self._send(self._parts.codec.arguments_text(args, kwargs), {})

    def ask(self, /, *args: P.args, **kwargs: P.kwargs) -> TaskResult[V]:
        """Send the call, and have what it returns: `mail.ask(to="joe").get(timeout=10)`.

        Raises:
            InvalidTypeError, JMSError: as of `send`.
            InvalidSettingError: `via` is given: the result comes by the worker's connection, outside of transactions.
        """
        if self._via is not None:
            raise wrong_value("via", self._via, "ask() sends by itself, and its result is no part of a transaction")
        text = self._parts.codec.arguments_text(args, kwargs)
        connection, _ = self._parts.sends.sender()
        result: TaskResult[V] = TaskResult(connection, self._parts.codec, f"task {self._parts.name!r}")
        message = None
        try:
            message = self._send(text, {"reply_to": result.reply_to, "correlation_id": result.correlation_id})
        finally:
            result.sent(message)
        return result

    def _send(self, text: str, more: Mapping[str, Destination | str]) -> Message:
        parts = self._parts
        given = {**self._options, **more, "headers": {CONTENT_TYPE: JSON_TYPE}}
        given["properties"] = {**(self._options.get("properties") or {}), NAME_PROPERTY: parts.name}
        if isinstance(self._via, Session):
            with self._via.create_producer(parts.queue) as producer:
                return producer.send(TextMessage(text), **given)
        sender = self._via or parts.sends.sender()[1]
        return sender.send(parts.queue, TextMessage(text), **given)


class Task(TaskCall[P, V], Generic[P, R, V]):
    """A function that is called plainly as it is, and by a worker with `send`, `schedule` and `ask`.

    Made by `@worker.task("mails")`. `options(...)` says how a call is sent.
    """

    def __init__(self, function: Callable[P, R], parts: TaskParts) -> None:
        super().__init__(parts, {})
        self._function = function
        self.__name__ = parts.name
        update_wrapper(self, function)

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function here and now."""
        return self._function(*args, **kwargs)

    def schedule(self, at: datetime, /, *args: P.args, **kwargs: P.kwargs) -> Message:
        """Send the call, to be carried out not before that instant, which has a time zone.

        Raises:
            InvalidSettingError, JMSError: as of `options` and `send`.
        """
        return self.options(at=at).send(*args, **kwargs)

    def options(
        self,
        *,
        unit_of_order: UnitOfOrder = None,
        delay: timedelta | None = None,
        at: datetime | None = None,
        time_to_live: timedelta | None = None,
        priority: int | None = None,
        duplicate_id: str | None = None,
        properties: Mapping[str, object] | None = None,
        via: Sender | Session | None = None,
    ) -> TaskCall[P, V]:
        """The task with options of a send: `mail.options(unit_of_order="joe").send(to="joe")`.

        Args:
            unit_of_order, priority, duplicate_id, properties: as of `MessageProducer.send`.
            delay: it is carried out not before so long; at: not before that instant. One of them.
            time_to_live: what nobody has begun by then expires.
            via: a sender, or a session, whose transaction it is part of; None: the worker's own connection.

        Raises:
            InvalidTypeError: one has another type.
        """
        for name, value in (("delay", delay), ("time_to_live", time_to_live)):
            if value is not None and not isinstance(value, timedelta):
                raise wrong_type(name, value, "it is a timedelta, as timedelta(minutes=5)")
        if via is not None and not isinstance(via, Sender | Session):
            raise wrong_type("via", via, "it is a Sender, or a Session, or None for the worker's own connection")
        options = {
            "unit_of_order": unit_of_order,
            "delivery_delay_ms": delay,
            "deliver_at": at,
            "time_to_live_ms": time_to_live,
            "priority": priority,
            "duplicate_id": duplicate_id,
            "properties": properties,
        }
        given = {name: value for name, value in options.items() if value is not None}
        return TaskCall(self._parts, given, via)

    def __repr__(self) -> str:
        return f"<Task {self._parts.name} of {self._parts.queue}>"


class TaskDecorator(Protocol):
    """Makes a task of a function, or of a coroutine function."""

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, V]]) -> Task[P, Coroutine[Any, Any, V], V]: ...
    @overload
    def __call__(self, function: Callable[P, V]) -> Task[P, V, V]: ...


def handler_of(function: Callable[..., Any], codec: CallCodec, sends: TaskSends) -> Handler:
    """The function as a handler: called with the arguments of a message, and its result is the reply."""

    def arguments(message: Message) -> dict[str, Any]:
        try:
            return codec.arguments(message)
        except MessageFormatError as error:
            raise Reject(str(error)) from None

    def answer(message: Message, result: Any) -> Any:
        return None if message.reply_to is None else codec.result_text(result)

    @wraps(function, assigned=_NAMES)
    def call(message: Message) -> Any:
        try:
            result = function(**arguments(message))
            return result if isawaitable(result) else answer(message, result)  # of a lambda: nothing was run
        except Exception as error:
            tell_failure(sends, message, error)
            raise

    @wraps(function, assigned=_NAMES)
    async def call_async(message: Message) -> Any:
        try:
            return answer(message, await function(**arguments(message)))
        except Exception as error:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(None, partial(tell_failure, sends, message, error))
            raise

    chosen: Any = call_async if is_async(function) else call
    del chosen.__wrapped__
    return chosen  # type: ignore[no-any-return]
