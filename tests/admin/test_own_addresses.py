"""Dead letters of a namespace are its own: where they go, and who may send them again (decision 93)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from jbm_kafka import AcknowledgeMode, ConnectionFactory, Queue
from jbm_kafka.admin import Admin
from jbm_kafka.core.settings.address_settings import AddressSettings
from jbm_kafka.registry.registry_log import RegistryLog
from tests.jms.support import eventually, receive

ORDERS = Queue("orders")


@pytest.fixture
def url(kafka_name: str) -> str:
    return f"memory://{kafka_name}"


@pytest.fixture
def shared(url: str) -> Iterator[Admin]:
    """Without a namespace; it keeps the world."""
    with Admin(url) as made:
        made.create_queue("orders", partitions=1)
        yield made


def give_up(url: str, namespace: str, body: str, settings: AddressSettings | None = None) -> None:
    """Have receivers of this namespace reject a message of `orders`."""
    patterns = {} if settings is None else {"#": settings}
    with (
        ConnectionFactory(url, namespace=namespace, address_settings=patterns).create_connection() as connection,
        connection.create_session(AcknowledgeMode.INDIVIDUAL) as session,
    ):
        consumer = session.create_consumer(ORDERS)
        session.create_producer(ORDERS).send(body)
        message = receive(consumer)
        while message.body != body:  # of another namespace's receivers: the queue's topic is that of all
            message.acknowledge()
            message = receive(consumer)
        message.reject("no")


def bodies(admin: Admin, queue: Queue | str | None = None) -> list[object]:
    return [message.body for _, message in admin.dead_letters(queue)]


def nothing(shared: Admin) -> None:
    """As it is."""


def with_an_empty_registry(shared: Admin) -> None:
    """Where programs may make no topic, somebody makes it for them."""
    shared._core.admin.create_topic("shop.jbm.registry", partitions=1, config={"cleanup.policy": "compact"})


def with_a_registry(shared: Admin) -> None:
    """Of a version before."""
    core = shared._core
    RegistryLog(core.kafka, core.admin, "shop.jbm.registry").write({b"client|audit": b"x"})


@pytest.mark.parametrize(
    ("before", "dead_letters"),
    [
        (nothing, "shop.DLQ"),
        (with_an_empty_registry, "shop.DLQ"),
        (with_a_registry, "DLQ"),
    ],
    ids=["a new one", "one whose topics others make", "one that was there before"],
)
def test_a_new_namespace_listed_and_sent_again_what_others_had_given_up(
    shared: Admin, url: str, before: Callable[[Admin], None], dead_letters: str
) -> None:
    """Of REDELIVER-8: one that is there keeps the addresses that its operators know."""
    give_up(url, "", "theirs")
    before(shared)
    give_up(url, "shop", "ours")
    eventually(lambda: "ours" in bodies(shared, dead_letters), "the letter")
    with Admin(url, namespace="shop") as shop:
        assert shop.dead_letter_queue() == Queue(dead_letters)
        assert bodies(shop) == (["ours"] if dead_letters != "DLQ" else ["theirs", "ours"])
        report = shop.retry_dead_letters()
        assert [letter.origin.namespace for letter in report.letters] == ["shop"]
        assert [row.why for row in report.kept] == (
            []
            if dead_letters != "DLQ"
            else ["receivers of no namespace gave it up, not those of shop: retry it from there"]
        )
    assert shared.dead_letter_queue() == Queue("DLQ")
    assert bodies(shared) == (["theirs"] if dead_letters != "DLQ" else ["theirs", "ours"])


def test_what_expires_in_a_namespace_goes_to_an_address_of_its_own(shared: Admin, url: str) -> None:
    """Of REDELIVER-8."""
    with Admin(url, namespace="shop") as shop:
        with ConnectionFactory(url, namespace="shop").create_context() as jms:
            jms.create_producer().send(ORDERS, "late")
        assert shop.expire(ORDERS, everything=True, dry_run=True).address == "shop.ExpiryQueue"
        assert shop.expire(ORDERS, everything=True).address == "shop.ExpiryQueue"


def test_a_setting_names_another_address_as_before(shared: Admin, url: str) -> None:
    """REDELIVER-8."""
    give_up(url, "shop", "ours", AddressSettings(dead_letter_address="DLQ"))
    eventually(lambda: bodies(shared) == ["ours"], "the letter")
    (row,) = shared.retry_dead_letters(dry_run=True).kept
    assert row.why == "receivers of namespace 'shop' gave it up, not those of no namespace: retry it from there"


def test_the_first_receiver_of_a_namespace_makes_its_address_whatever_it_may_create(shared: Admin, url: str) -> None:
    """Of REDELIVER-8: as it is with the shared ones."""
    factory = ConnectionFactory(url, namespace="shop", auto_create=False)
    with factory.create_connection() as connection, connection.create_session() as session:
        session.create_consumer(ORDERS)
        eventually(lambda: {"shop.DLQ", "shop.ExpiryQueue"} <= shared._core.admin.topic_names(), "the addresses")
        assert "DLQ" not in shared._core.admin.topic_names()
