"""Functions whose call runs nothing: `async def`, generators. A listener that is one would lose each message.

Such a call makes a coroutine or a generator, and what is in the function begins when somebody waits for that or goes
through it. Nobody here does.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import AsyncGenerator, Awaitable, Coroutine, Generator

from jbm_kafka.core.jms_errors import InvalidTypeError
from jbm_kafka.core.wrong_values import shown, wrong_type

_REMEDY = "in a plain function, asyncio.run(work(…)) runs an async one to its end"


def is_async(function: object) -> bool:
    """A call of it makes a coroutine."""
    return inspect.iscoroutinefunction(called(function))


def has_yield(function: object) -> bool:
    """A call of it makes a generator."""
    run = called(function)
    return inspect.isgeneratorfunction(run) or inspect.isasyncgenfunction(run)


def called(value: object) -> object:
    """Return what a call of it runs first: behind partials, and of an object what its class says is called."""
    while isinstance(value, functools.partial):
        value = value.func
    return value if inspect.isroutine(value) else getattr(type(value), "__call__", None)  # noqa: B004


def check_runs(name: str, value: object, arguments: str) -> None:
    """Raises InvalidTypeError for a callable whose call runs nothing; `arguments` are those it is called with."""
    if is_async(value) or inspect.isasyncgenfunction(called(value)):
        rule = f"it is async, and a call of it runs nothing; write: def {name}({arguments}): asyncio.run(…)"
        raise wrong_type(name, value, rule)
    if has_yield(value):
        rule = f"it has a yield, and a call of it runs nothing; write: def {name}({arguments}): … without yield"
        raise wrong_type(name, value, rule)


def refuse_unrun(name: str, result: object) -> None:
    """Raises InvalidTypeError when what a callable returned has still to be run, as of a lambda that calls an async
    function. It is closed, for nobody will run it."""
    fault = unrun(name, result)
    if fault is not None:
        raise fault


def unrun(name: str, result: object, remedy: str = _REMEDY) -> InvalidTypeError | None:
    """The error that `refuse_unrun` raises, if it does."""
    if not isinstance(result, Awaitable | Generator | AsyncGenerator):
        return None
    if isinstance(result, asyncio.Future):  # a task, say, which its loop runs
        return None
    returned = shown(result)
    if isinstance(result, Coroutine | Generator):
        result.close()
    return InvalidTypeError(f"{name} returned {returned}: nobody runs it; {remedy}", setting=name, value=result)
