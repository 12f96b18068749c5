"""Bad input: one clear line each, nothing lost."""

import logging
from pathlib import Path

import pytest
from confluent_kafka import Producer

from jbm_kafka import AcknowledgeMode, AddressSettings, ConnectionFactory, Queue, errors
from jbm_kafka.core.murmur2 import partition_for
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
    ["localhost", "amqp://", 9092, None, "memory:shop", "memory://"],
)
def test_a_wrong_url_is_refused_with_an_example(url: object) -> None:
    with pytest.raises(errors.InvalidSettingError, match=r"host:port|localhost:9092|memory://"):
        ConnectionFactory(url)  # type: ignore[arg-type]


def test_an_unknown_setting_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'retries'"):
        ConnectionFactory("127.0.0.1:9092", retries=3)  # type: ignore[call-arg]


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
@pytest.mark.parametrize("key", ["afterwards|0", "afterwards|xid-1%7C2|x", "held|0"])
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
