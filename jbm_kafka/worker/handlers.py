"""What a worker is given to handle: checked when it is said, before anything connects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jbm_kafka.core.destination import Destination, Queue, Topic, parse_destination
from jbm_kafka.core.selectors.selector import parse_selector
from jbm_kafka.core.wrong_values import checked_int, wrong_type, wrong_value
from jbm_kafka.jms.arguments import CONCURRENCY_MAX, check_arguments, check_callable, checked_flag
from jbm_kafka.jms.consumer import MessageConsumer
from jbm_kafka.jms.handling import Handler, Middleware
from jbm_kafka.jms.never_run import has_yield, is_async
from jbm_kafka.jms.session import Session


@dataclass(frozen=True, slots=True)
class HandlerSpec:
    """One handler, and what it receives."""

    function: Handler
    source: Queue | Topic
    concurrency: int
    selector: str | None
    subscription: str | None
    is_shared: bool
    is_transacted: bool

    @property
    def is_async(self) -> bool:
        """It runs on an event loop."""
        return is_async(self.function)

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
) -> HandlerSpec:
    """The handler, if it can be one.

    Raises:
        InvalidSettingError, InvalidDestinationError, InvalidSelectorError: an argument that cannot be.
    """
    check_callable("handler", function)
    source = _source(destination)
    spec = HandlerSpec(
        function=function,
        source=source,
        concurrency=checked_int("concurrency", concurrency, 1, CONCURRENCY_MAX, "messages at once"),
        selector=selector,
        subscription=subscription,
        is_shared=checked_flag("shared", shared),
        is_transacted=checked_flag("transacted", transacted),
    )
    if selector is not None:
        parse_selector(selector)
    check_arguments("handler", function, "message,session" if spec.is_transacted else "message")
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
    if spec.is_transacted and spec.concurrency > 1 and not spec.shares:
        raise wrong_value(
            "concurrency", concurrency, f"transactions at once share {source}: give subscription= and shared=True, or 1"
        )
    return spec


def check_middleware(around: Sequence[Middleware], specs: Sequence[HandlerSpec]) -> None:
    """Raises InvalidTypeError when one is async, and a handler is not: nobody would run it."""
    plain = [spec.source for spec in specs if not spec.is_async]
    for middleware in around:
        if plain and is_async(middleware):
            rule = f"it is async, and the handler of {plain[0]} is not; write def for it, or async def for both"
            raise wrong_type("middleware", middleware, rule)


def _source(destination: object) -> Queue | Topic:
    if isinstance(destination, str):
        found: Destination = parse_destination(destination) if ":" in destination else Queue(destination)
    elif isinstance(destination, Destination):
        found = destination
    else:
        raise wrong_type("destination", destination, "it is a queue's name, 'topic:NAME', a Queue or a Topic")
    if found.is_temporary or not isinstance(found, Queue | Topic):
        raise wrong_value("destination", destination, "a handler receives from a queue or a topic")
    return found
