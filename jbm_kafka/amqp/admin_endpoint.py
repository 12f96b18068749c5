"""A small HTTP endpoint: makes destinations, purges them, and says whether the server is well."""

from __future__ import annotations

from collections.abc import Callable

from jbm_kafka.amqp.part_protocols import Host
from jbm_kafka.amqp.purge import purge
from jbm_kafka.client.small_http import Response
from jbm_kafka.core.destination import Destination, Queue, Topic
from jbm_kafka.core.jms_errors import InvalidDestinationError, JMSError


class AdminEndpoint:
    """`PUT` and `DELETE` of `/queues/NAME` and `/topics/NAME`, `GET /healthz` and `GET /readyz`."""

    def __init__(self, host: Host, is_ready: Callable[[], bool]) -> None:
        self._host = host
        self._is_ready = is_ready

    async def answer(self, method: str, path: str) -> Response:
        """To one request."""
        status, text = await self._answer(method, path)
        return status, "text/plain; charset=utf-8", f"{text}\n".encode() if text else b""

    async def _answer(self, method: str, path: str) -> tuple[int, str]:
        if method == "GET" and path in ("/healthz", "/readyz"):
            is_well = path == "/healthz" or self._is_ready()
            return (200, "ok") if is_well else (503, "not ready")
        _, _, rest = path.partition("/")
        kind, _, name = rest.partition("/")
        if kind not in ("queues", "topics") or method not in ("PUT", "DELETE"):
            return 404, "PUT or DELETE /queues/NAME or /topics/NAME, GET /healthz or /readyz"
        try:
            destination = Queue(name) if kind == "queues" else Topic(name)
            call = self._make if method == "PUT" else self._empty
            await self._host.loop.run_in_executor(self._host.threads, call, destination)
        except InvalidDestinationError as error:
            return 400, str(error)
        except JMSError as error:
            return 500, str(error)
        return 204, ""

    def _make(self, destination: Destination) -> None:
        self._host.provider.ensure(destination)

    def _empty(self, destination: Destination) -> None:
        if isinstance(destination, Queue):
            purge(self._host.provider, destination)
