"""Calls on an event loop: nothing blocks it, no thread waits for a consumer, and tasks of one session take turns."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from jbm_kafka import AcknowledgeMode, DeliveryMode, Message, Queue
from jbm_kafka.aio import Connection, ConnectionFactory, Context
from jbm_kafka.aio.aio_consumer import IN_A_ROW
from jbm_kafka.errors import IllegalStateError, JMSError, RequestTimeoutError

ORDERS = Queue("orders")
SOON_S = 40.0
CONSUMERS = 100


@pytest.fixture
def factory(kafka_name: str) -> ConnectionFactory:
    return ConnectionFactory(f"memory://{kafka_name}")


def on_a_connection(factory: ConnectionFactory, work: Callable[[Connection], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        async with factory.create_connection() as connection:
            await work(connection)

    asyncio.run(run())


def test_consumers_that_wait_have_no_threads(factory: ConnectionFactory) -> None:
    """AIO-3: a hundred of them wait on one loop."""

    async def work(connection: Connection) -> None:
        sessions = [await connection.create_session() for _ in range(CONSUMERS)]
        consumers = [await session.create_consumer(ORDERS) for session in sessions]
        before = threading.active_count()
        receiving = [asyncio.create_task(consumer.receive()) for consumer in consumers]
        await asyncio.wait(receiving, timeout=0.1)
        assert threading.active_count() <= before
        async with connection.create_sender() as sender:
            await asyncio.gather(*(sender.send(ORDERS, str(n)) for n in range(CONSUMERS)))
        got = await asyncio.gather(*receiving)
        assert sorted(int(str(message.body)) for message in got if message) == list(range(CONSUMERS))

    on_a_connection(factory, work)


def test_closing_does_not_block_the_loop(factory: ConnectionFactory) -> None:
    """AIO-3: while it waits for a call that does not end, other tasks go on."""

    async def work(connection: Connection) -> None:
        stuck, other = await connection.create_session(), await connection.create_session()
        consumer, sender = await other.create_consumer(ORDERS), await connection.create_sender()
        guard, is_in_call, may_end = stuck._session._core.guard, threading.Event(), threading.Event()

        def call() -> None:
            guard.try_enter()
            is_in_call.set()
            may_end.wait()  # alive, or a thread that closes might get its number
            guard.leave()

        calling = threading.Thread(target=call, daemon=True)
        calling.start()
        is_in_call.wait()
        closing = asyncio.create_task(stuck.close())
        for number in range(20):
            await sender.send(ORDERS, str(number))
            assert await consumer.receive(SOON_S)
        assert not closing.done()
        may_end.set()
        await closing
        assert stuck.is_closed

    on_a_connection(factory, work)


@pytest.mark.parametrize("closes", ["consumer", "session", "connection"])
def test_iterating_ends_when_another_task_closes(factory: ConnectionFactory, closes: str) -> None:
    """AIO-3: the message in hand is settled as anywhere."""

    async def work(connection: Connection) -> None:
        session = await connection.create_session()
        consumer, sender = await session.create_consumer(ORDERS), await connection.create_sender()
        seen: list[object] = []
        came = asyncio.Event()

        async def listen() -> None:
            async for message in consumer:
                seen.append(message.body)
                came.set()

        listening = asyncio.create_task(listen())
        await sender.send(ORDERS, "a")
        await asyncio.wait_for(came.wait(), SOON_S)
        closing = {"consumer": consumer.close, "session": session.close, "connection": connection.close}
        await closing[closes]()
        await asyncio.wait_for(listening, SOON_S)
        assert seen == ["a"]

    on_a_connection(factory, work)


def test_a_full_buffer_lets_other_tasks_have_their_turn(factory: ConnectionFactory) -> None:
    async def work(connection: Connection) -> None:
        count, turns = 20 * IN_A_ROW, 0
        async with connection.create_sender() as sender:
            await asyncio.gather(*(sender.send(ORDERS, str(n)) for n in range(count)))

        async def other() -> None:
            nonlocal turns
            loop = asyncio.get_running_loop()
            while True:
                turns += 1
                ready = loop.create_future()
                loop.call_soon(ready.set_result, None)
                await ready

        async with connection.create_session(AcknowledgeMode.CLIENT) as session:
            consumer = await session.create_consumer(ORDERS, prefetch=2 * count)
            running = asyncio.create_task(other())
            for _ in range(count):
                assert await consumer.receive(SOON_S)
            running.cancel()
            assert turns >= count // IN_A_ROW

    on_a_connection(factory, work)


def test_tasks_send_with_one_producer_at_once_in_the_order_of_their_calls(factory: ConnectionFactory) -> None:
    """AIO-2: of a unit."""

    async def work(connection: Connection) -> None:
        async with connection.create_session() as session:
            producer = await session.create_producer(ORDERS)
            sent = await asyncio.gather(*(producer.send(str(n), unit_of_order="u") for n in range(500)))
            assert [message.body for message in sent] == [str(n) for n in range(500)]
            consumer = await session.create_consumer(ORDERS)
            for number in range(500):
                message = await consumer.receive(SOON_S)
                assert message is not None
                assert message.body == str(number)

    on_a_connection(factory, work)


def test_a_second_task_in_a_session_is_refused(factory: ConnectionFactory) -> None:
    """CONN-1, AIO-3: and the first one's receive goes on."""

    async def work(connection: Connection) -> None:
        session = await connection.create_session()
        consumer = await session.create_consumer(ORDERS)
        waiting = asyncio.create_task(consumer.receive())
        await asyncio.wait({waiting}, timeout=0.05)
        for call in (consumer.receive(0), session.recover()):
            with pytest.raises(IllegalStateError, match="session that receives from queue:orders is in"):
                await call
        async with connection.create_sender() as sender:
            await sender.send(ORDERS, "a")
        message = await asyncio.wait_for(waiting, SOON_S)
        assert message is not None

    on_a_connection(factory, work)


def test_listeners_are_called_on_the_loop(factory: ConnectionFactory) -> None:
    async def work(connection: Connection) -> None:
        loop = asyncio.get_running_loop()
        told: asyncio.Future[tuple[Message, JMSError | None]] = loop.create_future()
        failed: asyncio.Future[Exception] = loop.create_future()

        def on_completion(message: Message, error: JMSError | None) -> None:
            assert asyncio.get_running_loop() is loop
            told.set_result((message, error))

        def on_exception(error: Exception) -> None:
            assert asyncio.get_running_loop() is loop
            failed.set_result(error)

        connection.exception_listener = on_exception
        async with connection.create_session() as session:
            producer = await session.create_producer(ORDERS)
            sent = await producer.send("a", on_completion=on_completion)
            assert await asyncio.wait_for(told, SOON_S) == (sent, None)
        trouble = JMSError("as if a listener had to hear of it")
        connection._inner._core.notify_exception(trouble)
        assert await asyncio.wait_for(failed, SOON_S) is trouble

    on_a_connection(factory, work)


@pytest.mark.parametrize("mode", list(DeliveryMode))
def test_each_delivery_mode_arrives(factory: ConnectionFactory, mode: DeliveryMode) -> None:
    async def work(connection: Connection) -> None:
        async with connection.create_session() as session:
            producer, consumer = await session.create_producer(ORDERS), await session.create_consumer(ORDERS)
            for number in range(10):
                await producer.send(json={"number": number}, delivery_mode=mode, unit_of_order="u")
            await producer.flush(SOON_S)
            for number in range(10):
                message = await consumer.receive(SOON_S)
                assert message is not None
                assert message.json() == {"number": number}

    on_a_connection(factory, work)


def test_a_context_asks_answers_browses_and_commits(factory: ConnectionFactory) -> None:
    """A request's task waits on the loop, beside the one that answers."""

    async def answer(jms: Context) -> None:
        producer = await jms.create_producer()
        async for message in await jms.create_consumer(ORDERS):
            await producer.send(message.reply_to, f"{message.body} done", correlation_id=message.correlation_id)  # type: ignore[arg-type]

    async def work() -> None:
        async with factory.create_context() as asking, factory.create_context() as answering:
            running = asyncio.create_task(answer(answering))
            reply = await asking.request(ORDERS, json="a", timeout=SOON_S)
            assert reply.body == '"a" done'
            running.cancel()
            with pytest.raises(RequestTimeoutError):
                await asking.request(Queue("nobody"), "b", timeout=0.05)
            browser = await asking.create_browser(Queue("nobody"), include="all")
            assert [message.body async for message in browser] == ["b"]
        async with factory.create_context(AcknowledgeMode.TRANSACTED) as jms:
            producer = await jms.create_producer()
            async with jms.transaction():
                await producer.send(ORDERS, "kept")
            with pytest.raises(KeyError):
                await _failing(jms)
            browser = await jms.create_browser(ORDERS, include="all")
            assert [message.body async for message in browser] == ["kept"]

    async def _failing(jms: Context) -> None:
        async with jms.transaction():
            await (await jms.create_producer()).send(ORDERS, "dropped")
            raise KeyError("no")

    asyncio.run(work())
