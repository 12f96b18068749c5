"""The handlers that a worker is given: checked when they are registered, before anything connects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jbm_kafka.core.destination import Destination, Queue, Topic, parse_destination
from jbm_kafka.core.selectors.selector import parse_selector
from jbm_kafka.core.wrong_values import checked_int, wrong_type, wrong_value
from jbm_kafka.jms.base.arguments import CONCURRENCY_MAX, check_arguments, check_callable, checked_flag
from jbm_kafka.jms.base.never_run import has_yield, is_async
from jbm_kafka.jms.consumer import MessageConsumer
from jbm_kafka.jms.receiving.handling import Handler, Middleware
from jbm_kafka.jms.session import Session
from jbm_kafka.worker.dependencies import Kept, lasting, with_arguments
from jbm_kafka.worker.handler_arguments import ArgumentProvider, Arguments, arguments_of
from jbm_kafka.worker.limits import NO_LIMITS, HandlerLimits, checked_limits

BATCH_MAX = 10_000
BATCH_WAIT_MAX_MS = 60_000


@dataclass(frozen=True, slots=True)
class BatchTerms:
    """How many messages a handler gets at once."""

    size: int
    wait_ms: int
    """How long the first may wait for the others."""


def checked_batch(size: object, wait_ms: object) -> BatchTerms:
    """The terms, if they can be.

    Raises:
        InvalidSettingError: an argument that cannot be.
    """
    return BatchTerms(
        checked_int("size", size, 1, BATCH_MAX, "messages"),
        checked_int("wait_ms", wait_ms, 0, BATCH_WAIT_MAX_MS, "milliseconds"),
    )


@dataclass(frozen=True, slots=True)
class HandlerSpec:
    """One handler, and what it receives."""

    function: Handler
    arguments: Arguments | None
    """The arguments it is called with; None: the message, and in a transaction the session."""
    retries_invalid: bool
    source: Queue | Topic
    concurrency: int
    selector: str | None
    subscription: str | None
    is_shared: bool
    is_transacted: bool
    limits: HandlerLimits = NO_LIMITS
    batch: BatchTerms | None = None
    """It gets so many messages at once; None: one."""

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.source.name}: {getattr(self.function, '__qualname__', repr(self.function))}"

    @property
    def is_async(self) -> bool:
        """It runs on an event loop."""
        return is_async(self.function)

    @property
    def lasting(self) -> list[ArgumentProvider]:
        """The providers of what is made before its first message."""
        provided = () if self.arguments is None else self.arguments.provided
        return lasting((provider for _, provider in provided), on_loop=self.is_async)

    def call(self, kept: Kept) -> Handler:
        """The function, as it is called with a message, and in a transaction with its session."""
        if self.arguments is None:
            return self.function
        is_retried = self.retries_invalid
        return with_arguments(self.function, self.arguments, kept, is_async=self.is_async, is_retried=is_retried)

    @property
    def shares(self) -> bool:
        """Several consumers have the messages among them; else each would get all of them, or there is one alone."""
        return isinstance(self.source, Queue) or self.is_shared

    def consumer(self, session: Session, prefetch: int) -> MessageConsumer:
        """One of its consumers."""
        source, name = self.source, self.subscription
        if isinstance(source, Queue) or name is None:
            return session.create_consumer(source, self.selector, prefetch=prefetch)
        if self.is_shared:
            return session.create_shared_durable_consumer(source, name, self.selector, prefetch)
        return session.create_durable_consumer(source, name, self.selector, prefetch=prefetch)


def checked_handler(
    function: Handler,
    destination: object,
    *,
    concurrency: object,
    selector: Any,
    subscription: Any,
    shared: object,
    transacted: object,
    on_invalid: object,
    timeout_s: object = None,
    rate: object = None,
    rate_total: object = None,
    pause_on: object = None,
    batch: BatchTerms | None = None,
) -> HandlerSpec:
    """The handler, if it can be one.

    Raises:
        InvalidSettingError, InvalidDestinationError, InvalidSelectorError: an argument that cannot be.
    """
    check_callable("handler", function)
    source = checked_source(destination)
    if on_invalid not in ("reject", "retry"):
        raise wrong_value("on_invalid", on_invalid, "it is 'reject', or 'retry' for a failed attempt")
    is_transacted = checked_flag("transacted", transacted)
    arguments = arguments_of(function, is_transacted=is_transacted, is_batch=batch is not None)
    spec = HandlerSpec(
        function=function,
        arguments=arguments,
        retries_invalid=on_invalid == "retry",
        source=source,
        concurrency=checked_int("concurrency", concurrency, 1, CONCURRENCY_MAX, "messages at once"),
        selector=selector,
        subscription=subscription,
        is_shared=checked_flag("shared", shared),
        is_transacted=is_transacted,
        limits=checked_limits(
            timeout_s=timeout_s,
            rate=rate,
            rate_total=rate_total,
            pause_on=pause_on,
            shares=isinstance(source, Queue) or bool(shared),
        ),
        batch=batch,
    )
    if selector is not None:
        parse_selector(selector)
    if arguments is None:
        values = "message" if batch is None else "messages"
        check_arguments("handler", function, f"{values},session" if spec.is_transacted else values)
    if has_yield(function):
        raise wrong_type("handler", function, "it has a yield, and a call of it runs nothing; write it without yield")
    if subscription is not None and not isinstance(subscription, str):
        raise wrong_type("subscription", subscription, "it is a name, or None")
    if isinstance(source, Queue) and (subscription is not None or spec.is_shared):
        raise wrong_value("subscription", subscription, f"{source} has no subscriptions; leave it and shared= out")
    if spec.is_shared and subscription is None:
        raise wrong_value("shared", shared, "a shared subscription has a name; give it in subscription=")
    if spec.is_transacted and spec.is_async:
        raise wrong_value("transacted", transacted, "a coroutine has no session of its own; write a plain function")
    if (spec.is_transacted or batch is not None) and spec.concurrency > 1 and not spec.shares:
        what = "transactions" if spec.is_transacted else "batches"
        rule = f"{what} at once share {source}: give subscription= and shared=True, or 1"
        raise wrong_value("concurrency", concurrency, rule)
    return spec


def check_middleware(around: Sequence[Middleware], specs: Sequence[HandlerSpec]) -> None:
    """Raises InvalidTypeError when one is async, and a handler is not: nobody would run it."""
    plain = [spec.source for spec in specs if not spec.is_async]
    for middleware in around:
        if plain and is_async(middleware):
            rule = f"it is async, and the handler of {plain[0]} is not; write def for it, or async def for both"
            raise wrong_type("middleware", middleware, rule)


def checked_source(destination: object) -> Queue | Topic:
    """Return what a handler receives from.

    Raises:
        InvalidDestinationError: a name that cannot be; of another type InvalidTypeError.
    """
    if isinstance(destination, str):
        found: Destination = parse_destination(destination) if ":" in destination else Queue(destination)
    elif isinstance(destination, Destination):
        found = destination
    else:
        raise wrong_type("destination", destination, "it is a queue's name, 'topic:NAME', a Queue or a Topic")
    if found.is_temporary or not isinstance(found, Queue | Topic):
        raise wrong_value("destination", destination, "a handler receives from a queue or a topic")
    return found
