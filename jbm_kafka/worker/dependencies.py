"""The values that providers give: made when they are needed, kept as long as their scope lasts, and cleaned up behind
it.

What a message's providers made is cleaned up before the message is settled: a clean-up that fails, as a commit in it
may, is a failed attempt.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from typing import Any

from jbm_kafka.core.jms_errors import MessageFormatError
from jbm_kafka.jms.messages.message import Message
from jbm_kafka.jms.receiving.outcomes import Reject
from jbm_kafka.jms.session import Session
from jbm_kafka.worker.handler_arguments import ArgumentProvider, Arguments
from jbm_kafka.worker.handler_loop import HandlerLoop

log = logging.getLogger(__name__)
Values = dict[object, Any]
"""Values by the key of their provider."""


class Kept:
    """The values that last longer than a message: as long as a run of the worker, or as one of its threads."""

    def __init__(self) -> None:
        self.of_worker: Values = {}
        """Made before the first message; also what lasts as long as a thread for those on the event loop."""
        self._stack = ExitStack()
        self._of_thread = threading.local()

    def enter(self, manager: Any, loop: HandlerLoop | None = None) -> Any:
        """Enter a context manager, or on the loop an asynchronous one, until `end`."""
        if loop is None:
            return self._stack.enter_context(manager)
        value = loop.wait(manager.__aenter__())
        self._stack.push(lambda *error: bool(loop.wait(manager.__aexit__(*error))))
        return value

    def make(self, provider: ArgumentProvider, loop: HandlerLoop | None) -> None:
        """Have the provider's value, until `end`."""
        if provider.key in self.of_worker:
            return
        named = {name: self.of_worker[each.key] for name, each in provider.arguments.provided}
        function = provider.function
        if provider.is_async or provider.scope == "thread":  # the loop's thread is the one that will use it
            self.of_worker[provider.key] = self.enter(_on_loop(provider, named), loop)
        elif provider.cleans_up:
            self.of_worker[provider.key] = self.enter(contextmanager(function)(**named))
        else:
            self.of_worker[provider.key] = function(**named)

    def of_thread(self) -> tuple[Values, ExitStack]:
        """The calling thread's, cleaned up by `end_thread`."""
        try:
            return self._of_thread.found  # type: ignore[no-any-return]
        except AttributeError:
            self._of_thread.found = {}, ExitStack()
            return self._of_thread.found  # type: ignore[no-any-return]

    def end_thread(self) -> None:
        """Clean up what the calling thread had for itself."""
        found = vars(self._of_thread).pop("found", None)
        if found is not None:
            _close(found[1])

    def end(self) -> None:
        """Clean up all the rest, the latest first."""
        _close(self._stack)


@asynccontextmanager
async def _on_loop(provider: ArgumentProvider, named: dict[str, Any]) -> AsyncIterator[Any]:
    async with AsyncExitStack() as stack:
        yield await _made_on_loop(provider, (), named, stack)


async def _made_on_loop(
    provider: ArgumentProvider, values: Iterable[Any], named: dict[str, Any], stack: AsyncExitStack
) -> Any:
    run = provider.function
    if not provider.cleans_up:
        return await run(*values, **named) if provider.is_async else run(*values, **named)
    if provider.is_async:
        return await stack.enter_async_context(asynccontextmanager(run)(*values, **named))
    return stack.enter_context(contextmanager(run)(*values, **named))


def _close(stack: ExitStack) -> None:
    try:
        stack.close()
    except Exception:  # the others were cleaned up all the same
        log.exception("worker: a clean-up failed")


def lasting(providers: Iterable[ArgumentProvider], *, on_loop: bool) -> list[ArgumentProvider]:
    """Return those that are made before the first message, each behind those that it needs."""
    found = [each for provider in providers for each in provider.with_its_own()]
    return [each for each in found if each.scope == "worker" or (on_loop and each.scope == "thread")]


def with_arguments(
    function: Callable[..., Any], arguments: Arguments, kept: Kept, *, is_async: bool, is_retried: bool
) -> Callable[..., Any]:
    """The function as it is called with a message, and in a transaction with its session.

    A message that does not fit is rejected; or is a failed attempt where `is_retried`.
    """

    def of(wanting: Arguments, message: Message, session: Session | None) -> tuple[list[Any], dict[str, Any]]:
        try:
            return wanting.of(message, session)
        except MessageFormatError as error:
            if is_retried:
                raise
            raise Reject(str(error)) from None

    def call(message: Message, session: Session | None = None) -> Any:
        values, named = of(arguments, message, session)
        return function(*values, **named)

    if not arguments.provided:
        return call

    def made(
        provider: ArgumentProvider, message: Message, session: Session | None, own: Values, stack: ExitStack
    ) -> Any:
        if provider.scope == "worker":
            return kept.of_worker[provider.key]
        if provider.scope == "thread":
            own, stack = kept.of_thread()
        if provider.key not in own:
            values, named = of(provider.arguments, message, session)
            for name, each in provider.arguments.provided:
                named[name] = made(each, message, session, own, stack)
            call_it = contextmanager(provider.function) if provider.cleans_up else provider.function
            value = call_it(*values, **named)
            own[provider.key] = stack.enter_context(value) if provider.cleans_up else value
        return own[provider.key]

    def provided(message: Message, session: Session | None = None) -> Any:
        values, named = of(arguments, message, session)
        failure: BaseException | None = None
        own: Values = {}
        with ExitStack() as stack:
            for name, provider in arguments.provided:
                named[name] = made(provider, message, session, own, stack)
            try:
                return function(*values, **named)
            except BaseException as error:
                failure = error
                raise
        assert failure is not None
        raise failure  # a clean-up cannot make a success of it

    async def made_async(
        provider: ArgumentProvider, message: Message, session: Session | None, own: Values, stack: AsyncExitStack
    ) -> Any:
        if provider.scope != "message":
            return kept.of_worker[provider.key]
        if provider.key not in own:
            values, named = of(provider.arguments, message, session)
            for name, each in provider.arguments.provided:
                named[name] = await made_async(each, message, session, own, stack)
            own[provider.key] = await _made_on_loop(provider, values, named, stack)
        return own[provider.key]

    async def provided_async(message: Message, session: Session | None = None) -> Any:
        values, named = of(arguments, message, session)
        failure: BaseException | None = None
        own: Values = {}
        async with AsyncExitStack() as stack:
            for name, provider in arguments.provided:
                named[name] = await made_async(provider, message, session, own, stack)
            try:
                return await function(*values, **named)
            except BaseException as error:
                failure = error
                raise
        assert failure is not None
        raise failure

    return provided_async if is_async else provided
