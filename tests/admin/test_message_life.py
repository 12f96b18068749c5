"""One message's life, from topics alone (LIFE-1): retries, a dead letter, its retry, moves, subscriptions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jbm_kafka import AcknowledgeMode, AddressSettings, Queue, Topic
from jbm_kafka.admin import Admin
from jbm_kafka.admin.life.message_life import LifeHop, MessageLife
from jbm_kafka.testing.memory_world import MemoryWorld

ORDERS, DLQ = Queue("orders"), Queue("DLQ")
KEPT = AddressSettings(max_delivery_attempts=2, record_deliveries=True, truncate="never", redelivery_delay_ms=1_000)


class Shop:
    """A process that fails, and an operator."""

    def __init__(self, world: MemoryWorld, settings: AddressSettings = KEPT) -> None:
        self.world = world
        self.factory = world.factory(address_settings={"#": AddressSettings(partitions=2), "orders": settings})
        self.admin = Admin(world.url)

    def close(self) -> None:
        self.admin.close()

    def send(self, body: str = "2 books", to: Queue | Topic = ORDERS, **how: object) -> str:
        with self.factory.create_connection() as connection, connection.create_session() as session:
            message = session.create_text_message(body)
            session.create_producer(to).send(message, unit_of_order="ann", **how)  # type: ignore[arg-type]
            assert message.message_id is not None
            return message.message_id

    def fail(self, times: int, queue: Queue = ORDERS) -> None:
        with self.factory.create_connection() as connection:
            session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
            consumer = session.create_consumer(queue)
            for _ in range(times):
                message = consumer.receive(10.0)
                assert message is not None
                message.nack()
                self.world.wait_idle()
                self.world.clock.advance(1_000)
            self.world.wait_idle()

    def take(self, queue: Queue = ORDERS) -> object:
        with self.factory.create_connection() as connection:
            message = connection.create_session().create_consumer(queue).receive(10.0)
            assert message is not None
        self.world.wait_idle()
        return message.body


@pytest.fixture
def shop() -> Iterator[Shop]:
    with MemoryWorld() as world:
        made = Shop(world)
        yield made
        made.close()


def told(hop: LifeHop) -> list[tuple[str, int | None]]:
    return [(step.kind.value, step.attempts) for step in hop.past.steps]


def way(life: MessageLife) -> list[tuple[str, str, str]]:
    return [(str(hop.destination), hop.came, hop.state) for hop in life.hops]


def test_a_message_that_failed_was_given_up_retried_and_acknowledged_is_one_timeline(shop: Shop) -> None:
    """LIFE-1: from each of its places the same."""
    message_id = shop.send()
    shop.send("another")
    shop.fail(2)
    shop.admin.retry_dead_letters("DLQ", timeout_s=1)
    assert shop.take() == "another"
    assert shop.take() == "2 books"
    life = shop.admin.message_life("orders", message_id=message_id)
    assert way(life) == [
        ("queue:orders", "sent", "settled"),
        ("queue:DLQ", "dead-lettered", "settled"),
        ("queue:orders", "sent again", "settled"),
    ]
    first, letter, again = life.hops
    assert told(first) == [("handed", 1), ("returned", 1), ("handed", 2), ("dead-lettered", 2)]
    assert first.past.steps[1].delay_ms == 1_000
    assert first.past.steps[0].session
    assert told(letter) == [("acknowledged", None)]
    assert told(again) == [("handed", 1), ("acknowledged", None)]
    assert (life.message_id, life.unit) == (message_id, "ann")
    assert not [note for note in life.notes if "queue:orders" in note]
    # From any of its places it is the same life.
    for hop in life.hops:
        assert shop.admin.message_life(hop.destination, place=(hop.partition, hop.offset)).hops == life.hops


def test_where_deliveries_are_not_recorded_the_setting_is_named() -> None:
    with MemoryWorld() as world:
        shop = Shop(world, AddressSettings(truncate="never"))
        message_id = shop.send()
        shop.take()
        life = shop.admin.message_life("orders", message_id=message_id)
        assert told(life.hops[0]) == [("acknowledged", None)]
        assert not life.is_recorded
        (note,) = life.notes
        assert "jbm-kafka settings set orders record_deliveries=true" in note
        shop.close()


def test_one_that_waits_says_for_what(shop: Shop) -> None:
    delayed = shop.send(delivery_delay_ms=60_000)
    life = shop.admin.message_life("orders", message_id=delayed)
    (hop,) = life.hops
    assert (hop.state, told(hop)) == ("delayed", [])
    assert hop.due_at_ms == shop.world.clock.now_ms() + 60_000
    shop.world.clock.advance(60_000)
    assert [each.state for each in shop.admin.message_life("orders", message_id=delayed).hops] == ["waits"]
    with shop.factory.create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.CLIENT)
        assert session.create_consumer(ORDERS).receive(10.0) is not None
        assert [each.state for each in shop.admin.message_life("orders", message_id=delayed).hops] == ["in hand"]


def test_a_letter_whose_original_is_gone_from_the_log_still_tells_where_it_was(shop: Shop) -> None:
    """What is settled is deleted from the log within a minute; the events are kept."""
    shop.send()
    shop.fail(2)
    shop.admin.truncate("orders")
    ((letter, _),) = shop.admin.dead_letters("DLQ")
    life = shop.admin.message_life("DLQ", place=letter.place)
    assert way(life) == [("queue:orders", "sent", "settled"), ("queue:DLQ", "dead-lettered", "waits")]
    assert [hop.is_in_log for hop in life.hops] == [False, True]
    assert told(life.hops[0])[-1] == ("dead-lettered", 2)
    found = shop.admin.message_life("orders", message_id=letter.message_id)
    assert found.hops == life.hops


def test_one_that_was_moved_goes_on_in_the_other_queue(shop: Shop) -> None:
    message_id = shop.send()
    shop.admin.create_queue("archive", partitions=1)
    shop.admin.move("orders", "archive", message_id=message_id, timeout_s=20)
    life = shop.admin.message_life("orders", message_id=message_id)
    assert way(life) == [("queue:orders", "sent", "settled"), ("queue:archive", "moved", "waits")]
    assert told(life.hops[0]) == [("moved", 0)]


def test_each_subscription_of_a_topic_has_its_copy(shop: Shop) -> None:
    prices = Topic("prices")
    shop.admin.create_topic("prices", partitions=1)
    for name in ("audit", "stock"):
        shop.admin.create_subscription(prices, name, shared=True)
    message_id = shop.send("7 EUR", prices)
    with shop.factory.create_connection() as connection:
        consumer = connection.create_session().create_shared_durable_consumer(prices, "audit")
        assert consumer.receive(10.0) is not None
    shop.world.wait_idle()
    life = shop.admin.message_life(prices, message_id=message_id)
    assert {hop.subscription: hop.state for hop in life.hops} == {"audit": "settled", "stock": "waits"}
    only = shop.admin.message_life(prices, message_id=message_id, subscription="stock")
    assert [hop.subscription for hop in only.hops] == ["stock"]


def test_a_queue_that_was_made_anew_has_another_ones_past(shop: Shop) -> None:
    """The letter tells of which topic it was, so what stands at its place now is not mistaken for it."""
    shop.send()
    shop.fail(2)
    ((letter, _),) = shop.admin.dead_letters("DLQ")
    shop.admin.delete_destination("orders", force=True)
    shop.send("another")
    shop.take()
    first, _ = shop.admin.message_life("DLQ", place=letter.place).hops
    assert told(first)[-1] == ("dead-lettered", 2)
    assert (first.state, first.is_in_log) == ("settled", False)


def test_an_id_that_nobody_has_is_said_to_be_found_nowhere(shop: Shop) -> None:
    shop.send()
    life = shop.admin.message_life("orders", message_id="ID:nobody:1")
    assert life.hops == ()
    assert "no record of ID:nobody:1 is in queue:orders" in life.notes[0]
