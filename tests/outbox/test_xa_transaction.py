"""A transaction over queues in memory and a database in a file: both or none, whatever fails (ACK-10)."""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from jbm_kafka import Queue, XAConnection, XAConnectionFactory
from jbm_kafka.admin import Admin
from jbm_kafka.errors import IllegalStateError, InvalidSettingError, InvalidTypeError, TransactionRolledBackError
from jbm_kafka.outbox import XaTransaction
from jbm_kafka.outbox.decision_rows import COMMIT, ROLLBACK
from tests.support.waiting import wait_until

ORDERS, INVOICES = Queue("orders"), Queue("invoices")


@pytest.fixture
def connection() -> Iterator[XAConnection]:
    with XAConnectionFactory(f"memory://xa-{secrets.token_hex(4)}").create_xa_connection() as connection:
        connection.start()
        yield connection


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    database = sqlite3.connect(tmp_path / "shop.db")
    database.execute("CREATE TABLE sold (what TEXT UNIQUE)")
    yield database
    database.close()


@pytest.fixture
def xa(connection: XAConnection, database: sqlite3.Connection) -> XaTransaction:
    xa = XaTransaction(connection, database)
    xa.create_table()
    return xa


def send(connection: XAConnection, *bodies: str) -> None:
    with connection.create_session() as session:
        for body in bodies:
            session.create_producer(ORDERS).send(body, unit_of_order="joe")


def work(xa: XaTransaction, database: sqlite3.Connection) -> str:
    """In a block: one message, one row, one message out."""
    with xa.session.create_consumer(ORDERS) as consumer:
        body = consumer.receive_body(str, timeout=10)
    assert body is not None
    database.execute("INSERT INTO sold VALUES (?)", [body])
    xa.session.create_producer(INVOICES).send(f"invoice for {body}")
    return body


def sold(database: sqlite3.Connection) -> list[str]:
    return [str(what) for (what,) in database.execute("SELECT what FROM sold ORDER BY what")]


def invoices(connection: XAConnection, count: int = 0) -> list[object]:
    """So many that must come, and one more if there is one."""
    with connection.create_session() as session, session.create_consumer(INVOICES) as consumer:
        found = [consumer.receive_body(str, timeout=10) for _ in range(count)]
        return [body for body in [*found, consumer.receive_body(str, timeout=0.2)] if body is not None]


def prepared(xa: XaTransaction) -> int:
    return len(xa.session.tpc_recover())


def test_both_happen_again_and_again(connection: XAConnection, database: sqlite3.Connection, xa: XaTransaction) -> None:
    """ACK-10"""
    send(connection, "ash", "fir")
    for _ in range(2):
        with xa:
            work(xa, database)
    assert (sold(database), invoices(connection, 2)) == (["ash", "fir"], ["invoice for ash", "invoice for fir"])
    assert prepared(xa) == 0


def test_an_exception_in_the_block_rolls_both_back(
    connection: XAConnection, database: sqlite3.Connection, xa: XaTransaction
) -> None:
    """ACK-10"""
    send(connection, "ash")

    def fails() -> None:
        with xa:
            work(xa, database)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert (sold(database), invoices(connection), prepared(xa)) == ([], [], 0)
    with xa:
        assert work(xa, database) == "ash"
    assert sold(database) == ["ash"]


def test_a_block_without_messages_commits_the_database_alone(database: sqlite3.Connection, xa: XaTransaction) -> None:
    with xa:
        database.execute("INSERT INTO sold VALUES ('ash')")
    database.rollback()
    assert sold(database) == ["ash"]
    assert database.execute("SELECT count(*) FROM jbm_decisions WHERE gtrid <> ''").fetchone() == (0,)


def test_a_database_that_refuses_the_commit_rolls_both_back(
    connection: XAConnection, database: sqlite3.Connection, xa: XaTransaction
) -> None:
    """ACK-10: the message is free again at once, and not only when somebody recovers."""
    database.execute("CREATE TABLE parent (id INTEGER PRIMARY KEY)")
    database.execute("CREATE TABLE child (of INTEGER REFERENCES parent DEFERRABLE INITIALLY DEFERRED)")
    database.execute("PRAGMA foreign_keys = ON")
    send(connection, "ash")

    def fails_at_its_end() -> None:
        with xa:
            work(xa, database)
            database.execute("INSERT INTO child VALUES (7)")

    with pytest.raises(sqlite3.IntegrityError):
        fails_at_its_end()
    assert (sold(database), prepared(xa)) == ([], 0)
    with xa:
        assert work(xa, database) == "ash"


def test_a_database_that_is_gone_leaves_the_branch_to_a_recovery(
    connection: XAConnection, database: sqlite3.Connection, xa: XaTransaction, tmp_path: Path
) -> None:
    """ACK-10"""
    send(connection, "ash")

    class Gone(sqlite3.Connection):
        def commit(self) -> None:
            self.close()
            raise sqlite3.OperationalError("the database went away")

    there = sqlite3.connect(tmp_path / "shop.db", factory=Gone)
    database.commit()
    other = XaTransaction(connection, there)
    other._identity = xa._known_identity()
    with pytest.raises(sqlite3.OperationalError, match="went away"), other:
        work(other, there)
    with pytest.raises(IllegalStateError, match="make another XaTransaction"):
        other.__enter__()
    other.session.close()
    assert prepared(xa) == 1
    assert xa.recover() == 1
    assert (sold(database), prepared(xa)) == ([], 0)
    with xa:
        assert work(xa, database) == "ash"


@pytest.mark.parametrize("decision", [COMMIT, ROLLBACK])
def test_a_branch_that_was_left_is_ended_as_it_was_decided(
    connection: XAConnection, database: sqlite3.Connection, xa: XaTransaction, decision: str
) -> None:
    """ACK-10: without a decision it is rolled back."""
    send(connection, "ash")
    left = XaTransaction(connection, database)
    left.__enter__()
    work(left, database)
    left.session.tpc_prepare()
    if decision == COMMIT:
        assert left._gtrid is not None
        left._decisions.is_first(left._there(), left._gtrid, COMMIT)
        database.commit()
    else:
        database.rollback()
    left.session.close()  # as a process that died
    assert xa.recover() == 1
    assert xa.recover() == 0
    assert sold(database) == (["ash"] if decision == COMMIT else [])
    assert invoices(connection, decision == COMMIT) == (["invoice for ash"] if decision == COMMIT else [])


def test_a_recovery_that_was_faster_wins(
    connection: XAConnection, database: sqlite3.Connection, xa: XaTransaction
) -> None:
    """ACK-10: the worker that stood still finds its decision, and rolls back too."""
    send(connection, "ash")

    def stands_still() -> None:
        with xa:
            work(xa, database)
            database.commit()  # SQLite has one writer
            assert xa._gtrid is not None
            xa._decisions.is_first(xa._there(), xa._gtrid, ROLLBACK)
            database.commit()

    with pytest.raises(TransactionRolledBackError, match="was rolled back by a recovery"):
        stands_still()
    assert (invoices(connection), prepared(xa)) == ([], 0)


def test_branches_of_other_managers_and_databases_are_left_alone(
    connection: XAConnection, xa: XaTransaction, tmp_path: Path
) -> None:
    """ACK-10: another database does not know what was decided in the first."""
    with sqlite3.connect(tmp_path / "other.db") as elsewhere:
        other = XaTransaction(connection, elsewhere)
        other.create_table()
        send(connection, "ash")
        other.__enter__()
        with other.session.create_consumer(ORDERS) as consumer:
            assert consumer.receive(timeout=10) is not None
        other.session.tpc_prepare()
        assert xa.recover() == 0
        assert prepared(xa) == 1
        other.session.tpc_rollback()
        other.database.rollback()
    elsewhere.close()


def test_the_database_may_be_a_connection_of_sqlalchemy(connection: XAConnection, tmp_path: Path) -> None:
    """ACK-10"""
    engine = create_engine(f"sqlite:///{tmp_path}/shop.db")
    send(connection, "ash")
    with engine.connect() as there:
        there.execute(text("CREATE TABLE sold (what TEXT)"))
        xa = XaTransaction(connection, there)
        xa.create_table()
        with xa, xa.session.create_consumer(ORDERS) as consumer:
            there.execute(text("INSERT INTO sold VALUES (:what)"), {"what": consumer.receive_body(str, timeout=10)})
        there.rollback()
        assert there.scalars(text("SELECT what FROM sold")).all() == ["ash"]
        assert prepared(xa) == 0
    engine.dispose()


def test_old_decisions_are_forgotten_and_the_name_of_the_table_is_kept(
    connection: XAConnection, database: sqlite3.Connection, xa: XaTransaction
) -> None:
    send(connection, "ash")
    with xa:
        work(xa, database)
    identity = xa._known_identity()
    assert xa.forget(3_600_000) == 0
    wait_until(lambda: xa.forget(0) == 1, about="it is older than the clock's step", timeout_s=5)
    again = XaTransaction(connection, database)
    assert again._known_identity() == identity


def test_it_is_refused_where_it_does_not_belong(
    connection: XAConnection, database: sqlite3.Connection, xa: XaTransaction, tmp_path: Path
) -> None:
    with xa:
        with pytest.raises(IllegalStateError, match=r"recover\(\): called in a block"):
            xa.recover()
        with pytest.raises(IllegalStateError, match="has not ended"):
            xa.__enter__()
    with pytest.raises(InvalidTypeError, match="create_xa_connection"):
        XaTransaction(database, database)  # type: ignore[arg-type]
    with pytest.raises(InvalidSettingError, match="table is 'a b'"):
        XaTransaction(connection, database, "a b")
    autocommit = sqlite3.connect(tmp_path / "shop.db", isolation_level=None)
    with pytest.raises(IllegalStateError, match="autocommit"):
        XaTransaction(connection, autocommit)
    autocommit.close()
    with Admin(f"memory://{connection._core.defaults.url.partition('://')[2]}") as admin:
        assert admin.prepared() == []
