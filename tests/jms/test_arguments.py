"""Arguments and settings that cannot be: refused where they are given, by an error with their name and their value."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from jbm_kafka import AcknowledgeMode, BytesMessage, ConnectionFactory, Context, Message, Queue, TextMessage, Topic
from jbm_kafka.errors import (
    IllegalStateError,
    InvalidClientIDError,
    InvalidDestinationError,
    InvalidSelectorError,
    InvalidSettingError,
    InvalidTypeError,
    JMSError,
    MessageFormatError,
    OrderError,
)
from tests.jms.support import receive

ORDERS, NEWS = Queue("orders"), Topic("news")
SURROGATE = "\ud800"
Refused = tuple[type[JMSError], str, object]

SENDS: list[Refused] = [
    (InvalidSettingError, "priority", 10),
    (InvalidTypeError, "priority", "high"),
    (InvalidTypeError, "priority", True),
    (InvalidSettingError, "time_to_live_ms", -1),
    (InvalidTypeError, "time_to_live_ms", 1.5),
    (InvalidTypeError, "delivery_delay_ms", "soon"),
    (InvalidSettingError, "delivery_delay_ms", 2**70),
    (InvalidSettingError, "time_to_live_ms", 2**63 - 1),
    (InvalidTypeError, "delivery_mode", "PERSISTENT"),
    (InvalidSettingError, "delivery_mode", 5),
    (OrderError, "unit_of_order", ""),
    (OrderError, "unit_of_order", 5),
]
"""Options of a send that are settings of its producer, too."""
OTHER_OPTIONS: list[Refused] = [
    (MessageFormatError, "unit_of_order", f"u{SURROGATE}"),
    (MessageFormatError, "duplicate_id", ""),
    (MessageFormatError, "duplicate_id", 5),
    (MessageFormatError, "duplicate_id", SURROGATE),
    (MessageFormatError, "correlation_id", SURROGATE),
    (MessageFormatError, "correlation_id", 5),
    (MessageFormatError, "type", b"t"),
    (MessageFormatError, "properties", [1]),
    (InvalidDestinationError, "reply_to", "abc"),
    (InvalidDestinationError, "destination", "orders"),
    (InvalidTypeError, "on_completion", 5),
]
PROPERTIES = [
    {5: 1}, {"": 1}, {"a b": 1}, {"1a": 1}, {"not": 1}, {"JMSType": 1}, {"JMSXDeliveryCount": 1},
    {"JMS_BEA_UnitOfOrder": "u"}, {"JMSXGroupID": 5}, {"JMSXGroupID": ""}, {"a": [1]}, {"a": 2**64},
    {"a": f"x{SURROGATE}"},
]  # fmt: skip
SETTINGS: list[Refused] = [
    *SENDS,
    (InvalidTypeError, "spread", "yes"),
    (InvalidTypeError, "disable_message_id", 1),
    (InvalidTypeError, "disable_message_timestamp", None),
]
HEADERS: list[Refused] = [
    (InvalidTypeError, "priority", "x"),
    (InvalidSettingError, "priority", 10),
    (InvalidTypeError, "timestamp", 1.5),
    (InvalidSettingError, "expiration", -1),
    (InvalidTypeError, "delivery_mode", 3.5),
    (MessageFormatError, "correlation_id", 5),
    (MessageFormatError, "type", 5),
    (MessageFormatError, "message_id", 5),
    (InvalidDestinationError, "reply_to", "q"),
    (InvalidDestinationError, "destination", "q"),
    (InvalidTypeError, "redelivered", 1),
    (InvalidTypeError, "delivery_count", None),
    (InvalidTypeError, "state", "NEW"),
    (OrderError, "unit_of_order", 5),
]
CALLS: list[tuple[Callable[[Any], object], type[JMSError], str]] = [
    (lambda jms: jms.create_consumer("orders"), InvalidDestinationError, "destination is 'orders'"),
    (lambda jms: jms.create_consumer(None), InvalidDestinationError, "destination is None"),
    (lambda jms: jms.create_consumer(ORDERS, selector="a ="), InvalidSelectorError, "selector 'a =', column 4"),
    (lambda jms: jms.create_consumer(ORDERS, selector=5), InvalidSelectorError, "selector is 5"),
    (lambda jms: jms.create_consumer(ORDERS, no_local="yes"), InvalidTypeError, "no_local is 'yes'"),
    (lambda jms: jms.create_consumer(ORDERS, no_local=True), IllegalStateError, "no_local applies to topics"),
    (lambda jms: jms.create_consumer(ORDERS, prefetch=0), InvalidSettingError, "prefetch is 0"),
    (lambda jms: jms.create_consumer(ORDERS, prefetch="5"), InvalidTypeError, "prefetch is '5'"),
    (lambda jms: jms.create_browser("orders"), InvalidDestinationError, "queue is 'orders'"),
    (lambda jms: jms.create_browser(NEWS), InvalidDestinationError, ".*queues only"),
    (lambda jms: jms.create_browser(ORDERS, include="some"), InvalidSettingError, "include is 'some'"),
    (lambda jms: jms.create_browser(ORDERS, include=6), InvalidTypeError, "include is 6"),
    (lambda jms: jms.create_browser(ORDERS, selector=5), InvalidSelectorError, "selector is 5"),
    (lambda jms: jms.create_shared_consumer(NEWS, 5), InvalidTypeError, "name is 5"),
    (lambda jms: jms.create_shared_consumer(ORDERS, "a"), InvalidDestinationError, ".*only topics have subscriptions"),
    (lambda jms: jms.create_shared_durable_consumer("x", "a"), InvalidDestinationError, r".*use Topic\('x'\)"),
    (lambda jms: jms.create_shared_consumer(NEWS, "x" * 201), InvalidSettingError, "name is .*1 to 200 characters"),
    (lambda jms: jms.create_durable_consumer(NEWS, ""), InvalidSettingError, "name is ''"),
    (lambda jms: jms.unsubscribe(7), InvalidTypeError, "name is 7"),
    (lambda jms: jms.unsubscribe("nope"), InvalidDestinationError, "nothing to unsubscribe: .*'nope'"),
    (lambda jms: jms.set_default_prefetch(-1), InvalidSettingError, "count is -1"),
    (lambda jms: jms.set_default_prefetch(None), InvalidTypeError, "count is None"),
    (lambda jms: jms.set_dups_ok(-1), InvalidSettingError, "messages is -1"),
    (lambda jms: jms.set_dups_ok(5, "soon"), InvalidTypeError, "milliseconds is 'soon'"),
    (lambda jms: jms.set_dups_ok(5, -1), InvalidSettingError, "milliseconds is -1"),
    (lambda jms: jms.set_dups_ok(50), IllegalStateError, "set_dups_ok.. is for DUPS_OK sessions, this one is AUTO"),
    (lambda jms: jms.create_text_message(5), MessageFormatError, "body is 5"),
    (lambda jms: jms.create_bytes_message("a"), MessageFormatError, "body is 'a'"),
    (lambda jms: jms._session.create_producer("orders"), InvalidDestinationError, r".*use Queue\('orders'\)"),
    (lambda jms: jms.create_producer().send("orders", "a"), InvalidDestinationError, "destination is 'orders'"),
    (lambda jms: jms.create_producer().send(ORDERS, 5), MessageFormatError, "message is 5"),
    (lambda jms: jms.create_producer().send(ORDERS, ORDERS), MessageFormatError, "message is Queue"),
    (lambda jms: jms.create_producer().send(ORDERS, [1]), MessageFormatError, r"message is \[1\]"),
    (lambda jms: jms.create_producer().send(ORDERS, {"a": [1]}), MessageFormatError, r"map entry 'a' is \[1\]"),
    (lambda jms: jms.create_producer().send(ORDERS, f"a{SURROGATE}"), MessageFormatError, "body: .* no UTF-8 form"),
    (lambda jms: jms.create_producer().flush(-1), InvalidSettingError, "timeout is -1"),
    (lambda jms: jms.create_producer().flush("1"), InvalidTypeError, "timeout is '1'"),
    (lambda jms: setattr(jms, "exception_listener", 5), InvalidTypeError, "exception_listener is 5"),
    (lambda jms: jms.create_consumer(ORDERS).set_listener(5), InvalidTypeError, "listener is 5"),
    (lambda jms: jms.create_consumer(ORDERS).receive("5"), InvalidTypeError, "timeout is '5'"),
    (lambda jms: jms.create_consumer(ORDERS).receive(True), InvalidTypeError, "timeout is True"),
    (lambda jms: jms.create_consumer(ORDERS).receive(-0.1), InvalidSettingError, "timeout is -0.1"),
    (lambda jms: jms.create_consumer(ORDERS).receive(float("nan")), InvalidSettingError, "timeout is nan"),
    (lambda jms: jms.create_consumer(ORDERS).receive_body("str"), InvalidTypeError, "kind is 'str'"),
    (lambda jms: jms.create_consumer(ORDERS).receive_body(None), InvalidTypeError, "kind is None"),
    (lambda jms: jms.create_consumer(ORDERS).receive_body(str, -1), InvalidSettingError, "timeout is -1"),
]


@pytest.fixture(scope="module")
def jms() -> Iterator[Context]:
    with ConnectionFactory("memory://arguments").create_context() as context:
        yield context


def refused(call: Callable[[], object], kind: type[JMSError], said: str) -> None:
    with pytest.raises(kind, match=said) as error:
        call()
    assert type(error.value) is kind
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("call", "kind", "said"), CALLS)
def test_an_argument_that_cannot_be_is_refused_with_its_name_and_value(
    jms: Context, call: Callable[[Any], object], kind: type[JMSError], said: str
) -> None:
    refused(lambda: call(jms), kind, f"^{said}")


@pytest.mark.parametrize(("kind", "option", "value"), SENDS + OTHER_OPTIONS)
def test_an_option_of_a_send_that_cannot_be_is_refused(
    jms: Context, kind: type[JMSError], option: str, value: object
) -> None:
    session = jms._connection.create_session()
    refused(lambda: session.create_producer().send("a", **{"destination": ORDERS, option: value}), kind, f"^{option}")  # type: ignore[arg-type]
    assert list(session.create_browser(ORDERS, include="all")) == []


@pytest.mark.parametrize("properties", PROPERTIES, ids=ascii)
def test_a_property_that_cannot_be_is_refused_and_nothing_is_sent(jms: Context, properties: Any) -> None:
    queue = Queue("properties")
    refused(lambda: jms.create_producer().send(queue, "a", properties=properties), MessageFormatError, "^property")
    jms.create_producer().send(queue, "after")
    with jms.create_consumer(queue) as consumer:
        assert receive(consumer).body == "after"


@pytest.mark.parametrize("is_of_context", [True, False])
@pytest.mark.parametrize(("kind", "setting", "value"), SETTINGS)
def test_a_setting_of_a_producer_that_cannot_be_is_refused_where_it_is_set(
    jms: Context, kind: type[JMSError], setting: str, value: object, is_of_context: bool
) -> None:
    producer = jms.create_producer() if is_of_context else jms._session.create_producer()
    before = getattr(producer, setting)
    refused(lambda: setattr(producer, setting, value), kind, f"^{setting} is {value!r}: ")
    assert getattr(producer, setting) == before


@pytest.mark.parametrize(("kind", "header", "value"), HEADERS)
def test_a_header_of_a_message_that_cannot_be_is_refused_where_it_is_set(
    jms: Context, kind: type[JMSError], header: str, value: object
) -> None:
    sent = jms.create_producer().send(queue := Queue("headers"), "a", priority=7)
    with jms.create_consumer(queue) as consumer:
        received = receive(consumer)
    for message in (TextMessage("a"), sent, received):
        before = getattr(message, header)
        refused(lambda message=message: setattr(message, header, value), kind, f"^{header} is {value!r}: ")  # type: ignore[misc]
        assert getattr(message, header) == before


@pytest.mark.parametrize(
    ("message", "body"), [(TextMessage("a"), 5), (TextMessage("a"), b"x"), (BytesMessage(b""), "x"), (Message(), "x")]
)
def test_a_body_of_another_kind_is_refused(message: Message, body: object) -> None:
    refused(lambda: setattr(message, "body", body), MessageFormatError, "body")


def test_a_client_id_that_cannot_be_is_refused() -> None:
    with ConnectionFactory("memory://arguments-2").create_connection() as connection:
        for wrong in (7, None, b"billing"):
            with pytest.raises(InvalidClientIDError, match=f"^client_id is {wrong!r}: it is a str"):
                connection.client_id = wrong  # type: ignore[assignment]
        assert connection.client_id is None
        connection.create_session()
        refused(lambda: setattr(connection, "client_id", "late"), IllegalStateError, "^client_id must be set before")


def test_a_mode_that_is_none_is_refused() -> None:
    factory = ConnectionFactory("memory://arguments-3")
    with factory.create_connection() as connection:
        for wrong in ("client", 1, True):
            for make in (connection.create_session, factory.create_context):
                refused(lambda make=make, wrong=wrong: make(wrong), InvalidTypeError, f"^acknowledge_mode is {wrong!r}")  # type: ignore[misc]


def test_a_call_of_another_mode_tells_the_mode_and_the_one_that_is_wanted() -> None:
    with ConnectionFactory("memory://arguments-4").create_context(AcknowledgeMode.INDIVIDUAL) as context:
        for name in ("commit", "rollback"):
            with pytest.raises(IllegalStateError) as error:
                getattr(context, name)()
            wanted, mode = AcknowledgeMode.TRANSACTED, AcknowledgeMode.INDIVIDUAL
            assert error.value.values == {"call": name, "acknowledge_mode": mode, "wanted": wanted}


def test_wrong_values_are_value_errors_and_wrong_types_type_errors_too(jms: Context) -> None:
    producer = jms.create_producer()
    with pytest.raises(ValueError, match="priority is 10"):
        producer.send(ORDERS, "a", priority=10)
    with pytest.raises(TypeError, match="priority is 'high'"):
        producer.send(ORDERS, "a", priority="high")  # type: ignore[arg-type]


def test_a_password_is_not_shown() -> None:
    given = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "me"}
    factory = ConnectionFactory("localhost:1", kafka={**given, "sasl.password": "hunter2"})
    assert repr(factory) == "<ConnectionFactory kafka://localhost:1>"
