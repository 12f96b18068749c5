"""Messages, one of them, its body as a file, and its life, as pages and as JSON (LOOK-1, LOOK-2, LIFE-1)."""

from __future__ import annotations

import hashlib
from contextlib import ExitStack
from html import escape
from urllib.parse import quote

from jbm_kafka import AcknowledgeMode, AddressSettings, Message, Queue, Topic, Worker
from jbm_kafka.admin import Admin
from jbm_kafka.console.frame.console_settings import ConsoleSettings, ProgramToken
from jbm_kafka.testing.memory_world import MemoryWorld
from tests.console.conftest import MakeLooking
from tests.console.looking import Looking
from tests.support.waiting import wait_until

EVIL = '<script>alert("x")</script>'
ORDERS = Queue("orders")


def fill(world: MemoryWorld, *rows: tuple[object, str | None], to: Queue | Topic = ORDERS, **how: object) -> None:
    """Bodies with their units."""
    with world.factory(address_settings={"#": AddressSettings(partitions=2)}).create_connection() as connection:
        producer = connection.create_session().create_producer(to)
        for body, unit in rows:
            producer.send(body, unit_of_order=unit, **how)  # type: ignore[arg-type]


def give_up(world: MemoryWorld, *bodies: str, truncate: str = "never", record: bool = True) -> None:
    """Messages that fail twice."""
    settings = AddressSettings(max_delivery_attempts=2, truncate=truncate, record_deliveries=record)  # type: ignore[arg-type]
    every = {"#": AddressSettings(partitions=2), "orders": settings}
    with world.factory(address_settings=every).create_connection() as connection:
        producer = connection.create_session().create_producer(ORDERS)
        for body in bodies:
            producer.send(body, unit_of_order="ann")
        consumer = connection.create_session(AcknowledgeMode.INDIVIDUAL).create_consumer(ORDERS)
        for _ in range(2 * len(bodies)):
            message = consumer.receive(10.0)
            assert message is not None
            message.nack()
            world.wait_idle()


def test_pages_go_on_by_their_address_and_have_each_message_once(world: MemoryWorld, looking: Looking) -> None:
    fill(world, *((str(number), f"unit-{number % 5}") for number in range(30)))
    seen: list[str] = []
    path = "/queues/orders/messages?count=7&unit="
    while True:
        found = looking.client.get(f"/api/v1{path}").json()
        seen += [each["preview"] for each in found["messages"]]
        page = looking.page(path)
        if not found["next"]:
            assert 'rel="next"' not in page
            break
        assert escape(f"/queues/orders/messages?{found['next']}") in page
        path = f"/queues/orders/messages?{found['next']}"
    assert sorted(seen, key=int) == [str(number) for number in range(30)]


def test_filters_stand_in_the_address_and_in_the_form(world: MemoryWorld, looking: Looking) -> None:
    fill(world, ("1", "ann"), properties={"region": "EU"})
    fill(world, ("2", 'o\'neill "x"'), ("3", "ann"), properties={"region": "US"})
    found = looking.json("/queues/orders/messages", selector="region = 'US'", unit="ann")
    assert [each["preview"] for each in found["messages"]] == ["3"]
    page = looking.page("/queues/orders/messages?" + "selector=region+%3D+%27US%27&unit=" + quote('o\'neill "x"'))
    assert 'value="region = &#39;US&#39;"' in page
    assert "o&#39;neill &#34;x&#34;" in page
    assert page.count('<th scope="row">') == 1
    old = looking.json("/queues/orders/messages", since="2001-01-01T00:00:00", until="2001-01-02T00:00:00")
    assert old["messages"] == []


def test_a_wrong_filter_says_what_is_wrong(world: MemoryWorld, looking: Looking) -> None:
    fill(world, ("1", "ann"))
    assert "selector" in looking.json("/queues/orders/messages", 400, selector="region =")["error"]
    assert "after" in looking.json("/queues/orders/messages", 400, after="x")["error"]
    assert "state" in looking.json("/queues/orders/messages", 400, state="lost")["error"]
    looking.page("/queues/nothing/messages", 404)


def test_what_a_receiver_has_in_hand_shows_when_it_is_asked(world: MemoryWorld, looking: Looking) -> None:
    fill(world, ("1", "ann"))
    with world.factory().create_connection() as connection:
        assert connection.create_session(AcknowledgeMode.CLIENT).create_consumer(ORDERS).receive(10.0) is not None
        assert [each["state"] for each in looking.json("/queues/orders/messages")["messages"]] == ["ready"]
        asked = looking.json("/queues/orders/messages", ask=True)
        assert ([each["state"] for each in asked["messages"]], asked["asked_receivers"]) == (["in hand"], True)
        found = looking.json("/queues/orders/messages", state="in hand")["messages"]
        assert [each["preview"] for each in found] == ["1"]


def test_a_body_with_script_and_names_with_quotes_are_text_on_every_page(world: MemoryWorld, looking: Looking) -> None:
    fill(world, (EVIL, f"unit {EVIL}"), properties={"html": EVIL})
    (row,) = looking.json("/queues/orders/messages")["messages"]
    at = f"{row['partition']}.{row['offset']}"
    for path in ("messages", f"message?at={at}", f"life?at={at}"):
        page = looking.page(f"/queues/orders/{path}")
        assert EVIL not in page, path
    assert escape(EVIL) in looking.page(f"/queues/orders/message?at={at}").replace("&#34;", "&quot;")
    shown = looking.json("/queues/orders/message", at=at)
    assert (shown["body"]["text"], shown["unit"], shown["properties"][0]["value"]) == (EVIL, f"unit {EVIL}", EVIL)


def test_a_download_is_a_file_and_never_a_page(world: MemoryWorld, looking: Looking) -> None:
    """LOOK-2: byte for byte, whatever it says it is."""
    fill(world, (EVIL, None), (b"\x00\xff", None), ('{"a": 1}', None))
    values = {}
    for row in looking.json("/queues/orders/messages")["messages"]:
        at = f"{row['partition']}.{row['offset']}"
        answer = looking.client.get("/queues/orders/body", params={"at": at})
        assert answer.headers["content-type"] == "application/octet-stream"
        assert answer.headers["content-disposition"].startswith('attachment; filename="orders-')
        assert answer.headers["x-content-type-options"] == "nosniff"
        values[answer.content] = (
            answer.headers["content-disposition"].partition(";")[2].split('"')[1].rpartition(".")[2]
        )
    assert values == {EVIL.encode(): "txt", b"\x00\xff": "bin", b'{"a": 1}': "json"}
    assert looking.client.get("/queues/orders/body", params={"at": "0.99"}).status_code == 404
    assert looking.client.get("/queues/orders/body", params={"at": "x"}).status_code == 400


def test_twenty_megabytes_are_a_small_page_and_a_whole_download(world: MemoryWorld, looking: Looking) -> None:
    with Admin(world.url) as admin:
        admin.create_queue("orders", partitions=1)
        admin._core.admin.alter_config("orders", {"max.message.bytes": str(64 * 2**20)})
    fill(world, ("é" * (10 * 2**20), None))
    page = looking.page("/queues/orders/message?at=0.0")
    assert len(page) < 300_000
    assert "The first 128.0 KiB of 20.0 MiB" in page
    assert len(looking.client.get("/queues/orders/body", params={"at": "0.0"}).content) == 20 * 2**20
    assert len(looking.page("/queues/orders/messages")) < 50_000


def test_a_message_that_is_gone_says_why(world: MemoryWorld, looking: Looking) -> None:
    fill(world, ("1", None))
    assert "in its log any more" in looking.page("/queues/orders/message?at=0.99", 404)
    assert "write partition and offset" in looking.json("/queues/orders/message", 400, at="first")["error"]


def test_the_life_of_a_letter_is_one_timeline_with_who_sent_it_again(looking: Looking, world: MemoryWorld) -> None:
    give_up(world, "2 books")
    (letter,) = looking.json("/queues/DLQ/messages")["messages"]
    at = f"{letter['partition']}.{letter['offset']}"
    run = looking.act("retry-letters", name="DLQ", places=at)
    assert (run["state"], run["outcome"]) == ("done", "1 letter is sent again.")
    with world.factory().create_connection() as connection:
        assert connection.create_session().create_consumer(ORDERS).receive(10.0) is not None
    world.wait_idle()
    life = looking.json("/queues/DLQ/life", at=at)["life"]
    assert [(hop["source"]["title"], hop["came"], hop["state"]) for hop in life["hops"]] == [
        ("orders", "Sent here", "settled"),
        ("DLQ", "Came here as a dead letter", "settled"),
        ("orders", "Sent here again, out of the dead letters", "settled"),
    ]
    titles = [step["title"] for step in life["hops"][0]["steps"]]
    assert titles == [
        "Handed over, attempt 1",
        "Came back after attempt 1 of 2",
        "Handed over, attempt 2",
        "Given up after attempt 2 of 2",
    ]
    assert [hop["ended_by"] for hop in life["hops"]] == [None, "local", None]
    page = looking.page(f"/queues/DLQ/life?at={at}")
    assert "by local, in the console" in page
    assert page.index("Handed over, attempt 2") < page.index("Came here as a dead letter")
    assert looking.json("/queues/orders/life", message_id=letter["message_id"])["life"]["hops"] == life["hops"]


def test_the_life_of_one_that_waits_for_another_attempt_tells_its_last_error(
    looking: Looking, world: MemoryWorld
) -> None:
    """Who follows a message from page to page reads there what is wrong with it."""
    settings = AddressSettings(max_delivery_attempts=-1, redelivery_delay_ms=3_600_000)

    def fail(message: Message) -> None:
        raise ValueError(f"no seat for {message.body}")

    worker = Worker(world.factory(address_settings={"orders": settings}))
    worker.handler("orders")(fail)
    worker.start()
    with ExitStack() as ends:
        ends.callback(worker.stop)
        with world.factory().create_context() as jms:
            jms.create_producer().send(ORDERS, "<ann>", unit_of_order="joe")
        wait_until(lambda: looking.json("/queues/orders/messages", state="delayed")["messages"],
                   about="it came back", timeout_s=30)  # fmt: skip
        (row,) = looking.json("/queues/orders/messages")["messages"]
        at = f"{row['partition']}.{row['offset']}"
        (hop,) = looking.json("/queues/orders/life", at=at)["life"]["hops"]
        page = looking.page(f"/queues/orders/life?at={at}")
    assert hop["last_error"] == "ValueError: no seat for <ann>"
    assert "Its last attempt failed: <strong>ValueError: no seat for &lt;ann&gt;</strong>" in page


def test_where_deliveries_are_not_recorded_the_page_names_the_setting(world: MemoryWorld, looking: Looking) -> None:
    give_up(world, "2 books", record=False)
    (letter,) = looking.json("/queues/DLQ/messages")["messages"]
    page = looking.page(f"/queues/DLQ/life?at={letter['partition']}.{letter['offset']}")
    assert "jbm-kafka settings set orders record_deliveries=true" in page


def test_messages_are_moved_given_up_and_removed_after_a_preview(world: MemoryWorld, looking: Looking) -> None:
    fill(world, ("1", "ann"), ("2", "joe"), ("3", "eve"))
    fill(world, ("0", None), to=Queue("other"))
    would = looking.json("/actions/move", name="orders", unit="ann", to="other")
    assert would["words"][0].startswith("1 message goes to other: ID:")
    assert len(looking.json("/queues/orders/messages")["messages"]) == 3
    moved = looking.act("move", name="orders", unit="ann", to="other")
    assert moved["state"] == "done", moved
    assert moved["outcome"].startswith("1 message moved to other")
    given_up = looking.act("give-up", name="orders", unit="joe")
    assert given_up["outcome"].startswith("1 message given up to DLQ")
    refused = looking.send("/actions/remove", name="orders", everything="true", typed="order")
    assert "nothing was done: type orders" in refused.text
    removed = looking.act("remove", name="orders", everything="true", typed="orders")
    assert removed["outcome"].startswith("1 message removed")
    assert looking.json("/queues/orders/messages")["messages"] == []
    assert "by unit, message_id or selector" in looking.json("/actions/remove", 400, name="orders")["error"]


def test_a_subscription_has_the_same_pages(world: MemoryWorld, looking: Looking) -> None:
    with Admin(world.url) as admin:
        admin.create_topic("prices", partitions=1)
        admin.create_subscription("prices", "audit", shared=True)
    fill(world, ("7 EUR", None), to=Topic("prices"))
    path = "/topics/prices/subscription"
    (row,) = looking.json(f"{path}/messages", subscription="audit")["messages"]
    assert row["preview"] == "7 EUR"
    page = looking.page(f"{path}/messages?subscription=audit")
    assert "/topics/prices/subscription/message?subscription=audit&at=0.0" in page.replace("&amp;", "&")
    assert "7 EUR" in looking.page(f"{path}/message?subscription=audit&at=0.0")
    assert looking.client.get(f"{path}/body", params={"subscription": "audit", "at": "0.0"}).content == b"7 EUR"
    life = looking.json(f"{path}/life", subscription="audit", at="0.0")["life"]
    assert [hop["source"]["subscription"] for hop in life["hops"]] == ["audit"]


def test_who_may_not_look_at_a_place_does_not_see_it_in_a_life(world: MemoryWorld, look_with: MakeLooking) -> None:
    give_up(world, "2 books")
    tokens = {"nightly": ProgramToken(hashlib.sha256(b"s3cret").digest(), look=("DLQ",))}
    looking = look_with(ConsoleSettings(tokens=tokens))
    looking.client.headers["Authorization"] = "Bearer s3cret"
    (letter,) = looking.json("/queues/DLQ/messages")["messages"]
    at = f"{letter['partition']}.{letter['offset']}"
    life = looking.json("/queues/DLQ/life", at=at)["life"]
    assert [hop["source"]["title"] for hop in life["hops"]] == ["DLQ"]
    assert life["hidden"] == 1
    for path in ("messages", "message", "life", "scheduled", "letters", "edit", "body"):
        looking.json(f"/queues/orders/{path}", 403, at="0.0")
