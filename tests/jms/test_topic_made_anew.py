"""Topics that are made anew, or get more partitions, while they are used, on a real broker."""

import time
from collections.abc import Callable

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from jbm_kafka import AcknowledgeMode, ConnectionFactory, Queue
from jbm_kafka.admin import Admin, Rule
from jbm_kafka.core.jms_errors import InvalidDestinationError, OrderError
from jbm_kafka.devbroker import LocalBroker
from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.producer import MessageProducer
from tests.jms.support import SOON_S, bodies, receive, receive_all, send
from tests.support.topics import create_topic, delete_topics
from tests.support.waiting import wait_until

pytestmark = pytest.mark.thorough


def test_a_live_consumer_gets_all_of_a_topic_made_anew(
    bootstrap: str, connect: Callable[..., Connection], orders: Queue
) -> None:
    """Of LOG-4: also when the new topic has outgrown the old position before the next fetch."""
    create_topic(bootstrap, orders.name)
    with connect() as connection, connection.create_session(AcknowledgeMode.AUTO) as session:
        send(session, orders, "old 0", "old 1")
        consumer = session.create_consumer(orders)
        receive_all(consumer, 2)
        assert consumer.receive(0.2) is None
        delete_topics(bootstrap, [orders.name])
        create_topic(bootstrap, orders.name)
        sent = [f"new {n}" for n in range(6)]
        # One that knows nothing of the old topic.
        producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
        for body in sent:
            producer.produce(orders.name, body.encode(), partition=0, headers={"JBMBody": b"text"})
        assert producer.flush(SOON_S) == 0
        found: list[object] = []
        while "new 0" not in found:
            found += bodies([receive(consumer)])
        assert [found[-1], *bodies(receive_all(consumer, 5))] == sent


def test_a_topic_made_anew_after_its_broker_had_restarted_was_never_read_again(
    dedicated_broker: Callable[[], LocalBroker], kafka_name: str
) -> None:
    """Of LOG-4: librdkafka took its leaders for outdated, and the worker waited in silence until it was restarted."""
    orders, broker = Queue(kafka_name), dedicated_broker()
    factory = ConnectionFactory(broker.bootstrap, session_timeout_ms=6_000)
    with factory.create_connection() as connection, connection.create_session() as session:
        consumer = session.create_consumer(orders)
        send(session, orders, "old 0")
        assert receive(consumer).body == "old 0"
        assert consumer.receive(0.2) is None
        _wait_recorded(broker.bootstrap, orders)
        broker.kill()
        broker.start()
        send(session, orders, "old 1")
        assert receive(consumer).body == "old 1"
        assert consumer.receive(0.2) is None
        _wait_recorded(broker.bootstrap, orders)
        delete_topics(broker.bootstrap, [orders.name])
        create_topic(broker.bootstrap, orders.name, partitions=16)
        send(session, orders, "new")
        assert receive(consumer).body == "new"


def _wait_recorded(bootstrap: str, queue: Queue) -> None:
    """Nothing is owed any more: what was acknowledged is in Kafka, and a broker that takes long to come back may cost
    the worker its partitions, but none of it comes again."""
    with Admin(bootstrap) as ours:
        wait_until(lambda: ours.counts(queue).held == 0, about="what was acknowledged, recorded", timeout_s=SOON_S)


def test_partitions_added_with_kafkas_own_tool_split_no_unit_between_old_and_new_senders(
    bootstrap: str, connect: Callable[..., Connection], orders: Queue
) -> None:
    """Of UNIT-11: refused until they are admitted, which moves no unit of which anything is held."""
    with connect() as connection, connection.create_session(AcknowledgeMode.AUTO) as session:
        producer = session.create_producer(orders)
        assert _is_sent(producer)
        count = 1
        admin = AdminClient({"bootstrap.servers": bootstrap})  # named: its futures fail as soon as nobody holds it
        admin.create_partitions([NewPartitions(orders.name, 5)])[orders.name].result()
        end_s = time.monotonic() + SOON_S
        while time.monotonic() < end_s and _is_sent(producer):
            count += 1
        with pytest.raises(OrderError, match=f"jbm-kafka admit-partitions {orders.name}"):
            producer.send("refused", unit_of_order="u")
        producer.send("without a unit")
        with Admin(bootstrap) as ours:
            # `show` and `explain` said not a word.
            assert ours.counts(orders).unit_partitions == 2
            assert ours.explain(orders).reasons[0].rule is Rule.NOT_ADMITTED
            assert ours.admit_partitions(orders, wait_s=0) == (2, 5)
            assert ours.counts(orders).unit_partitions == 5
            assert all(reason.rule is not Rule.NOT_ADMITTED for reason in ours.explain(orders).reasons)
            wait_until(lambda: _is_sent(producer), about="a send that is not refused", timeout_s=SOON_S)
            assert ours.counts(orders).misplaced == 0
            consumer = session.create_consumer(orders)
            found = receive_all(consumer, count + 2)
            assert len({m.kafka.partition for m in found if m.unit_of_order is not None and m.kafka is not None}) == 1


def _is_sent(producer: MessageProducer) -> bool:
    try:
        producer.send("a step", unit_of_order="u")
    except OrderError:
        return False
    return True


def test_show_counts_units_that_a_plain_librdkafka_producer_put_elsewhere(bootstrap: str, orders: Queue) -> None:
    """Of UNIT-17: its own partitioner is CRC32."""
    with Admin(bootstrap) as ours:
        ours.create_queue(orders.name, partitions=4)
        producer = Producer({"bootstrap.servers": bootstrap})
        right = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random"})
        for n in range(40):
            producer.produce(orders.name, b"", key=f"unit-{n}")
            right.produce(orders.name, b"", key=f"ours-{n}")
        assert producer.flush(SOON_S) == right.flush(SOON_S) == 0
        counts = ours.counts(orders)
        assert counts.held == 80
        assert 10 < counts.misplaced <= 40


def test_a_consumer_that_is_open_when_its_topic_is_deleted_waited_in_silence(
    bootstrap: str, connect: Callable[..., Connection], orders: Queue, caplog: pytest.LogCaptureFixture
) -> None:
    """librdkafka says nothing, and its group gives the partitions away: nothing came, and no line said why."""
    create_topic(bootstrap, orders.name)
    with connect() as connection, connection.create_session(AcknowledgeMode.AUTO) as session:
        consumer = session.create_consumer(orders)
        assert consumer.receive(_KNOWN_FOR_LONG_S) is None
        delete_topics(bootstrap, [orders.name])
        found = wait_until(lambda: _told(caplog, "exist"), about="a line", timeout_s=SOON_S)
        assert found[0].startswith(f"{orders}: its topic {orders.name} does not exist any more")
        create_topic(bootstrap, orders.name)
        send(session, orders, "new")
        assert bodies([receive(consumer)]) == ["new"]
        wait_until(lambda: len(_told(caplog, "exist")) > 1, about="a line that it is over", timeout_s=SOON_S)
        assert _told(caplog, "exist") == [
            *found,
            f"{orders}: its topic {orders.name} exists again",
        ]


def test_a_consumer_that_is_open_when_its_topic_is_deleted_soon_after_it_was_made_waits(
    bootstrap: str,
    connect: Callable[..., Connection],
    orders: Queue,
    kafka_name: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """`receive` raised that its topic was deleted, and its process ended; others of the queue went on. A consumer that
    is made while the topic is missing is refused still."""
    create_topic(bootstrap, orders.name)
    with connect(namespace=kafka_name, auto_create=False) as connection, connection.create_session() as session:
        consumer = session.create_consumer(orders)
        delete_topics(bootstrap, [orders.name])
        wait_until(lambda: consumer.receive(0.5) is None and _told(caplog, "exist"), about="a line", timeout_s=SOON_S)
        with pytest.raises(InvalidDestinationError, match="there is no Kafka topic"):
            connection.create_session().create_consumer(orders)
        create_topic(bootstrap, orders.name)
        send(session, orders, "new")
        assert bodies([receive(consumer)]) == ["new"]


def test_a_topic_deleted_again_and_again_ends_no_receiver(
    bootstrap: str, connect: Callable[..., Connection], orders: Queue
) -> None:
    """Whatever moment the deletion hits: the assignment, its recovery, an acknowledgement, a checkpoint."""
    create_topic(bootstrap, orders.name)
    with connect() as connection, connection.create_session() as sending:
        session = connection.create_session(AcknowledgeMode.AUTO)
        consumer, producer = session.create_consumer(orders), sending.create_producer(orders)
        for round_number in range(8):
            got: set[object] = set()
            body = f"m{round_number}"
            end_s = time.monotonic() + SOON_S
            while body not in got and time.monotonic() < end_s:
                try:
                    producer.send(body)
                except InvalidDestinationError:
                    continue  # the next one makes it
                if (message := consumer.receive(0.2)) is not None:
                    got.add(message.body)
            assert body in got
            delete_topics(bootstrap, [orders.name])


_KNOWN_FOR_LONG_S = 4.0
"""Of a topic that it found less than 3 s ago librdkafka does tell that it is gone."""


def _told(caplog: pytest.LogCaptureFixture, word: str) -> list[str]:
    return [row.getMessage() for row in caplog.records if row.name == "jbm_kafka.partitions" and word in row.msg]
