"""The pages as somebody sees and uses them, in Debian's browser: one for all tests of this file."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from math import sin
from typing import Any

import pytest
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.select import Select

from jbm_kafka import AcknowledgeMode, AddressSettings, Context, Message, Queue, Topic
from jbm_kafka.admin import Admin
from jbm_kafka.console import app
from jbm_kafka.console.queues import queue_views
from jbm_kafka.console.serving import ConsoleAddress, ConsoleServer
from jbm_kafka.testing.memory_world import MemoryWorld
from tests.console.driven_browser import DrivenBrowser
from tests.support.waiting import wait_until

NASTY = """<img src=x onerror="document.title='taken'">'"&"""
VIEWS = (
    "", "queues/orders", "queues/orders/why", "queues/orders/units", "queues/orders/partitions",
    "queues/orders/settings", "topics", "subscriptions", "transactions", "readers", "bridges", "checkup", "runs",
    "actions/create", "actions/pause?name=orders", "actions/delete?name=bills", "queues/nobody", "login",
)  # fmt: skip


class Shop:
    """A world with something to see, its console, and the browser that looks at it."""

    def __init__(self, world: MemoryWorld, jms: Context, server: ConsoleServer, browser: DrivenBrowser) -> None:
        self.world, self.jms, self.server, self.browser = world, jms, server, browser

    def send(self, queue: str, text: str, unit: str | None = None) -> None:
        """One message."""
        self.jms.create_producer().send(Queue(queue), text, unit_of_order=unit)

    def receive(self, queue: str) -> Message:
        """The next one; its consumer stays."""
        message = self.jms.create_consumer(Queue(queue)).receive(timeout=10)
        assert message is not None
        return message

    def go(self, path: str = "") -> None:
        """To a page."""
        self.browser.driver.get(self.server.url + path)


def pass_an_hour(shop: Shop) -> None:
    """Of traffic in one queue, by the world's clock: then charts have something to show."""
    following = shop.server.console.following
    with shop.jms.create_consumer(Queue("clicks")) as consumer:
        for minute in range(60):
            for _ in range(10 + int(6 * sin(minute / 5))):
                shop.send("clicks", "x")
            for _ in range(10 + int(6 * sin((minute - 6) / 5))):
                if (message := consumer.receive_nowait()) is not None:
                    message.acknowledge()
            shop.world.clock.advance(60_000)
            seen = following.latest()
            following.look_now()
            wait_until(lambda seen=seen: following.latest() is not seen, about="a look", timeout_s=30)  # type: ignore[misc]


@pytest.fixture(scope="module")
def shop() -> Iterator[Shop]:
    settings = {
        "bills": AddressSettings(max_delivery_attempts=1, on_dead_letter="hold"),
        "shipments": AddressSettings(max_delivery_attempts=1),
    }
    with MemoryWorld("shop") as world:
        factory = world.factory(address_settings=settings)
        with factory.create_context(AcknowledgeMode.INDIVIDUAL) as jms, Admin(world.url) as admin:
            browser = DrivenBrowser()
            with ConsoleServer(app(world.url), ConsoleAddress(port=0)) as server:
                shop = Shop(world, jms, server, browser)
                for number in range(12):
                    shop.send("orders", f"order {number}", unit=f"customer-{number % 3}")
                shop.send("texts", NASTY, unit=NASTY)
                for queue in ("bills", "shipments"):
                    shop.send(queue, "x", unit="ann")
                    shop.receive(queue).nack()
                shop.receive("orders")
                jms.create_shared_durable_consumer(Topic("prices"), "audit").close()
                jms.create_producer().send(Topic("prices"), "1.20")
                admin.create_queue("payments.card", partitions=4)
                admin.pause("payments.card", "receiving", by="ann")
                pass_an_hour(shop)
                yield shop
            browser.close()


@pytest.fixture(autouse=True)
def usual(shop: Shop) -> Iterator[None]:
    """Each test begins with a large, light page, and nothing that the browser complains of."""
    shop.browser.size(1280, 900)
    shop.browser.colours("light")
    shop.go()
    shop.browser.script("localStorage.clear()")
    shop.browser.until(lambda: "Needs attention" in shop.browser.text(), "the overview")
    yield
    assert shop.browser.complaints() == []


def test_the_overview_tells_what_needs_somebody_and_leads_there(shop: Shop) -> None:
    browser = shop.browser
    browser.until_text("1 dead letter waits for somebody to decide")
    browser.until_text("1 unit is on hold, out of attempts")
    browser.picture("overview")
    browser.find('a[aria-label="Decide: bills"]').click()
    browser.until_text("What it would do")
    assert "The message that holds each of 1 units becomes a dead letter" in browser.text()


def test_a_view_is_new_while_somebody_looks(shop: Shop) -> None:
    shop.browser.script("window.sameDocument = true")
    shop.send("news", "x")
    shop.browser.until_text("news")
    assert shop.browser.script("return window.sameDocument"), "the page was not loaded anew"
    assert shop.browser.script("return htmx.config.allowEval") is False


def test_search_goes_into_the_address(shop: Shop) -> None:
    shop.browser.find("#q").send_keys("paym")
    shop.browser.until(lambda: "q=paym" in shop.browser.driver.current_url, "the address")
    shop.browser.until(lambda: "shipments" not in shop.browser.find("table").text, "the others gone")
    assert "payments.card" in shop.browser.find("table").text


def test_a_queue_has_its_charts(shop: Shop) -> None:
    shop.go("queues/clicks")
    shop.browser.until(
        lambda: shop.browser.script("return document.querySelectorAll('.uplot canvas').length") == 2, "both"
    )
    assert "held" in shop.browser.find("#chart-states .u-legend").text
    shop.browser.picture("queue")


def test_why_shows_each_unit_with_who_has_it(shop: Shop) -> None:
    shop.browser.colours("dark")
    shop.go("queues/orders/why")
    shop.browser.until_text("customer-0")
    assert "Held by" in shop.browser.text()
    shop.browser.picture("why-dark")


def test_what_stands_in_a_unit_is_text(shop: Shop) -> None:
    for path in ("queues/texts/units", "queues/texts/why"):
        shop.go(path)
        shop.browser.until_text(NASTY)
        assert shop.browser.driver.title != "taken"
        assert not shop.browser.driver.find_elements("css selector", "main img")


def test_an_action_by_the_keyboard_alone(shop: Shop) -> None:
    browser = shop.browser
    browser.tab_to("To the content")
    browser.press(Keys.ENTER)
    browser.tab_to("payments.card")
    while browser.focused()[0] != "payments.card":
        browser.tab_to("payments.card")
    browser.press(Keys.ENTER)
    browser.until_text("Receiving is paused by ann")
    browser.tab_to("Resume…")
    browser.press(Keys.ENTER)
    browser.until_text("ann had paused it")
    browser.tab_to("Show what it would do")
    browser.tab_to("Resume")
    browser.press(Keys.ENTER)
    browser.until_text("Done. payments.card: resumed")
    with Admin(shop.world.url) as admin:
        assert not admin.paused("payments.card")
        admin.pause("payments.card", "receiving", by="ann")


def test_a_view_that_is_renewed_leaves_the_focus_where_it_was(shop: Shop) -> None:
    browser = shop.browser
    browser.tab_to("payments.card")
    browser.script("document.activeElement.closest('#live').dataset.before = 'yes'")
    before = browser.focused()
    browser.script("htmx.trigger(document.body, 'jbm:refresh')")
    browser.until(lambda: browser.script("return !document.getElementById('live').dataset.before"), "a new view")
    browser.until(lambda: browser.focused() == before, f"the focus at {before}")


def test_what_destroys_does_nothing_until_its_name_is_typed(shop: Shop) -> None:
    browser = shop.browser
    with Admin(shop.world.url) as admin:
        admin.create_queue("old", partitions=1)
        shop.go("actions/delete?name=old")
        browser.find("#typed").send_keys("ol", Keys.ENTER)
        browser.until_text("nothing was done: type old to confirm")
        assert admin.exists("old")
        browser.find("#typed").send_keys("old", Keys.ENTER)
        browser.until_text("Done. queue:old deleted")
        assert not admin.exists("old")


def test_colours_follow_the_system_and_then_the_choice(shop: Shop) -> None:
    def ground() -> str:
        return str(shop.browser.script("return getComputedStyle(document.body).backgroundColor"))

    light = ground()
    shop.browser.colours("dark")
    dark = ground()
    assert dark != light
    Select(shop.browser.find("#theme")).select_by_value("light")
    assert ground() == light
    shop.go("topics")
    assert ground() == light, "it is remembered"


def test_a_page_that_is_long_in_coming_says_how_far_it_is_and_then_comes(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CONSOLE-1: by itself, and nobody is kept from it meanwhile."""
    go_on, read = threading.Event(), Admin.browse

    def slow(admin: Admin, *args: Any, **more: Any) -> Any:
        for message in read(admin, *args, **more):
            yield message
            assert go_on.wait(60)

    monkeypatch.setattr(Admin, "browse", slow)
    monkeypatch.setattr(queue_views, "TOLD_EACH", 1)
    shop.go("queues/orders/units?by=age")
    shop.browser.script("window.sameDocument = true")
    shop.browser.until_text("It is being read from the topics: 1 messages read.")
    assert shop.browser.hindrances() == []
    shop.browser.picture("under-way")
    go_on.set()
    shop.browser.until_text("3 units in 12 messages")
    assert shop.browser.script("return window.sameDocument"), "the page was not loaded anew"


@pytest.mark.parametrize("path", VIEWS)
def test_a_narrow_screen_shows_each_view_without_scrolling_aside(shop: Shop, path: str) -> None:
    shop.browser.size(390, 900)
    shop.go(path)
    wide = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert shop.browser.script(wide) <= 0
    if not path:
        shop.browser.picture("overview-narrow")


def test_a_narrow_screen_has_the_values_of_settings(shop: Shop) -> None:
    shop.browser.size(390, 900)
    shop.go("queues/orders/settings")
    row = shop.browser.find("tr:has(th code)")
    assert "Value" in shop.browser.script("return getComputedStyle(arguments[0].cells[1], '::before').content", row)
    assert shop.browser.script("return arguments[0].cells[1].offsetHeight", row) > 0


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_nobody_is_kept_from_any_view(shop: Shop, theme: str) -> None:
    """axe-core: contrast, names of what can be pressed, order of headings, labels of fields."""
    shop.browser.colours(theme)
    found = {}
    for path in VIEWS:
        shop.go(path)
        if hindrances := shop.browser.hindrances():
            found[path or "/"] = hindrances
    assert found == {}


def test_a_console_that_is_gone_is_told_and_comes_back(shop: Shop) -> None:
    browser = shop.browser
    with ConsoleServer(app(shop.world.url), ConsoleAddress(port=0)) as server:
        browser.driver.get(server.url)
        browser.until_text("Needs attention")
    look_again = "htmx.trigger(document.body, 'jbm:refresh')"  # as it does by itself every few seconds
    browser.script(look_again)
    browser.until_text("The console does not answer")
    with ConsoleServer(app(shop.world.url), ConsoleAddress(port=server.port)):
        browser.script(look_again)
        browser.until(lambda: "The console does not answer" not in browser.text(), "an answer")
        browser.until_text("Needs attention")
    browser.complaints()  # of each try meanwhile
