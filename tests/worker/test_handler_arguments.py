"""What handlers are given by their annotations, and what becomes of messages that do not fit."""

from __future__ import annotations

import functools
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from pydantic import BaseModel
from typing_extensions import TypedDict

from jbm_kafka import (
    AcknowledgeMode,
    AddressSettings,
    Context,
    Depends,
    Header,
    Message,
    Queue,
    Session,
    TextMessage,
    Worker,
)
from jbm_kafka.errors import InvalidSettingError, InvalidTypeError
from jbm_kafka.testing.memory_world import MemoryWorld
from jbm_kafka.worker.dependencies import Kept
from tests.support.waiting import wait_until

ORDERS, LETTERS, OUT = Queue("orders"), Queue("DLQ"), Queue("out")
SOON_S = 30.0


class Order(BaseModel):
    customer: str
    count: int


@dataclass
class Line:
    customer: str
    count: int


class Row(TypedDict):
    customer: str
    count: int


@pytest.fixture
def jms(world: MemoryWorld) -> Iterator[Context]:
    settings = {"#": AddressSettings(partitions=1, max_delivery_attempts=2)}
    with world.factory(address_settings=settings).create_context(AcknowledgeMode.INDIVIDUAL) as jms:
        yield jms


def left(jms: Context, queue: Queue) -> list[Message]:
    return list(jms.create_browser(queue, include="all"))


def handle(world: MemoryWorld, jms: Context, handler: Callable[..., Any], **settings: Any) -> None:
    """Until the queue is empty."""
    worker = Worker(world.factory())
    worker.handler(ORDERS, **settings)(handler)
    worker.start()
    try:
        wait_until(lambda: not left(jms, ORDERS), about="the handler", timeout_s=SOON_S)
    finally:
        assert worker.stop()


SEEN: list[Any] = []


@pytest.fixture(autouse=True)
def seen() -> list[Any]:
    SEEN.clear()
    return SEEN


def of_model(order: Order) -> None:
    SEEN.append(order)


def of_dataclass(line: Line) -> None:
    SEEN.append(line)


def of_typed_dict(row: Row) -> None:
    SEEN.append(row)


def of_dict(body: dict[Any, Any]) -> None:
    SEEN.append(body)


def of_bare_dict(body: dict) -> None:  # type: ignore[type-arg]
    SEEN.append(body)


def of_list(body: list) -> None:  # type: ignore[type-arg]
    SEEN.append(body)


def of_text(body: str) -> None:
    SEEN.append(body)


def of_bytes(body: bytes) -> None:
    SEEN.append(body)


ANN = {"customer": "ann", "count": 2}


@pytest.mark.parametrize(
    ("handler", "body", "given"),
    [
        (of_model, b'{"customer": "ann", "count": 2}', Order(customer="ann", count=2)),
        (of_model, ANN, Order(customer="ann", count=2)),
        (of_dataclass, '{"customer": "ann", "count": 2}', Line("ann", 2)),
        (of_typed_dict, '{"customer": "ann", "count": 2}', ANN),
        (of_dict, '{"customer": "ann", "count": 2}', ANN),
        (of_bare_dict, '{"customer": "ann", "count": 2}', ANN),
        (of_bare_dict, ANN, ANN),
        (of_list, "[1, 2]", [1, 2]),
        (of_text, "zwei Bücher", "zwei Bücher"),
        (of_text, "zwei Bücher".encode(), "zwei Bücher"),
        (of_bytes, "zwei Bücher", "zwei Bücher".encode()),
        (of_bytes, b"\xff", b"\xff"),
    ],
)
def test_a_body_is_what_the_annotation_says(
    world: MemoryWorld, jms: Context, seen: list[Any], handler: Callable[..., None], body: Any, given: object
) -> None:
    jms.create_producer().send(ORDERS, body)
    handle(world, jms, handler)
    assert seen == [given]
    assert type(seen[0]) is type(given)
    assert left(jms, LETTERS) == []


def test_a_model_that_was_sent_is_received(world: MemoryWorld, jms: Context, seen: list[Any]) -> None:
    order = Order(customer="ann", count=2)
    jms.create_producer().send(ORDERS, json=order)
    handle(world, jms, of_model)
    assert seen == [order]


async def on_a_loop(order: Order, message: Message) -> None:
    SEEN.append((order.customer, message.unit_of_order))


def test_a_coroutine_gets_the_same(world: MemoryWorld, jms: Context, seen: list[Any]) -> None:
    jms.create_producer().send(ORDERS, json=ANN, unit_of_order="ann")
    handle(world, jms, on_a_loop)
    assert seen == [("ann", "ann")]


def in_a_transaction(session: Session, order: Order, *, region: Annotated[str, Header] = "EU") -> None:
    session.create_producer(OUT).send(f"{order.customer} {region}")


def test_a_transacted_handler_gets_them_in_any_order(world: MemoryWorld, jms: Context) -> None:
    jms.create_producer().send(ORDERS, json=ANN)
    jms.create_producer().send(ORDERS, json=ANN, properties={"region": "US"})
    handle(world, jms, in_a_transaction, transacted=True)
    assert [each.body for each in left(jms, OUT)] == ["ann EU", "ann US"]


def with_headers(
    body: str,
    region: Annotated[str | None, Header] = None,
    copies: Annotated[int, Header("number_of_copies")] = 1,
    weight: Annotated[float, Header] = 0.0,
    kind: Annotated[str, Header("JMSType")] = "",
    attempt: Annotated[int, Header("JMSXDeliveryCount")] = 0,
    trace: Annotated[str, Header("traceparent")] = "",
    *,
    is_dry: bool = False,
) -> None:
    SEEN.append((region, copies, weight, kind, attempt, trace, is_dry))


def test_headers_and_properties_are_given_by_name(world: MemoryWorld, jms: Context, seen: list[Any]) -> None:
    jms.create_producer().send(ORDERS, "a")
    properties = {"region": "EU", "number_of_copies": 3, "weight": 2}
    jms.create_producer().send(ORDERS, "b", properties=properties, type="book", headers={"traceparent": b"00-1"})
    handle(world, jms, with_headers)
    assert seen == [(None, 1, 0.0, "", 1, "", False), ("EU", 3, 2, "book", 1, "00-1", False)]


def with_a_header(message: Message, region: Annotated[int, Header]) -> None:
    SEEN.append(region)


@pytest.mark.parametrize(
    ("handler", "body", "properties", "told"),
    [
        (of_model, '{"customer": "ann"}', {}, "the body is no Order: count: Field required"),
        (of_model, "no json", {}, "the body is no Order: Invalid JSON: expected ident at line 1 column 2"),
        (of_model, None, {}, "the body is no Order: Input should be a valid dictionary or instance of Order"),
        (of_bare_dict, "[1]", {}, "the body is a list, not a dict"),
        (of_text, b"\xff", {}, "the body is no text in UTF-8: 'utf-8' codec can't decode byte 0xff in position 0"),
        (of_text, {"a": 1}, {}, "the body is a dict, not a str"),
        (with_a_header, "a", {}, "the message has no 'region' among its headers and properties"),
        (with_a_header, "a", {"region": "EU"}, "'region' is 'EU', no int"),
        (with_a_header, "a", {"region": ""}, "'region' is '', no int"),
        (with_a_header, "a", {"region": True}, "'region' is True, no int"),
    ],
)
def test_what_does_not_fit_is_rejected_with_the_reason(
    world: MemoryWorld,
    jms: Context,
    seen: list[Any],
    handler: Callable[..., None],
    body: Any,
    properties: dict[str, Any],
    told: str,
) -> None:
    """REDELIVER-3."""
    jms.create_producer().send(ORDERS, TextMessage() if body is None else body, properties=properties)
    handle(world, jms, handler)
    (letter,) = left(jms, LETTERS)
    assert letter.properties["_JBM_DEAD_LETTER_REASON"] == "rejected"
    assert str(letter.properties["_JBM_LAST_ERROR"]).startswith(told)
    assert letter.properties["_JBM_DELIVERY_COUNT"] == 1
    assert seen == []


def test_what_does_not_fit_is_a_failed_attempt_if_that_is_said(world: MemoryWorld, jms: Context) -> None:
    """REDELIVER-1."""
    jms.create_producer().send(ORDERS, "[]")
    handle(world, jms, of_bare_dict, on_invalid="retry")
    (letter,) = left(jms, LETTERS)
    assert letter.properties["_JBM_LAST_ERROR"] == "MessageFormatError: the body is a list, not a dict"
    assert letter.properties["_JBM_DELIVERY_COUNT"] == 2


def of_session(order: Order, session: Session) -> None: ...
def of_two_bodies(order: Order, line: Line) -> None: ...
def of_nothing_known(order: Order, extra) -> None: ...  # type: ignore[no-untyped-def]
def of_a_connection(database: sqlite3.Connection) -> None: ...
def of_a_missing_name(order: NoSuchName) -> None: ...  # type: ignore[name-defined]  # noqa: F821
def of_a_default(message: Message, prices: object = Depends(dict)) -> None: ...
def of_a_marker(message: Message, region: Header) -> None: ...


@pytest.mark.parametrize(
    ("handler", "why"),
    [
        (of_session, "its parameter session: a Session is a transaction's: say transacted=True"),
        (of_two_bodies, "its parameter line: order has the body already"),
        (of_nothing_known, "its parameter extra: it has no type"),
        (of_a_connection, "its parameter database: Pydantic cannot read Connection: Unable to generate"),
        (of_a_missing_name, "its parameter order: its type 'NoSuchName' cannot be looked up"),
        (of_a_default, "its parameter prices: Depends stands beside its type; write Annotated[…, Depends(…)]"),
        (of_a_marker, "its parameter region: Header stands beside its type; write Annotated[…, Header(…)]"),
    ],
)
def test_a_signature_that_cannot_work_is_refused_when_it_is_registered(
    world: MemoryWorld, handler: Callable[..., None], why: str
) -> None:
    with pytest.raises(InvalidTypeError) as refused:
        Worker(world.factory()).handler(ORDERS)(handler)
    assert why in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_rule_for_what_does_not_fit_is_one_of_two(world: MemoryWorld) -> None:
    with pytest.raises(InvalidSettingError, match="on_invalid is 'drop': it is 'reject', or 'retry'"):
        Worker(world.factory()).handler(ORDERS, on_invalid="drop")(of_model)  # type: ignore[arg-type]


def passed_on(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        return function(*arguments, **named)

    return call


class Shop:
    def ship(self, order: Order) -> None:
        SEEN.append(order)

    __call__ = ship


@pytest.mark.parametrize(
    "handler",
    [passed_on(of_model), functools.partial(of_model), Shop().ship, Shop(), passed_on(Shop().ship)],
)
def test_a_callable_of_any_kind_is_read(
    world: MemoryWorld, jms: Context, seen: list[Any], handler: Callable[..., Any]
) -> None:
    jms.create_producer().send(ORDERS, json=ANN)
    handle(world, jms, handler)
    assert seen == [Order(customer="ann", count=2)]


def plain(message: Message) -> None: ...
def of_text_message(message: TextMessage) -> None: ...
def with_session(message: Message, session: Session) -> None: ...


@pytest.mark.parametrize(
    ("handler", "is_transacted"),
    [(plain, False), (of_text_message, False), (with_session, True), (lambda message, session: None, True)],
)
def test_a_handler_of_the_message_is_called_as_it_is(
    world: MemoryWorld, handler: Callable[..., Any], is_transacted: bool
) -> None:
    """So it costs what it cost before there were others."""
    worker = Worker(world.factory())
    assert worker.handler(ORDERS, transacted=is_transacted)(handler) is handler
    assert worker._specs[0].call(Kept()) is handler


def test_a_header_that_is_text_is_the_number_that_it_says() -> None:
    """Headers of other producers are text: "7" failed as no int."""
    got: list[object] = []
    with MemoryWorld() as world:
        worker = Worker(world.factory())

        @worker.handler("orders")
        def handle(
            body: str,
            retries: Annotated[int, Header("retries")],
            share: Annotated[float | None, Header("share")] = None,
            urgent: Annotated[bool, Header("urgent")] = False,
            name: Annotated[str, Header("name")] = "",
        ) -> None:
            got.extend((retries, share, urgent, name))

        world.start(worker)
        world.send("orders", "a", properties={"retries": "7", "share": "0.5", "urgent": "true", "name": "8"})
        wait_until(lambda: got, about="a call", timeout_s=30.0)
    assert got == [7, 0.5, True, "8"]
