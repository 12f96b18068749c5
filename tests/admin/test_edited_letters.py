"""A changed copy of a dead letter (LETTER-1): sent, and the letter gone with it, or kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from jbm_kafka import AcknowledgeMode, AddressSettings, Message, Queue
from jbm_kafka.admin import Admin
from jbm_kafka.admin.dead_letters.letters import DeadLetter
from jbm_kafka.core.jms_errors import IllegalStateError, InvalidSettingError, JMSError, MessageFormatError
from jbm_kafka.testing.memory_world import MemoryWorld

ORDERS = Queue("orders")


class Shop:
    """Gives everything up once, and takes what comes again."""

    def __init__(self, world: MemoryWorld) -> None:
        self.world = world
        settings = AddressSettings(max_delivery_attempts=1, truncate="never", record_deliveries=True)
        self.factory = world.factory(address_settings={"#": AddressSettings(partitions=2), "orders": settings})
        self.admin = Admin(world.url)

    def letter(self, body: Mapping[str, object] | str, **properties: object) -> DeadLetter:
        with self.factory.create_connection() as connection:
            connection.create_session().create_producer(ORDERS).send(body, unit_of_order="ann", properties=properties)
            session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
            message = session.create_consumer(ORDERS).receive(10.0)
            assert message is not None
            message.nack()
            self.world.wait_idle()
        *_, (letter, _) = self.admin.dead_letters("DLQ")
        return letter

    def taken(self) -> Message | None:
        with self.factory.create_connection() as connection:
            found = connection.create_session().create_consumer(ORDERS).receive(0.3)
        self.world.wait_idle()
        return found

    def letters(self) -> int:
        return len(list(self.admin.dead_letters("DLQ")))


@pytest.fixture
def shop() -> Iterator[Shop]:
    with MemoryWorld() as world:
        made = Shop(world)
        yield made
        made.admin.close()


def test_a_changed_copy_goes_where_the_letter_came_from_and_the_letter_goes_with_it(shop: Shop) -> None:
    """LETTER-1: body, properties, unit, id."""
    letter = shop.letter("2 boks", region="EU", bad="x", kept=7)
    done = shop.admin.send_edited_letter(
        letter.place, "DLQ", body="2 books", properties={"region": "US", "bad": None, "fixed": True}
    )
    assert (str(done.destination), done.is_kept, shop.letters()) == ("queue:orders", False, 0)
    copy = shop.taken()
    assert copy is not None
    assert (copy.body, copy.unit_of_order, copy.message_id) == ("2 books", "ann", done.message_id)
    assert {name: copy.properties[name] for name in copy.properties} == {
        "region": "US",
        "kept": 7,
        "fixed": True,
        "_JBM_COPY_OF": letter.message_id,
    }
    assert done.message_id != letter.message_id


def test_the_letter_may_stay_beside_its_copy(shop: Shop) -> None:
    letter = shop.letter("2 boks")
    done = shop.admin.send_edited_letter(letter.place, body="2 books", keep=True)
    assert (done.is_kept, shop.letters()) == (True, 1)
    copy = shop.taken()
    assert copy is not None
    assert copy.body == "2 books"


def test_the_life_of_a_letter_goes_on_in_its_changed_copy(shop: Shop) -> None:
    letter = shop.letter("2 boks")
    shop.admin.send_edited_letter(letter.place, body="2 books")
    assert shop.taken() is not None
    life = shop.admin.message_life("orders", message_id=letter.message_id)
    assert [hop.came for hop in life.hops] == ["sent", "dead-lettered", "edited"]
    assert life.message_id == letter.message_id
    last = life.hops[-1]
    assert shop.admin.message_life("orders", place=(last.partition, last.offset)).hops == life.hops


def test_a_copy_of_a_copy_names_the_first(shop: Shop) -> None:
    first = shop.letter("1")
    shop.admin.send_edited_letter(first.place, body="2")
    with shop.factory.create_connection() as connection:
        message = connection.create_session(AcknowledgeMode.INDIVIDUAL).create_consumer(ORDERS).receive(10.0)
        assert message is not None
        message.nack()
        shop.world.wait_idle()
    ((second, _),) = shop.admin.dead_letters("DLQ")
    shop.admin.send_edited_letter(second.place, body="3")
    copy = shop.taken()
    assert copy is not None
    assert (copy.body, copy.properties["_JBM_COPY_OF"]) == ("3", first.message_id)


def test_a_dry_run_sends_nothing_and_says_what_could_not_be_sent(shop: Shop) -> None:
    letter = shop.letter("2 boks")
    assert shop.admin.send_edited_letter(letter.place, body="2 books", dry_run=True).message_id is None
    assert (shop.letters(), shop.taken()) == (1, None)


@pytest.mark.parametrize(
    ("body", "new", "error", "text"),
    [
        ({"a": 1}, "b", MessageFormatError, "the letter's body is a map"),
        ("text", b"\xff", MessageFormatError, "the letter is text"),
        ("text", None, InvalidSettingError, "change the body or a property"),
        ("text", 5, InvalidSettingError, "body"),
    ],
)
def test_what_is_not_of_the_letters_kind_is_refused_and_the_letter_stays(
    shop: Shop, body: Mapping[str, object] | str, new: object, error: type[JMSError], text: str
) -> None:
    letter = shop.letter(body)
    given = {} if new is None else {"body": new}
    with pytest.raises(error, match=text):
        shop.admin.send_edited_letter(letter.place, **given)  # type: ignore[arg-type]
    assert shop.letters() == 1


def test_a_letter_that_is_gone_is_said_to_be(shop: Shop) -> None:
    letter = shop.letter("1")
    shop.admin.remove("DLQ", everything=True, timeout_s=20)
    with pytest.raises(IllegalStateError, match="holds no letter at partition"):
        shop.admin.send_edited_letter(letter.place, body="2")


def test_properties_that_tell_of_the_letters_hop_are_not_set(shop: Shop) -> None:
    letter = shop.letter("1")
    with pytest.raises(InvalidSettingError, match="it tells where the letter was"):
        shop.admin.send_edited_letter(letter.place, properties={"_JBM_ORIG_OFFSET": 1})
