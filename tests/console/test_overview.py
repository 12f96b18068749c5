"""The first page: what needs somebody, and every destination."""

from __future__ import annotations

from typing import Any

import pytest

from jbm_kafka import AcknowledgeMode, AddressSettings, Context, Queue, Topic
from jbm_kafka.admin import Admin
from jbm_kafka.testing.memory_world import MemoryWorld
from tests.console.looking import Looking

MINUTE_MS = 60_000


def send(context: Context, queue: str, *texts: str, unit: str | None = None) -> None:
    for text in texts:
        context.create_producer().send(Queue(queue), text, unit_of_order=unit)


def by_name(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["source"]["title"]: row for row in found["rows"]}


def needs(found: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(each["about"], each["text"], each["path"]) for each in found["needs"]]


def test_each_destination_tells_what_it_holds(world: MemoryWorld, looking: Looking) -> None:
    with world.factory().create_context() as jms:
        send(jms, "orders", "a", "b", "c", unit="ann")
        jms.create_shared_durable_consumer(Topic("prices"), "audit").close()
        jms.create_producer().send(Topic("prices"), "1.20")
        rows = by_name(looking.look_anew())
    orders = rows["orders"]
    assert (orders["held"], orders["ready"], orders["blocked"], orders["receivers"]) == (3, 1, 2, 0)
    assert rows["prices → audit"]["source"]["path"] == "/topics/prices/subscription?subscription=audit"
    assert rows["prices → audit"]["held"] == 1


def test_search_and_order_stand_in_the_address(world: MemoryWorld, looking: Looking) -> None:
    with world.factory().create_context() as jms:
        send(jms, "orders", "a", "b")
        send(jms, "orders.eu", "a", "b", "c")
        send(jms, "payments", "a")
        looking.look_anew()
    found = looking.json("/", q="ORD", sort="held", down="true")
    assert [row["source"]["name"] for row in found["rows"]] == ["orders.eu", "orders"]
    assert found["held"] == 6, "what is in all of them does not change with the search"
    assert "payments" not in looking.page("/?q=ORD&sort=held&down=true").partition("Destinations")[2]


def test_an_order_that_is_none_is_refused_in_one_line(looking: Looking) -> None:
    assert "sort" in looking.json("/", 400, sort="colour")["error"]
    assert "sort" in looking.page("/?sort=colour", 400)


def test_what_needs_somebody_is_told_worst_first_with_its_button(world: MemoryWorld, looking: Looking) -> None:
    settings = {
        "orders": AddressSettings(max_delivery_attempts=1),
        "bills": AddressSettings(max_delivery_attempts=1, on_dead_letter="hold"),
    }
    factory = world.factory(address_settings=settings)
    with factory.create_context(AcknowledgeMode.INDIVIDUAL) as jms, Admin(world.url) as admin:
        for queue in ("orders", "bills"):
            send(jms, queue, "a", unit="ann")
            message = jms.create_consumer(Queue(queue)).receive(timeout=10)  # it stays, so somebody receives
            assert message is not None
            message.nack()
        send(jms, "payments", "a")
        admin.create_queue("stopped")
        admin.pause("stopped", "sending", by="ann")
        world.wait_idle()
        found = looking.look_anew()
    assert needs(found) == [
        ("DLQ", "1 dead letter waits for somebody to decide", "/queues/DLQ/letters"),
        ("bills", "1 unit is on hold, out of attempts", "/actions/release?name=bills"),
        ("payments", "1 message held, and nobody receives", "/queues/payments/why"),
        ("stopped", "sending is paused: senders get an error", "/actions/resume?name=stopped"),
    ]
    assert found["letters"] == 1
    assert {name: row["letters"] for name, row in by_name(found).items() if row["letters"]} == {"orders": 1}


def test_what_fails_again_and_again_is_told_before_it_is_given_up(world: MemoryWorld, looking: Looking) -> None:
    factory = world.factory(address_settings={"orders": AddressSettings(max_delivery_attempts=-1)})
    with factory.create_context(AcknowledgeMode.INDIVIDUAL) as jms:
        send(jms, "orders", "a", unit="ann")
        consumer = jms.create_consumer(Queue("orders"))
        for expected in ([], [], [("orders", "1 message fails again and again, up to 3 times", "/queues/orders/why")]):
            message = consumer.receive(timeout=10)
            assert message is not None
            message.nack()
            world.wait_idle()
            assert needs(looking.look_anew()) == expected


def test_a_queue_that_nobody_receives_from_for_minutes_is_worse(world: MemoryWorld, looking: Looking) -> None:
    with world.factory().create_context() as jms:
        send(jms, "orders", "a")
        assert [each["weight"] for each in looking.look_anew()["needs"]] == ["warn"]
        world.clock.advance(6 * MINUTE_MS)
        assert [each["weight"] for each in looking.look_anew()["needs"]] == ["bad"]


def test_rates_are_what_came_and_went_by_the_clock(world: MemoryWorld, looking: Looking) -> None:
    with world.factory().create_context() as jms:
        send(jms, "orders", "a")
        looking.look_anew()
        send(jms, "orders", *"bcdefghijk")
        with jms.create_consumer(Queue("orders")) as consumer:
            for _ in range(5):
                assert consumer.receive(timeout=10)
        world.wait_idle()
        world.clock.advance(10_000)
        orders = by_name(looking.look_anew())["orders"]
    assert (orders["incoming"], orders["outgoing"]) == (pytest.approx(1.0), pytest.approx(0.5))


def test_300_queues_are_on_the_page_at_once(world: MemoryWorld, looking: Looking) -> None:
    with Admin(world.url) as admin:
        for number in range(300):
            admin.create_queue(f"queue-{number:03}", partitions=1)
        found = looking.look_anew()
    assert len([row for row in found["rows"] if row["source"]["name"].startswith("queue-")]) == 300
    assert looking.page("/").count('href="/queues/queue-') == 300
