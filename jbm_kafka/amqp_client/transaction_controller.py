"""A session's commit: one local transaction of the server's, declared, filled and discharged at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from proton import Described, Message, ulong

from jbm_kafka.amqp_client.remote_connection import RemoteConnection
from jbm_kafka.amqp_client.remote_sender import RemoteSender
from jbm_kafka.amqp_client.session_receivers import SessionReceivers
from jbm_kafka.amqp_client.termini import coordinator_of
from jbm_kafka.core.jms_errors import JMSError, TransactionRolledBackError
from jbm_kafka.ports.deliveries import Delivery as Granted
from jbm_kafka.ports.kafka import Outgoing
from jbm_kafka.ports.unit_of_work import UnitOfWork

FLUSH_AGAIN_S = 0.01
DECLARE, DISCHARGE = 0x31, 0x32
ACCEPTED = Described(ulong(0x24), [])


class TransactionController:
    """The controller of one connection; on its event loop."""

    def __init__(
        self, connection: RemoteConnection, send: Callable[[Outgoing, list[Any]], asyncio.Future[None]]
    ) -> None:
        """`send` has a record sent with a transaction's state; done when the server has it."""
        self._connection = connection
        self._send = send
        self._link: RemoteSender | None = None
        self._session: Any = None

    async def commit(self, work: UnitOfWork) -> None:
        """Commit it.

        Raises:
            TransactionRolledBackError: nothing of it holds.
            JMSError: nobody knows.
        """
        try:
            transaction = (await self._ask(DECLARE, [None]))[0]
        except JMSError as error:
            raise TransactionRolledBackError(f"rolled back: {error}") from None
        taken: list[tuple[SessionReceivers, list[Granted]]] = []
        failure = await self._fill(work, bytes(transaction), taken)
        while not self._connection.flush():  # the engine sends what is said of messages behind those that are sent
            await asyncio.sleep(FLUSH_AGAIN_S)
        try:
            await self._ask(DISCHARGE, [bytes(transaction), failure is not None])
        except TransactionRolledBackError:
            self._rolled_back(taken)
            raise
        except JMSError:
            if failure is None:
                raise
        if failure is not None:
            self._rolled_back(taken)
            raise TransactionRolledBackError(f"rolled back: {failure}")

    async def _fill(
        self, work: UnitOfWork, transaction: bytes, taken: list[tuple[SessionReceivers, list[Granted]]]
    ) -> JMSError | None:
        sent = [self._send(record, [transaction]) for record in work.sends]
        failure: JMSError | None = None
        try:
            for each in work.received:
                receiver = each.link.group_worker
                if each.lease.is_revoked or not isinstance(receiver, SessionReceivers):
                    raise JMSError("the connection broke since a message was received; it comes again")
                taken.append((receiver, receiver.take_part(each.offsets, [transaction, ACCEPTED])))
        except JMSError as error:
            failure = error
        outcomes = await asyncio.gather(*sent, return_exceptions=True)
        return failure or next((each for each in outcomes if isinstance(each, JMSError)), None)

    def _rolled_back(self, taken: list[tuple[SessionReceivers, list[Granted]]]) -> None:
        for receiver, granted in taken:
            receiver.rolled_back(granted)

    async def _ask(self, code: int, fields: list[Any]) -> list[Any]:
        link = await self._coordinator()
        answer: asyncio.Future[list[Any]] = self._connection.loop.create_future()

        def told(error: JMSError | None, data: Any) -> None:
            if answer.done():
                return
            if error is None:
                answer.set_result(data or [])
            else:
                answer.set_exception(error)

        message: Any = Message(body=Described(ulong(code), fields))
        link.put(message.encode(), told)
        return await answer

    async def _coordinator(self) -> RemoteSender:
        if self._session is None:  # of its own: else the receivers of the other one would count as transacted
            self._session = self._connection.new_session()
        if self._link is None or self._link.has_gone:
            made = coordinator_of(self._session)
            self._link = RemoteSender(self._connection, made, "the transaction")
            self._connection.add(self._link)
            await self._link.open()
        return self._link
