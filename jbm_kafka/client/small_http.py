"""Answers HTTP requests that are all in their first lines, as probes, Prometheus and test suites ask them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from http import HTTPStatus

log = logging.getLogger(__name__)

HEAD_BYTES = 8_192
HEAD_S = 5.0
"""So long the lines of a request may take to come, and as long its answer to be taken."""
CONNECTIONS_MAX = 64

Response = tuple[int, str, bytes]
"""Status, type of the content, content."""


class SmallHttp:
    """One request of each connection. On an event loop, without a thread for anybody."""

    def __init__(self, answer: Callable[[str, str], Awaitable[Response]]) -> None:
        """`answer`: to a method and a path."""
        self._answer = answer
        self._asking: dict[asyncio.StreamWriter, None] = {}
        """Connections whose request has not come, the oldest first."""
        self._count = 0

    async def listen(self, host: str, port: int) -> asyncio.Server:
        """Listen until the server that this returns is closed. Raises OSError: the address cannot be had."""
        return await asyncio.start_server(self.serve, host, port, limit=HEAD_BYTES)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection. One too many takes the place of the oldest that has not asked."""
        self._count += 1
        try:
            if self._count > CONNECTIONS_MAX:
                oldest = next(iter(self._asking), writer)
                self._asking.pop(oldest, None)
                oldest.transport.abort()
                if oldest is writer:
                    return
            self._asking[writer] = None
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), HEAD_S)
            self._asking.pop(writer, None)
            method, path, *_ = head.decode("latin-1").split(" ", 2)
            status, kind, content = await self._answer(method, path)
            writer.write(
                f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nContent-Type: {kind}\r\n"
                f"Content-Length: {len(content)}\r\nConnection: close\r\n\r\n".encode()
                + content
            )
            writer.transport.set_write_buffer_limits(high=0)
            await asyncio.wait_for(writer.drain(), HEAD_S)
        except (OSError, ValueError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            log.debug("an HTTP request was not answered: %r", error)
            writer.transport.abort()
        finally:
            self._count -= 1
            self._asking.pop(writer, None)
            writer.close()
