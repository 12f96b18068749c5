"""The link of a consumer in PRE: what arrives in its buffer is acknowledged by that, and is the consumer's for good."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence

from jbm_kafka.core.settlement import Modified
from jbm_kafka.ports.completion import Completion
from jbm_kafka.ports.deliveries import Delivery
from jbm_kafka.ports.link import Link
from jbm_kafka.ports.wake_up import Sleepers


class PreAcknowledgedLink(Link):
    """What is acknowledged never goes back: not when it is idle, stopped, paused or closed, nor with its partition."""

    def __init__(
        self,
        *,
        link_id: str,
        session_id: str,
        prefetch: int,
        filled: Sleepers,
        lock: threading.RLock | threading.Lock,
        records_first: bool,
    ) -> None:
        """`records_first`: what comes is acknowledged by the group worker, and arrives when that is durable."""
        super().__init__(link_id=link_id, session_id=session_id, prefetch=prefetch, filled=filled, lock=lock)
        self.records_first = records_first
        self.kept: deque[Delivery] = deque()
        """Unread when the connection was stopped or the destination paused: not in the buffer, so that a receive looks
        in one place and asks nothing more."""

    def drop(self) -> list[Delivery]:
        """Forget what is unread; returns it."""
        with self.lock:
            unread = [*self.buffer, *self.kept]
            self.buffer.clear()
            self.kept.clear()
            for batch in self.coming if self.records_first else ():
                unread += batch
                batch.clear()
            return unread

    def resume(self) -> None:
        super().resume()
        self._show_kept()

    def keep_back(self) -> None:
        if self.is_kept_back:
            return
        with self.lock:
            self.is_kept_back = True
            self._keep()

    def let_out(self) -> None:
        with self.lock:
            self.is_kept_back = False
            if self.kept:
                self.credit = 0  # it looked empty to who asked: with that it would get more than its prefetch
            self._show_kept()
            self.filled.notify_all()

    def put_back(self, delivery: Delivery) -> None:
        with self.lock:
            unread = self.kept if self._keeps else self.buffer
            if not (unread and unread[0] is delivery):
                unread.appendleft(delivery)

    def give_back_unread(self, *, stop: bool = False) -> None:
        with self.lock:
            self.is_stopped = self.is_stopped or stop
            self.credit = 0
            if stop:
                self._keep()

    @property
    def _keeps(self) -> bool:
        """Nothing is in the buffer, nor comes there."""
        return self.is_stopped or self.is_kept_back

    def _keep(self) -> None:
        self.kept.extend(self.buffer)
        self.buffer.clear()

    def _show_kept(self) -> None:
        if not self._keeps:
            self.buffer.extendleft(reversed(self.kept))
            self.kept.clear()

    def remove(self, partition: int, offsets: frozenset[int] | None) -> list[Delivery]:
        with self.lock:
            hidden = self._hide()
            out = super().remove(partition, offsets)
            self._show(hidden)
            return out

    def unread(self, partition: int) -> list[int]:
        with self.lock:
            hidden = self._hide()
            offsets = super().unread(partition)
            self._show(hidden)
            return offsets

    def _take_unread(self) -> list[Delivery]:
        hidden = self._hide()
        unread = super()._take_unread()
        self._show(hidden)
        return unread

    def _hide(self) -> tuple[deque[Delivery], list[list[Delivery]]]:
        """Leave only what is not acknowledged: what is to arrive when its attempt is recorded."""
        hidden = self.buffer, self.coming
        self.buffer = deque()
        if self.records_first:
            self.coming = []
        return hidden

    def _show(self, hidden: tuple[deque[Delivery], list[list[Delivery]]]) -> None:
        self.buffer, self.coming = hidden

    def _give_back(self, rows: Sequence[tuple[Delivery, Modified]], done: Completion | None) -> None:
        if done is not None:
            done.complete()

    def _put(self, deliveries: Sequence[Delivery]) -> bool:
        if self.records_first and self._keeps:
            self.kept.extend(deliveries)
            return True
        if self.is_closed or self._keeps:
            return False
        if not self.records_first:
            for delivery in deliveries:
                delivery.lease.acked.append(delivery.offset)
        return super()._put(deliveries)
