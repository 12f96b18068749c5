"""What applications call of connections and sessions while Kafka does not answer: calls as of outage_calls.py."""

from collections.abc import Callable

from jbm_kafka import AcknowledgeMode, Message, Queue, Topic
from jbm_kafka.errors import IllegalStateError, JMSError
from jbm_kafka.jms.consumer import MessageConsumer
from jbm_kafka.jms.session import Session
from tests.support.chaos_topics import lag_of
from tests.support.outage_calls import LOOK_S, SOON_S, WAITS_S, Bench, Call, received
from tests.support.waiting import wait_until

TEXTS = [f"u{number}" for number in range(8)]


def _is(value: object) -> Callable[[object], None]:
    def judge(returned: object) -> None:
        assert returned == value, returned

    return judge


def connect(bench: Bench) -> Call:
    """Refused within its time, or made; what was made works."""

    def judge(returned: object) -> None:
        assert returned == "a", returned

    def make() -> object:
        with bench.connect(namespace="anew") as connection, connection.create_session() as session:
            consumer = session.create_consumer(Queue("connect"))
            session.create_producer(Queue("connect")).send("a")
            return received(consumer).body

    return Call(make, judge, is_repeatable=True)


def close_a_connection(bench: Bench) -> Call:
    """What it held comes again."""
    queue = bench.filled("close-connection", "a")
    connection = bench.connect()
    connection.start()
    received(connection.create_session(AcknowledgeMode.CLIENT).create_consumer(queue))

    def judge(returned: object) -> None:
        assert returned is None, returned
        assert bench.left(queue) == ["a"]

    return Call(connection.close, judge)


def stop_and_start(bench: Bench) -> Call:
    """Nothing comes while it is stopped; all of it afterwards."""
    queue = bench.filled("stop-start", "a", "b")
    connection = bench.connect()
    connection.start()
    session = connection.create_session(AcknowledgeMode.CLIENT)
    consumer = session.create_consumer(queue)
    assert received(consumer).body == "a"

    def make() -> None:
        connection.stop()
        assert consumer.receive(LOOK_S) is None
        connection.start()

    def judge(returned: object) -> None:
        assert returned is None, returned
        connection.close()
        assert bench.left(queue) == ["a", "b"]

    return Call(make, judge)


def send_to_a_new_queue(bench: Bench) -> Call:
    """It is made by the first send that gets through; the message is there once."""
    producer = bench.session().create_producer()

    def judge(returned: object) -> None:
        assert not isinstance(returned, Exception), returned
        assert bench.left(Queue("new")) in (["a"], ["a", "a"])  # the first may have been written as well

    return Call(lambda: producer.send("a", destination=Queue("new")), judge, is_repeatable=True)


def nack(bench: Bench) -> Call:
    """It comes again, as an attempt, before what is behind it."""
    queue = bench.filled("nack", "a", "b")
    session = bench.session(AcknowledgeMode.INDIVIDUAL)
    consumer = session.create_consumer(queue)
    message = received(consumer)

    def judge(returned: object) -> None:
        assert returned is None, returned
        again = received(consumer)
        assert (again.body, again.redelivered) == ("a", True)
        session.close()
        assert bench.left(queue) == ["a", "b"]

    return Call(lambda: message.nack(delay_ms=0), judge)


def acknowledge_a_session(bench: Bench) -> Call:
    """ACK-9: finished in the end; what is not recorded comes again, marked."""
    queue = bench.filled("ack-session", "a", "b")
    session = bench.session(AcknowledgeMode.CLIENT)
    consumer = session.create_consumer(queue, prefetch=2)
    assert [received(consumer).body, received(consumer).body] == ["a", "b"]

    def judge(returned: object) -> None:
        assert not isinstance(returned, Exception) or isinstance(returned, IllegalStateError), returned
        session.close()
        assert bench.left(queue) in ([], ["a", "b"])

    return Call(session.acknowledge, judge)


def commit_a_block(bench: Bench) -> Call:
    """Of ACK-7, by `transaction()`: both or neither."""
    target = bench.filled("block")
    session = bench.session(AcknowledgeMode.TRANSACTED)
    producer = session.create_producer(target)

    def make() -> None:
        with session.transaction():
            producer.send("a")
            producer.send("b")

    def judge(returned: object) -> None:
        session.close()
        found = bench.in_log(target.name)
        assert found in ({}, {"a": 1, "b": 1}), found
        assert found or isinstance(returned, Exception), returned

    return Call(make, judge)


def _drain(bench: Bench, session: Session, queue: Queue, consumer: MessageConsumer, seen: list[Message]) -> None:
    """Receive until the queue holds nothing."""

    def is_empty() -> bool:
        message = consumer.receive(LOOK_S)
        if message is not None:
            seen.append(message)
        return message is None and lag_of(bench.bootstrap, queue.name) == 0

    wait_until(is_empty, about=f"{queue} empty, after {[m.body for m in seen]}", timeout_s=SOON_S)
    session.close()


def _receive_on(name: str, mode: AcknowledgeMode) -> Callable[[Bench], Call]:
    """Of ACK-3, ACK-4, ACK-5 and ACK-9: nothing is lost; what comes twice is marked, and a unit is in order."""

    def call(bench: Bench) -> Call:
        queue = bench.filled(name, *TEXTS)
        session = bench.session(mode)
        consumer = session.create_consumer(queue, prefetch=3)
        seen = [received(consumer)]

        def make() -> None:
            while len({message.body for message in seen}) < len(TEXTS):
                message = consumer.receive(WAITS_S)
                assert message is not None, [each.body for each in seen]
                seen.append(message)

        def judge(returned: object) -> None:
            assert not isinstance(returned, Exception), returned
            if mode is AcknowledgeMode.DUPS_OK:
                consumer.receive(LOOK_S)  # asks for the next: the last one is done with
                session.close()
                found = bench.left(queue)
                assert found == TEXTS[len(TEXTS) - len(found) :], found
            else:
                _drain(bench, session, queue, consumer, seen)
            texts = [str(message.body) for message in seen]
            assert list(dict.fromkeys(texts)) == TEXTS, texts
            for index, message in enumerate(seen):
                assert message.redelivered or message.body not in texts[:index], texts

        return Call(make, judge)

    call.__name__ = f"receive_on_{mode.name}"
    return call


def set_a_listener(bench: Bench) -> Call:
    queue = bench.filled("set-listener", *TEXTS)
    session = bench.session()
    consumer = session.create_consumer(queue)
    heard: list[object] = []

    def judge(returned: object) -> None:
        assert returned is None, returned
        wait_until(lambda: set(TEXTS) <= set(heard), about=f"all of {TEXTS}: {heard}", timeout_s=SOON_S)
        session.close()
        assert list(dict.fromkeys(heard)) == TEXTS, heard

    return Call(lambda: consumer.set_listener(lambda message: heard.append(message.body)), judge)


def receive_a_body(bench: Bench) -> Call:
    queue = bench.filled("body", "a")
    consumer = bench.session().create_consumer(queue)
    return Call(lambda: consumer.receive_body(str, timeout=WAITS_S), _is("a"))


def _subscribe(name: str, make_consumer: Callable[[Session, Topic], MessageConsumer]) -> Callable[[Bench], Call]:
    """It begins when it returned, not before it was called."""

    def call(bench: Bench) -> Call:
        topic, session, sender = Topic(name), bench.session(), bench.session()
        sender.create_producer(topic).send("before")

        def make() -> object:
            consumer = make_consumer(session, topic)
            sender.create_producer(topic).send("after")
            return received(consumer).body

        return Call(make, _is("after"), is_repeatable=True)

    call.__name__ = name.replace("-", "_")
    return call


def browse_all(bench: Bench) -> Call:
    """UNIT-13: merged over partitions, with what is in a hand."""
    bench.admin.create_queue("browse-all", partitions=3)
    queue = Queue("browse-all")
    with bench.session() as session, session.create_producer(queue) as producer:
        for text in ("a", "b", "c", "d"):
            producer.send(text, unit_of_order=text)
    holder = bench.session(AcknowledgeMode.CLIENT)
    received(holder.create_consumer(queue, prefetch=1))
    session = bench.session()

    def make() -> object:
        with session.create_browser(queue, include="all") as browser:
            return sorted(str(message.body) for message in browser)

    def judge(returned: object) -> None:
        assert returned == ["a", "b", "c", "d"], returned
        holder.close()

    return Call(make, judge, is_repeatable=True)


def create_a_temporary_queue(bench: Bench) -> Call:
    """TEMP-1."""
    session = bench.session()

    def make() -> object:
        queue = session.create_temporary_queue()
        consumer = session.create_consumer(queue)
        session.create_producer(queue).send("a")
        return received(consumer).body

    return Call(make, _is("a"), is_repeatable=True)


def send_to_a_temporary_queue(bench: Bench) -> Call:
    """TEMP-1: one that is there goes on; what was confirmed comes."""
    session, sender = bench.session(), bench.session().create_producer()
    queue = session.create_temporary_queue()
    consumer = session.create_consumer(queue)
    sender.send("before", destination=queue)
    assert received(consumer).body == "before"

    def make() -> object:
        sender.send("a", destination=queue)
        return received(consumer).body

    return Call(make, _is("a"), is_repeatable=True)


def delete_a_temporary_topic(bench: Bench) -> Call:
    """Gone for those who send, whatever the call says."""
    session, sender = bench.session(), bench.session().create_producer()
    topic = session.create_temporary_topic()

    def judge(returned: object) -> None:
        assert not isinstance(returned, Exception), returned
        try:
            sender.send("a", destination=topic)
        except JMSError:
            return
        raise AssertionError("it is there")

    return Call(topic.delete, judge, is_repeatable=True)


SESSION_CALLS: tuple[Callable[[Bench], Call], ...] = (
    *(connect, close_a_connection, stop_and_start, send_to_a_new_queue, nack, acknowledge_a_session, commit_a_block),
    _receive_on("dups-ok", AcknowledgeMode.DUPS_OK),
    _receive_on("pre", AcknowledgeMode.PRE),
    _receive_on("no", AcknowledgeMode.NO),
    *(set_a_listener, receive_a_body, browse_all),
    _subscribe("subscribe-alone", lambda session, topic: session.create_consumer(topic)),
    _subscribe("subscribe-shared", lambda session, topic: session.create_shared_consumer(topic, "shared")),
    _subscribe("subscribe-durable", lambda session, topic: session.create_shared_durable_consumer(topic, "kept")),
    *(create_a_temporary_queue, send_to_a_temporary_queue, delete_a_temporary_topic),
)
