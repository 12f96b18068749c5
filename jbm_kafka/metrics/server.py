"""`/metrics`, `/healthz` and `/readyz` of a process that works or watches, on an event loop of its own."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, Self

from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from jbm_kafka.client.small_http import Response, SmallHttp
from jbm_kafka.core.closed_at_end import ClosedAtEnd
from jbm_kafka.core.jms_errors import InvalidSettingError
from jbm_kafka.core.statistics import Health
from jbm_kafka.metrics.collector import JbmCollector, Watched

READY_TIMEOUT_S = 5.0
"""How long Kafka has to answer a question of readiness."""
NOT_CONNECTED = Health(True, False, ("the worker is not connected: it starts, or it ends",))


class Probed(Protocol):
    """Whose health the server tells."""

    def health(self, timeout: float | None, /) -> Health:
        """How it fares; with a timeout Kafka may be asked for so many seconds."""


ProbedOf = Callable[[], Probed | None]
ConnectionOf = Callable[[], Watched | None]
_PATHS = ("/metrics", "/healthz", "/readyz")


class MetricsServer(ClosedAtEnd):
    """Serves until it is closed; a context manager. The metrics are those of prometheus-client's own registry, too."""

    @classmethod
    def of_connection(cls, port: int, connection_of: ConnectionOf, *collectors: Collector) -> Self:
        """One with the metrics of what is connected now, if anything is."""
        return cls(port, connection_of, _CurrentCollector(connection_of), *collectors)

    def __init__(self, port: int, probed_of: ProbedOf, *collectors: Collector) -> None:
        """Listens on every address of the machine. `probed_of`: whose health is told now; None: nothing yet.

        Raises:
            InvalidSettingError: the port cannot be had.
        """
        self._loop = asyncio.new_event_loop()
        self._answers = _Answers(probed_of)
        try:
            self._server = self._loop.run_until_complete(SmallHttp(self._answers.answer).listen("0.0.0.0", port))
        except OSError as error:
            self._loop.close()
            text = f"port {port} for /metrics cannot be had: {os.strerror(error.errno or 0)}; choose another"
            raise InvalidSettingError(text, setting="metrics_port", value=port) from None
        self._collectors = collectors
        for each in collectors:
            REGISTRY.register(each)
        self._thread = threading.Thread(target=self._loop.run_forever, name="jbm-metrics", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.sockets[0].getsockname()[1])

    def close(self) -> None:
        """Serve no more."""
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._answers.close()
        for each in self._collectors:
            REGISTRY.unregister(each)

    async def _end(self) -> None:
        self._server.close()
        under_way = asyncio.all_tasks() - {asyncio.current_task()}
        for each in under_way:
            each.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)


class _CurrentCollector(Collector):
    def __init__(self, connection_of: ConnectionOf) -> None:
        self._connection_of = connection_of

    def describe(self) -> Iterable[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        connection = self._connection_of()
        if connection is not None:
            yield from JbmCollector(connection).collect()


class _Answers:
    """On the loop: what was asked and is not answered yet is not asked once more, however many want to know."""

    def __init__(self, probed_of: ProbedOf) -> None:
        self._probed_of = probed_of
        self._threads = ThreadPoolExecutor(len(_PATHS), thread_name_prefix="jbm-metrics")
        self._asked: dict[str, asyncio.Future[Response]] = {}

    async def answer(self, method: str, path: str) -> Response:
        """To one request."""
        path = path.partition("?")[0]
        if path not in _PATHS or method != "GET":
            return 404, "text/plain", b"there are /metrics, /healthz and /readyz\n"
        asked = self._asked.get(path)
        if asked is None:
            asked = asyncio.get_running_loop().run_in_executor(self._threads, self._response, path)
            self._asked[path] = asked
            asked.add_done_callback(lambda _: self._asked.pop(path))
        return await asyncio.shield(asked)

    def close(self) -> None:
        self._threads.shutdown(wait=False)

    def _response(self, path: str) -> Response:
        if path == "/metrics":
            return 200, CONTENT_TYPE_LATEST, generate_latest()
        probed, asks_if_ready = self._probed_of(), path == "/readyz"
        # Whether it is alive must not wait for Kafka: a probe's time is short, and a process is killed by it.
        health = NOT_CONNECTED if probed is None else probed.health(READY_TIMEOUT_S if asks_if_ready else None)
        is_well = health.is_ready if asks_if_ready else health.is_alive
        reasons = health.reasons if asks_if_ready or not is_well else ()  # who stands by is ready, and says for whom
        text = "\n".join(("ok", *reasons) if is_well else reasons)
        return 200 if is_well else 503, "text/plain; charset=utf-8", f"{text}\n".encode()
