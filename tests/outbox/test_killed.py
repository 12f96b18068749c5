"""Processes that are killed between PostgreSQL and Kafka, at each step (OUTBOX-2, OUTBOX-3, ACK-10).

Method: the process kills itself where the test says, beside one that lives; then what is in the log and what the queue
delivers is compared with what was added.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterator

import psycopg
import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition
from sqlalchemy import Engine, create_engine, event

from jbm_kafka import ConnectionFactory, Queue, XAConnectionFactory
from jbm_kafka.admin import Admin
from jbm_kafka.outbox import Outbox, Relay, XaTransaction
from tests.support.postgres import PostgresServer, postgres_server
from tests.support.topics import delete_topics_beginning_with
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(180)

UNITS, EACH, BATCH, PARTITIONS = 10, 6, 7, 3
BEFORE_THE_MARK, BEHIND_THE_COMMIT, AT_THE_END = "before the mark", "behind the commit", "at the end"
STAGES = ["in the block", "before the decision", "behind the decision", "behind the block"]
IN_FULL = pytest.mark.thorough


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


@pytest.fixture
def queue_name(bootstrap: str, kafka_name: str) -> Iterator[str]:
    yield kafka_name
    delete_topics_beginning_with(bootstrap, kafka_name)


def engine_of(url: str) -> Engine:
    return create_engine(url.replace("postgresql://", "postgresql+psycopg://"))


def relay_of(engine: Engine, bootstrap: str, *, exactly_once: bool) -> Relay:
    factory = (XAConnectionFactory if exactly_once else ConnectionFactory)(bootstrap)
    return Relay(engine, factory, batch=BATCH, poll_ms=10, exactly_once=exactly_once)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _relay_until_killed(url: str, bootstrap: str, exactly_once: bool, gap: str) -> None:
    """In a process of its own: marks one batch, and dies with the second."""
    engine, marks = engine_of(url), 0
    relay = relay_of(engine, bootstrap, exactly_once=exactly_once)

    def executing(connection: object, cursor: object, statement: str, *others: object) -> None:
        nonlocal marks
        marks += statement.startswith("UPDATE jbm_outbox SET state")
        if (marks, gap) == (2, BEFORE_THE_MARK) or ("SET branch" in statement and (marks, gap) == (2, AT_THE_END)):
            die()

    def given_back(*others: object) -> None:
        if (marks, gap) == (2, BEHIND_THE_COMMIT):
            die()

    event.listen(engine, "before_cursor_execute", executing)
    event.listen(engine, "checkin", given_back)
    relay.send_waiting()


@pytest.mark.parametrize(
    ("exactly_once", "gap"),
    [
        (False, BEFORE_THE_MARK),
        pytest.param(False, BEHIND_THE_COMMIT, marks=IN_FULL),
        pytest.param(True, BEFORE_THE_MARK, marks=IN_FULL),
        (True, BEHIND_THE_COMMIT),
        pytest.param(True, AT_THE_END, marks=IN_FULL),
    ],
)
def test_a_relay_is_killed_beside_another(
    bootstrap: str, postgres: PostgresServer, queue_name: str, exactly_once: bool, gap: str
) -> None:
    """OUTBOX-2, OUTBOX-3: nothing is lost, nothing comes twice, and ten units are in order; with exactly_once also in
    the log."""
    engine, outbox = engine_of(postgres.url), Outbox()
    outbox.metadata.drop_all(engine)
    outbox.create_all(engine)
    with Admin(bootstrap) as admin:
        admin.create_queue(queue_name, partitions=PARTITIONS)
    for number in range(EACH):
        with engine.begin() as connection:
            for unit in range(UNITS):
                outbox.add(connection, queue_name, f"{unit} {number}", unit_of_order=f"unit {unit}")
    victim = multiprocessing.get_context("spawn").Process(
        target=_relay_until_killed, args=(postgres.url, bootstrap, exactly_once, gap)
    )
    victim.start()
    victim.join(90)
    assert victim.exitcode == -signal.SIGKILL
    relay = relay_of(engine, bootstrap, exactly_once=exactly_once)
    wait_until(lambda: relay.send_waiting() == 0 and _is_all_sent(engine, outbox), about="all is sent", timeout_s=60)
    relay.stop()
    with Admin(bootstrap) as admin:
        assert admin.prepared() == []
    engine.dispose()
    in_the_log = records(bootstrap, queue_name)
    if exactly_once:
        assert in_the_log == UNITS * EACH
    elif gap == BEFORE_THE_MARK:
        assert in_the_log == UNITS * EACH + BATCH, "what was not marked was sent again, and the queue drops it"
    found = received(bootstrap, queue_name, UNITS * EACH)
    assert len(found) == UNITS * EACH
    for unit in range(UNITS):
        assert [each for each in found if each.startswith(f"{unit} ")] == [f"{unit} {n}" for n in range(EACH)]


def _is_all_sent(engine: Engine, outbox: Outbox) -> bool:
    with engine.connect() as connection:
        return outbox.counts(connection).waiting == 0


def records(bootstrap: str, topic: str) -> int:
    """Those that were committed."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"{topic}.counted",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    count = ends = 0
    while ends < PARTITIONS:
        message = consumer.poll(30)
        assert message is not None, (count, ends)
        error = message.error()
        if error is None:
            count += 1
        else:
            assert error.code() == KafkaError._PARTITION_EOF, error
            ends += 1
    consumer.close()
    return count


def received(bootstrap: str, name: str, count: int) -> list[str]:
    """So many messages, and one more if there is one."""
    with ConnectionFactory(bootstrap).create_context() as jms, jms.create_consumer(Queue(name)) as consumer:
        found = [consumer.receive_body(str, timeout=30) for _ in range(count)]
        more = consumer.receive_body(str, timeout=2)
        return [str(each) for each in [*found, more] if each is not None]


class _Mortal(psycopg.Connection[tuple[object, ...]]):
    """Kills its process at a commit, once it is told to."""

    dies_at = ""

    def commit(self) -> None:
        if self.dies_at == "before the decision":
            die()
        super().commit()
        if self.dies_at == "behind the decision":
            die()


def work(xa: XaTransaction, url: str, name: str, stage: str = "") -> int:
    """Each message becomes a row and a message; how many did. In the second transaction it dies at the stage."""
    assert isinstance(xa.database, psycopg.Connection)
    consumer, producer = xa.session.create_consumer(Queue(name)), xa.session.create_producer(Queue(f"{name}.out"))
    for done in range(100):
        with xa:
            message = consumer.receive(timeout=20 if done == 0 else 3)
            if message is None:
                return done
            xa.database.execute("INSERT INTO rows VALUES (%s)", (message.body,))
            producer.send(str(message.body), unit_of_order="u")
            if done == 1 and stage == "in the block":
                die()
            if done == 1 and isinstance(xa.database, _Mortal):
                xa.database.dies_at = stage
        if done == 1 and stage == "behind the block":
            die()
    raise AssertionError("there is no end of messages")


def _work_until_killed(url: str, bootstrap: str, name: str, stage: str) -> None:
    with _Mortal.connect(url) as database, XAConnectionFactory(bootstrap).create_xa_connection() as connection:
        work(XaTransaction(connection, database), url, name, stage)


@pytest.mark.parametrize(
    "stage", [STAGES[2], *(pytest.param(each, marks=IN_FULL) for each in STAGES if each != STAGES[2])]
)
def test_a_worker_is_killed_in_each_stage(
    bootstrap: str, postgres: PostgresServer, queue_name: str, stage: str
) -> None:
    """ACK-10: one row and one message out for each message in."""
    bodies = ["a", "b", "c"]
    with ConnectionFactory(bootstrap).create_context() as jms:
        for body in bodies:
            jms.create_producer().send(Queue(queue_name), body, unit_of_order="u")
    with postgres.connect() as database, XAConnectionFactory(bootstrap).create_xa_connection() as connection:
        database.execute("DROP TABLE IF EXISTS rows")
        database.execute("CREATE TABLE rows (body text)")
        xa = XaTransaction(connection, database)
        xa.create_table()
        victim = multiprocessing.get_context("spawn").Process(
            target=_work_until_killed, args=(postgres.url, bootstrap, queue_name, stage)
        )
        victim.start()
        victim.join(90)
        assert victim.exitcode == -signal.SIGKILL
        assert xa.recover() == (1 if "decision" in stage else 0)
        work(xa, postgres.url, queue_name)
        assert xa.session.tpc_recover() == []
        assert sorted(str(row[0]) for row in database.execute("SELECT body FROM rows")) == bodies
    assert received(bootstrap, f"{queue_name}.out", 3) == bodies
