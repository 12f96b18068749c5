"""Bad input: one clear line each, nothing lost."""

import logging
from pathlib import Path

import pytest
from confluent_kafka import Producer

from jbm_kafka import AcknowledgeMode, AddressSettings, ConnectionFactory, Queue, TextMessage, errors
from jbm_kafka.core.destination import Topic
from jbm_kafka.core.murmur2 import partition_for
from jbm_kafka.devbroker.ports import free_port
from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.session import Session
from tests.jms.conftest import make_factory
from tests.jms.support import NOTHING_S, receive, send
from tests.support.chaos_topics import read_committed


def one_line(error: pytest.ExceptionInfo[BaseException]) -> str:
    text = str(error.value)
    assert "\n" not in text
    assert "Traceback" not in text
    assert "KafkaError{" not in text
    return text


def test_an_unreachable_broker_is_named(free: int) -> None:
    with pytest.raises(errors.JMSError) as refused:
        ConnectionFactory(f"127.0.0.1:{free}").create_connection()
    assert f"127.0.0.1:{free}" in one_line(refused)


@pytest.fixture
def free() -> int:
    return free_port()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"kafka": {"sesion.timeout.ms": 1}}, "sesion.timeout.ms"),
        ({"kafka": {"group.id": "mine"}}, "group.id"),
        ({"kafka": {"socket.timeout.ms": "soon"}}, "socket.timeout.ms"),
        ({"session_timeout_ms": "10s"}, "session_timeout_ms"),
        ({"session_timeout_ms": 1}, "milliseconds"),
        ({"checkpoint_interval_ms": 0.5}, "checkpoint_interval_ms"),
        ({"memory_budget_bytes": 256}, "bytes"),
        ({"prefetch": 0}, "prefetch"),
        ({"prefetch": True}, "prefetch"),
        ({"auto_create": "yes"}, "True or False"),
        ({"block_on_acknowledge": 1}, "True or False"),
        ({"persist_delivery_count_before_delivery": None}, "True or False"),
        ({"default_unit_of_order": ""}, "default_unit_of_order"),
        ({"namespace": "a b"}, "namespace"),
        ({"namespace": None}, "namespace"),
        ({"client_id": 7}, "client_id"),
        ({"state_dir": 7}, "state_dir"),
        ({"kafka": "security"}, "kafka"),
        ({"address_settings": {"#": {"max_delivery_attempts": 3}}}, "AddressSettings"),
        ({"address_settings": {"a*.b": AddressSettings()}}, "a*.b"),
        ({"address_settings": [1]}, "address_settings"),
    ],
)
def test_a_wrong_setting_is_named_with_its_remedy(options: dict[str, object], said: str) -> None:
    with pytest.raises(errors.InvalidSettingError) as refused:
        ConnectionFactory("127.0.0.1:9092", **options)  # type: ignore[arg-type]
    assert said in one_line(refused)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost",
        "http://localhost:9092",
        "amqp://localhost:5672",
        9092,
        None,
        "a b:1",
        "memory:shop",
        "memory://",
    ],
)
def test_a_wrong_url_is_refused_with_an_example(url: object) -> None:
    with pytest.raises(errors.InvalidSettingError, match=r"host:port|localhost:9092|memory://"):
        ConnectionFactory(url)  # type: ignore[arg-type]


@pytest.mark.parametrize("port", [0, 65_536, 99_999, 10**12])
def test_a_port_that_is_none_is_refused(port: int) -> None:
    with pytest.raises(errors.InvalidSettingError, match=f"{port} is not a port"):
        ConnectionFactory(f"localhost:9092,other:{port}")


def test_an_unknown_setting_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'retries'"):
        ConnectionFactory("127.0.0.1:9092", retries=3)  # type: ignore[call-arg]


@pytest.mark.parametrize("name", ["", "a b", "x" * 201, "jbm.mine", "a.jbm-changelog", "ö", ".", ".."])
def test_an_illegal_queue_name_is_refused(session: Session, name: str) -> None:
    with pytest.raises(errors.InvalidDestinationError) as refused:
        session.create_queue(name)
    one_line(refused)


@pytest.mark.parametrize("is_of_message", [True, False])
@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("correlation_id", 5, errors.MessageFormatError),
        ("type", 5, errors.MessageFormatError),
        ("type", b"t", errors.MessageFormatError),
        ("duplicate_id", 5, errors.MessageFormatError),
        ("properties", [1], errors.MessageFormatError),
        ("reply_to", "abc", errors.InvalidDestinationError),
        ("reply_to", 5, errors.InvalidDestinationError),
        ("on_completion", 5, errors.InvalidSettingError),
    ],
)
def test_what_no_record_can_carry_is_refused_and_nothing_is_sent(
    connection: Connection, orders: Queue, name: str, value: object, error: type[errors.JMSError], is_of_message: bool
) -> None:
    message = TextMessage("a")
    options = {name: value}
    if is_of_message and name in ("correlation_id", "type", "reply_to"):
        with pytest.raises(error) as refused:
            setattr(message, name, options.pop(name))
        assert f"{name} is {value!r}: it is a" in one_line(refused)
        return
    for mode in (AcknowledgeMode.AUTO, AcknowledgeMode.TRANSACTED):
        session = connection.create_session(mode)
        with pytest.raises(error) as refused:
            session.create_producer(orders).send(message, **options)  # type: ignore[arg-type]
        assert f"{name} is {value!r}: it is a" in one_line(refused)
        if session.transacted:
            session.commit()
    assert connection.create_session().create_consumer(orders).receive(NOTHING_S) is None


def test_what_is_no_listener_is_refused_and_consumes_nothing(session: Session, orders: Queue) -> None:
    send(session, orders, "a")
    consumer = session.create_consumer(orders)
    with pytest.raises(errors.InvalidSettingError, match="listener is 5: it is a function"):
        consumer.set_listener(5)  # type: ignore[arg-type]
    assert receive(consumer).delivery_count == 1


@pytest.mark.parametrize("value", [7, None, b"billing"])
def test_a_client_id_that_is_no_text_is_refused(warm: ConnectionFactory, value: object) -> None:
    connection = warm.create_connection()
    with pytest.raises(errors.InvalidClientIDError, match=f"client_id is {value!r}: it is a str"):
        connection.client_id = value  # type: ignore[assignment]
    assert connection.client_id is None
    connection.close()


def test_names_that_collide_in_kafka_are_refused(session: Session, orders: Queue) -> None:
    session.create_producer(Queue(f"{orders.name}.eu"))
    with pytest.raises(errors.InvalidDestinationError, match="collide"):
        session.create_producer(Queue(f"{orders.name}_eu"))


@pytest.mark.kafka_only
@pytest.mark.parametrize("session_timeout_ms", [200, 3_600_000])
def test_a_session_timeout_that_the_brokers_refuse_is_told_with_their_limits(
    bootstrap: str, orders: Queue, session_timeout_ms: int
) -> None:
    factory = make_factory(bootstrap, namespace=orders.name[-12:], session_timeout_ms=session_timeout_ms)
    with factory.create_connection() as connection, pytest.raises(errors.InvalidSettingError) as refused:
        connection.create_session().create_consumer(orders)
    limits = f"session_timeout_ms is {session_timeout_ms}: the brokers at {bootstrap} take 1500 to 1800000"
    assert limits in one_line(refused)
    assert refused.value.value == session_timeout_ms


@pytest.mark.kafka_only
def test_a_missing_queue_that_must_not_be_made_is_told_with_the_command_that_makes_it(bootstrap: str) -> None:
    with make_factory(bootstrap, namespace="missing", auto_create=False).create_connection() as connection:
        session = connection.create_session()
        for call in (session.create_producer, session.create_consumer):
            with pytest.raises(errors.InvalidDestinationError, match="jbm-kafka create nosuch") as refused:
                call(Queue("nosuch"))
            one_line(refused)


def test_what_this_version_has_not_is_said_so(connection: Connection, session: Session, orders: Queue) -> None:
    with pytest.raises(errors.IllegalStateError, match="topics"):
        session.create_consumer(orders, no_local=True)
    with pytest.raises(errors.InvalidDestinationError, match="queues only"):
        session.create_browser(Topic("prices"))  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidDestinationError, match=r"only topics have subscriptions, use Topic"):
        session.create_shared_consumer(orders, "team")  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidDestinationError, match=r"use Topic\('prices'\)"):
        session.create_shared_durable_consumer("prices", "team")  # type: ignore[arg-type]
    for name in ("", "x" * 201, 5):
        with pytest.raises(errors.InvalidSettingError, match="a subscription's name is a str of 1 to 200 characters"):
            session.create_shared_consumer(Topic("prices"), name)  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidDestinationError, match=r"use Queue\('orders'\)"):
        session.create_producer("orders")  # type: ignore[arg-type]


@pytest.mark.kafka_only
def test_a_state_folder_in_use_or_of_another_installation_is_refused(bootstrap: str, tmp_path: Path) -> None:
    folder = tmp_path / "state"
    with make_factory(bootstrap, state_dir=str(folder), namespace="test-one").create_connection():
        pass
    with pytest.raises(errors.JMSError, match="test-one") as refused:
        make_factory(bootstrap, state_dir=str(folder), namespace="test-two").create_connection()
    assert str(folder) in one_line(refused)
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(errors.JMSError) as refused:
        make_factory(bootstrap, state_dir=str(tmp_path / "file")).create_connection()
    assert "it is a file; name a folder" in one_line(refused)
    assert refused.value.values["value"] == str(tmp_path / "file")


@pytest.mark.kafka_only
def test_a_corrupt_changelog_record_is_told_and_no_message_is_lost(
    bootstrap: str, orders: Queue, caplog: pytest.LogCaptureFixture
) -> None:
    """LOG-3: what cannot be read is told in one line; the messages are delivered."""
    queue = Queue(f"{orders.name}.one")
    factory = make_factory(bootstrap, namespace="")
    with factory.create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
        send(session, queue, "a", unit="u")
        send(session, queue, "b", unit="v")
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0, "enable.idempotence": True})
    group = queue.group_id("")
    for kind in ("held|0", "settled|0", "position|0"):
        producer.produce(queue.changelog_topic(""), key=f"{group}|{kind}".encode(), value=b"\xc3\x01rubbish")
    assert producer.flush(10) == 0
    with factory.create_connection() as connection:
        consumer = connection.create_session().create_consumer(queue)
        assert {receive(consumer).body, receive(consumer).body} == {"a", "b"}
    warnings = [record.getMessage() for record in caplog.records if queue.changelog_topic("") in record.getMessage()]
    assert warnings
    assert not any("\n" in line for line in warnings)


@pytest.mark.kafka_only
@pytest.mark.parametrize("key", ["parked|0", "prepared|xid-1%7C2|x", "held|0"])
def test_what_a_newer_version_recorded_keeps_its_partition_closed_and_is_not_deleted(
    bootstrap: str, orders: Queue, caplog: pytest.LogCaptureFixture, key: str
) -> None:
    """Of LOG-4: told once, to who waits; the queue's other partition goes on."""
    factory = make_factory(bootstrap, namespace="")
    with factory.create_connection() as connection:
        info = connection._core.provider.ensure(orders)
        assert info.partitions == 2
        session = connection.create_session()
        units = {partition_for(name.encode(), 2): name for name in "abcdef"}
        send(session, orders, "closed", unit=units[0])
        send(session, orders, "open", unit=units[1])
    changelog, full_key = orders.changelog_topic(""), f"{orders.group_id('')}|{key}".encode()
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0, "enable.idempotence": True})
    producer.produce(changelog, partition=0, key=full_key, value=b"\xc3\x01" + b"\x07" * 9)
    assert producer.flush(10) == 0
    with factory.create_connection() as connection:
        session = connection.create_session()
        consumer = session.create_consumer(orders)
        seen, told = [], []
        for _ in range(2):  # in either order: it is told when the receiver would have to wait
            try:
                seen.append(receive(consumer).body)
            except errors.JMSError as error:
                told.append(str(error))
        assert (seen, len(told)) == (["open"], 1)
        send(session, orders, "more", unit=units[1])
        assert receive(consumer).body == "more"
        assert consumer.receive(NOTHING_S) is None
    for said in (f"{changelog}[0] at offset 0", key, "Run the newer jbm-kafka"):
        assert said in told[0]
    assert "\n" not in told[0]
    lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert len([line for line in lines if changelog in line]) == 1
    left = [record for record in read_committed(bootstrap, changelog) if record.partition() == 0]
    assert [record.key() for record in left] == [full_key]


def test_a_failing_exception_listener_harms_nobody(connection: Connection, orders: Queue) -> None:
    def fail(error: Exception) -> None:
        raise RuntimeError("listener")

    connection.exception_listener = fail
    try:
        connection._core.notify_exception(errors.JMSError("told"))
    finally:
        connection.exception_listener = None
    send(connection.create_session(), orders, "a")


def test_messages_that_were_not_received_cannot_be_settled(session: Session, orders: Queue) -> None:
    sent = session.create_producer(orders).send("a")
    for call in (sent.acknowledge, sent.nack):
        with pytest.raises(errors.IllegalStateError, match="not received"):
            call()
