"""TRANSACTED sessions: sends and receives as one unit of work."""

import random

import pytest

from jbm_kafka import AcknowledgeMode, DeliveryMode, Queue, errors
from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.session import Session
from tests.jms.conftest import Connect
from tests.jms.support import NOTHING_S, bodies, eventually, left, receive, receive_all, send

GATHERS_MS = 1_000


@pytest.fixture
def transacted(connection: Connection) -> Session:
    return connection.create_session(AcknowledgeMode.TRANSACTED)


def test_a_transaction_block_on_a_session_without_transactions_sends_nothing(
    connection: Connection, session: Session, orders: Queue
) -> None:
    """ACK-7: it is refused on entering, not after the sends."""
    session.create_producer(orders)  # makes the queue, which browsing does not
    with pytest.raises(errors.IllegalStateError, match="this one is AUTO; make one with"), session.transaction():
        send(session, orders, "sent all the same")
    assert left(connection, orders) == []


def test_the_error_of_a_transaction_block_is_not_hidden_by_its_rollback(transacted: Session) -> None:
    """ACK-7: it comes out, with the rollback's own error as its context."""

    def work() -> None:
        with transacted.transaction():
            assert transacted._core.guard.try_enter()  # as if another thread were in a call: the rollback is refused
            raise KeyError("the block's own")

    with pytest.raises(KeyError) as told:
        work()
    transacted._core.guard.leave()
    assert isinstance(told.value.__context__, errors.IllegalStateError)


def test_a_send_that_expires_before_the_commit_rolls_the_transaction_back(
    connection: Connection, session: Session, transacted: Session, orders: Queue
) -> None:
    """STATE-2: nothing is written, and what was received comes again; the next transaction is not concerned."""
    source, target = Queue(f"{orders.name}.in"), Queue(f"{orders.name}.out")
    send(session, source, "a")
    consumer = transacted.create_consumer(source)
    receive(consumer)
    producer = transacted.create_producer(target)
    producer.send("lives long", time_to_live_ms=60_000)
    short = producer.send("lives short", time_to_live_ms=1)
    clock = connection._core.provider.clock
    eventually(lambda: clock.now_ms() >= short.expiration, "a millisecond")
    with pytest.raises(errors.TransactionRolledBackError, match=r"expired at .* before it was committed"):
        transacted.commit()
    assert left(connection, target) == []
    again = receive(consumer)
    assert (again.body, again.delivery_count) == ("a", 2)
    producer.send("later", time_to_live_ms=60_000)
    transacted.commit()
    assert left(connection, target) == ["later"]
    assert left(connection, source) == []


def test_nothing_is_seen_before_commit_and_all_after(
    connection: Connection, session: Session, transacted: Session, orders: Queue
) -> None:
    """ACK-7, STATE-7: sends are visible and receives settled at commit; the next transaction begins by itself."""
    source, target = Queue(f"{orders.name}.in"), Queue(f"{orders.name}.out")
    send(session, source, "a", "b", unit="u")
    consumer = transacted.create_consumer(source)
    for message in receive_all(consumer, 2):
        send(transacted, target, f"{message.body!s} done", unit="u")
    assert left(connection, target) == []
    assert left(connection, source) == ["a", "b"]
    transacted.commit()
    assert left(connection, target) == ["a done", "b done"]
    assert left(connection, source) == []
    send(transacted, target, "second", unit="u")
    transacted.commit()
    assert bodies(receive_all(session.create_consumer(target), 3)) == ["a done", "b done", "second"]


def test_rollback_drops_sends_and_brings_receives_again(
    connection: Connection, session: Session, transacted: Session, orders: Queue
) -> None:
    """ACK-7, UNIT-5: in order, counted."""
    source, target = Queue(f"{orders.name}.in"), Queue(f"{orders.name}.out")
    send(session, source, "a", "b", "c", unit="u")
    consumer = transacted.create_consumer(source)
    receive_all(consumer, 2)
    send(transacted, target, "never")
    transacted.rollback()
    again = receive_all(consumer, 3)
    assert [(m.body, m.delivery_count) for m in again] == [("a", 2), ("b", 2), ("c", 1)]
    transacted.commit()
    assert left(connection, target) == []
    assert left(connection, source) == []


def test_a_commit_that_lost_a_partition_brings_what_it_received_of_others_again(
    session: Session, transacted: Session, orders: Queue
) -> None:
    """ACK-7: at once, and not when the session ends."""
    kept = Queue(f"{orders.name}.kept")
    for queue in (orders, kept):
        send(session, queue, queue.name)
    lost, consumer = (transacted.create_consumer(queue) for queue in (orders, kept))
    assert receive(lost)
    assert receive(consumer)
    for lease in lost._link.settlement.leases.values():
        lease.is_revoked = True  # as when another process has it
    with pytest.raises(errors.TransactionRolledBackError, match="moved to another process"):
        transacted.commit()
    again = receive(consumer)
    assert (again.body, again.delivery_count) == (kept.name, 2)


def test_the_transaction_block_commits_or_rolls_back(
    connection: Connection, session: Session, transacted: Session, orders: Queue
) -> None:
    """ACK-7: commits at the end of the block, rolls back on an exception."""

    def fail() -> None:
        with transacted.transaction():
            send(transacted, orders, "never")
            raise KeyError("no")

    with transacted.transaction():
        send(transacted, orders, "kept")
    with pytest.raises(KeyError):
        fail()
    assert left(connection, orders) == ["kept"]


@pytest.mark.threads_only
def test_a_transaction_block_that_was_entered_again_told_of_an_attribute_args(
    connection: Connection, session: Session, transacted: Session, orders: Queue
) -> None:
    again = transacted.transaction()

    def nest() -> None:
        with again:
            send(transacted, orders, "never")
            with again:
                send(transacted, orders, "never either")

    for name in ("a", "b"):
        with again as entered:
            assert entered is transacted
            send(transacted, orders, name)
    with pytest.raises(errors.TransactionInProgressError, match=r"^transaction\(\) inside transaction\(\): a session"):
        nest()
    with again:
        send(transacted, orders, "c")
    assert repr(again) == "<Transaction not entered: for `with`>"
    assert left(connection, orders) == ["a", "b", "c"]


def test_a_transaction_inside_a_transaction_committed_half_of_the_outer_one(
    connection: Connection, transacted: Session, orders: Queue
) -> None:
    """Of ACK-7."""

    def nested() -> None:
        with transacted.transaction():
            send(transacted, orders, "first")
            with transacted.transaction():
                send(transacted, orders, "second")

    with pytest.raises(errors.TransactionInProgressError, match="leave the inner one out"):
        nested()
    with transacted.transaction():  # and another one may follow
        send(transacted, orders, "third")
    assert left(connection, orders) == ["third"]


def test_a_commit_inside_a_transaction_block_stayed_when_the_block_rolled_back(
    connection: Connection, transacted: Session, orders: Queue
) -> None:
    """Of ACK-7."""

    def half() -> None:
        with transacted.transaction():
            send(transacted, orders, "half")
            transacted.commit()

    with pytest.raises(errors.TransactionInProgressError, match="the end of the block commits"):
        half()
    with transacted.transaction():
        send(transacted, orders, "dropped")
        transacted.rollback()  # who drops it all may, and go on
        send(transacted, orders, "whole")
    send(transacted, orders, "alone")
    transacted.commit()
    assert sorted(map(str, left(connection, orders))) == ["alone", "whole"]


def test_closing_rolls_back(connection: Connection, session: Session, orders: Queue) -> None:
    """Of UNIT-7: receives come again, uncommitted sends vanish."""
    send(session, orders, "a")
    with connection.create_session(AcknowledgeMode.TRANSACTED) as transacted:
        receive(transacted.create_consumer(orders))
        send(transacted, orders, "never")
    again = receive(session.create_consumer(orders))
    assert (again.body, again.delivery_count) == ("a", 2)
    assert left(connection, orders) == ["a"]


def test_acknowledge_is_ignored(connection: Connection, session: Session, transacted: Session, orders: Queue) -> None:
    """Of ACK-2: acknowledge is ignored in TRANSACTED; only the commit settles."""
    send(session, orders, "a")
    message = receive(transacted.create_consumer(orders))
    message.acknowledge()
    transacted.acknowledge()
    with pytest.raises(errors.IllegalStateError, match="TRANSACTED"):
        message.nack()
    with pytest.raises(errors.IllegalStateError, match="rollback"):
        transacted.recover()
    transacted.rollback()
    assert left(connection, orders) == ["a"]


def test_a_receive_that_can_never_succeed_is_refused(
    connection: Connection, session: Session, transacted: Session, orders: Queue
) -> None:
    """ACK-8: the transaction holds the whole prefetch; its commit makes room."""
    send(session, orders, "a", "b", "c", unit="u")
    consumer = transacted.create_consumer(orders, prefetch=2)
    receive_all(consumer, 2)
    with pytest.raises(errors.ResourceAllocationError, match="prefetch of 2"):
        consumer.receive(1)
    assert consumer.receive_nowait() is None
    transacted.commit()
    assert receive(consumer).body == "c"


@pytest.mark.kafka_only
def test_earlier_plain_sends_of_the_connection_come_before_a_commit(connect: Connect, orders: Queue) -> None:
    """UNIT-1: a transacted send takes its place at commit, also after those that nobody has waited for.

    Those are still with the connection's own client, which gathers them for longer than a commit takes.
    """
    connection = connect(namespace=orders.name, kafka={"linger.ms": GATHERS_MS})
    session, transacted = (
        connection.create_session(mode) for mode in (AcknowledgeMode.AUTO, AcknowledgeMode.TRANSACTED)
    )
    send(transacted, orders, "first", unit="u")
    transacted.commit()  # the next one has nothing to set up
    names = [f"m{number}" for number in range(500)]
    producer = session.create_producer(orders)
    producer.delivery_mode = DeliveryMode.NON_PERSISTENT
    send(transacted, orders, "last", unit="u")
    for name in names:
        producer.send(name, unit_of_order="u")
    transacted.commit()
    assert bodies(receive_all(session.create_consumer(orders), 502)) == ["first", *names, "last"]


def test_a_message_too_large_is_refused_and_the_rest_commits(
    connection: Connection, transacted: Session, orders: Queue
) -> None:
    send(transacted, orders, "kept")
    with pytest.raises(errors.MessageTooLargeError, match=r"max\.message\.bytes"):
        transacted.create_producer(orders).send(random.Random(1).randbytes(1_100_000))
    transacted.commit()
    assert left(connection, orders) == ["kept"]


def test_a_transaction_beyond_its_budget_is_refused(connection: Connection, transacted: Session, orders: Queue) -> None:
    producer = transacted.create_producer(orders)
    for _ in range(67):  # a quarter of the memory budget
        producer.send(b"x" * 1_000_000)
    with pytest.raises(errors.ResourceAllocationError, match="commit more often"):
        producer.send(b"x" * 1_000_000)
    transacted.rollback()
    assert left(connection, orders) == []


def test_on_completion_is_not_for_transacted_sends(transacted: Session, orders: Queue) -> None:
    with pytest.raises(errors.IllegalStateError, match=r"commit\(\) reports"):
        transacted.create_producer(orders).send("a", on_completion=lambda message, error: None)
    assert transacted.create_consumer(orders).receive(NOTHING_S) is None


def test_a_transacted_session_that_was_closed_uncommitted_said_nothing(
    connection: Connection, session: Session, orders: Queue, caplog: pytest.LogCaptureFixture
) -> None:
    """ACK-7: a program without its commit() does nothing at all; after a commit or rollback nothing is said."""
    send(session, orders, "a", "b")
    for end in (Session.commit, Session.rollback, lambda transacted: None):
        transacted = connection.create_session(AcknowledgeMode.TRANSACTED)
        receive(transacted.create_consumer(orders))
        send(transacted, Queue(f"{orders.name}.one"), "c", "d")
        end(transacted)
        transacted.close()
    lines = [record.getMessage() for record in caplog.records if record.name.endswith("transacted_acknowledge")]
    assert len(lines) == 1, lines
    assert "closed before commit() or rollback(): sends dropped: 2; messages that come again: 1" in lines[0]
