"""The owner's side of a link of another sidecar: it gets messages of the partitions that are owned here."""

from __future__ import annotations

from typing import Any
from zlib import crc32

from jbm_kafka.amqp.client_outcome import TRANSACTIONAL, transaction_name
from jbm_kafka.amqp.local_transactions import LocalTransaction
from jbm_kafka.amqp.receiver_links import Receiver
from jbm_kafka.amqp_wire.engine_objects import EngineDelivery
from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.ports.deliveries import Delivery
from jbm_kafka.ports.forwarding import ForwardingSidecar


class Forwarder(Receiver):
    """A receiver that makes this process no member of a group, and keeps it in none: it has what is here."""

    is_forwarded = True

    def begin(self) -> None:
        """It uses nothing: who forwards has the selector or the subscription in use."""

    async def ready(self) -> None:
        """There is nothing to wait for."""

    def outcome(self, sent: EngineDelivery) -> None:
        """As of any receiver. The transaction is its client's, which its sidecar names."""
        if sent.remote_state == TRANSACTIONAL:
            name = transaction_name(sent.remote.data)
            transaction = self._peer.transactions.get(name)
            if transaction is None:
                transaction = self._peer.transactions[name] = LocalTransaction(self._peer, name)
            if sent.tag not in self.unsettled:
                transaction.failure = transaction.failure or JMSError("a message of it is to come again")
        super().outcome(sent)

    def mark_of(self, delivery: Delivery) -> str:
        """Its unit: who forwards drops what its owner takes back behind another."""
        place = delivery.unit_place
        return "" if place is None else f"|{place[0]}.{crc32(place[1]):x}"

    def pump(self) -> None:
        """As of any receiver, while somebody here receives from the source; else nothing is here."""
        link = self.link
        if not self.is_closed and not (link.is_attached and link.group_worker.is_running):
            link.await_worker()
            provider: Any = self._provider
            assert isinstance(provider, ForwardingSidecar), provider
            found = provider.attach_present(self._source, link)
            if found is not None:
                link.attach(found)
                link.notices.opened()
                self._introduce()
            elif self._sender.drain_mode:
                self._sender.drained()
                self._peer.touch()
        super().pump()

    async def close(self, *, is_lost: bool, ends: bool) -> None:
        """Give back what is unsettled; a subscription stays."""
        await super().close(is_lost=is_lost, ends=False)
