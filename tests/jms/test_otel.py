"""Traces of messages: from the send over Kafka to the handler and the settlement."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterator

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

from jbm_kafka import AddressSettings, ConnectionFactory, Message, Queue, Reject, Retry, Session, Worker
from jbm_kafka.errors import InvalidTypeError, MessageFormatError
from jbm_kafka.otel import instrument
from jbm_kafka.testing.memory_world import MemoryWorld
from tests.support.topics import delete_topics_beginning_with
from tests.support.waiting import wait_until

ORDERS, OUT = Queue("orders"), Queue("out")
SOON_S = 60.0
Spans = Callable[[], list[ReadableSpan]]


@pytest.fixture
def provider() -> Iterator[TracerProvider]:
    provider = TracerProvider()
    yield provider
    provider.shutdown()


@pytest.fixture
def spans(provider: TracerProvider) -> Spans:
    """Those that have ended, in the order of their ends."""
    exporter = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return lambda: list(exporter.get_finished_spans())


@pytest.fixture
def factory(provider: TracerProvider) -> Iterator[ConnectionFactory]:
    with MemoryWorld() as world:
        factory = world.factory(address_settings={"#": AddressSettings(max_delivery_attempts=2, partitions=1)})
        instrument(factory, provider)
        yield factory


def run(factory: ConnectionFactory, worker: Worker, spans: Spans, *, until: int, queue: Queue = ORDERS) -> None:
    """Send one message, traced, and have it handled until there are so many spans."""
    with factory.create_sender() as sender:
        sender.send(queue, "a secret", unit_of_order="joe", correlation_id="c-1")
        worker.start()
        try:
            wait_until(
                lambda: len(spans()) >= until,
                about=lambda: f"{until} spans, and not {[span.name for span in spans()]}",
                timeout_s=SOON_S,
            )
        finally:
            worker.stop()


def by_name(spans: Spans) -> dict[str, ReadableSpan]:
    return {span.name: span for span in spans()}


def is_child(span: ReadableSpan, parent: ReadableSpan) -> bool:
    assert span.parent is not None, span.name
    ours, theirs = span.get_span_context(), parent.get_span_context()
    assert ours is not None
    assert theirs is not None
    return (span.parent.span_id, ours.trace_id) == (theirs.span_id, theirs.trace_id)


@pytest.mark.parametrize("way", ["threads", "loop", "transacted"])
def test_one_trace_leads_from_the_send_to_the_settlement_and_to_what_the_handler_sends(
    factory: ConnectionFactory, spans: Spans, way: str
) -> None:
    worker = Worker(factory)
    with factory.create_sender() as sender:
        if way == "threads":
            worker.handler(ORDERS)(lambda message: sender.send(OUT, "shipped") and None)
        elif way == "loop":

            @worker.handler(ORDERS)
            async def ship(message: Message) -> None:
                sender.send(OUT, "shipped")

        else:

            @worker.handler(ORDERS, transacted=True)
            def ship_in_transaction(message: Message, session: Session) -> None:
                session.create_producer(OUT).send("shipped")

        run(factory, worker, spans, until=4)
    found = by_name(spans)
    assert found.keys() == {"send orders", "process orders", "ack orders", "send out"}
    assert is_child(found["process orders"], found["send orders"])
    assert is_child(found["ack orders"], found["process orders"])
    assert is_child(found["send out"], found["process orders"])
    kinds = {span.name: span.kind for span in spans()}
    assert kinds["send orders"] is SpanKind.PRODUCER
    assert kinds["process orders"] is SpanKind.CONSUMER
    assert kinds["ack orders"] is SpanKind.CLIENT
    assert all(span.status.is_unset for span in spans())


def test_attributes_are_those_of_the_conventions_and_name_no_unit_and_no_body(
    factory: ConnectionFactory, spans: Spans
) -> None:
    worker, ids = Worker(factory), list[str | None]()
    worker.handler(ORDERS)(lambda message: ids.append(message.message_id))
    run(factory, worker, spans, until=3)
    process = dict(by_name(spans)["process orders"].attributes or {})
    assert process == {
        "messaging.system": "kafka",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": "orders",
        "messaging.message.id": ids[0],
        "messaging.message.conversation_id": "c-1",
        "messaging.destination.partition.id": "0",
        "messaging.kafka.offset": 0,
    }
    send = dict(by_name(spans)["send orders"].attributes or {})
    assert (send["messaging.operation.type"], send["messaging.message.id"]) == ("send", ids[0])
    assert not [span.name for span in spans() if "joe" in span.to_json() or "secret" in span.to_json()]


def test_a_handler_that_fails_has_a_span_that_failed_and_each_attempt_is_in_the_trace(
    factory: ConnectionFactory, spans: Spans
) -> None:
    worker, attempts = Worker(factory), list[int]()

    @worker.handler(ORDERS)
    def ship(message: Message) -> None:
        attempts.append(message.delivery_count)
        if message.delivery_count == 1:
            raise Retry
        raise Reject("no such customer")

    run(factory, worker, spans, until=5)
    names = [span.name for span in spans()]
    assert names == ["send orders", "nack orders", "process orders", "reject orders", "process orders"]
    retried, rejected = [span for span in spans() if span.name == "process orders"]
    assert retried.status.is_unset  # it asked for it
    assert not rejected.status.is_ok
    assert (rejected.attributes or {})["error.type"] == "Reject"
    assert len({span.context.trace_id for span in spans()}) == 1


def test_an_error_that_has_no_text_fails_its_attempt_as_any_other(
    factory: ConnectionFactory, provider: TracerProvider, spans: Spans
) -> None:
    """The span asked it for its text, and the message was neither settled nor given back."""
    worker, seen = Worker(factory), list[int]()

    class Silent(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    @worker.handler(ORDERS)
    def ship(message: Message) -> None:
        seen.append(message.delivery_count)
        if message.delivery_count == 1:
            raise Silent

    run(factory, worker, spans, until=5)
    assert seen == [1, 2]
    [failed] = [span for span in spans() if span.attributes and span.attributes.get("error.type") == "Silent"]
    assert [event.name for event in failed.events] == ["exception"]


def test_a_send_with_a_callback_is_over_with_the_callback(factory: ConnectionFactory, spans: Spans) -> None:
    done = threading.Event()
    with factory.create_sender() as sender:
        sender.send(ORDERS, "a", on_completion=lambda message, error: done.set())
        assert done.wait(SOON_S)
        assert [span.name for span in spans()] == ["send orders"]
        with pytest.raises(InvalidTypeError, match="on_completion"):
            sender.send(ORDERS, "a", on_completion=lambda: None)  # type: ignore[arg-type, misc]


def test_headers_that_a_send_gives_win_and_a_send_that_fails_is_told(factory: ConnectionFactory, spans: Spans) -> None:
    given = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    with factory.create_context() as jms:
        producer, consumer = jms.create_producer(), jms.create_consumer(ORDERS)
        producer.send(ORDERS, "a", headers={"traceparent": given})
        message = consumer.receive(SOON_S)
        assert message is not None
        assert message.kafka is not None
        assert dict(message.kafka.headers)["traceparent"] == given
        with pytest.raises(MessageFormatError):
            producer.send(ORDERS, object())  # type: ignore[arg-type]
    failed = spans()[-1]
    assert not failed.status.is_ok
    assert not failed.status.is_unset


def test_a_listener_processes_and_a_temporary_name_is_no_name_of_a_span(
    factory: ConnectionFactory, spans: Spans
) -> None:
    with factory.create_connection() as connection, connection.create_session() as session:
        reply_to = session.create_temporary_queue()
        session.create_consumer(reply_to).set_listener(lambda message: None)
        with connection.create_session() as sending:
            sending.create_producer(reply_to).send("an answer")
        wait_until(lambda: len(spans()) == 2, about="spans", timeout_s=SOON_S)
    assert {span.name for span in spans()} == {"send (temporary)", "process (temporary)"}  # either may end first


def test_a_factory_that_goes_to_another_process_is_traced_there_when_it_is_asked_for(
    factory: ConnectionFactory, spans: Spans
) -> None:
    with pickle.loads(pickle.dumps(factory)).create_sender() as sender:
        sender.send(ORDERS, "a")
    assert spans() == []


@pytest.mark.thorough
def test_the_trace_goes_over_kafka(bootstrap: str, kafka_name: str, provider: TracerProvider, spans: Spans) -> None:
    factory = ConnectionFactory(bootstrap)
    instrument(factory, provider)
    worker, queue = Worker(factory), Queue(kafka_name)
    worker.handler(queue)(lambda message: None)
    try:
        run(factory, worker, spans, until=3, queue=queue)
    finally:
        delete_topics_beginning_with(bootstrap, kafka_name)
    found = by_name(spans)
    assert is_child(found[f"process {kafka_name}"], found[f"send {kafka_name}"])
    assert is_child(found[f"ack {kafka_name}"], found[f"process {kafka_name}"])
