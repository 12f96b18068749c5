"""Pages of what a queue holds (LOOK-1): states, filters, cursors, and that none reads the whole log."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jbm_kafka import AcknowledgeMode, AddressSettings, Queue, Topic
from jbm_kafka.admin import Admin
from jbm_kafka.admin.pages.message_row import MessageRow
from jbm_kafka.admin.pages.page_admin import RECORDS_MAX
from jbm_kafka.core.jms_errors import InvalidDestinationError, InvalidSelectorError, InvalidSettingError
from jbm_kafka.testing.memory_world import MemoryWorld

ORDERS = Queue("orders")


@pytest.fixture
def world() -> Iterator[MemoryWorld]:
    with MemoryWorld() as made:
        yield made


@pytest.fixture
def admin(world: MemoryWorld) -> Iterator[Admin]:
    with Admin(world.url) as made:
        made.create_queue("orders", partitions=3)
        yield made


def send(world: MemoryWorld, *rows: tuple[str, str | None], **how: object) -> None:
    """Bodies with their units, in this order."""
    factory = world.factory(address_settings={"#": AddressSettings(redelivery_delay_ms=5_000)})
    with factory.create_connection() as connection:
        producer = connection.create_session().create_producer(ORDERS)
        for body, unit in rows:
            producer.send(body, unit_of_order=unit, **how)  # type: ignore[arg-type]


def states(messages: tuple[MessageRow, ...]) -> dict[str, str]:
    return {each.preview: each.state for each in messages}


def test_pages_have_each_message_once_and_end(world: MemoryWorld, admin: Admin) -> None:
    """LOOK-1: whatever the size of a page."""
    send(world, *((str(number), f"unit-{number % 7}") for number in range(100)))
    seen: list[str] = []
    after, pages = None, 0
    while True:
        page = admin.page("orders", count=9, after=after)
        seen += [each.preview for each in page.messages]
        pages += 1
        if (after := page.after) is None:
            break
        assert page.left >= 1
    assert sorted(seen, key=int) == [str(number) for number in range(100)]
    assert pages == 12


def test_a_page_says_how_each_message_stands(world: MemoryWorld, admin: Admin) -> None:
    send(world, ("failed", "ann"), ("behind", "ann"), ("taken", "joe"), ("free", None))
    send(world, ("later", "eve"), delivery_delay_ms=60_000)
    send(world, ("over", "zoe"), time_to_live_ms=1_000)
    factory = world.factory(address_settings={"#": AddressSettings(redelivery_delay_ms=600_000)})
    with factory.create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
        consumer = session.create_consumer(ORDERS)
        taken = [consumer.receive(10.0) for _ in range(4)]
        for message in taken:
            assert message is not None
            if message.body == "failed":
                message.nack()
        world.wait_idle()
        world.clock.advance(1_000)
        found = states(admin.page("orders").messages)
        assert found["failed"] == "delayed"
        assert found["behind"] == "blocked"
        assert found["taken"] == "in hand"
        assert found["later"] == "scheduled"
        assert states(admin.page("orders", ask_receivers=False).messages)["taken"] == "ready"
        assert states(admin.page("orders", state="delayed").messages) == {"failed": "delayed"}
        (row,) = admin.page("orders", state="scheduled").messages
        assert row.due_at_ms == row.sent_at_ms + 60_000


def test_a_later_page_does_not_claim_to_know_what_stands_before_it(world: MemoryWorld, admin: Admin) -> None:
    """Its first message of a unit may be behind one of an earlier page."""
    send(world, *((str(number), "ann") for number in range(10)))
    first = admin.page("orders", count=4)
    assert [each.state for each in first.messages] == ["ready", "blocked", "blocked", "blocked"]
    second = admin.page("orders", count=4, after=first.after)
    assert [each.state for each in second.messages] == ["waits", "blocked", "blocked", "blocked"]
    assert [each.preview for each in admin.page("orders", after=first.after, state="ready").messages] == ["4"]


def test_filters_are_by_selector_unit_id_and_time(world: MemoryWorld, admin: Admin) -> None:
    send(world, ("1", "ann"), ("2", "joe"), properties={"region": "EU"})
    began = world.clock.now_ms()
    world.clock.advance(600_000)
    send(world, ("3", "ann"), properties={"region": "US"})

    def previews(**wanted: object) -> list[str]:
        return [each.preview for each in admin.page("orders", **wanted).messages]  # type: ignore[arg-type]

    assert previews(selector="region = 'US'") == ["3"]
    assert previews(unit="ann") == ["1", "3"]
    (row,) = admin.page("orders", unit="joe").messages
    assert previews(message_id=row.message_id) == ["2"]
    assert previews(since_ms=began + 1) == ["3"]
    assert sorted(previews(until_ms=began)) == ["1", "2"]


def test_since_a_time_nothing_before_is_read(world: MemoryWorld, admin: Admin) -> None:
    send(world, *((str(number), f"unit-{number}") for number in range(3_000)))
    world.clock.advance(600_000)
    send(world, ("new", "ann"))
    page = admin.page("orders", since_ms=world.clock.now_ms() - 1_000)
    assert [each.preview for each in page.messages] == ["new"]
    assert page.looked_at < 100


def test_a_page_that_finds_nothing_ends_and_tells_where_to_go_on(
    world: MemoryWorld, admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jbm_kafka.admin.pages.page_admin.RECORDS_MAX", 40)
    send(world, *((str(number), f"unit-{number}") for number in range(100)))
    page = admin.page("orders", unit="nobody")
    assert (page.messages, page.looked_at, page.left) == ((), 40, 60)
    assert admin.page("orders", unit="nobody", after=page.after).after is not None
    assert RECORDS_MAX <= 50_000


def test_subscriptions_are_looked_into_by_name(world: MemoryWorld, admin: Admin) -> None:
    admin.create_topic("prices", partitions=1)
    admin.create_subscription("prices", "dear", shared=True, selector="eur > 5")
    with world.factory().create_connection() as connection:
        producer = connection.create_session().create_producer(Topic("prices"))
        for eur in (3, 7):
            producer.send(f"{eur} EUR", properties={"eur": eur})
    (row,) = admin.page("prices", subscription="dear").messages
    assert (row.preview, row.kind, row.state) == ("7 EUR", "text", "ready")
    with pytest.raises(InvalidDestinationError, match="name one of its subscriptions"):
        admin.page(Topic("prices"))


def test_a_preview_is_text_and_no_more_than_its_beginning(world: MemoryWorld, admin: Admin) -> None:
    with world.factory().create_connection() as connection:
        producer = connection.create_session().create_producer(ORDERS)
        for body in ("é" * 5_000, b"\x00\x01\xff", b'{"a": 1}', {"map": 1}, "a\n\tb"):
            producer.send(body, unit_of_order="ann")
    rows = admin.page("orders").messages
    assert [each.preview for each in rows] == ["é" * 160, "", '{"a": 1}', "", "a b"]
    assert [each.kind for each in rows] == ["text", "bytes", "bytes", "map", "text"]
    assert rows[0].bytes == 10_000


def test_a_message_is_read_at_its_place_also_when_it_is_settled(world: MemoryWorld, admin: Admin) -> None:
    send(world, ("1", "ann"))
    (row,) = admin.page("orders").messages
    with world.factory().create_connection() as connection:
        assert connection.create_session().create_consumer(ORDERS).receive(10.0) is not None
    world.wait_idle()
    assert admin.page("orders").messages == ()
    found = admin.message_at("orders", *row.place)
    assert found is not None
    assert (found.message.body, found.value, found.message.unit_of_order) == ("1", b"1", "ann")
    assert admin.message_at("orders", row.partition, row.offset + 99) is None
    assert admin.message_at("orders", 99, 0) is None


@pytest.mark.parametrize(
    ("wrong", "error", "text"),
    [
        ({"after": "0.x"}, InvalidSettingError, "after"),
        ({"after": "0.1-"}, InvalidSettingError, "after"),
        ({"state": "lost"}, InvalidSettingError, "'ready' or 'waits'"),
        ({"count": 0}, InvalidSettingError, "count"),
        ({"count": 501}, InvalidSettingError, "count"),
        ({"since_ms": -1}, InvalidSettingError, "since_ms"),
        ({"unit": ""}, InvalidSettingError, "unit"),
        ({"selector": "a ="}, InvalidSelectorError, "selector"),
    ],
)
def test_what_cannot_be_a_filter_is_refused(
    admin: Admin, wrong: dict[str, object], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        admin.page("orders", **wrong)  # type: ignore[arg-type]
