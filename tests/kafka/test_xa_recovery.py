"""A prepared branch outlives the process that prepared it, on a real cluster."""

from __future__ import annotations

import multiprocessing
import os
import signal

import pytest
from confluent_kafka import Consumer

from jbm_kafka import Queue, XAConnectionFactory
from jbm_kafka.errors import TransactionRolledBackError
from jbm_kafka.kafka import ConfluentKafka
from tests.support.waiting import wait_until

WAIT_S = 20.0


def _prepare_and_die(bootstrap: str, name: str) -> None:
    session = XAConnectionFactory(bootstrap).create_xa_connection()
    session.start()
    xa = session.create_xa_session()
    xa.tpc_begin(xa.xid(1, name, "b"))
    assert xa.create_consumer(Queue(name)).receive(timeout=WAIT_S) is not None
    xa.create_producer(Queue(f"{name}.out")).send("done")
    xa.tpc_prepare()
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("commits", [True, False])
def test_a_branch_of_a_killed_process_is_decided_by_another(bootstrap: str, topic: str, commits: bool) -> None:
    """ACK-10: with nobody alive that owns the partition, and carried out by whoever gets it next."""
    factory = XAConnectionFactory(bootstrap)
    with factory.create_context() as jms:
        jms.create_producer().send(Queue(topic), "a")
    worker = multiprocessing.get_context("spawn").Process(target=_prepare_and_die, args=(bootstrap, topic))
    worker.start()
    worker.join(60)
    assert worker.exitcode == -signal.SIGKILL
    with factory.create_xa_connection() as connection, connection.create_xa_session() as session:
        xid = session.xid(1, topic, "b")
        assert xid in session.tpc_recover()
        (session.tpc_commit if commits else session.tpc_rollback)(xid)
        assert xid not in session.tpc_recover()
    with factory.create_context() as jms:
        consumer = jms.create_consumer(Queue(f"{topic}.out" if commits else topic))
        message = consumer.receive(timeout=WAIT_S)
        assert message is not None
        assert (message.body, message.delivery_count) == (("done", 1) if commits else ("a", 2))
        other = jms.create_consumer(Queue(topic if commits else f"{topic}.out"))
        assert other.receive(timeout=3) is None


def test_a_process_that_cannot_read_what_is_prepared_closed_the_partition(bootstrap: str, topic: str) -> None:
    """ACK-10: nobody prepares while a member of the group is an older process; when it is gone they do."""
    factory = XAConnectionFactory(bootstrap)
    with factory.create_context() as jms:
        for number in range(20):
            jms.create_producer().send(Queue(topic), f"{number}")
    with factory.create_xa_connection() as connection, connection.create_xa_session() as session:
        receiver = session.create_consumer(Queue(topic))
        session.tpc_begin(session.xid(1, topic, "b"))
        assert receiver.receive(timeout=WAIT_S) is not None
        group, admin = Queue(topic).group_id(), ConfluentKafka(bootstrap).admin()
        older = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "client.id": "jbm-kafka@worker-3/4711/billing",
                "partition.assignment.strategy": "cooperative-sticky",
            }
        )
        older.subscribe([topic])
        try:
            wait_until(
                lambda: older.poll(0.1) is None and admin.group_members(group) == 2,
                about="the older one to join", timeout_s=60,
            )  # fmt: skip
            with pytest.raises(TransactionRolledBackError, match="process 4711 at worker-3 with an older jbm-kafka"):
                session.tpc_prepare()
        finally:
            older.close()
        xid = session.xid(2, topic, "b")
        session.tpc_begin(xid)
        assert receiver.receive(timeout=WAIT_S) is not None
        session.tpc_prepare()
        assert xid in session.tpc_recover()
        session.tpc_rollback()


def test_a_branch_that_was_prepared_a_moment_ago_was_not_listed(bootstrap: str, topic: str) -> None:
    """ACK-10: brokers confirm a transaction before its markers are written; a manager that lists then must see it."""
    factory = XAConnectionFactory(bootstrap)
    with factory.create_xa_connection() as connection, connection.create_xa_session() as session:
        for number in range(5):
            xid = session.xid(1, f"{topic}-{number}", "b")
            session.tpc_begin(xid)
            session.create_producer(Queue(topic)).send("a")
            session.tpc_prepare()
            assert xid in session.tpc_recover()
            session.tpc_rollback()
            assert xid not in session.tpc_recover()
