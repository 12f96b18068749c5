"""Results of calls that are awaited, or entered with `async with`; and attributes that are those of the object
behind."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar, overload

from jbm_kafka.jms.base.arguments import check_listener
from jbm_kafka.jms.base.exception_listener import ExceptionListener
from jbm_kafka.jms.base.one_process import refuse_pickle

T = TypeVar("T")


class Entered(Protocol):
    """An object that can stand in `async with`."""

    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


M = TypeVar("M", bound=Entered)


class Made(Generic[M]):
    """`made = await call()`, or `async with call() as made`, at whose end it is closed."""

    __reduce__ = refuse_pickle

    def __init__(self, make: Callable[[], Awaitable[M]]) -> None:
        self._make = make
        self._entered: M | None = None

    def __await__(self) -> Generator[Any, Any, M]:
        return self._make().__await__()

    async def __aenter__(self) -> M:
        made = self._entered = await self._make()
        return await made.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._entered is not None
        await self._entered.__aexit__(kind, error, trace)


class Same(Generic[T]):
    """An attribute, or a call that never waits, that is the one of the object behind (`_inner`)."""

    def __set_name__(self, owner: type[object], name: str) -> None:
        self._name = name

    @overload
    def __get__(self, made: None, owner: type[object]) -> Self: ...
    @overload
    def __get__(self, made: object, owner: type[object]) -> T: ...
    def __get__(self, made: Any, owner: type[object]) -> object:
        return self if made is None else getattr(made._inner, self._name)

    def __set__(self, made: Any, value: T) -> None:
        setattr(made._inner, self._name, value)


class ListenerOnLoop:
    """The exception listener of the connection behind: called on the event loop on which it was set."""

    @overload
    def __get__(self, made: None, owner: type[object]) -> Self: ...
    @overload
    def __get__(self, made: object, owner: type[object]) -> ExceptionListener | None: ...
    def __get__(self, made: Any, owner: type[object]) -> object:
        return self if made is None else made._inner.exception_listener

    def __set__(self, made: Any, listener: ExceptionListener | None) -> None:
        check_listener("exception_listener", listener, "error")
        made._inner.exception_listener = None if listener is None else called_on_loop(listener)


def called_on_loop(listener: Callable[..., object]) -> Callable[..., None]:
    """Calls the listener on the event loop that runs now, whatever thread calls, one call after the other."""
    loop = asyncio.get_running_loop()

    def call(*arguments: object) -> None:
        loop.call_soon_threadsafe(listener, *arguments)

    return call
