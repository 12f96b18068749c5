"""Bodies that confluent-kafka's serializers write and read, by a registry that speaks HTTP."""

import asyncio
import copy
import pickle
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import DeserializingConsumer, SerializingProducer
from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AsyncAvroSerializer, AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext, StringDeserializer, StringSerializer
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from jbm_kafka import (
    AcknowledgeMode,
    AddressSettings,
    BytesMessage,
    ConnectionFactory,
    Message,
    ObjectMessage,
    Queue,
    TextMessage,
    Worker,
    aio,
)
from jbm_kafka.errors import InvalidSettingError, MessageFormatError
from tests.docs.page import read_page, run_page
from tests.house.sources import ROOT
from tests.support.schema_registry_server import SchemaRegistryServer, schema_registry

SCHEMA = '{"type": "record", "name": "Order", "fields": [{"name": "item", "type": "string"}]}'
CHAIR = {"item": "chair"}
ORDERS, OTHERS, DLQ = Queue("orders"), Queue("others"), Queue("DLQ")
TYPE = b"application/vnd.acme.order"


@pytest.fixture
def registry() -> Iterator[SchemaRegistryServer]:
    with schema_registry() as server:
        yield server


@pytest.fixture
def avro(registry: SchemaRegistryServer) -> tuple[AvroSerializer, AvroDeserializer]:
    client = SchemaRegistryClient({"url": registry.url, "max.retries": 0})
    return AvroSerializer(client, SCHEMA), AvroDeserializer(client)


@pytest.fixture
def factory(avro: Any, request: pytest.FixtureRequest) -> ConnectionFactory:
    settings = {"orders": AddressSettings(max_delivery_attempts=2, dead_letter_address="DLQ")}
    codecs = {"orders-value": avro, TYPE.decode(): avro}
    return ConnectionFactory(f"memory://{request.node.originalname}", codecs=codecs, address_settings=settings)


def _received(jms: Any, queue: Queue = ORDERS) -> Any:
    with jms.create_consumer(queue) as consumer:
        message = consumer.receive(timeout=10)
    assert isinstance(message, Message)
    return message


def _written_elsewhere(avro: Any, headers: Any = None) -> bytes:
    return avro[0](CHAIR, SerializationContext("orders", MessageField.VALUE, headers))  # type: ignore[no-any-return]


def test_a_value_goes_through_the_serializer_of_its_queue(factory: ConnectionFactory, avro: Any) -> None:
    """MSG-1: the record has what confluent's own producer writes."""
    with factory.create_context() as jms:
        sent = jms.create_producer().send(ORDERS, CHAIR)
        got = _received(jms)
        assert (type(got), got.body, sent.body) == (ObjectMessage, CHAIR, CHAIR)
        assert got.data == _written_elsewhere(avro)
        assert "_JBM_DECODE_ERROR" not in got.properties
        assert copy.deepcopy(got).body == CHAIR
        with pytest.raises(MessageFormatError, match="codecs"):
            assert pickle.loads(pickle.dumps(got)).body
        jms.create_producer().send(ORDERS, TextMessage("as it is"))
        assert _received(jms).body == "as it is"
        jms.create_producer().send(ORDERS, json=CHAIR)
        assert _received(jms).json() == CHAIR
        jms.create_producer().send(OTHERS, CHAIR)
        assert _received(jms, OTHERS).get_string("item") == "chair"


def test_a_body_written_elsewhere_is_read(factory: ConnectionFactory, avro: Any) -> None:
    """MSG-2: by the magic byte and the id."""
    with factory.create_context() as jms:
        jms.create_producer().send(ORDERS, BytesMessage(_written_elsewhere(avro)))
        assert [each.body for each in jms.create_browser(ORDERS)] == [CHAIR]
        assert jms.create_consumer(ORDERS).receive_body(dict, timeout=10) == CHAIR
    with factory.create_context() as jms:
        jms.create_producer().send(ORDERS, BytesMessage(b"plain"))
        assert _received(jms).body == b"plain"


def test_an_id_in_a_header_is_written_and_read(registry: SchemaRegistryServer) -> None:
    """MSG-1: what the serializer adds to the headers goes along."""
    client = SchemaRegistryClient({"url": registry.url})
    writer = AvroSerializer(client, SCHEMA, conf={"schema.id.serializer": header_schema_id_serializer})
    codecs = {"orders-value": (writer, AvroDeserializer(client))}
    with ConnectionFactory("memory://header-ids", codecs=codecs).create_context() as jms:
        jms.create_producer().send(ORDERS, CHAIR)
        got = _received(jms)
        assert got.body == CHAIR
        assert "__value_schema_id" in dict(got.kafka.headers)


def test_a_content_type_chooses_in_any_queue(factory: ConnectionFactory) -> None:
    """MSG-1: before the subject does, and with parameters."""
    with factory.create_context() as jms:
        jms.create_producer().send(OTHERS, CHAIR, headers={"content-type": TYPE + b"; charset=utf-8"})
        assert _received(jms, OTHERS).body == CHAIR


@pytest.mark.parametrize("is_gone", [False, True])
def test_what_cannot_be_written_is_refused(
    factory: ConnectionFactory, registry: SchemaRegistryServer, is_gone: bool
) -> None:
    """MSG-1: a value that the schema does not allow, or any when the registry is gone; nothing is sent."""
    if is_gone:
        registry.shutdown()
        registry.server_close()
    with factory.create_context() as jms:
        with pytest.raises(MessageFormatError, match=r"orders-value.*cannot write"):
            jms.create_producer().send(ORDERS, CHAIR if is_gone else {"no": "item"})
        assert jms.create_consumer(ORDERS).receive_nowait() is None


def test_a_body_that_no_deserializer_reads_becomes_a_dead_letter(factory: ConnectionFactory, avro: Any) -> None:
    """MSG-2: the handler fails by it, the next message comes, and the letter keeps its bytes."""
    seen: list[object] = []
    done = threading.Event()
    worker = Worker(factory)

    @worker.handler("orders")
    def ship(message: Message) -> None:
        body: object = message.body
        seen.append(body)
        done.set()

    broken = b"\0" + (99).to_bytes(4) + b"data"
    with factory.create_sender() as sender:
        sender.send(ORDERS, BytesMessage(broken), unit_of_order="joe")
        sender.send(ORDERS, CHAIR, unit_of_order="joe")
        sender.send(ORDERS, BytesMessage(_written_elsewhere(avro)[:5]), unit_of_order="joe")
        worker.start()
        try:
            assert done.wait(20)
            with factory.create_context() as jms:
                letters = [_received(jms, DLQ) for _ in range(2)]
        finally:
            worker.stop()
    assert seen == [CHAIR]
    assert letters[0].data == broken
    for letter in letters:
        with pytest.raises(MessageFormatError, match="deserializer of 'orders-value'"):
            assert letter.body


def test_a_dead_letter_is_read_by_the_queue_that_it_left(factory: ConnectionFactory) -> None:
    """MSG-1: its own queue has no subject."""
    with factory.create_context(AcknowledgeMode.INDIVIDUAL) as jms:
        jms.create_producer().send(ORDERS, CHAIR)
        _received(jms).reject("no such customer")
        assert _received(jms, DLQ).body == CHAIR


def test_a_connection_without_codecs_says_so(factory: ConnectionFactory, request: pytest.FixtureRequest) -> None:
    """MSG-2: an object, of which nobody takes the bytes for the value."""
    with factory.create_context() as jms:
        jms.create_producer().send(ORDERS, CHAIR)
        with ConnectionFactory(f"memory://{request.node.originalname}").create_context() as without:
            got = _received(without)
            with pytest.raises(MessageFormatError, match="ConnectionFactory\\(codecs="):
                assert got.body
            without.create_producer().send(OTHERS, got)
        with pytest.raises(MessageFormatError, match="none of this connection's codecs"):
            assert _received(jms, OTHERS).body


def test_requests_and_replies_are_read(factory: ConnectionFactory) -> None:
    """MSG-1: through `request()` and what a handler returns."""
    worker = Worker(factory)

    @worker.handler("orders")
    def ship(message: Message) -> object:
        return message.body["item"]

    worker.start()
    try:
        with factory.create_connection() as connection, connection.create_session() as session:
            assert session.request(ORDERS, CHAIR, timeout=20).body == "chair"
    finally:
        worker.stop()


def test_json_schema_and_protobuf_are_written_and_read(registry: SchemaRegistryServer) -> None:
    """MSG-1: whatever serializers confluent-kafka has."""
    client = SchemaRegistryClient({"url": registry.url})
    file = FileDescriptorProto(name="order.proto", package="acme", syntax="proto3")
    file.message_type.add(name="Order").field.add(name="item", number=1, type=9, label=1)  # an optional string
    order = GetMessageClass(DescriptorPool().AddSerializedFile(file.SerializeToString()).message_types_by_name["Order"])
    schema = '{"title": "Order", "type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]}'
    codecs: Any = {
        "orders-value": (JSONSerializer(schema, client), JSONDeserializer(schema)),
        "others-value": (
            ProtobufSerializer(order, client),
            ProtobufDeserializer(order, schema_registry_client=client),
        ),
    }
    with ConnectionFactory("memory://more-codecs", codecs=codecs).create_context() as jms:
        jms.create_producer().send(ORDERS, CHAIR)
        assert _received(jms).body == CHAIR
        with pytest.raises(MessageFormatError, match="'item' is a required property"):
            jms.create_producer().send(ORDERS, {})
        jms.create_producer().send(OTHERS, order(**CHAIR))
        assert _received(jms, OTHERS).body == order(**CHAIR)


def test_confluents_own_clients_read_and_write_the_queue(bootstrap: str, kafka_name: str, avro: Any) -> None:
    """MSG-1, MSG-2: on Kafka, in both directions."""
    queue = Queue(kafka_name)
    subject = kafka_name + "-value"
    with ConnectionFactory(bootstrap, codecs={subject: avro}).create_context() as jms:
        jms.create_producer().send(queue, CHAIR)
        settings = {"bootstrap.servers": bootstrap, "group.id": "theirs", "auto.offset.reset": "earliest"}
        theirs = DeserializingConsumer(settings | {"value.deserializer": avro[1]})
        theirs.subscribe([kafka_name])
        try:
            read = theirs.poll(30)
            assert read is not None
            value: object = read.value()
            assert value == CHAIR
        finally:
            theirs.close()
        producer = SerializingProducer({"bootstrap.servers": bootstrap, "value.serializer": avro[0]})
        producer.produce(kafka_name, value={"item": "table"})
        producer.flush()
        consumer = jms.create_consumer(queue)
        bodies = [consumer.receive_body(dict, timeout=20) for _ in range(2)]
        assert sorted(each["item"] for each in bodies if each) == ["chair", "table"]


def test_awaited_sends_and_receives_have_codecs(avro: Any) -> None:
    """MSG-1: in `jbm_kafka.aio`."""

    async def main() -> object:
        factory = aio.ConnectionFactory("memory://aio-codecs", codecs={"orders-value": avro})
        async with factory.create_connection() as connection, connection.create_session() as session:
            producer = await session.create_producer(ORDERS)
            await producer.send(CHAIR)
            consumer = await session.create_consumer(ORDERS)
            message = await consumer.receive(10)
            return None if message is None else await asyncio.to_thread(lambda: message.body)

    assert asyncio.run(main()) == CHAIR


def test_codecs_that_cannot_be_are_refused(avro: Any) -> None:
    """CONN-1: by name, with what is allowed."""
    wrong: list[Any] = [
        {"orders": avro}, {1: avro}, {"orders-value": print}, {"orders-value": (avro[0], avro[0])},
        {"orders-value": object.__new__(AsyncAvroSerializer)}, [avro],
    ]  # fmt: skip
    for codecs in wrong:
        with pytest.raises(InvalidSettingError, match="codecs"):
            ConnectionFactory("memory://wrong", codecs=codecs)
    with pytest.raises(InvalidSettingError, match="make the factory in the child process"):
        pickle.dumps(ConnectionFactory("memory://pickled", codecs={"orders-value": avro}))


def test_one_direction_is_enough_and_bytes_must_come() -> None:
    """MSG-1: a program that only sends gives a serializer alone."""

    class Odd(StringSerializer):
        def __call__(self, obj: Any, ctx: Any = None) -> Any:
            return obj

    codecs: Any = {"orders-value": StringSerializer(), "others-value": Odd(), "text/x": StringDeserializer()}
    with ConnectionFactory("memory://one-way", codecs=codecs).create_context() as jms:
        sent = jms.create_producer().send(ORDERS, "a text")
        with pytest.raises(MessageFormatError, match="has no deserializer"):
            assert sent.body
        with pytest.raises(MessageFormatError, match="not bytes"):
            jms.create_producer().send(OTHERS, "a text")
        jms.create_producer().send(Queue("third"), BytesMessage(b"a text"), headers={"content-type": b"text/x"})
        assert _received(jms, Queue("third")).body == "a text"


def test_the_page_runs(registry: SchemaRegistryServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MSG-1: as printed."""
    monkeypatch.setenv("SCHEMA_REGISTRY_URL", registry.url)
    run_page(read_page((ROOT / "docs/schema-registry.md").read_text()), tmp_path, None)
