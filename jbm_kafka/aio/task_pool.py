"""A consumer's messages handled by tasks of one event loop: any number at once, of a unit one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from jbm_kafka.core.jms_errors import InvalidTypeError, JMSError, may_pass
from jbm_kafka.jms.base.error_lines import tell_error
from jbm_kafka.jms.base.handler_threads import RECEIVE_AGAIN_S
from jbm_kafka.jms.messages.message import Message

log = logging.getLogger(__name__)


class TaskPool:
    """Receives while fewer than `size` tasks handle. Of the loop on which `run` is awaited."""

    def __init__(
        self,
        receive: Callable[[], Awaitable[Message | None]],
        is_over: Callable[[], bool],
        handle: Callable[[Message], Awaitable[None]],
        size: int,
    ) -> None:
        self._receive = receive
        self._is_over = is_over
        self._handle = handle
        self._size = size
        self._tasks: set[asyncio.Task[None]] = set()
        self._failure: InvalidTypeError | None = None
        self._runner: asyncio.Task[object] | None = None
        """While it receives: whoever awaits `run`."""

    async def run(self) -> None:
        """Until the consumer is closed, and what it gave is handled. Cancelled, it cancels the tasks.

        Raises:
            JMSError: what trying again cannot mend; the tasks are cancelled.
        """
        runner = self._runner = asyncio.current_task()
        assert runner is not None, "run() is awaited by a task"
        try:
            while (message := await self._next()) is not None:
                task = asyncio.ensure_future(self._run(message))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
                while len(self._tasks) >= self._size:
                    await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
            if self._tasks:
                await asyncio.wait(self._tasks)
        except asyncio.CancelledError:
            if self._failure is None or runner.uncancel():
                raise
        finally:
            self._runner = None
            left = list(self._tasks)
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)
        if self._failure is not None:
            raise self._failure

    async def _run(self, message: Message) -> None:
        try:
            await self._handle(message)
        except InvalidTypeError as error:  # a call of the handler runs nothing
            self._failure = self._failure or error
            if self._runner is not None:
                self._runner.cancel()
                self._runner = None
        except Exception as error:
            tell_error(log, logging.ERROR, "the other handlers go on", error=error)

    async def _next(self) -> Message | None:
        while not self._is_over():
            try:
                return await self._receive()
            except JMSError as error:
                if self._is_over():
                    return None
                if not may_pass(error):
                    raise
                log.warning("receiving failed, and is tried again: %s", error)
            await asyncio.sleep(RECEIVE_AGAIN_S)
        return None
