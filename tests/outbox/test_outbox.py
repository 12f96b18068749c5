"""What is added to an outbox: in the caller's transaction, checked as a send checks it (OUTBOX-1)."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import Engine, MetaData, create_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from jbm_kafka import NO_UNIT, SYSTEM_GENERATED, MapMessage, ObjectMessage, Queue, StreamMessage, Topic
from jbm_kafka.errors import (
    IllegalStateError,
    InvalidDestinationError,
    InvalidSettingError,
    InvalidTypeError,
    JMSError,
    MessageFormatError,
    MessageTooLargeError,
    OrderError,
)
from jbm_kafka.outbox import Inbox, Outbox, OutboxRow, Relay
from jbm_kafka.testing.memory_world import MemoryWorld


def waiting(engine: Engine, outbox: Outbox) -> list[OutboxRow]:
    with engine.connect() as connection:
        return outbox.rows(connection, state="waiting")


def test_what_is_added_commits_and_rolls_back_with_its_transaction(engine: Engine, outbox: Outbox) -> None:
    """OUTBOX-1"""
    with engine.connect() as connection:
        outbox.add(connection, "orders", "gone")
        connection.rollback()
        number = outbox.add(connection, "orders", "2 books", unit_of_order="joe")
        connection.commit()
    [row] = waiting(engine, outbox)
    assert (row.id, row.destination, row.unit, row.attempts) == (number, "queue:orders", "joe", 0)


def test_a_session_of_sqlalchemy_has_it_in_its_transaction(engine: Engine, outbox: Outbox) -> None:
    """OUTBOX-1"""
    with Session(engine) as session, session.begin():
        outbox.add(session, Queue("orders"), "of a session")
    registry = scoped_session(sessionmaker(engine))
    outbox.add(registry, "topic:prices", "of a scoped one")
    registry.rollback()
    registry.remove()
    assert [row.destination for row in waiting(engine, outbox)] == ["queue:orders"]


def test_a_plain_connection_of_sqlite3_has_it_in_its_transaction(file_engine: Engine, outbox: Outbox) -> None:
    """OUTBOX-1"""
    assert file_engine.url.database is not None
    with sqlite3.connect(file_engine.url.database) as plain:
        plain.row_factory = sqlite3.Row
        outbox.add(plain, "orders", "kept")
    outbox.add(plain, "orders", "gone")
    plain.rollback()
    plain.close()
    assert len(waiting(file_engine, outbox)) == 1


def test_a_connection_in_autocommit_is_refused(engine: Engine, file_engine: Engine, outbox: Outbox) -> None:
    """OUTBOX-1: there is no transaction that it could be in."""
    with (
        engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection,
        pytest.raises(IllegalStateError, match="autocommit"),
    ):
        outbox.add(connection, "orders", "x")
    plain = sqlite3.connect(str(file_engine.url.database), isolation_level=None)
    with pytest.raises(IllegalStateError, match=r"outbox.add\(\): the connection is in autocommit"):
        outbox.add(plain, "orders", "x")
    plain.execute("BEGIN")
    outbox.add(plain, "orders", "x")
    plain.execute("COMMIT")
    plain.close()
    assert len(waiting(file_engine, outbox)) == 1


def test_what_is_no_connection_is_refused(outbox: Outbox) -> None:
    with pytest.raises(InvalidTypeError, match=r"connection is 'shop.db': it is a Connection or Session of SQLAlchemy"):
        outbox.add("shop.db", "orders", "x")
    assert psycopg.__version__, "known to the process, and yet it is none"


WRONG: list[tuple[Callable[[Outbox, object], object], type[JMSError], str]] = [
    (lambda outbox, there: outbox.add(there, "or ders", "x"), InvalidDestinationError, "or ders"),
    (lambda outbox, there: outbox.add(there, "orders"), MessageFormatError, "there is no message"),
    (lambda outbox, there: outbox.add(there, "orders", 7), MessageFormatError, "message is 7"),  # type: ignore[arg-type]
    (lambda outbox, there: outbox.add(there, "orders", "x", json={}), MessageFormatError, "give one of them"),
    (lambda outbox, there: outbox.add(there, "orders", json=float("nan")), MessageFormatError, "nan"),
    (lambda outbox, there: outbox.add(there, "orders", {"a": object()}), MessageFormatError, "object"),
    (lambda outbox, there: outbox.add(there, "orders", "x", properties={"a b": 1}), MessageFormatError, "a b"),
    (lambda outbox, there: outbox.add(there, "orders", "x", headers={"JMSType": b"t"}), MessageFormatError, "JMSType"),
    (lambda outbox, there: outbox.add(there, "orders", "\ud800"), MessageFormatError, "UTF-8"),
    (lambda outbox, there: outbox.add(there, "orders", "x", priority=10), InvalidSettingError, "priority is 10"),
    (lambda outbox, there: outbox.add(there, "orders", "x", time_to_live_ms=-1), InvalidSettingError, "time_to_live"),
    (lambda outbox, there: outbox.add(there, "orders", "x", delivery_delay_ms=-1), InvalidSettingError, "delivery_del"),
    (lambda outbox, there: outbox.add(there, "orders", "x", unit_of_order=""), OrderError, "unit_of_order is ''"),
    (lambda outbox, there: outbox.add(there, "orders", "x", unit_of_order=SYSTEM_GENERATED), OrderError, "SYSTEM_GEN"),
    (lambda outbox, there: outbox.add(there, "orders", "x", duplicate_id=""), MessageFormatError, "duplicate_id is ''"),
    (lambda outbox, there: outbox.add(there, "orders", "x" * 1_100_000), MessageTooLargeError, "max_message_bytes"),
]


@pytest.mark.parametrize(("add", "kind", "text"), WRONG, ids=[text for *_, text in WRONG])
def test_what_no_send_would_take_is_refused_in_the_callers_transaction(
    engine: Engine, outbox: Outbox, add: Callable[[Outbox, object], object], kind: type[JMSError], text: str
) -> None:
    """OUTBOX-1: so it never stops a relay."""
    with engine.begin() as connection, pytest.raises(kind, match=text):
        add(outbox, connection)
    assert waiting(engine, outbox) == []


def test_settings_that_cannot_be_are_refused() -> None:
    for make, text in (
        (lambda: Outbox("out box"), "name is 'out box'"),
        (lambda: Outbox(schema="1"), "schema is '1'"),
        (lambda: Outbox(order="id"), "order is 'id'"),  # type: ignore[arg-type]
        (lambda: Outbox(on_failed="stop"), "on_failed is 'stop'"),  # type: ignore[arg-type]
        (lambda: Outbox(max_message_bytes=0), "max_message_bytes is 0"),
    ):
        with pytest.raises(InvalidSettingError, match=text):
            make()  # type: ignore[no-untyped-call]


def test_every_kind_of_body_and_header_arrives_as_if_it_had_been_sent_directly(
    engine: Engine, outbox: Outbox, world: MemoryWorld
) -> None:
    """OUTBOX-1: whatever a producer takes."""
    bodies: list[Any] = ["a text", b"\x00\xff", {"qty": 3, "raw": b"\x01"}]
    bodies += [ObjectMessage({"a": [1, None]}), StreamMessage(["x", 2])]
    options: dict[str, Any] = {"correlation_id": "c-1", "type": "order", "reply_to": Queue("replies")}
    options |= {"properties": {"region": "EU", "JMSXGroupID": "joe"}, "headers": {"traceparent": b"00-\xff"}}
    with engine.begin() as connection, world.factory().create_context() as jms:
        producer = jms.create_producer()
        for body in bodies:
            outbox.add(connection, "added", body, **options)
            producer.send(Queue("sent"), body, **options)
        outbox.add(connection, "added", json={"qty": 1}, unit_of_order="joe", priority=9)
        producer.send(Queue("sent"), json={"qty": 1}, unit_of_order="joe", priority=9)
    relay = Relay(engine, world.factory(), outbox)
    assert relay.send_waiting() == len(bodies) + 1
    relay.stop()
    with world.factory().create_context() as jms:
        seen: list[list[object]] = []
        for name in ("added", "sent"):
            consumer = jms.create_consumer(Queue(name))
            seen.append([])
            for _ in range(len(bodies) + 1):
                message = consumer.receive(timeout=5)
                assert message is not None
                assert message.kafka is not None
                own = ("JMSMessageID", "JBMDuplicateID")
                headers = sorted((n, v) for n, v in message.kafka.headers if n not in own)
                seen[-1].append((type(message), message.body, dict(message.properties), message.unit_of_order, headers))
                assert (message.reply_to, message.correlation_id) in ((Queue("replies"), "c-1"), (None, None))
        assert seen[0] == seen[1]


def test_a_received_message_is_passed_on_with_all_that_it_has(
    engine: Engine, outbox: Outbox, world: MemoryWorld
) -> None:
    with world.factory().create_context() as jms, engine.begin() as connection:
        jms.create_producer().send(Queue("in"), MapMessage({"a": 1}), properties={"b": True}, unit_of_order="joe")
        message = jms.create_consumer(Queue("in")).receive(timeout=5)
        assert message is not None
        outbox.add(connection, Queue("out"), message)
    relay = Relay(engine, world.factory(), outbox)
    relay.send_waiting()
    relay.stop()
    [sent] = world.sent("out")
    assert (sent.body, dict(sent.properties)["b"], sent.unit_of_order) == ({"a": 1}, True, "joe")


def test_delay_and_time_to_live_are_counted_from_when_it_was_added(
    engine: Engine, outbox: Outbox, world: MemoryWorld
) -> None:
    """OUTBOX-1"""
    with engine.begin() as connection:
        outbox.add(connection, "orders", "later", delivery_delay_ms=3_600_000)
        outbox.add(connection, "orders", "expires", time_to_live_ms=3_600_000)
    world.clock.advance(1_800_000)  # the relay was away for half an hour
    relay = Relay(engine, world.factory(), outbox, clock=world.clock)
    assert relay.send_waiting() == 2
    relay.stop()
    by_body = {message.body: message for message in world.sent("orders")}
    now_ms = world.clock.now_ms()
    assert 1_700_000 < by_body["later"].delivery_time - now_ms < 1_900_000
    assert 1_700_000 < by_body["expires"].expiration - now_ms < 1_900_000


def test_no_unit_and_none_differ_where_the_queue_has_a_default(
    engine: Engine, outbox: Outbox, world: MemoryWorld
) -> None:
    with engine.begin() as connection:
        outbox.add(connection, Topic("prices"), "a")
        outbox.add(connection, Topic("prices"), "b", unit_of_order=NO_UNIT)
    relay = Relay(engine, world.factory(default_unit_of_order="default"), outbox)
    relay.send_waiting()
    relay.stop()
    assert {message.body: message.unit_of_order for message in world.sent(Topic("prices"))} == {
        "a": "default",
        "b": None,
    }


def test_a_metadata_that_was_given_gets_the_tables_for_alembic() -> None:
    metadata = MetaData()
    Outbox("mail_outbox", metadata=metadata)
    assert set(metadata.tables) == {"mail_outbox", "mail_outbox_branches"}


def test_other_databases_are_refused_in_one_line(world: MemoryWorld, tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path}/x.db")
    engine.dialect.name = "mysql"
    with pytest.raises(InvalidTypeError, match="the database is 'mysql': an outbox and an inbox are in PostgreSQL"):
        Relay(engine, world.factory())


def test_without_its_table_the_error_names_the_command_that_makes_it(tmp_path: Path) -> None:
    """It was the driver's own, as OperationalError."""
    other, inbox = Outbox("elsewhere"), Inbox("seen_elsewhere")
    says = "outbox.add(): the database has no table elsewhere: `jbm-kafka outbox create` makes it, or create_all"
    with sqlite3.connect(tmp_path / "shop.db") as plain, pytest.raises(IllegalStateError, match=re.escape(says)):
        other.add(plain, "orders", "2 books")
    plain.close()
    engine = create_engine(f"sqlite:///{tmp_path}/shop.db")
    with MemoryWorld() as world, world.factory().create_context() as jms, engine.connect() as connection:
        with pytest.raises(IllegalStateError, match=re.escape(says)):
            other.add(connection, "orders", "2 books")
        jms.create_producer().send(Queue("orders"), "a")
        message = jms.create_consumer(Queue("orders")).receive(10.0)
        assert message is not None
        with pytest.raises(IllegalStateError, match="has no table seen_elsewhere: create_all makes it"):
            inbox.once(connection, message)
    engine.dispose()
