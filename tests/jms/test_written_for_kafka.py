"""What a program for Kafka or another broker writes is told what to write here; some were sent to the wrong name."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from jbm_kafka import BytesMessage, ConnectionFactory, MapMessage, Queue, TextMessage, Topic, errors
from jbm_kafka.admin import Admin
from jbm_kafka.jms.context import Context
from jbm_kafka.testing.memory_world import MemoryWorld

HOST = "localhost:9092"
MEANT = "; {!r} is meant, probably"


@pytest.mark.parametrize(
    ("asked", "name", "said"),
    [
        (TextMessage("a"), "partition", "; 'kafka.partition' of a received message says it, and the unit_of_order of"),
        (TextMessage("a"), "offset", "; 'kafka.offset' of a received message says it"),
        (TextMessage("a"), "receive_count", MEANT.format("delivery_count")),
        (TextMessage("a"), "attempts", MEANT.format("delivery_count")),
        (TextMessage("a"), "id", MEANT.format("message_id")),
        (TextMessage("a"), "ttl", MEANT.format("expiration")),
        (TextMessage("a"), "get", MEANT.format("properties.get")),
        (MapMessage({}), "get", MEANT.format("get_object")),
        (TextMessage("a"), "setProperty", "; write properties[name] = value"),
        (TextMessage("a"), "complete", MEANT.format("acknowledge")),
        (TextMessage("a"), "abandon", MEANT.format("nack")),
        (TextMessage("a"), "dead_letter", "; nack() gives it back, and after max_delivery_attempts it goes to the"),
        (BytesMessage(), "write", MEANT.format("write_bytes")),
        (BytesMessage(), "read", MEANT.format("read_bytes")),
    ],
)
def test_an_attribute_of_anothers_message_was_led_astray_or_nowhere(asked: object, name: str, said: str) -> None:
    with pytest.raises(AttributeError, match=re.escape(f"no attribute '{name}'{said}")):
        getattr(asked, name)


def test_fetch_was_taken_for_prefetch_and_a_browser_did_not_say_how_to_go_on() -> None:
    with MemoryWorld() as world, world.factory().create_context() as context:
        consumer, browser = context.create_consumer(Queue("orders")), context.create_browser(Queue("orders"))
        with pytest.raises(AttributeError, match=r"no attribute 'fetch'; 'receive' is meant, probably$"):
            consumer.fetch  # type: ignore[attr-defined]  # noqa: B018
        for name in ("next", "getEnumeration", "hasMoreElements"):
            with pytest.raises(AttributeError, match=r"; go through it with `for message in browser:`$"):
                getattr(browser, name)


def wrong(call: Callable[..., object], *given: object, **named: object) -> Callable[[], object]:
    """The call, of which a type checker is told nothing."""
    return lambda: call(*given, **named)


PROPERTY = "it is a property of Kafka's client, given as kafka="


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (wrong(ConnectionFactory, HOST, security_protocol="SSL"), f"{PROPERTY}{{'security.protocol': 'SSL'}}"),
        (wrong(Admin, HOST, sasl_mechanism="PLAIN"), f"{PROPERTY}{{'sasl.mechanism': 'PLAIN'}}"),
        (wrong(ConnectionFactory, HOST, user_name="joe"), f"{PROPERTY}{{'sasl.username': …}}"),
        (wrong(ConnectionFactory, HOST, ssl_cafile="ca.pem"), f"{PROPERTY}{{'ssl.ca.location': …}}"),
        (wrong(ConnectionFactory, host="localhost"), "host and port in one, as in 'localhost:9092'"),
        (wrong(ConnectionFactory, broker_url=HOST), "; 'url' is meant, probably"),
        (wrong(ConnectionFactory, "localhost", 9092), "takes host and port in one: write 'localhost:9092'"),
        (wrong(Admin, "localhost", "9092"), "takes host and port in one: write 'localhost:9092'"),
    ],
)
def test_how_other_clients_are_given_the_cluster_had_no_hint(call: Callable[[], object], said: str) -> None:
    with pytest.raises(errors.InvalidTypeError, match=f"{re.escape(said)}$"):
        call()


def test_a_password_that_was_given_in_the_wrong_place_is_not_among_the_values_of_the_error() -> None:
    with pytest.raises(errors.InvalidTypeError) as told:
        wrong(ConnectionFactory, HOST, sasl_plain_password="guess me")()
    assert "guess me" not in f"{told.value} {told.value.values}"
    assert told.value.setting == "sasl_plain_password"


CONTEXT_CALLS: list[tuple[Callable[[Context], Callable[..., object]], dict[str, object], str]] = [
    (lambda context: context.create_producer().send, {"msg": "x"}, "; 'message' is meant, probably"),
    (
        lambda context: context.create_durable_consumer,
        {"subscription_name": "x"},
        "; 'name' is meant, probably; it has",
    ),
    (lambda context: context.create_durable_consumer, {"subscription": "x"}, "; 'name' is meant, probably; it has"),
    (lambda context: context.create_consumer, {"auto_ack": True}, ": the session has a mode, create_session("),
    (lambda context: context.create_consumer, {"ack_mode": 1}, ": the session has a mode, create_session("),
    (lambda context: context.create_consumer, {"listener": print}, ": the consumer takes it, set_listener(…)"),
    (lambda context: context.create_consumer, {"group_id": "x"}, ": all consumers of a queue share it; of a topic"),
]


@pytest.mark.parametrize(("call", "named", "said"), CONTEXT_CALLS)
def test_an_argument_that_another_call_has_was_answered_with_a_list_of_names(
    call: Callable[[Context], Callable[..., object]], named: dict[str, object], said: str
) -> None:
    with MemoryWorld() as world, world.factory().create_context() as context:
        [name] = named
        with pytest.raises(errors.InvalidTypeError, match=re.escape(f"no argument '{name}'{said}")):
            call(context)(Topic("news"), **named)
