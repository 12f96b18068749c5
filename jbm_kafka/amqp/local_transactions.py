"""Local transactions of one connection: what was sent and received in one is committed together, or not at all."""

from __future__ import annotations

import asyncio
import secrets
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, TypeVar

from jbm_kafka.amqp.across_sidecars import AcrossSidecars, ForwardedMessage, Owner
from jbm_kafka.amqp.client_outcome import ClientOutcome
from jbm_kafka.amqp.part_protocols import Client
from jbm_kafka.amqp_wire.conditions import FORCED, condition
from jbm_kafka.amqp_wire.loop_mailbox import answer
from jbm_kafka.core.channel.branch import Branch
from jbm_kafka.core.jms_errors import JMSError, ResourceAllocationError, TransactionRolledBackError
from jbm_kafka.ports.completion import Completion
from jbm_kafka.ports.deliveries import Delivery, PartitionLease
from jbm_kafka.ports.forwarding import ForwardingSidecar
from jbm_kafka.ports.kafka import Outgoing
from jbm_kafka.ports.link import Link
from jbm_kafka.ports.unit_of_work import Received, UnitOfWork, expired_before_commit


class ReceivedFrom(Protocol):
    """The receiver that got a message."""

    link: Link
    is_recorded: bool
    """The acknowledged messages are recorded; else they live in memory only, as does their source."""
    units: Any
    """The same for receivers that have units in common."""

    def committed(self, delivery: Delivery, outcome: ClientOutcome) -> None:
        """Its transaction is committed: with that it is gone, or what else was said of it holds."""

    def rolled_back(self, deliveries: Sequence[Delivery]) -> None:
        """A transaction that had these, of it or others with its units, was rolled back: they come again, counted."""

    def ended(self, count: int = 1) -> None:
        """So many messages are in a transaction no more."""

    def in_doubt(self) -> None:
        """Nobody knows what became of a transaction that had a message of it."""


Accepted = list[tuple[ReceivedFrom, Delivery, ClientOutcome]]
T = TypeVar("T")


class LocalTransaction:
    """One that was declared and not discharged."""

    def __init__(self, peer: Client, name: bytes = b"") -> None:
        """`name`: as another sidecar has named it."""
        self._peer = peer
        self.id = name or secrets.token_bytes(16)
        self.sends: list[Outgoing] = []
        self.received: list[tuple[ReceivedFrom, Delivery, ClientOutcome]] = []
        self.failure: JMSError | None = None
        """Why it cannot be committed."""
        self._across = AcrossSidecars(peer, self.id)
        self._bytes = 0
        self._waiting = 0
        """Messages whose place in Kafka is being asked."""
        self._there: asyncio.Future[None] | None = None
        self._expires_at_ms = 0

    def wait(self) -> None:
        """One of its messages cannot be added yet."""
        self._waiting += 1

    def waited(self) -> None:
        """It was added, or refused."""
        self._waiting -= 1
        if not self._waiting and self._there is not None:
            answer(self._there, None)

    async def all_there(self) -> None:
        """Return when each message that came before is added or refused."""
        if self._waiting:
            self._there = self._peer.server.loop.create_future()
            await self._there

    def add(self, record: Outgoing, expires_at_ms: int) -> None:
        """Send it when it is committed."""
        self._bytes += len(record.value or b"") + 200
        most = self._peer.provider.traits.transaction_bytes_max
        if self._bytes > most:
            self.failure = ResourceAllocationError(f"the transaction sends more than {most} bytes; commit more often")
            raise self.failure
        self.sends.append(record)
        if expires_at_ms and not 0 < self._expires_at_ms <= expires_at_ms:
            self._expires_at_ms = expires_at_ms

    async def commit(self) -> None:
        """Commit it.

        Raises:
            TransactionRolledBackError: everything received comes again.
            JMSError: nobody knows. The connection ends, for only so what was not committed comes again.
        """
        try:
            accepted = [each for each in self.received if each[2].is_accepted]
            self._check(accepted)
            if self._across.is_used:
                recorded = [each for each in accepted if each[0].is_recorded]
                await self._across.commit(self.sends, partial(self._prepare, recorded) if recorded else None)
                for _, delivery, outcome in self.received:
                    if outcome.is_accepted:
                        delivery.lease.acknowledge(delivery.offset)
            elif self.sends or accepted:
                await self._submit(self._work(accepted), self._peer.provider.submit)
            if self.sends:
                self._peer.server.sent.update(each.topic for each in self.sends)
        except TransactionRolledBackError:
            await self.roll_back()
            raise
        except JMSError as error:
            for receiver, _, _ in self.received:
                receiver.in_doubt()
            self._peer.end(condition(FORCED, f"{error}; what was not committed comes again"))
            raise
        for receiver, delivery, outcome in self.received:
            receiver.committed(delivery, outcome)

    def _check(self, accepted: Accepted) -> None:
        if self.failure is not None:
            raise TransactionRolledBackError(f"rolled back: {self.failure}") from None
        if self._expires_at_ms and self._peer.provider.clock.now_ms() >= self._expires_at_ms:
            raise expired_before_commit(self._expires_at_ms)
        if any(delivery.lease.is_revoked for _, delivery, _ in accepted):
            raise TransactionRolledBackError("rolled back: a partition moved to another process; all comes again")

    def take_forwarded(self, owner: Owner, message: ForwardedMessage) -> None:
        """A message of another sidecar's is acknowledged in it, and its owner knows."""
        self._across.take(owner, message)

    async def prepare(self, branch: Branch) -> bytes:
        """Prepare what was received, for its decider; returns what that is to note.

        Raises:
            TransactionRolledBackError: it is not, and waits to be rolled back.
            JMSError: nobody knows.
        """
        accepted = [each for each in self.received if each[2].is_accepted]
        self._check(accepted)
        return await self._prepare(accepted, branch)

    async def _prepare(self, accepted: Accepted, branch: Branch) -> bytes:
        provider: Any = self._peer.provider
        assert isinstance(provider, ForwardingSidecar), provider
        record = await self._submit(self._work(accepted, branch), provider.prepare)
        for receiver, _, _ in accepted:
            receiver.ended()
        self.received = [each for each in self.received if each not in accepted]
        return record

    def decided(self) -> None:
        """It was prepared, and is committed: what it says otherwise of messages than that they are accepted, holds."""
        for receiver, delivery, outcome in self.received:
            receiver.committed(delivery, outcome)
        self.received = []

    def _work(self, accepted: Accepted, branch: Branch | None = None) -> UnitOfWork:
        by_lease: dict[tuple[Link, PartitionLease], list[int]] = defaultdict(list)
        for receiver, delivery, _ in accepted:
            by_lease[receiver.link, delivery.lease].append(delivery.offset)
        received = [Received(link, lease, offsets) for (link, lease), offsets in by_lease.items()]
        about = f"commit of {self._peer.connection_id}"
        if branch is not None:
            return UnitOfWork(about, (), received, branch=branch)
        return UnitOfWork(about, self.sends, received, expires_at_ms=self._expires_at_ms)

    async def _submit(self, work: UnitOfWork, submit: Callable[[UnitOfWork], T]) -> T:
        ended = self._peer.server.loop.create_future()

        def tell(error: Exception | None) -> None:
            self._peer.mailbox.post(lambda: answer(ended, error))

        try:
            done = await self._peer.call(lambda: submit(replace(work, done=Completion(tell))))
        except JMSError as error:
            raise TransactionRolledBackError(f"rolled back: {error}") from None
        failure: Exception | None = await ended
        if failure is not None:
            raise failure
        return done

    async def roll_back(self) -> None:
        """Have what was received come again, counted, and drop what was sent. Returns when other sidecars know."""
        self.let_go()
        await self._across.roll_back()

    def let_go(self) -> None:
        """Have what receivers of this sidecar got in the transaction come again, counted; no other sidecar is told."""
        together: dict[Any, list[tuple[ReceivedFrom, Delivery]]] = defaultdict(list)
        for receiver, delivery, _ in self.received:
            together[receiver.units].append((receiver, delivery))
        for rows in together.values():
            rows[0][0].rolled_back([delivery for _, delivery in rows])
            for receiver, _ in rows:
                receiver.ended()
        self.received = []
