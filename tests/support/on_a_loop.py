"""The objects of `jbm_kafka.aio` as those of `jbm_kafka`: each call runs on an event loop of another thread."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from typing import Any

from jbm_kafka import aio
from jbm_kafka.aio.made import Made

AWAITED = tuple(getattr(aio, name) for name in aio.__all__)


class LoopThread:
    """An event loop that runs until it is stopped."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="test-loop", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """What it returns or raises."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


class OnALoop:
    """One awaitable object, for a test that calls it as if it were not. What only the object behind has is that."""

    def __init__(self, awaited: Any, thread: LoopThread) -> None:
        self.__dict__.update(_awaited=awaited, _thread=thread)

    def __getattr__(self, name: str) -> Any:
        awaited = self._awaited
        if name.startswith("_") or not hasattr(type(awaited), name):
            return getattr(awaited._inner, name)
        value = getattr(awaited, name)
        return self._call(value) if callable(value) and name != "exception_listener" else value

    def __setattr__(self, name: str, value: object) -> None:
        async def set_it() -> None:
            setattr(self._awaited, name, value)

        self._thread.run(set_it())

    def __enter__(self) -> Any:
        return self._waited(self._awaited.__aenter__)

    def __exit__(self, *error: Any) -> Any:
        return self._waited(self._awaited.__aexit__, *error)

    def __iter__(self) -> Iterator[Any]:
        messages: AsyncIterator[Any] = aiter(self._awaited)

        async def following() -> Any:
            return await anext(messages, None)

        while (message := self._thread.run(following())) is not None:
            yield message

    def _call(self, call: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *arguments, **options: self._waited(call, *arguments, **options)

    def _waited(self, call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        async def made() -> Any:
            result = call(*arguments, **options)
            return await result if isinstance(result, Awaitable) else result

        result = self._thread.run(made())
        is_object = isinstance(result, (*AWAITED, Made)) or hasattr(result, "__aexit__")
        return OnALoop(result, self._thread) if is_object else result
