"""A client's browser: it is shown what a queue holds, and takes nothing."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Set
from typing import Any

from proton import Sender

from jbm_kafka.amqp.part_protocols import Client
from jbm_kafka.amqp.receiver_links import NO_LIMIT, refuse_large
from jbm_kafka.amqp_wire.engine_objects import EngineDelivery, transfer
from jbm_kafka.amqp_wire.names import ALL, DELIVERABLE
from jbm_kafka.client.bodies.fetched_record import shown_with_body
from jbm_kafka.codec.amqp.encode_transfer import encode_transfer
from jbm_kafka.core.destination import Queue
from jbm_kafka.core.jms_errors import ResourceAllocationError
from jbm_kafka.core.selectors.selector import Selector

BROWSED, BROWSED_BYTES = 1_000, 2**20
"""A portion of what a browser shows: what is in memory of it, whatever its queue holds."""


class Browser:
    """Shows a client what a queue holds, as of when it asked: a portion at a time, as the client takes it."""

    def __init__(self, peer: Client, sender: Sender, queue: Queue, selector: Selector | None, wanted: Set[str]) -> None:
        """`wanted`: what of names.py its source says."""
        self._peer = peer
        self._sender = sender
        self._queue = queue
        self._selector = selector
        self._wanted = wanted
        self._seen: Any = None
        """The rest, with what reads it; None: there is none."""
        self._found: deque[bytes] = deque()
        self._is_reading = False
        self._is_counted = False
        self._tags = itertools.count(1)
        self.is_closed = False

    # -- in the lane of the connection ---------------------------------------------------------------------------------

    def begin(self) -> None:
        """Look. Raises ResourceAllocationError: too many have a rest to read."""
        include = "deliverable" if DELIVERABLE in self._wanted else "all"
        self._now_ms = self._peer.provider.clock.now_ms()
        self._seen = self._peer.provider.browse(self._queue, include=include, selector=self._selector)
        try:
            self._read()
            if self._seen is not None:
                over = self._peer.server.browsers.take(self._peer.whose)
                if over is not None:
                    text = f"{self._queue}: {over} may browse without having come to the end; close a browser"
                    raise ResourceAllocationError(text)
                self._is_counted = True
        except BaseException:
            self._let_go()
            raise

    def _read(self) -> None:
        """The next portion."""
        now_ms, size = self._now_ms, 0
        for seen in self._seen or ():
            if seen.due_at_ms > now_ms and ALL not in self._wanted:
                continue
            record, kind = shown_with_body(seen.record, self._peer.settings.large_bodies)
            count, state = seen.attempts, seen.state.value if self._wanted else None
            data = encode_transfer(record, kind, self._queue, delivery_count=count, now_ms=now_ms, state=state)
            self._found.append(data)
            size += len(data)
            if len(self._found) >= BROWSED or size >= BROWSED_BYTES:
                return
        self._let_go()

    def _let_go(self) -> None:
        seen, self._seen = self._seen, None
        if seen is not None:
            seen.close()
        if self._is_counted:
            self._is_counted = False
            self._peer.server.browsers.give_back(self._peer.whose)

    # -- on the loop ---------------------------------------------------------------------------------------------------

    async def ready(self) -> None:
        """Nothing more to wait for."""

    def pump(self) -> None:
        """Send as far as the credit goes."""
        sender, found = self._sender, self._found
        if self.is_closed or self._is_reading:
            return
        while found and sender.credit > 0 and self._peer.takes_more:
            data = found.popleft()
            if len(data) > (sender.remote_max_message_size or NO_LIMIT):
                refuse_large(self._peer, sender, self._queue, len(data))
                return
            self._peer.outgoing_bytes += len(data)
            transfer(sender, str(next(self._tags)), data, is_settled=True)
        if not found and self._seen is not None:
            if sender.credit > 0:
                self._is_reading = True
                self._peer.spawn(self._read_on(), sender)
        elif not found and sender.drain_mode:
            sender.drained()
        self._peer.touch()

    async def _read_on(self) -> None:
        try:
            await self._peer.call(self._read)
        finally:
            self._is_reading = False
        self.pump()

    def outcome(self, sent: EngineDelivery) -> None:
        sent.settle()

    async def close(self, *, is_lost: bool, ends: bool) -> None:
        self.is_closed = True
        await self._peer.call(self._let_go)
