"""What is cancelled at any moment: nothing is lost, and nothing is acknowledged that nobody saw."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest

from jbm_kafka import AcknowledgeMode, AddressSettings, Queue
from jbm_kafka.aio import Connection, ConnectionFactory, MessageConsumer, MessageProducer, Session
from tests.support.topics import delete_topics_beginning_with

TIMES = 1_000
SOON_S = 40.0
NOTHING_S = 0.3
SHORT_S = 0.004
"""What is cancelled is cancelled within so long."""
SETTINGS = {"#": AddressSettings(partitions=2, max_delivery_attempts=-1)}


@pytest.fixture(params=["memory", pytest.param("kafka", marks=pytest.mark.thorough)])
def factory(request: pytest.FixtureRequest, kafka_name: str) -> Iterator[ConnectionFactory]:
    bootstrap = "" if request.param == "memory" else str(request.getfixturevalue("shared_broker"))
    url = bootstrap or f"memory://{kafka_name}"
    yield ConnectionFactory(url, address_settings=SETTINGS, checkpoint_interval_ms=20)
    if bootstrap:
        delete_topics_beginning_with(bootstrap, kafka_name)


@pytest.fixture
def orders(kafka_name: str) -> Queue:
    """That no other test has."""
    return Queue(f"{kafka_name}-orders")


async def cancelled(
    work: Coroutine[Any, Any, Any], chance: random.Random, within_s: float = SHORT_S
) -> tuple[Any, str | None]:
    """What it returned; or, when it was cancelled in time, the notes of that."""
    task = asyncio.create_task(work)
    await asyncio.wait({task}, timeout=chance.random() ** 3 * within_s)
    task.cancel()
    try:
        return await task, None
    except asyncio.CancelledError as error:
        return None, " ".join(getattr(error, "__notes__", ()))


async def left(connection: Connection, queue: Queue) -> list[object]:
    """What is received of a queue until nothing more comes."""
    found: list[object] = []
    async with connection.create_session() as session, session.create_consumer(queue) as consumer:
        while (message := await consumer.receive(NOTHING_S)) is not None:
            found.append(message.body)
    return found


async def send_all(connection: Connection, queue: Queue, count: int) -> list[object]:
    async with connection.create_sender() as sender:
        sent = [sender.send(queue, f"m{n:04}", unit_of_order=f"u{n % 7}") for n in range(count)]
        return [message.body for message in await asyncio.gather(*sent)]


@pytest.mark.parametrize("mode", [AcknowledgeMode.AUTO, AcknowledgeMode.INDIVIDUAL])
def test_receives_cancelled_at_random_lose_nothing(
    factory: ConnectionFactory, orders: Queue, mode: AcknowledgeMode
) -> None:
    """AIO-1: each message is seen once, however many receives were cancelled."""
    chance = random.Random(69)

    async def receive(consumer: MessageConsumer, seen: list[object]) -> None:
        """At the end the message is seen: nothing awaited stands in between."""
        message = await consumer.receive(0.05)
        if message is not None:
            seen.append(message.body)
            message.acknowledge()

    async def work() -> None:
        seen: list[object] = []
        sent: list[object] = []
        count = 0

        async def send(connection: Connection) -> None:
            """One by one, so that most receives wait."""
            async with connection.create_sender() as sender:
                while count < TIMES:
                    number = len(sent)
                    message = await sender.send(orders, f"m{number:06}", unit_of_order=f"u{number % 7}")
                    sent.append(message.body)
                    await asyncio.wait({asyncio.Future()}, timeout=chance.random() * SHORT_S)

        async with factory.create_connection() as connection:
            async with connection.create_session(mode) as session, session.create_consumer(orders) as consumer:
                sending = asyncio.create_task(send(connection))
                while count < TIMES:
                    count += (await cancelled(receive(consumer, seen), chance))[1] is not None
                await sending
            assert len(seen) > TIMES // 20, "hardly anything came"
            assert sorted(map(str, seen + await left(connection, orders))) == sent
            for unit in range(7):
                of_unit = [body for body in map(str, seen) if int(body[1:]) % 7 == unit]
                assert of_unit == sorted(of_unit)

    asyncio.run(work())


def test_transactions_cancelled_at_random_forward_each_message_once(factory: ConnectionFactory, orders: Queue) -> None:
    """AIO-1, AIO-2: a commit that was cancelled was made or not, and what comes after waits for it."""
    chance, source, target = random.Random(70), orders, Queue(f"{orders.name}-done")

    async def forward(session: Session, consumer: MessageConsumer, producer: MessageProducer) -> None:
        message = await consumer.receive(0.05)
        if message is not None:
            await producer.send(str(message.body), destination=target)
            await session.commit()

    async def work() -> None:
        notes: set[str] = set()
        async with factory.create_connection() as connection:
            sent = await send_all(connection, source, TIMES // 2)
            async with connection.create_session(AcknowledgeMode.TRANSACTED) as session:
                consumer, producer = await session.create_consumer(source), await session.create_producer()
                for _ in range(TIMES // 2):
                    _, note = await cancelled(forward(session, consumer, producer), chance)
                    if note is not None:
                        notes.add(note)
                        await session.rollback()
            done = await left(connection, target)
            assert sorted(map(str, done + await left(connection, source))) == sent
            assert done, "nothing was ever committed"
            assert any(note.startswith("commit(): it goes on") for note in notes), notes

    asyncio.run(work())


def test_sends_cancelled_at_random_say_what_is_known(factory: ConnectionFactory, orders: Queue) -> None:
    """AIO-2: what was not begun is not sent, what was done is there, and of the rest nobody knows."""
    chance = random.Random(71)

    async def work() -> None:
        done: set[str] = set()
        never: set[str] = set()
        async with factory.create_connection() as connection:
            async with connection.create_sender() as sender:

                async def send(body: str) -> None:
                    _, note = await cancelled(sender.send(orders, body), chance, 50 * SHORT_S)
                    if note is None or note == "the send: it was done":
                        done.add(body)
                    elif note == "the send: it was not begun":
                        never.add(body)
                    else:
                        assert "may be in the queue" in note, note

                for first in range(0, TIMES, 50):
                    await asyncio.gather(*(send(f"m{n}") for n in range(first, first + 50)))
            there = list(map(str, await left(connection, orders)))
        assert len(there) == len(set(there))
        assert done <= set(there)
        assert not never & set(there)
        assert done
        assert len(done) + len(never) < TIMES or never, "none was cancelled"

    asyncio.run(work())


def test_a_consumer_whose_making_was_cancelled_is_closed(factory: ConnectionFactory, orders: Queue) -> None:
    """Of AIO-1: nobody has it, so it may keep no messages."""
    chance = random.Random(72)

    async def work() -> None:
        async with factory.create_connection() as connection, connection.create_session() as session:
            makings = 0
            while makings < 20:
                consumer, note = await cancelled(_made(session, orders), chance)
                if note is not None:
                    makings += 1
                if consumer is not None:
                    await consumer.close()
            assert [body async for body in _sent_and_received(connection, orders)] == ["a"]
            await session.recover()  # whatever was still on its way has ended
            links = session._session._core.links
            deadline = asyncio.get_running_loop().time() + SOON_S
            while links.all:
                assert asyncio.get_running_loop().time() < deadline, "a consumer that nobody has is open"
                await asyncio.wait({asyncio.ensure_future(session.recover())})

    asyncio.run(work())


async def _made(session: Session, queue: Queue) -> MessageConsumer:
    return await session.create_consumer(queue)


async def _sent_and_received(connection: Connection, queue: Queue) -> Any:
    async with connection.create_sender() as sender:
        await sender.send(queue, "a")
    for body in await left(connection, queue):
        yield body
