"""Outbox and inbox in PostgreSQL: what transactions that run at once do to each other. Kafka's side is in memory."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from psycopg.rows import dict_row
from sqlalchemy import Engine, create_engine, event, text
from sqlalchemy.exc import SQLAlchemyError

from jbm_kafka import Queue, XAConnectionFactory
from jbm_kafka.errors import IllegalStateError
from jbm_kafka.outbox import Inbox, Outbox, Relay
from jbm_kafka.testing.memory_world import MemoryWorld
from tests.support.postgres import PostgresServer, postgres_server
from tests.support.waiting import wait_until

UNITS = 10
EACH = 20


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


@pytest.fixture
def engine(postgres: PostgresServer, outbox: Outbox) -> Iterator[Engine]:
    engine = engine_of(postgres)
    outbox.metadata.drop_all(engine)
    outbox.create_all(engine)
    yield engine
    engine.dispose()


def engine_of(postgres: PostgresServer) -> Engine:
    return create_engine(postgres.url.replace("postgresql://", "postgresql+psycopg://"))


def bodies(world: MemoryWorld) -> list[str]:
    return [str(message.body) for message in world.sent("orders")]


def is_somebody_waiting_for_a_lock(postgres: PostgresServer) -> bool:
    with postgres.connect(autocommit=True) as looking:
        row = looking.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchone()
        return row != (0,)


@pytest.mark.parametrize("exactly_once", [False, True])
def test_two_relays_and_many_writers_lose_and_repeat_nothing(
    postgres: PostgresServer, engine: Engine, outbox: Outbox, world: MemoryWorld, exactly_once: bool
) -> None:
    """OUTBOX-2: ten units in order, each message once, and both relays have worked."""
    another = engine_of(postgres)
    go = threading.Barrier(UNITS + 1)

    def write(unit: int) -> None:
        go.wait(20)
        for number in range(EACH):
            with engine.begin() as connection:
                outbox.add(connection, "orders", f"{unit} {number}", unit_of_order=f"unit {unit}")

    relays = [
        Relay(each, XAConnectionFactory(world.url), outbox, batch=5, poll_ms=1, exactly_once=exactly_once)
        for each in (engine, another)
    ]
    with ThreadPoolExecutor(UNITS) as threads, relays[0], relays[1]:
        writers = [threads.submit(write, unit) for unit in range(UNITS)]
        go.wait(20)
        for writer in writers:
            writer.result()
        total = UNITS * EACH
        wait_until(lambda: sum(relay.sent_count for relay in relays) >= total, about="all is sent", timeout_s=60)
    another.dispose()
    found = bodies(world)
    assert len(found) == total
    for unit in range(UNITS):
        assert [each for each in found if each.startswith(f"{unit} ")] == [f"{unit} {n}" for n in range(EACH)]
    assert all(relay.sent_count for relay in relays)


def test_a_writer_of_a_unit_waits_for_the_one_before_so_that_the_order_is_that_of_the_commits(
    postgres: PostgresServer, engine: Engine, outbox: Outbox, world: MemoryWorld
) -> None:
    """OUTBOX-2: a sequence alone would let the second commit first, and the relay send it first."""

    def second() -> None:
        with engine.begin() as connection:
            outbox.add(connection, "orders", "2", unit_of_order="joe")

    with Relay(engine, world.factory(), outbox, poll_ms=1) as relay, ThreadPoolExecutor(1) as threads:
        with engine.begin() as connection:
            outbox.add(connection, "orders", "1", unit_of_order="joe")
            waits = threads.submit(second)
            wait_until(lambda: is_somebody_waiting_for_a_lock(postgres), about="the second waits", timeout_s=20)
            with engine.begin() as other:
                outbox.add(other, "orders", "0", unit_of_order="jim")  # of another unit nobody waits
        waits.result(20)
        wait_until(lambda: relay.sent_count == 3, about="all is sent", timeout_s=20)
    assert [body for body in bodies(world) if body != "0"] == ["1", "2"]


def test_with_the_order_of_the_sequence_nobody_waits_and_the_order_may_be_another(
    engine: Engine, world: MemoryWorld
) -> None:
    """The limit that the page names."""
    outbox = Outbox(order="sequence")
    relay = Relay(engine, world.factory(), outbox)
    with engine.begin() as connection:
        outbox.add(connection, "orders", "1", unit_of_order="joe")
        with engine.begin() as other:
            outbox.add(other, "orders", "2", unit_of_order="joe")
        assert relay.send_waiting() == 1
    assert relay.send_waiting() == 1
    relay.stop()
    assert bodies(world) == ["2", "1"]


def test_a_plain_connection_of_psycopg_has_it_in_its_transaction(
    postgres: PostgresServer, engine: Engine, outbox: Outbox
) -> None:
    """OUTBOX-1"""
    with psycopg.connect(postgres.url, row_factory=dict_row) as connection:
        outbox.add(connection, "orders", b"\x00", unit_of_order="joe")
        connection.rollback()
        outbox.add(connection, "orders", "100 % :sure", unit_of_order="joe")
    with postgres.connect(autocommit=True) as connection:
        with pytest.raises(IllegalStateError, match="autocommit"):
            outbox.add(connection, "orders", "x")
        with connection.transaction():
            outbox.add(connection, "orders", "y")
    with engine.connect() as connection:
        assert [row.unit for row in outbox.rows(connection, state="waiting")] == ["joe", None]


def test_a_table_may_be_in_a_schema(engine: Engine, world: MemoryWorld) -> None:
    outbox = Outbox("Mails", schema="shop")
    with engine.begin() as connection:
        connection.execute(text("CREATE SCHEMA shop"))
    outbox.create_all(engine)
    with engine.begin() as connection:
        outbox.add(connection, "orders", "x", unit_of_order="joe")
    relay = Relay(engine, XAConnectionFactory(world.url), outbox, exactly_once=True)
    assert relay.send_waiting() == 1
    relay.stop()
    assert bodies(world) == ["x"]


def test_who_asks_an_inbox_waits_for_another_that_works_on_the_message(
    postgres: PostgresServer, engine: Engine, world: MemoryWorld
) -> None:
    """OUTBOX-4"""
    inbox = Inbox()
    inbox.create_all(engine)
    with world.factory().create_context() as jms:
        jms.create_producer().send(Queue("orders"), "x")
    [message] = world.sent("orders")

    def ask() -> bool:
        with engine.begin() as connection:
            return inbox.once(connection, message)

    with ThreadPoolExecutor(1) as threads, engine.connect() as connection:
        assert inbox.once(connection, message)
        asked = threads.submit(ask)
        wait_until(lambda: is_somebody_waiting_for_a_lock(postgres), about="the other waits", timeout_s=20)
        connection.rollback()
        assert asked.result(20)
        assert not inbox.once(connection, message)


def test_a_relay_that_loses_its_connection_between_send_and_mark_marks_nothing(
    postgres: PostgresServer, engine: Engine, outbox: Outbox, world: MemoryWorld
) -> None:
    """OUTBOX-3: its claim is gone, and others may have sent since; what it sent is sent again, with the same id."""
    with engine.begin() as connection:
        outbox.add(connection, "orders", "x", unit_of_order="joe")

    def cut(connection: object, cursor: object, statement: str, *others: object) -> None:
        if statement.startswith("UPDATE"):
            event.remove(engine, "before_cursor_execute", cut)
            with postgres.connect(autocommit=True) as operator:
                others_of = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND "
                operator.execute(others_of + "backend_type = 'client backend'")

    event.listen(engine, "before_cursor_execute", cut)
    relay = Relay(engine, world.factory(), outbox)
    with pytest.raises(SQLAlchemyError):
        relay.send_waiting()
    assert relay.send_waiting() == 1
    relay.stop()
    assert bodies(world) == ["x", "x"]
    with world.factory().create_context() as jms:
        consumer = jms.create_consumer(Queue("orders"))
        assert consumer.receive_body(str, timeout=10) == "x"
        world.wait_idle()
        assert consumer.receive_nowait() is None


def test_a_relay_goes_on_when_postgres_was_killed(
    postgres: PostgresServer, engine: Engine, outbox: Outbox, world: MemoryWorld
) -> None:
    """OUTBOX-6"""
    with Relay(engine, world.factory(), outbox, poll_ms=1) as relay:
        wait_until(lambda: relay._connection is not None, about="it runs", timeout_s=20)
        postgres.kill()
        wait_until(lambda: not relay.health(None).is_ready, about="it has noticed", timeout_s=20)
        postgres.start()
        engine.dispose()
        with engine.begin() as connection:
            outbox.add(connection, "orders", "x")
        wait_until(lambda: relay.sent_count == 1, about="it goes on", timeout_s=60)
    assert bodies(world) == ["x"]
