"""Several functions that share one queue: each message names its function in a property."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any, Final

from jbm_kafka.client.schedule_runs import NAME_PROPERTY
from jbm_kafka.core.destination import Queue
from jbm_kafka.core.jms_errors import IllegalStateError
from jbm_kafka.core.plain_text import plain_text
from jbm_kafka.core.wrong_values import wrong_type, wrong_value
from jbm_kafka.jms.base.never_run import is_async
from jbm_kafka.jms.messages.message import Message
from jbm_kafka.jms.receiving.handling import Handler
from jbm_kafka.jms.receiving.outcomes import Reject
from jbm_kafka.worker.dependencies import Kept
from jbm_kafka.worker.handler_arguments import ArgumentProvider
from jbm_kafka.worker.handlers import HandlerSpec, checked_handler

NAME_LENGTH_MAX: Final = 100


def checked_call_name(name: object, function: Callable[..., Any]) -> str:
    """The name as given, or that of the function.

    Raises:
        InvalidSettingError: it cannot be one; of another type InvalidTypeError.
    """
    if name is None:
        name = getattr(function, "__name__", None)
        if not isinstance(name, str) or not name.isidentifier():
            raise wrong_type("function", function, "it has no name; give one in name=")
    if not isinstance(name, str):
        raise wrong_type("name", name, "it is a str, or None for the function's own")
    if not name.strip() or len(name) > NAME_LENGTH_MAX or not name.isprintable():
        raise wrong_value("name", name, f"it is 1 to {NAME_LENGTH_MAX} characters that can be printed")
    return plain_text(name)


@dataclass(frozen=True, slots=True)
class NamedCalls(HandlerSpec):
    """The handler of a queue of named messages."""

    members: Mapping[str, Callable[[Kept], Handler]] = field(default_factory=dict)
    """Gives a function as it is called with a message, by its name."""
    providers: tuple[ArgumentProvider, ...] = ()
    """The providers of all of them, for what is made before the first message."""

    @property
    def lasting(self) -> list[ArgumentProvider]:
        """The providers of what is made before its first message."""
        return list(self.providers)

    def call(self, kept: Kept) -> Handler:
        """The function that hands each message to the one that it names."""
        calls = {name: made(kept) for name, made in self.members.items()}
        queue, known = self.source.name, ", ".join(sorted(self.members))

        def call(message: Message) -> Any:
            return called(message)(message)

        async def call_async(message: Message) -> Any:
            return await called(message)(message)

        def called(message: Message) -> Handler:
            name = message.properties.get(NAME_PROPERTY)
            if name is None:
                raise Reject(f"it has no property {NAME_PROPERTY!r}, and queue {queue} is one of tasks: {known}")
            found = calls.get(name) if isinstance(name, str) else None
            if found is None:
                raise Reject(
                    f"no task {name!r} of queue {queue} in this worker, which has {known}: deploy the workers before "
                    f"those that send, and retry this letter then"
                )
            return found

        return call_async if self.is_async else call


def with_named_call(
    specs: Sequence[HandlerSpec], spec: HandlerSpec, name: str, call: Callable[[Kept], Handler]
) -> list[HandlerSpec]:
    """The specs of a worker, with one function more, under its name. `spec`: of it, as if it had the queue alone.

    Raises:
        IllegalStateError: the queue has a handler, or another function of that name.
        InvalidTypeError: it is a coroutine function, and others of the queue are none, or the other way round.
    """
    others = [each for each in specs if each.source == spec.source]
    if not others:
        first = {each: getattr(spec, each) for each in HandlerSpec.__slots__}
        return [*specs, NamedCalls(**first, members={name: call}, providers=tuple(spec.lasting))]
    (found,) = others
    if not isinstance(found, NamedCalls):
        raise IllegalStateError(f"{spec.source} has a handler, which would get the messages of {name!r}; name another")
    if name in found.members:
        raise IllegalStateError(f"{spec.source} has a task {name!r} already; give another name=")
    if found.is_async is not spec.is_async:
        rule = f"it is {'' if spec.is_async else 'not '}async, and others of {spec.source} are not alike"
        raise wrong_type("function", spec.function, rule)
    more = replace(
        found,
        members={**found.members, name: call},
        providers=(*found.providers, *spec.lasting),
        concurrency=max(found.concurrency, spec.concurrency),
    )
    return [more if each is found else each for each in specs]


def check_named(specs: Sequence[HandlerSpec]) -> None:
    """Raises IllegalStateError when a queue of tasks has a handler, too, which would get their messages."""
    for spec in specs:
        if isinstance(spec, NamedCalls) and sum(each.source == spec.source for each in specs) > 1:
            raise IllegalStateError(f"{spec.source} has tasks and a handler, which would get their messages")


def checked_queue(queue: object) -> Queue:
    """The queue of that name, or the one that is given.

    Raises:
        InvalidDestinationError: a name that cannot be; of another type InvalidTypeError.
    """
    if isinstance(queue, str):
        queue = Queue(queue)
    if not isinstance(queue, Queue):
        raise wrong_type("queue", queue, "it is a queue's name, or a Queue")
    return queue


def checked_named(function: Handler, queue: object, *, concurrency: object, on_invalid: object) -> HandlerSpec:
    """The spec of a function that is called by its name, as if it had the queue alone.

    Raises:
        InvalidSettingError, InvalidDestinationError: an argument that cannot be.
        InvalidTypeError: a parameter that nobody knows what to give.
    """
    return checked_handler(
        taking_message(function),
        checked_queue(queue),
        concurrency=concurrency,
        selector=None,
        subscription=None,
        shared=False,
        transacted=False,
        on_invalid=on_invalid,
    )


def taking_message(function: Handler) -> Handler:
    """The function as a handler is: one without parameters is called without the message."""
    if inspect.signature(function).parameters:
        return function
    if is_async(function):

        @wraps(function)
        async def call_async(message: Message) -> Any:
            return await function()

        return call_async

    @wraps(function)
    def call(message: Message) -> Any:
        return function()

    return call
