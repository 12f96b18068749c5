"""What a queue or subscription holds, computed by Spark, is what the product itself shows, to the message."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from pyspark.sql import SparkSession

from jbm_kafka import AcknowledgeMode, AddressSettings, ConnectionFactory, Queue, Topic, XAConnectionFactory
from jbm_kafka.admin import Admin
from jbm_kafka.core.jms_errors import InvalidDestinationError
from jbm_spark.changelog import held
from jbm_spark.views import create_views
from tests.support.topics import admin_client, delete_topics
from tests.support.waiting import wait_until

pytestmark = pytest.mark.thorough

PARTITIONS = 2


@pytest.fixture
def queue(bootstrap: str, kafka_name: str) -> Iterator[Queue]:
    """Of two partitions, with a dead-letter queue of its own."""
    name = Queue(kafka_name)
    yield name
    with Admin(bootstrap) as admin:
        for each in (name, Queue(f"{kafka_name}-DLQ")):
            if admin.exists(each):
                admin.delete_destination(each, force=True)


def factory(bootstrap: str, queue: Queue, **settings: object) -> ConnectionFactory:
    chosen = AddressSettings(dead_letter_address=f"{queue.name}-DLQ", partitions=PARTITIONS, **settings)  # type: ignore[arg-type]
    return ConnectionFactory(bootstrap, address_settings={queue.name: chosen}, block_on_acknowledge=True)


def send(bootstrap: str, queue: Queue, count: int) -> None:
    with factory(bootstrap, queue).create_connection() as connection:
        producer = connection.create_session().create_producer(queue)
        for number in range(count):
            producer.send(f"m{number}", unit_of_order=f"u{number % 5}" if number % 3 else None)
        producer.send("late", delivery_delay_ms=600_000)
        producer.send("gone", time_to_live_ms=1)


def park(bootstrap: str, queue: Queue) -> None:
    """All but what waits leaves the log; what waits is in the changelog alone."""
    waits = AddressSettings(partitions=PARTITIONS, truncate="settled")
    made = ConnectionFactory(bootstrap, address_settings={queue.name: waits})
    quick = replace(made._installation.config, park_look_ms=200, truncate_look_ms=200)
    made._installation = replace(made._installation, config=quick)
    with made.create_connection() as connection, Admin(bootstrap) as admin:
        session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
        producer, consumer = session.create_producer(queue), session.create_consumer(queue)
        connection.start()
        producer.send("late", unit_of_order="u", delivery_delay_ms=600_000, properties={"kind": "late"})
        producer.send("behind it", unit_of_order="u", headers={"raw": b"1"})
        for number in range(200):
            producer.send(str(number), unit_of_order=f"v{number % 20}")
        for _ in range(200):
            message = consumer.receive(30)
            assert message is not None
            message.acknowledge()
        kafka, parts = admin._core.admin, list(range(PARTITIONS))
        ends = kafka.end_positions(queue.name, parts, stable=True)
        wait_until(lambda: kafka.begin_positions(queue.name, parts) == ends, about="an empty log", timeout_s=60)


def work(bootstrap: str, queue: Queue, **settings: object) -> None:
    """Acknowledges two of three, and gives one back: at once or with a delay, once or until it is given up."""
    with factory(bootstrap, queue, **settings).create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
        consumer = session.create_consumer(queue)
        connection.start()
        for number in range(20):
            message = consumer.receive(30)
            assert message is not None
            if number % 3 == 2:
                message.nack(delay_ms=600_000 if number % 2 else 0)
            else:
                message.acknowledge()


def assert_as_shown(spark: SparkSession, bootstrap: str, queue: Queue) -> Counter[str]:
    """Message by message, and in numbers; the states."""
    found = held(spark, queue, bootstrap=bootstrap).collect()
    with Admin(bootstrap) as admin:
        shown = [(place.partition, place.offset, each.message_id, each.delivery_count)
                 for each in admin.browse(queue, include="all") if (place := each.kafka) is not None]  # fmt: skip
        counts = admin.counts(queue)
    computed = [(row.kafka.partition, row.kafka.offset, row.message_id, row.attempts) for row in found]
    assert sorted(computed) == sorted(shown)
    states = Counter(row.state for row in found)
    assert states["ready"] == counts.ready
    assert (states["delayed"], states["on hold"], states["expired"]) == (
        counts.delayed,
        counts.for_operator,
        counts.expired,
    )
    return states


def reset(bootstrap: str, queue: Queue, *positions: int) -> None:
    """As Kafka's tools do it, when the last receiver is gone."""
    admin, group = admin_client(bootstrap), queue.group_id()
    wanted = [TopicPartition(queue.name, part, position) for part, position in enumerate(positions)]
    wait_until(lambda: not admin.describe_consumer_groups([group])[group].result(30).members,
               about="the group to be empty", timeout_s=60)  # fmt: skip
    for future in admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, wanted)]).values():
        future.result(30)


def test_a_queue_holds_for_spark_what_show_shows(spark: SparkSession, bootstrap: str, queue: Queue) -> None:
    """LOG-3: with returned, delayed, expired and given-up messages; after a reset; before any use."""
    with Admin(bootstrap) as admin:
        admin.create_queue(queue, partitions=PARTITIONS)
        send(bootstrap, queue, 40)
        wait_until(lambda: admin.counts(queue).expired == 1, about="one to expire", timeout_s=60)
    assert assert_as_shown(spark, bootstrap, queue)["expired"] == 1  # nobody has received: there is no position
    work(bootstrap, queue, max_delivery_attempts=2)
    states = assert_as_shown(spark, bootstrap, queue)
    assert min(states["delayed"], states["behind"]) > 1, states
    reset(bootstrap, queue, 3, 1_000)  # back, and forward
    assert_as_shown(spark, bootstrap, queue)


def test_what_is_parked_is_held_though_the_log_has_it_no_more(
    spark: SparkSession, bootstrap: str, queue: Queue
) -> None:
    """LOG-3, LOG-8."""
    with Admin(bootstrap) as admin:
        admin.create_queue(queue, partitions=PARTITIONS)
    park(bootstrap, queue)
    assert assert_as_shown(spark, bootstrap, queue) == Counter(delayed=1, behind=1)
    rows = {row.body_text: row for row in held(spark, queue, bootstrap=bootstrap, raw=True).collect()}
    assert rows["late"].properties == {"kind": "late"}
    assert [(each.key, bytes(each.value)) for each in rows["behind it"].kafka.headers if each.key == "raw"] == [
        ("raw", b"1")
    ]
    reset(bootstrap, queue, 1_000, 1_000)
    assert assert_as_shown(spark, bootstrap, queue) == Counter(delayed=1, behind=1)


def test_what_a_branch_has_is_shown_as_prepared(spark: SparkSession, bootstrap: str, queue: Queue) -> None:
    """LOG-3, of ACK-10: until the branch is decided; what comes behind it in its unit is behind."""
    with Admin(bootstrap) as admin:
        admin.create_queue(queue, partitions=PARTITIONS)
    send(bootstrap, queue, 40)
    with XAConnectionFactory(bootstrap).create_xa_connection() as connection:
        session = connection.create_xa_session()
        session.tpc_begin(session.xid(1, queue.name, "b"))
        receiver = session.create_consumer(queue)
        messages = [receiver.receive(timeout=30) for _ in range(3)]
        session.tpc_prepare()
        rows = held(spark, queue, bootstrap=bootstrap).collect()
        found = {row.message_id: (row.state, row.unit_of_order) for row in rows}
        ids = {each.message_id for each in messages if each is not None}
        assert {key for key, (state, _) in found.items() if state == "prepared"} == ids
        assert len(ids) == 3
        units = {found[each][1] for each in ids} - {None}
        assert {state for key, (state, unit) in found.items() if unit in units and key not in ids} == {"behind"}
        session.tpc_rollback()
        wait_until(
            lambda: held(spark, queue, bootstrap=bootstrap).where("state = 'prepared'").isEmpty(),
            about="the branch to be carried out", timeout_s=60,
        )  # fmt: skip


def test_a_queue_made_anew_holds_nothing_of_the_old_one(spark: SparkSession, bootstrap: str, queue: Queue) -> None:
    """LOG-3: its group and its changelog were not deleted with it."""
    with Admin(bootstrap) as admin:
        admin.create_queue(queue, partitions=PARTITIONS)
    send(bootstrap, queue, 20)
    work(bootstrap, queue)
    delete_topics(bootstrap, [queue.name])
    with Admin(bootstrap) as admin:
        admin.create_queue(queue, partitions=PARTITIONS)
    send(bootstrap, queue, 30)
    assert sum(assert_as_shown(spark, bootstrap, queue).values()) == 32
    work(bootstrap, queue, max_delivery_attempts=1, on_dead_letter="hold")
    assert assert_as_shown(spark, bootstrap, queue)["on hold"] > 0


def test_a_frame_goes_with_the_receivers(spark: SparkSession, bootstrap: str, queue: Queue) -> None:
    """LOG-3: a frame that was made before they worked does not show what they have acknowledged since; where that is
    deleted, it failed."""
    with Admin(bootstrap) as admin:
        admin.create_queue(queue, partitions=PARTITIONS)
    send(bootstrap, queue, 40)
    create_views(spark, queue, bootstrap=bootstrap, dead_letters=f"{queue.name}-DLQ", prefix="seen_")
    assert spark.sql("select * from seen_held").count() == 42
    assert spark.sql("select * from seen_letters").count() == 0  # nobody has made that queue
    work(bootstrap, queue, max_delivery_attempts=1)
    with Admin(bootstrap) as admin:
        assert spark.sql("select * from seen_held").count() == admin.counts(queue).held < 30
        assert admin.truncate(queue).deletable > 0
        assert spark.sql("select * from seen_held").count() == admin.counts(queue).held
        create_views(spark, queue, bootstrap=bootstrap, dead_letters=f"{queue.name}-DLQ", prefix="seen_")
        letters = spark.sql("select * from seen_letters").collect()
        assert len(letters) == admin.counts(f"{queue.name}-DLQ").held > 0
    fates = spark.sql("select * from seen_events where fate = 'dead-lettered'").collect()
    assert {(row.partition, row.offset) for row in fates} == {(x.origin_partition, x.origin_offset) for x in letters}


def test_a_subscription_holds_for_spark_what_it_holds(spark: SparkSession, bootstrap: str, kafka_name: str) -> None:
    """LOG-3: not what came before it, nor what its selector leaves out."""
    topic = Topic(kafka_name)
    connection = ConnectionFactory(bootstrap, block_on_acknowledge=True).create_connection()
    with connection, Admin(bootstrap) as admin:
        admin.create_topic(topic, partitions=PARTITIONS)
        session = connection.create_session()
        producer = session.create_producer(topic)
        producer.send("before", properties={"n": 9})
        consumer = session.create_shared_durable_consumer(topic, "audit", "n > 2")
        for number in range(6):
            producer.send(str(number), properties={"n": number})
        connection.start()
        message = consumer.receive(30)
        assert message is not None
        consumer.close()
        session.close()
        found = held(spark, topic, bootstrap=bootstrap, subscription="audit")
        shown = admin.browse(topic, subscription="audit", include="all")
        assert sorted(row.body_text for row in found.collect()) == sorted(str(each.body) for each in shown) != []
        with pytest.raises(InvalidDestinationError, match="nobodys"):
            held(spark, topic, bootstrap=bootstrap, subscription="nobodys")
        connection.close()
        admin.unsubscribe("audit")
        admin.delete_destination(topic, force=True)
