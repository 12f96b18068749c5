"""Dead letters by error and origin, sent again, edited, moved and removed; what waits for a time (LETTER-1)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from html import unescape

import pytest

from jbm_kafka import AcknowledgeMode, AddressSettings, Queue, Worker
from jbm_kafka.admin import Admin
from jbm_kafka.console.frame.action import ActionHands
from jbm_kafka.console.frame.console_settings import ConsoleSettings, ProgramToken
from jbm_kafka.console.letters.letter_actions import LETTER_ACTIONS
from jbm_kafka.console.letters.letter_groups import group_selector
from jbm_kafka.core.failure_kind import failure_kind
from jbm_kafka.core.jms_errors import IllegalStateError
from jbm_kafka.core.selectors.selector import parse_selector
from jbm_kafka.testing.memory_world import MemoryWorld
from tests.console.conftest import MakeLooking
from tests.console.looking import Looking
from tests.support.waiting import wait_until

EVERY = {"#": AddressSettings(partitions=2, truncate="never", max_delivery_attempts=1)}


@pytest.mark.parametrize(
    ("error", "shape"),
    [
        ("ValueError: no customer 17", "ValueError: no customer …"),
        ("ValueError: 'Ann' has no address", "ValueError: … has no address"),
        ("KeyError: 'price'", "KeyError: 'price'"),
        ("ValueError: 17", "ValueError: 17"),
        ("OSError: order ID:c21c30e8295fa:1 of 0xff", "OSError: order … of …"),
        ("no class at all, 5 times", "no class at all, 5 times"),
        ("", ""),
    ],
)
def test_errors_that_differ_in_values_alone_have_one_shape(error: str, shape: str) -> None:
    assert failure_kind(error) == shape


@pytest.mark.parametrize(
    "error", ["ValueError: 100% of 'x_y' is \\ 5", "ValueError: it's 5 o'clock", "KeyError: 'a'", ""]
)
def test_the_selector_of_a_group_chooses_its_letters(error: str) -> None:
    """Whatever an error says: quotes, percent signs, backslashes."""
    selector = parse_selector(group_selector(failure_kind(error), "rejected", "queue:o", ""))
    assert selector is not None
    letter = {
        "_JBM_ORIG_DESTINATION": "queue:o",
        "_JBM_DEAD_LETTER_REASON": "rejected",
        "_JBM_LAST_ERROR_KIND": failure_kind(error) or None,
    }
    assert selector.matches(letter.get)
    assert not selector.matches({**letter, "_JBM_LAST_ERROR_KIND": "another"}.get)
    assert not selector.matches({**letter, "_JBM_ORIG_DESTINATION": "queue:p"}.get)
    assert not selector.matches({**letter, "_JBM_DEAD_LETTER_REASON": "operator"}.get)


class Shop:
    """Handlers that fail, and an operator at the console."""

    def __init__(self, world: MemoryWorld, looking: Looking) -> None:
        self.world, self.looking = world, looking
        self.fails = True
        self.taken: list[str] = []
        worker = Worker(world.factory(address_settings=EVERY))

        @worker.handler("orders")
        def order(message: str) -> None:
            if self.fails and message.startswith("customer"):
                raise ValueError(f"no {message}")
            if self.fails:
                raise KeyError(message)
            self.taken.append(message)

        self.worker = worker

    def start(self) -> None:
        self.world.start(self.worker)

    def send(self, *texts: str) -> None:
        for text in texts:
            self.world.send("orders", text, unit_of_order=text)

    def gave_up(self, count: int) -> None:
        def look() -> bool:
            return len(self.world.dead_letters()) >= count

        wait_until(look, about=f"{count} letters", timeout_s=30.0)

    def groups(self) -> list[tuple[str, str, int]]:
        self.looking.console.changed()
        found = self.looking.json("/queues/DLQ/letters")
        assert found["is_whole"]
        return [(each["error"], each["origin"], each["count"]) for each in found["groups"]]


@pytest.fixture
def shop(world: MemoryWorld, looking: Looking) -> Iterator[Shop]:
    made = Shop(world, looking)
    with Admin(world.url) as admin:
        admin.create_queue("DLQ", partitions=2)
        made.start()
        yield made


def test_letters_are_grouped_and_a_group_is_sent_again(shop: Shop) -> None:
    """The letters of one error come back and are handled; the others stay."""
    shop.send("customer 1", "customer 2", "customer 3", "price")
    shop.gave_up(4)
    assert shop.groups() == [
        ("ValueError: no customer …", "queue:orders", 3),
        ("KeyError: 'price'", "queue:orders", 1),
    ]
    group = shop.looking.json("/queues/DLQ/letters")["groups"][0]
    links = re.findall(
        r'href="(/actions/retry-letters[?][^"]+selector[^"]+)"', shop.looking.page("/queues/DLQ/letters")
    )
    assert "3 letters are sent again to queue:orders" in shop.looking.page(unescape(links[0]))
    would = shop.looking.json("/actions/retry-letters", name="DLQ", selector=group["selector"], rate=500)
    assert would["words"][0] == "3 letters are sent again to queue:orders, in the order in which they came."
    shop.fails = False
    run = shop.looking.act("retry-letters", name="DLQ", selector=group["selector"], rate="500")
    assert (run["state"], run["outcome"]) == ("done", "3 letters are sent again.")
    assert run["lines"] == ["sends 3 letters, 500 a second"]
    wait_until(lambda: len(shop.taken) == 3, about="handled", timeout_s=30.0)
    assert shop.groups() == [("KeyError: 'price'", "queue:orders", 1)]


def test_a_slow_retry_is_stopped_and_what_it_sent_stays_sent(shop: Shop) -> None:
    """It could only be waited for, by its page and by whoever ended the console."""
    shop.send(*[f"customer {number}" for number in range(4)])
    shop.gave_up(4)
    shop.fails = False
    answer = shop.looking.send("/actions/retry-letters", name="DLQ", rate="0.02")
    path = answer.headers["location"]
    wait_until(lambda: shop.taken, about="the first letter", timeout_s=30.0)
    assert "Stop</button>" in shop.looking.page(path)
    stopped = shop.looking.send(f"{path}/stop")
    assert (stopped.status_code, stopped.headers["location"]) == (303, path)
    run = shop.looking.ended(path)
    assert run["outcome"] == (
        f"1 letter is sent again; 3 kept: it was stopped before its turn. Stopped by {run['by']}."
    )
    assert (run["state"], run["stopped_by"], len(shop.taken)) == ("done", run["by"], 1)
    again = shop.looking.client.post(f"/api/v1{path}/stop", headers={"x-csrf-token": shop.looking.form_token()})
    assert (again.status_code, again.json()["error"]) == (409, "Send again DLQ cannot be stopped: it is over")
    begun = shop.looking.send("/actions/retry-letters", name="DLQ", rate="0.02").headers["location"]
    wait_until(lambda: len(shop.taken) == 2, about="the next letter", timeout_s=30.0)
    shop.looking.console.runs.close()
    assert shop.looking.json(begun)["outcome"].endswith("Stopped by the console, which ends.")


def test_a_letter_is_edited_and_its_changed_copy_is_handled(shop: Shop) -> None:
    shop.send("customer 1\nof EU")
    shop.gave_up(1)
    (letter,) = shop.looking.json("/queues/DLQ/messages")["messages"]
    at = f"{letter['partition']}.{letter['offset']}"
    page = shop.looking.page(f"/queues/DLQ/edit?at={at}")
    assert "customer 1\nof EU</textarea>" in page
    assert "goes to <strong>queue:orders</strong>" in page
    shop.fails = False
    # A browser sends each end of a line as two characters.
    run = shop.looking.act("edit-letter", name="DLQ", at=at, body="customer 2\r\nof EU", properties="fixed=yes\r\n")
    assert run["state"] == "done", run
    assert run["outcome"].endswith("the letter is gone.")
    wait_until(lambda: shop.taken == ["customer 2\nof EU"], about="handled", timeout_s=30.0)
    assert shop.groups() == []
    life = shop.looking.json("/queues/orders/life", message_id=letter["message_id"])["life"]
    assert life["hops"][-1]["came"] == "Sent here as a changed copy of a dead letter"
    assert life["hops"][1]["ended_by"] == "local"


def test_what_a_message_says_is_not_in_the_log_of_actions(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    shop.send("customer 1")
    shop.gave_up(1)
    (letter,) = shop.looking.json("/queues/DLQ/messages")["messages"]
    caplog.set_level("INFO")
    shop.fails = False  # else the handler's error says it
    at = f"{letter['partition']}.{letter['offset']}"
    run = shop.looking.act("edit-letter", name="DLQ", at=at, body="card 4111 1111", keep="true")
    assert (run["state"], "body" in run["wanted"]) == ("done", False)
    assert run["outcome"].endswith("the letter is kept.")
    assert "4111" not in caplog.text


def test_an_edit_that_changes_nothing_says_so(shop: Shop) -> None:
    shop.send("customer 1")
    shop.gave_up(1)
    (letter,) = shop.looking.json("/queues/DLQ/messages")["messages"]
    at = f"{letter['partition']}.{letter['offset']}"
    refused = shop.looking.json("/actions/edit-letter", 400, name="DLQ", at=at, body="customer 1")
    assert "change the body or a property" in refused["error"]


def test_letters_are_moved_and_removed_by_their_group(shop: Shop) -> None:
    shop.send("customer 1", "price")
    shop.gave_up(2)
    with Admin(shop.world.url) as admin:
        admin.create_queue("for-joe", partitions=1)
    selectors = {each["error"]: each["selector"] for each in shop.looking.json("/queues/DLQ/letters")["groups"]}
    moved = shop.looking.act("move", name="DLQ", to="for-joe", selector=selectors["KeyError: 'price'"])
    assert moved["outcome"].startswith("1 message moved to for-joe"), moved
    gone = shop.looking.act("remove", name="DLQ", selector=selectors["ValueError: no customer …"], typed="DLQ")
    assert gone["outcome"].startswith("1 message removed")
    assert shop.groups() == []
    assert [each["preview"] for each in shop.looking.json("/queues/for-joe/messages")["messages"]] == ["price"]


def test_a_group_has_no_letters_of_another(shop: Shop) -> None:
    """LIKE, by which groups were chosen, took every error that began and ended like that."""
    shop.send("customer 1", "customer 2 in EU")
    shop.gave_up(2)
    groups = {each["error"]: each for each in shop.looking.json("/queues/DLQ/letters")["groups"]}
    assert {error: each["count"] for error, each in groups.items()} == {
        "ValueError: no customer …": 1,
        "ValueError: no customer … in EU": 1,
    }
    selector = groups["ValueError: no customer …"]["selector"]
    (row,) = shop.looking.json("/queues/DLQ/messages", selector=selector)["messages"]
    assert row["preview"] == "customer 1"
    gone = shop.looking.act("remove", name="DLQ", selector=selector, typed="DLQ")
    assert gone["outcome"].startswith("1 message removed")
    assert shop.groups() == [("ValueError: no customer … in EU", "queue:orders", 1)]


def test_a_letter_tells_its_attempts_and_its_last_error(shop: Shop) -> None:
    """The list said 0 attempts, and no error."""
    shop.send("customer 1")
    shop.gave_up(1)
    (row,) = shop.looking.json("/queues/DLQ/messages")["messages"]
    assert (row["attempts"], row["last_error"], row["state"]) == (1, "ValueError: no customer 1", "ready")
    assert "no customer 1" in shop.looking.page("/queues/DLQ/messages")


def test_letters_go_back_only_to_where_one_may_operate(shop: Shop, look_with: MakeLooking) -> None:
    """Who had the dead-letter queue alone could send anything, also what he had edited, to every origin."""
    shop.send("customer 1")
    shop.gave_up(1)
    (letter,) = shop.looking.json("/queues/DLQ/messages")["messages"]
    at = f"{letter['partition']}.{letter['offset']}"
    tokens = {
        "letters": ProgramToken(hashlib.sha256(b"a").digest(), look=["#"], operate=["DLQ"]),
        "both": ProgramToken(hashlib.sha256(b"b").digest(), look=["#"], operate=["DLQ", "orders"]),
    }
    looking = look_with(ConsoleSettings(tokens=tokens), address="10.1.2.3")
    looking.client.headers["Authorization"] = "Bearer a"
    edit = {"name": "DLQ", "at": at, "body": "customer 2"}
    for action, fields in (("retry-letters", {"name": "DLQ"}), ("edit-letter", edit)):
        assert "what came from orders" in looking.json(f"/actions/{action}", 403, **fields)["error"]
        refused = looking.client.post(f"/api/v1/actions/{action}", json=fields)
        assert (refused.status_code, "what came from orders" in refused.json()["error"]) == (403, True)
    page = looking.json("/queues/DLQ/edit", at=at)
    assert (page["goes_to"], page["why_not"]) == ("", "it came from queue:orders, which you may not operate")
    looking.console.admin.pause("orders", "sending", by="joe")
    refused = looking.client.post("/api/v1/actions/edit-letter", json=edit)
    assert refused.status_code == 403, "what cannot be sent now could be a moment later"
    looking.console.admin.resume("orders", "sending")
    retry = next(each for each in LETTER_ACTIONS if each.name == "retry-letters")
    hands = ActionHands(looking.console.admin, "ann", print, lambda name: name == "DLQ")
    with pytest.raises(IllegalStateError, match="letters came from orders, which ann may not operate"):
        retry.run(hands, retry.wanted(name="DLQ"))  # a letter may come between the look and the run
    assert shop.taken == []
    shop.fails = False
    looking.client.headers["Authorization"] = "Bearer b"
    assert looking.json("/queues/DLQ/edit", at=at)["goes_to"] == "queue:orders"
    begun = looking.client.post("/api/v1/actions/edit-letter", json=edit).json()
    assert (looking.ended(f"/runs/{begun['id']}")["state"], begun["also"]) == ("done", ["orders"])
    wait_until(lambda: shop.taken == ["customer 2"], about="handled", timeout_s=30.0)


def test_what_overtook_a_letter_is_said_before_it_is_sent(world: MemoryWorld, looking: Looking) -> None:
    with world.factory(address_settings=EVERY).create_connection() as connection:
        producer = connection.create_session().create_producer(Queue("orders"))
        producer.send("1", unit_of_order="ann")
        message = connection.create_session(AcknowledgeMode.INDIVIDUAL).create_consumer(Queue("orders")).receive(10.0)
        assert message is not None
        message.nack()
        producer.send("2", unit_of_order="ann")
        world.wait_idle()
    (letter,) = looking.json("/queues/DLQ/messages")["messages"]
    at = f"{letter['partition']}.{letter['offset']}"
    (warning,) = looking.json("/actions/retry-letters", name="DLQ", places=at)["warnings"]
    assert "unit 'ann' of queue:orders went on" in warning
    assert "went on" in looking.page(f"/queues/DLQ/edit?at={at}")


def test_the_list_of_letter_queues_leads_to_their_groups(shop: Shop) -> None:
    shop.send("customer 1")
    shop.gave_up(1)
    shop.looking.look_anew()
    assert shop.looking.json("/letters")["queues"][0]["name"] == "DLQ"
    assert shop.looking.json("/letters")["queues"][0]["held"] == 1
    assert 'href="/queues/DLQ/letters"' in shop.looking.page("/letters")


def test_a_place_that_is_none_is_refused(looking: Looking) -> None:
    assert "places" in looking.json("/actions/retry-letters", 400, name="DLQ", places="1;2")["error"]


def test_what_waits_for_a_time_is_listed_by_it_and_can_be_cancelled_or_sent_now(
    world: MemoryWorld, looking: Looking
) -> None:
    settings = {"#": AddressSettings(partitions=2, redelivery_delay_ms=600_000, max_delivery_attempts=5)}
    with world.factory(address_settings=settings).create_connection() as connection:
        producer = connection.create_session().create_producer(Queue("orders"))
        for hours in (30, 1, 2):
            producer.send(f"in {hours} h", unit_of_order=f"unit-{hours}", delivery_delay_ms=hours * 3_600_000)
        producer.send("fails", unit_of_order="ann")
        producer.send("ready", unit_of_order="joe")
        consumer = connection.create_session(AcknowledgeMode.INDIVIDUAL).create_consumer(Queue("orders"))
        first = consumer.receive(10.0)
        second = consumer.receive(10.0)
        for each in (first, second):
            assert each is not None
            if each.body == "fails":
                each.nack()
        world.wait_idle()
        found = looking.json("/queues/orders/scheduled")
    assert [each["preview"] for each in found["messages"]] == ["fails", "in 1 h", "in 2 h", "in 30 h"]
    assert [each["state"] for each in found["messages"]] == ["delayed", "scheduled", "scheduled", "scheduled"]
    counts = (found["scheduled"], found["delayed"], found["within_hour"], found["within_day"], found["is_whole"])
    assert counts == (3, 1, 2, 3, True)
    page = looking.page("/queues/orders/scheduled")
    assert page.index("in 1 h") < page.index("in 30 h")
    run = looking.act("remove", name="orders", message_id=found["messages"][1]["message_id"], typed="orders")
    assert run["state"] == "done"
    looking.console.changed()
    after = looking.json("/queues/orders/scheduled")["messages"]
    assert [each["preview"] for each in after] == ["fails", "in 2 h", "in 30 h"]
    assert 'href="/actions/send-now?name=orders&amp;message_id=' in page
    run = looking.act("send-now", name="orders", message_id=after[0]["message_id"])
    assert (run["state"], run["outcome"]) == ("done", "1 message let go.")
    looking.console.changed()
    left = looking.json("/queues/orders/scheduled")["messages"]
    assert [each["preview"] for each in left] == ["in 2 h", "in 30 h"]
