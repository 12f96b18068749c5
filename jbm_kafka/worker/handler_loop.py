"""The event loop of a worker: its coroutines, and what lasts as long as the worker, share it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any

from jbm_kafka.core.jms_errors import IllegalStateError

CANCELLED_S = 1.0
"""How long coroutines have to end after they were cancelled."""
MAKING_S = 60.0
"""How long what is made or cleaned up on the loop may take."""


class HandlerLoop:
    """An event loop on a thread of its own, from now until `stop`."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="jbm-loop", daemon=True)
        self._is_blocked = False
        self._thread.start()

    def wait(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Run it to its end, from another thread; what it returns.

        Raises:
            IllegalStateError: a coroutine blocks the loop.
        """
        if self._is_blocked:
            coroutine.close()
            raise IllegalStateError("a coroutine blocks the worker's event loop")
        ending = asyncio.run_coroutine_threadsafe(coroutine, self.loop)
        try:
            return ending.result(MAKING_S)
        except TimeoutError:
            if ending.done():
                raise
            ending.cancel()
            raise IllegalStateError(f"it did not end on the worker's event loop within {MAKING_S:g} s") from None

    def give_up(self) -> None:
        """Somebody found that a coroutine blocks it: nothing runs there any more."""
        self._is_blocked = True

    def stop(self) -> None:
        """End it, behind what it does just now."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(0 if self._is_blocked else CANCELLED_S)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            left = asyncio.all_tasks(self.loop)  # behind a coroutine that blocked it for longer than anybody waited
            for task in left:
                task.cancel()
            self.loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            self.loop.close()
