"""Prepared branches as an operator sees and ends them."""

from __future__ import annotations

import json
from uuid import uuid4

import pytest

from jbm_kafka import Queue, Topic, XAConnectionFactory, Xid
from jbm_kafka.admin import Admin
from jbm_kafka.cli.main import main
from jbm_kafka.errors import IllegalStateError
from jbm_kafka.kafka import ConfluentKafka
from jbm_kafka.ports import CommittedOffset

WAIT_S = 20.0


def prepare(bootstrap: str, namespace: str, queue: Queue) -> Xid:
    """A branch of a process that is gone, with one message of the queue and one to send."""
    factory = XAConnectionFactory(bootstrap, namespace=namespace)
    with factory.create_context() as jms:
        jms.create_producer().send(queue, "a")
    with factory.create_xa_connection() as connection, connection.create_xa_session() as session:
        xid = session.xid(1, f"of {namespace}", "b")
        session.tpc_begin(xid)
        assert session.create_consumer(queue).receive(timeout=WAIT_S) is not None
        session.create_producer(Queue(f"{queue.name}.out")).send("done")
        session.tpc_prepare()
    return xid


def received(bootstrap: str, namespace: str, queue: Queue) -> list[tuple[object, int]]:
    with XAConnectionFactory(bootstrap, namespace=namespace).create_context() as jms:
        message = jms.create_consumer(queue).receive(timeout=WAIT_S)
        return [] if message is None else [(message.body, message.delivery_count)]


def test_a_branch_is_listed_and_resolved(bootstrap: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Of ACK-10: what it has messages of cannot be deleted before."""
    namespace = f"n{uuid4().hex[:8]}"
    queue = Queue(f"{namespace}-q")
    xid = prepare(bootstrap, namespace, queue)
    at = ["--bootstrap", bootstrap, "--namespace", namespace]
    with Admin(bootstrap, namespace=namespace) as admin:
        (keeper,) = admin.truncate(queue, dry_run=True).keepers
        assert (keeper.name, keeper.records, bool(keeper.since_ms)) == (f"branch {xid}", 1, True)
        assert f"jbm-kafka prepared resolve '{xid}'" in keeper.remedy
        (found,) = admin.prepared()
        assert (found.xid, list(found.received.values()), found.sends, found.heuristic) == (xid, [1], 1, {})
        with pytest.raises(IllegalStateError, match=f"the prepared branch {xid} has received from it"):
            admin.delete_destination(queue)
        with pytest.raises(IllegalStateError, match=f"there are: {xid}"):
            admin.resolve("1:other:", "commit")
    assert main(["prepared", "list", *at]) == 0
    assert str(xid) in capsys.readouterr().out
    assert main(["prepared", "resolve", str(xid), "commit", "--json", *at]) == 0
    assert json.loads(capsys.readouterr().out)["xid"] == str(xid)
    assert received(bootstrap, namespace, Queue(f"{queue.name}.out")) == [("done", 1)]
    assert main(["prepared", "list", *at]) == 0
    assert "no prepared branches" in capsys.readouterr().out


def test_what_a_subscription_has_in_a_branch_is_not_ended_with_it(bootstrap: str) -> None:
    """Of ACK-10."""
    namespace = f"n{uuid4().hex[:8]}"
    topic = Topic(f"{namespace}-t")
    factory = XAConnectionFactory(bootstrap, namespace=namespace)
    with factory.create_xa_connection() as connection, connection.create_xa_session() as session:
        session.create_shared_durable_consumer(topic, "books").close()
        with factory.create_context() as jms:
            jms.create_producer().send(topic, "a")
        session.tpc_begin(session.xid(1, "t", "b"))
        assert session.create_shared_durable_consumer(topic, "books").receive(timeout=WAIT_S) is not None
        session.tpc_prepare()
    with Admin(bootstrap, namespace=namespace) as admin:
        with pytest.raises(IllegalStateError, match="has received from it"):
            admin.unsubscribe("books")
        admin.resolve("1:t:b", "rollback")
        admin.unsubscribe("books")


def test_a_branch_whose_messages_a_reset_took_is_refused_to_its_manager(bootstrap: str) -> None:
    """Of ACK-10, LOG-2: they come again, and a commit would send what follows from them twice."""
    namespace = f"n{uuid4().hex[:8]}"
    queue = Queue(f"{namespace}-q")
    xid = prepare(bootstrap, namespace, queue)
    client = ConfluentKafka(bootstrap)
    kafka = client.admin()
    partitions = range(kafka.describe([queue.name])[queue.name].partitions)
    offsets = {partition: CommittedOffset(0, "") for partition in partitions}
    kafka.alter_offsets(queue.group_id(namespace), queue.name, offsets)
    kafka.close()
    assert received(bootstrap, namespace, queue) == [("a", 1)]
    factory = XAConnectionFactory(bootstrap, namespace=namespace)
    with (
        factory.create_xa_connection() as connection,
        connection.create_xa_session() as session,
        pytest.raises(IllegalStateError, match="cannot be decided by its manager any more"),
    ):
        session.tpc_commit(xid)
    with Admin(bootstrap, namespace=namespace) as admin:
        (why,) = admin.prepared()[0].heuristic.values()
        assert "reset" in why
        admin.resolve(xid, "rollback")
        assert admin.prepared() == []
