"""A small HTTP endpoint: makes destinations, purges them, and says whether the server is well."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from jbm_kafka.amqp.purge import purge
from jbm_kafka.amqp.seams import Host
from jbm_kafka.core.destination import Destination, Queue, Topic
from jbm_kafka.core.jms_errors import InvalidDestinationError, JMSError

log = logging.getLogger(__name__)

REQUEST_BYTES = 8_192
REQUEST_S = 10.0


class AdminEndpoint:
    """`PUT` and `DELETE` of `/queues/NAME` and `/topics/NAME`, `GET /healthz` and `GET /readyz`."""

    def __init__(self, host: Host, is_ready: Callable[[], bool]) -> None:
        self._host = host
        self._is_ready = is_ready

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request of one connection."""
        try:
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), REQUEST_S)
            method, path, *_ = head.decode("latin-1").split(" ", 2)
            status, text = await self._answer(method, path)
            body = f"{text}\n".encode() if text else b""
            writer.write(
                b"HTTP/1.1 %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % (status.encode(), len(body)) + body
            )
            await writer.drain()
        except (OSError, ValueError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            log.info("a request of the admin endpoint was not answered: %r", error)
        finally:
            writer.close()

    async def _answer(self, method: str, path: str) -> tuple[str, str]:
        if method == "GET" and path in ("/healthz", "/readyz"):
            is_well = path == "/healthz" or self._is_ready()
            return ("200 OK", "ok") if is_well else ("503 Service Unavailable", "not ready")
        _, _, rest = path.partition("/")
        kind, _, name = rest.partition("/")
        if kind not in ("queues", "topics") or method not in ("PUT", "DELETE"):
            return "404 Not Found", "PUT or DELETE /queues/NAME or /topics/NAME, GET /healthz or /readyz"
        try:
            destination = Queue(name) if kind == "queues" else Topic(name)
            call = self._make if method == "PUT" else self._empty
            await self._host.loop.run_in_executor(self._host.threads, call, destination)
        except InvalidDestinationError as error:
            return "400 Bad Request", str(error)
        except JMSError as error:
            return "500 Internal Server Error", str(error)
        return "204 No Content", ""

    def _make(self, destination: Destination) -> None:
        self._host.provider.ensure(destination)

    def _empty(self, destination: Destination) -> None:
        if isinstance(destination, Queue):
            purge(self._host.provider, destination)
