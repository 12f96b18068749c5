"""Functions whose call runs nothing: `async def`, generators. A listener that is one would lose each message.

Such a call makes a coroutine or a generator, and what is in the function begins when somebody waits for that or goes
through it. Nobody here does.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Coroutine, Generator

from jbm_kafka.core.jms_errors import InvalidTypeError
from jbm_kafka.core.wrong_values import shown, wrong_type

_REMEDY = "in a plain function, asyncio.run(work(…)) runs an async one to its end"


def is_async(function: object) -> bool:
    """A call of it makes a coroutine."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def check_runs(name: str, value: object, arguments: str) -> None:
    """Raises InvalidTypeError for a callable whose call runs nothing; `arguments` are those it is called with."""
    function = value
    while isinstance(function, functools.partial):
        function = function.func
    if not inspect.isroutine(function):
        function = getattr(type(function), "__call__", None)  # noqa: B004 - of an object what its class says is called
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        rule = f"it is async, and a call of it runs nothing; write: def {name}({arguments}): asyncio.run(…)"
        raise wrong_type(name, value, rule)
    if inspect.isgeneratorfunction(function):
        rule = f"it has a yield, and a call of it runs nothing; write: def {name}({arguments}): … without yield"
        raise wrong_type(name, value, rule)


def refuse_unrun(name: str, result: object) -> None:
    """Raises InvalidTypeError when what a callable returned has still to be run, as of a lambda that calls an async
    function. It is closed, for nobody will run it."""
    if not isinstance(result, Coroutine | Generator | AsyncGenerator):
        return
    returned = shown(result)
    if isinstance(result, Coroutine | Generator):
        result.close()
    raise InvalidTypeError(f"{name} returned {returned}: nobody runs it; {_REMEDY}", setting=name, value=result)
