"""Relays, in SQLite and a world in memory: order, what cannot be sent, what is away, what was left behind."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from sqlalchemy import Engine, create_engine, event, update
from sqlalchemy.exc import SQLAlchemyError

from jbm_kafka import ConnectionFactory, Queue, Worker, XAConnectionFactory
from jbm_kafka.admin import Admin
from jbm_kafka.errors import IllegalStateError, InvalidTypeError, JMSError
from jbm_kafka.outbox import Outbox, OutboxCollector, OutboxCounts, Relay
from jbm_kafka.outbox.claims import claiming
from jbm_kafka.outbox.outbox_rows import sendable
from jbm_kafka.testing.memory_world import MemoryWorld
from tests.support.manual_clock import ManualClock
from tests.support.waiting import wait_until

Add = Callable[..., None]


@pytest.fixture
def add(engine: Engine, outbox: Outbox) -> Add:
    def add(destination: str, body: str, **options: object) -> None:
        with engine.begin() as connection:
            outbox.add(connection, destination, body, **options)  # type: ignore[arg-type]

    return add


@contextmanager
def relaying(engine: Engine, world: MemoryWorld, outbox: Outbox, **settings: object) -> Iterator[Relay]:
    relay = Relay(engine, world.factory(auto_create=False), outbox, **settings)  # type: ignore[arg-type]
    yield relay
    relay.stop()


def make(world: MemoryWorld, *names: str) -> None:
    with Admin(world.url) as admin:
        for name in names:
            admin.create_queue(Queue(name))


def counts(engine: Engine, outbox: Outbox) -> OutboxCounts:
    with engine.connect() as connection:
        return outbox.counts(connection)


def bodies(world: MemoryWorld, name: str) -> list[object]:
    return [message.body for message in world.sent(name)]


def received(world: MemoryWorld, name: str) -> list[object]:
    """All that its queue delivers."""
    with world.factory().create_context() as jms, jms.create_consumer(Queue(name)) as consumer:
        message, found = consumer.receive(timeout=10), []
        while message is not None:
            found.append(message.body)
            world.wait_idle()
            message = consumer.receive_nowait()
        return found


def test_ten_units_arrive_in_order_once(engine: Engine, outbox: Outbox, world: MemoryWorld, add: Add) -> None:
    """OUTBOX-2, in batches that cut units anywhere."""
    make(world, "orders")
    for number in range(100):
        add("orders", f"{number}", unit_of_order=f"unit {number % 10}")
    with relaying(engine, world, outbox, batch=7) as relay:
        assert relay.send_waiting() == 100
        assert relay.send_waiting() == 0
    assert relay.sent_count == 100
    for unit in range(10):
        of_unit = [body for body in bodies(world, "orders") if int(str(body)) % 10 == unit]
        assert of_unit == [str(number) for number in range(unit, 100, 10)]
    assert len(bodies(world, "orders")) == 100


def test_what_others_have_claimed_is_left_to_them(file_engine: Engine, outbox: Outbox, world: MemoryWorld) -> None:
    """OUTBOX-2"""
    make(world, "orders")
    with file_engine.begin() as connection:
        outbox.add(connection, "orders", "x")
    another = create_engine(file_engine.url)
    with relaying(file_engine, world, outbox) as relay:
        with claiming(another, outbox)(sendable(outbox.table, holds=True, only=None, but=()), 0) as claim:
            assert len(claim.buckets) == 1
            assert relay.send_waiting() == 0
        assert relay.send_waiting() == 1
    another.dispose()


def test_a_batch_that_is_not_marked_is_sent_again_and_delivered_once(
    engine: Engine, outbox: Outbox, world: MemoryWorld, add: Add
) -> None:
    """OUTBOX-3: as after a crash between both commits."""
    make(world, "orders")
    for number in range(3):
        add("orders", str(number), unit_of_order="joe")
    listener = _failing_at("UPDATE")
    with relaying(engine, world, outbox) as relay:
        event.listen(engine, "before_cursor_execute", listener)
        with pytest.raises(SQLAlchemyError, match="went away"):
            relay.send_waiting()
        event.remove(engine, "before_cursor_execute", listener)
        assert relay.send_waiting() == 3
    assert bodies(world, "orders") == ["0", "1", "2", "0", "1", "2"]
    assert received(world, "orders") == ["0", "1", "2"]


def _failing_at(word: str) -> Callable[..., None]:
    def fail(connection: object, cursor: object, statement: str, *others: object) -> None:
        if statement.startswith(word):
            raise SQLAlchemyError("the database went away")

    return fail


def test_with_exactly_once_nothing_is_sent_again(engine: Engine, outbox: Outbox, world: MemoryWorld, add: Add) -> None:
    """OUTBOX-3: without the help of duplicate ids."""
    make(world, "orders")
    for number in range(3):
        add("orders", str(number), unit_of_order="joe")
    factory = XAConnectionFactory(world.url)
    relay = Relay(engine, factory, outbox, exactly_once=True)
    listener = _failing_at("UPDATE jbm_outbox SET state")
    event.listen(engine, "before_cursor_execute", listener)
    with pytest.raises(SQLAlchemyError, match="went away"):
        relay.send_waiting()
    event.remove(engine, "before_cursor_execute", listener)
    assert relay.send_waiting() == 3
    relay.stop()
    assert bodies(world, "orders") == ["0", "1", "2"]
    with Admin(world.url) as admin:
        assert admin.prepared() == []


def test_a_branch_that_was_decided_and_left_is_committed_before_what_follows(
    engine: Engine, outbox: Outbox, world: MemoryWorld, add: Add
) -> None:
    """OUTBOX-3: its relay lost the database behind that; and a relay without branches leaves its units."""
    make(world, "orders")
    add("orders", "0", unit_of_order="joe")
    listener = _failing_at("UPDATE jbm_outbox SET branch")
    relay = Relay(engine, XAConnectionFactory(world.url), outbox, exactly_once=True)
    event.listen(engine, "before_cursor_execute", listener)
    with pytest.raises(SQLAlchemyError, match="went away"):
        relay.send_waiting()
    event.remove(engine, "before_cursor_execute", listener)
    add("orders", "1", unit_of_order="joe")
    with relaying(engine, world, outbox) as plain:
        assert plain.send_waiting() == 0
        plain.start()
        assert plain.health(None).reasons == ("1 buckets wait for a relay with exactly_once",)
    assert relay.send_waiting() == 1
    relay.stop()
    assert bodies(world, "orders") == ["0", "1"]


def test_what_cannot_be_sent_is_set_aside_and_holds_its_unit(
    engine: Engine, outbox: Outbox, world: MemoryWorld, add: Add
) -> None:
    """OUTBOX-5"""
    make(world, "orders")
    add("gone", "1", unit_of_order="joe")
    add("gone", "2", unit_of_order="joe")
    add("orders", "3", unit_of_order="joe")
    with relaying(engine, world, outbox) as relay:
        assert relay.send_waiting() == 1
        with engine.begin() as connection:
            [failed] = outbox.rows(connection)
            assert (failed.state, failed.attempts, failed.destination) == ("failed", 1, "queue:gone")
            assert failed.reason is not None
            assert "gone" in failed.reason
            assert outbox.counts(connection).waiting == 1
        make(world, "gone")
        assert relay.send_waiting() == 0
        with engine.begin() as connection:
            assert outbox.retry(connection, [failed.id]) == 1
        assert relay.send_waiting() == 2
    assert bodies(world, "gone") == ["1", "2"]
    assert bodies(world, "orders") == ["3"]


def test_what_is_too_large_for_its_queue_is_set_aside_and_the_rest_goes(
    engine: Engine, world: MemoryWorld, add: Add
) -> None:
    """OUTBOX-5"""
    make(world, "orders")
    outbox = Outbox(max_message_bytes=8_000_000)
    with engine.begin() as connection:
        outbox.add(connection, "orders", os.urandom(2_000_000), unit_of_order="joe")
    add("orders", "2", unit_of_order="jim")
    with relaying(engine, world, outbox) as relay:
        assert relay.send_waiting() == 1
    with engine.connect() as connection:
        [failed] = outbox.rows(connection)
    assert "max.message.bytes" in str(failed.reason)
    assert bodies(world, "orders") == ["2"]


def test_what_is_dropped_lets_its_unit_go_on(engine: Engine, outbox: Outbox, world: MemoryWorld, add: Add) -> None:
    """OUTBOX-5"""
    make(world, "orders")
    add("orders", "1", unit_of_order="joe")
    add("orders", "2", unit_of_order="joe")
    add("orders", "3", unit_of_order="jim")
    with engine.begin() as connection:
        connection.execute(update(outbox.table).where(outbox.table.c.id == 1).values(headers="no JSON"))
    with relaying(engine, world, outbox) as relay:
        assert relay.send_waiting() == 1
        with engine.begin() as connection:
            assert outbox.drop(connection) == 1
        assert relay.send_waiting() == 1
    assert bodies(world, "orders") == ["3", "2"]
    assert counts(engine, outbox).failed == 0


def test_with_go_on_a_unit_is_not_held(engine: Engine, world: MemoryWorld, add: Add) -> None:
    """OUTBOX-5"""
    make(world, "orders")
    add("orders", "1", unit_of_order="joe")
    add("orders", "2", unit_of_order="joe")
    outbox = Outbox(on_failed="go-on")
    with engine.begin() as connection:
        connection.execute(update(outbox.table).where(outbox.table.c.id == 1).values(headers="no JSON"))
    with relaying(engine, world, outbox) as relay:
        assert relay.send_waiting() == 1
    assert bodies(world, "orders") == ["2"]


def test_a_paused_queue_does_not_stop_the_others(engine: Engine, outbox: Outbox, world: MemoryWorld, add: Add) -> None:
    """OUTBOX-5: what waits for an operator is no failure of the message."""
    make(world, "orders", "paused")
    clock = ManualClock(world.clock.now_ms())
    with Admin(world.url) as admin, relaying(engine, world, outbox, clock=clock) as relay:
        admin.pause(Queue("paused"), "sending")
        add("paused", "1")
        add("orders", "2")
        assert relay.send_waiting() == 1
        assert bodies(world, "orders") == ["2"]
        assert counts(engine, outbox).failed == 0
        admin.resume(Queue("paused"), "sending")
        assert relay.send_waiting() == 0
        clock.advance(500)
        assert relay.send_waiting() == 1
        assert relay._waits.names == []
    assert bodies(world, "paused") == ["1"]


def test_a_relay_runs_in_a_thread_and_goes_on_when_the_database_was_away(
    file_engine: Engine, outbox: Outbox, world: MemoryWorld
) -> None:
    """OUTBOX-6"""
    make(world, "orders")
    listener = _failing_at("WITH")
    relay = Relay(file_engine, world.factory(), outbox, poll_ms=10)
    assert relay.health(None).reasons == ("the relay does not run",)
    event.listen(file_engine, "before_cursor_execute", listener)
    with relay:
        wait_until(lambda: bool(relay.health(None).reasons), about="it has noticed", timeout_s=20)
        health = relay.health(None)
        assert (health.is_alive, health.is_ready, health.reasons) == (True, False, ("the database went away",))
        event.remove(file_engine, "before_cursor_execute", listener)
        with file_engine.begin() as connection:
            outbox.add(connection, "orders", "x")
        wait_until(lambda: relay.sent_count == 1, about="it goes on", timeout_s=20)
        wait_until(lambda: relay.health(None).is_ready, about="and says so", timeout_s=20)
        with pytest.raises(IllegalStateError, match="runs already"):
            relay.start()
    assert not relay.health(None).is_alive
    assert relay._connection is None


def test_a_relay_goes_on_when_kafka_was_away(file_engine: Engine, outbox: Outbox) -> None:
    """OUTBOX-6"""
    with Relay(file_engine, ConnectionFactory("127.0.0.1:1"), outbox, poll_ms=10) as relay:
        wait_until(
            lambda: not relay.health(None).is_ready and bool(relay.health(None).reasons),
            about="it noticed",
            timeout_s=20,
        )
        assert "127.0.0.1:1" in relay.health(None).reasons[0]
    with pytest.raises(JMSError, match=r"127\.0\.0\.1:1"):
        relay.send_waiting()
    relay.stop()


def test_a_worker_has_a_relay_around_it(file_engine: Engine, outbox: Outbox, world: MemoryWorld) -> None:
    worker = Worker(world.factory())
    came = threading.Event()

    @worker.lifespan
    def relayed() -> Iterator[None]:
        with Relay(file_engine, world.factory(), outbox, poll_ms=10):
            yield

    @worker.handler("orders")
    def work(body: str) -> None:
        came.set()

    world.start(worker)
    with file_engine.begin() as connection:
        outbox.add(connection, "orders", "x")
    assert came.wait(20)


def test_rows_that_were_sent_are_deleted_by_their_age(
    engine: Engine, outbox: Outbox, world: MemoryWorld, add: Add
) -> None:
    """OUTBOX-7"""
    make(world, "orders")
    add("orders", "x")
    with relaying(engine, world, outbox) as relay:
        relay.send_waiting()
        assert counts(engine, outbox).sent == 1
    with engine.begin() as connection:
        assert outbox.clean_up(connection, 3_600_000) == 0
    with relaying(engine, world, outbox, keep_sent_ms=0) as relay:
        relay.send_waiting()
    assert counts(engine, outbox) == OutboxCounts(waiting=0, failed=0, sent=0, oldest_waiting_ms=0)


def test_a_batch_is_bounded_by_bytes(engine: Engine, outbox: Outbox, world: MemoryWorld, add: Add) -> None:
    make(world, "orders")
    for _ in range(6):
        add("orders", "x" * 1_000_000, unit_of_order="joe")
    with relaying(engine, world, outbox) as relay:
        assert relay._turn() == 4
        assert relay._turn() == 2


def test_the_metrics_tell_what_waits(engine: Engine, outbox: Outbox, world: MemoryWorld, add: Add) -> None:
    """OUTBOX-6"""
    make(world, "orders")
    registry = CollectorRegistry()
    with relaying(engine, world, outbox) as relay:
        registry.register(OutboxCollector(engine, outbox, relay))
        add("orders", "x")
        add("gone", "x")
        relay.send_waiting()
        add("orders", "y")

        def value(name: str) -> float | None:
            return registry.get_sample_value(f"jbm_outbox_{name}", {"table": "jbm_outbox"})

        assert [value(name) for name in ("waiting", "failed", "sent_total")] == [1, 1, 1]
        assert value("oldest_waiting_seconds") is not None
        outbox.table.drop(engine)
        assert [value(name) for name in ("waiting", "sent_total")] == [None, 1]


def test_arguments_that_cannot_be_are_refused(engine: Engine, world: MemoryWorld, tmp_path: Path) -> None:
    for make_one, text in (
        (lambda: Relay(str(tmp_path), world.factory()), "engine is"),  # type: ignore[arg-type]
        (lambda: Relay(engine, world.url), "factory is"),  # type: ignore[arg-type]
        (lambda: Relay(engine, world.factory(), exactly_once=True), "XAConnectionFactory"),
    ):
        with pytest.raises(InvalidTypeError, match=text):
            make_one()  # type: ignore[no-untyped-call]
