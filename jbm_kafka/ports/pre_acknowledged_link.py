"""The link of a consumer in PRE: what arrives in its buffer is acknowledged by that, and is the consumer's for good."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from jbm_kafka.core.settlement import Modified
from jbm_kafka.ports.completion import Completion
from jbm_kafka.ports.deliveries import Delivery
from jbm_kafka.ports.link import Link, LinkTerms
from jbm_kafka.ports.link_buffer import AcknowledgedBuffer
from jbm_kafka.ports.wake_up import Sleepers


class PreAcknowledgedLink(Link):
    """What is acknowledged never goes back: not when it is idle, stopped, paused or closed, nor with its partition.

    Where its terms say `records_first` the group worker acknowledges what comes, and it arrives when that is durable.
    """

    def __init__(self, terms: LinkTerms, *, filled: Sleepers, lock: threading.RLock | threading.Lock) -> None:
        super().__init__(terms, filled=filled, lock=lock, buffer=AcknowledgedBuffer(records_first=terms.records_first))

    @property
    def acknowledged(self) -> AcknowledgedBuffer:
        """Its buffer, which keeps what cannot go back."""
        buffer = self.buffer
        assert isinstance(buffer, AcknowledgedBuffer), buffer
        return buffer

    def drop(self) -> list[Delivery]:
        """Forget what is unread; returns it."""
        with self.lock:
            return self.acknowledged.drop()

    def resume(self) -> None:
        super().resume()
        self._show_kept()

    def keep_back(self) -> None:
        buffer = self.acknowledged
        if buffer.is_kept_back:
            return
        with self.lock:
            buffer.is_kept_back = True
            buffer.keep()

    def let_out(self) -> None:
        with self.lock:
            buffer = self.acknowledged
            buffer.is_kept_back = False
            if buffer.kept:
                self.demand.credit = 0  # it looked empty to the caller: with that it would get more than its prefetch
            self._show_kept()
            self.filled.notify_all()

    def put_back(self, delivery: Delivery) -> None:
        with self.lock:
            self.acknowledged.put_back(delivery, keeps=self._keeps)

    def give_back_unread(self, *, stop: bool = False) -> None:
        with self.lock:
            self.is_stopped = self.is_stopped or stop
            self.demand.credit = 0
            if stop:
                self.acknowledged.keep()

    @property
    def _keeps(self) -> bool:
        """Nothing is ready in the buffer, nor becomes so."""
        return self.is_stopped or self.buffer.is_kept_back

    def _show_kept(self) -> None:
        if not self._keeps:
            self.acknowledged.show()

    def _give_back(self, rows: Sequence[tuple[Delivery, Modified]], done: Completion | None) -> None:
        if done is not None:
            done.complete()

    def _put(self, deliveries: Sequence[Delivery], is_ranked: bool) -> bool:
        if self.terms.records_first and self._keeps:
            self.acknowledged.kept.extend(deliveries)
            return True
        if self.is_closed or self._keeps:
            return False
        if not self.terms.records_first:
            for delivery in deliveries:
                delivery.lease.acked.append(delivery.offset)
        return super()._put(deliveries, is_ranked)
