"""Branches of transactions of several systems, over memory://: prepared, decided here and by others, recovered."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import pytest

from jbm_kafka import AcknowledgeMode, Queue, Topic, XAConnectionFactory, XASession, Xid
from jbm_kafka.admin import Admin, Rule
from jbm_kafka.codec.branch_records import state_key
from jbm_kafka.codec.changelog import decode_entry
from jbm_kafka.core.channel.entries import Prepared
from jbm_kafka.errors import (
    IllegalStateError,
    InvalidSettingError,
    TransactionInProgressError,
    TransactionRolledBackError,
)
from jbm_kafka.memory.memory_kafka import MemoryKafka
from jbm_kafka.ports import Outgoing
from jbm_kafka.providers.in_memory import use_world
from tests.support.waiting import wait_until

IN, OUT = Queue("in"), Queue("out")
WAIT_S = 5.0


@pytest.fixture
def factory() -> XAConnectionFactory:
    return XAConnectionFactory(f"memory://xa-{secrets.token_hex(4)}")


@pytest.fixture
def session(factory: XAConnectionFactory) -> Iterator[XASession]:
    with factory.create_xa_connection() as connection, connection.create_xa_session() as session:
        yield session


def fill(factory: XAConnectionFactory, *bodies: str, unit: str | None = None) -> None:
    with factory.create_context() as jms:
        producer = jms.create_producer()
        for body in bodies:
            producer.send(IN, body, unit_of_order=unit)


def bodies(factory: XAConnectionFactory, queue: Queue, count: int = 1) -> list[tuple[str, int]]:
    """What is received there now, with its delivery counts."""
    with factory.create_context() as jms, jms.create_consumer(queue) as consumer:
        got = [consumer.receive(timeout=WAIT_S if n < count else 0.3) for n in range(count + 1)]
        return [(str(each.body), each.delivery_count) for each in got if each is not None]


def work(session: XASession, *parts: str | int) -> Xid:
    """Receive one message and send one, in a branch."""
    xid = session.xid(1, str(parts or "t"), "b")
    session.tpc_begin(xid)
    with session.create_consumer(IN) as consumer:
        message = consumer.receive(timeout=WAIT_S)
    assert message is not None
    session.create_producer(OUT).send(f"of {message.body}")
    return xid


def test_the_first_branch_of_a_cluster_is_prepared_after_a_recovery(
    factory: XAConnectionFactory, session: XASession
) -> None:
    """ACK-10: a recovery that found nothing had made no topic for it."""
    fill(factory, "a")
    consumer = session.create_consumer(IN)
    assert session.tpc_recover() == []
    xid = session.xid(1, "first", "b")
    session.tpc_begin(xid)
    assert consumer.receive(timeout=WAIT_S) is not None
    session.tpc_prepare()
    assert session.tpc_recover() == [xid]
    session.tpc_commit()


def test_a_prepared_branch_is_committed(factory: XAConnectionFactory, session: XASession) -> None:
    """ACK-10: what is received is settled and what is sent is visible at tpc_commit, and nothing before."""
    fill(factory, "a")
    xid = work(session)
    session.tpc_prepare()
    assert session.tpc_recover() == [xid]
    assert bodies(factory, OUT, 0) == []
    assert bodies(factory, IN, 0) == []
    session.tpc_commit()
    assert session.tpc_recover() == []
    assert bodies(factory, OUT) == [("of a", 1)]
    assert bodies(factory, IN, 0) == []


def test_recovery_finds_what_was_prepared_behind_an_open_transaction(
    factory: XAConnectionFactory, session: XASession
) -> None:
    """ACK-10: a rollback that is being written hid it, and a manager that looked then did not know of it."""
    fill(factory, "a")
    other = work(session, "other")
    session.tpc_prepare()
    session.tpc_rollback()  # the topic is there
    world = use_world(factory._installation.bootstrap)
    writer = MemoryKafka(world.cluster).transactional_producer("another", transaction_timeout_ms=60_000)
    writer.initialise(WAIT_S)
    writer.begin()
    writer.produce(Outgoing("jbm.branches", 0, state_key("gone"), None))
    xid = work(session, "b")
    session.tpc_prepare()
    with ThreadPoolExecutor() as threads:
        found = threads.submit(session.tpc_recover)
        wait([found], timeout=0.5)
        writer.commit(WAIT_S)
        assert found.result(WAIT_S) == [xid]
    writer.close()
    session.tpc_rollback()
    assert other not in session.tpc_recover()
    world.let_go()


@pytest.mark.thorough  # the offsets that it left open are asked for twice, ten seconds each
def test_a_branch_that_a_restarted_broker_left_open_is_ended(factory: XAConnectionFactory, session: XASession) -> None:
    """ACK-10: nobody could read `jbm.branches` any more, and every decision of the namespace waited for good."""
    fill(factory, "a", "b")
    work(session, "first")
    session.tpc_prepare()
    session.tpc_rollback()  # the topic is there
    xid = work(session, "b")
    world = use_world(factory._installation.bootstrap)
    world.cluster.faults.forgotten_marks = 100
    session.tpc_prepare()
    world.cluster.faults.forgotten_marks = 0
    admin = MemoryKafka(world.cluster).admin()
    ends = [admin.end_positions("jbm.branches", [0], stable=stable)[0] for stable in (True, False)]
    assert ends[0] < ends[1]
    provider: Any = session._core.connection.provider
    provider.sidecar.checkpointer.schedule.note_back(provider.clock.monotonic_ms())
    wait_until(lambda: xid in session.tpc_recover(), about="the branch", timeout_s=60)
    session.tpc_commit()
    assert len(bodies(factory, OUT)) == 1
    world.let_go()


def test_what_two_consumers_of_a_session_received_is_all_prepared(
    factory: XAConnectionFactory, session: XASession
) -> None:
    """ACK-10: of one queue, only what one of them had was recorded, and the rest came again after a restart."""
    fill(factory, "a", "b")
    session.tpc_begin(session.xid(1, "two", "b"))
    for _ in range(2):
        consumer = session.create_consumer(IN)
        assert consumer.receive(timeout=WAIT_S) is not None
    session.tpc_prepare()
    world = use_world(factory._installation.bootstrap)
    topic = IN.changelog_topic("")
    entries = [
        decode_entry(record.key(), record.value())[1]
        for partition in range(world.cluster.partition_count(topic))
        for record in world.cluster.log(topic, partition).read(0, 1_000, committed_only=True)[0]
    ]
    world.let_go()
    assert sum(len(each.offsets or ()) for each in entries if isinstance(each, Prepared)) == 2
    session.tpc_rollback()


def test_a_prepared_branch_is_rolled_back(factory: XAConnectionFactory, session: XASession) -> None:
    """ACK-10: sends are dropped, and what was received comes again, counted."""
    fill(factory, "a")
    work(session)
    session.tpc_prepare()
    session.tpc_rollback()
    assert bodies(factory, IN) == [("a", 2)]
    assert bodies(factory, OUT, 0) == []


@pytest.mark.parametrize("commits", [True, False])
def test_another_connection_decides(factory: XAConnectionFactory, session: XASession, commits: bool) -> None:
    """ACK-10: whoever knows the name decides, and the session that prepared it hears what was decided."""
    fill(factory, "a")
    xid = work(session)
    session.tpc_prepare()
    with factory.create_xa_connection() as other, other.create_xa_session() as manager:
        assert manager.tpc_recover() == [xid]
        (manager.tpc_commit if commits else manager.tpc_rollback)(xid)
        with pytest.raises(IllegalStateError, match="no branch of this name is prepared"):
            manager.tpc_commit(session.xid(1, "another", "b"))
    if commits:
        session.tpc_commit()
        assert bodies(factory, OUT) == [("of a", 1)]
    else:
        with pytest.raises(TransactionRolledBackError, match="rolled back before"):
            session.tpc_commit()
        assert bodies(factory, IN) == [("a", 2)]


def test_later_messages_of_a_unit_wait_for_the_branch(factory: XAConnectionFactory, session: XASession) -> None:
    """ACK-10, UNIT-2: the branch has the unit, until it is decided."""
    fill(factory, "a", "b", "c", unit="u")
    work(session)
    session.tpc_prepare()
    assert bodies(factory, IN, 0) == []
    session.tpc_commit()
    assert [body for body, _ in bodies(factory, IN, 2)] == ["b", "c"]


def test_explain_names_the_branch_that_has_a_message(factory: XAConnectionFactory, session: XASession) -> None:
    """Of ACK-10, UNIT-17: where nobody received any more it said to start a receiver."""
    fill(factory, "a", "b", unit="u")
    with factory.create_context() as jms:
        last = jms.create_text_message("c")
        jms.create_producer().send(IN, last, unit_of_order="u")
    consumer = session.create_consumer(IN)
    session.tpc_begin(session.xid(1, "o'hara", "b"))
    assert [consumer.receive_body(str, WAIT_S) for _ in range(2)] == ["a", "b"]
    session.tpc_prepare()
    with Admin(f"memory://{factory._installation.bootstrap}") as admin:
        for is_open in (True, False):  # an owner can be asked, and then nobody
            if not is_open:
                session.close()
            (found,) = admin.explain(IN).messages
            assert [each.rule for each in found.reasons] == [Rule.PREPARED]
            assert "jbm-kafka prepared resolve '1:o'\"'\"'hara:b' commit" in found.reasons[0].remedy
            (behind,) = admin.explain(IN, message_id=last.message_id).messages
            assert [each.rule for each in behind.reasons] == [Rule.BEHIND, Rule.PREPARED]


def test_one_phase_and_nothing_done(factory: XAConnectionFactory, session: XASession) -> None:
    """ACK-10: a branch that is not prepared is committed at once; one without work is committed from elsewhere, too."""
    fill(factory, "a")
    work(session)
    session.tpc_commit()
    assert bodies(factory, OUT) == [("of a", 1)]
    empty = session.xid(1, "empty", "")
    session.tpc_begin(empty)
    session.tpc_prepare()
    with factory.create_xa_connection() as other, other.create_xa_session() as manager:
        assert manager.tpc_recover() == [empty]
        manager.tpc_commit(empty)
        assert manager.tpc_recover() == []
    session.tpc_commit()


def test_sends_larger_than_a_record_are_kept_whole(factory: XAConnectionFactory, session: XASession) -> None:
    """ACK-10: what a branch sends is recorded in as many pieces as it needs."""
    session.tpc_begin(session.xid(1, "large", "b"))
    producer = session.create_producer(OUT)
    for number in range(3):
        producer.send(f"{number}" * 400_000)
    session.tpc_prepare()
    session.tpc_commit()
    assert [len(body) for body, _ in bodies(factory, OUT, 3)] == [400_000] * 3


def test_an_old_branch_is_rolled_back_at_prepare(factory: XAConnectionFactory, session: XASession) -> None:
    """ACK-10: its time-out is of the time before prepare."""
    fill(factory, "a")
    session.tpc_begin(session.xid(1, "t", "b"), timeout=0)
    with session.create_consumer(IN) as consumer:
        assert consumer.receive(timeout=WAIT_S) is not None
    with pytest.raises(TransactionRolledBackError, match="timeout was over"):
        session.tpc_prepare()
    assert bodies(factory, IN) == [("a", 2)]


@pytest.mark.parametrize("sends", [True, False], ids=["with sends", "alone"])
@pytest.mark.parametrize("commits", [True, False], ids=["committed", "rolled back"])
@pytest.mark.parametrize("kind", ["temporary queue", "private subscription"])
def test_what_ends_with_its_session_is_settled_by_the_decision(
    factory: XAConnectionFactory, kind: str, commits: bool, sends: bool
) -> None:
    """ACK-10: nothing of it outlasts the session, so it was refused at tpc_prepare."""
    with factory.create_xa_connection() as connection, connection.create_xa_session() as session:
        fill(factory, "recorded")
        place = session.create_temporary_queue() if kind == "temporary queue" else Topic("prices")
        consumer, recorded = session.create_consumer(place), session.create_consumer(IN)
        with factory.create_context() as jms:
            for body in ("first", "second"):
                jms.create_producer().send(place, body, unit_of_order="u")
        session.tpc_begin(session.xid(1, "t", "b"))
        assert consumer.receive_body(str, WAIT_S) == "first"
        if sends:
            assert recorded.receive_body(str, WAIT_S) == "recorded"
            session.create_producer(OUT).send("out")
        session.tpc_prepare()
        assert bodies(factory, OUT, 0) == []
        (session.tpc_commit if commits else session.tpc_rollback)()
        found = [consumer.receive(WAIT_S) for _ in range(1 if commits else 2)]
        assert [(each and each.body, each and each.delivery_count) for each in found] == (
            [("second", 1)] if commits else [("first", 2), ("second", 1)]
        )
        session.commit()
        assert consumer.receive_nowait() is None

        def is_settled() -> bool:
            counted = connection.statistics().destinations
            return sum(each.acknowledged for each in counted) >= 2 and not any(each.unacknowledged for each in counted)

        wait_until(is_settled, about="nothing in hand any more", timeout_s=WAIT_S)
        is_done = sends and commits
        assert bodies(factory, OUT, int(is_done)) == [("out", 1)] * is_done
        assert len(bodies(factory, IN, int(not is_done))) == int(not is_done)


def test_mistakes_get_one_line_each(factory: XAConnectionFactory, session: XASession) -> None:
    """ACK-10: what cannot be is refused, and says what to do."""
    xid = session.xid(1, "t", "b")
    with pytest.raises(InvalidSettingError, match="has 65"):
        session.xid(1, "t" * 65, "b")
    with pytest.raises(InvalidSettingError, match="no UTF-8 form"):
        session.xid(1, "caf\udce9", "b")
    with pytest.raises(IllegalStateError, match="in no branch"):
        session.tpc_prepare()
    session.tpc_begin(xid)
    with pytest.raises(IllegalStateError, match="is in branch 1:t:b"):
        session.tpc_begin(session.xid(1, "u", "b"))
    with pytest.raises(TransactionInProgressError, match="tpc_commit"):
        session.commit()
    with factory.create_xa_connection() as connection:
        second = connection.create_xa_session()
        with pytest.raises(IllegalStateError, match="open or prepared already"):
            second.tpc_begin(xid)
        second.create_consumer(IN).set_listener(lambda message: None)
        with pytest.raises(IllegalStateError, match="has a listener"):
            second.tpc_begin(second.xid(1, "v", "b"))
        plain = connection.create_session(AcknowledgeMode.AUTO)
        with pytest.raises(IllegalStateError, match="create_xa_session"):
            plain.tpc_begin(xid)


@pytest.mark.parametrize("agrees", [True, False], ids=["as its own session", "otherwise"])
@pytest.mark.parametrize("commits", [True, False], ids=["committed", "rolled back"])
def test_what_a_resolver_did_to_a_branch_was_an_error_of_its_own_session(
    factory: XAConnectionFactory, session: XASession, commits: bool, agrees: bool
) -> None:
    """ACK-10: also when all have carried it out, and nothing is recorded of it any more; and one of a slower manager.

    The same outcome is success, another one is told; and what came from a temporary queue goes by the outcome.
    """
    fill(factory, "a")
    place = session.create_temporary_queue()
    with factory.create_context() as jms:
        jms.create_producer().send(place, "temporary")
    consumer = session.create_consumer(place)
    xid = session.xid(1, "t", "b")
    session.tpc_begin(xid)
    assert consumer.receive_body(str, WAIT_S) == "temporary"
    assert session.create_consumer(IN).receive_body(str, WAIT_S) == "a"
    session.tpc_prepare()
    with factory.create_xa_connection() as other, other.create_xa_session() as manager:
        (manager.tpc_commit if commits else manager.tpc_rollback)(xid)
        branches = session._connection.provider.sidecar.branches  # type: ignore[attr-defined]
        wait_until(lambda: not branches.found() or None, about="its records to be removed", timeout_s=WAIT_S)
        for each, named in ((manager, [xid]), (session, [])):  # another manager, which was slower, and itself
            if agrees:
                (each.tpc_commit if commits else each.tpc_rollback)(*named)
            else:
                with pytest.raises(IllegalStateError if commits else TransactionRolledBackError, match="1:t:b was"):
                    (each.tpc_rollback if commits else each.tpc_commit)(*named)
    assert (consumer.receive(0.3 if commits else WAIT_S) is None) is commits
    session.rollback()
    session.tpc_begin(session.xid(1, "next", "b"))
    session.tpc_rollback()
