"""What an object shows of itself in a debugger and at the prompt: state, destination, mode; never a password."""

from jbm_kafka import NO_UNIT, AcknowledgeMode, ConnectionFactory, Queue

ORDERS = Queue("orders")
INTERNAL = {
    "checks",
    "core",
    "inbox",
    "is made",
    "link",
    "listening",
    "provider",
    "strategy",
    "take_no_other",
    "waiting",
}


def test_objects_showed_their_addresses_in_memory_and_nothing_else() -> None:
    factory = ConnectionFactory("memory://shown", client_id="till-1")
    assert repr(factory) == "<ConnectionFactory memory://shown>"
    with factory.create_connection() as connection:
        assert repr(connection) == "<Connection memory://shown started client_id='till-1'>"
        connection.stop()
        session = connection.create_session(AcknowledgeMode.CLIENT)
        consumer, producer = session.create_consumer(ORDERS), session.create_producer(ORDERS)
        assert repr(connection) == "<Connection memory://shown stopped client_id='till-1'>"
        assert repr(session) == "<Session CLIENT open>"
        assert repr(consumer) == "<MessageConsumer queue:orders CLIENT open>"
        assert repr(producer) == "<MessageProducer queue:orders open>"
        assert repr(session.create_producer()) == "<MessageProducer each send names its destination open>"
        browser = session.create_browser(ORDERS, "JMSPriority > 3")
        assert repr(browser) == "<QueueBrowser queue:orders include='deliverable' selector='JMSPriority > 3' open>"
    assert repr(connection) == "<Connection memory://shown closed client_id='till-1'>"
    assert [repr(each) for each in (session, consumer)] == [
        "<Session CLIENT closed>",
        "<MessageConsumer queue:orders CLIENT closed>",
    ]
    with ConnectionFactory("memory://shown").create_context() as context:
        assert repr(context) == "<Context of <Connection memory://shown started> <Session AUTO open>>"
        told = repr(context.create_producer())
    assert told == "<ContextProducer of <MessageProducer each send names its destination open>>"


def test_a_password_is_not_shown() -> None:
    given = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "me"}
    factory = ConnectionFactory("localhost:1", kafka={**given, "sasl.password": "hunter2"})
    assert repr(factory) == "<ConnectionFactory kafka://localhost:1>"


def test_dir_listed_what_is_not_for_applications() -> None:
    with ConnectionFactory("memory://shown").create_connection() as connection:
        session = connection.create_session()
        consumer, producer = session.create_consumer(ORDERS), session.create_producer(ORDERS)
        for each in (connection, session, consumer, producer):
            assert INTERNAL & set(dir(each)) == set(), each
        assert {"receive", "set_listener", "destination", "prefetch"} <= set(dir(consumer))
        assert {"send", "priority", "unit_of_order"} <= set(dir(producer))
        producer.unit_of_order = NO_UNIT
