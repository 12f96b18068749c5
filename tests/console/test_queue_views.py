"""One queue or subscription."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from jbm_kafka import AcknowledgeMode, AddressSettings, Queue, Topic
from jbm_kafka.admin import Admin
from jbm_kafka.console.queues import queue_views
from jbm_kafka.testing.memory_world import MemoryWorld
from tests.console.looking import Looking
from tests.console.test_overview import send
from tests.support.waiting import wait_until


def test_a_queue_has_its_page_and_its_json(world: MemoryWorld, looking: Looking) -> None:
    with world.factory().create_context() as jms, Admin(world.url) as admin:
        send(jms, "orders", "a", "b", unit="ann")
        admin.pause("orders", "receiving", by="joe")
        looking.look_anew()
        found = looking.json("/queues/orders")
        page = looking.page("/queues/orders")
    assert found["row"]["held"] == 2
    assert found["pause"]["consumption"]["by"] == "joe"
    assert "Receiving is paused by joe" in page


@pytest.mark.parametrize("path", ["/queues/nobody", "/queues/nobody/why", "/topics/nobody/subscription?subscription=a"])
def test_what_is_not_there_is_a_404_that_says_so(looking: Looking, path: str) -> None:
    assert "nobody" in looking.json(path, 404)["error"]
    assert "Not there" in looking.page(path, 404)


def test_why_names_the_receiver_that_has_a_unit_in_hand(world: MemoryWorld, looking: Looking) -> None:
    with world.factory().create_context(AcknowledgeMode.INDIVIDUAL) as jms:
        send(jms, "orders", "a", "b", unit="ann")
        consumer = jms.create_consumer(Queue("orders"))
        assert consumer.receive(timeout=10)
        [told] = looking.json("/queues/orders/why", unit="ann")["explanation"]["messages"]
        page = looking.page("/queues/orders/why")
    assert told["behind"] == 1
    assert [each["rule"] for each in told["reasons"]] == ["in-hand"]
    assert "Held by" in page
    assert f'href="/queues/orders/message?at={told["partition"]}.{told["offset"]}"' in page


def test_units_are_told_by_length_and_by_age(world: MemoryWorld, looking: Looking) -> None:
    with world.factory().create_context() as jms:
        send(jms, "orders", "a", unit="old")
        world.clock.advance(1_000)
        send(jms, "orders", "b", "c", "d", unit="long")
        jms.create_producer().send(Queue("orders"), "alone")
        by_length = looking.json("/queues/orders/units")
        by_age = looking.json("/queues/orders/units", by="age")
        page = looking.page("/queues/orders/units?by=age")
    assert [(row["unit"], row["messages"], row["share"]) for row in by_length["units"]] == [
        ("long", 3, 0.6),
        ("old", 1, 0.2),
    ]
    assert [row["unit"] for row in by_age["units"]] == ["old", "long"]
    assert (by_length["without_unit"], by_length["is_whole"]) == (1, True)
    assert page.index("old") < page.index("long")


def test_partitions_tell_who_has_them(world: MemoryWorld, looking: Looking) -> None:
    with world.factory().create_context() as jms, Admin(world.url) as admin:
        admin.create_queue("orders", partitions=3)
        consumer = jms.create_consumer(Queue("orders"))
        consumer.receive_nowait()
        found = looking.json("/queues/orders/partitions")
        page = looking.page("/queues/orders/partitions")
    assert len(found["counts"]["partitions"]) == 3
    assert list(found["members"].values()) == [[0, 1, 2]]
    assert "partitions 0, 1, 2" in page


def test_a_setting_tells_for_which_pattern_it_is_recorded(world: MemoryWorld, looking: Looking) -> None:
    with Admin(world.url) as admin:
        admin.create_queue("orders.eu")
        admin.set_address_settings("orders.#", AddressSettings(max_delivery_attempts=3, redelivery_delay_ms=5))
        admin.set_address_settings("orders.eu", AddressSettings(max_delivery_attempts=7))
        rows = {row["name"]: row for row in looking.json("/queues/orders.eu/settings")["settings"]}
    assert (rows["max_delivery_attempts"]["value"], rows["max_delivery_attempts"]["pattern"]) == ("7", "orders.eu")
    assert (rows["redelivery_delay_ms"]["value"], rows["redelivery_delay_ms"]["pattern"]) == ("5", "orders.#")
    assert (rows["truncate"]["pattern"], rows["dead_letter_address"]["value"]) == ("", "DLQ")


def test_the_chart_has_a_value_for_each_time(world: MemoryWorld, looking: Looking) -> None:
    with world.factory().create_context() as jms:
        send(jms, "orders", "a")
        looking.look_anew()
        world.clock.advance(20_000)
        send(jms, "orders", "b")
        looking.look_anew()
        found = looking.json("/queues/orders/history")
    series = {each["name"]: each["values"] for each in found["series"]}
    assert {len(values) for values in series.values()} == {len(found["at_s"])}
    assert [each for each in series["held"] if each is not None] == [1, 2]
    assert max(each or 0 for each in series["incoming"]) == pytest.approx(0.05)


def test_a_subscription_has_the_same_pages(world: MemoryWorld, looking: Looking) -> None:
    where: dict[str, Any] = {"subscription": "audit"}
    with world.factory().create_context() as jms:
        jms.create_shared_durable_consumer(Topic("prices"), "audit").close()
        jms.create_producer().send(Topic("prices"), "1.20", unit_of_order="eur")
        looking.look_anew()
        assert looking.json("/topics/prices/subscription", **where)["row"]["held"] == 1
        assert looking.json("/topics/prices/subscription/units", **where)["units"][0]["unit"] == "eur"
        for part in ("", "/why", "/units", "/partitions", "/settings"):
            assert "prices → audit" in looking.page(f"/topics/prices/subscription{part}?subscription=audit")
        [row] = looking.json("/subscriptions")["subscriptions"]
        assert (row["source"]["subscription"], row["held_at_most"]) == ("audit", 1)
        assert looking.json("/topics")["topics"] == [
            {"name": "prices", "subscriptions": 1, "members": 0, "held_at_most": 1}
        ]


@pytest.mark.parametrize(
    "path", ["/transactions", "/readers", "/bridges", "/checkup", "/topics", "/subscriptions", "/runs"]
)
def test_what_is_beside_has_a_page_also_when_there_is_nothing(looking: Looking, path: str) -> None:
    assert looking.json(path)
    assert "<h1>" in looking.page(path)


def test_a_page_whose_look_takes_long_says_how_far_it_is(
    world: MemoryWorld, looking: Looking, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CONSOLE-1: with its queue's other pages to go to; JSON waits for the answer."""
    with world.factory().create_context() as jms:
        for number in range(3):
            jms.create_producer().send(Queue("orders"), "x", unit_of_order=f"u{number}")
    go_on, read = threading.Event(), Admin.browse

    def slow(admin: Admin, *args: Any, **more: Any) -> Any:
        for message in read(admin, *args, **more):
            yield message
            assert go_on.wait(30)

    monkeypatch.setattr(Admin, "browse", slow)
    monkeypatch.setattr(queue_views, "TOLD_EACH", 1)
    wait_until(lambda: "1 messages read" in under_way(looking, "/queues/orders/units"), about="how far", timeout_s=30)
    text = under_way(looking, "/queues/orders/units")
    assert '<progress aria-label="It is being read">' in text
    assert 'href="/queues/orders/partitions"' in text
    assert '<meta http-equiv="refresh" content="2">' in text
    go_on.set()
    assert looking.json("/queues/orders/units")["units_in_all"] == 3
    assert "3 units in 3 messages" in looking.page("/queues/orders/units")


def under_way(looking: Looking, path: str) -> str:
    answer = looking.client.get(path)
    assert answer.status_code == 202
    return answer.text
