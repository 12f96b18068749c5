"""A user's program with annotations, checked by tests/jms/test_typed_program.py; it is not run."""

from collections.abc import Iterator

from jbm_kafka import (
    NO_UNIT,
    SYSTEM_GENERATED,
    AcknowledgeMode,
    AddressSettings,
    BytesMessage,
    CompletionListener,
    Connection,
    ConnectionFactory,
    ConnectionMetadata,
    Context,
    ContextProducer,
    DeliveryMode,
    Destination,
    ExceptionListener,
    KafkaView,
    MapMessage,
    Message,
    MessageConsumer,
    MessageListener,
    MessageProducer,
    MessageState,
    ObjectMessage,
    Queue,
    QueueBrowser,
    Session,
    StreamMessage,
    TextMessage,
    Topic,
    __version__,
    errors,
    register_object_codec,
)
from jbm_kafka.admin import Admin, QueueCounts


class Parcel:
    def __init__(self, to: str) -> None:
        self.to = to

    def to_bytes(self) -> bytes:
        return self.to.encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> "Parcel":
        return cls(data.decode())


register_object_codec("parcel-v1", encode=Parcel.to_bytes, decode=Parcel.from_bytes)


def on_error(error: Exception) -> None:
    print(error)


def on_message(message: Message) -> None:
    if isinstance(message, TextMessage) and message.body is not None:
        print(message.body.upper(), message.properties["region"], message.unit_of_order)
    elif isinstance(message, BytesMessage):
        print(message.body.hex(), message.get_int_property("n") + 1)
        print(message.read_int() + message.body_length, message.read_utf().upper(), message.read_bytes(10).hex())
    elif isinstance(message, MapMessage):
        print(message.body["item"], message.get_int("qty") + 1, message.names[0].upper())
    elif isinstance(message, StreamMessage):
        print(message.body[0], message.read_char().upper(), message.read_bytes(10) or b"")
    elif isinstance(message, ObjectMessage):
        parcel: Parcel | None = message.get_body(Parcel)
        lines: list[dict[str, int]] = message.body
        print(parcel, lines[0]["qty"] + 1, message.codec.upper(), message.data.hex())
    print(message.is_body_assignable_to(str), message.get_body(dict))


def on_jms_error(error: errors.JMSError) -> None:
    print(error.values, (error.destination or "").upper(), error.message_ids or ())
    if isinstance(error, errors.ConnectionFailedError) and error.bootstrap is not None:
        print(error.bootstrap.upper(), error.strerror)


def on_sent(message: Message, error: errors.JMSError | None) -> None:
    print(message.message_id, error)


ON_MESSAGE: MessageListener = on_message
ON_ERROR: ExceptionListener = on_jms_error
ON_SENT: CompletionListener = on_sent


def where(message: Message) -> tuple[Destination | None, int]:
    view: KafkaView | None = message.kafka
    state: MessageState | None = message.state
    print(state is MessageState.DELIVERED)
    return message.reply_to or message.destination, -1 if view is None else view.offset


def connect(factory: ConnectionFactory) -> Connection:
    connection: Connection = factory.create_connection()
    connection.exception_listener = on_error
    connection.exception_listener = ON_ERROR
    metadata: ConnectionMetadata = connection.metadata
    print(metadata.provider_version, __version__)
    return connection


def produce(session: Session, queue: Queue) -> None:
    producer: MessageProducer = session.create_producer(queue)
    producer.unit_of_order, producer.delivery_mode, producer.priority = "joe", DeliveryMode.NON_PERSISTENT, 9
    sent: Message = producer.send("a", properties={"region": "EU", "n": 1}, unit_of_order=NO_UNIT)
    producer.send(b"b", on_completion=print, time_to_live_ms=1000)
    producer.send(b"b", on_completion=ON_SENT)
    print(sent.message_id)
    packed = session.create_bytes_message()
    packed.write_int(5)
    packed.write_utf("a")
    producer.send(packed)
    producer.send({"item": "chair", "qty": 3})
    producer.send(session.create_stream_message([1, "b"]))
    producer.send(session.create_object_message([{"qty": 3}]))
    producer.send(ObjectMessage(Parcel("a"), codec="parcel-v1"))


def consume(session: Session, queue: Queue) -> Iterator[str]:
    consumer: MessageConsumer = session.create_consumer(queue)
    message: Message | None = consumer.receive(timeout=1)
    if message is not None:
        message.nack(delay_ms=100)
    body: str | None = consumer.receive_body(str, timeout=0.5)
    if body is not None:
        yield body
    parcel: Parcel | None = consumer.receive_body(Parcel, timeout=0.5)
    print(parcel and parcel.to)
    consumer.set_listener(on_message)
    consumer.set_listener(ON_MESSAGE)
    browser: QueueBrowser = session.create_browser(queue, include="all")
    for seen in browser:
        yield str(seen.body)


def main() -> None:
    factory = ConnectionFactory(
        "localhost:9092",
        kafka={"security.protocol": "SSL"},
        address_settings={"#": AddressSettings(max_delivery_attempts=3, default_unit_of_order=SYSTEM_GENERATED)},
        prefetch=10,
    )
    with connect(factory) as connection, connection.create_session(AcknowledgeMode.TRANSACTED) as session:
        orders: Queue = session.create_queue("orders")
        with session.transaction():
            produce(session, orders)
        try:
            print(*consume(session, orders))
        except errors.JMSError as error:
            print(error, error.values)
    context: Context
    with factory.create_context() as context:
        sender: ContextProducer = context.create_producer()
        sender.send(orders, "a", priority=3)
    with Admin("localhost:9092") as admin:
        counts: QueueCounts = admin.counts("orders")
        admin.expire("orders", everything=True, expiry_address=Topic("expired"))
        admin.send_to_dead_letter("orders", unit="joe", dead_letter_address=Queue("DLQ"))
        print(counts.held + 1)


if __name__ == "__main__":
    main()
