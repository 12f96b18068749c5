"""A misspelt setting is refused where it is set; without a broker."""

from __future__ import annotations

import pytest

from jbm_kafka import ConnectionFactory, Queue, TextMessage, errors
from jbm_kafka.admin import Admin
from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.consumer import MessageConsumer
from jbm_kafka.jms.context import Context
from jbm_kafka.jms.known_attributes import known_attributes, take_no_other
from jbm_kafka.jms.producer import MessageProducer
from jbm_kafka.jms.session import Session
from jbm_kafka.testing.memory_world import MemoryWorld


@known_attributes()
class Producer:
    def __init__(self) -> None:
        self.time_to_live_ms = 0
        self.priority = 4
        take_no_other(self)


@pytest.mark.parametrize(
    ("name", "likely"), [("time_to_live", "time_to_live_ms"), ("prioritty", "priority"), ("priority_", "priority")]
)
def test_an_unknown_attribute_is_refused_and_names_the_likely_one(name: str, likely: str) -> None:
    producer = Producer()
    with pytest.raises(AttributeError, match=f"a Producer has no attribute {name!r}; {likely!r} is meant, probably"):
        setattr(producer, name, 5)
    setattr(producer, likely, 5)
    assert getattr(producer, likely) == 5


def test_what_is_like_nothing_is_refused_without_a_guess() -> None:
    with pytest.raises(AttributeError, match=r"a Producer has no attribute 'xyz'$"):
        Producer().xyz = 5  # type: ignore[attr-defined]


def test_what_applications_set_attributes_of_takes_known_ones_only() -> None:
    for each in (MessageProducer, Session, Connection, Context):
        assert "__setattr__" in vars(each)
    with pytest.raises(AttributeError, match="no attribute"):
        TextMessage("text").priorityy = 5  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("prefetch", r"^prefetch of a ConnectionFactory is given when it is made: ConnectionFactory\(…, prefetch=5\)$"),
        (
            "adress_settings",
            "given when it is made; it has no 'adress_settings'; 'address_settings' is meant",
        ),
        ("create_connection", "takes no attributes, its settings are given when it is made"),
    ],
)
def test_a_setting_that_was_assigned_to_a_factory_was_ignored(name: str, said: str) -> None:
    factory = ConnectionFactory("memory://assigned")
    with pytest.raises(AttributeError, match=said):
        setattr(factory, name, 5)


def test_a_setting_that_is_read_of_a_factory_looked_as_if_there_were_none() -> None:
    factory = ConnectionFactory("memory://assigned", client_id="me")
    with pytest.raises(AttributeError, match=r"^client_id of a ConnectionFactory is given when it is made, .* read$"):
        factory.client_id  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(AttributeError, match="has no attribute 'createContext'; 'create_context' is meant, probably"):
        factory.createContext  # type: ignore[attr-defined]  # noqa: B018
    assert not hasattr(factory, "_nothing")


def test_an_attribute_of_a_closed_producer_was_set_in_silence() -> None:
    with ConnectionFactory("memory://closed").create_connection() as connection:
        producer = connection.create_session().create_producer()
        producer.close()
        with pytest.raises(errors.IllegalStateError, match="priority of a closed MessageProducer"):
            producer.priority = 3


def set_by_another() -> None:
    """Somebody's listener."""


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        (
            "on_message",
            set_by_another,
            r"^on_message of a MessageConsumer is set by a call: set_listener\(<function set",
        ),
        ("listener", None, r"^listener of a MessageConsumer is set by a call: set_listener\(None\)$"),
        ("receive_timeout", 5, r"^receive_timeout of a MessageConsumer is set by a call: receive\(timeout=5\)$"),
        ("prefetch", 5, r"^prefetch of a MessageConsumer is set by a call: create_consumer\(…, prefetch=5\)$"),
        ("selctor", "a = 1", r"^a MessageConsumer has no attribute 'selctor'; 'selector' is meant, probably$"),
        ("send", None, r"^a MessageConsumer has no attribute 'send': a producer has it$"),
        ("destination", None, "^destination of a MessageConsumer can be read, and not set$"),
    ],
)
def test_what_was_set_of_a_consumer_did_nothing(name: str, value: object, said: str) -> None:
    with ConnectionFactory("memory://consumers-attributes").create_context() as context:
        consumer = context.create_consumer(Queue("orders"))
        with pytest.raises(AttributeError, match=said):
            setattr(consumer, name, value)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("selctor", "^a QueueBrowser has no attribute 'selctor'; 'selector' is meant, probably$"),
        ("selector", "^selector of a QueueBrowser can be read, and not set$"),
    ],
)
def test_what_was_set_of_a_browser_did_nothing(name: str, said: str) -> None:
    with (
        ConnectionFactory("memory://browsers-attributes").create_context() as context,
        pytest.raises(AttributeError, match=said),
    ):
        setattr(context.create_browser(Queue("orders")), name, "a = 1")


def test_what_was_set_of_an_admin_or_of_a_clock_of_tests_did_nothing() -> None:
    with MemoryWorld() as world, Admin(world.url) as admin:
        with pytest.raises(AttributeError):
            admin.timeout_s = 5  # type: ignore[attr-defined]
        with pytest.raises(AttributeError, match=r"^a StoppedClock has no attribute 'now'; 'now_ms' is meant"):
            world.clock.now = 5  # type: ignore[attr-defined]


def test_what_calls_a_consumers_listener_is_looked_for_at_a_consumer() -> None:
    with (
        ConnectionFactory("memory://on-message").create_context() as context,
        pytest.raises(AttributeError, match=r"no attribute 'on_message'; 'set_listener' is meant, probably: a"),
    ):
        context.create_producer().on_message = print  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("setMessageListener", "set_listener"),
        ("receiveNoWait", "receive_nowait"),
        ("basic_get", "receive"),
        ("recieve", "receive"),
        ("ttl", "time_to_live_ms"),
        ("setPriority", "priority"),
        ("put", "send"),
    ],
)
def test_names_of_jms_and_of_others_are_led_to_ours_at_consumers_and_producers(name: str, meant: str) -> None:
    with MemoryWorld() as world, world.factory().create_connection() as connection:
        session = connection.create_session()
        asked: object = session.create_consumer(Queue("orders"))
        if meant in ("time_to_live_ms", "priority", "send"):
            asked = session.create_producer(Queue("orders"))
        with pytest.raises(AttributeError, match=f"no attribute '{name}'; '{meant}' is meant, probably$"):
            getattr(asked, name)


@pytest.mark.parametrize("kind", [MessageConsumer, MessageProducer])
def test_help_lists_no_method_that_is_not_there(kind: type) -> None:
    """`ack`, `poll` and others stood there, without a text."""
    assert not {"ack", "poll", "commit", "publish"} & set(dir(kind))


def test_what_is_only_to_read_was_set_and_believed() -> None:
    """`connection.is_closed = True` made `close()` do nothing; a producer's destination was another one's."""
    with MemoryWorld() as world, world.factory().create_connection() as connection:
        session = connection.create_session()
        session.create_consumer(Queue("orders")).close()
        producer, browser = session.create_producer(Queue("orders")), session.create_browser(Queue("orders"))
        for made, names in (
            (connection, ("is_closed", "is_started")),
            (producer, ("is_closed", "destination")),
            (browser, ("is_closed", "queue", "include")),
        ):
            for name in names:
                with pytest.raises(AttributeError, match=f"^{name} of a .* can be read, and not set$"):
                    setattr(made, name, None)
        assert (connection.is_started, producer.is_closed) == (True, False)
    assert (connection.is_started, producer.is_closed) == (False, True)
