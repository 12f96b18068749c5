"""The server: one event loop on a thread of its own, which alone touches the protocol engine."""

from __future__ import annotations

import asyncio
import logging
import secrets
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

from proton import Condition

from jbm_kafka.amqp.admin_endpoint import AdminEndpoint
from jbm_kafka.amqp.beside import Beside
from jbm_kafka.amqp.fault_log import FaultLog
from jbm_kafka.amqp.made_lately import MadeLately
from jbm_kafka.amqp.neighbours import Neighbours
from jbm_kafka.amqp.newcomer import Door, Newcomer
from jbm_kafka.amqp.server_settings import ServerSettings
from jbm_kafka.amqp.shares import Shares
from jbm_kafka.amqp.unfinished import Unfinished
from jbm_kafka.amqp.wire import Wire
from jbm_kafka.amqp_wire import engine_objects
from jbm_kafka.amqp_wire.conditions import FORCED
from jbm_kafka.amqp_wire.engine_objects import Work
from jbm_kafka.amqp_wire.loop_mailbox import LoopMailbox
from jbm_kafka.client.connection_counts import ConnectionCounts
from jbm_kafka.client.small_http import SmallHttp
from jbm_kafka.core.jms_errors import InvalidSettingError
from jbm_kafka.core.statistics import Health, Statistics
from jbm_kafka.ports import freed_memory
from jbm_kafka.ports.clock import SystemClock
from jbm_kafka.ports.forwarding import ForwardingSidecar
from jbm_kafka.ports.provider import ServingProvider

log = logging.getLogger(__name__)

CALLS_MAX = 32
"""How many calls of all connections wait for Kafka at the same time."""
START_TIMEOUT_S = 30.0
LOOK_S = 0.02
LOOK_AGAIN_S = 0.5
TRIM_S = 30.0


class Server:
    """Lets AMQP 1.0 clients use one installation; a context manager.

    start, stop: begin and end; `stop` waits for what clients have in hand.
    ports, is_ready: where it listens, and whether it takes new clients.
    """

    def __init__(self, settings: ServerSettings, connect: Callable[[], ServingProvider]) -> None:
        """`connect` gives the provider, which all clients share."""
        self.settings = settings
        self.ports: list[int] = []
        self.admin_port = 0
        self.container = f"jbm-kafka-{secrets.token_hex(4)}"
        self.wires: dict[Wire, None] = {}
        self.refused = 0
        self.sent: Counter[str] = Counter()
        limits = settings.limits
        self.links_by_name: dict[Any, Any] = {}
        self.browsers = Shares(limits.browsers, limits.browsers_per_user)
        self.made = MadeLately(limits.topics_made_per_hour)
        self.unfinished: Unfinished[Any] = Unfinished(limits.unfinished_bytes, limits.unfinished_bytes_per_user)
        self.faults = FaultLog(SystemClock().monotonic_ms)
        self.door = Door(limits)
        self.neighbours: Neighbours | None = None
        self.is_draining = False
        self.is_ready = False
        self.loop = asyncio.new_event_loop()
        self.mailbox = LoopMailbox(self.loop)
        self.threads = ThreadPoolExecutor(CALLS_MAX, thread_name_prefix="jbm-amqp")
        self.encoder = ThreadPoolExecutor(1, thread_name_prefix="jbm-amqp-encoder")
        self.beside = Beside(self.loop, self.encoder)
        self._connect = connect
        self.provider: ServingProvider
        self._listening: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[Any]] = set()
        self._trimmed_at = 0.0
        self._thread = threading.Thread(target=self._serve, name="jbm-amqp", daemon=True)

    def start(self) -> None:
        """Listen.

        Raises:
            InvalidSettingError: an address cannot be had.
            JMSError: the provider cannot be.
        """
        freed_memory.free_in_few_places()
        self.provider = self._connect()
        self._thread.start()
        try:
            asyncio.run_coroutine_threadsafe(self._listen(), self.loop).result(START_TIMEOUT_S)
        except BaseException:
            self.stop(0.0)
            raise

    def stop(self, drain_s: float | None = None) -> None:
        """End: take no new clients, wait so long for what clients have in hand, close their connections."""
        if not self._thread.is_alive():
            return
        wait_s = self.settings.drain_s if drain_s is None else drain_s
        asyncio.run_coroutine_threadsafe(self._end(wait_s), self.loop).result(wait_s + START_TIMEOUT_S)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(START_TIMEOUT_S)
        self.provider.close()
        self.threads.shutdown(wait=False)
        self.encoder.shutdown(wait=False)
        self.door.passwords.shutdown(wait=False)

    def statistics(self) -> Statistics:
        """As of `Connection.statistics`: of all clients together."""
        peers = [wire.peer for wire in list(self.wires) if wire.peer is not None]
        links = sum(peer.link_count for peer in peers)
        counted = replace(
            self.provider.statistics(), clients=len(peers), client_links=links, clients_refused=self.refused
        )
        return ConnectionCounts().merged(counted, [self.sent])

    def health(self, timeout_s: float | None, /) -> Health:
        """As of `Connection.health`; when it stops it is not ready."""
        found = self.provider.health(timeout_s)
        if not self._thread.is_alive():
            return Health(False, False, (*found.reasons, "the AMQP server's event loop has ended"))
        if not self.is_ready:
            return replace(found, is_ready=False, reasons=(*found.reasons, "the AMQP server stops"))
        return found

    def run(self, work: Work) -> None:
        """Have something done that no connection waits for."""

        async def guarded() -> None:
            try:
                await work
            except Exception:
                log.exception("the AMQP server: an error while a client was let go")

        task = self.loop.create_task(guarded())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        engine_objects.own()
        self.loop.run_forever()
        engine_objects.disown()
        self.loop.close()

    async def _listen(self) -> None:
        for each in self.settings.listeners:
            try:
                newcomer = partial(Newcomer, self, self.door, each.tls)
                made = await self.loop.create_server(newcomer, each.host, each.port, backlog=1024)
            except OSError as error:
                text = f"{each.host}:{each.port} cannot be had: {error.strerror}; choose another port"
                raise InvalidSettingError(text, setting="port", value=each.port) from None
            self._listening.append(made)
            self.ports.append(made.sockets[0].getsockname()[1])
        if self.settings.admin_port is not None:
            endpoint = AdminEndpoint(self, lambda: self.is_ready)
            made = await SmallHttp(endpoint.answer).listen("127.0.0.1", self.settings.admin_port)
            self._listening.append(made)
            self.admin_port = made.sockets[0].getsockname()[1]
        said, provider = self.settings.forwarding, self.provider
        if said is not None:
            assert isinstance(provider, ForwardingSidecar), provider
            self.neighbours = Neighbours(self, said, provider)
            self.run(self.neighbours.serve())
        self.is_ready = True
        self._look()

    def _look(self) -> None:
        """Do what is due now and then, and come again after LOOK_AGAIN_S.

        Receivers whose group worker has left, as it does when nobody receives for a while, are served anew; objects of
        the engine and, less often, memory are freed; faults that were counted are told.
        """
        engine_objects.let_go()
        self.faults.count()
        for wire in self.wires:
            if wire.peer is not None:
                wire.peer.pump()
        if self.loop.time() - self._trimmed_at > TRIM_S:
            self._trimmed_at = self.loop.time()
            self.loop.run_in_executor(self.threads, freed_memory.trim)
        self.loop.call_later(LOOK_AGAIN_S, self._look)

    async def _end(self, drain_s: float) -> None:
        self.is_ready = False
        self.is_draining = True
        for each in self._listening:
            each.close()
        deadline = self.loop.time() + drain_s
        while self.loop.time() < deadline and any(
            wire.peer is not None and wire.peer.has_unsettled for wire in self.wires
        ):
            await asyncio.sleep(LOOK_S)
        if self.neighbours is not None:
            await self.neighbours.end()
        for wire in list(self.wires):
            if wire.peer is not None:
                wire.peer.end(Condition(FORCED, "the sidecar stops; connect again"))
        await asyncio.sleep(LOOK_S)
        for wire in list(self.wires):
            wire.abort()
        for newcomer in list(self.door.newcomers):
            newcomer.abort()
        await asyncio.sleep(LOOK_S)
        while self._tasks and self.loop.time() < deadline + START_TIMEOUT_S / 2:
            await asyncio.sleep(LOOK_S)

    def __enter__(self) -> Server:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
