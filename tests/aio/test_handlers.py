"""Handlers that are awaited: `consumer.run` on an event loop."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Any

import pytest

from jbm_kafka import AcknowledgeMode, AddressSettings, Message, Queue, Reject
from jbm_kafka.aio import ConnectionFactory
from jbm_kafka.errors import IllegalStateError, InvalidTypeError

ORDERS, DLQ = Queue("orders"), Queue("DLQ")
UNITS, EACH = 20, 10


@pytest.fixture
def factory(kafka_name: str) -> ConnectionFactory:
    settings = {"orders": AddressSettings(max_delivery_attempts=2, dead_letter_address="DLQ")}
    return ConnectionFactory(f"memory://{kafka_name}", address_settings=settings)


async def one_turn() -> None:
    """Other tasks have one."""
    turn = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(turn.set_result, None)
    await turn


def test_handlers_run_at_once_and_of_a_unit_one_by_one(factory: ConnectionFactory) -> None:
    """UNIT-18, AIO-1: in the order of each unit; what fails comes again, what is rejected is a dead letter."""
    seen: dict[str, list[int]] = defaultdict(list)
    busy: set[str] = set()
    most = 0

    async def main() -> None:
        done = asyncio.Event()

        async def ship(message: Message) -> None:
            nonlocal most
            unit, number = str(message.unit_of_order), int(str(message.body))
            assert unit not in busy
            busy.add(unit)
            most = max(most, len(busy))
            await one_turn()
            busy.discard(unit)
            if unit == "3" and number == 4 and message.delivery_count == 1:
                raise ValueError("once")
            if unit == "5" and number == 6:
                raise Reject("no such customer")
            seen[unit].append(number)
            if sum(map(len, seen.values())) == UNITS * EACH - 1:
                done.set()

        async with factory.create_connection() as connection:
            async with connection.create_sender() as sender:
                sends = (sender.send(ORDERS, str(n), unit_of_order=str(u)) for n in range(EACH) for u in range(UNITS))
                await asyncio.gather(*sends)
            session = await connection.create_session(AcknowledgeMode.INDIVIDUAL)
            consumer = await session.create_consumer(ORDERS)
            running = asyncio.create_task(consumer.run(ship, concurrency=8))
            await asyncio.wait_for(done.wait(), 30)
            await consumer.close()
            await running
            letter = await (await session.create_consumer(DLQ)).receive(10)
            assert letter is not None
            assert (letter.unit_of_order, letter.body) == ("5", "6")
            health, statistics = await connection.health(), await connection.statistics()
            assert health.is_ready
            assert [each.sent for each in statistics.destinations if each.destination == "orders"] == [UNITS * EACH]

    asyncio.run(main())
    assert most == 8
    assert dict(seen) == {str(u): [n for n in range(EACH) if (u, n) != (5, 6)] for u in range(UNITS)}


def test_cancelled_handlers_have_their_messages_come_again(factory: ConnectionFactory) -> None:
    """AIO-1: and what they returned goes to the message's reply_to."""

    async def main() -> object:
        begun = asyncio.Event()

        async def hang(message: Message) -> None:
            begun.set()
            await asyncio.Event().wait()

        async def answer(message: Message) -> str:
            return f"{message.body}, the {message.delivery_count}nd time"

        async with factory.create_connection() as connection:
            sender = await connection.create_sender()
            await sender.send(ORDERS, "an oak", reply_to=Queue("answers"))
            session = await connection.create_session(AcknowledgeMode.INDIVIDUAL)
            consumer = await session.create_consumer(ORDERS)
            running = asyncio.create_task(consumer.run(hang))
            await asyncio.wait_for(begun.wait(), 30)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            running = asyncio.create_task(consumer.run(answer))
            other = await connection.create_session()
            body = await (await other.create_consumer(Queue("answers"))).receive_body(str, 30)
            await consumer.close()
            await running
            return body

    assert asyncio.run(main()) == "an oak, the 2nd time"


def test_handlers_that_cannot_be_are_refused(factory: ConnectionFactory) -> None:
    """AIO-1: a plain function would block the loop."""

    async def two(message: Message, more: object) -> None: ...
    async def one(message: Message) -> None: ...

    async def main() -> None:
        async with factory.create_connection() as connection:
            consumer = await (await connection.create_session()).create_consumer(ORDERS)
            wrong: list[Any] = [print, two, None]
            for handler in wrong:
                with pytest.raises(InvalidTypeError, match="handler"):
                    await consumer.run(handler)
            with pytest.raises(IllegalStateError, match="INDIVIDUAL"):
                await consumer.run(one)

    asyncio.run(main())


def test_a_handler_that_forgets_to_await_ends_the_run_and_nothing_is_lost(factory: ConnectionFactory) -> None:
    """Its messages were acknowledged, and nobody had run what it returned."""

    async def ship(message: Message) -> None: ...

    async def forgets(message: Message) -> object:
        return ship(message)

    async def main() -> tuple[set[object], int]:
        async with factory.create_context(AcknowledgeMode.INDIVIDUAL) as jms:
            for body in "abc":
                await (await jms.create_producer()).send(ORDERS, body)
            consumer = await jms.create_consumer(ORDERS)
            with pytest.raises(InvalidTypeError, match="nobody runs it"):
                await consumer.run(forgets, concurrency=2)
            task = asyncio.current_task()
            assert task is not None
            again = [await consumer.receive() for _ in "abc"]
            return {message and message.body for message in again}, task.cancelling()

    assert asyncio.run(main()) == ({"a", "b", "c"}, 0)
