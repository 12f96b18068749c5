"""Messages, a life, and dead letters as somebody sees and uses them, in Debian's browser."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from selenium.webdriver.common.keys import Keys

from jbm_kafka import AcknowledgeMode, AddressSettings, Queue
from jbm_kafka.admin import Admin
from jbm_kafka.console import app
from jbm_kafka.console.serving import ConsoleAddress, ConsoleServer
from jbm_kafka.testing.memory_world import MemoryWorld
from tests.console.driven_browser import DrivenBrowser

NASTY = """<img src=x onerror="document.title='taken'">'"&\u202eevil"""
ORDERS = Queue("orders")


class Desk:
    """Somebody with a browser, before a world with letters in it."""

    def __init__(self, world: MemoryWorld, server: ConsoleServer, browser: DrivenBrowser, admin: Admin) -> None:
        self.world, self.server, self.browser, self.admin = world, server, browser, admin

    def go(self, path: str) -> None:
        self.browser.driver.get(self.server.url + path)

    def at(self, queue: str, **which: str) -> str:
        """The place of the only message that is like that."""
        (row,) = self.admin.page(queue, **which).messages  # type: ignore[arg-type]
        return f"{row.partition}.{row.offset}"


def order(number: int) -> str:
    lines = [{"sku": f"B-{number}", "count": 2}, {"sku": "P-1", "count": 1}]
    return json.dumps({"order": number, "customer": f"c{number % 3}", "lines": lines, "paid": True, "note": None})


def fill(world: MemoryWorld) -> None:
    """Orders, of which three fail, each three times; one of them is sent again and handled."""
    settings = AddressSettings(
        max_delivery_attempts=3, record_deliveries=True, truncate="never", redelivery_delay_ms=2_000
    )
    every = {"#": AddressSettings(partitions=2), "orders": settings}
    with world.factory(address_settings=every).create_connection() as connection, Admin(world.url) as admin:
        producer = connection.create_session().create_producer(ORDERS)
        consumer = connection.create_session(AcknowledgeMode.INDIVIDUAL).create_consumer(ORDERS)
        for number in (1017, 1018, 1019):
            producer.send(order(number), unit_of_order=f"customer-{number % 3}", properties={"region": "EU"})
        for _ in range(3):
            for _ in range(3):
                message = consumer.receive(10.0)
                assert message is not None
                message.nack()
                world.wait_idle()
            world.clock.advance(2_000)
        letter = next(
            found for found, message in admin.dead_letters("DLQ") if json.loads(message.body)["order"] == 1018
        )
        world.clock.advance(60_000)
        admin.retry_dead_letters("DLQ", places=[letter.place], timeout_s=1)
        again = consumer.receive(10.0)
        assert again is not None
        again.acknowledge()
        for number in range(1020, 1026):
            producer.send(order(number), unit_of_order=f"customer-{number % 3}", properties={"region": "EU"})
        producer.send(NASTY, unit_of_order=NASTY)
        producer.send(bytes(range(256)), unit_of_order="bytes")
        producer.send("a reminder", unit_of_order="later", delivery_delay_ms=3_600_000)
        consumer.close()
        world.wait_idle()


@pytest.fixture(scope="module")
def desk() -> Iterator[Desk]:
    with MemoryWorld("letters-shop") as world, Admin(world.url) as admin:
        fill(world)
        browser = DrivenBrowser()
        with ConsoleServer(app(world.url), ConsoleAddress(port=0)) as server:
            yield Desk(world, server, browser, admin)
        browser.close()


@pytest.fixture(autouse=True)
def usual(desk: Desk) -> Iterator[None]:
    """Each test begins with a large, light page, and nothing that the browser complains of."""
    desk.browser.size(1280, 900)
    desk.browser.colours("light")
    yield
    assert desk.browser.complaints() == []


def test_messages_are_found_by_a_filter_and_receivers_are_asked_while_one_reads(desk: Desk) -> None:
    desk.go("queues/orders/messages")
    desk.browser.until_text("Receivers were asked what they have in hand")
    desk.browser.picture("messages")
    desk.browser.find('input[name="unit"]').send_keys("customer-0", Keys.ENTER)
    desk.browser.until(lambda: "unit=customer-0" in desk.browser.driver.current_url, "the address")
    desk.browser.until(lambda: "customer-1" not in desk.browser.find("table").text, "the others gone")
    assert "customer-0" in desk.browser.find("table").text


def test_a_life_is_told_beside_the_body(desk: Desk) -> None:
    desk.go(f"queues/DLQ/message?at={desk.at('DLQ', unit=f'customer-{1019 % 3}')}")
    desk.browser.until_text("Given up after attempt 3 of 3")
    text = desk.browser.find("#life").text
    order_of_steps = [
        "Sent here",
        "Handed over, attempt 1",
        "Came back after attempt 1 of 3",
        "Given up after attempt 3",
    ]
    assert [text.index(each) for each in order_of_steps] == sorted(text.index(each) for each in order_of_steps)
    desk.browser.picture("message")
    tree = desk.browser.find(".tree")
    assert "order 1019" in tree.text.replace("\n", " ")
    assert "B-1019" not in tree.text, "it is folded"
    desk.browser.find(".tree details details details > summary").click()
    desk.browser.until(lambda: "B-1019" in desk.browser.find(".tree").text, "unfolded")


def test_the_life_of_one_that_was_sent_again_ends_where_it_was_done(desk: Desk) -> None:
    settled = next(
        place
        for place in ((partition, offset) for partition in range(2) for offset in range(20))
        if (found := desk.admin.message_at("orders", *place)) and found.message.body == order(1018)
    )
    desk.browser.size(1280, 1250)
    desk.go(f"queues/orders/life?at={settled[0]}.{settled[1]}")
    desk.browser.until_text("Sent here again, out of the dead letters")
    assert desk.browser.find(".life").text.rstrip().endswith("Acknowledged: done")
    desk.browser.picture("life")


def test_what_a_message_says_is_text(desk: Desk) -> None:
    for path in (f"message?at={desk.at('orders', unit=NASTY)}", "messages", "scheduled"):
        desk.go(f"queues/orders/{path}")
        desk.browser.until_text("orders")
        assert desk.browser.driver.title != "taken"
        assert not desk.browser.driver.find_elements("css selector", "main img")


def test_a_letter_is_edited_by_the_keyboard_alone_and_sent(desk: Desk) -> None:
    browser, at = desk.browser, desk.at("DLQ", unit=f"customer-{1017 % 3}")
    desk.go("letters")
    browser.tab_to("To the content")
    browser.press(Keys.ENTER)
    browser.tab_to("DLQ")
    while browser.focused()[0] != "DLQ":
        browser.tab_to("DLQ")
    browser.press(Keys.ENTER)
    browser.until_text("by what went wrong")
    browser.picture("letters")
    desk.go(f"queues/DLQ/edit?at={at}")
    browser.until_text("The copy goes to queue:orders")
    browser.tab_to('"order"')  # a field of several lines shows what it has
    browser.press(Keys.CONTROL, "a")
    browser.press(Keys.BACKSPACE)
    browser.press('{"order": 1,', Keys.ENTER, '"fixed": true}')
    browser.tab_to("Send the changed copy")
    browser.press(Keys.ENTER)
    browser.until_text("Done. sent to queue:orders as ID:edited-")
    rows = [row for row in desk.admin.page("orders").messages if row.message_id.startswith("ID:edited-")]
    assert len(rows) == 1
    copy = desk.admin.message_at("orders", *rows[0].place)
    assert copy is not None
    assert copy.value == b'{"order": 1,\n"fixed": true}'


def views(desk: Desk) -> list[str]:
    letter = desk.at("DLQ", unit=f"customer-{1019 % 3}")
    return [
        "queues/orders/messages",
        f"queues/orders/message?at={desk.at('orders', unit='bytes')}",
        f"queues/orders/message?at={desk.at('orders', unit=NASTY)}",
        f"queues/DLQ/message?at={letter}",
        f"queues/DLQ/life?at={letter}",
        f"queues/DLQ/edit?at={letter}",
        "queues/DLQ/letters",
        "queues/orders/scheduled",
        "letters",
        "actions/retry-letters?name=DLQ",
        "actions/remove?name=orders&unit=bytes",
    ]


def test_every_view_fits_a_telephone_in_both_colours_and_hinders_nobody(desk: Desk) -> None:
    browser, found = desk.browser, {}
    for colours in ("light", "dark"):
        browser.colours(colours)
        for width in (390, 1280):
            browser.size(width, 900)
            for path in views(desk):
                desk.go(path)
                browser.until(lambda: "jbm-kafka" in browser.text(), path)
                wide = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
                if browser.script(wide) > 0:
                    found[path, width] = ["it scrolls aside"]
                elif width == 1280 and (hindrances := list(browser.hindrances())):
                    found[path, width] = hindrances
    assert found == {}
