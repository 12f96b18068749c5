"""Connections and contexts: start, stop, close, fork, and what a factory shares."""

import os
import queue
import re
import threading
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest

from jbm_kafka import AcknowledgeMode, AddressSettings, ConnectionFactory, Message, Queue, errors
from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.consumer import MessageConsumer
from jbm_kafka.jms.session import Session
from tests.jms.conftest import RUN, Connect, make_factory
from tests.jms.support import (
    NOTHING_S,
    SOON_S,
    Aside,
    Seen,
    bodies,
    eventually,
    group_worker_behind,
    left,
    receive,
    send,
)
from tests.support.topics import create_topic, delete_topics

NOTHING_HANGS_S = 5.0


def test_a_connection_is_made_stopped_and_started_by_entering(warm: ConnectionFactory, orders: Queue) -> None:
    """CONN-1: start gates delivery."""
    connection = warm.create_connection()
    session = connection.create_session()
    send(session, orders, "a")
    consumer = session.create_consumer(orders)
    assert consumer.receive(0.1) is None
    with connection:
        assert receive(consumer).body == "a"
    assert connection.is_closed
    connection.close()
    for call in (connection.create_session, connection.start, connection.stop):
        with pytest.raises(errors.IllegalStateError, match="closed"):
            call()
    with pytest.raises(errors.IllegalStateError, match="closed"):
        session.create_producer(orders)


def test_stop_hands_nothing_over_until_started_again(warm: ConnectionFactory, orders: Queue) -> None:
    """CONN-1: not even what was read ahead; it goes back uncounted."""
    with warm.create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.CLIENT)
        send(session, orders, *(f"m{number}" for number in range(20)), unit="u")
        consumer = session.create_consumer(orders)
        got = [receive(consumer) for _ in range(5)]
        connection.stop()
        assert consumer.receive_nowait() is None
        assert consumer.receive(0.1) is None
        connection.start()
        connection.start()
        got += [receive(consumer) for _ in range(15)]
        assert bodies(got) == [f"m{number}" for number in range(20)]
        assert all(message.delivery_count == 1 for message in got)


def test_stop_waits_for_a_running_listener(warm: ConnectionFactory, orders: Queue) -> None:
    """CONN-1: it finishes first."""
    may_end = threading.Event()
    seen = Seen(lambda message: may_end.wait(SOON_S))
    with warm.create_connection() as connection:
        send(connection.create_session(), orders, "a", "b")
        connection.create_session().create_consumer(orders).set_listener(seen)
        seen.wait(1)
        stopping = Aside(connection.stop)
        assert stopping.is_running
        may_end.set()
        stopping.result()
        assert len(seen.messages) == 1
        connection.start()
        seen.wait(2)


@pytest.mark.usefixtures("warm")  # a world in memory would go with the connection
def test_the_exception_listener_may_close_the_connection(bootstrap: str, orders: Queue, tmp_path: Path) -> None:
    """CONN-1, of CONN-3: though a group worker found the trouble, and the last connection ends it with its sidecar."""
    factory = make_factory(bootstrap, state_dir=str(tmp_path / "state"))
    connection = factory.create_connection()
    connection.start()
    outcome: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()

    def close(error: Exception) -> None:
        try:
            connection.close()
        except BaseException as fault:
            outcome.put(fault)
            raise
        outcome.put(None)

    connection.exception_listener = close
    session = connection.create_session(AcknowledgeMode.CLIENT)
    send(session, orders, "a")
    consumer = session.create_consumer(orders)
    message, group_worker = receive(consumer), group_worker_behind(consumer)

    def acknowledge_and_lose() -> None:
        message.acknowledge()
        for channel in list(group_worker.data.channels.values()):
            group_worker.assignment.drop(channel)

    group_worker.post(acknowledge_and_lose)
    assert outcome.get(timeout=SOON_S) is None
    with make_factory(bootstrap, state_dir=str(tmp_path / "state")).create_connection() as again:  # the folder is free
        assert left(again, orders) == ["a"]


def test_leaving_a_connection_by_an_exception_gives_back_the_message_in_hand(
    warm: ConnectionFactory, connection: Connection, orders: Queue
) -> None:
    def fail() -> None:
        with warm.create_connection() as inner:
            session = inner.create_session()
            send(session, orders, "a")
            receive(session.create_consumer(orders))
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert receive(connection.create_session().create_consumer(orders)).delivery_count == 2


@pytest.mark.kafka_only
@pytest.mark.parametrize("is_started", [True, False])
def test_a_refused_consumer_leaves_its_session_as_it_was(
    bootstrap: str, warm: ConnectionFactory, orders: Queue, is_started: bool
) -> None:
    unfit = Queue(create_topic(bootstrap, f"{orders.name}.compacted", config={"cleanup.policy": "compact"}))
    connection = warm.create_connection()
    if is_started:
        connection.start()
    session = connection.create_session()
    with pytest.raises(errors.InvalidDestinationError, match="compacted"):
        session.create_consumer(unfit)
    assert session._core.links.all == []
    with connection:
        send(session, orders, "a")
        assert receive(session.create_consumer(orders)).body == "a"


@pytest.mark.kafka_only
def test_a_connection_that_cannot_be_entered_is_closed(bootstrap: str, orders: Queue) -> None:
    unfit = create_topic(bootstrap, f"{orders.name}.compacted", config={"cleanup.policy": "compact"})
    factory = ConnectionFactory(
        bootstrap, namespace=f"{RUN}-unfit", address_settings={"#": AddressSettings(dead_letter_address=unfit)}
    )
    connection = factory.create_connection()
    connection.create_session().create_consumer(orders)
    with pytest.raises(errors.InvalidDestinationError, match="compacted"), connection:
        pass
    assert connection.is_closed


def test_a_context_is_connection_and_session_in_one(warm: ConnectionFactory, orders: Queue) -> None:
    with warm.create_context(AcknowledgeMode.CLIENT) as jms:
        producer = jms.create_producer()
        producer.unit_of_order = "u"
        producer.send(orders, "a", properties={"region": "EU"})
        message = receive(jms.create_consumer(jms.create_queue(orders.name)))
        assert (message.body, message.unit_of_order, message.properties["region"]) == ("a", "u", "EU")
        assert bodies(jms.create_browser(orders, include="all")) == ["a"]
        jms.acknowledge()
        with pytest.raises(errors.InvalidDestinationError, match="destination is 'a'"):
            producer.send("a", orders)  # type: ignore[arg-type]
        with pytest.raises(errors.MessageFormatError, match="message is Queue"):
            producer.send(orders, orders)  # type: ignore[arg-type]
    with pytest.raises(errors.IllegalStateError, match="closed"):
        jms.create_producer()


def test_the_transaction_of_a_context_hands_out_the_context(warm: ConnectionFactory, orders: Queue) -> None:
    """It was the session behind it, whose producers are others."""
    with warm.create_context(AcknowledgeMode.TRANSACTED) as jms:
        with jms.transaction() as same:
            same.create_producer().send(orders, "a")
        assert same is jms
        assert receive(jms.create_consumer(orders)).body == "a"


def test_a_browser_of_a_closed_session_is_closed(warm: ConnectionFactory, orders: Queue) -> None:
    """It said that it was open, and looked."""
    with warm.create_connection() as connection:
        session = connection.create_session()
        browser = session.create_browser(orders)
        session.close()
        assert browser.is_closed
        with pytest.raises(errors.IllegalStateError, match="the session is closed; make a new one"):
            list(browser)


def test_what_a_closed_connection_had_made_says_at_once_that_the_connection_is_closed(
    warm: ConnectionFactory, orders: Queue
) -> None:
    """It said to make a new session, and that then said to make a new connection; of a context, which has none."""
    with warm.create_connection() as connection:
        session = connection.create_session()
        producer, consumer, browser = (
            session.create_producer(orders),
            session.create_consumer(orders),
            session.create_browser(orders),
        )
        producer.close()
    for call in (
        lambda: producer.send("a"),
        consumer.receive_nowait,
        lambda: consumer.set_listener(print),
        lambda: list(browser),
        lambda: session.create_queue("a"),
        connection.start,
    ):
        with pytest.raises(errors.IllegalStateError, match=r"^the connection is closed; make a new one$"):
            call()
    context = warm.create_context()
    context.close()
    for of_context in (lambda: context.create_consumer(orders), lambda: context.create_queue("a"), context.start):
        with pytest.raises(errors.IllegalStateError, match=r"^the context is closed; make a new one$"):
            of_context()


def test_a_context_starts_with_its_first_consumer(warm: ConnectionFactory, orders: Queue) -> None:
    jms = warm.create_context(AcknowledgeMode.TRANSACTED)
    jms.create_producer().send(orders, "a")
    jms.commit()
    assert receive(jms.create_consumer(orders)).body == "a"
    jms.rollback()
    jms.close()


def test_a_context_has_what_connection_and_session_have(warm: ConnectionFactory, orders: Queue) -> None:
    with warm.create_context(AcknowledgeMode.TRANSACTED) as jms:
        assert (jms.transacted, jms.acknowledge_mode, jms.client_id) == (True, AcknowledgeMode.TRANSACTED, None)
        assert jms.metadata.provider_version == version("jbm-kafka")
        heard: list[Exception] = []
        jms.exception_listener = heard.append
        assert jms._connection.exception_listener == heard.append == jms.exception_listener
        jms.set_default_prefetch(7)
        with jms.transaction():
            jms.create_producer().send(orders, jms.create_message())
        consumer = jms.create_consumer(orders)
        assert consumer.prefetch == 7
        assert receive(consumer).body is None


def test_after_a_fork_the_child_is_told_so(warm: ConnectionFactory, orders: Queue) -> None:
    """At once and in each call: an acknowledgement seemed to be one, and a browser took eleven seconds."""
    with warm.create_connection() as connection:
        session = connection.create_session()
        send(session, Queue(f"{orders.name}.other"), "settled by the parent")
        producer = session.create_producer(orders)
        producer.send("a")
        consumer = session.create_consumer(orders)
        client = connection.create_session(AcknowledgeMode.CLIENT)
        message = receive(client.create_consumer(Queue(f"{orders.name}.other")))
        browser = session.create_browser(orders)
        temporary = session.create_temporary_queue()
        session._core.lock.acquire()  # as another thread may in that moment; in the child nobody releases it
        child = os.fork()
        if child:
            session._core.lock.release()
        else:
            told, began_s = 0, time.monotonic()
            calls = (
                lambda: producer.send("b"),
                lambda: consumer.receive(1),
                lambda: list(consumer),
                session.recover,
                lambda: list(browser),
                lambda: session.create_browser(orders),
                lambda: session.create_queue("more"),
                temporary.delete,
                message.acknowledge,
                message.nack,
                client.acknowledge,
                producer.flush,
                consumer.close,
                producer.close,
                connection.create_session,
                connection.close,
            )
            for call in calls:
                try:
                    call()
                except errors.IllegalStateError as error:
                    told += "fork" in str(error)
                except BaseException:
                    os._exit(100)
            os._exit(100 if time.monotonic() - began_s > NOTHING_HANGS_S else told)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 16
        message.acknowledge()
        assert receive(consumer).body == "a"


@pytest.mark.parametrize("has_left", [False, True])
def test_a_waiting_receive_goes_on_after_a_stop_and_a_start(
    connect: Connect, connection: Connection, orders: Queue, has_left: bool
) -> None:
    """CONN-1: also when the process has left the group meanwhile, which a stopped receiver does not join again."""
    stopping = connect()
    consumer = stopping.create_session().create_consumer(orders)
    waiting = Aside(consumer.receive)
    eventually(lambda: consumer._link.demand.credit > 0, "it does not ask")
    stopping.stop()
    group_worker = group_worker_behind(consumer)
    if has_left:
        group_worker.stop()
        assert group_worker.join(SOON_S)
        assert consumer._link.group_worker is group_worker
    stopping.start()
    send(connection.create_session(), orders, "a")
    assert getattr(waiting.result(), "body", None) == "a"


def test_a_namespace_keeps_installations_apart(bootstrap: str, connection: Connection, orders: Queue) -> None:
    with make_factory(bootstrap, namespace=f"{RUN}-ns").create_connection() as apart:
        session = apart.create_session()
        send(session, orders, "a")  # the log is Kafka's and shared; what is settled is each installation's own
        for each in (session, connection.create_session()):
            consumer = each.create_consumer(orders)
            assert receive(consumer).body == "a"
            assert consumer.receive(NOTHING_S) is None


@pytest.mark.kafka_only
def test_a_connection_is_not_shared_with_other_client_settings(
    bootstrap: str, warm: ConnectionFactory, tmp_path: Path
) -> None:
    """Not with another user's, above all: they are named, their values are not."""
    mine = {"client.id": "mine", "ssl.key.password": "secret"}
    with pytest.raises(errors.InvalidSettingError, match=r"client\.id, ssl\.key\.password; use another") as refused:
        make_factory(bootstrap, kafka=mine).create_connection()
    assert "secret" not in str(refused.value)
    apart: dict[str, object] = {"state_dir": str(tmp_path / "state")}
    with make_factory(bootstrap, kafka=mine, **apart).create_connection():
        with pytest.raises(errors.InvalidSettingError, match=r"open already, .*: ssl\.key\.password;"):
            make_factory(bootstrap, kafka={**mine, "ssl.key.password": "public"}, **apart).create_connection()
        with pytest.raises(errors.InvalidSettingError, match=r"client\.id, ssl\.key\.password"):
            make_factory(bootstrap, **apart).create_connection()
        make_factory(bootstrap, kafka=dict(mine), **apart).create_connection().close()
    make_factory(bootstrap, **apart).create_connection().close()


def test_without_auto_create_a_missing_queue_is_refused_but_the_shipped_ones_exist(
    bootstrap: str, orders: Queue
) -> None:
    factory = make_factory(bootstrap, namespace=f"{RUN}-strict", auto_create=False)
    with factory.create_connection() as connection:
        session = connection.create_session()
        for call in (session.create_producer, session.create_consumer, lambda q: list(session.create_browser(q))):
            with pytest.raises(
                errors.InvalidDestinationError,
                match=f"there is no Kafka topic '{orders.name}'; .*(jbm-kafka create|auto_create=True)",
            ):
                call(orders)
        for name in ("DLQ", "ExpiryQueue"):
            session.create_producer(Queue(name)).send("a", unit_of_order=orders.name)
            assert "a" in left(connection, Queue(name))


def test_a_listener_may_stop_its_own_connection(warm: ConnectionFactory, orders: Queue) -> None:
    """CONN-1: the call does not wait for itself; its message is settled by its return, the next waits for a start."""
    with warm.create_connection() as connection:
        send(connection.create_session(), orders, "a", "b", unit="u")
        stopped = threading.Event()

        def stop(message: Message) -> None:
            if message.body == "a":
                connection.stop()
                stopped.set()

        seen = Seen(stop)
        connection.create_session().create_consumer(orders).set_listener(seen)
        assert stopped.wait(SOON_S)
        eventually(lambda: left(connection, orders) == ["b"], "its return did not acknowledge")
        assert bodies(seen.messages) == ["a"]
        connection.start()
        assert bodies(seen.wait(2)) == ["a", "b"]


@pytest.mark.thorough
@pytest.mark.kafka_only
def test_a_start_that_fails_for_one_queue_serves_the_others_and_can_be_repeated(
    bootstrap: str, kafka_name: str, warm: ConnectionFactory, orders: Queue
) -> None:
    """CONN-1: sessions after the one whose queue is gone stayed deaf, without an error."""
    missing = Queue(f"{orders.name}.gone")
    with warm.create_connection() as sending:
        send(sending.create_session(), orders, "a", "b")
        send(sending.create_session(), missing, "lost with its topic")
    factory = ConnectionFactory(bootstrap, namespace=kafka_name, auto_create=False)
    connection = factory.create_connection()

    def starts() -> bool:
        try:
            connection.start()
        except errors.JMSError:  # told of a try that began before the topic was there
            return False
        return True

    try:
        first, second = connection.create_session(), connection.create_session()
        refused = first.create_consumer(missing)
        heard = [first.create_consumer(orders), second.create_consumer(orders)]
        delete_topics(bootstrap, [missing.name])
        with pytest.raises(errors.JMSError):
            send(second, missing, "refused")  # from now on it is known to be gone, so that its receiver cannot connect
        for _ in range(2):
            with pytest.raises(errors.JMSError, match=re.escape(missing.name)):
                connection.start()
        assert {consumer._link.is_attached for consumer in heard} == {True}
        assert receive(heard[1]).body in ("a", "b")
        with pytest.raises(errors.JMSError, match=re.escape(missing.name)):
            refused.receive(0)
        create_topic(bootstrap, missing.name)
        eventually(starts, "it never starts again")
        send(second, missing, "c")
        assert receive(refused).body == "c"
    finally:
        connection.close()


def test_a_receive_on_a_closed_consumer_raises(session: Session, orders: Queue) -> None:
    """A loop around `receive` went round at full speed: it returned None at once."""
    consumer = session.create_consumer(orders)
    consumer.close()
    for call in (consumer.receive_nowait, consumer.receive, lambda: consumer.receive_body(str, 0.1)):
        with pytest.raises(errors.IllegalStateError, match="closed"):
            call()
    assert list(consumer) == []


@pytest.mark.parametrize("call", [MessageConsumer.receive, lambda consumer: list(consumer) or None])
def test_a_receive_whose_consumer_is_closed_meanwhile_returns_none(
    session: Session, orders: Queue, call: Callable[[MessageConsumer], object]
) -> None:
    """CONN-1: and so does an iteration end."""
    consumer = session.create_consumer(orders)
    waiting = Aside(lambda: call(consumer))
    eventually(lambda: consumer._link.demand.is_waiting, "no receive waits")
    consumer.close()
    assert waiting.result() is None
