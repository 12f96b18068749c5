"""A delay may be a timedelta wherever milliseconds are taken, and a send may name an instant."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from jbm_kafka import AcknowledgeMode, AddressSettings, ConnectionFactory, Context, Queue, Retry
from jbm_kafka.aio import ConnectionFactory as AioConnectionFactory
from jbm_kafka.testing.memory_world import MemoryWorld

orders = Queue("orders")
HOUR = timedelta(hours=1)


@pytest.fixture
def world() -> Iterator[MemoryWorld]:
    with MemoryWorld() as world:
        yield world


def later(world: MemoryWorld, by: timedelta) -> datetime:
    return datetime.fromtimestamp(world.clock.now_ms() / 1000, UTC) + by


def arrives(jms: Context) -> str | None:
    message = jms.create_consumer(orders).receive(timeout=0.2)
    return None if message is None else str(message.body)


def test_a_delay_and_a_time_to_live_may_be_a_timedelta(world: MemoryWorld) -> None:
    with world.factory().create_context() as jms, world.factory().create_sender() as sender:
        sent = sender.send(orders, "a", delivery_delay_ms=HOUR, time_to_live_ms=2 * HOUR)
        assert sent.delivery_time - sent.timestamp == 3_600_000
        assert sent.expiration - sent.timestamp == 7_200_000
        assert arrives(jms) is None
        world.clock.advance(3_600_000)
        assert arrives(jms) == "a"


def test_a_message_is_delivered_at_the_instant_that_its_send_names(world: MemoryWorld) -> None:
    with world.factory().create_context() as jms:
        at = later(world, HOUR)
        sent = jms.create_producer().send(orders, "a", deliver_at=at)
        assert sent.delivery_time == int(at.timestamp() * 1000)
        world.clock.advance(3_590_000)
        assert arrives(jms) is None
        world.clock.advance(10_000)
        assert arrives(jms) == "a"


def test_an_instant_that_is_over_is_at_once(world: MemoryWorld) -> None:
    with world.factory().create_context() as jms, world.factory().create_sender() as sender:
        assert sender.send(orders, "a", deliver_at=later(world, -HOUR)).delivery_time == 0
        assert arrives(jms) == "a"


def test_an_instant_and_a_delay_are_refused_and_so_is_one_without_a_time_zone(world: MemoryWorld) -> None:
    with world.factory().create_sender() as sender:
        with pytest.raises(ValueError, match=r"deliver_at is .*: delivery_delay_ms is 5, too; give one of them"):
            sender.send(orders, "a", deliver_at=later(world, HOUR), delivery_delay_ms=5)
        with pytest.raises(ValueError, match="no time zone"):
            sender.send(orders, "a", deliver_at=datetime(2030, 1, 1))  # noqa: DTZ001 - what is refused


def test_an_awaited_send_takes_the_same(world: MemoryWorld) -> None:
    at = later(world, HOUR)

    async def main() -> None:
        async with AioConnectionFactory(world.url).create_context() as jms:
            sent = await (await jms.create_producer()).send(orders, "a", deliver_at=at)
            assert sent.delivery_time - sent.timestamp == 3_600_000

    asyncio.run(main())


def test_a_redelivery_delay_may_be_a_timedelta(world: MemoryWorld) -> None:
    rules = AddressSettings(
        redelivery_delay_ms=HOUR, max_redelivery_delay_ms=2 * HOUR, duplicate_window_ms=timedelta(days=1)
    )
    assert rules.given() == {
        "redelivery_delay_ms": 3_600_000,
        "max_redelivery_delay_ms": 7_200_000,
        "duplicate_window_ms": 86_400_000,
    }
    with pytest.raises(ValueError, match="redelivery_delay_ms"):
        AddressSettings(redelivery_delay_ms=timedelta(seconds=-1))


def test_what_is_given_back_may_come_again_after_a_timedelta(world: MemoryWorld) -> None:
    factory: ConnectionFactory = world.factory()
    with factory.create_context(AcknowledgeMode.INDIVIDUAL) as jms:
        jms.create_producer().send(orders, "a")
        message = jms.create_consumer(orders).receive(timeout=5)
        assert message is not None
        message.nack(HOUR)
        assert arrives(jms) is None
        world.clock.advance(3_600_000)
        assert arrives(jms) == "a"
    assert Retry(delay_ms=HOUR).delay_ms == 3_600_000
