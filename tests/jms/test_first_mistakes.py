"""What a new user gets wrong in the first hour, each told with what is meant."""

import functools
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from jbm_kafka import AcknowledgeMode, ConnectionFactory, Message, Queue, TextMessage
from jbm_kafka.admin import Admin
from jbm_kafka.core.jms_errors import (
    IllegalStateError,
    InvalidDestinationError,
    InvalidSettingError,
    InvalidTypeError,
    JMSError,
    JMSSecurityError,
    TransactionInProgressError,
)
from jbm_kafka.testing.stopped_clock import StoppedClock
from tests.jms.support import eventually
from tests.support.waiting import in_time

ORDERS = Queue("orders")


@pytest.fixture
def nothing_made() -> Iterator[ConnectionFactory]:
    """A world with the queue `orders`, whose other connections make none."""
    with ConnectionFactory("memory://first").create_connection() as connection:
        connection.create_session().create_producer(ORDERS).send("an order")
        yield ConnectionFactory("memory://first", state_dir="another", auto_create=False)


def test_a_misspelt_queue_got_no_did_you_mean(nothing_made: ConnectionFactory) -> None:
    """In send and in receive; and nobody is told a command that does not reach the memory of this process."""
    with nothing_made.create_connection() as connection:
        session = connection.create_session()
        for use in (
            lambda: session.create_consumer(Queue("ordres")),
            lambda: session.create_producer().send("x", destination=Queue("ordres")),
        ):
            with pytest.raises(
                InvalidDestinationError, match=r"no Kafka topic 'ordres'; did you mean 'orders'\?"
            ) as told:
                use()
            assert "auto_create=True" in str(told.value)
            assert "jbm-kafka" not in str(told.value)
        with pytest.raises(InvalidDestinationError, match="no Kafka topic 'letters'; make it"):
            session.create_consumer(Queue("letters"))


def test_a_misspelt_kafka_property_names_the_likely_one() -> None:
    with pytest.raises(InvalidSettingError, match=r"'compression\.type' is meant, probably") as told:
        ConnectionFactory("localhost:1", kafka={"compresion.type": "zstd"}).create_connection()
    assert "compresion.type" in str(told.value)


def nothing() -> None:
    """A listener that takes no argument."""


def both(message: Message, session: object) -> None:
    """A listener that wants too much."""


def both_or_one(message: Message, more: object = None) -> None:
    """A listener with one argument more that has a default."""


class Handler:
    """One whose method is a listener."""

    def on_message(self, message: Message) -> None: ...

    def done(self) -> None: ...


def test_a_listener_that_takes_no_message_was_heard_of_at_the_first_message_only() -> None:
    with ConnectionFactory("memory://listener").create_connection() as connection:
        consumer = connection.create_session().create_consumer(ORDERS)
        for wrong in (nothing, both, Handler().done):
            with pytest.raises(InvalidTypeError, match=r"as listener\(message\).*write: def listener\(message\)"):
                consumer.set_listener(wrong)  # type: ignore[arg-type]
        with pytest.raises(InvalidTypeError, match=r"def exception_listener\(error\)"):
            connection.exception_listener = nothing  # type: ignore[assignment]
        seen: list[Message] = []
        rights: list[Callable[[Message], object] | None] = [Handler().on_message, print, seen.append, both_or_one, None]
        for right in rights:
            consumer.set_listener(right)


def test_a_completion_callback_that_cannot_be_called_was_a_traceback_in_the_log_at_each_send() -> None:
    def told(message: Message, error: Exception | None) -> None:
        outcomes.append(error)

    @functools.wraps(nothing)
    def decorated(*arguments: object) -> None:
        outcomes.append(None)

    outcomes: list[Exception | None] = []
    with ConnectionFactory("memory://completion").create_connection() as connection:
        producer = connection.create_session().create_producer(ORDERS)
        for wrong in (nothing, Handler().done, lambda message: None):
            for _ in range(2):
                with pytest.raises(InvalidTypeError, match=r"def on_completion\(message, error\)"):
                    producer.send("x", on_completion=wrong)  # type: ignore[arg-type]
        rights: list[Callable[[Message, Exception | None], object]] = [
            told,
            decorated,
            functools.partial(told),
            functools.partial(lambda more, message, error: told(message, error), 1),
            told,
        ]
        for right in rights:
            producer.send("x", on_completion=right)
        producer.flush()
        assert outcomes == [None] * len(rights)


def test_a_time_out_of_milliseconds_looked_like_a_hang(caplog: pytest.LogCaptureFixture) -> None:
    with ConnectionFactory("memory://long").create_connection() as connection:
        session = connection.create_session()
        producer, consumer = session.create_producer(ORDERS), connection.create_session().create_consumer(ORDERS)
        with ThreadPoolExecutor() as threads:
            for _ in range(2):
                received = threads.submit(consumer.receive, 5_000)
                eventually(
                    lambda: "a receive waits up to 5000 s: time-outs are seconds here" in caplog.text, "the word"
                )
                producer.send("x")
                assert received.result(timeout=10) is not None
        assert caplog.text.count("time-outs are seconds") == 1


def test_in_memory_an_admin_was_told_a_command_that_does_not_reach_it() -> None:
    said = r"Admin.destinations\(\) tells which there are"
    with Admin("memory://admin-of-nothing") as admin, pytest.raises(InvalidDestinationError, match=said):
        admin.counts("nope")


def test_a_compression_that_there_is_not_names_those_that_there_are() -> None:
    with pytest.raises(InvalidSettingError, match="it is none, gzip, snappy, lz4 or zstd"):
        ConnectionFactory("localhost:1", kafka={"compression.type": "zip"})


def test_a_name_as_in_java_or_of_another_client_was_a_bare_attribute_error() -> None:
    factory = ConnectionFactory("memory://names")
    with factory.create_connection() as connection, factory.create_context() as jms, Admin("memory://names") as admin:
        session = connection.create_session()
        for owner, written, meant in (
            (factory, "createConnection", "create_connection"),
            (connection, "createSession", "create_session"),
            (connection, "setExceptionListener", "exception_listener"),
            (connection, "setClientID", "client_id"),
            (session, "createProducer", "create_producer"),
            (session, "createTextMessage", "create_text_message"),
            (session, "getAcknowledgeMode", "acknowledge_mode"),
            (jms, "createConsumer", "create_consumer"),
            (StoppedClock(0, wait_idle=lambda: None), "sleep", "advance"),
            (admin, "exist", "exists"),
            (admin, "createQueue", "create_queue"),
            (TextMessage("x"), "ack", "acknowledge"),
            (TextMessage("x"), "getText", "body"),
            (TextMessage("x"), "text", "body"),
            (TextMessage("x"), "getJMSMessageID", "message_id"),
            (TextMessage("x"), "JMSReplyTo", "reply_to"),
            (TextMessage("x"), "getStringProperty", "get_string_property"),
            (TextMessage("x"), "acknowlege", "acknowledge"),
            (TextMessage("x"), "reject", "nack"),
            (session.create_consumer(ORDERS), "poll", "receive"),
            (session.create_producer(ORDERS), "publish", "send"),
        ):
            with pytest.raises(AttributeError, match=f"has no attribute '{written}'; '{meant}' is meant, probably$"):
                getattr(owner, written)
        assert not hasattr(session, "_nothing")


def test_what_a_session_has_was_looked_for_at_its_producer_and_its_consumer() -> None:
    """Python's own words were all that was said: 'MessageProducer' object has no attribute 'commit'."""
    with ConnectionFactory("memory://holders").create_connection() as connection:
        session = connection.create_session()
        owners: tuple[Any, ...] = (session.create_producer(ORDERS), session.create_consumer(ORDERS))
        for owner in owners:
            said = rf"^a {type(owner).__name__} has no attribute 'commit': a session has it, and a context$"
            with pytest.raises(AttributeError, match=said):
                owner.commit()
            with pytest.raises(AttributeError, match="has no attribute 'acknowledge': a received message has it"):
                owner.acknowledge()
            assert not hasattr(owner, "rollback")
            assert not hasattr(type(owner), "rollback")
            assert "rollback" not in dir(owner)
            assert "close" in dir(owner)


def test_a_factory_that_was_closed_did_not_tell_what_to_close() -> None:
    factory: Any = ConnectionFactory("memory://holders")
    closing = "a connection has it, and a context; closing one closes all that was made by it$"
    for written, told in (
        ("close", f": {closing}"),
        ("shutdown", f"; 'close' is meant, probably: {closing}"),
        ("closed", "; 'is_closed' is meant, probably: a connection has it, and a context, and what is made by them$"),
        ("start", ": a connection has it, and a context$"),
        ("status", "$"),
    ):
        with pytest.raises(AttributeError, match=f"^a ConnectionFactory has no attribute '{written}'{told}"):
            getattr(factory, written)


def test_a_factory_in_a_with_says_what_is_for_that() -> None:
    """It said that it does not support the context manager protocol."""
    factory: Any = ConnectionFactory("memory://entered")
    said = r"^a ConnectionFactory is not for `with`: write `with factory.create_connection\(\) as connection:`"
    with pytest.raises(TypeError, match=said), factory:
        pass


def test_a_listener_that_was_assigned_had_no_setter_and_no_remedy() -> None:
    with ConnectionFactory("memory://listener").create_connection() as connection:
        consumer = connection.create_session().create_consumer(ORDERS)
        with pytest.raises(AttributeError, match=r"is set by a call: set_listener\(<built-in function print>\)"):
            consumer.listener = print  # type: ignore[misc]


def test_properties_that_were_assigned_had_no_setter_and_no_remedy() -> None:
    with pytest.raises(AttributeError, match=r"^properties of a TextMessage cannot be replaced: fill them, .*update"):
        TextMessage("x").properties = {"a": 1}  # type: ignore[misc, assignment]


def test_a_transaction_inside_a_transaction_committed_half_of_the_outer_one() -> None:
    with ConnectionFactory("memory://nested").create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.TRANSACTED)
        producer = session.create_producer(ORDERS)

        def nested() -> None:
            with session.transaction():
                producer.send("first")
                with session.transaction():
                    producer.send("second")

        with pytest.raises(TransactionInProgressError, match="leave the inner one out"):
            nested()
        with session.transaction():  # and another one may follow
            producer.send("third")
        consumer = connection.create_session().create_consumer(ORDERS)
        found = [message.body for message in (consumer.receive(1), consumer.receive(0)) if message is not None]
        assert found == ["third"]
    with pytest.raises(IllegalStateError), session.transaction():
        pass


def test_a_commit_inside_a_transaction_block_stayed_when_the_block_rolled_back() -> None:
    with ConnectionFactory("memory://half").create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.TRANSACTED)
        producer = session.create_producer(ORDERS)

        def half() -> None:
            with session.transaction():
                producer.send("half")
                session.commit()

        with pytest.raises(TransactionInProgressError, match="the end of the block commits"):
            half()
        with session.transaction():
            producer.send("dropped")
            session.rollback()  # who drops it all may, and go on
            producer.send("whole")
        producer.send("alone")
        session.commit()
        consumer = connection.create_session().create_consumer(ORDERS)
        found = [message.body for message in iter(lambda: consumer.receive(1), None)]
        assert sorted(found) == ["alone", "whole"]


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"SSH-2.0-OpenSSH_9.2p1\r\n"])
def test_a_port_of_another_server_took_ten_seconds_and_gave_no_remedy(answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(1)
                    connection.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()

        def refusal() -> str:
            with pytest.raises(JMSError, match=r"does not speak Kafka: .*name the address of a Kafka broker") as told:
                ConnectionFactory(f"127.0.0.1:{server.getsockname()[1]}").create_connection()
            assert not isinstance(told.value, JMSSecurityError)  # no credentials would do
            return str(told.value)

        assert repr(answer[:4].decode()) in in_time(refusal, 5)
