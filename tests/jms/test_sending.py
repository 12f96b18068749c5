"""Sending: when a send returns, callbacks, and what a send sets."""

import os
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from jbm_kafka import AcknowledgeMode, ConnectionFactory, DeliveryMode, Message, Queue, TextMessage, errors
from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.session import Session
from jbm_kafka.ports import Outgoing
from jbm_kafka.sidecar.lane.group_worker import GroupWorker
from tests.jms.conftest import MakeFactory
from tests.jms.support import (
    EXPIRED,
    NOTHING_S,
    SOON_S,
    Aside,
    bodies,
    copies,
    eventually,
    left,
    receive,
    receive_all,
    send,
)
from tests.support.topics import create_topic


def test_a_persistent_send_is_in_the_log_when_it_returns(
    connection: Connection, session: Session, orders: Queue
) -> None:
    """SEND-1: returned means that every in-sync replica has it."""
    message = session.create_producer(orders).send("a")
    assert left(connection, orders) == ["a"]
    assert message.message_id is not None
    assert message.message_id.startswith("ID:")
    assert (message.destination, message.priority, message.expiration) == (orders, 4, 0)


@pytest.mark.kafka_only
def test_the_client_of_plain_sends_is_there_before_the_first_one(
    factory_of: MakeFactory, orders: Queue, tmp_path: Path
) -> None:
    """Kafka may need half a second to give it its producer id; a transacted session has no use for it.

    In a sidecar of its own: connections of one share that client.
    """
    with factory_of(state_dir=str(tmp_path)).create_connection() as connection:
        connection.create_session(AcknowledgeMode.TRANSACTED).create_producer(orders)
        before = _sender_threads()
        connection.create_session().create_producer(orders)
        assert _sender_threads() == before + 1


def _sender_threads() -> int:
    return sum(thread.name == "jbm-sender" for thread in threading.enumerate())


def test_the_message_of_a_send_does_not_show_the_properties_that_it_was_sent_with(
    session: Session, orders: Queue
) -> None:
    """It did not, though it showed the correlation id. A Message that was given keeps its own, for its next send."""
    producer, consumer = session.create_producer(orders), session.create_consumer(orders)
    for body in ("a", b"a", {"a": 1}):
        sent = producer.send(body, properties={"region": "EU", "n": 1}, unit_of_order="joe")
        assert dict(sent.properties) == {"region": "EU", "n": 1} == dict(receive(consumer).properties)
        assert sent.get_int_property("n") == 1
    given = TextMessage("a")
    given.properties["own"] = 1
    assert producer.send(given, properties={"n": 2}, unit_of_order="joe") is given
    assert dict(receive(consumer).properties) == {"own": 1, "n": 2}
    producer.send(given, unit_of_order="joe")
    assert dict(receive(consumer).properties) == {"own": 1} == dict(given.properties)
    with pytest.raises(errors.MessageFormatError, match=r"property n is \[1\]"):
        producer.send("a", properties={"n": [1]})


def test_completion_callbacks_come_in_send_order_on_another_thread(session: Session, orders: Queue) -> None:
    """SEND-1, SEND-9: over partitions and units."""
    seen: list[tuple[object, Exception | None, threading.Thread]] = []
    producer = session.create_producer(orders)
    for number in range(50):
        producer.send(
            f"m{number}",
            unit_of_order=f"u{number % 7}",
            on_completion=lambda m, e: seen.append((m.body, e, threading.current_thread())),
        )
    producer.close()
    assert [body for body, _, _ in seen] == [f"m{number}" for number in range(50)]
    assert all(error is None and thread is not threading.current_thread() for _, error, thread in seen)


def test_closing_and_waiting_calls_inside_a_callback_are_refused(
    connection: Connection, session: Session, orders: Queue
) -> None:
    """SEND-9: they would wait for themselves."""
    transacted = connection.create_session(AcknowledgeMode.TRANSACTED)
    producer = session.create_producer(orders)
    refused: list[str] = []

    def inside(message: Message, error: Exception | None) -> None:
        for name, call in {
            "producer.close": producer.close,
            "session.close": session.close,
            "connection.close": connection.close,
            "flush": producer.flush,
            "commit": transacted.commit,
            "rollback": transacted.rollback,
        }.items():
            try:
                call()
            except errors.IllegalStateError:
                refused.append(name)

    producer.send("a", on_completion=inside)
    producer.flush()
    assert refused == ["producer.close", "session.close", "connection.close", "flush", "commit", "rollback"]


def test_a_producer_that_another_thread_closes_said_nothing_inside_a_callback(session: Session, orders: Queue) -> None:
    """SEND-9: as if the callbacks that it waits for had all run."""
    producer = session.create_producer(orders)
    refused: list[errors.IllegalStateError] = []

    def inside(message: Message, error: Exception | None) -> None:
        eventually(lambda: producer.is_closed, "the other thread's close")
        try:
            producer.close()
        except errors.IllegalStateError as refusal:
            refused.append(refusal)

    producer.send("a", on_completion=inside)
    Aside(producer.close).result()
    assert [str(each) for each in refused] == ["producer.close() inside a completion callback would wait for itself"]


@pytest.mark.parametrize("call", ["producer.close", "session.close", "connection.close", "commit", "rollback"])
def test_what_ends_something_waits_for_callbacks(warm: ConnectionFactory, orders: Queue, call: str) -> None:
    """SEND-9: it returns after the last callback."""
    may_end = threading.Event()
    ended: list[object] = []

    def last(message: Message, error: Exception | None) -> None:
        assert may_end.wait(SOON_S)
        ended.append(message.body)

    with warm.create_connection() as connection:
        session, transacted = connection.create_session(), connection.create_session(AcknowledgeMode.TRANSACTED)
        producer = session.create_producer(orders)
        producer.send("a", on_completion=last)
        calls = {
            "producer.close": producer.close,
            "session.close": session.close,
            "connection.close": connection.close,
            "commit": transacted.commit,
            "rollback": transacted.rollback,
        }

        def ended_at_return() -> list[object]:
            calls[call]()
            return list(ended)

        waiting = Aside(ended_at_return)
        waiting._thread.join(0.3)
        assert waiting.is_running
        may_end.set()
        assert waiting.result() == ["a"]


def test_a_message_too_large_is_refused_and_later_ones_go(
    connection: Connection, session: Session, orders: Queue
) -> None:
    """SEND-4: the failed send raises; the message is not there."""
    producer = session.create_producer(orders)
    body = os.urandom(3_000_000)  # what compresses well may fit after all
    with pytest.raises(errors.MessageTooLargeError, match="larg"):
        producer.send(body, unit_of_order="u")
    told: list[Exception | None] = []
    producer.send(body, on_completion=lambda m, e: told.append(e))
    producer.send("b", unit_of_order="u")
    producer.flush()
    assert left(connection, orders) == ["b"]
    assert [type(error) for error in told] == [errors.MessageTooLargeError]


def test_non_persistent_messages_arrive_and_say_what_they_are(session: Session, orders: Queue) -> None:
    """Of SEND-2: the same producer, not waited for."""
    producer = session.create_producer(orders)
    producer.delivery_mode = DeliveryMode.NON_PERSISTENT
    producer.send("a")
    assert receive(session.create_consumer(orders)).delivery_mode is DeliveryMode.NON_PERSISTENT


def test_an_expired_message_goes_to_the_expiry_queue(connection: Connection, session: Session, orders: Queue) -> None:
    """SEND-5, REDELIVER-8, of UNIT-15: never handed over; its coordinates, unit and expiry are kept."""
    sent = session.create_producer(orders).send("late", time_to_live_ms=1, unit_of_order="u", properties={"n": 7})
    send(session, orders, "next", unit="u")
    consumer = session.create_consumer(orders)
    assert receive(consumer).body == "next"
    assert consumer.receive(NOTHING_S) is None
    [copy] = copies(connection, EXPIRED, of=orders)
    assert (copy.body, copy.unit_of_order, copy.properties["n"]) == ("late", "u", 7)
    assert copy.properties["_JBM_ORIG_MESSAGE_ID"] == sent.message_id
    assert int(str(copy.properties["_JBM_ACTUAL_EXPIRY"])) >= sent.expiration
    assert copy.expiration == 0


def test_an_expired_message_is_removed_without_an_expiry_address(
    connection: Connection, session: Session, orders: Queue
) -> None:
    """SEND-5: or is removed."""
    queue = Queue(f"{orders.name}.removed")
    session.create_producer(queue).send("late", time_to_live_ms=1, unit_of_order="u")
    send(session, queue, "next", unit="u")
    consumer = session.create_consumer(queue)
    assert receive(consumer).body == "next"
    assert consumer.receive(NOTHING_S) is None
    eventually(lambda: left(connection, queue) == [], "it is still there")
    assert copies(connection, EXPIRED, of=queue) == []


def test_a_message_that_expires_unread_in_a_buffer_is_not_handed_over(
    connection: Connection, session: Session, orders: Queue
) -> None:
    """SEND-5: prefetched in time, asked for too late."""
    producer = session.create_producer(orders)
    client = connection.create_session(AcknowledgeMode.CLIENT)
    consumer = client.create_consumer(orders)
    for _ in range(8):  # the credit grows with the pace, so that the last ones are prefetched
        send(session, orders, "pace", unit="u")
    receive_all(consumer, 8)
    client.acknowledge()
    producer.send("late", time_to_live_ms=300, unit_of_order="u")
    send(session, orders, "next", unit="u")
    deadline = time.time() * 1000 + 400
    assert threading.Event().wait(0.4) is False
    assert time.time() * 1000 >= deadline - 50
    assert receive(consumer).body == "next"


@pytest.mark.parametrize("mode", [AcknowledgeMode.CLIENT, AcknowledgeMode.TRANSACTED])
def test_a_message_that_expires_behind_an_unfinished_one_holds_back_nothing(
    connection: Connection, session: Session, orders: Queue, mode: AcknowledgeMode
) -> None:
    """SEND-5, UNIT-3: the session gets what follows at once, and again after recover or rollback."""
    client = connection.create_session(mode)
    consumer = client.create_consumer(orders)
    send(session, orders, "first", unit="u")
    assert receive(consumer).body == "first"
    late = TextMessage("late")
    session.create_producer(orders).send(late, time_to_live_ms=1, unit_of_order="u")
    send(session, orders, "next", unit="u")
    eventually(lambda: time.time_ns() // 10**6 > late.expiration, "its time is not over")
    assert receive(consumer).body == "next"
    eventually(lambda: bodies(copies(connection, EXPIRED, of=orders)) == ["late"], "it did not expire")
    if mode is AcknowledgeMode.CLIENT:
        client.recover()
    else:
        client.rollback()
    again = receive_all(consumer, 2)
    assert [(m.body, m.delivery_count) for m in again] == [("first", 2), ("next", 2)]
    if mode is AcknowledgeMode.CLIENT:
        client.acknowledge()
    else:
        client.commit()
    eventually(lambda: left(connection, orders) == [], "something is left")
    assert len(copies(connection, EXPIRED, of=orders)) == 1


def test_a_delivery_delay_holds_its_unit_and_no_other(session: Session, orders: Queue) -> None:
    """SEND-6, of UNIT-4: not before its time, counted from the send."""
    queue = Queue(f"{orders.name}.one")
    consumer = session.create_consumer(queue)
    send(session, queue, "first")
    assert receive(consumer).body == "first"  # to join may take longer than the delay lasts
    begin_ms = time.time_ns() // 1_000_000
    session.create_producer(queue).send("a1", delivery_delay_ms=2000, unit_of_order="a")
    send(session, queue, "a2", unit="a")
    send(session, queue, "b1", unit="b")
    got = receive_all(consumer, 3)
    assert bodies(got) == ["b1", "a1", "a2"]
    assert time.time_ns() // 1_000_000 - begin_ms >= 2000
    assert got[1].delivery_time > got[1].timestamp


def test_priority_orders_the_heads_of_units_and_nothing_within_one(session: Session, orders: Queue) -> None:
    """SEND-7, of UNIT-6: the higher first among what is deliverable."""
    queue = Queue(f"{orders.name}.one")
    producer = session.create_producer(queue)
    for body, unit, priority in (("a1", "a", 1), ("a2", "a", 9), ("b1", "b", 5), ("c1", None, 8), ("d1", None, 4)):
        producer.send(body, unit_of_order=unit, priority=priority)
    got = receive_all(session.create_consumer(queue, prefetch=1), 5)
    assert bodies(got) == ["c1", "b1", "d1", "a1", "a2"]
    assert [m.priority for m in got] == [8, 5, 4, 1, 9]


def test_priorities_decided_in_each_partition_alone(session: Session, connection: Connection, orders: Queue) -> None:
    """SEND-7: with a unit each, five messages came as their partitions did."""
    producer = session.create_producer(orders)
    for number, priority in enumerate((1, 9, 4, 2, 8, 0, 6)):
        producer.send(str(priority), unit_of_order=f"u{number}", priority=priority)
    consumer = session.create_consumer(orders, prefetch=1)
    worker = consumer._link.group_worker
    assert isinstance(worker, GroupWorker)
    eventually(lambda: worker.turn.fetching.ahead() == 7, "they are not read ahead")
    assert bodies(receive_all(consumer, 7)) == ["9", "8", "6", "4", "2", "1", "0"]


def test_messages_without_a_unit_keep_the_order_of_their_session(session: Session, orders: Queue) -> None:
    """ORDER-1: one session, one order."""
    send(session, orders, *(f"m{number}" for number in range(20)))
    assert bodies(receive_all(session.create_consumer(orders), 20)) == [f"m{number}" for number in range(20)]


def test_sends_that_are_waited_for_and_sends_with_callbacks_reach_the_queue_in_send_order(
    session: Session, orders: Queue
) -> None:
    """ORDER-1: one session and one unit, whichever way each message is sent."""
    failures: list[Exception] = []

    def tell(_: Message, error: Exception | None) -> None:
        if error is not None:
            failures.append(error)

    producer = session.create_producer(orders)
    for number in range(300):
        on_completion = tell if number % 3 or number % 50 > 40 else None
        producer.send(f"m{number}", unit_of_order="u", on_completion=on_completion)
        producer.send(f"n{number}", on_completion=None if on_completion else tell)
    producer.flush()
    found = [str(body) for body in bodies(receive_all(session.create_consumer(orders), 600))]
    for kind in "mn":
        assert [body for body in found if body[0] == kind] == [f"{kind}{number}" for number in range(300)]
    assert not failures


@pytest.mark.kafka_only
def test_a_send_does_not_wait_behind_what_another_session_has_under_way(
    connection: Connection, session: Session, orders: Queue
) -> None:
    """SEND-1, ORDER-1: it is confirmed while nothing is reported of a thousand earlier ones of the same partition."""
    queue = Queue(f"{orders.name}.one")
    producer, reported, may_report = session.create_producer(queue), list[object](), threading.Event()

    def report(error: object) -> None:
        assert may_report.wait(30)
        reported.append(error)

    producer.send("its way is open")
    provider = connection._core.provider
    record = Outgoing(provider.ensure(queue).topic, 0, b"u", b"x" * 100)
    for _ in range(1_000):
        provider.send(record, report, is_waited_for=False)
    producer.send("waited for", unit_of_order="u")
    assert not reported
    may_report.set()
    producer.flush()
    assert reported == [None] * 1_000


@pytest.mark.parametrize("unit", [None, "u"])
def test_sends_one_after_the_other_on_several_threads_and_of_one_transaction_keep_their_order(
    connection: Connection, session: Session, orders: Queue, unit: str | None
) -> None:
    """ORDER-1: it is the session that has an order, whichever thread uses it."""
    names = [f"m{number}" for number in range(12)]
    transacted = connection.create_session(AcknowledgeMode.TRANSACTED)
    for name in names[:6]:
        Aside(partial(send, transacted, orders, name, unit=unit)).result()
    send(transacted, orders, *names[6:], unit=unit)
    transacted.commit()
    consumer = session.create_consumer(orders)
    assert bodies(receive_all(consumer, 12)) == names
    for name in names:
        Aside(partial(send, transacted, orders, name, unit=unit)).result()
        transacted.commit()
    assert bodies(receive_all(consumer, 12)) == names


def test_spread_uses_every_partition(session: Session, orders: Queue) -> None:
    producer = session.create_producer(orders)
    producer.spread = True
    for number in range(4):
        producer.send(f"m{number}")
    got = receive_all(session.create_consumer(orders), 4)
    assert {m.kafka.partition for m in got if m.kafka is not None} == {0, 1}


def test_a_received_message_can_be_sent_on(session: Session, orders: Queue) -> None:
    target = Queue(f"{orders.name}.out")
    message = TextMessage("a")
    message.properties["n"] = 1
    session.create_producer(orders).send(message, unit_of_order="joe", correlation_id="c", reply_to=target, type="t")
    got = receive(session.create_consumer(orders))
    session.create_producer(target).send(got)
    again = receive(session.create_consumer(target))
    assert (again.body, again.properties["n"], again.unit_of_order) == ("a", 1, "joe")
    assert (again.correlation_id, again.reply_to, again.type, again.destination) == ("c", target, "t", target)
    assert again.message_id == got.message_id
    with pytest.raises(errors.MessageNotWriteableError):
        again.set_int_property("n", 2)


@pytest.mark.kafka_only
@pytest.mark.parametrize("stamped_by", ["CreateTime", "LogAppendTime"])
def test_the_time_of_sending_is_kept_where_brokers_stamp_the_records(
    bootstrap: str, connection: Connection, session: Session, orders: Queue, stamped_by: str
) -> None:
    """Of MSG-1: JMSTimestamp is when it was sent; a header only where the record's own timestamp will not do."""
    queue = Queue(create_topic(bootstrap, orders.name, config={"message.timestamp.type": stamped_by}))
    with connection.create_session(AcknowledgeMode.TRANSACTED) as transacted:
        sent = [session.create_producer(queue).send("a"), transacted.create_producer(queue).send("b")]
        transacted.commit()
    producer = session.create_producer(queue)
    producer.disable_message_timestamp = True
    producer.send("c")
    got = receive_all(session.create_consumer(queue), 3)
    assert [message.timestamp for message in got[:2]] == [message.timestamp for message in sent]
    told = [[value for name, value in m.kafka.headers if name == "JMSTimestamp"] for m in got if m.kafka is not None]
    written = [[str(message.timestamp).encode()] for message in sent]
    assert told == ([*written, []] if stamped_by == "LogAppendTime" else [[], [], []])


def test_a_producer_without_a_destination_needs_one_for_each_send(session: Session, orders: Queue) -> None:
    producer = session.create_producer()
    producer.send("a", destination=orders)
    with pytest.raises(errors.InvalidDestinationError, match="destination"):
        producer.send("a")
    with pytest.raises(errors.IllegalStateError, match="without a destination"):
        session.create_producer(orders).send("a", destination=Queue("other"))
    with pytest.raises(errors.MessageFormatError, match="message is Queue"):
        producer.send(orders, destination=orders)  # type: ignore[arg-type]
    producer.close()
    with pytest.raises(errors.IllegalStateError, match="closed"):
        producer.send("a", destination=orders)


def test_a_setting_that_does_not_exist_is_refused_and_the_others_stay(session: Session, orders: Queue) -> None:
    """Misspelt, it would be ignored by every send."""
    producer = session.create_producer(orders)
    with pytest.raises(AttributeError, match=r"no 'time_to_live'; .*; did you mean 'time_to_live_ms'\?$"):
        producer.time_to_live = 5  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"no 'xyz'; its settings are [a-z_, ]*$"):
        producer.xyz = 5  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="destination"):
        producer.destination = Queue("other")  # type: ignore[misc]
    producer.priority = 9
    assert (producer.priority, session.create_producer(orders).priority) == (9, 4)
    producer.delivery_mode = 1  # type: ignore[assignment]
    assert producer.delivery_mode is DeliveryMode.NON_PERSISTENT
    producer.close()
    with pytest.raises(errors.IllegalStateError, match="priority of a closed MessageProducer"):
        producer.priority = 3


def test_a_setting_that_a_context_its_producer_or_its_factory_does_not_have_is_refused() -> None:
    factory = ConnectionFactory("memory://misspelt")
    with factory.create_context() as context:
        for owner in (factory, context, context.create_producer(), context._connection, context._session):
            with pytest.raises(AttributeError, match="has no attribute 'priorty'"):
                owner.priorty = 9  # type: ignore[union-attr]
        producer = context.create_producer()
        producer.priority = 9
        assert producer.send(Queue("orders"), "a").priority == 9


def test_a_closed_producer_was_said_to_be_in_use_by_the_listener_of_its_session(
    connection: Connection, orders: Queue
) -> None:
    session = connection.create_session()
    session.create_consumer(orders).set_listener(lambda message: None)
    producer = session.create_producer(orders)
    producer.close()
    with pytest.raises(errors.IllegalStateError, match=rf"^the producer of {orders} is closed; make a new one$"):
        producer.send("2 books")
