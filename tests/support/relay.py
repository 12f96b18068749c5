"""A network between clients and brokers that a test may slow down or cut in silence: bytes of each connection are held.

Nothing is closed by a cut, and who connects meanwhile is let in and hears nothing.
"""

import asyncio
import threading
from collections.abc import Mapping

CHUNK = 1 << 16
TICK_S = 1e-6
"""Chunks that become due at once would change places."""


class Relay:
    """Passes on what comes to each of some ports to another port of this machine."""

    def __init__(self, ports: Mapping[int, int]) -> None:
        """`ports`: to whom, by where it listens."""
        self.delay_s = 0.0
        """Each way, of what comes from now on."""
        self._ports = ports
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._passes = asyncio.Event()
        self._passes.set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def bootstrap(self) -> str:
        """All its addresses, with commas between."""
        return ",".join(f"127.0.0.1:{port}" for port in self._ports)

    def start(self) -> None:
        """Listen."""
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)

    def stop(self) -> None:
        """Listen and pass on no more."""
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def cut(self) -> None:
        """Nothing passes until `heal`."""
        self._loop.call_soon_threadsafe(self._passes.clear)

    def heal(self) -> None:
        """What was held passes, and all that comes."""
        self._loop.call_soon_threadsafe(self._passes.set)

    async def _listen(self) -> None:
        for port, to in self._ports.items():

            async def met(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, to: int = to) -> None:
                there_reader, there_writer = await asyncio.open_connection("127.0.0.1", to)
                for pair in ((reader, there_writer), (there_reader, writer)):
                    task = self._loop.create_task(self._pass_on(*pair))
                    self._tasks.add(task)
                    task.add_done_callback(self._tasks.discard)

            await asyncio.start_server(met, "127.0.0.1", port)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        due = 0.0
        try:
            while data := await reader.read(CHUNK):
                await self._passes.wait()
                due = max(self._loop.time() + self.delay_s, due + TICK_S)
                self._loop.call_at(due, writer.write, data)
        except OSError:
            pass  # its end is the other's end, as for an end in order
        finally:
            self._loop.call_at(due + TICK_S, writer.close)

    async def _end(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
