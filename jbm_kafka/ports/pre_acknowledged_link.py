"""The link of a consumer in PRE: what arrives in its buffer is acknowledged by that, and is the consumer's for good."""

from __future__ import annotations

from collections.abc import Sequence

from jbm_kafka.core.channel.settlement import Modified
from jbm_kafka.core.receiving.hand import ANNOUNCED, AWAY, DROP, GRANT, KEEP, PUT_BACK, SHOW, Stands
from jbm_kafka.ports.completion import Completion
from jbm_kafka.ports.deliveries import Delivery
from jbm_kafka.ports.link import Link


class PreAcknowledgedLink(Link):
    """A link whose acknowledged messages never go back: not when it is idle, stopped, paused or closed, nor with their
    partition.

    Where its terms say `records_first` the group worker acknowledges what comes, and it arrives when that is durable.
    """

    def drop(self) -> list[Delivery]:
        """Forget what is acknowledged and unread; returns it."""
        with self.lock:
            acknowledged = self.buffer.acknowledged()
            self.buffer.apply(DROP, acknowledged)
            return acknowledged

    def resume(self) -> None:
        super().resume()
        self._show_kept()

    def keep_back(self) -> None:
        if self.buffer.is_kept_back:
            return
        with self.lock:
            self.buffer.is_kept_back = True
            self._keep()

    def let_out(self) -> None:
        with self.lock:
            self.buffer.is_kept_back = False
            if self.buffer.kept:
                self.demand.credit = 0  # it looked empty to the caller: with that it would get more than its prefetch
            self._show_kept()
            self.filled.notify_all()

    def put_back(self, delivery: Delivery) -> None:
        with self.lock:
            unread = self.buffer.kept if self._keeps else self.buffer.ready
            if unread and unread[0] is delivery:
                return  # it is there still
            self.buffer.apply(SHOW, self.buffer.kept)
            self.buffer.apply(PUT_BACK, [delivery])
            if self._keeps:
                self._keep()

    def give_back_unread(self, *, stop: bool = False) -> None:
        with self.lock:
            self.is_stopped = self.is_stopped or stop
            self.demand.credit = 0
            if stop:
                self._keep()

    def _returning(self) -> Stands:
        return AWAY if self.terms.records_first else ANNOUNCED  # what has arrived is acknowledged

    @property
    def _keeps(self) -> bool:
        """Nothing is ready in the buffer, nor becomes so."""
        return self.is_stopped or self.buffer.is_kept_back

    def _show_kept(self) -> None:
        if not self._keeps:
            self.buffer.apply(SHOW, self.buffer.kept)

    def _keep(self) -> None:
        self.buffer.apply(KEEP, self.buffer.ready)

    def _give_back(self, rows: Sequence[tuple[Delivery, Modified]], done: Completion | None) -> None:
        if done is not None:
            done.complete()

    def _put(self, deliveries: Sequence[Delivery], is_ranked: bool) -> bool:
        if self.terms.records_first and self._keeps:
            self.buffer.apply(GRANT, deliveries)
            self._keep()
            return True
        if self.is_closed or self._keeps:
            return False
        if not self.terms.records_first:
            for delivery in deliveries:
                delivery.lease.acked.append(delivery.offset)
        return super()._put(deliveries, is_ranked)
