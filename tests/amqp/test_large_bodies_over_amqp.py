"""Clients of AMQP send and get bodies that are too large for Kafka, and know nothing of it."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from proton import Delivery, Message
from proton.utils import BlockingConnection, SendException

from jbm_kafka import AcknowledgeMode, AddressSettings, ConnectionFactory, Context, Queue
from jbm_kafka.amqp.amqp_server import Server
from jbm_kafka.amqp.server_settings import Listener, ServerSettings
from jbm_kafka.client.bodies.large_bodies import LargeBodies
from jbm_kafka.errors import JMSError
from jbm_kafka.ports.installation import Installation, SidecarConfig
from jbm_kafka.providers import in_memory
from tests.support.counted_store import CountedStore
from tests.support.waiting import wait_until

TIMEOUT_S = 20
LIMIT = 1_000
TEXT = "a large text, " * 100
ORDERS, DLQ = Queue("orders"), Queue("DLQ")
SETTINGS = {"#": AddressSettings(max_delivery_attempts=2, dead_letter_address="DLQ", partitions=1)}


@pytest.fixture
def store() -> CountedStore:
    return CountedStore()


@pytest.fixture
def world() -> str:
    return f"amqp{secrets.token_hex(4)}"


@contextmanager
def serve(world: str, store: CountedStore | None) -> Iterator[Server]:
    bodies = None if store is None else LargeBodies(store, LIMIT)
    settings = ServerSettings([Listener(port=0)], large_bodies=bodies, drain_s=0.0)
    installation = Installation(world, {}, None, SidecarConfig(address_settings=SETTINGS))
    with Server(settings, lambda: in_memory.connect(installation)) as made:
        yield made


@pytest.fixture
def server(world: str, store: CountedStore) -> Iterator[Server]:
    with serve(world, store) as made:
        yield made


@pytest.fixture
def client(server: Server) -> Iterator[Any]:
    connection = BlockingConnection(f"127.0.0.1:{server.ports[0]}", timeout=TIMEOUT_S)
    yield connection
    connection.close()


def beside(world: str, store: CountedStore) -> ConnectionFactory:
    """A program without AMQP."""
    return ConnectionFactory(f"memory://{world}", large_bodies=store, large_body_bytes=LIMIT, address_settings=SETTINGS)


@pytest.mark.parametrize("is_transacted", [False, True])
def test_what_a_client_sends_is_kept_and_read_on_either_side(
    server: Server, world: str, store: CountedStore, is_transacted: bool
) -> None:
    """BODY-1, BODY-2: in its order, in transactions too."""
    mode = AcknowledgeMode.TRANSACTED if is_transacted else AcknowledgeMode.AUTO
    with ConnectionFactory(f"amqp://127.0.0.1:{server.ports[0]}").create_context(mode) as jms:
        producer = jms.create_producer()
        for body in ("before", TEXT, "after"):
            producer.send(ORDERS, body, unit_of_order="joe")
        if is_transacted:
            jms.commit()
        assert [len(each) for each in store.bodies.values()] == [len(TEXT)]
        assert [each.body for each in jms.create_browser(ORDERS, include="all")] == ["before", TEXT, "after"]
        with jms.create_consumer(ORDERS) as consumer:
            first = consumer.receive(TIMEOUT_S)
            assert first is not None
            assert first.body == "before"
            if is_transacted:
                jms.commit()
    with beside(world, store).create_context() as jms, jms.create_consumer(ORDERS) as consumer:
        assert [consumer.receive_body(str, TIMEOUT_S) for _ in range(2)] == [TEXT, "after"]


def test_what_is_kept_by_others_a_client_gets_whole(client: Any, world: str, store: CountedStore) -> None:
    """BODY-2: with its properties, and nothing of the reference."""
    with beside(world, store).create_context() as jms:
        jms.create_producer().send(ORDERS, TEXT, properties={"n": 7})
        receiver = client.create_receiver("orders", credit=1)
        got = receiver.receive(TIMEOUT_S)
        receiver.accept()
    assert (got.body, got.properties) == (TEXT, {"n": 7})


def reasons(jms: Context) -> list[str]:
    """Why letters are letters."""
    return [str(each.properties["_JBM_LAST_ERROR"]) for each in jms.create_browser(DLQ)]


def test_a_message_without_its_body_is_a_failed_attempt_and_others_come(
    client: Any, world: str, store: CountedStore
) -> None:
    """BODY-3: it becomes a dead letter with the reason, and the link goes on."""
    with beside(world, store).create_context() as jms:
        jms.create_producer().send(ORDERS, TEXT, unit_of_order="joe")
        jms.create_producer().send(ORDERS, "after it", unit_of_order="joe")
        store.bodies.clear()
        receiver = client.create_receiver("orders", credit=1)
        assert receiver.receive(TIMEOUT_S).body == "after it"
        receiver.accept()
        wait_until(lambda: bool(reasons(jms)), about="a dead letter", timeout_s=TIMEOUT_S)
        assert "is not in" in reasons(jms)[0]


def test_a_browser_shows_why_there_is_no_body_and_all_others(server: Server, world: str, store: CountedStore) -> None:
    """BODY-3: one body that is gone hides no other message."""
    with (
        beside(world, store).create_context() as jms,
        ConnectionFactory(f"amqp://127.0.0.1:{server.ports[0]}").create_context() as over_amqp,
    ):
        jms.create_producer().send(ORDERS, TEXT)
        jms.create_producer().send(ORDERS, "after it")
        store.bodies.clear()
        gone, after = over_amqp.create_browser(ORDERS)
        assert (gone.body, after.body) == (b"", "after it")
        assert "is not in" in str(gone.properties["_JBM_DECODE_ERROR"])


def test_a_body_that_is_not_kept_is_refused_and_what_follows_is_sent(
    client: Any, world: str, store: CountedStore
) -> None:
    """BODY-6: its sender hears the store's error."""
    sender = client.create_sender("orders")
    store.is_down = True
    with pytest.raises(SendException) as raised:
        sender.send(Message(body=TEXT))
    assert raised.value.state == Delivery.REJECTED
    sender.send(Message(body="small"))
    with beside(world, store).create_context() as jms:
        assert [each.body for each in jms.create_browser(ORDERS)] == ["small"]


def test_a_python_client_hears_the_reason(server: Server, store: CountedStore) -> None:
    """BODY-6: as an error of its send."""
    store.is_down = True
    over_amqp = ConnectionFactory(f"amqp://127.0.0.1:{server.ports[0]}")
    with over_amqp.create_context() as jms, pytest.raises(JMSError, match="no route to the store"):
        jms.create_producer().send(ORDERS, TEXT)


def test_a_sidecar_without_the_store_gives_no_empty_bodies(world: str, store: CountedStore) -> None:
    """BODY-3: what it cannot fetch are failed attempts; the reason names the setting."""
    with serve(world, None) as server, beside(world, store).create_context() as jms:
        jms.create_producer().send(ORDERS, TEXT)
        connection = BlockingConnection(f"127.0.0.1:{server.ports[0]}", timeout=TIMEOUT_S)
        connection.create_receiver("orders", credit=1)
        wait_until(lambda: bool(reasons(jms)), about="a dead letter", timeout_s=TIMEOUT_S)
        assert "large_bodies" in reasons(jms)[0]
        connection.close()
