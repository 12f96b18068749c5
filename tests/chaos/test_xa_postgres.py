"""Goal: one row and one message out for each message in, whoever dies between Kafka and PostgreSQL (ACK-10).

Method: a process works through a queue in branches that a small transaction manager ends, and kills itself in one of
the gaps; then another recovers and does the rest. Or PostgreSQL or the broker is killed where the branch is prepared.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from jbm_kafka import ConnectionFactory, Queue, XAConnectionFactory, XASession
from jbm_kafka.devbroker import LocalBroker
from jbm_kafka.errors import TransactionInDoubtError
from tests.support.postgres import PostgresServer, postgres_server
from tests.support.transaction_managers import LastResource, Manager, TwoPhase

pytestmark = pytest.mark.timeout(600)  # with the start of both servers: minutes where images are built beside it

WAIT_S = 60.0
"""Longer than a killed process stays a member of its group, on a machine that many share."""
WORK_S = 200.0
INPUTS = ["a", "b", "c"]
GAPS = ["before the prepare", "after the prepare", "after the decision", "at the end"]
Gap = Callable[[str], None]


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


@pytest.fixture(autouse=True)
def empty_database(postgres: PostgresServer) -> None:
    with postgres.connect(autocommit=True) as database:
        for table in ("rows", "decisions"):
            database.execute(f"DROP TABLE IF EXISTS {table}")
        database.execute("CREATE TABLE rows (body text)")
        database.execute(LastResource.TABLE)


def manager_of(
    kind: str, database: psycopg.Connection[tuple[object, ...]], session: XASession, decisions: Path
) -> Manager:
    if kind == "last resource":
        return LastResource(database, session)
    return TwoPhase({"database": database, "messages": session}, decisions)


def work(
    session: XASession,
    database: psycopg.Connection[tuple[object, ...]],
    manager: Manager,
    name: str,
    at: Gap,
    later_s: float = 5,
) -> int:
    """Each message that is there becomes a row and a message; how many."""
    consumer, producer = session.create_consumer(Queue(name)), session.create_producer(Queue(f"{name}.out"))
    for done in range(100):
        manager.begin(f"{name}-{os.getpid()}-{done}")
        message = consumer.receive(timeout=later_s if done else WAIT_S)
        if message is None:
            manager.give_up()
            return done
        database.execute("INSERT INTO rows VALUES (%s)", (message.body,))
        producer.send(str(message.body), unit_of_order="u")
        for gap, step in zip(GAPS, (manager.prepare, manager.decide, manager.finish), strict=False):
            at(gap)
            step()
        at(GAPS[-1])
    raise AssertionError("there is no end of messages")


def _work_until_killed(bootstrap: str, url: str, name: str, kind: str, decisions: Path, dies_at: str) -> None:
    def at(gap: str) -> None:
        if gap == dies_at:
            os.kill(os.getpid(), signal.SIGKILL)

    with psycopg.connect(url) as database, XAConnectionFactory(bootstrap).create_xa_connection() as connection:
        session = connection.create_xa_session()
        work(session, database, manager_of(kind, database, session, decisions), name, at)


def send_inputs(bootstrap: str, name: str) -> None:
    with ConnectionFactory(bootstrap).create_context() as jms:
        for body in INPUTS:
            jms.create_producer().send(Queue(name), body, unit_of_order="u")


def recover_and_go_on(bootstrap: str, postgres: PostgresServer, name: str, kind: str, decisions: Path) -> None:
    """What another process does; then one row and one message are there for each input, and nothing is prepared."""
    with postgres.connect() as database, XAConnectionFactory(bootstrap).create_xa_connection() as connection:
        session = connection.create_xa_session()
        manager = manager_of(kind, database, session, decisions)
        manager.recover()
        work(session, database, manager, name, lambda gap: None)
        assert session.tpc_recover() == []
        database.rollback()
        assert database.execute("SELECT count(*) FROM pg_prepared_xacts").fetchone() == (0,)
        assert sorted(str(row[0]) for row in database.execute("SELECT body FROM rows")) == INPUTS
    with ConnectionFactory(bootstrap).create_context() as jms, jms.create_consumer(Queue(f"{name}.out")) as consumer:
        bodies = [message.body for _ in INPUTS if (message := consumer.receive(timeout=WAIT_S)) is not None]
        assert (bodies, consumer.receive(timeout=2)) == (INPUTS, None)


@pytest.mark.parametrize(
    ("kind", "gap"),
    [
        ("last resource", GAPS[2]),
        *(pytest.param("two phases", gap, marks=pytest.mark.thorough) for gap in GAPS),
        *(pytest.param("last resource", gap, marks=pytest.mark.slow) for gap in GAPS if gap != GAPS[2]),
    ],
)
def test_a_worker_dies_in_each_gap(
    bootstrap: str, postgres: PostgresServer, queue_name: str, tmp_path: Path, kind: str, gap: str
) -> None:
    """ACK-10: one row and one message out for each message in."""
    send_inputs(bootstrap, queue_name)
    worker = multiprocessing.get_context("spawn").Process(
        target=_work_until_killed, args=(bootstrap, postgres.url, queue_name, kind, tmp_path, gap)
    )
    worker.start()
    worker.join(WORK_S)
    ended_with = worker.exitcode
    worker.kill()  # one that has not come so far would keep its rows locked, and this run would wait for it at its end
    worker.join()
    assert ended_with == -signal.SIGKILL
    recover_and_go_on(bootstrap, postgres, queue_name, kind, tmp_path)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["last resource", "two phases"])
def test_postgres_is_killed_where_the_branch_is_prepared(
    bootstrap: str, postgres: PostgresServer, queue_name: str, tmp_path: Path, kind: str
) -> None:
    """ACK-10: the manager hears of it at its next step, and whoever recovers decides."""
    send_inputs(bootstrap, queue_name)
    with XAConnectionFactory(bootstrap).create_xa_connection() as connection:
        session, database = connection.create_xa_session(), postgres.connect()

        def at(gap: str) -> None:
            if gap == GAPS[1]:
                postgres.kill()

        with contextlib.suppress(psycopg.Error):
            work(session, database, manager_of(kind, database, session, tmp_path), queue_name, at)
        database.close()
    postgres.start()
    recover_and_go_on(bootstrap, postgres, queue_name, kind, tmp_path)


@pytest.mark.thorough
def test_the_broker_is_killed_where_the_branch_is_prepared(
    dedicated_broker: Callable[[], LocalBroker], postgres: PostgresServer, tmp_path: Path
) -> None:
    """ACK-10: the decision waits for it, or is in doubt until somebody recovers."""
    broker = dedicated_broker()
    send_inputs(broker.bootstrap, "in")
    killed: list[str] = []

    def at(gap: str) -> None:
        if gap == GAPS[2] and not killed:
            killed.append(gap)
            broker.kill()
            broker.start()

    with postgres.connect() as database, XAConnectionFactory(broker.bootstrap).create_xa_connection() as connection:
        session = connection.create_xa_session()
        with contextlib.suppress(TransactionInDoubtError):
            work(session, database, LastResource(database, session), "in", at, 40)
    recover_and_go_on(broker.bootstrap, postgres, "in", "last resource", tmp_path)
